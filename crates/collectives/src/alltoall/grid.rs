//! Store-and-forward all-to-all on a grid of d dimensions: blocks get to their rank dimension by dimension.
//!
//! Cost on sides of P^(1/d): d(P^(1/d)-1) alpha + d n (P^(1/d)-1)/P^(1/d) beta; memory for 2n. One dimension is the direct
//! exchange, lg P dimensions the hypercube.   Any P, with as many dimensions as it has prime factors; all blocks are equally
//! long.   [RandomAccess paper]
//!
//! A rank keeps a block at a place with a coordinate in each dimension: the receiver's where the block has still to go,
//! the sender's where it has gone already. So blocks in `In` are named by their receivers, in `Out` by their senders, and
//! the exchange in a dimension swaps what lies at the places whose coordinate is that of the partner.

use std::ops::Range;

use treepie_schedule::{Buf, Op, Operation, Part, Rounds, Run, Schedule};

/// Dimension by dimension.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Sizes, and how far apart neighbours are.
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

    /// Over ranks in at most so many dimensions, as equal as can be.
    pub fn balanced(ranks: u32, dimensions: u32) -> Self {
        Self::new(&balanced_factors(ranks, dimensions))
    }

    /// How many dimensions it has.
    pub fn dimensions(&self) -> u32 {
        self.dims.len() as u32
    }

    /// Where the blocks are before a phase.
    fn before(&self, phase: u32) -> Buf {
        match phase {
            0 => Buf::In,
            phase if phase == self.dimensions() => Buf::Out,
            phase => Buf::Tmp((phase as u8 + 1) % 2),
        }
    }
}

/// At most so many factors of a number whose sum is the least, so that there are the fewest messages. Fewer if it has fewer
/// prime factors: a prime number is its only factor.
pub fn balanced_factors(number: u32, factors: u32) -> Vec<u32> {
    fn search(left: u32, factors: u32, least: u32, found: &mut Vec<u32>, best: &mut Vec<u32>) {
        // With the factors in rising order, the last one is all that is left.
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

    fn blocks(&self) -> u32 {
        self.ranks
    }

    fn temporaries(&self) -> u8 {
        (self.dims.len() - 1).min(2) as u8
    }

    fn phases(&self) -> u32 {
        self.dimensions()
    }

    fn rounds(&self, _rank: u32, _phase: u32, _lane: u32) -> u32 {
        1
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, _rounds: Range<u32>, into: &mut Rounds) {
        let (size, stride) = self.dims[phase as usize];
        let mine = rank / stride % size;
        let with = self.ranks / size;
        let (before, after) = (self.before(phase), self.before(phase + 1));
        let of = |buf, coordinate: u32| Part::viewed(buf, phase as u8 + 1, coordinate * with, with);
        let peer = |coordinate: u32| rank - mine * stride + coordinate * stride;
        into.push(Op::Copy { from: of(before, mine), to: of(after, mine) });
        for from in (0..mine).rev().chain((mine + 1..size).rev()) {
            into.push(Op::Recv { from: peer(from), part: of(after, from) });
        }
        for to in (mine + 1..size).chain(0..mine) {
            into.push(Op::Send { to: peer(to), part: of(before, to) });
        }
        into.end();
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        // The view's dimension is the slowest: with one coordinate there come stretches as long as its stride.
        let (size, stride) = self.dims[view as usize - 1];
        let with = self.ranks / size;
        let mut at = lo;
        while at < lo + len {
            let (coordinate, place) = (at / with, at % with);
            let (outer, inner) = (place / stride, place % stride);
            let blocks = (stride - inner).min(lo + len - at);
            run(Run::whole((outer * size + coordinate) * stride + inner, blocks));
            at += blocks;
        }
    }
}
