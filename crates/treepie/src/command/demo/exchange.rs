//! Sparse exchanges in the demo: who sends to whom is known to nobody else beforehand.

use anyhow::{Context, ensure};
use treepie::{Comm, SparseExchange};
use treepie_sparse::Protocol;

/// Exchanges by every protocol that there is on this engine; returns how many there are.
pub(super) fn run(world: &Comm) -> anyhow::Result<usize> {
    let protocols = Protocol::ALL.into_iter().filter(|protocol| protocol.lacks(world.means()).is_none());
    let mut done = 0;
    for protocol in protocols {
        let comm = world.using(protocol.id())?;
        for round in 0..3 {
            exchange(&comm, round).with_context(|| format!("rank {}: {protocol}", world.rank()))?;
        }
        done += 1;
    }
    Ok(done)
}

/// Whether a rank sends to another in a round: rank 0 to all and itself, the others to a few, and some to nobody.
fn sends(from: usize, to: usize, round: usize) -> bool {
    from == 0 || (from + 2 * to + round).is_multiple_of(3)
}

fn exchange(comm: &Comm, round: usize) -> anyhow::Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let message = |from: usize, to: usize| vec![(round * 100 + from * 10 + to) as u32; 1 + 100 * to];
    let to = (0..size).filter(|to| sends(rank, *to, round)).map(|to| (to, message(rank, to)));
    let came = comm.exchange(to)?;
    let from = (0..size).filter(|from| sends(*from, rank, round)).map(|from| (from, message(from, rank)));
    ensure!(came.iter().cloned().eq(from), "{} messages came, or other ones than were sent", came.len());
    Ok(())
}
