//! `treepie bench sim`: speed of the simulator on one core, and its memory.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use treepie_collectives::registry::{CollectiveSpec, build};
use treepie_model::machines::PaperMachine;
use treepie_schedule::Operation::{self, Allgather, Allreduce};
use treepie_schedule::{BlockLayout, BlockLayouts};
use treepie_sim::costs::LinkCosts;
use treepie_sim::{BlockSizes, Settings, SimResult, Workload, simulate_schedule};
use treepie_topology::{Network, NetworkKind};

use crate::harness::table::format_number;
use crate::machine;
use crate::record::{Better, Record, Records};

/// Simulator on one core: events per second, memory per rank
#[derive(clap::Args)]
pub(crate) struct SimBench {
    /// Number of runs
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// An algorithm on a network.
struct Simulation {
    name: &'static str,
    id: &'static str,
    operation: Operation,
    /// Messages share its links, if it has any; otherwise LogGP.
    network: &'static str,
    bytes: usize,
    /// Target in million events per second. Without one, it takes long and is run only once.
    target: Option<f64>,
}

/// Target for the bytes of a rank.
const TARGET_BYTES_PER_RANK: f64 = 200.0;

/// Target for the peak megabytes of all cases, that of a million ranks included.
const TARGET_PEAK_MEGABYTES: f64 = 2000.0;

const SIMULATIONS: [Simulation; 4] = [
    simulation("sim/doubling/32768", "allgather/distance_doubling", Allgather, "flat:32768", 8, Some(5.0)),
    simulation("sim/bucket/4096", "allgather/bucket", Allgather, "torus:16x16x16", 1024, Some(1.0)),
    simulation("sim/bucket_k/4096", "allgather/bucket_k", Allgather, "torus:16x16x16", 1024, Some(1.0)),
    simulation("sim/doubling/1048576", "allreduce/recursive_doubling", Allreduce, "flat:1048576", 8, None),
];

const fn simulation(
    name: &'static str,
    id: &'static str,
    operation: Operation,
    network: &'static str,
    bytes: usize,
    target: Option<f64>,
) -> Simulation {
    Simulation { name, id, operation, network, bytes, target }
}

impl SimBench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut records = Records::create(self.json.as_deref())?;
        say!("The simulator on one core of {}", machine::describe());
        say!("  Three events per message: start, arrival, receive. doubling uses LogGP (Intrepid); buckets share");
        say!("  the links of a torus (alpha and delta of bgp). Memory is that of a rank and its lanes, without links");
        say!("  and messages in flight.");
        say!("");
        say!("{:<28} {:>5} {:>9} {:>8}  {}", "case", "unit", "treepie", "spread", "target");
        let mut report = |record: Record, target: Option<f64>| {
            print(&record, target);
            records.write(&record)
        };
        for case in &SIMULATIONS {
            let [rate, memory] = self.measure(case)?;
            report(rate, case.target)?;
            report(memory, Some(TARGET_BYTES_PER_RANK))?;
        }
        if let Some(peak) = machine::peak_memory() {
            let ranks = SIMULATIONS
                .iter()
                .filter_map(|case| case.network.parse::<Network>().ok())
                .map(|network| network.ranks());
            let (case, ranks) = ("sim/peak_memory".to_owned(), ranks.max().unwrap_or(0));
            let peak = Record::measured(case, "sim", ranks, &[peak as f64 / 1e6], ("MB", Better::Low));
            report(peak, Some(TARGET_PEAK_MEGABYTES))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self, case: &Simulation) -> anyhow::Result<[Record; 2]> {
        let network: Network = case.network.parse()?;
        let schedule = build(case.id, &CollectiveSpec::new(case.operation, &network))?;
        let sizes = BlockSizes::Shared(BlockLayouts::symmetric(BlockLayout::uniform(case.bytes, schedule.blocks())));
        let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
        let settings = settings(!matches!(network.kind(), NetworkKind::Flat(_)));
        let (mut rates, mut last): (Vec<f64>, Option<SimResult>) = (Vec::new(), None);
        for _ in 0..if case.target.is_none() { 1 } else { self.repeat } {
            let start = Instant::now();
            let result = simulate_schedule(workload, &network, &settings)?;
            rates.push(result.events as f64 / start.elapsed().as_secs_f64() / 1e6);
            last = Some(result);
        }
        let result = last.expect("at least one run");
        let bytes_per_rank = result.memory_ranks as f64 / f64::from(network.ranks());
        let (case, ranks) = (case.name.to_owned(), network.ranks());
        let memory = format!("{case}/memory");
        Ok([
            Record::measured(case, "sim", ranks, &rates, ("M/s", Better::High)),
            Record::measured(memory, "sim", ranks, &[bytes_per_rank], ("B", Better::Low)),
        ])
    }
}

/// Prints a row of the table, with the target.
fn print(record: &Record, target: Option<f64>) {
    let bound = match record.better {
        Better::Low => "at most",
        Better::High => "at least",
    };
    let target = target.map_or_else(|| "-".to_owned(), |target| format!("{bound} {target}"));
    let (value, spread) = (format_number(record.value), format_number(record.spread));
    say!("{:<28} {:>5} {value:>9} {spread:>8}  {target}", record.case, record.unit);
}

fn settings(on_links: bool) -> Settings {
    if on_links {
        let params = PaperMachine::Bgp.cost_params();
        return LinkCosts::new(params.alpha, params.delta).into();
    }
    PaperMachine::Intrepid.loggp().expect("it was measured").into()
}
