//! Starts ranks: in this process, as the rank that it is, or simulated.

use treepie::simulate::{Options, simulate_with};
use treepie::{Comm, Error};
use treepie_sim::Settings;
use treepie_topology::Network;

/// Bytes of a simulated rank's stack.
const STACK_BYTES: usize = 1 << 20;

/// Runs `rank` on each rank of a world of threads.
pub fn on_threads<T: Send>(ranks: u32, rank: impl Fn(&Comm) -> anyhow::Result<T> + Sync) -> anyhow::Result<Vec<T>> {
    Ok(treepie::launch(ranks as usize, |world| rank(&world).map_err(program_error))?)
}

/// Runs `rank` on the ranks of a world of `threads` threads, or as the rank that this process is.
pub(crate) fn on_ranks(threads: Option<u32>, rank: impl Fn(&Comm) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    match threads {
        None => rank(&treepie::init()?),
        Some(ranks) => on_threads(ranks, rank).map(drop),
    }
}

/// Runs `rank` on simulated ranks, and returns the result of rank 0.
pub(crate) fn on_simulated_ranks<T>(
    network: &Network,
    settings: &Settings,
    rank: impl Fn(&Comm) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let options = Options { stack_size: STACK_BYTES, ..Options::default() };
    let simulated = simulate_with(network, settings, &options, |world| rank(&world).map_err(program_error))?;
    Ok(simulated.into_results().swap_remove(0))
}

/// An error of a rank program, with its context, as that of a rank. The consequence of another rank's failure stays
/// one.
pub fn program_error(error: anyhow::Error) -> Error {
    match error.downcast_ref() {
        Some(consequence @ (Error::PeerLost { .. } | Error::Aborted { .. })) => consequence.clone(),
        _ => Error::Program(format!("{error:#}")),
    }
}
