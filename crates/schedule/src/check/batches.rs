//! Whether a schedule says the same however it is asked.

use super::{At, Fault};
use crate::op::Rounds;
use crate::schedule::Schedule;

/// A schedule must write the same rounds whether they are asked for one by one or together.
pub(super) fn same_in_batches(schedule: &dyn Schedule) -> Result<(), Fault> {
    let (mut all, mut one) = (Rounds::new(), Rounds::new());
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
                return Err(Fault::Batches { at: At { rank, phase, lane, round } });
            }
        }
    }
    Ok(())
}
