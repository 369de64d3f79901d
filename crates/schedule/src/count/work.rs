//! What all ranks of a schedule do together, wherever its critical path is: where ranks share cores, or the memory,
//! none of it is free.

use crate::layout::{BlockLayouts, BufferMap};
use crate::op::ScheduleOp;
use crate::schedule::{Schedule, for_each_lane_of};

/// The work of some ranks together. Lengths are in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
    /// Messages.
    pub messages: u64,
    /// Rounds in which a rank receives something: it waits once, for all messages of the round.
    pub waits: u64,
    /// Elements of all messages.
    pub sent: u64,
    /// Elements that are combined.
    pub combined: u64,
    /// Elements that ranks copy within their memory.
    pub copied: u64,
}

/// Counts the work of some ranks, which are all of them or a sample.
pub fn count_work(schedule: &dyn Schedule, layouts: &BlockLayouts, ranks: impl IntoIterator<Item = u32>) -> WorkCounts {
    let mut work = WorkCounts::default();
    for_each_lane_of(schedule, ranks, |rank, _, _, rounds| {
        let buffers = BufferMap { schedule, layouts, rank };
        let length = |part| buffers.range_len(part) as u64;
        let receives = |op: &ScheduleOp| matches!(op, ScheduleOp::Recv { .. } | ScheduleOp::RecvReduce { .. });
        work.waits += rounds.iter().filter(|round| round.iter().any(receives)).count() as u64;
        for op in rounds.iter().flatten() {
            match *op {
                ScheduleOp::Send { part, .. } => {
                    work.messages += 1;
                    work.sent += length(part);
                }
                ScheduleOp::RecvReduce { part, .. } => work.combined += length(part),
                ScheduleOp::Reduce { into, .. } => work.combined += length(into),
                ScheduleOp::Copy { to, .. } => work.copied += length(to),
                ScheduleOp::Recv { .. } => {}
            }
        }
    });
    work
}
