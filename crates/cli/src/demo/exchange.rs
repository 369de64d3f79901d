//! Sparse exchanges in the demo: receivers do not know their senders beforehand.

use anyhow::{Context, ensure};
use treepie::{Comm, SparseExchange};
use treepie_sparse::ExchangeProtocol;

/// Exchanges with every protocol that this engine supports, and returns their number.
pub(super) fn run(world: &Comm) -> anyhow::Result<usize> {
    let protocols = ExchangeProtocol::ALL
        .into_iter()
        .filter(|protocol| protocol.missing_capability(world.capabilities()).is_none());
    let mut done = 0;
    for protocol in protocols {
        let comm = world.with_algorithm(protocol.id())?;
        for round in 0..3 {
            exchange(&comm, round).with_context(|| format!("rank {}: {protocol}", world.rank()))?;
        }
        done += 1;
    }
    Ok(done)
}

/// Whether a rank sends to another in a round: rank 0 sends to all including itself, others to a few or to none.
fn sends(from: usize, to: usize, round: usize) -> bool {
    from == 0 || (from + 2 * to + round).is_multiple_of(3)
}

fn exchange(comm: &Comm, round: usize) -> anyhow::Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let message = |from: usize, to: usize| vec![(round * 100 + from * 10 + to) as u32; 1 + 100 * to];
    let to = (0..size).filter(|to| sends(rank, *to, round)).map(|to| (to, message(rank, to)));
    let received = comm.exchange(to)?;
    let from = (0..size).filter(|from| sends(*from, rank, round)).map(|from| (from, message(from, rank)));
    ensure!(received.iter().cloned().eq(from), "received {} messages that are not those sent", received.len());
    Ok(())
}
