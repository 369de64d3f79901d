//! The hybrid of recursive doubling and rings: fewer messages than buckets, and its last phase still uses all links of
//! a torus.
//!
//! Cost on a p x p x p torus, p a power of two from 4 on: (2 lg P + 6(p-1)) alpha + (P/6 + p^2/3 - 3p/4) n delta. Of
//! that the six rings are (P - p^2)/6, exactly the last phase of six buckets, and the three doublings p^2/2 - 3p/4. Six
//! buckets take (P-1)/6, the minimum: this takes 1.24 times that for p = 4, 1.18 for 8, 1.11 for 16, about 1 + 2/p for
//! more. With shuffled blocks the shuffle is additional.   Any dimensions with a rank at every node; in a dimension
//! that does not wrap there is one ring instead of two.   [thesis 3.6.1]
//!
//! There is one core per dimension, with a segment of every block: recursive doubling over all other dimensions, then
//! rings in its dimension, with half of the segment in each direction. Cores begin with different dimensions, so on a
//! cube no two use the same dimension at the same time.

use std::ops::Range;

use treepie_schedule::{AllgatherCore, BlockRange, BlockRun, Buf, Phase, RoundList, ScheduleOp};
use treepie_topology::{Network, TieBreak};

use super::multi_port_buckets::long_dimensions;
use super::{Distance, Doubling, Parallel};

/// Recursive doubling over all dimensions but one, then rings in that dimension.
#[derive(Clone, Debug)]
pub struct DoublingRing {
    /// Over the nodes of a plane orthogonal to the ring's dimension.
    doubling: Doubling,
    /// Size and rank stride of each dimension of the plane.
    plane: Vec<(u32, u32)>,
    /// The first rank of the ring through each node of the plane.
    plane_ranks: Vec<u32>,
    size: u32,
    stride: u32,
    /// The number of rings: one or two.
    directions: u32,
    shuffled: bool,
}

/// One core per dimension longer than 1. `None` unless the network is a torus or mesh with rank r at node r.
pub fn hybrid(network: &Network, shuffled: bool) -> Option<Parallel<DoublingRing>> {
    let torus = network.as_torus().filter(|_| network.has_identity_placement())?;
    let long = long_dimensions(torus.dims());
    let cores = (0..long.len()).map(|first| {
        let mut order: Vec<usize> = (0..long.len()).map(|at| long[(first + at) % long.len()]).collect();
        let last = order.pop().expect("there is a dimension");
        DoublingRing::new(torus.dims(), &order, last, torus.wraps(last), shuffled)
    });
    Some(Parallel::new(cores.collect(), shuffled))
}

impl DoublingRing {
    /// Over ranks numbered with the first of `dims` fastest.
    fn new(dims: &[u32], plane: &[usize], last: usize, wraps: bool, shuffled: bool) -> Self {
        let stride = |dim: usize| dims[..dim].iter().product::<u32>();
        let plane: Vec<(u32, u32)> = plane.iter().map(|&dim| (dims[dim], stride(dim))).collect();
        let nodes: u32 = plane.iter().map(|(size, _)| size).product();
        let coordinates = |node: u32| {
            let mut rest = node;
            plane.iter().map(move |(size, _)| {
                let coordinate = rest % size;
                rest /= size;
                coordinate
            })
        };
        let plane_ranks =
            (0..nodes).map(|node| coordinates(node).zip(&plane).map(|(at, (_, stride))| at * stride).sum());
        let plane_ranks = plane_ranks.collect();
        // Morton order with the plane's first dimension first: high bits before low ones.
        let mut order: Vec<u32> = (0..nodes).collect();
        order.sort_by_cached_key(|&node| {
            let bit_of_all = |bit| coordinates(node).map(move |at| u64::from(at >> bit & 1));
            (0..u32::BITS).rev().flat_map(bit_of_all).fold(0u128, |key, bit| key << 1 | u128::from(bit))
        });
        let doubling = Doubling::new(Distance::Halving, order, shuffled);
        let directions = if wraps { 2 } else { 1 };
        Self { doubling, plane, plane_ranks, size: dims[last], stride: stride(last), directions, shuffled }
    }

    fn plane_size(&self) -> u32 {
        self.plane_ranks.len() as u32
    }

    /// The node in the plane and the coordinate on the ring.
    fn plane_and_ring(&self, rank: u32) -> (u32, u32) {
        let mut before = 1;
        let node = self.plane.iter().map(|(size, stride)| {
            let at = rank / stride % size * before;
            before *= size;
            at
        });
        (node.sum(), rank / self.stride % self.size)
    }

    fn rank(&self, node: u32, ring: u32) -> u32 {
        self.plane_ranks[node as usize] + ring * self.stride
    }
}

impl AllgatherCore for DoublingRing {
    fn ranks(&self) -> u32 {
        self.plane_size() * self.size
    }

    fn initial_blocks(&self, rank: u32, each: &mut dyn FnMut(u32, u32)) {
        if !self.shuffled {
            return each(rank, 0);
        }
        let (node, ring) = self.plane_and_ring(rank);
        self.doubling.initial_blocks(node, &mut |block, segment| each(ring * self.plane_size() + block, segment));
    }

    fn owner(&self, block: u32, segment: u32) -> u32 {
        if !self.shuffled {
            return block;
        }
        self.rank(self.doubling.owner(block % self.plane_size(), segment), block / self.plane_size())
    }

    fn phases(&self) -> u32 {
        2
    }

    fn phase(&self, phase: u32) -> Phase {
        Phase::with_lanes(if phase == 0 { 1 } else { self.directions }).with_global_end()
    }

    fn rounds(&self, _rank: u32, phase: u32, _lane: u32) -> u32 {
        if phase == 0 { self.doubling.rounds(0, 0, 0) } else { self.size - 1 }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let (node, here) = self.plane_and_ring(rank);
        let positions = self.doubling.view_len();
        if phase == 0 {
            let mark = into.mark();
            self.doubling.emit(node, 0, 0, rounds, into);
            let shifted = |part: BlockRange| BlockRange { lo: part.lo + here * positions, ..part };
            into.map_since(mark, |op| match op {
                ScheduleOp::Send { to, part } => ScheduleOp::Send { to: self.rank(to, here), part: shifted(part) },
                ScheduleOp::Recv { from, part } => {
                    ScheduleOp::Recv { from: self.rank(from, here), part: shifted(part) }
                }
                _ => unreachable!("cores send and receive only"),
            });
            return;
        }
        let size = self.size;
        let up_by = |steps: u32| (here + steps) % size;
        // In the positive direction, round k forwards the blocks from k steps below.
        let behind = |steps: u32| up_by(if lane == 0 { size - steps % size } else { steps });
        let (to, from) = (self.rank(node, behind(size - 1)), self.rank(node, behind(1)));
        for k in rounds {
            let part = |steps| {
                BlockRange::in_view(Buf::Out, 1, behind(steps) * positions, positions).segment(lane, self.directions)
            };
            into.push(ScheduleOp::Send { to, part: part(k) });
            into.push(ScheduleOp::Recv { from, part: part(k + 1) });
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let (positions, plane_size) = (self.doubling.view_len(), self.plane_size());
        let mut at = lo;
        while at < lo + len {
            let (ring, within) = (at / positions, at % positions);
            let count = (positions - within).min(lo + len - at);
            self.doubling.resolve_view(1, within, count, &mut |found| {
                if self.shuffled {
                    return run(BlockRun::whole_blocks(ring * plane_size + found.block, found.blocks));
                }
                (found.block..found.block + found.blocks)
                    .for_each(|node| run(BlockRun::whole_blocks(self.rank(node, ring), 1)));
            });
            at += count;
        }
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        match (phase, lane) {
            (0, _) => TieBreak::Parity,
            (_, 0) => TieBreak::Plus,
            _ => TieBreak::Minus,
        }
    }
}
