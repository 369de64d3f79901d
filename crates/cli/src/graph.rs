//! `treepie graph`: runs a graph algorithm on a graph from a file or a generator.
//!
//! Every rank builds its part of the graph and runs the algorithm; rank 0 prints the result. If the command is not
//! started as a rank, it launches itself as ranks.

mod answer;
mod input;
mod kernel;
mod roots;
mod streams;
mod teps;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail, ensure};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use treepie::am::{Config, Detector};
use treepie::graph::bfs::BfsMethod;
use treepie::graph::components::ComponentMethod;
use treepie::graph::pagerank::{PageRankMethod, PageRankOptions};
use treepie::graph::{AmConfig, OutputFormat};
use treepie::{Comm, Max};
use treepie_base::STANDARD_STREAM;

use crate::run;
use answer::Answer;
use input::{Input, Source};
use streams::InputFiles;
use treepie_bench::diagnostics::with_causes;
use treepie_bench::record::{Better, Record, Records};
use treepie_bench::{EmulationOption, Summary, machine};

/// Run a graph algorithm on a graph from a file or a generator
///
/// Started under `mpirun` or `treepie run`, it uses the ranks of that job.
#[derive(clap::Args)]
pub(crate) struct GraphCommand {
    /// Algorithm
    #[arg(value_enum)]
    kernel: Kernel,
    #[command(flatten)]
    input: Input,
    /// Number of ranks [default: one per core, or those of the job]
    #[arg(short = 'n', long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Variant of the algorithm: bfs: direction, messages, exchange; cc: sampling, search, hooking; pagerank: pull,
    /// push
    /// [default: the first, or with --split the first that supports it]
    #[arg(long, value_enum)]
    method: Option<Method>,
    /// Root (source vertex) of the search; may be repeated
    #[arg(long = "root", value_name = "VERTEX")]
    root: Vec<u64>,
    /// Number of random roots, sampled as in Graph 500 [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "root", value_parser = clap::value_parser!(u32).range(1..))]
    roots: Option<u32>,
    /// bc: use edge weights as lengths
    #[arg(long)]
    weighted: bool,
    /// Verify each result
    #[arg(long)]
    verify: bool,
    /// Handle messages on arrival (am) or at the end of supersteps (bsp)
    #[arg(long, value_enum)]
    style: Option<Style>,
    /// Active-message configuration, e.g. coalescing=512,routing=rook,reductions=1024
    #[arg(long, value_name = "CONFIG")]
    config: Option<String>,
    /// Bucket width of delta-stepping [default: derived from the weights]
    #[arg(long, value_name = "LENGTH")]
    delta: Option<f64>,
    /// PageRank: damping factor [default: 0.85]
    #[arg(long, value_name = "P")]
    damping: Option<f64>,
    /// PageRank: stop when the sum of score changes is below this [default: 1e-4]
    #[arg(long, value_name = "CHANGE")]
    tolerance: Option<f64>,
    /// PageRank: maximum number of iterations [default: 100]
    #[arg(long, value_name = "N")]
    iterations: Option<u32>,
    /// Run the Graph 500 benchmark: 64 verified roots, and its output format (bfs and sssp, with --kronecker)
    #[arg(long, requires = "kronecker")]
    graph500: bool,
    /// Write one line per vertex, with its id in the input, to this file (.txt, .csv or .npy; `-` is standard output)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the result to this file, as a JSON line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print no summary
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kernel {
    /// Breadth-first search from a root
    Bfs,
    /// Single-source shortest paths (delta-stepping)
    Sssp,
    /// Connected components
    Cc,
    /// PageRank
    Pagerank,
    /// Vertices reachable from a set of roots
    Reach,
    /// Strongly connected components
    Scc,
    /// Betweenness centrality (Brandes), from all vertices or from the roots
    Bc,
    /// Core numbers (k-cores)
    Kcore,
    /// Triangles and clustering coefficients
    Triangles,
    /// A maximal independent set
    Mis,
    /// Degrees, self-loops and parallel arcs
    Info,
}

impl Kernel {
    fn name(self) -> &'static str {
        match self {
            Self::Bfs => "bfs",
            Self::Sssp => "sssp",
            Self::Cc => "cc",
            Self::Pagerank => "pagerank",
            Self::Reach => "reach",
            Self::Scc => "scc",
            Self::Bc => "bc",
            Self::Kcore => "kcore",
            Self::Triangles => "triangles",
            Self::Mis => "mis",
            Self::Info => "info",
        }
    }

    /// The variants; the first is the default.
    fn methods(self) -> Vec<Method> {
        METHODS.into_iter().filter(|method| method.kernel() == self).collect()
    }

    /// Whether this method supports vertices whose arcs are split over several ranks.
    fn supports_split_vertices(self, method: Option<Method>) -> bool {
        match self {
            Self::Bfs => method == Some(Method::Bfs(BfsMethod::ActiveMessages)),
            Self::Sssp | Self::Pagerank | Self::Reach => true,
            Self::Cc | Self::Scc | Self::Bc => false,
            Self::Kcore | Self::Triangles | Self::Mis | Self::Info => false,
        }
    }

    /// Whether it takes directed graphs as undirected ones.
    fn is_undirected(self) -> bool {
        matches!(self, Self::Cc | Self::Kcore | Self::Triangles | Self::Mis)
    }

    fn has_roots(self) -> bool {
        matches!(self, Self::Bfs | Self::Sssp | Self::Reach | Self::Bc)
    }
}

/// A method of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Bfs(BfsMethod),
    Components(ComponentMethod),
    PageRank(PageRankMethod),
}

/// All methods, by algorithm.
const METHODS: [Method; 8] = [
    Method::Bfs(BfsMethod::DirectionOptimizing),
    Method::Bfs(BfsMethod::ActiveMessages),
    Method::Bfs(BfsMethod::SparseExchange),
    Method::Components(ComponentMethod::Sampling),
    Method::Components(ComponentMethod::Search),
    Method::Components(ComponentMethod::Hooking),
    Method::PageRank(PageRankMethod::Pull),
    Method::PageRank(PageRankMethod::Push),
];

impl Method {
    fn kernel(self) -> Kernel {
        match self {
            Self::Bfs(_) => Kernel::Bfs,
            Self::Components(_) => Kernel::Cc,
            Self::PageRank(_) => Kernel::Pagerank,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bfs(method) => method.name(),
            Self::Components(method) => method.name(),
            Self::PageRank(method) => method.name(),
        }
    }
}

impl ValueEnum for Method {
    fn value_variants<'a>() -> &'a [Self] {
        &METHODS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Bfs(BfsMethod::DirectionOptimizing) => "bfs: direction-optimizing, top-down or bottom-up steps",
            Self::Bfs(BfsMethod::ActiveMessages) => "bfs: one active message per edge of the frontier",
            Self::Bfs(BfsMethod::SparseExchange) => {
                "bfs: one sparse exchange per level, with the protocol of TREEPIE_ALGORITHM"
            }
            Self::Components(ComponentMethod::Sampling) => "cc: neighbor sampling first (Afforest)",
            Self::Components(ComponentMethod::Search) => "cc: the giant component by one search, the others by hooking",
            Self::Components(ComponentMethod::Hooking) => "cc: hooking and pointer jumping (Shiloach and Vishkin)",
            Self::PageRank(PageRankMethod::Pull) => "pagerank: each vertex sums the contributions of its in-neighbors",
            Self::PageRank(PageRankMethod::Push) => "pagerank: one active message per edge",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Style {
    Am,
    Bsp,
}

/// Number of roots of the Graph 500 benchmark.
const GRAPH500_ROOTS: u32 = 64;

impl GraphCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if !machine::is_rank() {
            self.check()?;
            self.input.check_files()?;
            let ranks = self.ranks.unwrap_or_else(|| machine::cores() as u32);
            if ranks > 1 {
                run::check_limits(ranks, &EmulationOption::default())?;
                return run::launch_this_command(ranks, false);
            }
        }
        let world = treepie::init()?;
        match self.answer(&world) {
            Err(error) if world.rank() == 0 => Err(error),
            // Rank 0 prints the error.
            Err(_) => Ok(ExitCode::from(run::ERROR_REPORTED_STATUS)),
            Ok(()) => Ok(ExitCode::SUCCESS),
        }
    }

    /// Checks the options, as far as this is possible without the graph.
    fn check(&self) -> anyhow::Result<()> {
        let (kernel, methods) = (self.kernel.name(), self.kernel.methods());
        if let Some(method) = self.method.filter(|method| !methods.contains(method)) {
            let known = methods.iter().map(|method| method.name()).collect::<Vec<_>>().join(", ");
            ensure!(!methods.is_empty(), "{kernel} has only one method; `{}` is not a method of it", method.name());
            bail!("the methods of {kernel} are {known}, not `{}`", method.name());
        }
        if self.input.split.is_some() && !self.kernel.supports_split_vertices(self.method()) {
            let by = self.method.map_or_else(String::new, |method| format!(" by {}", method.name()));
            bail!("{kernel}{by} does not support split vertices: build the graph without --split");
        }
        ensure!(self.kernel.has_roots() || self.root.is_empty() && self.roots.is_none(), "{kernel} has no roots");
        ensure!(
            !self.graph500 || matches!(self.kernel, Kernel::Bfs | Kernel::Sssp),
            "Graph 500 has bfs and sssp, not {kernel}"
        );
        for (option, is_given) in [("--style", self.style.is_some()), ("--config", self.config.is_some())] {
            let by = self.method().map_or_else(String::new, |method| format!(" by {}", method.name()));
            ensure!(
                !is_given || self.sends_messages(),
                "{option} is for active messages, which {kernel}{by} does not send"
            );
        }
        ensure!(!self.verify || self.kernel != Kernel::Info, "info only counts: there is nothing to verify");
        ensure!(!self.weighted || self.kernel == Kernel::Bc, "--weighted is for bc, not for {kernel}");
        ensure!(self.delta.is_none_or(|delta| delta > 0.0 && delta.is_finite()), "--delta must be a positive length");
        let has_lengths = self.kernel == Kernel::Sssp || self.weighted;
        ensure!(
            self.delta.is_none() || has_lengths,
            "--delta is for sssp, and for bc with --weighted, not for {kernel}"
        );
        let pagerank = self.pagerank_options();
        ensure!((0.0..1.0).contains(&pagerank.damping), "--damping must be at least 0 and less than 1");
        ensure!(pagerank.tolerance >= 0.0, "--tolerance must not be negative");
        for (option, is_given) in [
            ("--damping", self.damping.is_some()),
            ("--tolerance", self.tolerance.is_some()),
            ("--iterations", self.iterations.is_some()),
        ] {
            ensure!(!is_given || self.kernel == Kernel::Pagerank, "{option} is for pagerank, not for {kernel}");
        }
        self.output_format()?;
        self.am_config()?;
        self.input.check()
    }

    /// Options of PageRank.
    fn pagerank_options(&self) -> PageRankOptions {
        let defaults = PageRankOptions::default();
        PageRankOptions {
            damping: self.damping.unwrap_or(defaults.damping),
            tolerance: self.tolerance.unwrap_or(defaults.tolerance),
            max_iterations: self.iterations.unwrap_or(defaults.max_iterations),
            ..defaults
        }
    }

    /// The format of the output file, if there is one.
    fn output_format(&self) -> anyhow::Result<Option<OutputFormat>> {
        let format = |output: &PathBuf| match output.as_path() {
            path if path == Path::new(STANDARD_STREAM) => Ok(OutputFormat::Text),
            path => OutputFormat::guess(path),
        };
        Ok(self.output.as_ref().map(format).transpose()?)
    }

    fn am_config(&self) -> anyhow::Result<AmConfig> {
        let style = self.style.map(|style| match style {
            Style::Am => "style=am",
            Style::Bsp => "style=bsp",
        });
        let parts: Vec<&str> = self.config.as_deref().into_iter().chain(style).collect();
        let config = parts.join(",");
        let config = if parts.is_empty() { None } else { Some(config.parse::<Config>().context("--config")?) };
        Ok(AmConfig { config, detector: Detector::Auto })
    }

    /// Whether the algorithm sends active messages.
    fn sends_messages(&self) -> bool {
        if matches!(self.kernel, Kernel::Kcore | Kernel::Triangles | Kernel::Mis | Kernel::Info) {
            return false;
        }
        !matches!(
            self.method(),
            Some(
                Method::Bfs(BfsMethod::DirectionOptimizing | BfsMethod::SparseExchange)
                    | Method::PageRank(PageRankMethod::Pull)
            )
        )
    }

    fn method(&self) -> Option<Method> {
        let can = |method: &Method| self.input.split.is_none() || self.kernel.supports_split_vertices(Some(*method));
        self.method.or(self.kernel.methods().into_iter().find(can))
    }

    /// Opens the files: the local part, which may fail on one rank only.
    fn open_files(&self, world: &Comm, files: &InputFiles) -> anyhow::Result<(Records, Source)> {
        if let Some(ranks) = self.ranks {
            ensure!(ranks as usize == world.size(), "-n {ranks}, but this job has {} ranks", world.size());
        }
        self.check()?;
        if self.quiet {
            Summary::None.set();
        }
        Summary::leave_standard_output_to(self.output.as_deref());
        let records = Records::create(self.json.as_deref().filter(|_| world.rank() == 0))?;
        Ok((records, self.input.open(files)?))
    }

    /// Builds the graph, runs the algorithm and reports.
    fn answer(&self, world: &Comm) -> anyhow::Result<()> {
        let is_root = world.rank() == 0;
        let files = InputFiles::new(world, self.input.files())?;
        let renamed = |error: anyhow::Error| anyhow!(files.rename(with_causes(&error)));
        // A file may be missing on some hosts only.
        let (mut records, source) = run::agree(world, self.open_files(world, &files)).map_err(renamed)?;
        let answer = kernel::run_kernel(self, world, source).map_err(renamed)?;
        let memory = world.allreduce(&[machine::peak_memory().unwrap_or(0)], Max)?[0];
        if is_root && self.graph500 {
            teps::print_graph500(&answer)
        } else if is_root {
            answer.print(memory)
        }
        let recorded =
            if is_root { records.write(&answer.record(memory, self.record(world, &answer))) } else { Ok(()) };
        // Last, so that nothing else is lost if it fails.
        if let Some((output, format)) = self.output.as_ref().zip(self.output_format()?) {
            answer.write(world, output, format)?;
        }
        recorded?;
        if !is_root {
            return Ok(());
        }
        answer.failure.map_or(Ok(()), |why| bail!(why))
    }

    fn record(&self, world: &Comm, answer: &Answer) -> Record {
        let milliseconds: Vec<f64> = answer.runs.iter().map(|run| 1e3 * run.seconds).collect();
        Record {
            case: format!("graph/{}/{}", self.kernel.name(), answer.facts.name),
            engine: world.engine().to_owned(),
            ranks: world.size() as u32,
            value: teps::quantile(&milliseconds, 0.5),
            unit: "ms".to_owned(),
            better: Better::Low,
            statistic: "median".to_owned(),
            spread: teps::quantile(&milliseconds, 0.75) - teps::quantile(&milliseconds, 0.25),
            samples: milliseconds.len(),
            machine: machine::describe(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            against: None,
        }
    }
}
