//! `treepie bench graph`: algorithms on graphs against plain single-threaded ones.
//!
//! All sides are there at once: the plain program, and worlds of one rank, two, and so on. Each keeps the same graph, and they work
//! in turn, one algorithm after the other, each time from another root.

pub(crate) mod rank;
mod serial;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use rank::KERNELS;
use treepie::graph::generate::Kronecker;

use super::super::machine;
use super::super::record::{Against, Better, Record, Records};
use super::statistics::{interval, median, spread};
use super::table::number;

/// Algorithms on graphs: breadth-first search, PageRank, components and shortest ways
#[derive(clap::Args)]
pub(crate) struct Graphs {
    /// A Kronecker graph of 2^SCALE vertices
    #[arg(long, value_name = "SCALE", default_value = "20", value_parser = clap::value_parser!(u32).range(4..=30))]
    scale: u32,
    /// Numbers of ranks
    #[arg(short = 'n', long, value_name = "P,P,...", value_delimiter = ',', default_value = "1,2,4")]
    ranks: Vec<u32>,
    /// How often all sides take their turn
    #[arg(long, value_name = "N", default_value = "15", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Which algorithms
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "bfs,pagerank,cc,sssp")]
    kernels: Vec<String>,
    /// The width of a bucket of shortest ways [default: by the weights]
    #[arg(long, value_name = "LENGTH")]
    delta: Option<f64>,
    /// Also write records, as JSON lines, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
}

/// One of those that take turns.
struct Side {
    /// Nothing: the plain program.
    ranks: Option<u32>,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Side {
    fn start(ranks: Option<u32>, scale: u32, delta: Option<f64>) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(&own);
        let launched = ranks.unwrap_or(1).to_string();
        command.args(["run", "--label", "never", "-n", &launched]).arg(&own).args([
            "graph-rank",
            "--scale",
            &scale.to_string(),
        ]);
        if ranks.is_none() {
            command.arg("--serial");
        }
        if let Some(delta) = delta {
            command.args(["--delta", &delta.to_string()]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot run treepie")?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take().context("its output is piped")?);
        Ok(Self { ranks, child, orders, answers: BufReader::new(answers) })
    }

    fn order(&mut self, order: &str) -> anyhow::Result<Vec<String>> {
        let orders = self.orders.as_mut().context("it takes orders")?;
        writeln!(orders, "{order}").and_then(|()| orders.flush()).context("a side has ended")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("a side says nothing")?;
        ensure!(!line.is_empty(), "a side has ended before it did what it was told");
        Ok(line.split_whitespace().map(str::to_owned).collect())
    }

    /// Seconds that a run from a vertex took, and what it counted.
    fn run(&mut self, root: u64) -> anyhow::Result<(f64, u64)> {
        match self.order(&format!("run {root}"))?.as_slice() {
            [_, seconds, counted] => Ok((seconds.parse()?, counted.parse()?)),
            other => bail!("a side says {other:?}"),
        }
    }

    fn name(&self) -> String {
        self.ranks
            .map_or_else(|| "plain".to_owned(), |ranks| format!("{ranks} rank{}", if ranks == 1 { "" } else { "s" }))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // Without orders it ends.
        self.orders.take();
        let _ = self.child.wait();
    }
}

impl Graphs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        for kernel in &self.kernels {
            ensure!(KERNELS.contains(&kernel.as_str()), "`{kernel}` is not measured; there are {}", KERNELS.join(", "));
        }
        ensure!(self.delta.is_none_or(|delta| (1e-6..1e9).contains(&delta)), "--delta is a length from 1e-6 on");
        let mut records = self.json.as_deref().map(Records::create).transpose()?;
        let kronecker = Kronecker::new(self.scale, Kronecker::EDGE_FACTOR)?;
        let start = |ranks| Side::start(ranks, self.scale, self.delta);
        let sides: anyhow::Result<Vec<Side>> =
            std::iter::once(None).chain(self.ranks.iter().copied().map(Some)).map(start).collect();
        let mut sides = sides?;
        say!("Graphs on {}", machine::describe());
        say!(
            "  Kronecker, scale {}, without repetitions and self-loops; {} turns, each from another root",
            self.scale,
            self.repeat
        );
        say!("  plain: one thread, no messages; milliseconds, medians; ratios of turns with their 95% interval");
        say!("");
        say!(
            "{:<10} {:<9} {:>9} {:>8}  {:>24}  {:>24}",
            "case",
            "side",
            "ms",
            "spread",
            "plain over it",
            "1 rank over it"
        );
        for kernel in &self.kernels {
            let place = KERNELS.iter().position(|name| name == kernel).context("it was checked")?;
            for side in &mut sides {
                side.order(&format!("prepare {place}"))?;
            }
            let times = self.turns(&mut sides, kronecker, kernel)?;
            for (side, own) in sides.iter().zip(&times) {
                let over =
                    |other: &[f64]| -> Vec<f64> { other.iter().zip(own).map(|(other, own)| other / own).collect() };
                let one = sides.iter().position(|side| side.ranks == Some(1)).unwrap_or(0);
                let (plain, one) = (over(&times[0]), over(&times[one]));
                let (milliseconds, spread) = (1e3 * median(own), 1e3 * spread(own));
                say!(
                    "{kernel:<10} {:<9} {:>9} {:>8}  {:>24}  {:>24}",
                    side.name(),
                    number(milliseconds),
                    number(spread),
                    with_interval(&plain),
                    with_interval(&one)
                );
                if let (Some(records), Some(ranks)) = (&mut records, side.ranks) {
                    records.write(&self.record(kernel, ranks, own, &times[0], &plain))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Seconds of each side, turn by turn, after one to warm up.
    fn turns(&self, sides: &mut [Side], kronecker: Kronecker, kernel: &str) -> anyhow::Result<Vec<Vec<f64>>> {
        let mut times = vec![Vec::new(); sides.len()];
        let (mut drawing, mut turn) = (0, 0);
        while turn <= self.repeat {
            // Isolated vertices are no roots: such a search reaches one vertex.
            let root = kronecker.candidate(drawing);
            drawing += 1;
            ensure!(drawing < 100 * u64::from(self.repeat + 2), "there are too few vertices with edges");
            let mut counted = None;
            let mut took = Vec::new();
            for side in sides.iter_mut() {
                let (seconds, count) = side.run(root)?;
                // Iterations of PageRank may differ by one: sums are rounded otherwise.
                let apart = counted.get_or_insert(count).abs_diff(count);
                ensure!(
                    apart <= u64::from(kernel == "pagerank"),
                    "{kernel} finds {count} on {}, and something else before",
                    side.name()
                );
                took.push(seconds);
            }
            let searches = kernel == "bfs" || kernel == "sssp";
            if !searches || counted.is_some_and(|count| count > 1) {
                if turn > 0 {
                    times.iter_mut().zip(took).for_each(|(times, took)| times.push(took));
                }
                turn += 1;
            }
        }
        Ok(times)
    }

    fn record(&self, kernel: &str, ranks: u32, own: &[f64], plain: &[f64], ratios: &[f64]) -> Record {
        let bounds = interval(ratios);
        Record {
            case: format!("bench/graph/{kernel}/kron{}", self.scale),
            engine: "shm".to_owned(),
            ranks,
            value: 1e3 * median(own),
            unit: "ms".to_owned(),
            better: Better::Low,
            statistic: "median".to_owned(),
            spread: 1e3 * spread(own),
            samples: own.len(),
            machine: machine::describe(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            against: Some(Against {
                peer: "plain, one thread".to_owned(),
                peer_value: 1e3 * median(plain),
                ratio: median(ratios),
                ratio_low: bounds.map(|bounds| bounds.0),
                ratio_high: bounds.map(|bounds| bounds.1),
            }),
        }
    }
}

fn with_interval(ratios: &[f64]) -> String {
    let bounds = interval(ratios).map(|(low, high)| format!(" ({low:.2} to {high:.2})"));
    format!("{:.2}{}", median(ratios), bounds.unwrap_or_default())
}
