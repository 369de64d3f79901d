//! Scaling of splits in the simulator: the thesis's results on its parallel sort. `TREEPIE_LONG=1` runs larger sizes.

use treepie_comm::split::{SplitAlgorithm, SplitEntry, SplitPhase, SplitProtocol};
use treepie_sim::costs::LogGP;
use treepie_sim::noise::SplitMix64;
use treepie_sim::{Settings, reactors};
use treepie_topology::Network;

/// Entries are expensive and messages cheap, so that few ranks behave like millions.
fn settings() -> Settings {
    let machine = LogGP { latency: 1.0, overhead: 0.2, gap: 0.2, per_byte: 0.001 };
    Settings { work_unit_time: 0.5, ..machine.into() }
}

fn is_long() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// The cost of a split: for each phase the messages of all ranks, and the maximum work of a rank.
struct SplitCost {
    messages: [u64; 6],
    work: [u64; 6],
    micros: f64,
    memory: usize,
}

impl SplitCost {
    fn all_work(&self) -> u64 {
        self.work.iter().sum()
    }
}

fn run(algorithm: SplitAlgorithm, ranks: u32) -> SplitCost {
    let mut random = SplitMix64::new(u64::from(ranks));
    let entries: Vec<SplitEntry> =
        (0..ranks).map(|rank| SplitEntry::new(Some(0), random.next_u64() as i32, rank, rank)).collect();
    let protocol = |rank: u32| SplitProtocol::new(algorithm, rank, ranks, entries[rank as usize], [0, 0]);
    let simulated = reactors::run(&Network::flat(ranks), &settings(), (0..ranks).map(protocol).collect(), 0.0).unwrap();
    let phases = SplitPhase::ALL.map(|phase| phase as usize);
    let costs = |phase: usize| simulated.reactors.iter().map(move |rank| &rank.phase_costs()[phase]);
    SplitCost {
        messages: phases.map(|phase| costs(phase).map(|costs| costs.messages).sum()),
        work: phases.map(|phase| costs(phase).map(|costs| costs.work).max().unwrap_or(0)),
        micros: simulated.micros(),
        memory: simulated.reactors.iter().map(SplitProtocol::max_memory_bytes).max().unwrap_or(0),
    }
}

fn distributed(ranks: u32, sorters: u32) -> SplitCost {
    run(SplitAlgorithm::Distributed { sorters }, ranks)
}

const COLLECT: usize = SplitPhase::Collect as usize;
const SPLITTERS: usize = SplitPhase::Splitters as usize;

#[test]
fn collecting_halves_with_twice_the_sorters() {
    let ranks = if is_long() { 8192 } else { 1024 };
    let work = [2, 4, 8, 16].map(|sorters| distributed(ranks, sorters).work[COLLECT]);
    for two in work.windows(2) {
        let ratio = two[0] as f64 / two[1] as f64;
        assert!((1.9..2.1).contains(&ratio), "{work:?}");
    }
}

#[test]
fn splitter_rounds_grow_with_the_logarithm_of_the_ranks() {
    let sizes: &[u32] = if is_long() { &[64, 256, 1024, 4096, 16384] } else { &[64, 256, 1024] };
    for sorters in [4, 8, 16] {
        let rounds = |ranks: u32| {
            let messages = distributed(ranks, sorters).messages[SPLITTERS] as f64;
            // In each round all ranks send to the owner of each splitter, and receive from it.
            messages / f64::from(ranks) / f64::from(2 * (sorters - 1)) * f64::from(sorters) / f64::from(sorters - 1)
        };
        for ranks in sizes {
            let (rounds, logarithm) = (rounds(*ranks), f64::from(ranks.ilog2()));
            assert!((0.5 * logarithm..1.5 * logarithm).contains(&rounds), "{rounds} rounds, {ranks} and {sorters}");
        }
    }
}

#[test]
fn the_best_number_of_sorters_grows_with_the_ranks() {
    let sizes: &[u32] = if is_long() { &[64, 256, 1024, 4096, 8192] } else { &[64, 256, 1024] };
    let best = sizes.iter().map(|ranks| {
        let times = [2, 4, 8, 16, 32].map(|sorters| (sorters, distributed(*ranks, sorters).micros));
        times.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(sorters, _)| sorters)
    });
    let best: Vec<u32> = best.collect();
    assert!(best.is_sorted() && best.first() < best.last(), "{best:?}");
}

#[test]
fn work_and_memory_match_the_thesis() {
    let sizes: &[u32] = if is_long() { &[256, 1024, 4096, 8192] } else { &[256, 1024] };
    for ranks in sizes {
        for sorters in [2, 4, 8, 16] {
            let cost = distributed(*ranks, sorters);
            let (n, p) = (f64::from(*ranks), f64::from(sorters));
            let formula = p * n.log2() + n.log2().powi(2) + n / p * p.log2().max(1.0);
            let ratio = cost.all_work() as f64 / formula;
            assert!((0.5..6.0).contains(&ratio), "{ratio} of {ranks} ranks and {sorters} sorters");
            assert_eq!(cost.memory, (ranks / sorters) as usize * size_of::<SplitEntry>());
        }
    }
}

#[test]
fn a_shared_table_costs_less_than_full_copies() {
    let [distributed, full, merge] = [
        SplitAlgorithm::Distributed { sorters: 8 },
        SplitAlgorithm::ParallelSort { sorters: 8 },
        SplitAlgorithm::Merge,
    ]
    .map(|algorithm| run(algorithm, 1024));
    assert!(distributed.micros < merge.micros && distributed.micros < full.micros);
    assert_eq!((merge.memory, full.memory), (8 * distributed.memory, 8 * distributed.memory));
}
