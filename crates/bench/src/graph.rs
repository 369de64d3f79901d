//! `treepie bench graph`: graph algorithms against serial implementations.
//!
//! All sides exist at once: the serial program, and worlds of one rank, two, and so on. Each holds the same graph, and
//! they run alternately, one algorithm after the other, from a new root each time.

pub(crate) mod rank;
mod serial;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use rank::KERNELS;
use treepie::graph::generate::Kronecker;

use crate::harness::statistics::{PairedRatio, interquartile_range, median};
use crate::harness::table::format_number;
use crate::job::Job;
use crate::machine;
use crate::record::{Better, PeerResult, Record, Records};

/// Graph algorithms: breadth-first search, PageRank, connected components and shortest paths
#[derive(clap::Args)]
pub(crate) struct GraphBench {
    /// Kronecker graph with 2^SCALE vertices
    #[arg(long, value_name = "SCALE", default_value = "20", value_parser = clap::value_parser!(u32).range(4..=30))]
    scale: u32,
    /// Numbers of ranks, separated by commas
    #[arg(short = 'n', long, value_name = "P,P,...", value_delimiter = ',', default_value = "1,2,4")]
    ranks: Vec<u32>,
    /// Number of alternations of all sides
    #[arg(long, value_name = "N", default_value = "15", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Algorithms, separated by commas
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "bfs,pagerank,cc,sssp")]
    kernels: Vec<String>,
    /// Bucket width of delta-stepping [default: derived from the weights]
    #[arg(long, value_name = "LENGTH")]
    delta: Option<f64>,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One of the alternating sides.
struct Side {
    /// `None`: the serial program.
    ranks: Option<u32>,
    child: Child,
    commands: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Side {
    fn start(ranks: Option<u32>, scale: u32, delta: Option<f64>) -> anyhow::Result<Self> {
        let mut job = Job::ranks(ranks.unwrap_or(1), ["graph-rank", "--scale", &scale.to_string()])?;
        if ranks.is_none() {
            job = job.args(["--serial"]);
        }
        if let Some(delta) = delta {
            job = job.args(["--delta", &delta.to_string()]);
        }
        let streams = |command: &mut Command| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        };
        let mut child = job.spawn(streams)?;
        let (commands, replies) = (child.stdin.take(), child.stdout.take().context("its output is piped")?);
        Ok(Self { ranks, child, commands, replies: BufReader::new(replies) })
    }

    fn send_command(&mut self, command: &str) -> anyhow::Result<Vec<String>> {
        let commands = self.commands.as_mut().context("its input is piped")?;
        writeln!(commands, "{command}").and_then(|()| commands.flush()).context("a side has exited")?;
        let mut line = String::new();
        self.replies.read_line(&mut line).context("a side does not reply")?;
        ensure!(!line.is_empty(), "a side has exited before it replied");
        Ok(line.split_whitespace().map(str::to_owned).collect())
    }

    /// Runs from a root; returns the seconds, and the count for the check.
    fn run(&mut self, root: u64) -> anyhow::Result<(f64, u64)> {
        match self.send_command(&format!("run {root}"))?.as_slice() {
            [_, seconds, counted] => Ok((seconds.parse()?, counted.parse()?)),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    fn name(&self) -> String {
        self.ranks
            .map_or_else(|| "serial".to_owned(), |ranks| format!("{ranks} rank{}", if ranks == 1 { "" } else { "s" }))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // It exits at the end of its input.
        self.commands.take();
        let _ = self.child.wait();
    }
}

impl GraphBench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        for kernel in &self.kernels {
            ensure!(
                KERNELS.contains(&kernel.as_str()),
                "there is no algorithm `{kernel}`; the algorithms are {}",
                KERNELS.join(", ")
            );
        }
        ensure!(self.delta.is_none_or(|delta| (1e-6..1e9).contains(&delta)), "--delta must be from 1e-6 to 1e9");
        let mut records = Records::create(self.json.as_deref())?;
        let kronecker = Kronecker::new(self.scale, Kronecker::EDGE_FACTOR)?;
        let start = |ranks| Side::start(ranks, self.scale, self.delta);
        let sides: anyhow::Result<Vec<Side>> =
            std::iter::once(None).chain(self.ranks.iter().copied().map(Some)).map(start).collect();
        let mut sides = sides?;
        say!("Graphs on {}", machine::describe());
        say!(
            "  Kronecker, scale {}, without duplicates and self-loops; {} alternations, each from a new root",
            self.scale,
            self.repeat
        );
        say!("  serial: one thread, no messages; median milliseconds; paired ratios with 95% confidence intervals");
        say!("");
        say!(
            "{:<10} {:<9} {:>9} {:>8}  {:>24}  {:>24}",
            "case",
            "side",
            "ms",
            "spread",
            "speedup over serial",
            "speedup over 1 rank"
        );
        for kernel in &self.kernels {
            let index = KERNELS.iter().position(|name| name == kernel).context("a known kernel")?;
            for side in &mut sides {
                side.send_command(&format!("prepare {index}"))?;
            }
            let times = self.measure_rounds(&mut sides, kronecker, kernel)?;
            for (side, side_times) in sides.iter().zip(&times) {
                let one = sides.iter().position(|side| side.ranks == Some(1)).unwrap_or(0);
                let speedup = |over: usize| with_interval(PairedRatio::new(&times[over], side_times));
                say!(
                    "{kernel:<10} {:<9} {:>9} {:>8}  {:>24}  {:>24}",
                    side.name(),
                    format_number(median(side_times)),
                    format_number(interquartile_range(side_times)),
                    speedup(0),
                    speedup(one)
                );
                if let Some(ranks) = side.ranks {
                    records.write(&self.record(kernel, ranks, side_times, &times[0]))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Milliseconds of each side, turn by turn, after a warm-up turn.
    fn measure_rounds(&self, sides: &mut [Side], kronecker: Kronecker, kernel: &str) -> anyhow::Result<Vec<Vec<f64>>> {
        let mut times = vec![Vec::new(); sides.len()];
        let (mut drawing, mut turn) = (0, 0);
        while turn <= self.repeat {
            // Skip isolated vertices: a search from one reaches only itself.
            let root = kronecker.search_key_candidate(drawing);
            drawing += 1;
            ensure!(drawing < 100 * u64::from(self.repeat + 2), "too few vertices have edges");
            let mut counted = None;
            let mut turn_times = Vec::new();
            for side in sides.iter_mut() {
                let (seconds, count) = side.run(root)?;
                // Iterations of PageRank may differ by one: sums are rounded differently.
                let apart = counted.get_or_insert(count).abs_diff(count);
                ensure!(
                    apart <= u64::from(kernel == "pagerank"),
                    "{kernel} counts {count} on {}, other than the sides before",
                    side.name()
                );
                turn_times.push(1e3 * seconds);
            }
            let searches = kernel == "bfs" || kernel == "sssp";
            if !searches || counted.is_some_and(|count| count > 1) {
                if turn > 0 {
                    times.iter_mut().zip(turn_times).for_each(|(times, turn_times)| times.push(turn_times));
                }
                turn += 1;
            }
        }
        Ok(times)
    }

    fn record(&self, kernel: &str, ranks: u32, side_times: &[f64], serial: &[f64]) -> Record {
        let case = format!("bench/graph/{kernel}/kron{}", self.scale);
        let against = PeerResult::new("plain, one thread", side_times, serial, Better::Low, 0);
        Record { against: Some(against), ..Record::measured(case, "shm", ranks, side_times, ("ms", Better::Low)) }
    }
}

fn with_interval(ratio: PairedRatio) -> String {
    let bounds = ratio.interval.map(|(low, high)| format!(" ({low:.2} to {high:.2})"));
    format!("{:.2}{}", ratio.median, bounds.unwrap_or_default())
}
