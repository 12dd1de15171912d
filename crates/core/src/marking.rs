//! The encoding of a packet's class and ECN field in the TOS byte of IPv4 or the traffic class byte of IPv6.
//!
//! | class | DSCP | | ECN field | bits |
//! |---|---|---|---|---|
//! | 0 (highest) | CS7 (56) | | not capable | 00 |
//! | 1 | CS6 (48) | | capable | 10, ECT(0); 01 reads as capable too |
//! | … | … | | marked | 11, CE |
//! | 7 | CS0 (0) | | | |
//!
//! The DSCPs are class selectors (RFC 2474, §4.2.2). A switch with the usual table maps a DSCP to queue DSCP / 8 and serves higher queues
//! first, so it needs no configuration. If routing protocols on the network use CS6 and CS7 too, one or the other must be remapped.

use crate::Ecn;

/// The lowest class. Classes with larger numbers are sent as this one.
const CLASS_MAX: u8 = 7;

/// The TOS byte of a class and an ECN field.
pub const fn to_tos(class: u8, ecn: Ecn) -> u8 {
    let selector = CLASS_MAX.saturating_sub(class);
    let ecn = match ecn {
        Ecn::NotCapable => 0b00,
        Ecn::Capable => 0b10,
        Ecn::Marked => 0b11,
    };
    selector << 5 | ecn
}

/// The class and ECN field of a received TOS byte. A DSCP that is not a class selector counts as the next lower selector. So if a network
/// re-marks a packet, the packet loses only its class.
pub const fn from_tos(tos: u8) -> (u8, Ecn) {
    let ecn = match tos & 0b11 {
        0b00 => Ecn::NotCapable,
        0b11 => Ecn::Marked,
        _ => Ecn::Capable,
    };
    (CLASS_MAX - (tos >> 5), ecn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        // RFC 2474: CS7 is 111000, CS1 is 001000; RFC 3168: ECT(0) is 10, CE is 11.
        assert_eq!(to_tos(0, Ecn::NotCapable), 0b1110_0000);
        assert_eq!(to_tos(6, Ecn::Capable), 0b0010_0010);
        assert_eq!(to_tos(7, Ecn::Marked), 0b0000_0011);
        assert_eq!(to_tos(200, Ecn::NotCapable), 0);
        assert_eq!(from_tos(0b0000_0001), (7, Ecn::Capable));
        // Expedited forwarding (46) is not a class selector.
        assert_eq!(from_tos(46 << 2), (2, Ecn::NotCapable));
    }

    #[test]
    fn what_is_sent_reads_back() {
        for class in 0..=CLASS_MAX {
            for ecn in [Ecn::NotCapable, Ecn::Capable, Ecn::Marked] {
                assert_eq!(from_tos(to_tos(class, ecn)), (class, ecn));
            }
        }
    }
}
