//! Splits as protocols, without communicators: every way gives what a sort of all gives, for every number of ranks and sorters,
//! whatever the order in which messages come.

use treepie_comm::split::{Entry, Outcome, Place, Splitting, Table, Way, choose, price};
use treepie_sim::costs::LogGP;
use treepie_sim::noise::{Noise, Random};
use treepie_sim::{Settings, reactors};
use treepie_topology::Network;

const MACHINE: LogGP = LogGP { latency: 2.0, overhead: 0.3, gap: 0.3, per_byte: 0.001 };

/// What ranks ask for: few colours and keys, so that there are ties, and some stay out. They are other ranks of the world.
fn entries(ranks: u32, seed: u64) -> Vec<Entry> {
    let mut random = Random::new(seed);
    let colours = 1 + random.below(4);
    let entry = |rank: u32| {
        let colour = random.below(colours + 1);
        let colour = (colour < colours).then_some((colour as u32).wrapping_mul(0x5555_5555));
        Entry::new(colour, random.below(5) as i32 - 2, rank, ranks + 7 * rank)
    };
    (0..ranks).map(entry).collect()
}

/// The rows of all communicators, one behind the other.
fn sorted(entries: &[Entry]) -> Vec<Entry> {
    let mut all = entries.to_vec();
    all.sort_unstable();
    all
}

fn place(all: &[Entry], entry: &Entry) -> Option<Place> {
    let start = all.iter().position(|other| other.group() == entry.group())?;
    let size = all.iter().filter(|other| other.group() == entry.group()).count();
    let row = all.iter().position(|other| other == entry)?;
    let place = Place { start: start as u32, size: size as u32, rank: (row - start) as u32 };
    entry.takes_part().then_some(place)
}

/// One is highest on one rank, and the other on another.
fn notes(rank: u32, ranks: u32) -> [u64; 2] {
    [u64::from((rank + ranks / 3) % ranks), u64::from(rank + 1 == ranks)]
}

fn split(way: Way, entries: &[Entry], settings: &Settings) -> Vec<Outcome> {
    let ranks = entries.len() as u32;
    let begin = |rank: u32| Splitting::new(way, rank, ranks, entries[rank as usize], notes(rank, ranks));
    let ran = reactors::run(&Network::flat(ranks), settings, (0..ranks).map(begin).collect(), 0.1);
    let ran = ran.unwrap_or_else(|error| panic!("{way} of {ranks} ranks: {error}"));
    ran.reactors.into_iter().map(Splitting::finish).collect()
}

/// All that must hold of what ranks know afterwards.
fn check(way: Way, entries: &[Entry], outcomes: &[Outcome]) {
    let all = sorted(entries);
    for (entry, outcome) in entries.iter().zip(outcomes) {
        assert_eq!(outcome.notes, [entries.len() as u64 - 1, 1], "{way}");
        let expected = place(&all, entry);
        let shown = outcome.place.map(|place| Place { start: expected.unwrap_or_default().start, ..place });
        assert_eq!(shown, expected, "{way}: rank {} of {}", entry.rank(), entries.len());
        match &outcome.table {
            Table::Whole(table) => {
                let own = all.iter().filter(|other| other.group() == entry.group() && entry.takes_part());
                assert!(own.map(Entry::at).eq(table.iter().copied()), "{way}");
                assert!(!way.shares());
            }
            Table::Shared { starts, holders, .. } => {
                assert!(way.shares());
                assert_eq!(outcome.place, expected, "where parts are shared, all know the row");
                check_line(&all, entry, outcome);
                // What the holders of the group have is the whole table.
                let mut rows = Vec::new();
                for (i, holder) in holders.iter().enumerate() {
                    let Table::Shared { rows: part, .. } = &outcomes[*holder as usize].table else { panic!("{way}") };
                    assert_eq!(starts[i] as usize, rows.len(), "{way}");
                    rows.extend_from_slice(part);
                }
                assert_eq!(starts.last().copied(), Some(all.len() as u32));
                assert!(all.iter().map(Entry::at).eq(rows.iter().copied()), "{way}");
            }
        }
    }
}

/// A formula is found exactly where ranks follow one.
fn check_line(all: &[Entry], entry: &Entry, outcome: &Outcome) {
    let Some(line) = outcome.line else { return assert!(!entry.takes_part()) };
    let own: Vec<i64> = all.iter().filter(|other| other.group() == entry.group()).map(|it| it.at().into()).collect();
    let step = own.get(1).map_or(0, |second| second - own[0]);
    let follows = own.windows(2).all(|two| two[1] - two[0] == step);
    assert_eq!(line.formula(), follows.then_some((own[0] as u32, step)), "{own:?}");
}

fn sorters(ranks: u32) -> Vec<u32> {
    let mut sorters = vec![1, 2, 3, 4, 7, 8, 16, ranks / 2, ranks - 1, ranks];
    sorters.retain(|sorters| (1..=ranks).contains(sorters));
    sorters.sort_unstable();
    sorters.dedup();
    sorters
}

#[test]
fn every_way_gives_the_same_for_every_number_of_ranks_and_sorters() {
    let quiet = Settings::from(MACHINE);
    for ranks in (1..=33).chain([64, 100, 128]) {
        let entries = entries(ranks, u64::from(ranks));
        for sorters in sorters(ranks) {
            for way in Way::all(sorters) {
                check(way, &entries, &split(way, &entries, &quiet));
            }
        }
    }
}

#[test]
fn the_order_of_messages_does_not_matter() {
    let seeds = std::env::var("TREEPIE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1000);
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let ranks = 1 + random.below(24) as u32;
        let sorters = 1 + random.below(ranks.into()) as u32;
        let way = Way::all(sorters)[random.below(6) as usize];
        let entries = entries(ranks, seed);
        let noise = Noise { seed, jitter: 30.0, ..Noise::default() };
        check(way, &entries, &split(way, &entries, &Settings { noise, ..MACHINE.into() }));
    }
}

#[test]
fn equal_and_extreme_keys_are_sorted_too() {
    for ranks in [1, 2, 5, 16, 31] {
        let same: Vec<Entry> = (0..ranks).map(|rank| Entry::new(Some(3), 1, rank, rank)).collect();
        let none: Vec<Entry> = (0..ranks).map(|rank| Entry::new(None, 1, rank, rank)).collect();
        let down: Vec<Entry> =
            (0..ranks).map(|rank| Entry::new(Some(u32::MAX), i32::MAX - rank as i32, rank, rank)).collect();
        let alone: Vec<Entry> = (0..ranks).map(|rank| Entry::new(Some(ranks - rank), i32::MIN, rank, rank)).collect();
        for entries in [same, none, down, alone] {
            for way in Way::all(4) {
                check(way, &entries, &split(way, &entries, &MACHINE.into()));
            }
        }
    }
}

#[test]
fn what_is_held_is_the_table_over_the_sorters() {
    let ranks = 1024;
    let entries = entries(ranks, 1);
    let most = |way| {
        let begin = |rank: u32| Splitting::new(way, rank, ranks, entries[rank as usize], [0, 0]);
        let ran = reactors::run(&Network::flat(ranks), &MACHINE.into(), (0..ranks).map(begin).collect(), 0.0).unwrap();
        let rows = ran.reactors.iter().map(|splitting| splitting.most_memory()).max().unwrap();
        let tables = ran.reactors.into_iter().map(|splitting| match splitting.finish().table {
            Table::Shared { rows, starts, holders } => (rows.len() + starts.len() + holders.len()) * 4,
            Table::Whole(table) => table.len() * 4,
        });
        (rows, tables.max().unwrap())
    };
    let entry = size_of::<Entry>();
    for sorters in [4, 16, 32] {
        let rows = (ranks / sorters) as usize;
        let (during, after) = most(Way::Distributed { sorters });
        assert_eq!((during, after), (rows * entry, (rows + 2 * sorters as usize + 1) * 4));
        let (during, after) = most(Way::Quick { sorters });
        assert_eq!((during, after), (rows * entry, (rows + 2 * sorters as usize + 1) * 4));
        let (during, after) = most(Way::Overlapped { sorters });
        assert!(during <= rows * entry * 5 / 4 && after <= (rows * 5 / 4 + 2 * sorters as usize + 1) * 4);
    }
}

#[test]
fn the_price_of_a_way_is_about_what_it_takes() {
    let network = LogGP { latency: 1.5, overhead: 0.4, gap: 0.4, per_byte: 0.0001 };
    let settings = Settings { work: 0.003, ..network.into() };
    for ranks in [16u32, 128, 1024] {
        let entries: Vec<Entry> =
            (0..ranks).map(|rank| Entry::new(Some(0), rank.wrapping_mul(0x9e37_79b1) as i32, rank, rank)).collect();
        let time = |way| {
            let begin = |rank: u32| Splitting::new(way, rank, ranks, entries[rank as usize], [0, 0]);
            reactors::run(&Network::flat(ranks), &settings, (0..ranks).map(begin).collect(), 0.0).unwrap().micros()
        };
        let mut least = f64::MAX;
        for way in [2, 8, 16].into_iter().flat_map(Way::all) {
            let (took, priced) = (time(way), price(way, ranks, &network));
            // Few sorters find their splitters sooner than the formula says.
            assert!((0.6..3.0).contains(&(priced / took)), "{way} of {ranks}: {took} us, and priced {priced}");
            least = least.min(took);
        }
        let chosen = choose(ranks, &network);
        assert!(time(chosen) <= 1.5 * least, "{chosen} of {ranks} is chosen");
    }
}
