//! Scratch memory in the orders of a core's views: one buffer for each.

use treepie_schedule::{Buf, Core, Held, Op, Part};

/// The orders of a core's views.
pub(crate) struct Order {
    cuts: u32,
    /// How many positions each view has, without empty ones at the end.
    positions: Vec<u32>,
    /// Where each rank's own pieces stand, rank by rank.
    own: Vec<u32>,
}

impl Order {
    /// Of a core whose blocks are not moved, and whose views, one for each cut, have each block once.
    pub(crate) fn of(core: &dyn Core) -> Self {
        let (ranks, cuts) = (core.ranks(), core.cuts());
        let mut own = vec![0; (ranks * cuts) as usize];
        let mut positions = Vec::new();
        for cut in 0..cuts {
            let (mut found, mut position) = (0, 0);
            while found < ranks {
                core.runs(cut as u8 + 1, position, 1, &mut |run| {
                    assert_eq!(core.keeper(run.block, cut), run.block, "blocks that are moved are in order already");
                    own[(run.block * cuts + cut) as usize] = position;
                    found += 1;
                });
                position += 1;
            }
            positions.push(position);
        }
        Self { cuts, positions, own }
    }

    /// How many buffers there are.
    pub(crate) fn buffers(&self) -> u8 {
        self.cuts as u8
    }

    /// What a buffer has room for.
    pub(crate) fn held(&self, tmp: u8) -> Held {
        Held::Positions { view: tmp + 1, lo: 0, len: self.positions[tmp as usize] }
    }

    /// For each buffer, the piece of a rank's own block in it, and as a part of another buffer.
    pub(crate) fn own(&self, rank: u32, other: Buf) -> impl Iterator<Item = (Part, Part)> + '_ {
        let own = &self.own[(rank * self.cuts) as usize..][..self.cuts as usize];
        own.iter().zip(0..).map(move |(position, cut)| {
            let piece = Part::blocks(other, rank, 1).segment(cut, self.cuts);
            (Part::viewed(Buf::Tmp(cut as u8), cut as u8 + 1, *position, 1), piece)
        })
    }

    /// For each buffer, all of it, and the same of another buffer.
    pub(crate) fn all(&self, other: Buf) -> impl Iterator<Item = (Part, Part)> + '_ {
        self.positions.iter().zip(0..).map(move |(positions, tmp)| {
            let part = Part::viewed(Buf::Tmp(tmp), tmp + 1, 0, *positions);
            (part, part.of_buf(other))
        })
    }
}

/// The same operation on the buffer that is in the order of the part's view.
pub(crate) fn in_order(op: Op) -> Op {
    let moved = |part: Part| part.of_buf(Buf::Tmp(part.view - 1));
    match op {
        Op::Send { to, part } => Op::Send { to, part: moved(part) },
        Op::Recv { from, part } => Op::Recv { from, part: moved(part) },
        Op::RecvReduce { from, part, side } => Op::RecvReduce { from, part: moved(part), side },
        local => local,
    }
}
