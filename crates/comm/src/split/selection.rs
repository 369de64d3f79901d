//! `split/auto`: the cheapest algorithm by the profile: predicted allgathers, and a model of sorting.

use treepie_model::LogGP;
use treepie_model::predict::MessageCosts;
use treepie_model::split::SplitCosts;
use treepie_topology::Network;

use super::algorithm::SplitAlgorithm;
use super::entry::SplitEntry;
use crate::comm::Comm;

/// A table with more bytes per rank is distributed, whatever the cost.
const MAX_TABLE_BYTES: f64 = (1 << 20) as f64;

/// Maximum number of sorters.
const MAX_SORTERS: u32 = 64;

/// Costs of a split, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitMachine {
    /// Messages.
    pub network: LogGP,
    /// To move or compare an entry.
    pub entry: f64,
    /// An allgather of two entries of each rank by the fastest algorithm, if its time was predicted.
    pub allgather: Option<f64>,
    /// An allgather of one entry of each rank by Bruck's algorithm, if its time was predicted.
    pub bruck: Option<f64>,
}

impl SplitMachine {
    /// By a profile. An entry is read and written.
    pub fn new(costs: &MessageCosts<'_>) -> Self {
        let (network, bytes) = (costs.loggp(), size_of::<SplitEntry>() as f64);
        // Where copies are free, as in simulations, an entry takes as long as on the network.
        let entry = costs.copy(2.0 * bytes).max(bytes * network.per_byte);
        Self { network, entry, allgather: None, bruck: None }
    }

    /// With the times of allgathers on the network of a communicator, where every rank can hold the table.
    pub(super) fn with_allgathers(self, comm: &Comm) -> Self {
        if !fits_every_rank(comm.size() as u32) {
            return self;
        }
        let [allgather, bruck] = comm.allgathers_of_splits(size_of::<SplitEntry>());
        Self { allgather, bruck, ..self }
    }
}

fn fits_every_rank(ranks: u32) -> bool {
    f64::from(ranks) * size_of::<u32>() as f64 <= MAX_TABLE_BYTES
}

impl Comm {
    /// By the profile of this communicator.
    pub(super) fn split_machine(&self) -> SplitMachine {
        SplitMachine::new(&self.message_costs(&Network::flat(self.size() as u32)))
    }
}

/// The cheapest algorithm for this number of ranks on a machine.
pub fn choose_algorithm(ranks: u32, machine: &SplitMachine) -> SplitAlgorithm {
    let counts = (1..=MAX_SORTERS.ilog2()).map(|bits| 1 << bits).filter(|sorters| *sorters < ranks);
    let sorting = counts
        .flat_map(|sorters| SplitAlgorithm::all(sorters).into_iter().filter(|algorithm| algorithm.sorters().is_some()));
    let all = [SplitAlgorithm::AllgatherSort, SplitAlgorithm::Merge].into_iter().chain(sorting);
    let allowed = all.filter(|algorithm| algorithm.shares_table() || fits_every_rank(ranks));
    let with_costs = allowed.map(|algorithm| (algorithm, algorithm_cost(algorithm, ranks, machine)));
    with_costs.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(SplitAlgorithm::AllgatherSort, |(algorithm, _)| algorithm)
}

/// The number of sorters to use where none is set.
pub fn choose_sorters(ranks: u32, machine: &SplitMachine) -> u32 {
    let counts = (0..=MAX_SORTERS.ilog2()).map(|bits| 1 << bits).filter(|sorters| *sorters <= ranks);
    let cost = |sorters: &u32| algorithm_cost(SplitAlgorithm::Distributed { sorters: *sorters }, ranks, machine);
    counts.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(1)
}

/// The cost of a split, in microseconds. [thesis 2.3.1]
pub fn algorithm_cost(algorithm: SplitAlgorithm, ranks: u32, machine: &SplitMachine) -> f64 {
    let SplitMachine { network, entry, .. } = *machine;
    let n = f64::from(ranks);
    let p = f64::from(algorithm.sorters().unwrap_or(1).min(ranks));
    let lg = |x: f64| x.max(1.0).log2().ceil();
    let alpha = network.latency + 2.0 * network.overhead;
    let bytes = size_of::<SplitEntry>() as f64 * network.per_byte;
    let transfer = |entries: f64, steps: f64| steps * alpha + entries * bytes;
    let allgather = |entries: f64, steps: f64, accesses: f64| transfer(entries, steps) + entries * accesses * entry;
    // What each of the p sorters sends to and receives from all others.
    let among = 2.0 * network.message_interval();
    let find = 2.0 * (alpha + among * p);
    // The phases of the thesis, and the latencies that it omits: of collecting, of two messages in each round, of the
    // exchange. With approximate splitters, half the rounds of an exact search are needed.
    let sort = |rounds: f64| {
        let (collect, exchange) = (bytes + 3.0 * entry, bytes + entry);
        let phases = SplitCosts { collect, round: 2.0 * among * rounds, probe: 0.0, exchange, merge: entry };
        let steps = lg(n / p) + 2.0 * rounds * lg(n) + 1.0;
        phases.phase_times(n, p).total() + steps * alpha + among * p + find
    };
    match algorithm {
        // The second entry of each rank is a piggyback, and is not sorted.
        SplitAlgorithm::AllgatherSort => machine.allgather.unwrap_or(transfer(n, lg(n))) + n * (1.0 + lg(n)) * entry,
        SplitAlgorithm::Merge => machine.bruck.unwrap_or(transfer(n, lg(n))) + n * 3.0 * entry,
        SplitAlgorithm::Distributed { .. } => sort(1.0),
        SplitAlgorithm::Overlapped { .. } => sort(0.5),
        SplitAlgorithm::ParallelSort { .. } => sort(1.0) + allgather(n, lg(p), 2.0),
        // The number of levels is slightly above lg n; each has two reductions and broadcasts on its tree.
        SplitAlgorithm::Quick { .. } => 2.6 * lg(n) * lg(n) * alpha + allgather(n / p, lg(n / p), 1.0) + find,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_communicators_gather_and_large_ones_distribute() {
        let network = LogGP { latency: 1.5, overhead: 0.4, gap: 0.4, per_byte: 0.0001 };
        let network = SplitMachine { network, entry: 0.003, allgather: None, bruck: None };
        for ranks in 1..=64 {
            assert!(!choose_algorithm(ranks, &network).shares_table(), "{ranks}");
        }
        assert_eq!(choose_algorithm(2, &network), SplitAlgorithm::AllgatherSort);
        assert!(choose_algorithm(1 << 20, &network).shares_table());
        assert!(choose_algorithm(1 << 27, &network).shares_table());
        // The number of sorters grows with the number of ranks.
        let counts: Vec<u32> = (10..28).map(|bits| choose_sorters(1 << bits, &network)).collect();
        assert!(counts.is_sorted() && counts[0] < counts[17], "{counts:?}");
    }

    #[test]
    fn predicted_allgathers_replace_those_of_a_flat_network() {
        let network = LogGP { latency: 1.5, overhead: 0.4, gap: 0.4, per_byte: 0.0001 };
        let machine = SplitMachine { network, entry: 0.003, allgather: Some(5.0), bruck: Some(100.0) };
        assert_eq!(choose_algorithm(32, &machine), SplitAlgorithm::AllgatherSort);
        let machine = SplitMachine { allgather: Some(100.0), bruck: Some(5.0), ..machine };
        assert_eq!(choose_algorithm(32, &machine), SplitAlgorithm::Merge);
    }
}
