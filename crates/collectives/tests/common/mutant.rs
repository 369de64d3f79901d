//! A schedule with operations changed.

use std::ops::Range;

use treepie_schedule::{Held, Op, Operation, Phase, Rounds, Run, Schedule, Side};

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The operation is left out.
    Dropped,
    /// The message is for, or from, the next rank.
    OtherPeer,
    /// The operand stands on the other side.
    OtherSide,
}

/// Where: rank, phase, lane, round, number in the round.
pub(crate) type Spot = (u32, u32, u32, u32, usize);

/// A schedule with operations changed: `change` gets each of them and where it is, and says what is there instead.
pub(crate) struct Changed<'a, F> {
    pub(crate) schedule: &'a dyn Schedule,
    pub(crate) change: F,
}

/// With the operation at one spot changed.
pub(crate) fn mutant(
    schedule: &dyn Schedule,
    spot: Spot,
    change: Change,
) -> Changed<'_, impl Fn(Spot, Op) -> Option<Op> + Send + Sync> {
    let ranks = schedule.ranks();
    Changed { schedule, change: move |here, op| if here == spot { change.apply(op, ranks) } else { Some(op) } }
}

/// With what each rank does changed.
pub(crate) fn planted(
    schedule: &dyn Schedule,
    change: impl Fn(u32, Op) -> Op + Send + Sync,
) -> Changed<'_, impl Fn(Spot, Op) -> Option<Op> + Send + Sync> {
    Changed { schedule, change: move |(rank, ..): Spot, op| Some(change(rank, op)) }
}

/// All operations of a schedule, and where they are.
pub(crate) fn operations(schedule: &dyn Schedule) -> Vec<(Spot, Op)> {
    let mut all = Vec::new();
    for rank in 0..schedule.ranks() {
        for phase in 0..schedule.phases() {
            for lane in 0..schedule.phase(phase).lanes {
                let mut rounds = Rounds::new();
                schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut rounds);
                for (round, ops) in (0..).zip(rounds.iter()) {
                    all.extend(ops.iter().enumerate().map(|(at, op)| ((rank, phase, lane, round, at), *op)));
                }
            }
        }
    }
    all
}

impl Change {
    /// The operation after it; nothing if it is left out.
    fn apply(self, op: Op, ranks: u32) -> Option<Op> {
        let next = |rank: u32| (rank + 1) % ranks;
        let other = |side| if side == Side::Left { Side::Right } else { Side::Left };
        match (self, op) {
            (Change::Dropped, _) => None,
            (Change::OtherPeer, Op::Send { to, part }) => Some(Op::Send { to: next(to), part }),
            (Change::OtherPeer, Op::Recv { from, part }) => Some(Op::Recv { from: next(from), part }),
            (Change::OtherPeer, Op::RecvReduce { from, part, side }) => {
                Some(Op::RecvReduce { from: next(from), part, side })
            }
            (Change::OtherSide, Op::RecvReduce { from, part, side }) => {
                Some(Op::RecvReduce { from, part, side: other(side) })
            }
            (Change::OtherSide, Op::Reduce { from, into, side }) => Some(Op::Reduce { from, into, side: other(side) }),
            _ => Some(op),
        }
    }

    /// Whether it changes such an operation.
    pub(crate) fn changes(self, op: Op) -> bool {
        self.apply(op, 1 << 20) != Some(op)
    }
}

impl<F: Fn(Spot, Op) -> Option<Op> + Send + Sync> Schedule for Changed<'_, F> {
    fn operation(&self) -> Operation {
        self.schedule.operation()
    }

    fn ranks(&self) -> u32 {
        self.schedule.ranks()
    }

    fn blocks(&self) -> u32 {
        self.schedule.blocks()
    }

    fn temporaries(&self) -> u8 {
        self.schedule.temporaries()
    }

    fn temporary(&self, tmp: u8, rank: u32) -> Held {
        self.schedule.temporary(tmp, rank)
    }

    fn phases(&self) -> u32 {
        self.schedule.phases()
    }

    fn phase(&self, phase: u32) -> Phase {
        self.schedule.phase(phase)
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        self.schedule.rounds(rank, phase, lane)
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        let mut whole = Rounds::new();
        self.schedule.emit(rank, phase, lane, rounds.clone(), &mut whole);
        for (round, ops) in rounds.zip(whole.iter()) {
            for (at, &op) in ops.iter().enumerate() {
                (self.change)((rank, phase, lane, round, at), op).into_iter().for_each(|op| into.push(op));
            }
            into.end();
        }
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.schedule.runs(view, lo, len, run);
    }
}
