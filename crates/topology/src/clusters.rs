//! Clusters connected by slower links, each through one gateway.

use std::ops::Range;

use crate::error::link_count;
use crate::{Error, Result, two_level};

/// Clusters of consecutive nodes, of equal or unequal sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusters {
    /// The first node of each cluster, followed by the number of nodes.
    starts: Vec<u32>,
}

impl Clusters {
    pub(crate) fn new(sizes: &[u32]) -> Result<Self> {
        if sizes.is_empty() || sizes.contains(&0) {
            return Err(Error::Clusters { sizes: sizes.to_vec() });
        }
        let nodes: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
        link_count(2 * (nodes + sizes.len() as u128))?;
        let mut starts = vec![0];
        starts.extend(sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        }));
        Ok(Clusters { starts })
    }

    /// Number of clusters.
    pub fn count(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.starts[self.starts.len() - 1]
    }

    /// The number of nodes of each cluster.
    pub fn sizes(&self) -> impl ExactSizeIterator<Item = u32> {
        self.starts.windows(2).map(|ends| ends[1] - ends[0])
    }

    /// The cluster of a node.
    pub fn cluster_of(&self, node: u32) -> u32 {
        self.starts.partition_point(|&start| start <= node) as u32 - 1
    }

    /// The nodes of a cluster.
    pub fn members(&self, cluster: u32) -> Range<u32> {
        self.starts[cluster as usize]..self.starts[cluster as usize + 1]
    }

    pub(crate) fn links(&self) -> u32 {
        2 * (self.nodes() + self.count())
    }

    pub(crate) fn route(&self, from: u32, to: u32, link: impl FnMut(u32)) {
        two_level::route(self.nodes(), (from, self.cluster_of(from)), (to, self.cluster_of(to)), link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_and_members_agree() {
        let clusters = Clusters::new(&[3, 5, 8]).unwrap();
        assert_eq!((clusters.count(), clusters.nodes()), (3, 16));
        assert_eq!(clusters.sizes().collect::<Vec<_>>(), [3, 5, 8]);
        for cluster in 0..3 {
            assert!(clusters.members(cluster).all(|node| clusters.cluster_of(node) == cluster));
        }
        assert_eq!(clusters.members(1), 3..8);
    }

    #[test]
    fn only_messages_between_clusters_pass_gateways() {
        let clusters = Clusters::new(&[3, 5]).unwrap();
        let route = |from, to| {
            let mut links = Vec::new();
            clusters.route(from, to, |link| links.push(link));
            links
        };
        assert_eq!(route(3, 3), []);
        assert_eq!(route(3, 7), [6, 15]);
        assert_eq!(route(2, 7), [4, 16, 19, 15]);
        assert_eq!(clusters.links(), 20);
    }

    #[test]
    fn empty_and_huge_clusters_are_errors() {
        assert_eq!(Clusters::new(&[]), Err(Error::Clusters { sizes: vec![] }));
        assert_eq!(Clusters::new(&[4, 0]), Err(Error::Clusters { sizes: vec![4, 0] }));
        assert_eq!(Clusters::new(&[u32::MAX, 1]), Err(Error::TooLarge { links: (1 << 33) + 4 }));
    }
}
