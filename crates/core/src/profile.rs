//! What tables, drawings and warnings must know about a transport.

/// Transports that share a dash and a hatch in drawings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// A bound on all transports.
    Bound,
    /// The papers' own schemes, and schemes that know flow sizes.
    Papers,
    /// TCP and its relatives.
    Tcp,
    /// All others that have a look of their own.
    Other,
    /// Those without one.
    Unknown,
}

impl Family {
    /// Its name in the catalogue.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Bound => "bound",
            Family::Papers => "papers",
            Family::Tcp => "tcp",
            Family::Other => "other",
            Family::Unknown => "unknown",
        }
    }
}

/// What tables, drawings and warnings must know about a transport besides its parameters. A transport gives what differs from [`Profile::PLAIN`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Its name in its authors' spelling; empty if that is its name in scenarios.
    pub label: &'static str,
    /// Its colour, as `#RRGGBB`; empty for one that follows from its name. No two transports of a family have the same, for every eye.
    pub color: &'static str,
    /// Matplotlib's marker; empty for one that follows from its name. A bound has none.
    pub marker: &'static str,
    /// With which others it shares a dash and a hatch.
    pub family: Family,
    /// The dotted key, among its parameters, of the settings of switch ports, if it has them.
    pub ports: &'static str,
    /// Where its packets are not ECN-capable: `always`, or under a parameter (`controller = newreno`). Empty: nowhere.
    pub unmarked: &'static str,
}

impl Profile {
    /// The profile of a transport that says nothing.
    pub const PLAIN: Profile =
        Profile { label: "", color: "", marker: "", family: Family::Unknown, ports: "port", unmarked: "" };

    /// The profile of a transport with a look of its own.
    pub const fn new(label: &'static str, color: &'static str, marker: &'static str, family: Family) -> Profile {
        Profile { label, color, marker, family, ..Profile::PLAIN }
    }
}
