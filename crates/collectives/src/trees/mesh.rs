//! The mesh broadcast tree: in each step every rank that has the message sends it half of its line segment away,
//! dimension by dimension.
//!
//! In a step the messages of a dimension stay in disjoint line segments, so no link carries two. The number of steps is
//! the sum over the dimensions of ceil(lg size).   Any dimensions, any root; nodes may be without a rank.
//! [Barnett, Payne and van de Geijn 1991; thesis 3.2.1]

use treepie_topology::{Network, Torus};

use super::rank_tree::RankTree;
use super::tree::Tree;

/// A segment of a line, its ranks without the message, and the one that has it.
struct LineSegment {
    ranks: Vec<u32>,
    holder: u32,
    dimension: usize,
    /// The coordinates of the segment.
    from: u32,
    to: u32,
}

impl RankTree {
    /// Over the ranks of a mesh or torus; `None` on other networks.
    pub fn mesh(network: &Network, root: u32) -> Option<Self> {
        let torus = network.as_torus()?;
        let mut children = vec![Vec::new(); network.ranks() as usize];
        let last = torus.dims().len() - 1;
        let all = (0..network.ranks()).collect();
        // The slowest dimension first: with root 0, a subtree is then an interval of ranks.
        let mut stack =
            vec![LineSegment { ranks: all, holder: root, dimension: last, from: 0, to: torus.dims()[last] }];
        while let Some(segment) = stack.pop() {
            let LineSegment { ranks, holder, dimension, from, to } = segment;
            if ranks.len() == 1 {
                continue;
            }
            if to - from == 1 {
                let dimension = dimension - 1;
                stack.push(LineSegment { ranks, holder, dimension, from: 0, to: torus.dims()[dimension] });
                continue;
            }
            let half = (to - from).div_ceil(2);
            let middle = from + half;
            let coordinate = |rank: u32| torus.coordinates(network.node_of(rank))[dimension];
            let (low, high): (Vec<u32>, Vec<u32>) = ranks.into_iter().partition(|rank| coordinate(*rank) < middle);
            let at = coordinate(holder);
            let (aim, other) = if at < middle { ((at + half).min(to - 1), &high) } else { (at - half, &low) };
            let receiver = nearest(network, torus, other, holder, (dimension, aim));
            if let Some(receiver) = receiver {
                children[holder as usize].push(receiver);
            }
            for (ranks, from, to) in [(low, from, middle), (high, middle, to)] {
                let has_message = if (from..to).contains(&at) { Some(holder) } else { receiver };
                if let Some(holder) = has_message {
                    stack.push(LineSegment { ranks, holder, dimension, from, to });
                }
            }
        }
        Some(Self::depth_first(&children, root))
    }

    /// From the children of each rank in send order; the last one gets the next virtual rank.
    fn depth_first(children: &[Vec<u32>], root: u32) -> Self {
        let mut ranks = Vec::with_capacity(children.len());
        let mut parents = Vec::with_capacity(children.len());
        let mut vrank_of = vec![0u32; children.len()];
        let mut stack = vec![(root, 0)];
        while let Some((rank, parent)) = stack.pop() {
            let vrank = ranks.len() as u32;
            vrank_of[rank as usize] = vrank;
            ranks.push(rank);
            parents.push(parent);
            stack.extend(children[rank as usize].iter().map(|child| (*child, vrank)));
        }
        let send_order = children.iter().flatten().map(|rank| vrank_of[*rank as usize]);
        Self::with_order(Tree::from_parents(parents, send_order), ranks)
    }
}

/// The rank nearest to the holder's node with another coordinate in one dimension.
fn nearest(
    network: &Network,
    torus: &Torus,
    ranks: &[u32],
    holder: u32,
    (dimension, aim): (usize, u32),
) -> Option<u32> {
    let mut target = torus.coordinates(network.node_of(holder)).to_vec();
    target[dimension] = aim;
    let hops = |rank: &u32| -> u32 {
        let at = torus.coordinates(network.node_of(*rank));
        at.iter().zip(&target).map(|(a, b)| a.abs_diff(*b)).sum()
    };
    ranks.iter().copied().min_by_key(hops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_goes_half_as_far_in_one_dimension_after_the_other() {
        let network = Network::torus(&[4, 8], &[false; 2]).unwrap();
        let tree = RankTree::mesh(&network, 0).unwrap();
        assert_eq!(tree.children(0).collect::<Vec<_>>(), [16, 8, 4, 2, 1]);
        assert!(tree.is_rank_ordered());
        let tree = RankTree::mesh(&network, 4 * 5 + 3).unwrap();
        assert_eq!(tree.children(23).collect::<Vec<_>>(), [7, 31, 19, 21, 22]);
        assert_eq!(tree.tree().steps(), 5);
    }
}
