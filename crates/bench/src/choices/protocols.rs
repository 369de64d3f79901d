//! Sparse exchanges and splits to time, with each of their protocols.

use treepie::{Comm, Rank, SparseExchange};
use treepie_comm::split::SplitAlgorithm;
use treepie_sparse::{ExchangeProtocol, Microbenchmark, chosen_protocol};

use super::rank::{Side, Task};

/// A sparse exchange with random neighbors, as in the paper's microbenchmark, but with messages of one length.
pub(super) struct ExchangeTask {
    messages: Vec<(Rank, Vec<u8>)>,
}

const SEED: u64 = 1;

impl ExchangeTask {
    pub(super) fn new(world: &Comm, neighbors: u32, bytes: u64) -> Self {
        let ranks = world.size() as u32;
        let drawn = Microbenchmark::new(SEED, ranks, neighbors.min(ranks - 1)).messages(world.rank() as u32, 0);
        Self { messages: drawn.into_iter().map(|(to, _)| (to as Rank, vec![1; bytes as usize])).collect() }
    }
}

impl Task for ExchangeTask {
    fn run(&mut self, comm: &Comm) -> treepie::Result<()> {
        comm.exchange(self.messages.iter().cloned()).map(drop)
    }

    fn sides(&self, world: &Comm) -> anyhow::Result<Vec<Side>> {
        // The first exchange tells how much traffic there is, and the second is chosen for it.
        for _ in 0..2 {
            world.exchange(self.messages.iter().cloned())?;
        }
        let chosen = chosen_protocol(world).map_or(String::new(), |protocol| protocol.to_string());
        let available = |protocol: &ExchangeProtocol| protocol.missing_capability(world.capabilities()).is_none();
        let ids = ExchangeProtocol::ALL.into_iter().filter(available).map(|protocol| protocol.to_string());
        sides_of(world, chosen, ids)
    }
}

/// A split into this number of communicators.
pub(super) struct SplitTask {
    pub(super) colors: u32,
}

impl Task for SplitTask {
    fn run(&mut self, comm: &Comm) -> treepie::Result<()> {
        comm.split(comm.rank() as u32 % self.colors, 0).map(drop)
    }

    fn sides(&self, world: &Comm) -> anyhow::Result<Vec<Side>> {
        let ids = SplitAlgorithm::all(2).map(|algorithm| algorithm.name().to_owned());
        sides_of(world, world.chosen_split_algorithm()?.name().to_owned(), ids)
    }
}

/// The choice, and the others by name.
fn sides_of(world: &Comm, chosen: String, ids: impl IntoIterator<Item = String>) -> anyhow::Result<Vec<Side>> {
    let mut sides = vec![Side::new(chosen.clone(), 0.0, world.clone())];
    for id in ids.into_iter().filter(|id| *id != chosen) {
        let comm = world.with_algorithm(&id)?;
        sides.push(Side::new(id, 0.0, comm));
    }
    Ok(sides)
}
