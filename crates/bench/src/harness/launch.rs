//! Starts ranks in this process.

use treepie::Comm;

/// Runs `rank` on the ranks of a world of threads, and returns their results in order.
pub(crate) fn on_threads<R: Send>(
    ranks: usize,
    rank: impl Fn(Comm) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    treepie::launch(ranks, rank)?.into_iter().collect()
}

/// Runs `rank` on the ranks of a world of `threads` threads, or as the rank that this process is.
pub(crate) fn on_ranks(threads: Option<usize>, rank: impl Fn(Comm) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    match threads {
        None => rank(treepie::init()?),
        Some(ranks) => on_threads(ranks, rank).map(drop),
    }
}
