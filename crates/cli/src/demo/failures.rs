//! A rank that leaves early: every later call of the others fails, and none returns a wrong `Ok`.

use anyhow::ensure;
use treepie::{Comm, Error, Result, Sum};

/// The rank that leaves.
const LEAVER: usize = 1;

/// Calls of each operation by each of the other ranks.
const CALLS: usize = 3;

/// Returns the number of calls that failed, as they must.
pub(super) fn run(world: &Comm) -> anyhow::Result<usize> {
    let dup = world.dup()?;
    if world.rank() == LEAVER {
        return Ok(0);
    }
    let mut failed = 0;
    let mut fails = |call: &str, result: Result<()>| {
        failed += 1;
        let lost = Error::PeerLost { rank: LEAVER };
        let aborted = matches!(result, Err(Error::Aborted { .. } | Error::PeerLost { .. }));
        ensure!(aborted, "rank {}: {call} returned {result:?} instead of an error like `{lost}`", world.rank());
        Ok(())
    };
    for _ in 0..CALLS {
        fails("barrier", world.barrier())?;
        fails("barrier of a dup", dup.barrier())?;
        fails("allreduce", world.allreduce(&[1u64], Sum).map(drop))?;
        fails("a receive", world.recv(&mut [0u8], LEAVER, 0).map(drop))?;
    }
    Ok(failed)
}
