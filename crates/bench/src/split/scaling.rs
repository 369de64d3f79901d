//! Simulated splits of several sizes: table and records.

use anyhow::{Context, ensure};
use serde::Serialize;
use treepie_comm::split::{SplitAlgorithm, SplitPhase};
use treepie_model::machines::PaperMachine;
use treepie_sim::Settings;
use treepie_topology::Network;

use super::simulated::{Extent, SimulatedSplit, extent, simulate};
use super::sizes::{Size, Sizes};
use crate::harness::table::format_number;
use crate::parameters;
use crate::record::{Record, Records};

/// The requested algorithms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SplitAlgorithmChoice {
    All,
    /// One, by name.
    One(String),
}

/// Parses an algorithm, with or without the prefix `split/`.
pub(super) fn parse_algorithm(text: &str) -> Result<SplitAlgorithmChoice, String> {
    if text == "all" {
        return Ok(SplitAlgorithmChoice::All);
    }
    let name = text.strip_prefix("split/").unwrap_or(text);
    let known = SplitAlgorithm::all(2).map(|algorithm| algorithm.name());
    match known.iter().find(|id| id.strip_prefix("split/") == Some(name)) {
        Some(id) => Ok(SplitAlgorithmChoice::One((*id).to_owned())),
        None => Err(format!("the algorithms are all, {}", known.join(", "))),
    }
}

/// The requested simulations.
pub(super) struct SplitScaling<'a> {
    pub(super) sizes: &'a Sizes,
    pub(super) sorters: &'a Sizes,
    pub(super) algorithm: &'a SplitAlgorithmChoice,
    pub(super) machine: PaperMachine,
}

/// Microseconds to move or compare an entry.
const MICROS_PER_ENTRY: f64 = 0.002;

const PHASE_COLUMNS: [(&str, SplitPhase); 6] = [
    ("collect", SplitPhase::Collect),
    ("splitters", SplitPhase::Splitters),
    ("exchange", SplitPhase::Exchange),
    ("merge", SplitPhase::Merge),
    ("find", SplitPhase::Find),
    ("copy", SplitPhase::Copy),
];

/// The maximum number of ranks: all entries are held, and full tables of some ranks.
const MAX_RANKS: u32 = 16 << 20;

impl SplitScaling<'_> {
    /// Rejects what cannot be simulated.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let (name, max) = (self.machine.name(), self.sizes.last());
        ensure!(self.machine.loggp().is_some(), "{name} has no LogGP parameters: use intrepid, jaguar or bigred");
        ensure!(max <= MAX_RANKS, "{} ranks are too many to simulate: at most {}", Size(max), Size(MAX_RANKS));
        let (first, sorters) = (self.sizes.first(), self.sorters.first());
        ensure!(sorters <= first, "{} ranks cannot have {sorters} sorters", Size(first));
        Ok(())
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let machine = self.machine;
        let settings = parameters::settings(Some(machine), &Network::flat(self.sizes.last()))?;
        Ok(Settings { work_unit_time: MICROS_PER_ENTRY, ..settings })
    }

    pub(super) fn run(&self, records: &mut Records) -> anyhow::Result<()> {
        let settings = self.settings()?;
        say!(
            "Splits simulated with {}, {MICROS_PER_ENTRY} us to move or compare an entry; one color, random keys",
            self.machine.name()
        );
        say!("  messages, KB  mean per rank");
        say!(
            "  during        peak KB of a rank's tables, without messages; after: KB of the communicator's rank table"
        );
        say!(
            "  times         microseconds from the end of the previous phase to the end of this one, on the last rank;"
        );
        say!("                for quick, splitters is the whole quicksort, and merge the gather");
        say!("  *             one group is simulated with its data, the others follow by symmetry");
        say!("");
        let times = PHASE_COLUMNS.map(|(name, _)| format!("{name:>9}")).join(" ");
        say!(
            "{:>6} {:<15} {:>7} {:>8} {:>8} {:>8} {:>8} {times} {:>9}",
            "ranks",
            "algorithm",
            "sorters",
            "messages",
            "KB",
            "during",
            "after",
            "total"
        );
        for ranks in self.sizes.iter() {
            for algorithm in self.algorithms(ranks) {
                let simulated = extent(algorithm, ranks)
                    .map(|extent| simulate(algorithm, ranks, extent, &settings).map(|split| (extent, split)));
                let simulated = simulated.transpose().with_context(|| format!("{algorithm} of {ranks} ranks"))?;
                print(algorithm, ranks, simulated.as_ref());
                if let Some((extent, split)) = simulated {
                    records.write(&record(algorithm, ranks, extent, &split, self.machine))?;
                }
            }
        }
        Ok(())
    }

    fn algorithms(&self, ranks: u32) -> Vec<SplitAlgorithm> {
        let all = self.sorters.iter().filter(|sorters| *sorters <= ranks).map(SplitAlgorithm::all);
        let mut algorithms: Vec<SplitAlgorithm> = all
            .flatten()
            .filter(|algorithm| {
                *self.algorithm == SplitAlgorithmChoice::All
                    || *self.algorithm == SplitAlgorithmChoice::One(algorithm.name().to_owned())
            })
            .collect();
        // Group by algorithm; one without sorters appears once.
        let position = |algorithm: &SplitAlgorithm| {
            SplitAlgorithm::all(0).iter().position(|other| other.name() == algorithm.name())
        };
        algorithms.sort_by_key(position);
        algorithms.dedup();
        algorithms
    }
}

fn print(algorithm: SplitAlgorithm, ranks: u32, simulated: Option<&(Extent, SimulatedSplit)>) {
    let name = algorithm.name().trim_start_matches("split/");
    let sorters = algorithm.sorters().map_or_else(|| "-".to_owned(), |sorters| sorters.to_string());
    let size = Size(ranks);
    let Some((extent, split)) = simulated else {
        say!("{size:>6} {name:<15} {sorters:>7} too large to simulate");
        return;
    };
    let each = |value: u64| value as f64 / f64::from(ranks);
    let kb = |bytes: f64| format_number(bytes / 1e3);
    let times = PHASE_COLUMNS.map(|(_, phase)| format!("{:>9}", format_number(split.phase(phase).micros))).join(" ");
    let mark = if *extent == Extent::Group { "*" } else { "" };
    say!(
        "{size:>6} {name:<15} {sorters:>7} {:>8} {:>8} {:>8} {:>8} {times} {:>9}{mark}",
        format_number(each(split.messages())),
        kb(each(split.bytes())),
        kb(split.peak_bytes as f64),
        kb(split.final_bytes as f64),
        format_number(split.micros)
    );
}

/// A record with the figures of a simulation.
#[derive(Serialize)]
struct SimulatedRecord {
    #[serde(flatten)]
    record: Record,
    messages: u64,
    bytes: u64,
    /// Bytes of a rank's tables.
    memory_during: usize,
    memory_after: usize,
    /// Microseconds of each phase, in order.
    phases: [f64; 6],
    /// Whether one group was simulated for all.
    by_symmetry: bool,
}

fn record(
    algorithm: SplitAlgorithm,
    ranks: u32,
    extent: Extent,
    split: &SimulatedSplit,
    machine: PaperMachine,
) -> SimulatedRecord {
    let machine = format!("flat, {}", machine.name());
    let record = Record::simulated(algorithm.to_string(), ranks, split.micros, "us", machine);
    SimulatedRecord {
        record,
        messages: split.messages(),
        bytes: split.bytes(),
        memory_during: split.peak_bytes,
        memory_after: split.final_bytes,
        phases: split.phases.map(|phase| phase.micros),
        by_symmetry: extent == Extent::Group,
    }
}
