//! `treepie graph`: an answer to a question about a graph, from a file or a generator.
//!
//! Each rank runs the same: it builds its part of the graph, runs the algorithm, and the first rank tells. Without ranks around,
//! the command launches itself as ranks.

mod answer;
mod input;
mod kernel;
mod roots;
mod teps;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use treepie::am::{Config, Detector};
use treepie::graph::pagerank::Limits;
use treepie::graph::{Error, Messages, OutputFormat, agree};
use treepie::{Comm, Max};
use treepie_shm::launch::{Label, Launch};

use super::record::{Better, Record, Records};
use super::{machine, run};
use answer::Answer;
use input::{Input, Source};

/// Answer a question about a graph: from a file, or a generated one
///
/// Under `mpirun`, or `treepie run`, it runs on the ranks that there are.
#[derive(clap::Args)]
pub(crate) struct Graph {
    /// What to find out
    #[arg(value_enum)]
    kernel: Kernel,
    #[command(flatten)]
    input: Input,
    /// How many ranks [default: one for each core, or those that there are]
    #[arg(short = 'n', long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// By which algorithm: bfs direction, messages or exchange; cc sampling, search or hooking; pagerank pull or push [default:
    /// the first, or the first that can with --split]
    #[arg(long, value_enum)]
    method: Option<Method>,
    /// Where searches begin; may be given several times
    #[arg(long = "root", value_name = "VERTEX")]
    root: Vec<u64>,
    /// Search from so many vertices, as Graph 500 draws them [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "root", value_parser = clap::value_parser!(u32).range(1..))]
    roots: Option<u32>,
    /// bc: ways are as long as their weights
    #[arg(long)]
    weighted: bool,
    /// Check each result
    #[arg(long)]
    verify: bool,
    /// Messages are handled on arrival, or at the end of rounds
    #[arg(long, value_enum)]
    style: Option<Style>,
    /// How messages travel, as coalescing=512,routing=rook,reductions=1024
    #[arg(long, value_name = "CONFIG")]
    config: Option<String>,
    /// The width of a bucket of shortest ways [default: by the weights]
    #[arg(long, value_name = "LENGTH")]
    delta: Option<f64>,
    /// PageRank: with this probability an arc is followed [default: 0.85]
    #[arg(long, value_name = "P")]
    damping: Option<f64>,
    /// PageRank: stop when scores change by less than this, all together [default: 1e-4]
    #[arg(long, value_name = "CHANGE")]
    tolerance: Option<f64>,
    /// PageRank: stop after so many iterations [default: 100]
    #[arg(long, value_name = "N")]
    iterations: Option<u32>,
    /// Print as the Graph 500 benchmark does, from 64 roots, after checking each (bfs and sssp of a Kronecker graph)
    #[arg(long, requires = "kronecker")]
    graph500: bool,
    /// Write one line for each vertex, with its own name, to this file (.txt, .csv or .npy)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write a record, as a JSON line, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kernel {
    /// How many edges each vertex is away from a root
    Bfs,
    /// How far away, by the weights of edges
    Sssp,
    /// Which vertices hang together
    Cc,
    /// Which vertices are important: PageRank
    Pagerank,
    /// Which vertices can be reached from roots
    Reach,
    /// Which vertices can be reached from each other
    Scc,
    /// Which vertices shortest ways lead over: betweenness, from all vertices or from roots
    Bc,
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
        }
    }

    /// The first one is what is done unless another is asked for.
    fn methods(self) -> &'static [Method] {
        match self {
            Self::Bfs => &[Method::Direction, Method::Messages, Method::Exchange],
            Self::Cc => &[Method::Sampling, Method::Search, Method::Hooking],
            Self::Pagerank => &[Method::Pull, Method::Push],
            Self::Sssp | Self::Reach | Self::Scc | Self::Bc => &[],
        }
    }

    /// Whether it can, by this method, do with vertices whose arcs lie on several ranks.
    fn follows_split(self, method: Option<Method>) -> bool {
        match self {
            Self::Bfs => method == Some(Method::Messages),
            Self::Sssp | Self::Pagerank | Self::Reach => true,
            Self::Cc | Self::Scc | Self::Bc => false,
        }
    }

    fn has_roots(self) -> bool {
        matches!(self, Self::Bfs | Self::Sssp | Self::Reach | Self::Bc)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    /// bfs: the front's neighbours, or neighbours in the front, whatever is less work
    Direction,
    /// bfs: each edge of the front is a message
    Messages,
    /// bfs: a sparse exchange for each level, by the protocol of TREEPIE_ALGORITHM
    Exchange,
    /// cc: by a few edges first
    Sampling,
    /// cc: the giant component by one search, others by hooking
    Search,
    /// cc: Shiloach and Vishkin
    Hooking,
    /// pagerank: vertices add up what their neighbours give
    Pull,
    /// pagerank: each edge is a message
    Push,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Style {
    Am,
    Bsp,
}

/// Roots of the Graph 500 benchmark.
const KEYS: u32 = 64;

/// Status of ranks that have said what is wrong.
const TOLD: u8 = 1;

impl Graph {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if !machine::is_rank() {
            self.check()?;
            let ranks = self.ranks.unwrap_or_else(|| machine::cores() as u32);
            if ranks > 1 {
                run::ensure_possible(ranks)?;
                return launch(ranks);
            }
        }
        let world = treepie::init()?;
        match self.answer(&world) {
            Err(error) if world.rank() == 0 => Err(error),
            // The first rank says why.
            Err(_) => Ok(ExitCode::from(TOLD)),
            Ok(()) => Ok(ExitCode::SUCCESS),
        }
    }

    /// What can be said without a graph.
    fn check(&self) -> anyhow::Result<()> {
        let (kernel, methods) = (self.kernel.name(), self.kernel.methods());
        let name = |method: &Method| method.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        if let Some(method) = self.method.filter(|method| !methods.contains(method)) {
            let there = methods.iter().map(name).collect::<Vec<_>>().join(", ");
            ensure!(!methods.is_empty(), "there is one way to do {kernel}, not `{}`", name(&method));
            bail!("{kernel} is done by {there}, not by `{}`", name(&method));
        }
        if self.input.split.is_some() && !self.kernel.follows_split(self.method()) {
            let by = self.method.map_or_else(String::new, |method| format!(" by {}", name(&method)));
            bail!("{kernel}{by} needs whole rows: build the graph without --split");
        }
        ensure!(self.kernel.has_roots() || self.root.is_empty() && self.roots.is_none(), "{kernel} has no roots");
        ensure!(
            !self.graph500 || matches!(self.kernel, Kernel::Bfs | Kernel::Sssp),
            "Graph 500 has bfs and sssp, not {kernel}"
        );
        ensure!(!self.weighted || self.kernel == Kernel::Bc, "--weighted is for bc, not for {kernel}");
        ensure!(self.delta.is_none_or(|delta| delta > 0.0 && delta.is_finite()), "--delta is a length over 0");
        let has_lengths = self.kernel == Kernel::Sssp || self.weighted;
        ensure!(
            self.delta.is_none() || has_lengths,
            "--delta is for sssp, and for bc with --weighted, not for {kernel}"
        );
        let limits = self.limits();
        ensure!((0.0..1.0).contains(&limits.damping), "--damping is a number from 0 to 1, not 1 itself");
        ensure!(limits.tolerance >= 0.0, "--tolerance is a number from 0 on");
        for (option, is_given) in [
            ("--damping", self.damping.is_some()),
            ("--tolerance", self.tolerance.is_some()),
            ("--iterations", self.iterations.is_some()),
        ] {
            ensure!(!is_given || self.kernel == Kernel::Pagerank, "{option} is for pagerank, not for {kernel}");
        }
        if let Some(output) = &self.output {
            OutputFormat::guess(output)?;
        }
        self.messages()?;
        self.input.check()
    }

    /// Of PageRank.
    fn limits(&self) -> Limits {
        Limits {
            damping: self.damping.unwrap_or(0.85),
            tolerance: self.tolerance.unwrap_or(1e-4),
            iterations: self.iterations.unwrap_or(100),
        }
    }

    fn messages(&self) -> anyhow::Result<Messages> {
        let style = self.style.map(|style| match style {
            Style::Am => "style=am",
            Style::Bsp => "style=bsp",
        });
        let parts: Vec<&str> = self.config.as_deref().into_iter().chain(style).collect();
        let config = parts.join(",");
        let config = if parts.is_empty() { None } else { Some(config.parse::<Config>().context("--config")?) };
        Ok(Messages { config, detector: Detector::Auto })
    }

    fn method(&self) -> Option<Method> {
        let can = |method: &&Method| self.input.split.is_none() || self.kernel.follows_split(Some(**method));
        self.method.or(self.kernel.methods().iter().find(can).copied())
    }

    /// What a rank can do by itself: opens files.
    fn begin(&self, world: &Comm) -> anyhow::Result<(Option<Records>, Source)> {
        if let Some(ranks) = self.ranks {
            ensure!(ranks as usize == world.size(), "-n {ranks} on {} ranks that there are already", world.size());
        }
        self.check()?;
        let records = match &self.json {
            Some(path) if world.rank() == 0 => Some(Records::create(path)?),
            _ => None,
        };
        Ok((records, self.input.open()?))
    }

    /// Builds the graph, and answers.
    fn answer(&self, world: &Comm) -> anyhow::Result<()> {
        let speaks = world.rank() == 0;
        // A file may be missing on some machines only.
        let begun = self.begin(world).map_err(|error| Error::Input(super::complaint::with_causes(&error)));
        let (mut records, source) = agree(world, begun)?;
        let answer = kernel::answer(self, world, source)?;
        let memory = world.all_reduce(&[machine::peak_memory().unwrap_or(0)], Max)?[0];
        if let Some(output) = &self.output {
            answer.write(world, output)?;
        }
        if !speaks {
            return Ok(());
        }
        if self.graph500 {
            teps::print_block(&answer)
        } else {
            answer.print(memory)
        }
        if let Some(records) = &mut records {
            records.write(&answer.record(memory, self.record(world, &answer)))?;
        }
        Ok(())
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

/// This very command on so many ranks.
fn launch(ranks: u32) -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let mut launch = Launch::new(ranks, own);
    let mut words = std::env::args_os().skip(1).peekable();
    while let Some(word) = words.next() {
        // The ranks find out how many they are.
        let text = word.to_string_lossy().into_owned();
        if text == "-n" || text == "--ranks" {
            words.next();
        } else if !(text.starts_with("--ranks=") || text.starts_with("-n") && !text.starts_with("--")) {
            launch.args.push(word);
        }
    }
    launch.label = Label::Never;
    let outcome = launch.run()?;
    // A rank that ends by itself has said why.
    if !outcome.is_success() && outcome.status() != i32::from(TOLD) {
        super::complain(&outcome.to_string());
    }
    Ok(ExitCode::from(u8::try_from(outcome.status()).unwrap_or(u8::MAX)))
}
