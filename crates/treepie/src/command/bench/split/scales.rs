//! Simulated splits of several sizes: the table, and records.

use anyhow::{Context, ensure};
use serde::Serialize;
use treepie_comm::split::{Phase, Way};
use treepie_model::machines::Machine;
use treepie_sim::Settings;
use treepie_topology::Network;

use super::super::super::record::{Better, Record, Records};
use super::super::super::sim;
use super::super::number;
use super::simulated::{Extent, Seen, extent, simulate};
use super::sizes::{Size, Sizes};

/// Which ways the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    All,
    /// By its name.
    One(String),
}

/// Reads a way, with or without what all begin with.
pub(super) fn asked(text: &str) -> Result<Asked, String> {
    if text == "all" {
        return Ok(Asked::All);
    }
    let name = text.strip_prefix("split/").unwrap_or(text);
    let ways = Way::all(2).map(|way| way.name());
    match ways.iter().find(|way| way.strip_prefix("split/") == Some(name)) {
        Some(way) => Ok(Asked::One((*way).to_owned())),
        None => Err(format!("there are all, {}", ways.join(", "))),
    }
}

/// What the user asks for.
pub(super) struct Scales<'a> {
    pub(super) sizes: &'a Sizes,
    pub(super) sorters: &'a Sizes,
    pub(super) way: &'a Asked,
    pub(super) machine: Machine,
}

/// Microseconds of an entry that is moved or looked at.
const ENTRY: f64 = 0.002;

const TIMES: [(&str, Phase); 6] = [
    ("collect", Phase::Collect),
    ("splitters", Phase::Splitters),
    ("exchange", Phase::Exchange),
    ("merge", Phase::Merge),
    ("find", Phase::Find),
    ("copy", Phase::Copy),
];

/// The most ranks: their entries are held, and whole tables of some.
const MOST_RANKS: u32 = 16 << 20;

impl Scales<'_> {
    /// What cannot be simulated is refused.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let (name, most) = (self.machine.name(), self.sizes.last());
        ensure!(self.machine.loggp().is_some(), "{name} is more than LogGP parameters: say intrepid, jaguar or bigred");
        ensure!(most <= MOST_RANKS, "{} ranks are too many to be simulated: at most {}", Size(most), Size(MOST_RANKS));
        let (first, fewest) = (self.sizes.first(), self.sorters.first());
        ensure!(fewest <= first, "of {} ranks, {fewest} cannot sort together", Size(first));
        Ok(())
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let machine = self.machine;
        let settings = sim::settings(Some(machine), &Network::flat(self.sizes.last()))?;
        Ok(Settings { work: ENTRY, ..settings })
    }

    pub(super) fn run(&self, mut records: Option<&mut Records>) -> anyhow::Result<()> {
        let settings = self.settings()?;
        say!(
            "Splits simulated with {}, {ENTRY} us for an entry that is moved or looked at; one colour, random keys",
            self.machine.name()
        );
        say!("  messages, KB  of a rank, mean");
        say!(
            "  during        KB of tables that a rank holds at most, beside messages; after: of the communicator's table"
        );
        say!(
            "  times         in microseconds: from when the last rank was through the phase before to when it is through this;"
        );
        say!("                of quick, splitters is all of the quicksort, and merge gathers");
        say!("  *             one group with its data, and the rest by symmetry: all groups do the same");
        say!("");
        let times = TIMES.map(|(name, _)| format!("{name:>9}")).join(" ");
        say!(
            "{:>6} {:<15} {:>7} {:>8} {:>8} {:>8} {:>8} {times} {:>9}",
            "ranks",
            "way",
            "sorters",
            "messages",
            "KB",
            "during",
            "after",
            "total"
        );
        for ranks in self.sizes.iter() {
            for way in self.ways(ranks) {
                let seen =
                    extent(way, ranks).map(|extent| simulate(way, ranks, extent, &settings).map(|seen| (extent, seen)));
                let seen = seen.transpose().with_context(|| format!("{way} of {ranks} ranks"))?;
                print(way, ranks, seen.as_ref());
                if let (Some(records), Some((extent, seen))) = (&mut records, seen) {
                    records.write(&record(way, ranks, extent, &seen, self.machine))?;
                }
            }
        }
        Ok(())
    }

    fn ways(&self, ranks: u32) -> Vec<Way> {
        let all = self.sorters.iter().filter(|sorters| *sorters <= ranks).map(Way::all);
        let mut ways: Vec<Way> = all
            .flatten()
            .filter(|way| *self.way == Asked::All || *self.way == Asked::One(way.name().to_owned()))
            .collect();
        // Those of one kind stand together, and once if nobody sorts for others.
        let place = |way: &Way| Way::all(0).iter().position(|other| other.name() == way.name());
        ways.sort_by_key(place);
        ways.dedup();
        ways
    }
}

fn print(way: Way, ranks: u32, seen: Option<&(Extent, Seen)>) {
    let name = way.name().trim_start_matches("split/");
    let sorters = way.sorters().map_or_else(|| "-".to_owned(), |sorters| sorters.to_string());
    let size = Size(ranks);
    let Some((extent, seen)) = seen else {
        say!("{size:>6} {name:<15} {sorters:>7} too much to be simulated");
        return;
    };
    let each = |value: u64| value as f64 / f64::from(ranks);
    let kb = |bytes: f64| number(bytes / 1e3);
    let times = TIMES.map(|(_, phase)| format!("{:>9}", number(seen.phase(phase).micros))).join(" ");
    let mark = if *extent == Extent::Group { "*" } else { "" };
    say!(
        "{size:>6} {name:<15} {sorters:>7} {:>8} {:>8} {:>8} {:>8} {times} {:>9}{mark}",
        number(each(seen.messages())),
        kb(each(seen.bytes())),
        kb(seen.during as f64),
        kb(seen.after as f64),
        number(seen.micros)
    );
}

/// A record with what only a simulation knows.
#[derive(Serialize)]
struct Simulated {
    #[serde(flatten)]
    record: Record,
    messages: u64,
    bytes: u64,
    /// Bytes of tables of a rank.
    memory_during: usize,
    memory_after: usize,
    /// Microseconds of each phase, in order.
    phases: [f64; 6],
    /// Whether one group stands for all.
    by_symmetry: bool,
}

fn record(way: Way, ranks: u32, extent: Extent, seen: &Seen, machine: Machine) -> Simulated {
    let record = Record {
        case: way.to_string(),
        engine: "sim".to_owned(),
        ranks,
        value: seen.micros,
        unit: "us".to_owned(),
        better: Better::Low,
        statistic: "simulated".to_owned(),
        spread: 0.0,
        samples: 1,
        machine: format!("flat, {}", machine.name()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        against: None,
    };
    Simulated {
        record,
        messages: seen.messages(),
        bytes: seen.bytes(),
        memory_during: seen.during,
        memory_after: seen.after,
        phases: seen.phases.map(|phase| phase.micros),
        by_symmetry: extent == Extent::Group,
    }
}
