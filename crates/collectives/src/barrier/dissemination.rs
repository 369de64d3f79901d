//! Dissemination barrier: in round k each rank r notifies rank r + 2^k (mod P).
//!
//! Cost: alpha ceil(lg P). On a torus it disseminates along one dimension after the other, so messages stay on the
//! links of a ring: alpha times the sum over the dimensions of ceil(lg size).   Any P.   [Hensgen et al. 1988]

use std::ops::Range;

use treepie_schedule::{BlockRange, Operation, RoundList, Schedule, ScheduleOp};
use treepie_topology::Network;

/// A dissemination barrier.
#[derive(Clone, Debug)]
pub struct Dissemination {
    ranks: u32,
    hops: Vec<Hop>,
    /// The node of each rank and the rank on each node; `None` for the identity.
    placement: Option<(Vec<u32>, Vec<u32>)>,
}

/// A round: the distance along a ring.
#[derive(Clone, Copy, Debug)]
struct Hop {
    distance: u32,
    /// The size of the ring.
    size: u32,
    stride: u32,
}

impl Dissemination {
    /// Over one ring of all ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks, hops: hops(&[ranks]), placement: None }
    }

    /// Along the dimensions of a torus or mesh with a rank at every node; `None` on other networks.
    pub fn on_torus(network: &Network) -> Option<Self> {
        let torus = network.as_torus().filter(|torus| torus.nodes() == network.ranks())?;
        let placement = network.placement().map(|at| {
            let mut rank_at = vec![0; at.len()];
            (0..).zip(at).for_each(|(rank, node)| rank_at[*node as usize] = rank);
            (at.to_vec(), rank_at)
        });
        Some(Self { ranks: network.ranks(), hops: hops(torus.dims()), placement })
    }
}

fn hops(dims: &[u32]) -> Vec<Hop> {
    let mut stride = 1;
    let mut hops = Vec::new();
    for size in dims.iter().copied() {
        let distances = (0..32).map(|k| 1u64 << k).take_while(|distance| *distance < size.into());
        hops.extend(distances.map(|distance| Hop { distance: distance as u32, size, stride }));
        stride *= size;
    }
    hops
}

impl Schedule for Dissemination {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        0
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.hops.len() as u32
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let node = self.placement.as_ref().map_or(rank, |(at, _)| at[rank as usize]);
        let rank_at = |node: u32| self.placement.as_ref().map_or(node, |(_, ranks)| ranks[node as usize]);
        for Hop { distance, size, stride } in &self.hops[rounds.start as usize..rounds.end as usize] {
            let here = node / stride % size;
            let along = |coordinate: u32| rank_at(node - here * stride + coordinate * stride);
            // Neither sum can overflow: the distance is less than the size.
            let after = if here >= size - distance { here - (size - distance) } else { here + distance };
            let before = if here >= *distance { here - distance } else { here + (size - distance) };
            into.push(ScheduleOp::Send { to: along(after), part: BlockRange::EMPTY });
            into.push(ScheduleOp::Recv { from: along(before), part: BlockRange::EMPTY });
            into.end_round();
        }
    }
}
