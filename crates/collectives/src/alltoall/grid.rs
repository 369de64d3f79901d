//! Store-and-forward all-to-all on a d-dimensional grid: blocks are forwarded dimension by dimension.
//!
//! Cost on sides of P^(1/d): d(P^(1/d)-1) alpha + d n (P^(1/d)-1)/P^(1/d) beta; memory for 2n. One dimension is the
//! direct exchange, lg P dimensions the hypercube.   Any P, with at most one dimension per prime factor; blocks of
//! equal length.   [RandomAccess paper]
//!
//! A rank stores a block at an index with a coordinate in each dimension: the receiver's where the block is still to be
//! forwarded, the sender's where it has been. So blocks in `In` are indexed by receiver, those in `Out` by sender, and
//! the exchange in a dimension swaps the blocks at the indices with the partner's coordinate.

use std::ops::Range;

use treepie_schedule::{BlockRange, BlockRun, Buf, Operation, RoundList, Schedule, ScheduleOp};

/// A store-and-forward all-to-all on a grid.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Size and stride of each dimension.
    dims: Vec<(u32, u32)>,
    ranks: u32,
}

impl Grid {
    /// Over ranks numbered with the first of `dims` fastest; dimensions of size 1 may be among them.
    pub fn new(dims: &[u32]) -> Self {
        let mut ranks = 1;
        let mut long: Vec<(u32, u32)> = Vec::new();
        for &size in dims {
            if size > 1 {
                long.push((size, ranks));
            }
            ranks *= size;
        }
        if long.is_empty() {
            long.push((1, 1));
        }
        Self { dims: long, ranks }
    }

    /// Over ranks in at most `dimensions` dimensions of balanced sizes.
    pub fn balanced(ranks: u32, dimensions: u32) -> Self {
        Self::new(&balanced_factors(ranks, dimensions))
    }

    /// The number of dimensions.
    pub fn dimensions(&self) -> u32 {
        self.dims.len() as u32
    }

    /// The buffer that holds the blocks before a phase.
    fn input_buf(&self, phase: u32) -> Buf {
        match phase {
            0 => Buf::In,
            phase if phase == self.dimensions() => Buf::Out,
            phase => Buf::Tmp((phase as u8 + 1) % 2),
        }
    }
}

/// A factorization into at most `factors` factors with the fewest messages, the sum of factor - 1. It has fewer factors
/// if the number has fewer prime factors: a prime number is its only factor.
pub fn balanced_factors(number: u32, factors: u32) -> Vec<u32> {
    fn search(left: u32, factors: u32, least: u32, found: &mut Vec<u32>, best: &mut Vec<u32>) {
        // With the factors in ascending order, the last one is the remaining quotient.
        found.push(left);
        let messages = |factors: &[u32]| factors.iter().map(|factor| u64::from(factor - 1)).sum::<u64>();
        if best.is_empty() || messages(found) < messages(best) {
            best.clone_from(found);
        }
        found.pop();
        if factors > 1 {
            for factor in (least..).take_while(|&factor| u64::from(factor).pow(2) <= u64::from(left)) {
                if left.is_multiple_of(factor) {
                    found.push(factor);
                    search(left / factor, factors - 1, factor, found, best);
                    found.pop();
                }
            }
        }
    }
    let mut best = Vec::new();
    search(number, factors, 2, &mut Vec::new(), &mut best);
    best
}

impl Schedule for Grid {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn scratch_buffers(&self) -> u8 {
        (self.dims.len() - 1).min(2) as u8
    }

    fn phases(&self) -> u32 {
        self.dimensions()
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        1
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, _rounds: Range<u32>, into: &mut RoundList) {
        let (size, stride) = self.dims[phase as usize];
        let here = rank / stride % size;
        let per_coordinate = self.ranks / size;
        let (before, after) = (self.input_buf(phase), self.input_buf(phase + 1));
        let of = |buf, coordinate: u32| {
            BlockRange::in_view(buf, phase as u8 + 1, coordinate * per_coordinate, per_coordinate)
        };
        let peer = |coordinate: u32| rank - here * stride + coordinate * stride;
        into.push(ScheduleOp::Copy { from: of(before, here), to: of(after, here) });
        for from in (0..here).rev().chain((here + 1..size).rev()) {
            into.push(ScheduleOp::Recv { from: peer(from), part: of(after, from) });
        }
        for to in (here + 1..size).chain(0..here) {
            into.push(ScheduleOp::Send { to: peer(to), part: of(before, to) });
        }
        into.end_round();
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        // The view's dimension is the slowest: one coordinate selects runs of the length of its stride.
        let (size, stride) = self.dims[view as usize - 1];
        let per_coordinate = self.ranks / size;
        let mut at = lo;
        while at < lo + len {
            let (coordinate, index) = (at / per_coordinate, at % per_coordinate);
            let (outer, inner) = (index / stride, index % stride);
            let blocks = (stride - inner).min(lo + len - at);
            run(BlockRun::whole_blocks((outer * size + coordinate) * stride + inner, blocks));
            at += blocks;
        }
    }
}
