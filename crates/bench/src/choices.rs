//! `treepie bench choices`: how far the chosen algorithm is from the best of all registered ones.

pub(crate) mod rank;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use treepie::Network;
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_comm::choice::{Candidate, ChoiceInput, SlotCapacities};
use treepie_model::predict::MessageCosts;
use treepie_schedule::{BlockLayout, BlockLayouts, Operation};
use treepie_sim::{BlockSizes, Settings, Workload, simulate_schedule};

use crate::harness::statistics::median;
use crate::job::{HANG_TIMEOUT, Job};
use crate::record::{Better, Record, Records};
use rank::Timed;

/// The chosen algorithm against all registered ones: each operation from 8 B to 4 MiB, here and on simulated networks
#[derive(clap::Args)]
pub(crate) struct ChoicesBench {
    /// Numbers of ranks on this machine [default: 2,3,8,16]
    #[arg(short = 'n', long, value_name = "P", value_delimiter = ',')]
    ranks: Vec<u32>,
    /// Simulated networks [default: a wide area, tori, a mesh, Clos networks], separated by spaces
    #[arg(long, value_name = "NETWORKS", value_delimiter = ' ')]
    networks: Vec<String>,
    /// Operations [default: all]
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',')]
    operations: Vec<String>,
    /// Repetitions of each measurement on this machine
    #[arg(long, value_name = "N", default_value = "15", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Fewer sizes
    #[arg(long)]
    quick: bool,
    /// Print each cell with the chosen and the best algorithm
    #[arg(long)]
    list: bool,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const NETWORKS: [&str; 7] =
    ["clusters:8x4", "clusters:4x8", "torus:4x4x4", "torus:8x8", "mesh:6x5", "clos:r8,t4,n32", "clos:r24,t12,n48"];

/// A cell of the map: an operation with a size.
struct Cell {
    chosen: (String, f64),
    best: (String, f64),
}

impl Cell {
    fn ratio(&self) -> f64 {
        self.chosen.1 / self.best.1.max(1e-9)
    }
}

/// Cells by operation and size.
type Map = BTreeMap<(usize, u64), Cell>;

impl ChoicesBench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let all = Operation::all(0).into_iter().filter(|operation| *operation != Operation::Barrier);
        let operations: Vec<Operation> = all
            .filter(|op| self.operations.is_empty() || self.operations.iter().any(|name| name == op.name()))
            .collect();
        anyhow::ensure!(!operations.is_empty(), "--operations: none of these is an operation");
        let sizes: &[u64] = if self.quick {
            &[8, 4 << 10, 256 << 10]
        } else {
            &[8, 128, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20]
        };
        let mut records = Records::create(self.json.as_deref())?;
        let mut total = Vec::new();
        let here = self.ranks.is_empty() && self.networks.is_empty();
        let ranks: &[u32] = if here { &[2, 3, 8, 16] } else { &self.ranks };
        for &ranks in ranks {
            let map = self.measure(ranks, &operations, sizes)?;
            print_map(&format!("{ranks} ranks on this machine"), &map, sizes, self.list);
            self.write(&mut records, "shm", ranks, &map)?;
            total.extend(map.into_values().map(|cell| cell.ratio()));
        }
        let networks: Vec<&str> =
            if here { NETWORKS.to_vec() } else { self.networks.iter().map(String::as_str).collect() };
        for text in networks {
            let network = crate::network::load(text)?;
            let map = simulate(&network, &operations, sizes)?;
            print_map(&format!("{text}, simulated"), &map, sizes, self.list);
            self.write(&mut records, text, network.ranks(), &map)?;
            total.extend(map.into_values().map(|cell| cell.ratio()));
        }
        print_summary("all cells", &total);
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, records: &mut Records, engine: &str, ranks: u32, map: &Map) -> anyhow::Result<()> {
        for ((operation, bytes), cell) in map {
            let name = Operation::all(0)[*operation].name();
            let case = format!("choices/{engine}/{name}/{bytes}");
            records.write(&Record::measured(case, engine, ranks, &[cell.ratio()], ("times the best", Better::Low)))?;
        }
        Ok(())
    }

    /// Measures all candidates on this machine.
    fn measure(&self, ranks: u32, operations: &[Operation], sizes: &[u64]) -> anyhow::Result<Map> {
        let mut map = Map::new();
        let cases: Vec<String> =
            operations.iter().flat_map(|op| sizes.iter().map(move |bytes| format!("{}/{bytes}", op.name()))).collect();
        let arguments = ["choices-rank", "--repeat", &self.repeat.to_string(), "--cases", &cases.join(",")];
        let output = Job::ranks(ranks, arguments)?.output(HANG_TIMEOUT)?;
        for line in output.lines() {
            let timed: Timed = serde_json::from_str(line)?;
            let (name, bytes) = timed.case.split_once('/').unwrap_or_default();
            let operation = Operation::all(0).iter().position(|op| op.name() == name).unwrap_or(0);
            let this = (timed.id, median(&timed.times));
            let cell = map
                .entry((operation, bytes.parse()?))
                .or_insert_with(|| Cell { chosen: this.clone(), best: (String::new(), f64::INFINITY) });
            if this.1 < cell.best.1 {
                cell.best = this;
            }
        }
        Ok(map)
    }
}

/// The slots of the shared segment of a world of ranks on this machine.
pub fn slot_capacities(ranks: u32) -> anyhow::Result<Option<SlotCapacities>> {
    let output = Job::ranks(ranks, ["choices-rank", "--slots", "--repeat", "1"])?.output(HANG_TIMEOUT)?;
    Ok(match output.split_whitespace().map(str::parse).collect::<Result<Vec<usize>, _>>()?[..] {
        [line, page, bulk, single_copy] => Some(SlotCapacities { line, page, bulk, single_copy: single_copy > 0 }),
        _ => None,
    })
}

/// The measured time of each of these candidates among ranks on this machine, in microseconds.
pub fn measure_candidates(
    ranks: u32,
    input: &ChoiceInput<'_>,
    candidates: &[Candidate],
) -> anyhow::Result<Vec<Option<f64>>> {
    let case = format!("{}/{}", input.spec.operation.name(), input.bytes);
    let output = Job::ranks(ranks, ["choices-rank", "--repeat", "15", "--cases", &case])?.output(HANG_TIMEOUT)?;
    let all = output.lines().map(|line| Ok(serde_json::from_str(line)?)).collect::<anyhow::Result<Vec<Timed>>>()?;
    let time = |candidate: &Candidate| {
        let label = rank::label(candidate);
        all.iter().find(|timed| timed.id == label || timed.also.contains(&label)).map(|timed| median(&timed.times))
    };
    Ok(candidates.iter().map(time).collect())
}

/// The simulated time of an algorithm in microseconds, if it can be built.
pub fn simulated_micros(input: &ChoiceInput<'_>, id: &str, settings: &Settings) -> Option<f64> {
    let ChoiceInput { spec, bytes, element, .. } = input;
    let schedule = registry::build(id, spec).ok()?;
    let layout = BlockLayout::Even { total: (bytes / element) as usize, blocks: schedule.blocks() };
    let sizes = BlockSizes::Shared(BlockLayouts::symmetric(layout));
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: *element };
    Some(simulate_schedule(workload, spec.network, settings).ok()?.micros())
}

/// Simulates all candidates.
fn simulate(network: &Network, operations: &[Operation], sizes: &[u64]) -> anyhow::Result<Map> {
    let settings = Settings::for_network(network)?;
    let profile = settings.profile(network);
    let costs = MessageCosts::on_network(&profile, network);
    let mut map = Map::new();
    for &operation in operations {
        for &bytes in sizes {
            let spec = CollectiveSpec::new(operation, network);
            let input = ChoiceInput { spec, bytes, element: 8, costs, slots: None };
            let mut ids: Vec<String> = input.candidates().iter().map(|candidate| candidate.id()).collect();
            let Some(chosen) = input.best() else { continue };
            ids.extend(registry::applicable(&spec).iter().map(|algorithm| algorithm.id.clone()));
            let time = |id: &str| simulated_micros(&input, id, &settings);
            let chosen = chosen.id();
            let Some(took) = time(&chosen) else { continue };
            let others = ids.into_iter().filter_map(|id| Some((time(&id)?, id)));
            let Some((least, best)) = others.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            let index = Operation::all(0).iter().position(|op| *op == operation).unwrap_or(0);
            map.insert((index, bytes), Cell { chosen: (chosen, took), best: (best, least) });
        }
    }
    Ok(map)
}

/// A power of two with its unit.
fn short_size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

fn print_map(title: &str, map: &Map, sizes: &[u64], list: bool) {
    say!("{title}: time of the chosen algorithm over that of the best");
    let head: String = sizes.iter().map(|bytes| format!("{:>9}", short_size(*bytes))).collect();
    say!("  {:<16}{head}", "bytes");
    let operations: std::collections::BTreeSet<usize> = map.keys().map(|(operation, _)| *operation).collect();
    for operation in operations {
        let cell = |bytes: &u64| match map.get(&(operation, *bytes)) {
            Some(cell) => format!("{:>9.2}", cell.ratio()),
            None => format!("{:>9}", "-"),
        };
        let row: String = sizes.iter().map(cell).collect();
        say!("  {:<16}{row}", Operation::all(0)[operation].name());
    }
    if list {
        for ((_, bytes), Cell { chosen, best }) in map {
            let ratio = chosen.1 / best.1;
            say!("  {bytes:>8} B  {ratio:5.2}  {} {:.1} us, best {} {:.1} us", chosen.0, chosen.1, best.0, best.1);
        }
    }
    print_summary(title, &map.values().map(Cell::ratio).collect::<Vec<_>>());
    say!("");
}

fn print_summary(title: &str, ratios: &[f64]) {
    let near = ratios.iter().filter(|ratio| **ratio <= 1.1).count();
    let worst = ratios.iter().copied().fold(1.0, f64::max);
    say!(
        "  {title}: {near} of {} cells within 10% of the best ({:.0}%), the worst {worst:.2} times",
        ratios.len(),
        100.0 * near as f64 / ratios.len().max(1) as f64
    );
}
