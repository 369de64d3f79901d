//! The ranks of the graph benchmark: they hold a graph and run an algorithm on command.
//!
//! Only one side works at a time; the others wait. Commands are lines on rank 0's standard input.

use std::io::{BufRead, stdin};

use anyhow::{Context, bail};
use treepie::Comm;
use treepie::graph::bfs::{self, BfsOptions, BfsSearch};
use treepie::graph::generate::Kronecker;
use treepie::graph::pagerank::{PageRankOptions, pull::PullPageRank};
use treepie::graph::sssp::{DeltaStepping, SsspOptions};
use treepie::graph::{BuildOptions, EdgeWeight, Graph};

use super::serial::{self, SerialCsr};
use crate::harness::rank::time_slowest;

/// A rank of the graph benchmark.
#[derive(clap::Args)]
pub struct GraphRank {
    #[arg(long)]
    scale: u32,
    /// Run the serial algorithms instead
    #[arg(long)]
    serial: bool,
    #[arg(long)]
    delta: Option<f64>,
}

/// A command to a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerCommand {
    /// Set up an algorithm.
    Prepare(u64),
    /// Run it from a root.
    Run(u64),
    End,
}

pub(super) const KERNELS: [&str; 4] = ["bfs", "pagerank", "cc", "sssp"];

impl GraphRank {
    pub(crate) fn run(&self) -> anyhow::Result<std::process::ExitCode> {
        let world = treepie::init()?;
        let mut command = next(&world)?;
        while let WorkerCommand::Prepare(kernel) = command {
            command = match KERNELS.get(kernel as usize) {
                Some(&"sssp") => self.sssp(&world)?,
                Some(kernel) => self.unweighted(&world, kernel)?,
                None => bail!("there is no algorithm {kernel}"),
            };
        }
        Ok(std::process::ExitCode::SUCCESS)
    }

    fn build<W: EdgeWeight>(&self, world: &Comm) -> anyhow::Result<Graph<W>> {
        let options = BuildOptions { drop_self_loops: true, dedupe: true, ..BuildOptions::default() };
        Ok(Graph::build_weighted_with(world, &Kronecker::new(self.scale, Kronecker::EDGE_FACTOR)?, &options)?)
    }

    fn unweighted(&self, world: &Comm, kernel: &str) -> anyhow::Result<WorkerCommand> {
        let graph = self.build::<()>(world)?;
        let options = PageRankOptions::default();
        if self.serial {
            let graph = SerialCsr::new(graph);
            return match kernel {
                "bfs" => serve(world, |root| {
                    let parents = serial::bfs::run(&graph, root as usize);
                    Ok(parents.iter().filter(|parent| **parent >= 0).count() as u64)
                }),
                "cc" => serve(world, |_| {
                    let roots = serial::components::run(&graph);
                    Ok((0..).zip(roots).filter(|(vertex, root)| vertex == root).count() as u64)
                }),
                _ => serve(world, |_| {
                    Ok(serial::pagerank::run(&graph, options.damping, options.tolerance, options.max_iterations)
                        .1
                        .into())
                }),
            };
        }
        match kernel {
            "bfs" => {
                let mut search = BfsSearch::<(), u32>::new(&graph, &BfsOptions::default())?;
                serve(world, |root| {
                    let labels = search.run(root)?;
                    Ok(labels.iter().filter(|label| label.level != bfs::UNREACHED).count() as u64)
                })
            }
            "cc" => serve(world, |_| {
                let first = graph.layout().first_global_id(graph.layout().rank());
                let labels = graph.components()?.labels.into_local();
                Ok((first..).zip(labels).filter(|(vertex, label)| vertex == label).count() as u64)
            }),
            _ => {
                let mut pagerank = PullPageRank::new(&graph)?;
                serve(world, |_| {
                    let iterations = pagerank.run(&options)?.iterations;
                    Ok(if world.rank() == 0 { iterations.into() } else { 0 })
                })
            }
        }
    }

    fn sssp(&self, world: &Comm) -> anyhow::Result<WorkerCommand> {
        let graph = self.build::<f32>(world)?;
        let search = || DeltaStepping::new(&graph, &SsspOptions { delta: self.delta, ..SsspOptions::default() });
        if self.serial {
            let delta = search()?.delta();
            let graph = SerialCsr::new(graph);
            return serve(world, |root| {
                let distances = serial::sssp::run(&graph, root as usize, delta);
                Ok(distances.iter().filter(|distance| distance.is_finite()).count() as u64)
            });
        }
        let mut search = search()?;
        serve(world, |root| {
            search.run(root)?;
            Ok(search.num_reached())
        })
    }
}

/// The next command, broadcast to all ranks.
fn next(world: &Comm) -> anyhow::Result<WorkerCommand> {
    let mut words = [0u64; 2];
    if world.rank() == 0 {
        let mut line = String::new();
        stdin().lock().read_line(&mut line).context("cannot read a command")?;
        let number = |text: &str| text.trim().parse().with_context(|| format!("`{text}` is not a number"));
        words = match line.trim().split_once(' ') {
            Some(("prepare", kernel)) => [1, number(kernel)?],
            Some(("run", root)) => [2, number(root)?],
            _ => [0, 0],
        };
    }
    world.bcast(&mut words, 0)?;
    Ok(match words {
        [1, kernel] => WorkerCommand::Prepare(kernel),
        [2, root] => WorkerCommand::Run(root),
        _ => WorkerCommand::End,
    })
}

/// Serves `Run` commands: prints the time of the slowest rank and the sum of counts. Returns the next other command.
fn serve(world: &Comm, mut run: impl FnMut(u64) -> treepie::graph::Result<u64>) -> anyhow::Result<WorkerCommand> {
    if world.rank() == 0 {
        say!("ready");
    }
    loop {
        match next(world)? {
            WorkerCommand::Run(root) => {
                let (counted, seconds) = time_slowest(world, || run(root))?;
                let counted = world.allreduce(&[counted], treepie::Sum)?[0];
                if world.rank() == 0 {
                    say!("took {seconds} {counted}");
                }
            }
            other => return Ok(other),
        }
    }
}
