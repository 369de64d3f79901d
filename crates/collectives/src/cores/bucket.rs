//! Buckets: a ring in each dimension in turn, each rank passing on what it received last.
//!
//! Cost on a torus of X x Y x Z: (X+Y+Z-3) alpha + n(P-1) delta; a single dimension is the ring, (P-1)(alpha + n delta).
//! There is no congestion on rings, meshes and tori: on a mesh the way back along a line uses the other direction of its
//! links.   Any P.   [thesis 3.3.1, 3.3.2]
//!
//! The dimensions may come in any order. Positions are counted in that order, the first dimension fastest, so what a rank
//! has collected is always a range.

use std::ops::Range;

use treepie_schedule::{Buf, Core, Op, Part, Phase, Rounds, Run};
use treepie_topology::Tie;

/// Buckets over a grid of ranks.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// The dimensions in the order in which they are gone round.
    rings: Vec<Ring>,
    ranks: u32,
    /// Against the direction of rising coordinates.
    minus: bool,
    /// Whether blocks are brought to where their order is that of the positions.
    moved: bool,
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    size: u32,
    /// From a rank to its neighbour.
    rank_stride: u32,
    /// From a position to that of the neighbour.
    stride: u32,
}

impl Bucket {
    /// Over ranks numbered with the first of `dims` fastest, going round the dimensions in `order`.
    pub fn new(dims: &[u32], order: &[usize], minus: bool, moved: bool) -> Self {
        let mut stride = 1;
        let rings = order.iter().map(|&dim| {
            let ring = Ring { size: dims[dim], rank_stride: dims[..dim].iter().product(), stride };
            stride *= dims[dim];
            ring
        });
        Self { rings: rings.collect(), ranks: dims.iter().product(), minus, moved }
    }

    /// A single ring of all ranks.
    pub fn ring(ranks: u32) -> Self {
        Self::new(&[ranks], &[0], false, false)
    }

    fn position(&self, rank: u32) -> u32 {
        self.rings.iter().map(|ring| rank / ring.rank_stride % ring.size * ring.stride).sum()
    }

    fn rank_at(&self, position: u32) -> u32 {
        self.rings.iter().map(|ring| position / ring.stride % ring.size * ring.rank_stride).sum()
    }
}

impl Core for Bucket {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn kept(&self, rank: u32, piece: &mut dyn FnMut(u32, u32)) {
        piece(if self.moved { self.position(rank) } else { rank }, 0);
    }

    fn keeper(&self, block: u32, _cut: u32) -> u32 {
        if self.moved { self.rank_at(block) } else { block }
    }

    fn phases(&self) -> u32 {
        self.rings.len() as u32
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::ONE.global()
    }

    fn rounds(&self, _rank: u32, phase: u32, _lane: u32) -> u32 {
        self.rings[phase as usize].size - 1
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let Ring { size, rank_stride, stride } = self.rings[phase as usize];
        let mine = rank / rank_stride % size;
        let (up, down) = ((mine + 1) % size, (mine + size - 1) % size);
        let (next, previous) = if self.minus { (down, up) } else { (up, down) };
        let rank_at = |coordinate: u32| rank - mine * rank_stride + coordinate * rank_stride;
        let (to, from) = (rank_at(next), rank_at(previous));
        let whole = stride * size;
        let base = self.position(rank) / whole * whole;
        // What is passed on in a round: what came from so many steps before.
        let behind = |steps: u32| match self.minus {
            false => (mine + 2 * size - steps % size) % size,
            true => (mine + steps) % size,
        };
        for k in rounds {
            let part = |steps| Part::viewed(Buf::Out, 1, base + behind(steps) * stride, stride);
            into.push(Op::Send { to, part: part(k) });
            into.push(Op::Recv { from, part: part(k + 1) });
            into.end();
        }
    }

    fn runs(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        if self.moved {
            run(Run::whole(lo, len));
            return;
        }
        // Runs along the first dimension are consecutive ranks if that is the fastest; others are not.
        let first = self.rings.first().filter(|ring| ring.rank_stride == 1).map_or(1, |ring| ring.size);
        let mut at = lo;
        while at < lo + len {
            let blocks = (first - at % first).min(lo + len - at);
            run(Run::whole(self.rank_at(at), blocks));
            at += blocks;
        }
    }

    fn tie(&self, _phase: u32, _lane: u32) -> Tie {
        if self.minus { Tie::Minus } else { Tie::Plus }
    }
}
