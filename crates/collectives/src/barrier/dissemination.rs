//! Dissemination barrier: in round k each rank tells the one 2^k after it that it and all it has heard of have come.
//!
//! Cost: alpha ceil(lg P). On a torus it goes round one dimension after the other, so that messages stay on the links of a
//! line: alpha times the sum of the logarithms, rounded up, of the dimensions.   Any P.   [Hensgen et al. 1988]

use std::ops::Range;

use treepie_schedule::{Op, Operation, Part, Rounds, Schedule};
use treepie_topology::Network;

/// A dissemination barrier.
#[derive(Clone, Debug)]
pub struct Dissemination {
    ranks: u32,
    hops: Vec<Hop>,
    /// Where each rank is and who is there, if that is not the same number.
    placement: Option<(Vec<u32>, Vec<u32>)>,
}

/// A round: so far along a ring.
#[derive(Clone, Copy, Debug)]
struct Hop {
    distance: u32,
    /// Of the ring.
    size: u32,
    stride: u32,
}

impl Dissemination {
    /// Over ranks as one ring.
    pub fn new(ranks: u32) -> Self {
        Self { ranks, hops: hops(&[ranks]), placement: None }
    }

    /// Along the dimensions of a torus or mesh with a rank at every place; nothing if the network is none.
    pub fn on(network: &Network) -> Option<Self> {
        let torus = network.torus_kind().filter(|torus| torus.places() == network.ranks())?;
        let placement = network.placement().map(|at| {
            let mut rank_at = vec![0; at.len()];
            (0..).zip(at).for_each(|(rank, place)| rank_at[*place as usize] = rank);
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

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let place = self.placement.as_ref().map_or(rank, |(at, _)| at[rank as usize]);
        let rank_at = |place: u32| self.placement.as_ref().map_or(place, |(_, ranks)| ranks[place as usize]);
        for Hop { distance, size, stride } in &self.hops[rounds.start as usize..rounds.end as usize] {
            let mine = place / stride % size;
            let along = |coordinate: u32| rank_at(place - mine * stride + coordinate * stride);
            // Neither sum can overflow: a distance is less than the size.
            let after = if mine >= size - distance { mine - (size - distance) } else { mine + distance };
            let before = if mine >= *distance { mine - distance } else { mine + (size - distance) };
            into.push(Op::Send { to: along(after), part: Part::NOTHING });
            into.push(Op::Recv { from: along(before), part: Part::NOTHING });
            into.end();
        }
    }
}
