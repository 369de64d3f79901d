//! Splits as protocols, without communicators: every algorithm yields the result of a sort of all entries, for every
//! number of ranks and sorters, and for any order of messages.

use treepie_comm::split::{
    RankTable, SplitAlgorithm, SplitEntry, SplitMachine, SplitPlacement, SplitProtocol, SplitResult, algorithm_cost,
    choose_algorithm,
};
use treepie_sim::costs::LogGP;
use treepie_sim::noise::{Noise, SplitMix64};
use treepie_sim::{Settings, reactors};
use treepie_topology::Network;

const MACHINE: LogGP = LogGP { latency: 2.0, overhead: 0.3, gap: 0.3, per_byte: 0.001 };

/// Entries with few colors and keys, so that there are ties, and some without a color. World ranks differ from ranks.
fn entries(ranks: u32, seed: u64) -> Vec<SplitEntry> {
    let mut random = SplitMix64::new(seed);
    let colors = 1 + random.below(4);
    let entry = |rank: u32| {
        let color = random.below(colors + 1);
        let color = (color < colors).then_some((color as u32).wrapping_mul(0x5555_5555));
        SplitEntry::new(color, random.below(5) as i32 - 2, rank, ranks + 7 * rank)
    };
    (0..ranks).map(entry).collect()
}

/// The rows of all communicators, one after the other.
fn sorted(entries: &[SplitEntry]) -> Vec<SplitEntry> {
    let mut all = entries.to_vec();
    all.sort_unstable();
    all
}

fn placement(all: &[SplitEntry], entry: &SplitEntry) -> Option<SplitPlacement> {
    let start = all.iter().position(|other| other.group_key() == entry.group_key())?;
    let size = all.iter().filter(|other| other.group_key() == entry.group_key()).count();
    let row = all.iter().position(|other| other == entry)?;
    let placement = SplitPlacement { start: start as u32, size: size as u32, rank: (row - start) as u32 };
    entry.has_color().then_some(placement)
}

/// The maxima of the two words are on different ranks.
fn piggyback(rank: u32, ranks: u32) -> [u64; 2] {
    [u64::from((rank + ranks / 3) % ranks), u64::from(rank + 1 == ranks)]
}

fn split(algorithm: SplitAlgorithm, entries: &[SplitEntry], settings: &Settings) -> Vec<SplitResult> {
    let ranks = entries.len() as u32;
    let protocol =
        |rank: u32| SplitProtocol::new(algorithm, rank, ranks, entries[rank as usize], piggyback(rank, ranks));
    let simulated = reactors::run(&Network::flat(ranks), settings, (0..ranks).map(protocol).collect(), 0.1);
    let simulated = simulated.unwrap_or_else(|error| panic!("{algorithm} of {ranks} ranks: {error}"));
    simulated.reactors.into_iter().map(SplitProtocol::finish).collect()
}

/// Checks everything that must hold of the results.
fn check(algorithm: SplitAlgorithm, entries: &[SplitEntry], results: &[SplitResult]) {
    let all = sorted(entries);
    for (entry, result) in entries.iter().zip(results) {
        assert_eq!(result.piggyback, [entries.len() as u64 - 1, 1], "{algorithm}");
        let expected = placement(&all, entry);
        let actual =
            result.placement.map(|placement| SplitPlacement { start: expected.unwrap_or_default().start, ..placement });
        assert_eq!(actual, expected, "{algorithm}: rank {} of {}", entry.rank(), entries.len());
        match &result.table {
            RankTable::Full(table) => {
                let own = all.iter().filter(|other| other.group_key() == entry.group_key() && entry.has_color());
                assert!(own.map(SplitEntry::world_rank).eq(table.iter().copied()), "{algorithm}");
                assert!(!algorithm.shares_table());
            }
            RankTable::Shared { starts, holders, .. } => {
                assert!(algorithm.shares_table());
                assert_eq!(result.placement, expected, "with a distributed table, all know the row");
                check_affine(&all, entry, result);
                // The holders of the group have the whole table together.
                let mut rows = Vec::new();
                for (i, holder) in holders.iter().enumerate() {
                    let RankTable::Shared { rows: part, .. } = &results[*holder as usize].table else {
                        panic!("{algorithm}")
                    };
                    assert_eq!(starts[i] as usize, rows.len(), "{algorithm}");
                    rows.extend_from_slice(part);
                }
                assert_eq!(starts.last().copied(), Some(all.len() as u32));
                assert!(all.iter().map(SplitEntry::world_rank).eq(rows.iter().copied()), "{algorithm}");
            }
        }
    }
}

/// A sequence is detected as affine exactly where it is.
fn check_affine(all: &[SplitEntry], entry: &SplitEntry, result: &SplitResult) {
    let Some(affine) = result.affine else { return assert!(!entry.has_color()) };
    let own: Vec<i64> =
        all.iter().filter(|other| other.group_key() == entry.group_key()).map(|it| it.world_rank().into()).collect();
    let step = own.get(1).map_or(0, |second| second - own[0]);
    let is_affine = own.windows(2).all(|two| two[1] - two[0] == step);
    assert_eq!(affine.formula(), is_affine.then_some((own[0] as u32, step)), "{own:?}");
}

fn sorters(ranks: u32) -> Vec<u32> {
    let mut sorters = vec![1, 2, 3, 4, 7, 8, 16, ranks / 2, ranks - 1, ranks];
    sorters.retain(|sorters| (1..=ranks).contains(sorters));
    sorters.sort_unstable();
    sorters.dedup();
    sorters
}

#[test]
fn all_algorithms_agree_for_every_number_of_ranks_and_sorters() {
    let quiet = Settings::from(MACHINE);
    for ranks in (1..=33).chain([64, 100, 128]) {
        let entries = entries(ranks, u64::from(ranks));
        for sorters in sorters(ranks) {
            for algorithm in SplitAlgorithm::all(sorters) {
                check(algorithm, &entries, &split(algorithm, &entries, &quiet));
            }
        }
    }
}

#[test]
fn the_order_of_messages_does_not_matter() {
    let seeds = std::env::var("TREEPIE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1000);
    for seed in 0..seeds {
        let mut random = SplitMix64::new(seed);
        let ranks = 1 + random.below(24) as u32;
        let sorters = 1 + random.below(ranks.into()) as u32;
        let algorithm = SplitAlgorithm::all(sorters)[random.below(6) as usize];
        let entries = entries(ranks, seed);
        let noise = Noise { seed, jitter: 30.0, ..Noise::default() };
        check(algorithm, &entries, &split(algorithm, &entries, &Settings { noise, ..MACHINE.into() }));
    }
}

#[test]
fn equal_and_extreme_keys_are_sorted_too() {
    for ranks in [1, 2, 5, 16, 31] {
        let same: Vec<SplitEntry> = (0..ranks).map(|rank| SplitEntry::new(Some(3), 1, rank, rank)).collect();
        let none: Vec<SplitEntry> = (0..ranks).map(|rank| SplitEntry::new(None, 1, rank, rank)).collect();
        let down: Vec<SplitEntry> =
            (0..ranks).map(|rank| SplitEntry::new(Some(u32::MAX), i32::MAX - rank as i32, rank, rank)).collect();
        let alone: Vec<SplitEntry> =
            (0..ranks).map(|rank| SplitEntry::new(Some(ranks - rank), i32::MIN, rank, rank)).collect();
        for entries in [same, none, down, alone] {
            for algorithm in SplitAlgorithm::all(4) {
                check(algorithm, &entries, &split(algorithm, &entries, &MACHINE.into()));
            }
        }
    }
}

#[test]
fn memory_is_the_table_over_the_number_of_sorters() {
    let ranks = 1024;
    let entries = entries(ranks, 1);
    let max_memory = |algorithm| {
        let protocol = |rank: u32| SplitProtocol::new(algorithm, rank, ranks, entries[rank as usize], [0, 0]);
        let simulated =
            reactors::run(&Network::flat(ranks), &MACHINE.into(), (0..ranks).map(protocol).collect(), 0.0).unwrap();
        let rows = simulated.reactors.iter().map(|split| split.max_memory_bytes()).max().unwrap();
        let tables = simulated.reactors.into_iter().map(|split| match split.finish().table {
            RankTable::Shared { rows, starts, holders } => (rows.len() + starts.len() + holders.len()) * 4,
            RankTable::Full(table) => table.len() * 4,
        });
        (rows, tables.max().unwrap())
    };
    let entry = size_of::<SplitEntry>();
    for sorters in [4, 16, 32] {
        let rows = (ranks / sorters) as usize;
        let (during, after) = max_memory(SplitAlgorithm::Distributed { sorters });
        assert_eq!((during, after), (rows * entry, (rows + 2 * sorters as usize + 1) * 4));
        let (during, after) = max_memory(SplitAlgorithm::Quick { sorters });
        assert_eq!((during, after), (rows * entry, (rows + 2 * sorters as usize + 1) * 4));
        let (during, after) = max_memory(SplitAlgorithm::Overlapped { sorters });
        assert!(during <= rows * entry * 5 / 4 && after <= (rows * 5 / 4 + 2 * sorters as usize + 1) * 4);
    }
}

#[test]
fn the_cost_model_is_close_to_the_simulation() {
    let network = LogGP { latency: 1.5, overhead: 0.4, gap: 0.4, per_byte: 0.0001 };
    let machine = SplitMachine { network, entry: 0.003, allgather: None, bruck: None };
    let settings = Settings { work_unit_time: 0.003, ..network.into() };
    for ranks in [16u32, 128, 1024] {
        let entries: Vec<SplitEntry> = (0..ranks)
            .map(|rank| SplitEntry::new(Some(0), rank.wrapping_mul(0x9e37_79b1) as i32, rank, rank))
            .collect();
        let time = |algorithm| {
            let protocol = |rank: u32| SplitProtocol::new(algorithm, rank, ranks, entries[rank as usize], [0, 0]);
            reactors::run(&Network::flat(ranks), &settings, (0..ranks).map(protocol).collect(), 0.0).unwrap().micros()
        };
        let mut least = f64::MAX;
        for algorithm in [2, 8, 16].into_iter().flat_map(SplitAlgorithm::all) {
            let (took, predicted) = (time(algorithm), algorithm_cost(algorithm, ranks, &machine));
            // Few sorters find their splitters sooner than the formula predicts.
            assert!(
                (0.6..3.0).contains(&(predicted / took)),
                "{algorithm} of {ranks}: {took} us, predicted {predicted}"
            );
            least = least.min(took);
        }
        let chosen = choose_algorithm(ranks, &machine);
        assert!(time(chosen) <= 1.5 * least, "{chosen} is chosen for {ranks} ranks");
    }
}
