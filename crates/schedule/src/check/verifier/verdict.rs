//! The checks at the end of an execution.

use super::Verifier;
use crate::check::op_access::describe;
use crate::check::value::{RankSet, SymbolicValue};
use crate::check::{ScheduleError, contract};
use crate::op::{Buf, ScheduleOp};
use crate::schedule::Operation;

impl Verifier<'_> {
    /// All ranks must have finished. An unmatched message explains more than the operations that wait because of it, so
    /// it takes precedence.
    pub(super) fn check_termination(&self) -> Result<(), ScheduleError> {
        let mut deadlock = None;
        for (rank, this) in (0..).zip(&self.ranks) {
            for active in this.active.iter().filter(|active| active.running) {
                let waiting = active.ops.iter().find(|op| !op.done).expect("a running round has a pending operation");
                let (direction, peer) = match waiting.op {
                    ScheduleOp::Send { to, .. } => ("to", to),
                    ScheduleOp::Recv { from, .. } | ScheduleOp::RecvReduce { from, .. } => ("from", from),
                    _ => unreachable!("only messages are waited for"),
                };
                let (at, what) = (active.at, describe(self.buffer_map(rank), waiting.op));
                if self.ranks[peer as usize].active.iter().all(|active| !active.running) {
                    return Err(ScheduleError::UnmatchedMessage { at, direction, peer, what });
                }
                deadlock.get_or_insert(ScheduleError::Deadlock { at, direction, peer, what });
            }
        }
        deadlock.map_or(Ok(()), Err)
    }

    /// Compares the results with the expected ones. Returns whether all contributions were combined in rank order, and
    /// whether in the same order on all ranks.
    pub(super) fn check_results(&self) -> Result<(bool, bool), ScheduleError> {
        let (mut rank_ordered, mut identical_results) = (true, true);
        let is_allreduce = self.schedule.operation() == Operation::Allreduce;
        // The combine hash of each element on the first rank.
        let mut hashes = Vec::new();
        for (rank, this) in (0..).zip(&self.ranks) {
            let buffer_map = self.buffer_map(rank);
            if self.schedule.operation() == Operation::Barrier
                && let Some(missing) = RankSet::below(self.schedule.ranks()).difference(this.known_arrived).first()
            {
                return Err(ScheduleError::EarlyExit { rank, missing });
            }
            let mut first_error = None;
            contract::expected(buffer_map, |expected| {
                let contract::Expected { block, at, len, first, ranks_combined } = expected;
                let mut correct = SymbolicValue::UNDEFINED;
                for k in 0..len {
                    let value = this.memory.get(Buf::Out, at + k);
                    let contribution = self.contributions.get(value);
                    if is_allreduce && rank == 0 {
                        hashes.push(contribution.combine_hash);
                    } else if is_allreduce {
                        identical_results &= hashes[at + k] == contribution.combine_hash;
                    }
                    if value.element == first + k as u32
                        && value.contribution == correct.contribution
                        && !correct.is_undefined()
                    {
                        continue;
                    }
                    let what = if value.is_undefined() {
                        "nothing".to_owned()
                    } else if value.element != first + k as u32 {
                        "another element".to_owned()
                    } else if let Some(missing) = ranks_combined.difference(contribution.ranks).first() {
                        format!("rank {missing}'s contribution missing")
                    } else if let Some(extra) = contribution.ranks.difference(ranks_combined).first() {
                        format!("rank {extra}'s contribution, which does not belong there,")
                    } else {
                        rank_ordered &= contribution.is_ordered();
                        correct = value;
                        continue;
                    };
                    first_error.get_or_insert(ScheduleError::WrongResult { rank, block, what });
                }
            });
            if let Some(error) = first_error {
                return Err(error);
            }
        }
        Ok((rank_ordered, identical_results))
    }
}
