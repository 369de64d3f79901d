//! How splits scale, in the simulator: what the thesis says of its parallel sort. `TREEPIE_LONG=1` goes to larger sizes.

use treepie_comm::split::{Entry, Phase, Splitting, Way};
use treepie_sim::costs::LogGP;
use treepie_sim::noise::Random;
use treepie_sim::{Settings, reactors};
use treepie_topology::Network;

/// Entries cost much and messages little, so that few ranks show what millions do.
fn settings() -> Settings {
    let machine = LogGP { latency: 1.0, overhead: 0.2, gap: 0.2, per_byte: 0.001 };
    Settings { work: 0.5, ..machine.into() }
}

fn is_long() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// What a split has cost: of each phase messages of all ranks, and the work of the rank that has most.
struct Ran {
    messages: [u64; 6],
    work: [u64; 6],
    micros: f64,
    memory: usize,
}

impl Ran {
    fn all_work(&self) -> u64 {
        self.work.iter().sum()
    }
}

fn run(way: Way, ranks: u32) -> Ran {
    let mut random = Random::new(u64::from(ranks));
    let entries: Vec<Entry> = (0..ranks).map(|rank| Entry::new(Some(0), random.word() as i32, rank, rank)).collect();
    let begin = |rank: u32| Splitting::new(way, rank, ranks, entries[rank as usize], [0, 0]);
    let ran = reactors::run(&Network::flat(ranks), &settings(), (0..ranks).map(begin).collect(), 0.0).unwrap();
    let phases = Phase::ALL.map(|phase| phase as usize);
    let spent = |phase: usize| ran.reactors.iter().map(move |rank| &rank.spent()[phase]);
    Ran {
        messages: phases.map(|phase| spent(phase).map(|spent| spent.messages).sum()),
        work: phases.map(|phase| spent(phase).map(|spent| spent.work).max().unwrap_or(0)),
        micros: ran.micros(),
        memory: ran.reactors.iter().map(Splitting::most_memory).max().unwrap_or(0),
    }
}

fn distributed(ranks: u32, sorters: u32) -> Ran {
    run(Way::Distributed { sorters }, ranks)
}

const COLLECT: usize = Phase::Collect as usize;
const SPLITTERS: usize = Phase::Splitters as usize;

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
fn splitters_take_as_long_in_larger_communicators_but_for_the_logarithm() {
    let sizes: &[u32] = if is_long() { &[64, 256, 1024, 4096, 16384] } else { &[64, 256, 1024] };
    for sorters in [4, 8, 16] {
        let rounds = |ranks: u32| {
            let messages = distributed(ranks, sorters).messages[SPLITTERS] as f64;
            // In each round all say something to whoever is responsible for each splitter, and hear of it.
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
fn work_and_memory_are_what_the_thesis_says() {
    let sizes: &[u32] = if is_long() { &[256, 1024, 4096, 8192] } else { &[256, 1024] };
    for ranks in sizes {
        for sorters in [2, 4, 8, 16] {
            let ran = distributed(*ranks, sorters);
            let (n, p) = (f64::from(*ranks), f64::from(sorters));
            let formula = p * n.log2() + n.log2().powi(2) + n / p * p.log2().max(1.0);
            let ratio = ran.all_work() as f64 / formula;
            assert!((0.5..6.0).contains(&ratio), "{ratio} of {ranks} ranks and {sorters} sorters");
            assert_eq!(ran.memory, (ranks / sorters) as usize * size_of::<Entry>());
        }
    }
}

#[test]
fn a_shared_table_costs_less_than_full_copies() {
    let [distributed, full, merge] =
        [Way::Distributed { sorters: 8 }, Way::ParallelSort { sorters: 8 }, Way::Merge].map(|way| run(way, 1024));
    assert!(distributed.micros < merge.micros && distributed.micros < full.micros);
    assert_eq!((merge.memory, full.memory), (8 * distributed.memory, 8 * distributed.memory));
}
