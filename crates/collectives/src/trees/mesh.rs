//! The tree for meshes and tori: whoever has the message sends it half of its part of a line away, dimension by dimension.
//!
//! In a step the messages of a dimension stay in stretches of lines that do not overlap, so no link has to carry two. All
//! are served in as many steps as the logarithms of the dimensions, rounded up, add up to.   Any dimensions, any root;
//! places may be without a rank.   [Barnett et al. 1993; thesis 3.2.1]

use treepie_topology::{Network, Torus};

use super::placed::Placed;
use super::tree::Tree;

/// A stretch of a line, and who has the message of the ranks that are left in it.
struct Stretch {
    ranks: Vec<u32>,
    holder: u32,
    dimension: usize,
    /// The coordinates of the stretch.
    from: u32,
    to: u32,
}

impl Placed {
    /// Over the ranks of a mesh or torus; nothing if the network is none.
    pub fn mesh(network: &Network, root: u32) -> Option<Self> {
        let torus = network.torus_kind()?;
        let mut children = vec![Vec::new(); network.ranks() as usize];
        let last = torus.dims().len() - 1;
        let all = (0..network.ranks()).collect();
        // The slowest dimension first: then a subtree is an interval of ranks if the root is 0.
        let mut stack = vec![Stretch { ranks: all, holder: root, dimension: last, from: 0, to: torus.dims()[last] }];
        while let Some(stretch) = stack.pop() {
            let Stretch { ranks, holder, dimension, from, to } = stretch;
            if ranks.len() == 1 {
                continue;
            }
            if to - from == 1 {
                let dimension = dimension - 1;
                stack.push(Stretch { ranks, holder, dimension, from: 0, to: torus.dims()[dimension] });
                continue;
            }
            let half = (to - from).div_ceil(2);
            let middle = from + half;
            let coordinate = |rank: u32| torus.coordinates(network.place(rank))[dimension];
            let (low, high): (Vec<u32>, Vec<u32>) = ranks.into_iter().partition(|rank| coordinate(*rank) < middle);
            let at = coordinate(holder);
            let (aim, other) = if at < middle { ((at + half).min(to - 1), &high) } else { (at - half, &low) };
            let receiver = nearest(network, torus, other, holder, (dimension, aim));
            if let Some(receiver) = receiver {
                children[holder as usize].push(receiver);
            }
            for (ranks, from, to) in [(low, from, middle), (high, middle, to)] {
                let has = if (from..to).contains(&at) { Some(holder) } else { receiver };
                if let Some(holder) = has {
                    stack.push(Stretch { ranks, holder, dimension, from, to });
                }
            }
        }
        Some(Self::depth_first(&children, root))
    }

    /// From the children of each rank in the order in which they are served; the last one served is the nearest.
    fn depth_first(children: &[Vec<u32>], root: u32) -> Self {
        let mut ranks = Vec::with_capacity(children.len());
        let mut parents = Vec::with_capacity(children.len());
        let mut place_of = vec![0u32; children.len()];
        let mut stack = vec![(root, 0)];
        while let Some((rank, parent)) = stack.pop() {
            let place = ranks.len() as u32;
            place_of[rank as usize] = place;
            ranks.push(rank);
            parents.push(parent);
            stack.extend(children[rank as usize].iter().map(|child| (*child, place)));
        }
        let served = children.iter().flatten().map(|rank| place_of[*rank as usize]);
        Self::ordered(Tree::from_parents(parents, served), ranks)
    }
}

/// Of some ranks the nearest to where the holder would be with another coordinate in one dimension.
fn nearest(
    network: &Network,
    torus: &Torus,
    ranks: &[u32],
    holder: u32,
    (dimension, aim): (usize, u32),
) -> Option<u32> {
    let mut target = torus.coordinates(network.place(holder)).to_vec();
    target[dimension] = aim;
    let hops = |rank: &u32| -> u32 {
        let at = torus.coordinates(network.place(*rank));
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
        let tree = Placed::mesh(&network, 0).unwrap();
        assert_eq!(tree.children(0).collect::<Vec<_>>(), [16, 8, 4, 2, 1]);
        assert!(tree.is_in_order());
        let tree = Placed::mesh(&network, 4 * 5 + 3).unwrap();
        assert_eq!(tree.children(23).collect::<Vec<_>>(), [7, 31, 19, 21, 22]);
        assert_eq!(tree.tree().steps(), 5);
    }
}
