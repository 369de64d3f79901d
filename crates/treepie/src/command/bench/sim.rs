//! `treepie bench sim`: how fast the simulator is on one core, and how much memory it takes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use treepie_collectives::registry::{Request, build};
use treepie_model::machines::Machine;
use treepie_schedule::{Layout, Layouts, Operation};
use treepie_sim::costs::Links;
use treepie_sim::{Piece, Played, Settings, Sizes, play};
use treepie_topology::Network;

use super::super::machine;
use super::super::record::{Better, Record, Records};
use super::statistics::{median, spread};
use super::table::number;

/// The simulator on one core: events a second, memory a rank
#[derive(clap::Args)]
pub(crate) struct Simulator {
    /// How many runs
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Also write records, as JSON lines, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is simulated.
struct Case {
    name: &'static str,
    id: &'static str,
    operation: Operation,
    network: &'static str,
    /// Links that messages share, or LogGP without a network.
    on_links: bool,
    bytes: usize,
    /// A case that takes long is run once.
    once: bool,
    /// Millions of events a second that it should have, if anything.
    aim: Option<f64>,
}

/// Bytes that a rank should take at most.
const MEMORY_AIM: f64 = 200.0;

/// Megabytes that all cases should take at most, that of a million ranks among them.
const PEAK_AIM: f64 = 2000.0;

const CASES: [Case; 4] = [
    Case {
        name: "sim/doubling/32768",
        id: "allgather/distance_doubling",
        operation: Operation::Allgather,
        network: "flat:32768",
        on_links: false,
        bytes: 8,
        once: false,
        aim: Some(5.0),
    },
    Case {
        name: "sim/bucket/4096",
        id: "allgather/bucket",
        operation: Operation::Allgather,
        network: "torus:16x16x16",
        on_links: true,
        bytes: 1024,
        once: false,
        aim: Some(1.0),
    },
    Case {
        name: "sim/bucket_k/4096",
        id: "allgather/bucket_k",
        operation: Operation::Allgather,
        network: "torus:16x16x16",
        on_links: true,
        bytes: 1024,
        once: false,
        aim: Some(1.0),
    },
    Case {
        name: "sim/doubling/1048576",
        id: "allreduce/recursive_doubling",
        operation: Operation::Allreduce,
        network: "flat:1048576",
        on_links: false,
        bytes: 8,
        once: true,
        aim: None,
    },
];

impl Simulator {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut records = self.json.as_deref().map(Records::create).transpose()?;
        say!("The simulator on one core of {}", machine::describe());
        say!(
            "  Three events a message: it begins, it arrives, it has been received. doubling is without a network (LogGP of"
        );
        say!("  Intrepid), buckets share the links of a torus (alpha and delta of bgp). Memory is that of a rank and");
        say!("  its lanes; links and messages on the way come on top.");
        say!("");
        say!("{:<28} {:>5} {:>9} {:>8}  {}", "case", "unit", "treepie", "spread", "aim");
        let mut tell = |record: Record, aim: Option<f64>| {
            print(&record, aim);
            records.as_mut().map_or(Ok(()), |records| records.write(&record))
        };
        for case in &CASES {
            let [rate, memory] = self.measure(case)?;
            tell(rate, case.aim)?;
            tell(memory, Some(MEMORY_AIM))?;
        }
        if let Some(peak) = machine::peak_memory() {
            let most =
                CASES.iter().filter_map(|case| case.network.parse::<Network>().ok()).map(|network| network.ranks());
            let case = "sim/peak_memory".to_owned();
            let peak = Measured { value: peak as f64 / 1e6, unit: "MB", better: Better::Low, samples: 1, spread: 0.0 };
            tell(record(case, most.max().unwrap_or(0), peak), Some(PEAK_AIM))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self, case: &Case) -> anyhow::Result<[Record; 2]> {
        let network: Network = case.network.parse()?;
        let schedule = build(case.id, &Request::new(case.operation, &network))?;
        let sizes = Sizes::Shared(Layouts::both(Layout::uniform(case.bytes, schedule.blocks())));
        let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
        let settings = settings(case.on_links);
        let (mut rates, mut played): (Vec<f64>, Option<Played>) = (Vec::new(), None);
        for _ in 0..if case.once { 1 } else { self.repeat } {
            let begun = Instant::now();
            let this = play(piece, &network, &settings)?;
            rates.push(this.events as f64 / begun.elapsed().as_secs_f64() / 1e6);
            played = Some(this);
        }
        let played = played.expect("it was played at least once");
        let own = played.memory_ranks as f64 / f64::from(network.ranks());
        let rate = Measured {
            value: median(&rates),
            unit: "M/s",
            better: Better::High,
            samples: rates.len(),
            spread: spread(&rates),
        };
        let memory = Measured { value: own, unit: "B", better: Better::Low, samples: 1, spread: 0.0 };
        let ranks = network.ranks();
        Ok([record(case.name.to_owned(), ranks, rate), record(format!("{}/memory", case.name), ranks, memory)])
    }
}

/// A figure.
struct Measured {
    value: f64,
    unit: &'static str,
    better: Better,
    samples: usize,
    spread: f64,
}

fn record(case: String, ranks: u32, measured: Measured) -> Record {
    let Measured { value, unit, better, samples, spread } = measured;
    Record {
        case,
        engine: "sim".to_owned(),
        ranks,
        value,
        unit: unit.to_owned(),
        better,
        statistic: "median".to_owned(),
        spread,
        samples,
        machine: machine::describe(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        against: None,
    }
}

/// A line of the table, with what was aimed at.
fn print(record: &Record, aim: Option<f64>) {
    let bound = match record.better {
        Better::Low => "at most",
        Better::High => "at least",
    };
    let aim = aim.map_or_else(|| "-".to_owned(), |aim| format!("{bound} {aim}"));
    let (value, spread) = (number(record.value), number(record.spread));
    say!("{:<28} {:>5} {value:>9} {spread:>8}  {aim}", record.case, record.unit);
}

fn settings(on_links: bool) -> Settings {
    if on_links {
        let prices = Machine::Bgp.prices();
        return Links::new(prices.alpha, prices.delta).into();
    }
    Machine::Intrepid.loggp().expect("it was measured").into()
}
