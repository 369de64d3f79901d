//! Trees over places 0 to P-1 with the root 0.
//!
//! Places are numbered depth first: a subtree is an interval of places that begins with its root. So the blocks of a
//! subtree are a range, and contributions that are combined nearest subtree first stay in the order of places. The order
//! in which children are served is another matter: mostly those with the largest subtrees come first.

/// A tree over places 0 to P-1, root 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    parents: Vec<u32>,
    /// Children of all places, one place's after the other's, in the order in which they are served.
    served: Vec<u32>,
    /// The same, the nearest first.
    nearest: Vec<u32>,
    /// Where each place's children begin.
    begins: Vec<u32>,
    /// Places of each subtree.
    sizes: Vec<u32>,
    /// When each place is served if all serve one child after the other; of the root, 0.
    steps: Vec<u32>,
    /// How many steps there are.
    last: u32,
}

impl Tree {
    /// From the parent of each place but 0. Of two children of a place, the one that comes first in `served` is served
    /// first.
    pub(crate) fn from_parents(parents: Vec<u32>, served: impl Iterator<Item = u32>) -> Self {
        let places = parents.len() as u32;
        let mut begins = vec![0; places as usize + 1];
        parents.iter().skip(1).for_each(|parent| begins[*parent as usize + 1] += 1);
        (0..places as usize).for_each(|place| begins[place + 1] += begins[place]);
        let listed = |children: &mut dyn Iterator<Item = u32>| {
            let mut next = begins.clone();
            let mut list = vec![0; places.saturating_sub(1) as usize];
            for child in children.filter(|child| *child != 0) {
                let at = &mut next[parents[child as usize] as usize];
                list[*at as usize] = child;
                *at += 1;
            }
            list
        };
        let (served, nearest) = (listed(&mut { served }), listed(&mut (0..places)));
        let mut sizes = vec![1; places as usize];
        for place in (1..places as usize).rev() {
            sizes[parents[place] as usize] += sizes[place];
        }
        let mut tree = Self { steps: vec![0; places as usize], last: 0, parents, served, nearest, begins, sizes };
        for place in 0..places {
            let first = tree.first_step(place);
            for at in tree.begins[place as usize]..tree.begins[place as usize + 1] {
                let step = first + at - tree.begins[place as usize];
                tree.steps[tree.served[at as usize] as usize] = step;
                tree.last = tree.last.max(step + 1);
            }
        }
        tree
    }

    /// How many places.
    pub fn places(&self) -> u32 {
        self.parents.len() as u32
    }

    /// A place's parent; of the root, itself.
    pub fn parent(&self, place: u32) -> u32 {
        self.parents[place as usize]
    }

    /// Where a place's children are listed.
    pub(super) fn children_at(&self, place: u32) -> (u32, u32) {
        (self.begins[place as usize], self.begins[place as usize + 1])
    }

    /// The children listed there: as they are served, and the nearest subtree first.
    pub(super) fn listed(&self, (begin, end): (u32, u32)) -> (&[u32], &[u32]) {
        (&self.served[begin as usize..end as usize], &self.nearest[begin as usize..end as usize])
    }

    /// A place's children, in the order in which they are served.
    pub fn children(&self, place: u32) -> &[u32] {
        self.listed(self.children_at(place)).0
    }

    /// A place's children, the nearest subtree first.
    pub fn nearest(&self, place: u32) -> &[u32] {
        self.listed(self.children_at(place)).1
    }

    /// How many places the subtree of a place has.
    pub fn size(&self, place: u32) -> u32 {
        self.sizes[place as usize]
    }

    /// In which step a place is served, if every place that has been served serves one child in each step from then on.
    pub fn step(&self, place: u32) -> u32 {
        self.steps[place as usize]
    }

    /// The step in which a place can begin to serve.
    pub fn first_step(&self, place: u32) -> u32 {
        if place == 0 { 0 } else { self.steps[place as usize] + 1 }
    }

    /// How many steps it takes until all are served.
    pub fn steps(&self) -> u32 {
        self.last
    }

    /// The longest way from the root.
    pub fn height(&self) -> u32 {
        let mut depths = vec![0; self.parents.len()];
        for place in 1..self.parents.len() {
            depths[place] = depths[self.parents[place] as usize] + 1;
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// The root serves all.
    pub fn flat(ranks: u32) -> Self {
        Self::from_parents(vec![0; ranks as usize], 0..ranks)
    }

    /// Each rank serves the next.
    pub fn chain(ranks: u32) -> Self {
        Self::from_parents((0..ranks).map(|rank| rank.saturating_sub(1)).collect(), 0..ranks)
    }

    /// Binomial with the radix `k`: in each round every rank that has the message serves k - 1 others, the largest
    /// subtrees first.
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
        // A child far away has the larger subtree.
        Self::from_parents(parents.collect(), (0..ranks).rev())
    }

    /// Every rank serves at most `degree` others, with subtrees as equal as can be: the height is as small as it can be
    /// for that degree. Numbered depth first.
    pub fn kary(ranks: u32, degree: u32) -> Self {
        assert!(degree >= 1, "a tree has a degree of at least one");
        let mut parents = vec![0; ranks as usize];
        // Intervals whose first rank has its parent already.
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

    /// The tree that reaches all ranks first if a rank can send every `gap` and a message takes `time` until it can be
    /// sent on: each next receiver is served by whoever can do it first.   [NBX paper section 3; Karp et al. 1993]
    ///
    /// Subtrees are intervals: who serves whom is found first, ranks are given out depth first afterwards.
    pub fn greedy(ranks: u32, gap: f64, time: f64) -> Self {
        use std::cmp::Reverse;
        use std::collections::BinaryHeap;
        // When somebody can begin its next send, and who. Times in order as integers: they are not negative.
        let key = |time: f64| time.max(0.0).to_bits();
        let mut next = BinaryHeap::from([Reverse((key(0.0), 0usize))]);
        let mut served: Vec<Vec<usize>> = vec![Vec::new()];
        while served.len() < ranks as usize {
            let Reverse((at, who)) = next.pop().expect("somebody can always send");
            let at = f64::from_bits(at);
            let child = served.len();
            served.push(Vec::new());
            served[who].push(child);
            next.push(Reverse((key(at + gap), who)));
            next.push(Reverse((key(at + time), child)));
        }
        let mut numbers = vec![0u32; served.len()];
        let mut parents = vec![0u32; served.len()];
        let (mut stack, mut number) = (vec![(0usize, 0u32)], 0);
        let mut order = Vec::with_capacity(served.len());
        while let Some((who, parent)) = stack.pop() {
            numbers[who] = number;
            parents[number as usize] = parent;
            order.push(who);
            // The last one served has the nearest interval, so that an operand combined first is the nearest.
            stack.extend(served[who].iter().map(|child| (*child, number)));
            number += 1;
        }
        let first_served = (0..served.len()).flat_map(|who| served[who].iter().map(|child| numbers[*child]));
        Self::from_parents(parents, first_served.collect::<Vec<_>>().into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::{Layer, Placed};

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

    fn are_intervals(tree: &Tree) {
        for place in 0..tree.places() {
            let mut next = place + 1;
            for child in tree.nearest(place) {
                assert_eq!((*child, tree.parent(*child)), (next, place));
                next += tree.size(*child);
            }
            assert_eq!(next - place, tree.size(place));
            let mut served = tree.children(place).to_vec();
            served.sort_unstable();
            assert_eq!(served, tree.nearest(place));
        }
        assert_eq!(tree.size(0), tree.places());
    }

    #[test]
    fn subtrees_are_intervals() {
        for ranks in 1..70 {
            let trees = [Tree::flat(ranks), Tree::chain(ranks), Tree::knomial(ranks, 2), Tree::knomial(ranks, 5)]
                .into_iter()
                .chain((1..6).map(|degree| Tree::kary(ranks, degree)))
                .chain([(1.0, 1.0), (2.87, 10.03), (1.0, 50.0)].map(|(gap, time)| Tree::greedy(ranks, gap, time)));
            trees.for_each(|tree| are_intervals(&tree));
        }
        let torus = treepie_topology::Network::torus(&[3, 4, 5], &[true, false, true]).unwrap();
        let clusters: Vec<u32> = (0..60).map(|rank| rank * 7 % 11 / 2).collect();
        for root in 0..60 {
            are_intervals(Placed::mesh(&torus, root).unwrap().tree());
            are_intervals(Placed::two_layer(&clusters, root, Layer::Binomial, Layer::Kary(2)).tree());
        }
    }

    #[test]
    fn a_binomial_tree_serves_the_largest_subtree_first() {
        assert_eq!(Tree::knomial(8, 2).children(0), [4, 2, 1]);
        assert_eq!(Tree::knomial(9, 3).children(0), [6, 3, 2, 1]);
    }
}
