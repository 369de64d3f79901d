//! Flat networks: each host has one injection and one ejection link, and there are no others.

use crate::error::link_count;
use crate::{Result, two_level};

/// Nodes on a full crossbar: the thesis's congestion-free model.
///
/// A host has one node, or several consecutive ones, which then share its two links (processes per node, ppn).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flat {
    nodes: u32,
    nodes_per_host: u32,
}

impl Flat {
    /// `nodes_per_host` is at least 1.
    pub(crate) fn new(nodes: u32, nodes_per_host: u32) -> Result<Self> {
        link_count(two_level::links(nodes, 0))?;
        Ok(Flat { nodes, nodes_per_host })
    }

    /// Number of nodes; 0 if it is open.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Number of nodes of a host; the last host may have fewer.
    pub fn nodes_per_host(&self) -> u32 {
        self.nodes_per_host
    }

    pub(crate) fn links(&self) -> u32 {
        2 * self.nodes.div_ceil(self.nodes_per_host)
    }

    pub(crate) fn route(&self, from: u32, to: u32, link: impl FnMut(u32)) {
        let (from, to) = (from / self.nodes_per_host, to / self.nodes_per_host);
        two_level::route(self.nodes, (from, 0), (to, 0), link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_host_share_its_links() {
        let flat = Flat::new(10, 4).unwrap();
        let route = |from, to| {
            let mut links = Vec::new();
            flat.route(from, to, |link| links.push(link));
            links
        };
        assert_eq!(flat.links(), 6);
        assert_eq!((route(0, 3), route(5, 5)), (vec![], vec![]));
        assert_eq!((route(1, 4), route(2, 7), route(9, 0)), (vec![0, 3], vec![0, 3], vec![4, 1]));
    }
}
