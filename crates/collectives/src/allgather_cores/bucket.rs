//! Bucket allgather: a ring in each dimension in turn, in which each rank forwards what it received last.
//!
//! Cost on a torus of X x Y x Z: (X+Y+Z-3) alpha + n(P-1) delta; a single dimension is the ring,
//! (P-1)(alpha + n delta). There is no congestion on rings, meshes and tori: on a mesh the message that closes the ring
//! uses the other direction of the links.   Any P.   [thesis 3.3.1, 3.3.2]
//!
//! The dimensions may come in any order. Positions are numbered in that order, the first dimension fastest, so the
//! blocks that a rank has collected are always a range.

use std::ops::Range;

use treepie_schedule::{AllgatherCore, BlockRange, BlockRun, Buf, Phase, RoundList, ScheduleOp};
use treepie_topology::TieBreak;

/// The bucket algorithm over a grid of ranks.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// The dimensions in the order of the phases.
    rings: Vec<Ring>,
    ranks: u32,
    /// In the negative direction.
    minus: bool,
    /// Whether blocks are shuffled to the order of the positions.
    shuffled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    size: u32,
    /// The distance from a rank to its neighbor.
    rank_stride: u32,
    /// The distance from a position to that of the neighbor.
    stride: u32,
}

impl Bucket {
    /// Over ranks numbered with the first of `dims` fastest, with the dimensions in `order`.
    pub fn new(dims: &[u32], order: &[usize], minus: bool, shuffled: bool) -> Self {
        let mut stride = 1;
        let rings = order.iter().map(|&dim| {
            let ring = Ring { size: dims[dim], rank_stride: dims[..dim].iter().product(), stride };
            stride *= dims[dim];
            ring
        });
        Self { rings: rings.collect(), ranks: dims.iter().product(), minus, shuffled }
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

impl AllgatherCore for Bucket {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn initial_blocks(&self, rank: u32, each: &mut dyn FnMut(u32, u32)) {
        each(if self.shuffled { self.position(rank) } else { rank }, 0);
    }

    fn owner(&self, block: u32, _segment: u32) -> u32 {
        if self.shuffled { self.rank_at(block) } else { block }
    }

    fn phases(&self) -> u32 {
        self.rings.len() as u32
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::SINGLE_LANE.with_global_end()
    }

    fn rounds(&self, _rank: u32, phase: u32, _lane: u32) -> u32 {
        self.rings[phase as usize].size - 1
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let Ring { size, rank_stride, stride } = self.rings[phase as usize];
        let here = rank / rank_stride % size;
        let (up, down) = ((here + 1) % size, (here + size - 1) % size);
        let (next, previous) = if self.minus { (down, up) } else { (up, down) };
        let rank_at = |coordinate: u32| rank - here * rank_stride + coordinate * rank_stride;
        let (to, from) = (rank_at(next), rank_at(previous));
        let whole = stride * size;
        let base = self.position(rank) / whole * whole;
        // The coordinate whose blocks arrive after `steps` steps.
        let behind = |steps: u32| match self.minus {
            false => (here + 2 * size - steps % size) % size,
            true => (here + steps) % size,
        };
        for k in rounds {
            let part = |steps| BlockRange::in_view(Buf::Out, 1, base + behind(steps) * stride, stride);
            into.push(ScheduleOp::Send { to, part: part(k) });
            into.push(ScheduleOp::Recv { from, part: part(k + 1) });
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        if self.shuffled {
            run(BlockRun::whole_blocks(lo, len));
            return;
        }
        // Runs along the first dimension are consecutive ranks only if that is the fastest.
        let first = self.rings.first().filter(|ring| ring.rank_stride == 1).map_or(1, |ring| ring.size);
        let mut at = lo;
        while at < lo + len {
            let blocks = (first - at % first).min(lo + len - at);
            run(BlockRun::whole_blocks(self.rank_at(at), blocks));
            at += blocks;
        }
    }

    fn tie_break(&self, _phase: u32, _lane: u32) -> TieBreak {
        if self.minus { TieBreak::Minus } else { TieBreak::Plus }
    }
}
