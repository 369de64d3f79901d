//! Trees over virtual ranks 0 to P-1 with root 0.
//!
//! Virtual ranks are numbered depth first: a subtree is an interval that begins with its root. So the blocks of a
//! subtree are a range, and combining children in the order of virtual ranks combines contributions in that order. The
//! send order of children is independent of it: mostly those with the largest subtrees come first.

/// A tree over virtual ranks 0 to P-1, root 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    parents: Vec<u32>,
    /// Children of all virtual ranks, concatenated, each in send order.
    send_order: Vec<u32>,
    /// The same, each in the order of virtual ranks.
    vrank_order: Vec<u32>,
    /// The offset of each virtual rank's children.
    child_offsets: Vec<u32>,
    /// The size of each subtree.
    subtree_sizes: Vec<u32>,
    /// The step in which each virtual rank receives if all send to one child per step; 0 for the root.
    steps: Vec<u32>,
    /// The number of steps.
    num_steps: u32,
}

impl Tree {
    /// From the parent of each virtual rank but 0. Children of one parent are sent to in the order of `send_order`.
    pub(crate) fn from_parents(parents: Vec<u32>, send_order: impl Iterator<Item = u32>) -> Self {
        let vranks = parents.len() as u32;
        let mut child_offsets = vec![0; vranks as usize + 1];
        parents.iter().skip(1).for_each(|parent| child_offsets[*parent as usize + 1] += 1);
        (0..vranks as usize).for_each(|vrank| child_offsets[vrank + 1] += child_offsets[vrank]);
        let list_by_parent = |children: &mut dyn Iterator<Item = u32>| {
            let mut next = child_offsets.clone();
            let mut list = vec![0; vranks.saturating_sub(1) as usize];
            for child in children.filter(|child| *child != 0) {
                let at = &mut next[parents[child as usize] as usize];
                list[*at as usize] = child;
                *at += 1;
            }
            list
        };
        let (send_order, vrank_order) = (list_by_parent(&mut { send_order }), list_by_parent(&mut (0..vranks)));
        let mut subtree_sizes = vec![1; vranks as usize];
        for vrank in (1..vranks as usize).rev() {
            subtree_sizes[parents[vrank] as usize] += subtree_sizes[vrank];
        }
        let mut tree = Self {
            steps: vec![0; vranks as usize],
            num_steps: 0,
            parents,
            send_order,
            vrank_order,
            child_offsets,
            subtree_sizes,
        };
        for vrank in 0..vranks {
            let first = tree.first_send_step(vrank);
            for at in tree.child_offsets[vrank as usize]..tree.child_offsets[vrank as usize + 1] {
                let step = first + at - tree.child_offsets[vrank as usize];
                tree.steps[tree.send_order[at as usize] as usize] = step;
                tree.num_steps = tree.num_steps.max(step + 1);
            }
        }
        tree
    }

    /// The number of virtual ranks.
    pub fn vranks(&self) -> u32 {
        self.parents.len() as u32
    }

    /// The parent; that of the root is the root.
    pub fn parent(&self, vrank: u32) -> u32 {
        self.parents[vrank as usize]
    }

    /// The range of the children in the lists.
    pub(super) fn child_range(&self, vrank: u32) -> (u32, u32) {
        (self.child_offsets[vrank as usize], self.child_offsets[vrank as usize + 1])
    }

    /// The children in a range of the lists: in send order, and in the order of virtual ranks.
    pub(super) fn children_in(&self, (begin, end): (u32, u32)) -> (&[u32], &[u32]) {
        (&self.send_order[begin as usize..end as usize], &self.vrank_order[begin as usize..end as usize])
    }

    /// The children in send order.
    pub fn children(&self, vrank: u32) -> &[u32] {
        self.children_in(self.child_range(vrank)).0
    }

    /// The children in the order of virtual ranks.
    pub fn children_by_vrank(&self, vrank: u32) -> &[u32] {
        self.children_in(self.child_range(vrank)).1
    }

    /// The size of the subtree.
    pub fn subtree_size(&self, vrank: u32) -> u32 {
        self.subtree_sizes[vrank as usize]
    }

    /// The step in which a virtual rank receives, if each one sends to one child per step after it has received.
    pub fn step(&self, vrank: u32) -> u32 {
        self.steps[vrank as usize]
    }

    /// The first step in which a virtual rank can send.
    pub fn first_send_step(&self, vrank: u32) -> u32 {
        if vrank == 0 { 0 } else { self.steps[vrank as usize] + 1 }
    }

    /// The number of steps until all have received.
    pub fn steps(&self) -> u32 {
        self.num_steps
    }

    /// The height of the tree.
    pub fn height(&self) -> u32 {
        let mut depths = vec![0; self.parents.len()];
        for vrank in 1..self.parents.len() {
            depths[vrank] = depths[self.parents[vrank] as usize] + 1;
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// The flat tree: the root sends to all.
    pub fn flat(ranks: u32) -> Self {
        Self::from_parents(vec![0; ranks as usize], 0..ranks)
    }

    /// The chain: each rank sends to the next.
    pub fn chain(ranks: u32) -> Self {
        Self::from_parents((0..ranks).map(|rank| rank.saturating_sub(1)).collect(), 0..ranks)
    }

    /// The k-nomial tree: in each round every rank that has the message sends it to k - 1 others, the largest subtrees
    /// first.
    pub fn knomial(ranks: u32, k: u32) -> Self {
        assert!(k >= 2, "a k-nomial tree has a radix of at least two");
        let parents = (0..ranks).map(|rank| {
            // The lowest digit that is not zero is cleared.
            let mut digit = 1u64;
            while rank != 0 && u64::from(rank) % (digit * u64::from(k)) == 0 {
                digit *= u64::from(k);
            }
            (u64::from(rank) - u64::from(rank) % (digit * u64::from(k))) as u32
        });
        // The higher child has the larger subtree.
        Self::from_parents(parents.collect(), (0..ranks).rev())
    }

    /// The k-ary tree: every rank has at most `degree` children, with balanced subtrees, so the height is the least for
    /// that degree. Numbered depth first.
    pub fn kary(ranks: u32, degree: u32) -> Self {
        assert!(degree >= 1, "a tree has a degree of at least one");
        let mut parents = vec![0; ranks as usize];
        // Intervals whose first rank already has its parent.
        let mut stack = vec![(0u32, ranks)];
        while let Some((root, size)) = stack.pop() {
            let rest = size.saturating_sub(1);
            let parts = degree.min(rest);
            let mut at = root + 1;
            for part in 0..parts {
                let len = rest / parts + u32::from(part < rest % parts);
                parents[at as usize] = root;
                stack.push((at, len));
                at += len;
            }
        }
        Self::from_parents(parents, 0..ranks)
    }

    /// The optimal broadcast tree if a rank can send every `gap` and a message takes `time` until it can be forwarded:
    /// the rank that can send first sends to the next receiver.   [Karp et al. 1993; NBX paper 2.3]
    ///
    /// Parents are found first; then virtual ranks are assigned depth first, so subtrees are intervals.
    pub fn greedy(ranks: u32, gap: f64, time: f64) -> Self {
        use std::cmp::Reverse;
        use std::collections::BinaryHeap;
        // The next send times and their senders. Bits of nonnegative floats compare as integers.
        let key = |time: f64| time.max(0.0).to_bits();
        let mut next = BinaryHeap::from([Reverse((key(0.0), 0usize))]);
        let mut children: Vec<Vec<usize>> = vec![Vec::new()];
        while children.len() < ranks as usize {
            let Reverse((at, sender)) = next.pop().expect("some rank can always send");
            let at = f64::from_bits(at);
            let child = children.len();
            children.push(Vec::new());
            children[sender].push(child);
            next.push(Reverse((key(at + gap), sender)));
            next.push(Reverse((key(at + time), child)));
        }
        let mut numbers = vec![0u32; children.len()];
        let mut parents = vec![0u32; children.len()];
        let (mut stack, mut number) = (vec![(0usize, 0u32)], 0);
        let mut order = Vec::with_capacity(children.len());
        while let Some((sender, parent)) = stack.pop() {
            numbers[sender] = number;
            parents[number as usize] = parent;
            order.push(sender);
            // The last child in send order gets the next interval, so operands that arrive first are combined first.
            stack.extend(children[sender].iter().map(|child| (*child, number)));
            number += 1;
        }
        let send_order = (0..children.len()).flat_map(|sender| children[sender].iter().map(|child| numbers[*child]));
        Self::from_parents(parents, send_order.collect::<Vec<_>>().into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::{RankTree, TreeShape};

    #[test]
    fn heights_are_the_least_for_their_degree() {
        // From the P-LogP paper's rule: the smallest h with 1 + d + ... + d^h >= P.
        let heights = |ranks, degrees: &[u32]| -> Vec<u32> {
            degrees.iter().map(|degree| Tree::kary(ranks, *degree).height()).collect()
        };
        assert_eq!(heights(8, &[1, 2, 3, 4, 5, 6, 7]), [7, 3, 2, 2, 2, 2, 1]);
        assert_eq!(heights(4, &[1, 2, 3]), [3, 2, 1]);
        assert_eq!(heights(64, &[1, 2, 3, 4, 7, 8, 63]), [63, 6, 4, 3, 3, 2, 1]);
    }

    fn check_subtrees_are_intervals(tree: &Tree) {
        for vrank in 0..tree.vranks() {
            let mut next = vrank + 1;
            for child in tree.children_by_vrank(vrank) {
                assert_eq!((*child, tree.parent(*child)), (next, vrank));
                next += tree.subtree_size(*child);
            }
            assert_eq!(next - vrank, tree.subtree_size(vrank));
            let mut sorted = tree.children(vrank).to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, tree.children_by_vrank(vrank));
        }
        assert_eq!(tree.subtree_size(0), tree.vranks());
    }

    #[test]
    fn subtrees_are_intervals() {
        for ranks in 1..70 {
            let trees = [Tree::flat(ranks), Tree::chain(ranks), Tree::knomial(ranks, 2), Tree::knomial(ranks, 5)]
                .into_iter()
                .chain((1..6).map(|degree| Tree::kary(ranks, degree)))
                .chain([(1.0, 1.0), (2.87, 10.03), (1.0, 50.0)].map(|(gap, time)| Tree::greedy(ranks, gap, time)));
            trees.for_each(|tree| check_subtrees_are_intervals(&tree));
        }
        let torus = treepie_topology::Network::torus(&[3, 4, 5], &[true, false, true]).unwrap();
        let clusters: Vec<u32> = (0..60).map(|rank| rank * 7 % 11 / 2).collect();
        for root in 0..60 {
            check_subtrees_are_intervals(RankTree::mesh(&torus, root).unwrap().tree());
            check_subtrees_are_intervals(
                RankTree::two_layer(&clusters, root, TreeShape::Binomial, TreeShape::Kary(2)).tree(),
            );
            let sites: Vec<u32> = clusters.iter().map(|cluster| cluster / 2).collect();
            let groups = [&clusters, &sites];
            check_subtrees_are_intervals(
                RankTree::multi_layer(&groups, root, TreeShape::Binomial, TreeShape::Kary(2)).tree(),
            );
        }
    }

    #[test]
    fn a_binomial_tree_sends_to_the_largest_subtree_first() {
        assert_eq!(Tree::knomial(8, 2).children(0), [4, 2, 1]);
        assert_eq!(Tree::knomial(9, 3).children(0), [6, 3, 2, 1]);
    }
}
