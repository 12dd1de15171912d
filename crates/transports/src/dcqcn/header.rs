//! DCQCN's packets.

use flowloom_core::wire_format;

use crate::roce::{Envelope, Kind};

wire_format! {
    /// DCQCN's header. It has nothing besides the kind of the packet: marks are in the ECN field.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Header {
        /// What the packet is.
        pub kind: Kind,
    }
}

impl Envelope for Header {
    type Report = ();

    fn new(kind: Kind, _: Option<()>) -> Header {
        Header { kind }
    }
    fn kind(&self) -> Kind {
        self.kind
    }
    fn report(&self) -> &() {
        &()
    }
}
