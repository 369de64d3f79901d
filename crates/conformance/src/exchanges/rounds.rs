//! Exchange after exchange with nothing between them, among ranks of different speed.

use std::time::Duration;

use treepie::Comm;

use super::{NEEDS_ENGINE_BARRIER, PROTOCOL_IDS, PlanRng, exchange, for_each_protocol, handles, random_plan, rounds};
use crate::check::Outcome;

/// Delays a rank now and then: the last one often, the first never.
fn delay_sometimes(comm: &Comm, round: usize) {
    let mut rng = PlanRng::new(comm.rank(), round ^ 0x510e);
    let often = if comm.rank() + 1 == comm.size() { 20 } else { 100 };
    if comm.rank() > 0 {
        match rng.below(often) {
            0 => std::thread::sleep(Duration::from_micros(500)),
            1..5 => std::thread::yield_now(),
            _ => {}
        }
    }
}

fn run_round(comm: &Comm, round: usize) -> Outcome {
    let size = comm.size();
    delay_sometimes(comm, round);
    // Few messages in most rounds, so that ranks enter the next one early.
    let max_messages = if round.is_multiple_of(10) { 6 } else { 2 };
    exchange(comm, round, &|from| random_plan(from, round, size, max_messages))
}

/// A thousand exchanges over all protocols, or with each in long runs; fewer with many ranks.
pub(super) fn back_to_back(comm: &Comm) -> Outcome {
    let rounds = rounds(comm, 1000 / PROTOCOL_IDS.len());
    for_each_protocol(comm, |comm| (0..rounds).try_for_each(|round| run_round(comm, round)))
}

/// A rank that is already in the next exchange uses another protocol.
pub(super) fn another_each_time(comm: &Comm) -> Outcome {
    let handles = handles(comm)?;
    let mut rng = PlanRng::new(0, 0);
    for round in 0..rounds(comm, 200) {
        let (id, using) = &handles[rng.below(handles.len())];
        run_round(using, round).map_err(|failure| failure.context(id))?;
    }
    Ok(())
}

/// A rank that is already in an exchange of the world is not disturbed by ranks that are still on the dup.
pub(super) fn world_and_dup(world: &Comm) -> Outcome {
    let dup = world.dup()?;
    let handles = handles(world)?;
    for (id, here) in &handles {
        for (other, _) in &handles {
            // A dup has no engine barrier.
            let there = dup.with_algorithm(if *other == NEEDS_ENGINE_BARRIER { "exchange/auto" } else { other })?;
            for round in 0..rounds(world, 6) {
                run_round(&there, round).map_err(|failure| failure.context(format!("{other} on a dup")))?;
                run_round(here, round).map_err(|failure| failure.context(format!("{id} after {other} on a dup")))?;
            }
        }
    }
    Ok(())
}
