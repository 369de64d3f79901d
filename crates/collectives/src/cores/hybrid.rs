//! The hybrid of recursive doublings and rings: fewer messages than buckets, and in its last phase still all links of a
//! torus at once.
//!
//! Cost on a p x p x p torus, p a power of two from 4 on: (2 lg P + 6(p-1)) alpha + (P/6 + p^2/3 - 3p/4) n delta. Of that
//! the six rings are (P - p^2)/6, exactly the last phase of six buckets, and the three doublings p^2/2 - 3p/4. Six buckets
//! take (P-1)/6, the least there can be: this takes 1.24 times that for p = 4, 1.18 for 8, 1.11 for 16, about 1 + 2/p for
//! more. Moved blocks have to be brought to their keepers before.   Any dimensions with a rank at every place; in a
//! dimension that does not wrap there is one ring instead of two.   [thesis 3.6.1]
//!
//! There is a core for each dimension, with a share of every block: it doubles over all other dimensions, and goes round
//! its own last, half of its share each way. Cores begin with different dimensions, so on a cube no two use the same
//! dimension at once.

use std::ops::Range;

use treepie_schedule::{Buf, Core, Op, Part, Phase, Rounds, Run};
use treepie_topology::{Network, Tie};

use super::buckets::long_dimensions;
use super::{Distance, Doubling, Parallel};

/// Recursive doubling over all dimensions but one, then rings in that.
#[derive(Clone, Debug)]
pub struct DoublingRing {
    /// Over the places of a plane across the ring's dimension.
    doubling: Doubling,
    /// The sizes of the plane's dimensions, and how far apart neighbouring ranks are.
    plane: Vec<(u32, u32)>,
    /// The first rank of each place of the plane.
    firsts: Vec<u32>,
    size: u32,
    stride: u32,
    /// Rings: one or two.
    directions: u32,
    moved: bool,
}

/// One core for each dimension that is longer than 1. Nothing if the network is no torus or mesh, or has places without
/// a rank.
pub fn hybrid(network: &Network, moved: bool) -> Option<Parallel<DoublingRing>> {
    let torus = network.torus_kind().filter(|_| network.is_whole())?;
    let long = long_dimensions(torus.dims());
    let cores = (0..long.len()).map(|first| {
        let mut order: Vec<usize> = (0..long.len()).map(|at| long[(first + at) % long.len()]).collect();
        let last = order.pop().expect("there is a dimension");
        DoublingRing::new(torus.dims(), &order, last, torus.wraps(last), moved)
    });
    Some(Parallel::new(cores.collect(), moved))
}

impl DoublingRing {
    /// Over ranks numbered with the first of `dims` fastest.
    fn new(dims: &[u32], plane: &[usize], last: usize, both_ways: bool, moved: bool) -> Self {
        let stride = |dim: usize| dims[..dim].iter().product::<u32>();
        let plane: Vec<(u32, u32)> = plane.iter().map(|&dim| (dims[dim], stride(dim))).collect();
        let places: u32 = plane.iter().map(|(size, _)| size).product();
        let coordinates = |place: u32| {
            let mut rest = place;
            plane.iter().map(move |(size, _)| {
                let coordinate = rest % size;
                rest /= size;
                coordinate
            })
        };
        let firsts = (0..places).map(|place| coordinates(place).zip(&plane).map(|(at, (_, stride))| at * stride).sum());
        let firsts = firsts.collect();
        // Morton order with the plane's first dimension first: far bits before near ones.
        let mut order: Vec<u32> = (0..places).collect();
        order.sort_by_cached_key(|&place| {
            let bit_of_all = |bit| coordinates(place).map(move |at| u64::from(at >> bit & 1));
            (0..u32::BITS).rev().flat_map(bit_of_all).fold(0u128, |key, bit| key << 1 | u128::from(bit))
        });
        let doubling = Doubling::new(Distance::Halving, order, moved);
        let directions = if both_ways { 2 } else { 1 };
        Self { doubling, plane, firsts, size: dims[last], stride: stride(last), directions, moved }
    }

    fn places(&self) -> u32 {
        self.firsts.len() as u32
    }

    /// The place in the plane, and where on the ring.
    fn place(&self, rank: u32) -> (u32, u32) {
        let mut before = 1;
        let place = self.plane.iter().map(|(size, stride)| {
            let at = rank / stride % size * before;
            before *= size;
            at
        });
        (place.sum(), rank / self.stride % self.size)
    }

    fn rank(&self, place: u32, ring: u32) -> u32 {
        self.firsts[place as usize] + ring * self.stride
    }
}

impl Core for DoublingRing {
    fn ranks(&self) -> u32 {
        self.places() * self.size
    }

    fn kept(&self, rank: u32, piece: &mut dyn FnMut(u32, u32)) {
        if !self.moved {
            return piece(rank, 0);
        }
        let (place, ring) = self.place(rank);
        self.doubling.kept(place, &mut |block, cut| piece(ring * self.places() + block, cut));
    }

    fn keeper(&self, block: u32, cut: u32) -> u32 {
        if !self.moved {
            return block;
        }
        self.rank(self.doubling.keeper(block % self.places(), cut), block / self.places())
    }

    fn phases(&self) -> u32 {
        2
    }

    fn phase(&self, phase: u32) -> Phase {
        Phase::lanes(if phase == 0 { 1 } else { self.directions }).global()
    }

    fn rounds(&self, _rank: u32, phase: u32, _lane: u32) -> u32 {
        if phase == 0 { self.doubling.rounds(0, 0, 0) } else { self.size - 1 }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let (place, mine) = self.place(rank);
        let positions = self.doubling.positions();
        if phase == 0 {
            let mark = into.mark();
            self.doubling.emit(place, 0, 0, rounds, into);
            let shifted = |part: Part| Part { lo: part.lo + mine * positions, ..part };
            into.map_since(mark, |op| match op {
                Op::Send { to, part } => Op::Send { to: self.rank(to, mine), part: shifted(part) },
                Op::Recv { from, part } => Op::Recv { from: self.rank(from, mine), part: shifted(part) },
                _ => unreachable!("cores send and receive only"),
            });
            return;
        }
        let size = self.size;
        let up_by = |steps: u32| (mine + steps) % size;
        // Upwards, what came from k steps below is passed on in round k.
        let behind = |steps: u32| up_by(if lane == 0 { size - steps % size } else { steps });
        let (to, from) = (self.rank(place, behind(size - 1)), self.rank(place, behind(1)));
        for k in rounds {
            let part =
                |steps| Part::viewed(Buf::Out, 1, behind(steps) * positions, positions).segment(lane, self.directions);
            into.push(Op::Send { to, part: part(k) });
            into.push(Op::Recv { from, part: part(k + 1) });
            into.end();
        }
    }

    fn runs(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        let (positions, places) = (self.doubling.positions(), self.places());
        let mut at = lo;
        while at < lo + len {
            let (ring, within) = (at / positions, at % positions);
            let count = (positions - within).min(lo + len - at);
            self.doubling.runs(1, within, count, &mut |found| {
                if self.moved {
                    return run(Run::whole(ring * places + found.block, found.blocks));
                }
                (found.block..found.block + found.blocks).for_each(|place| run(Run::whole(self.rank(place, ring), 1)));
            });
            at += count;
        }
    }

    fn tie(&self, phase: u32, lane: u32) -> Tie {
        match (phase, lane) {
            (0, _) => Tie::Parity,
            (_, 0) => Tie::Plus,
            _ => Tie::Minus,
        }
    }
}
