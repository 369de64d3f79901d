//! Exchange after exchange with nothing between them, among ranks of different speed.

use std::time::Duration;

use treepie::Comm;

use super::{BEHIND, Dice, IDS, any, each, exchange, handles, rounds};
use crate::check::Outcome;

/// A rank now and then has something else to do: the last one often, the first never.
fn be_slow(comm: &Comm, round: usize) {
    let mut dice = Dice::new(comm.rank(), round ^ 0x510e);
    let often = if comm.rank() + 1 == comm.size() { 20 } else { 100 };
    if comm.rank() > 0 {
        match dice.below(often) {
            0 => std::thread::sleep(Duration::from_micros(500)),
            1..5 => std::thread::yield_now(),
            _ => {}
        }
    }
}

fn round_of(comm: &Comm, round: usize) -> Outcome {
    let size = comm.size();
    be_slow(comm, round);
    // Few messages in most rounds: then ranks are soonest in the next one.
    let most = if round.is_multiple_of(10) { 6 } else { 2 };
    exchange(comm, round, &|from| any(from, round, size, most))
}

/// A thousand of all protocols together, or of each in long runs; fewer of many ranks.
pub(super) fn back_to_back(comm: &Comm) -> Outcome {
    let rounds = rounds(comm, 1000 / IDS.len());
    each(comm, |comm| (0..rounds).try_for_each(|round| round_of(comm, round)))
}

/// Whoever is in the next exchange already follows another protocol.
pub(super) fn another_each_time(comm: &Comm) -> Outcome {
    let handles = handles(comm)?;
    let mut dice = Dice::new(0, 0);
    for round in 0..rounds(comm, 200) {
        let (id, using) = &handles[dice.below(handles.len())];
        round_of(using, round).map_err(|failure| failure.during(id))?;
    }
    Ok(())
}

/// Whoever is in the world already must not be harmed by those who are still on the dup.
pub(super) fn world_and_dup(world: &Comm) -> Outcome {
    let dup = world.dup()?;
    let handles = handles(world)?;
    for (id, here) in &handles {
        for (other, _) in &handles {
            // Not all of them are there on every dup.
            let there = dup.using(if *other == BEHIND { "exchange/auto" } else { other })?;
            for round in 0..rounds(world, 6) {
                round_of(&there, round).map_err(|failure| failure.during(format!("{other} on a dup")))?;
                round_of(here, round).map_err(|failure| failure.during(format!("{id} after {other} on a dup")))?;
            }
        }
    }
    Ok(())
}
