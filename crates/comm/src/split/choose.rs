//! `split/auto`: the way that takes least, as far as a model of messages and of sorting knows.

use treepie_model::LogGP;
use treepie_model::split::Split;

use super::entry::Entry;
use super::ways::Way;

/// A table of more bytes on each rank is shared, whatever that takes.
const MOST_TABLE: f64 = (1 << 20) as f64;

/// The most that sort together.
const MOST_SORTERS: u32 = 64;

/// What an entry costs that is moved or compared, in microseconds: measured on one core, from memory.
const ENTRY: f64 = 0.003;

/// The cheapest way for so many ranks on a network.
pub fn choose(ranks: u32, network: &LogGP) -> Way {
    let counts = (1..=MOST_SORTERS.ilog2()).map(|bits| 1 << bits).filter(|sorters| *sorters < ranks);
    let sorting = counts.flat_map(|sorters| Way::all(sorters).into_iter().filter(|way| way.sorters().is_some()));
    let all = [Way::AllgatherSort, Way::Merge].into_iter().chain(sorting);
    let allowed = all.filter(|way| way.shares() || f64::from(ranks) * size_of::<u32>() as f64 <= MOST_TABLE);
    let priced = allowed.map(|way| (way, price(way, ranks, network)));
    priced.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(Way::AllgatherSort, |(way, _)| way)
}

/// How many of so many ranks are to sort together where that is not said.
pub fn sorters(ranks: u32, network: &LogGP) -> u32 {
    let counts = (0..=MOST_SORTERS.ilog2()).map(|bits| 1 << bits).filter(|sorters| *sorters <= ranks);
    let price = |sorters: &u32| price(Way::Distributed { sorters: *sorters }, ranks, network);
    counts.min_by(|a, b| price(a).total_cmp(&price(b))).unwrap_or(1)
}

/// What a split costs, in microseconds. [thesis 2.3.1]
pub fn price(way: Way, ranks: u32, network: &LogGP) -> f64 {
    let n = f64::from(ranks);
    let p = f64::from(way.sorters().unwrap_or(1).min(ranks));
    let lg = |x: f64| x.max(1.0).log2().ceil();
    let alpha = network.latency + 2.0 * network.overhead;
    let bytes = size_of::<Entry>() as f64 * network.per_byte;
    let doubling = |entries: f64, steps: f64, touched: f64| steps * alpha + entries * (bytes + touched * ENTRY);
    // What each of the p sorters sends to all others, and they to it.
    let among = 2.0 * network.spacing();
    let find = 2.0 * (alpha + among * p);
    // The thesis's phases, and the latencies that it leaves out: of collecting, of two messages in each round, of the exchange.
    // Where splitters may be a little wrong, half the rounds of an exact search are needed.
    let sort = |rounds: f64| {
        let (collect, exchange) = (bytes + 3.0 * ENTRY, bytes + ENTRY);
        let phases = Split { collect, round: 2.0 * among * rounds, probe: 0.0, exchange, merge: ENTRY };
        let steps = lg(n / p) + 2.0 * rounds * lg(n) + 1.0;
        phases.parts(n, p).total() + steps * alpha + among * p + find
    };
    match way {
        Way::AllgatherSort => doubling(n, lg(n), 1.0 + lg(n)),
        Way::Merge => doubling(n, lg(n), 3.0),
        Way::Distributed { .. } => sort(1.0),
        Way::Overlapped { .. } => sort(0.5),
        Way::ParallelSort { .. } => sort(1.0) + doubling(n, lg(p), 2.0),
        // Levels are a little more than the logarithm; each goes up and down its tree twice.
        Way::Quick { .. } => 2.6 * lg(n) * lg(n) * alpha + doubling(n / p, lg(n / p), 1.0) + find,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_ranks_gather_and_many_share() {
        let network = LogGP { latency: 1.5, overhead: 0.4, gap: 0.4, per_byte: 0.0001 };
        for ranks in 1..=64 {
            assert!(!choose(ranks, &network).shares(), "{ranks}");
        }
        assert_eq!(choose(2, &network), Way::AllgatherSort);
        assert!(choose(1 << 20, &network).shares());
        assert!(choose(1 << 27, &network).shares());
        // The more ranks, the more sort.
        let counts: Vec<u32> = (10..28).map(|bits| sorters(1 << bits, &network)).collect();
        assert!(counts.is_sorted() && counts[0] < counts[17], "{counts:?}");
    }
}
