//! Clusters connected by slower links, each through one gateway; also clusters of clusters.

use std::ops::Range;

use crate::error::link_count;
use crate::{Error, Result};

/// Maximum levels of nested clusters.
pub const MAX_CLUSTER_LEVELS: usize = 8;

/// Clusters of consecutive nodes, of equal or unequal sizes, in groups on any number of levels.
///
/// The groups of level 0 are the clusters. Those of level 1 have several clusters each (a site), those of level 2
/// several groups of level 1, and so on up to [`levels`](Self::levels). The whole network is the only group above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusters {
    /// By level, the first node of each group, followed by the number of nodes.
    starts: Vec<Vec<u32>>,
}

/// A wide-area link, from one group to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLink {
    /// The level on which the groups meet, at least 1.
    pub level: u32,
    /// The group of the senders, on the level below.
    pub from: u32,
    /// That of the receivers.
    pub to: u32,
    /// A number of the link, below [`Clusters::num_group_links`].
    pub index: usize,
}

impl Clusters {
    pub(crate) fn new(sizes: &[u32]) -> Result<Self> {
        Self::nested(&[sizes])
    }

    /// The nodes of each cluster, then for each level above the number of groups below that each of its groups has.
    pub(crate) fn nested(levels: &[impl AsRef<[u32]>]) -> Result<Self> {
        let sizes = levels.first().map_or(&[][..], AsRef::as_ref);
        if sizes.is_empty() || sizes.contains(&0) {
            return Err(Error::Clusters { sizes: sizes.to_vec() });
        }
        if levels.len() > MAX_CLUSTER_LEVELS {
            return Err(Error::ClusterLevels { levels: levels.len() });
        }
        for (level, pair) in levels.windows(2).enumerate() {
            let (below, counts) = (pair[0].as_ref().len(), pair[1].as_ref());
            let grouped: u128 = counts.iter().map(|&count| u128::from(count)).sum();
            if counts.contains(&0) || grouped != below as u128 {
                return Err(Error::ClusterGroups { level: level + 1, below });
            }
        }
        let nodes: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
        let groups: u128 = levels.iter().map(|level| level.as_ref().len() as u128).sum();
        link_count(2 * (nodes + groups))?;
        let mut starts = vec![ends(sizes)];
        for counts in &levels[1..] {
            let below = &starts[starts.len() - 1];
            starts.push(ends(counts.as_ref()).into_iter().map(|group| below[group as usize]).collect());
        }
        Ok(Clusters { starts })
    }

    /// Number of clusters: the innermost groups.
    pub fn count(&self) -> u32 {
        self.groups(0)
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.starts[0][self.starts[0].len() - 1]
    }

    /// The number of nodes of each cluster.
    pub fn sizes(&self) -> impl ExactSizeIterator<Item = u32> {
        self.starts[0].windows(2).map(|ends| ends[1] - ends[0])
    }

    /// The cluster of a node.
    pub fn cluster_of(&self, node: u32) -> u32 {
        self.group_of(0, node)
    }

    /// The nodes of a cluster.
    pub fn members(&self, cluster: u32) -> Range<u32> {
        self.group_members(0, cluster)
    }

    /// Number of levels of groups below the whole network: 1 for clusters that are not nested.
    pub fn levels(&self) -> u32 {
        self.starts.len() as u32
    }

    /// Number of groups of a level; 1 at the level [`levels`](Self::levels).
    pub fn groups(&self, level: u32) -> u32 {
        self.starts.get(level as usize).map_or(1, |starts| starts.len() as u32 - 1)
    }

    /// The group of a node on a level.
    pub fn group_of(&self, level: u32, node: u32) -> u32 {
        let starts = self.starts.get(level as usize);
        starts.map_or(0, |starts| starts.partition_point(|&start| start <= node) as u32 - 1)
    }

    /// The nodes of a group of a level.
    pub fn group_members(&self, level: u32, group: u32) -> Range<u32> {
        match self.starts.get(level as usize) {
            Some(starts) => starts[group as usize]..starts[group as usize + 1],
            None => 0..self.nodes(),
        }
    }

    /// The groups of the level below that a group has; `level` is at least 1.
    pub fn subgroups(&self, level: u32, group: u32) -> Range<u32> {
        let Range { start, end } = self.group_members(level, group);
        self.group_of(level - 1, start)..self.group_of(level - 1, end - 1) + 1
    }

    /// The level of the smallest group that has both nodes: 0 in one cluster, [`levels`](Self::levels) if they are in
    /// different groups on all levels.
    pub fn meeting_level(&self, a: u32, b: u32) -> u32 {
        (0..self.levels()).find(|&level| self.group_of(level, a) == self.group_of(level, b)).unwrap_or(self.levels())
    }

    /// The wide-area link that a message from one node to another takes: that of the level on which they meet, from the
    /// group of one to the group of the other. None within a cluster.
    pub fn link_between(&self, from: u32, to: u32) -> Option<GroupLink> {
        let level = self.meeting_level(from, to);
        let below: usize = (0..level.checked_sub(1)?).map(|level| (self.groups(level) as usize).pow(2)).sum();
        let (from, to) = (self.group_of(level - 1, from), self.group_of(level - 1, to));
        let index = below + from as usize * self.groups(level - 1) as usize + to as usize;
        Some(GroupLink { level, from, to, index })
    }

    /// The number of indices of [`link_between`](Self::link_between): of each ordered pair of groups on each level.
    pub fn num_group_links(&self) -> usize {
        (0..self.levels()).map(|level| (self.groups(level) as usize).pow(2)).sum()
    }

    pub(crate) fn links(&self) -> u32 {
        2 * (self.nodes() + (0..self.levels()).map(|level| self.groups(level)).sum::<u32>())
    }

    /// Calls `link` for each link of a tree of nodes and groups, up to the smallest group that has both nodes and down.
    ///
    /// Link ids: the uplink and downlink of each node, then those of the groups, level by level.
    pub(crate) fn route(&self, from: u32, to: u32, mut link: impl FnMut(u32)) {
        if from == to {
            return;
        }
        let meeting = self.meeting_level(from, to);
        let first = |level: u32| self.nodes() + (0..level).map(|below| self.groups(below)).sum::<u32>();
        link(2 * from);
        (0..meeting).for_each(|level| link(2 * (first(level) + self.group_of(level, from))));
        (0..meeting).rev().for_each(|level| link(2 * (first(level) + self.group_of(level, to)) + 1));
        link(2 * to + 1);
    }
}

/// 0, and the sum of the counts up to each.
fn ends(counts: &[u32]) -> Vec<u32> {
    let mut ends = Vec::with_capacity(counts.len() + 1);
    ends.push(0);
    ends.extend(counts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end)
    }));
    ends
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

    #[test]
    fn groups_of_all_levels() {
        // Two sites, of two and three clusters.
        let clusters = Clusters::nested(&[vec![4, 4, 8, 2, 2], vec![2, 3]]).unwrap();
        assert_eq!((clusters.levels(), clusters.count(), clusters.nodes()), (2, 5, 20));
        assert_eq!([0, 1, 2].map(|level| clusters.groups(level)), [5, 2, 1]);
        assert_eq!((clusters.group_members(1, 0), clusters.group_members(1, 1)), (0..8, 8..20));
        assert_eq!((clusters.subgroups(1, 0), clusters.subgroups(1, 1), clusters.subgroups(2, 0)), (0..2, 2..5, 0..2));
        assert_eq!(clusters.group_members(2, 0), 0..20);
        for (a, b, level) in [(0, 3, 0), (7, 7, 0), (0, 4, 1), (19, 8, 1), (7, 8, 2), (0, 19, 2)] {
            assert_eq!((clusters.meeting_level(a, b), clusters.meeting_level(b, a)), (level, level), "{a} and {b}");
        }
        for node in 0..20 {
            for level in 0..3 {
                assert!(clusters.group_members(level, clusters.group_of(level, node)).contains(&node));
            }
        }
    }

    #[test]
    fn links_join_groups_of_the_level_below_the_common_one() {
        let clusters = Clusters::nested(&[vec![2, 1, 3], vec![2, 1]]).unwrap();
        assert_eq!((clusters.link_between(0, 1), clusters.num_group_links()), (None, 13));
        assert_eq!(clusters.link_between(1, 2), Some(GroupLink { level: 1, from: 0, to: 1, index: 1 }));
        assert_eq!(clusters.link_between(2, 0), Some(GroupLink { level: 1, from: 1, to: 0, index: 3 }));
        assert_eq!(clusters.link_between(0, 5), Some(GroupLink { level: 2, from: 0, to: 1, index: 10 }));
    }

    #[test]
    fn routes_go_up_to_the_common_group() {
        let clusters = Clusters::nested(&[vec![2, 1, 3], vec![2, 1]]).unwrap();
        let route = |from, to| {
            let mut links = Vec::new();
            clusters.route(from, to, |link| links.push(link));
            links
        };
        assert_eq!(route(0, 1), [0, 3]);
        assert_eq!(route(0, 2), [0, 12, 15, 5]);
        assert_eq!(route(2, 5), [4, 14, 18, 21, 17, 11]);
        assert_eq!(clusters.links(), 22);
    }

    #[test]
    fn groups_must_have_all_groups_below() {
        for (levels, error) in [
            (vec![vec![4, 4], vec![1]], Error::ClusterGroups { level: 1, below: 2 }),
            (vec![vec![4, 4], vec![2, 0]], Error::ClusterGroups { level: 1, below: 2 }),
            (vec![vec![4, 4], vec![1, 1], vec![u32::MAX, 3]], Error::ClusterGroups { level: 2, below: 2 }),
            (vec![vec![], vec![0]], Error::Clusters { sizes: vec![] }),
            (vec![vec![1]; 9], Error::ClusterLevels { levels: 9 }),
        ] {
            assert_eq!(Clusters::nested(&levels), Err(error), "{levels:?}");
        }
        assert!(Clusters::nested(&vec![vec![1]; MAX_CLUSTER_LEVELS]).is_ok());
    }
}
