//! `treepie bench choices`: how far the chosen algorithm is from the best of all registered ones.

mod collective;
mod decision_times;
mod protocols;
pub(crate) mod rank;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use treepie::Network;
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_comm::choice::{Candidate, ChoiceInput, Resources, SlotCapacities};
use treepie_model::predict::MessageCosts;
use treepie_schedule::{BlockLayout, BlockLayouts, Operation};
use treepie_sim::{BlockSizes, Settings, Workload, simulate_schedule};

use crate::harness::statistics::{PairedRatio, median, ratios};
use crate::job::{HANG_TIMEOUT, Job};
use crate::record::{Better, Record, Records};
use crate::{EmulationOption, ensure_unset};
use rank::{Timed, time_candidates};

/// The chosen algorithm against all registered ones: each operation from 8 B to 4 MiB, sparse exchanges and splits,
/// here and on simulated networks
#[derive(clap::Args)]
pub(crate) struct ChoicesBench {
    /// Numbers of ranks on this machine [default: 2,3,8,16]
    #[arg(short = 'n', long, value_name = "P", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Vec<u32>,
    /// Simulated networks [default: a wide area, tori, a mesh, Clos networks], separated by spaces
    #[arg(long, value_name = "NETWORKS", value_delimiter = ' ')]
    networks: Vec<String>,
    /// Operations, and exchange and split [default: all]
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',')]
    operations: Vec<String>,
    /// Repetitions of each measurement on this machine
    #[arg(long, value_name = "N", default_value = "15", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// How long a choice takes, instead: new and cached
    #[arg(long, conflicts_with_all = ["ranks", "networks", "operations"])]
    decisions: bool,
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

/// What is chosen apart from collective operations.
const PROTOCOLS: [&str; 2] = ["exchange", "split"];

const NETWORKS: [&str; 7] =
    ["clusters:8x4", "clusters:4x8", "torus:4x4x4", "torus:8x8", "mesh:6x5", "clos:r8,t4,n32", "clos:r24,t12,n48"];

/// Where the system places the ranks of a run, on which cores and in which memory, lasts for the run, and can decide
/// which algorithm is the fastest. So there are several.
const RUNS: u32 = 4;

/// The least time in microseconds: a single rank takes none.
const LEAST: f64 = 1e-9;

/// A cell of the map: an operation with a size.
struct Cell {
    /// The row, as `allreduce`, and the column: bytes, or the number of communicators of a split.
    row: String,
    column: u64,
    /// The chosen algorithm and the best one, and their times in microseconds.
    chosen: (String, f64),
    best: (String, f64),
    /// The time of the choice over that of the best, turn by turn: what disturbs a turn disturbs both.
    ratios: Vec<f64>,
}

impl Cell {
    /// Of the times of the choice, which is the first, and of all others.
    fn new(row: String, column: u64, all: &[Timed]) -> Option<Self> {
        let chosen = all.first()?;
        // Of several that take as long, the first one.
        let all = all.iter().rev().map(|timed| (timed, ratios(&chosen.times, &timed.times)));
        let (best, ratios) = all.max_by(|(_, one), (_, other)| median(one).total_cmp(&median(other)))?;
        let named = |timed: &Timed| (timed.id.clone(), median(&timed.times));
        Some(Self { row, column, chosen: named(chosen), best: named(best), ratios })
    }

    fn ratio(&self) -> f64 {
        median(&self.ratios)
    }
}

/// The cells of one engine: those of collective operations, of sparse exchanges by neighbors, and of splits.
struct Map {
    title: String,
    engine: String,
    ranks: u32,
    cells: Vec<Cell>,
    /// Whether times contain a barrier: where ranks share cores.
    has_barrier: bool,
}

/// The row and the column of a case.
fn place(case: &str) -> anyhow::Result<(String, u64)> {
    let (row, column) = case.rsplit_once('/').context("a case has a size")?;
    Ok((row.replace("exchange/", "exchange, k="), column.parse()?))
}

impl ChoicesBench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        ensure_unset("TREEPIE_EMULATE", "treepie explain --emulate")?;
        let names = Operation::all(0).map(Operation::name).into_iter().filter(|name| *name != "barrier");
        let names: Vec<&str> = names.chain(PROTOCOLS).collect();
        let unknown = self.operations.iter().find(|name| !names.contains(&name.as_str()));
        ensure!(unknown.is_none(), "--operations: there are {}", names.join(", "));
        let is_wanted = |name: &&str| self.operations.is_empty() || self.operations.iter().any(|other| other == name);
        let wanted: Vec<&str> = names.into_iter().filter(is_wanted).collect();
        if self.decisions {
            return self.time_decisions();
        }
        let here = self.ranks.is_empty() && self.networks.is_empty();
        let ranks: &[u32] = if here { &[2, 3, 8, 16] } else { &self.ranks };
        let networks: Vec<&str> =
            if here { NETWORKS.to_vec() } else { self.networks.iter().map(String::as_str).collect() };
        let mut records = Records::create(self.json.as_deref())?;
        let mut total = Vec::new();
        let mut finish = |map: Map| -> anyhow::Result<()> {
            map.print(self.list);
            map.write(&mut records)?;
            total.extend(map.ratios());
            Ok(())
        };
        for &ranks in ranks {
            finish(self.measure(ranks, &wanted)?)?;
        }
        for text in networks {
            finish(self.simulate(text, &wanted)?)?;
        }
        print_summary("all cells", &total);
        Ok(ExitCode::SUCCESS)
    }

    /// How long choices take.
    fn time_decisions(&self) -> anyhow::Result<ExitCode> {
        decision_times::print(&mut Records::create(self.json.as_deref())?)?;
        for ranks in [2, 16] {
            let output = Job::ranks(ranks, ["choices-rank", "--decisions", "--repeat", "1"])?.output(HANG_TIMEOUT)?;
            output.lines().for_each(|line| say!("{line}"));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Bytes of collective operations and of the messages of an exchange.
    fn sizes(&self) -> &'static [u64] {
        match self.quick {
            true => &[8, 4 << 10, 256 << 10],
            false => &[8, 128, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20],
        }
    }

    /// The cases of some operations.
    fn cases(&self, names: &[&str], ranks: u32) -> Vec<String> {
        let mut cases = Vec::new();
        for &name in names {
            match name {
                "exchange" => {
                    let others = u64::from(ranks - 1).max(1);
                    let mut neighbors: Vec<u64> = [1, 6, others].map(|neighbors| neighbors.min(others)).to_vec();
                    neighbors.dedup();
                    // Longer messages are those of a program that has nothing sparse.
                    let sizes = self.sizes().iter().filter(|bytes| **bytes <= 64 << 10);
                    cases
                        .extend(neighbors.iter().flat_map(|k| sizes.clone().map(move |b| format!("exchange/{k}/{b}"))));
                }
                "split" => {
                    let mut colors = vec![1, 2.min(ranks), ranks];
                    colors.dedup();
                    cases.extend(colors.iter().map(|colors| format!("split/{colors}")));
                }
                name => cases.extend(self.sizes().iter().map(|bytes| format!("{name}/{bytes}"))),
            }
        }
        cases
    }

    /// Measures all candidates on this machine.
    fn measure(&self, ranks: u32, names: &[&str]) -> anyhow::Result<Map> {
        let cases = self.cases(names, ranks);
        let repeat = self.repeat.div_ceil(RUNS);
        let run = |run: u32| -> anyhow::Result<Vec<Timed>> {
            let (turns, repeat) = ((run * repeat).to_string(), repeat.to_string());
            let arguments = ["choices-rank", "--repeat", &repeat, "--turns", &turns, "--cases", &cases.join(",")];
            let output = Job::ranks(ranks, arguments)?.output(HANG_TIMEOUT)?;
            output.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
        };
        let all = of_all_runs((0..RUNS).map(run).collect::<anyhow::Result<_>>()?);
        let title = format!("{ranks} ranks on this machine");
        let has_barrier = ranks as usize > crate::machine::cores();
        Ok(Map { title, engine: "shm".to_owned(), ranks, cells: cells(&all)?, has_barrier })
    }

    /// Simulates all candidates.
    fn simulate(&self, text: &str, names: &[&str]) -> anyhow::Result<Map> {
        let network = crate::network::load(text)?;
        ensure!(network.ranks() > 0, "--networks {text}: the number of ranks is not known");
        let (protocols, operations): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| PROTOCOLS.contains(name));
        let mut cells = simulate_collectives(&network, &operations, self.sizes())?;
        let (cases, settings) = (self.cases(&protocols, network.ranks()), Settings::for_network(&network)?);
        for case in &cases {
            let simulated = treepie::simulate(&network, &settings, |world| {
                // Errors of a rank are those of its calls.
                time_candidates(&world, case, 0..1).map_err(|error| treepie::Error::Engine(error.to_string()))
            })?;
            let all = simulated.into_results().swap_remove(0);
            let (row, column) = place(case)?;
            cells.extend(Cell::new(row, column, &all));
        }
        let (title, ranks) = (format!("{text}, simulated"), network.ranks());
        Ok(Map { title, engine: text.to_owned(), ranks, cells, has_barrier: false })
    }
}

/// The times of several runs together. All runs have the same candidates, unless ranks could not agree on single copy.
fn of_all_runs(runs: Vec<Vec<Timed>>) -> Vec<Timed> {
    let mut runs = runs.into_iter();
    let mut all = runs.next().unwrap_or_default();
    for run in runs {
        all.retain_mut(|timed| {
            let again = run.iter().find(|again| again.case == timed.case && again.id == timed.id);
            again.inspect(|again| timed.times.extend(&again.times)).is_some()
        });
    }
    all
}

/// The cells of times that ranks printed, case after case.
fn cells(all: &[Timed]) -> anyhow::Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for of_case in all.chunk_by(|one, other| one.case == other.case) {
        let (row, column) = place(&of_case[0].case)?;
        cells.extend(Cell::new(row, column, of_case));
    }
    Ok(cells)
}

/// The slots of the shared segment of a world of ranks on this machine, for a call of this number of bytes.
pub fn slot_capacities(ranks: u32, bytes: u64) -> anyhow::Result<Option<SlotCapacities>> {
    let output =
        Job::ranks(ranks, ["choices-rank", "--slots", &bytes.to_string(), "--repeat", "1"])?.output(HANG_TIMEOUT)?;
    Ok(match output.split_whitespace().map(str::parse).collect::<Result<Vec<usize>, _>>()?[..] {
        [line, page, bulk, single_copy] => Some(SlotCapacities { line, page, bulk, single_copy: single_copy > 0 }),
        _ => None,
    })
}

/// The measured time of each of these candidates among ranks on this machine, in microseconds.
pub fn measure_candidates(
    links: &EmulationOption,
    input: &ChoiceInput<'_>,
    candidates: &[Candidate],
) -> anyhow::Result<Vec<Option<f64>>> {
    let case = format!("{}/{}", input.spec.operation.name(), input.bytes);
    // Operations over emulated links take long and vary little.
    let repeat = if links.variable().is_some() { "1" } else { "15" };
    let job = Job::ranks(input.spec.ranks, ["choices-rank", "--repeat", repeat, "--cases", &case])?;
    let output = links.apply(job).output(HANG_TIMEOUT)?;
    let all = output.lines().map(|line| Ok(serde_json::from_str(line)?)).collect::<anyhow::Result<Vec<Timed>>>()?;
    let time = |candidate: &Candidate| {
        let label = collective::label(candidate);
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

/// Simulates all candidates of collective operations. A schedule is simulated without a program, so all registered
/// algorithms are, and many ranks can be.
fn simulate_collectives(network: &Network, names: &[&str], sizes: &[u64]) -> anyhow::Result<Vec<Cell>> {
    let settings = Settings::for_network(network)?;
    let profile = settings.profile(network);
    let costs = MessageCosts::on_network(&profile, network);
    let mut cells = Vec::new();
    for &name in names {
        let operation = Operation::from_name(name, 0).context("operations were checked")?;
        for &bytes in sizes {
            let spec = CollectiveSpec::new(operation, network);
            let input = ChoiceInput { spec, bytes, element: 8, costs, resources: Resources::default() };
            let Some(chosen) = input.best().map(|candidate| candidate.id()) else { continue };
            let mut ids: Vec<String> = input.candidates().iter().map(Candidate::id).collect();
            ids.extend(registry::applicable(&spec).iter().map(|algorithm| algorithm.id.clone()));
            let time = |id: &str| simulated_micros(&input, id, &settings);
            let Some(took) = time(&chosen) else { continue };
            let others = ids.into_iter().filter_map(|id| Some((time(&id)?, id)));
            let Some((least, best)) = others.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            let (took, least) = (took.max(LEAST), least.max(LEAST));
            let (row, ratios) = (name.to_owned(), vec![took / least]);
            cells.push(Cell { row, column: bytes, chosen: (chosen, took), best: (best, least), ratios });
        }
    }
    Ok(cells)
}

impl Map {
    /// Rows of one kind have the same columns.
    fn print(&self, list: bool) {
        let barrier = if self.has_barrier { ", each with a barrier after it" } else { "" };
        say!("{}: time of the chosen algorithm over that of the best{barrier}", self.title);
        let (splits, others): (Vec<&Cell>, Vec<&Cell>) = self.cells.iter().partition(|cell| cell.row == "split");
        print_rows("bytes", &others, short_size);
        print_rows("communicators", &splits, |count| count.to_string());
        if list {
            for Cell { row, column, chosen: (chosen, took), best: (best, least), ratios } in &self.cells {
                let ratio = PairedRatio::of(ratios);
                let ratio = if ratio.interval.is_some() { ratio.in_words() } else { format!("{:.2}", ratio.median) };
                say!("  {row} {column}  {ratio}; {chosen} {took:.1} us, best {best} {least:.1} us");
            }
        }
        print_summary(&self.title, &self.ratios().collect::<Vec<_>>());
        say!("");
    }

    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().map(Cell::ratio)
    }

    fn write(&self, records: &mut Records) -> anyhow::Result<()> {
        for cell in &self.cells {
            let case = format!("choices/{}/{}/{}", self.engine, cell.row, cell.column);
            let value = ("times the best", Better::Low);
            records.write(&Record::measured(case, &self.engine, self.ranks, &cell.ratios, value))?;
        }
        Ok(())
    }
}

fn print_rows(head: &str, cells: &[&Cell], column: fn(u64) -> String) {
    let mut columns: Vec<u64> = cells.iter().map(|cell| cell.column).collect();
    columns.sort_unstable();
    columns.dedup();
    if columns.is_empty() {
        return;
    }
    let titles: String = columns.iter().map(|value| format!("{:>9}", column(*value))).collect();
    say!("  {head:<16}{titles}");
    for of_row in cells.chunk_by(|one, other| one.row == other.row) {
        let cell = |column: &u64| match of_row.iter().find(|cell| cell.column == *column) {
            Some(cell) => format!("{:>9.2}", cell.ratio()),
            None => format!("{:>9}", "-"),
        };
        say!("  {:<16}{}", of_row[0].row, columns.iter().map(cell).collect::<String>());
    }
}

/// A power of two with its unit.
fn short_size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
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
