//! Flat networks: each node has one injection and one ejection link, and there are no others.

use crate::error::link_count;
use crate::{Result, two_level};

/// Nodes on a full crossbar: the thesis's congestion-free model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flat {
    nodes: u32,
}

impl Flat {
    pub(crate) fn new(nodes: u32) -> Result<Self> {
        link_count(two_level::links(nodes, 0))?;
        Ok(Flat { nodes })
    }

    /// Number of nodes; 0 if it is open.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    pub(crate) fn links(&self) -> u32 {
        2 * self.nodes
    }

    pub(crate) fn route(&self, from: u32, to: u32, link: impl FnMut(u32)) {
        two_level::route(self.nodes, (from, 0), (to, 0), link);
    }
}
