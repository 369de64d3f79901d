//! Forests over clusters: a tree for each outermost group, whose root is the group's coordinator.
//!
//! Within a group the tree has a layer for each level of clusters, as hierarchical trees have. Virtual ranks are depth
//! first, group by group: groups and subtrees are intervals. Where all roots exchange with each other directly, every
//! link between outermost groups is used, and a message between two groups takes one latency.   [P-LogP 3.4]
//!
//! For bandwidth there can be several coordinators: forests of different numbers have different ones, each of which
//! exchanges some of the segments.

use treepie_schedule::{BlockRun, Phase, RoundList, SEGMENTS_IN_FLIGHT, ScheduleOp};
use treepie_topology::Network;

use crate::trees::shape::groups;
use crate::trees::{Levels, RankTree, TreeShape};

/// The number of ranks of the smallest outermost group: the most coordinators that make sense.
pub(crate) fn smallest_group(groups: &[Vec<u32>]) -> u32 {
    let mut outermost = groups.last().cloned().unwrap_or_default();
    outermost.sort_unstable();
    outermost.chunk_by(|a, b| a == b).map(<[u32]>::len).min().unwrap_or(1) as u32
}

/// The number of outermost groups.
pub(crate) fn count_groups(groups: &[Vec<u32>]) -> u32 {
    let mut outermost = groups.last().cloned().unwrap_or_default();
    outermost.sort_unstable();
    outermost.dedup();
    outermost.len() as u32
}

/// A tree for each outermost group.
#[derive(Clone, Debug)]
pub struct Forest {
    /// All trees as one, in which the first root is the parent of the others.
    joined: RankTree,
    /// The virtual ranks of the roots, followed by the number of ranks.
    roots: Vec<u32>,
    /// The index of each root's group by virtual rank; `u32::MAX` for other ranks.
    root_groups: Vec<u32>,
}

/// A rank's position in a forest.
#[derive(Clone, Copy, Debug)]
pub struct ForestPosition<'a> {
    /// Its virtual rank.
    pub vrank: u32,
    /// The rank of its parent; that of a root is itself.
    pub parent: u32,
    /// The group whose root it is.
    pub root_of: Option<u32>,
    /// The virtual ranks of its children in send order.
    pub children: &'a [u32],
    /// The same in the order of virtual ranks.
    pub children_by_vrank: &'a [u32],
}

impl Forest {
    /// The forest over the groups of a network on these levels. `wan` is the shape over the coordinators within a group,
    /// `lan` that within a cluster; `None` if the network has no groups.
    pub fn new(network: &Network, levels: Levels, wan: TreeShape, lan: TreeShape) -> Option<Self> {
        Some(Self::over_groups(&groups(network, levels)?, 0, wan, lan))
    }

    /// The forests of several coordinators, at most one for each rank of the smallest group.
    pub fn several(
        network: &Network,
        levels: Levels,
        coordinators: u32,
        wan: TreeShape,
        lan: TreeShape,
    ) -> Option<Vec<Self>> {
        let groups = groups(network, levels)?;
        let coordinators = coordinators.min(smallest_group(&groups)).clamp(1, u8::MAX.into());
        Some((0..coordinators).map(|number| Self::over_groups(&groups, number, wan, lan)).collect())
    }

    pub(crate) fn over_groups(groups: &[Vec<u32>], number: u32, wan: TreeShape, lan: TreeShape) -> Self {
        let joined = RankTree::joined_forest(groups, number, wan, lan);
        let others = count_groups(groups) as usize - 1;
        // The links between outermost groups come first in the send order.
        let roots: Vec<u32> = std::iter::once(0)
            .chain(joined.tree().children(0)[..others].iter().copied())
            .chain([joined.ranks()])
            .collect();
        let mut root_groups = vec![u32::MAX; joined.ranks() as usize];
        (0..).zip(&roots[..=others]).for_each(|(group, root)| root_groups[*root as usize] = group);
        Self { joined, roots, root_groups }
    }

    /// The phase of a pipeline up, among the roots of several forests, and down again. Were all segments in flight at
    /// once, a coordinator would send all of them to others before any down its tree, where its links let it wait.
    pub(crate) fn pipeline(segments: u32, forests: usize) -> Phase {
        Phase::with_lanes(segments).with_window(SEGMENTS_IN_FLIGHT.saturating_mul(forests as u32))
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.joined.ranks()
    }

    /// The number of groups.
    pub fn groups(&self) -> u32 {
        self.roots.len() as u32 - 1
    }

    /// Whether every virtual rank is its rank: then the ranks of each group are consecutive on every level.
    pub fn is_rank_ordered(&self) -> bool {
        self.joined.is_rank_ordered()
    }

    /// The rank of a virtual rank.
    pub fn rank_at(&self, vrank: u32) -> u32 {
        self.joined.rank_at(vrank)
    }

    /// The virtual rank of a rank.
    pub fn vrank(&self, rank: u32) -> u32 {
        self.joined.vrank(rank)
    }

    /// The coordinator of a group.
    pub fn root(&self, group: u32) -> u32 {
        self.rank_at(self.roots[group as usize])
    }

    /// The first virtual rank of a group, and the number of its ranks.
    pub fn group_interval(&self, group: u32) -> (u32, u32) {
        let first = self.roots[group as usize];
        (first, self.roots[group as usize + 1] - first)
    }

    /// The number of ranks in the subtree of a virtual rank.
    pub fn subtree_size(&self, vrank: u32) -> u32 {
        if vrank == 0 { self.roots[1] } else { self.joined.tree().subtree_size(vrank) }
    }

    /// All other groups in send order: each begins with a different one, so links are used side by side.
    pub fn other_groups(&self, group: u32) -> impl DoubleEndedIterator<Item = u32> + use<> {
        (group + 1..self.groups()).chain(0..group)
    }

    /// A rank's position.
    pub fn position(&self, rank: u32) -> ForestPosition<'_> {
        let vrank = self.joined.vrank(rank);
        let group = self.root_groups[vrank as usize];
        let root_of = (group != u32::MAX).then_some(group);
        let (mut children, mut children_by_vrank) =
            (self.joined.tree().children(vrank), self.joined.tree().children_by_vrank(vrank));
        if vrank == 0 {
            let others = self.roots.len() - 2;
            children = &children[others..];
            children_by_vrank = &children_by_vrank[..children_by_vrank.len() - others];
        }
        let parent = if root_of.is_some() { rank } else { self.joined.parent(rank) };
        ForestPosition { vrank, parent, root_of, children, children_by_vrank }
    }

    /// Resolves the view whose positions are virtual ranks modulo P, over one block per rank.
    pub(crate) fn resolve_view(&self, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let ranks = self.ranks();
        let lo = lo % ranks;
        let first = len.min(ranks - lo);
        self.joined.resolve_view(lo, first, run);
        if first < len {
            self.joined.resolve_view(0, len - first, run);
        }
    }

    /// Appends an operation for each other root.
    pub(crate) fn for_other_roots(&self, group: u32, into: &mut RoundList, op: impl Fn(u32, u32) -> ScheduleOp) {
        self.other_groups(group).for_each(|other| into.push(op(other, self.root(other))));
    }
}

/// A step of a rank on the way up and down a forest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForestStep {
    /// From its children.
    FromChildren,
    /// To its parent.
    ToParent,
    /// With the other roots.
    Exchange,
    /// From its parent.
    FromParent,
    /// To its children.
    ToChildren,
}

impl ForestPosition<'_> {
    /// The steps of a rank, of which each is a round.
    pub(crate) fn steps(&self, groups: u32) -> impl Iterator<Item = ForestStep> + use<> {
        use ForestStep::{Exchange, FromChildren, FromParent, ToChildren, ToParent};
        let (is_inner, is_root) = (!self.children.is_empty(), self.root_of.is_some());
        [FromChildren, ToParent, Exchange, FromParent, ToChildren].into_iter().filter(move |step| match step {
            FromChildren | ToChildren => is_inner,
            ToParent | FromParent => !is_root,
            Exchange => is_root && groups > 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_subtrees_are_intervals_and_coordinators_differ() {
        // Two sites of two clusters of two, and a third of one cluster of five.
        let network: Network = "clusters:(2+2)+(2+2)+(5)".parse().unwrap();
        let forests = Forest::several(&network, Levels::All, 9, TreeShape::Flat, TreeShape::Binomial).unwrap();
        assert_eq!(forests.len(), 4);
        let roots: Vec<Vec<u32>> =
            forests.iter().map(|forest| (0..3).map(|group| forest.root(group)).collect()).collect();
        // The other cluster of a site first, then another rank of the first.
        assert_eq!(roots, [[0, 4, 8], [2, 6, 9], [1, 5, 10], [3, 7, 11]]);
        for forest in &forests {
            assert_eq!((0..3).map(|group| forest.group_interval(group)).collect::<Vec<_>>(), [(0, 4), (4, 4), (8, 5)]);
            for rank in 0..13 {
                let position = forest.position(rank);
                let mut next = position.vrank + 1;
                for child in position.children_by_vrank {
                    assert_eq!((*child, forest.position(forest.rank_at(*child)).parent), (next, rank));
                    next += forest.subtree_size(*child);
                }
                assert_eq!(next, position.vrank + forest.subtree_size(position.vrank));
            }
        }
        assert!(forests[0].is_rank_ordered() && !forests[1].is_rank_ordered());
    }

    #[test]
    fn coordinators_differ_in_unequal_subgroups() {
        let roots = |text: &str, group: u32| {
            let network: Network = text.parse().unwrap();
            let forests = Forest::several(&network, Levels::All, 9, TreeShape::Flat, TreeShape::Binomial).unwrap();
            forests.iter().map(|forest| forest.root(group)).collect::<Vec<u32>>()
        };
        assert_eq!(roots("clusters:(1+3)+(4)", 0), [0, 1, 2, 3]);
        assert_eq!(roots("clusters:((1+2)+(3))+((6)+(1))", 0), [0, 3, 1, 4, 2, 5]);
        assert_eq!(roots("clusters:(3+1+2)+(2+4)", 0), [0, 3, 4, 1, 5, 2]);
    }

    #[test]
    fn an_outer_level_of_one_group_has_no_exchange() {
        for (text, groups) in
            [("clusters:1x3x2", 3), ("clusters:1x1x4", 1), ("clusters:3x1x2", 3), ("clos:r8,t4,n10", 3)]
        {
            let network: Network = text.parse().unwrap();
            assert_eq!(
                Forest::new(&network, Levels::All, TreeShape::Flat, TreeShape::Flat).unwrap().groups(),
                groups,
                "{text}"
            );
        }
    }
}
