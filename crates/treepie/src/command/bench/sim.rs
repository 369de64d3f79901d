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
use super::table::{number, print_header, print_record};

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
}

const CASES: [Case; 4] = [
    Case {
        name: "sim/doubling/32768",
        id: "allgather/distance_doubling",
        operation: Operation::Allgather,
        network: "flat:32768",
        on_links: false,
        bytes: 8,
        once: false,
    },
    Case {
        name: "sim/bucket/4096",
        id: "allgather/bucket",
        operation: Operation::Allgather,
        network: "torus:16x16x16",
        on_links: true,
        bytes: 1024,
        once: false,
    },
    Case {
        name: "sim/bucket_k/4096",
        id: "allgather/bucket_k",
        operation: Operation::Allgather,
        network: "torus:16x16x16",
        on_links: true,
        bytes: 1024,
        once: false,
    },
    Case {
        name: "sim/doubling/1048576",
        id: "allreduce/recursive_doubling",
        operation: Operation::Allreduce,
        network: "flat:1048576",
        on_links: false,
        bytes: 8,
        once: true,
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
        print_header(None);
        for case in &CASES {
            for record in self.measure(case)? {
                print_record(&record);
                if let Some(records) = &mut records {
                    records.write(&record)?;
                }
            }
        }
        if let Some(peak) = machine::peak_memory() {
            say!("");
            say!("The most memory that this process had: {} MB.", number(peak as f64 / 1e6));
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
        let record = |name: String, value: f64, unit: &str, better, samples: usize, spread| Record {
            case: name,
            engine: "sim".to_owned(),
            ranks: network.ranks(),
            value,
            unit: unit.to_owned(),
            better,
            statistic: "median".to_owned(),
            spread,
            samples,
            machine: machine::describe(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            against: None,
        };
        Ok([
            record(case.name.to_owned(), median(&rates), "M/s", Better::High, rates.len(), spread(&rates)),
            record(format!("{}/memory", case.name), own, "B", Better::Low, 1, 0.0),
        ])
    }
}

fn settings(on_links: bool) -> Settings {
    if on_links {
        let prices = Machine::Bgp.prices();
        return Links::new(prices.alpha, prices.delta).into();
    }
    Machine::Intrepid.loggp().expect("it was measured").into()
}
