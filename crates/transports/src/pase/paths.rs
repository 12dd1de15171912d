//! A stand-in for the paths that the network lends to endpoints: the only path of a tree.

use std::sync::Arc;

use flowloom_core::{FlowId, LinkId, Network, NodeId};

/// The paths of all flows.
#[derive(Clone)]
pub struct Paths(pub Arc<Network>);

impl Paths {
    /// The network.
    pub fn network(&self) -> &Network {
        &self.0
    }
    /// The links that packets of `flow` cross from `src` to `dst`, in order. There are none if there is no such node.
    pub fn path(&self, _: FlowId, src: NodeId, dst: NodeId) -> impl Iterator<Item = LinkId> {
        let known = src.index() < self.0.len() && dst.index() < self.0.len();
        (if known { self.0.path(src, dst) } else { Vec::new() }).into_iter()
    }
}
