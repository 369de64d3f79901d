//! Mutation testing: schedules with changed operations.

use std::ops::Range;

use treepie_schedule::{
    BlockRun, BufferBlocks, OperandSide, Operation, Phase, RoundList, Schedule, ScheduleOp, for_each_lane,
};

/// A mutation of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// The operation is omitted.
    Dropped,
    /// The message is for, or from, the next rank.
    OtherPeer,
    /// The operand is on the other side.
    OtherSide,
}

/// The location of an operation: rank, phase, lane, round, index in the round.
pub(crate) type OpLocation = (u32, u32, u32, u32, usize);

/// A mutated schedule: `change` maps each operation and its location to its replacement.
pub(crate) struct MutatedSchedule<'a, F> {
    pub(crate) schedule: &'a dyn Schedule,
    pub(crate) change: F,
}

/// The schedule with one operation mutated.
pub(crate) fn mutant(
    schedule: &dyn Schedule,
    spot: OpLocation,
    change: Mutation,
) -> MutatedSchedule<'_, impl Fn(OpLocation, ScheduleOp) -> Option<ScheduleOp> + Send + Sync> {
    let ranks = schedule.ranks();
    MutatedSchedule { schedule, change: move |here, op| if here == spot { change.apply(op, ranks) } else { Some(op) } }
}

/// The schedule with the operations of each rank mapped by `change`.
pub(crate) fn with_faults(
    schedule: &dyn Schedule,
    change: impl Fn(u32, ScheduleOp) -> ScheduleOp + Send + Sync,
) -> MutatedSchedule<'_, impl Fn(OpLocation, ScheduleOp) -> Option<ScheduleOp> + Send + Sync> {
    MutatedSchedule { schedule, change: move |(rank, ..): OpLocation, op| Some(change(rank, op)) }
}

/// All operations of a schedule with their locations.
pub(crate) fn operations(schedule: &dyn Schedule) -> Vec<(OpLocation, ScheduleOp)> {
    let mut all = Vec::new();
    for_each_lane(schedule, |rank, phase, lane, rounds| {
        for (round, ops) in (0..).zip(rounds.iter()) {
            all.extend(ops.iter().enumerate().map(|(at, op)| ((rank, phase, lane, round, at), *op)));
        }
    });
    all
}

impl Mutation {
    /// The mutated operation; `None` if it is omitted.
    fn apply(self, op: ScheduleOp, ranks: u32) -> Option<ScheduleOp> {
        let next = |rank: u32| (rank + 1) % ranks;
        let other = |side| if side == OperandSide::Left { OperandSide::Right } else { OperandSide::Left };
        match (self, op) {
            (Mutation::Dropped, _) => None,
            (Mutation::OtherPeer, ScheduleOp::Send { to, part }) => Some(ScheduleOp::Send { to: next(to), part }),
            (Mutation::OtherPeer, ScheduleOp::Recv { from, part }) => Some(ScheduleOp::Recv { from: next(from), part }),
            (Mutation::OtherPeer, ScheduleOp::RecvReduce { from, part, side }) => {
                Some(ScheduleOp::RecvReduce { from: next(from), part, side })
            }
            (Mutation::OtherSide, ScheduleOp::RecvReduce { from, part, side }) => {
                Some(ScheduleOp::RecvReduce { from, part, side: other(side) })
            }
            (Mutation::OtherSide, ScheduleOp::Reduce { from, into, side }) => {
                Some(ScheduleOp::Reduce { from, into, side: other(side) })
            }
            _ => Some(op),
        }
    }

    /// Whether it changes this operation.
    pub(crate) fn changes(self, op: ScheduleOp) -> bool {
        self.apply(op, 1 << 20) != Some(op)
    }
}

impl<F: Fn(OpLocation, ScheduleOp) -> Option<ScheduleOp> + Send + Sync> Schedule for MutatedSchedule<'_, F> {
    fn operation(&self) -> Operation {
        self.schedule.operation()
    }

    fn ranks(&self) -> u32 {
        self.schedule.ranks()
    }

    fn blocks(&self) -> u32 {
        self.schedule.blocks()
    }

    fn scratch_buffers(&self) -> u8 {
        self.schedule.scratch_buffers()
    }

    fn scratch_blocks(&self, tmp: u8, rank: u32) -> BufferBlocks {
        self.schedule.scratch_blocks(tmp, rank)
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

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let mut whole = RoundList::new();
        self.schedule.emit(rank, phase, lane, rounds.clone(), &mut whole);
        for (round, ops) in rounds.zip(whole.iter()) {
            for (at, &op) in ops.iter().enumerate() {
                (self.change)((rank, phase, lane, round, at), op).into_iter().for_each(|op| into.push(op));
            }
            into.end_round();
        }
    }

    fn resolve_view_on(&self, rank: u32, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.schedule.resolve_view_on(rank, view, lo, len, run);
    }
}
