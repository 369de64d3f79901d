//! Checked mode when ranks die or leave in the middle of a comparison.

use treepie::prelude::*;
use treepie::{Error, Result, SparseExchange};

use crate::termination::dying;
use crate::{flat, plain, simulate};

/// Calls of each form, one after the other.
fn calls(world: &Comm) -> Result<()> {
    let comm = world.checked();
    let (me, size) = (comm.rank(), comm.size());
    comm.allreduce(&[1u64], Sum)?;
    comm.bcast(&mut [me], 1)?;
    let requests = (comm.ibcast(vec![me], 2)?, comm.iexchange([((me + 1) % size, vec![me])])?);
    comm.dup()?.barrier()?;
    requests.0.wait()?;
    requests.1.wait()?;
    comm.exchange([((me + 1) % size, vec![me])]).map(drop)
}

#[test]
fn a_rank_that_dies_at_any_time_is_lost_without_deadlock() {
    let mut fine = 0;
    for at in (0..150).map(|times| f64::from(times) * 3.0) {
        for dead in 0..5 {
            let simulated = simulate(&flat(5), &dying(dead, at), |world| calls(&world));
            let simulated = simulated.unwrap_or_else(|error| panic!("{dead} dies at {at}: {error}"));
            let died = !simulated.failed_ranks().is_empty();
            for result in simulated.results.iter().flatten() {
                // A rank that learns of an abort caused by the failure may not know of the failure yet.
                let is_failure = matches!(result, Err(Error::PeerLost { .. } | Error::Aborted { .. }));
                assert!(*result == Ok(()) || died && is_failure, "{dead} dies at {at}: {result:?}");
            }
            fine += usize::from(!died);
        }
    }
    assert!(fine > 0 && fine < 750, "{fine} runs without a failure: the times do not test anything");
}

#[test]
fn a_rank_that_leaves_without_calling_is_lost_for_all() {
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
