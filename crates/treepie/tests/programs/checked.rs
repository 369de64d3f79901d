//! Checked mode when ranks end or leave in the middle of a comparison.

use treepie::prelude::*;
use treepie::{Error, Result, SparseExchange, simulate};

use crate::ends::dying;
use crate::{flat, plain};

/// Calls of each form, one after the other.
fn calls(world: &Comm) -> Result<()> {
    let comm = world.checked();
    let (me, size) = (comm.rank(), comm.size());
    comm.all_reduce(&[1u64], Sum)?;
    comm.bcast(&mut [me], 1)?;
    let requests = (comm.ibcast(vec![me], 2)?, comm.iexchange([((me + 1) % size, vec![me])])?);
    comm.dup()?.barrier()?;
    requests.0.wait()?;
    requests.1.wait()?;
    comm.exchange([((me + 1) % size, vec![me])]).map(drop)
}

#[test]
fn who_dies_at_any_time_is_lost_and_no_deadlock() {
    let mut fine = 0;
    for at in (0..150).map(|times| f64::from(times) * 3.0) {
        for dead in 0..5 {
            let simulated = simulate(&flat(5), &dying(dead, at), |world| calls(&world));
            let simulated = simulated.unwrap_or_else(|error| panic!("{dead} dies at {at}: {error}"));
            let died = !simulated.died().is_empty();
            for result in simulated.results.iter().flatten() {
                // Those who hear of one that gave up because of the loss may not know of the loss itself yet.
                let is_told = matches!(result, Err(Error::PeerLost { .. } | Error::GaveUp { .. }));
                assert!(*result == Ok(()) || died && is_told, "{dead} dies at {at}: {result:?}");
            }
            fine += usize::from(!died);
        }
    }
    assert!(fine > 0 && fine < 750, "{fine} runs in which nobody died: the times say nothing");
}

#[test]
fn who_leaves_without_calling_is_lost_for_all() {
    for leaving in 0..5 {
        let simulated =
            simulate(
                &flat(5),
                &plain(),
                |world| {
                    if world.rank() == leaving { Ok(()) } else { world.checked().barrier() }
                },
            );
        for (rank, result) in simulated.expect("no deadlock").results.into_iter().enumerate() {
            let lost = Err(Error::PeerLost { rank: leaving });
            assert_eq!(result, Some(if rank == leaving { Ok(()) } else { lost }), "rank {rank}, {leaving} leaves");
        }
    }
}
