//! The wire formats of values, and of what is composed of them.

use crate::{Bytes, Duration, FlowId, Layout, LinkId, NodeId, Rate, Time, Wire};

/// Defines structures and enumerations and their [`Wire`] format: fields follow each other in the order of the definition, and the index
/// of an enumeration's variant precedes its fields. Fields have names.
///
/// Other methods of [`Wire`] follow the definition, such as [`Wire::is_valid`]:
///
/// ```
/// flowloom_core::wire_format! {
///     /// The packets of a scheme.
///     #[derive(Clone, Copy, PartialEq, Eq, Debug)]
///     pub enum Header {
///         /// A piece of the flow.
///         Data {
///             /// The packet's number.
///             number: u32,
///             /// The number of packets of the flow.
///             packets: u32,
///         },
///         /// The receiver has the whole flow.
///         Ack,
///     }
///
///     impl Wire for Header {
///         fn is_valid(&self) -> bool {
///             !matches!(self, Header::Data { number, packets } if number >= packets)
///         }
///     }
/// }
/// use flowloom_core::Wire;
/// assert_eq!(Header::MAX_BYTES, 9);
/// assert_eq!(Header::decode(&[0, 0, 0, 0, 1, 0, 0, 0, 2]), Some((Header::Data { number: 1, packets: 2 }, 9)));
/// assert_eq!(Header::decode(&[0, 0, 0, 0, 2, 0, 0, 0, 2]), None);
/// assert_eq!(Header::decode(&[1]), Some((Header::Ack, 1)));
/// ```
#[macro_export]
macro_rules! wire_format {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $(
                $(#[$of_variant:meta])*
                $variant:ident
                $({ $($(#[$of_field:meta])* $field:ident: $type:ty),* $(,)? })?
            ),* $(,)?
        }
        $(impl Wire for $same:ident { $($method:tt)* })?
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[$of_variant])* $variant $({ $($(#[$of_field])* $field: $type),* })?),*
        }

        const _: () = {
            enum Index {
                $($variant),*
            }

            impl $crate::Wire for $name {
                const LAYOUT: $crate::Layout = $crate::Layout::Choice(&[$($crate::Message {
                    name: stringify!($variant),
                    fields: &[
                        $($($crate::Field { name: stringify!($field), layout: <$type as $crate::Wire>::LAYOUT }),*)?
                    ],
                }),*]);
                const MAX_BYTES: usize = 1 + $crate::wire_format::largest(&[$(
                    0 $($(+ <$type as $crate::Wire>::MAX_BYTES)*)?
                ),*]);

                fn encode(&self, out: &mut [u8]) -> usize {
                    let mut length = 1;
                    match self {
                        $(Self::$variant { $($($field),*)? } => {
                            out[0] = Index::$variant as u8;
                            $($(length += $crate::Wire::encode($field, &mut out[length..]);)*)?
                        })*
                    }
                    length
                }

                fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
                    let mut length = 0;
                    let index: u8 = $crate::wire_format::take(bytes, &mut length)?;
                    $(if index == Index::$variant as u8 {
                        let value = Self::$variant {
                            $($($field: $crate::wire_format::take(bytes, &mut length)?),*)?
                        };
                        return $crate::Wire::is_valid(&value).then_some((value, length));
                    })*
                    None
                }

                $($($method)*)?
            }
        };
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $($(#[$of_field:meta])* $field_vis:vis $field:ident: $type:ty),* $(,)? }
        $(impl Wire for $same:ident { $($method:tt)* })?
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$of_field])* $field_vis $field: $type),*
        }

        impl $crate::Wire for $name {
            const LAYOUT: $crate::Layout = $crate::Layout::Fields(&[
                $($crate::Field { name: stringify!($field), layout: <$type as $crate::Wire>::LAYOUT }),*
            ]);
            const MAX_BYTES: usize = 0 $(+ <$type as $crate::Wire>::MAX_BYTES)*;

            fn encode(&self, out: &mut [u8]) -> usize {
                let mut length = 0;
                $(length += $crate::Wire::encode(&self.$field, &mut out[length..]);)*
                length
            }

            fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
                let mut length = 0;
                let value = Self { $($field: $crate::wire_format::take(bytes, &mut length)?),* };
                $crate::Wire::is_valid(&value).then_some((value, length))
            }

            $($($method)*)?
        }
    };
}

/// Implements [`Wire`] for a type that is written as a number: the type, the number's type, its [`WireUnit`](crate::WireUnit), and
/// functions from the number, which may refuse it, and to it.
#[macro_export]
macro_rules! wire_number {
    ($name:ty, $number:ty, $unit:ident, $from:expr, $to:expr) => {
        impl $crate::Wire for $name {
            const LAYOUT: $crate::Layout =
                $crate::Layout::Number { bytes: <$number>::BITS as u8 / 8, unit: $crate::WireUnit::$unit };
            const MAX_BYTES: usize = <$number>::BITS as usize / 8;

            fn encode(&self, out: &mut [u8]) -> usize {
                let to: fn($name) -> $number = $to;
                out[..Self::MAX_BYTES].copy_from_slice(&to(*self).to_be_bytes());
                Self::MAX_BYTES
            }

            fn decode(bytes: &[u8]) -> Option<($name, usize)> {
                let from: fn($number) -> Option<$name> = $from;
                let (number, _) = bytes.split_first_chunk()?;
                Some((from(<$number>::from_be_bytes(*number))?, Self::MAX_BYTES))
            }
        }
    };
}

wire_number!(u8, u8, Plain, Some, |number| number);
wire_number!(u16, u16, Plain, Some, |number| number);
wire_number!(u32, u32, Plain, Some, |number| number);
wire_number!(u64, u64, Plain, Some, |number| number);
wire_number!(Bytes, u64, Bytes, |bytes| Some(Bytes::new(bytes)), Bytes::get);
wire_number!(Time, u64, Picoseconds, |ps| Some(Time::from_ps(ps)), Time::as_ps);
wire_number!(Duration, u64, Picoseconds, |ps| Some(Duration::from_ps(ps)), Duration::as_ps);
wire_number!(Rate, u64, Bps, |bps| Some(Rate::from_bps(bps)), Rate::as_bps);
wire_number!(NodeId, u32, Node, |node| Some(NodeId(node)), |node| node.0);
wire_number!(FlowId, u32, Flow, |flow| Some(FlowId(flow)), |flow| flow.0);
wire_number!(LinkId, u32, Link, |link| Some(LinkId(link)), |link| link.0);

impl Wire for () {
    const LAYOUT: Layout = Layout::Fields(&[]);
    const MAX_BYTES: usize = 0;

    fn encode(&self, _: &mut [u8]) -> usize {
        0
    }
    fn decode(_: &[u8]) -> Option<((), usize)> {
        Some(((), 0))
    }
}

impl Wire for bool {
    const LAYOUT: Layout = Layout::Flag;
    const MAX_BYTES: usize = 1;

    fn encode(&self, out: &mut [u8]) -> usize {
        u8::from(*self).encode(out)
    }
    fn decode(bytes: &[u8]) -> Option<(bool, usize)> {
        bytes.first().filter(|flag| **flag < 2).map(|flag| (*flag == 1, 1))
    }
}

impl<T: Wire> Wire for Option<T> {
    const LAYOUT: Layout = Layout::Maybe(&T::LAYOUT);
    const MAX_BYTES: usize = 1 + T::MAX_BYTES;

    fn encode(&self, out: &mut [u8]) -> usize {
        self.is_some().encode(out) + self.map_or(0, |value| value.encode(&mut out[1..]))
    }
    fn decode(bytes: &[u8]) -> Option<(Option<T>, usize)> {
        let mut length = 0;
        let value = if take(bytes, &mut length)? { Some(take(bytes, &mut length)?) } else { None };
        Some((value, length))
    }
}

/// A list with all `N` items.
impl<T: Wire + Default, const N: usize> Wire for [T; N] {
    const LAYOUT: Layout = Layout::List(&T::LAYOUT);
    const MAX_BYTES: usize = 1 + N * T::MAX_BYTES;

    fn encode(&self, out: &mut [u8]) -> usize {
        encode_list(self, out)
    }
    fn decode(bytes: &[u8]) -> Option<([T; N], usize)> {
        let (items, count, length) = decode_list(bytes)?;
        (count == N).then_some((items, length))
    }
}

/// The largest of some sizes, in constants.
pub const fn largest(sizes: &[usize]) -> usize {
    let (mut most, mut at) = (0, 0);
    while at < sizes.len() {
        if sizes[at] > most {
            most = sizes[at];
        }
        at += 1;
    }
    most
}

/// Reads a value `at` a place of `bytes`, and moves the place behind it; `None` if the value is not valid.
pub fn take<T: Wire>(bytes: &[u8], at: &mut usize) -> Option<T> {
    let (value, length) = T::decode(bytes.get(*at..)?)?;
    *at += length;
    Some(value)
}

/// Writes `items`, at most 255, as a [`Layout::List`] to the front of `out`, and returns the number of bytes written.
pub fn encode_list<T: Wire>(items: &[T], out: &mut [u8]) -> usize {
    out[0] = u8::try_from(items.len()).expect("a list has at most 255 items");
    items.iter().fold(1, |length, item| length + item.encode(&mut out[length..]))
}

/// Reads a [`Layout::List`] of at most `N` items from the front of `bytes`. Returns the items, filled up with defaults, their number, and
/// the list's length in bytes; `None` if it has more items, or one that is not valid.
pub fn decode_list<T: Wire + Default, const N: usize>(bytes: &[u8]) -> Option<([T; N], usize, usize)> {
    let mut length = 0;
    let count = usize::from(take::<u8>(bytes, &mut length)?);
    let mut items = [T::default(); N];
    for item in items.get_mut(..count)? {
        *item = take(bytes, &mut length)?;
    }
    Some((items, count, length))
}

#[cfg(test)]
mod tests {
    use crate::{Field, Layout, Message, NodeId, Time, Wire, WireUnit};

    wire_format! {
        #[derive(Clone, Copy, PartialEq, Debug)]
        struct Span {
            since: Time,
            late: bool,
        }
    }

    wire_format! {
        #[derive(Clone, Copy, PartialEq, Debug)]
        enum Header {
            Quiet,
            Report { from: Option<NodeId>, counts: [u16; 2], span: Span },
        }
    }

    const REPORT: Header =
        Header::Report { from: Some(NodeId(7)), counts: [1, 0x0203], span: Span { since: Time::from_ps(9), late: true } };
    const BYTES: [u8; 20] = [1, 1, 0, 0, 0, 7, 2, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 9, 1];

    #[test]
    fn the_bytes_by_hand() {
        let mut bytes = [0xFF; 20];
        assert_eq!(REPORT.encode(&mut bytes), Header::MAX_BYTES);
        assert_eq!(bytes, BYTES);
        assert_eq!(Header::Quiet.encode(&mut bytes), 1);
        assert_eq!(bytes[0], 0);
    }

    #[test]
    fn bytes_that_nothing_is_written_as_are_refused() {
        assert_eq!(Header::decode(&BYTES), Some((REPORT, 20)));
        for (at, byte, what) in
            [(0, 2, "the kind"), (1, 2, "an option"), (6, 1, "a short list"), (6, 3, "a long list"), (19, 2, "a flag")]
        {
            let mut bytes = BYTES;
            bytes[at] = byte;
            assert_eq!(Header::decode(&bytes), None, "{what}");
        }
        assert!((0..20).all(|short| Header::decode(&BYTES[..short]).is_none()));
    }

    #[test]
    fn the_layout_by_hand() {
        let Layout::Choice([Message { name: "Quiet", fields: [] }, Message { name: "Report", fields }]) = Header::LAYOUT else {
            panic!("{:?}", Header::LAYOUT)
        };
        assert_eq!(fields.iter().map(|field| field.name).collect::<Vec<_>>(), ["from", "counts", "span"]);
        assert_eq!(fields[0].layout, Layout::Maybe(&Layout::Number { bytes: 4, unit: WireUnit::Node }));
        assert_eq!(fields[1].layout, Layout::List(&Layout::Number { bytes: 2, unit: WireUnit::Plain }));
        let span = [
            Field { name: "since", layout: Layout::Number { bytes: 8, unit: WireUnit::Picoseconds } },
            Field { name: "late", layout: Layout::Flag },
        ];
        assert!(matches!(fields[2].layout, Layout::Fields(fields) if fields == span));
    }
}
