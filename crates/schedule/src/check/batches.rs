//! Whether a schedule is independent of the batches in which rounds are emitted.

use super::error::{ScheduleError, ScheduleLocation};
use crate::op::RoundList;
use crate::schedule::Schedule;

/// A schedule must emit the same rounds one by one and in a batch.
pub(super) fn check_batch_invariance(schedule: &dyn Schedule) -> Result<(), ScheduleError> {
    let (mut all, mut one) = (RoundList::new(), RoundList::new());
    for rank in 0..schedule.ranks() {
        for phase in 0..schedule.phases() {
            for lane in 0..schedule.phase(phase).lanes {
                let rounds = schedule.rounds(rank, phase, lane);
                all.clear();
                one.clear();
                schedule.emit(rank, phase, lane, 0..rounds, &mut all);
                (0..rounds).for_each(|round| schedule.emit(rank, phase, lane, round..round + 1, &mut one));
                if all == one && all.len() == rounds as usize {
                    continue;
                }
                let differs = |k: &u32| {
                    let k = *k as usize;
                    k >= all.len() || k >= one.len() || all.round(k) != one.round(k)
                };
                let round = (0..rounds).find(differs).unwrap_or(rounds);
                return Err(ScheduleError::BatchMismatch { at: ScheduleLocation { rank, phase, lane, round } });
            }
        }
    }
    Ok(())
}
