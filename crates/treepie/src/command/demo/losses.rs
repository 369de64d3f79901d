//! A rank that leaves before the others are done: they get errors, each time, and never a wrong `Ok`.

use anyhow::ensure;
use treepie::{Comm, Error, Result, Sum};

/// The rank that leaves.
const LEAVER: usize = 1;

/// How often each of the others calls.
const TIMES: usize = 3;

/// Returns how many calls failed, as they must.
pub(super) fn run(world: &Comm) -> anyhow::Result<usize> {
    let dup = world.dup()?;
    if world.rank() == LEAVER {
        return Ok(0);
    }
    let mut failed = 0;
    let mut fails = |call: &str, result: Result<()>| {
        failed += 1;
        let lost = Error::PeerLost { rank: LEAVER };
        let aborted = matches!(result, Err(Error::GaveUp { .. } | Error::PeerLost { .. }));
        ensure!(aborted, "rank {}: {call} gave {result:?}, and not an error as `{lost}`", world.rank());
        Ok(())
    };
    for _ in 0..TIMES {
        fails("barrier", world.barrier())?;
        fails("barrier of a dup", dup.barrier())?;
        fails("allreduce", world.all_reduce(&[1u64], Sum).map(drop))?;
        fails("a receive", world.recv(&mut [0u8], LEAVER, 0).map(drop))?;
    }
    Ok(failed)
}
