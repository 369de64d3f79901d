//! The ranks of the benchmark: they keep a graph, and run an algorithm whenever they are told to.
//!
//! All sides wait at the same time, and only one of them works. Orders come in lines on the first rank's standard input.

use std::io::{BufRead, stdin};

use anyhow::{Context, bail};
use treepie::graph::generate::Kronecker;
use treepie::graph::pagerank::{Limits, pull::Pulling};
use treepie::graph::{Arc, Graph, Messages, Shape, Weighted, bfs, components::sampling, sssp};
use treepie::{Comm, Max};

use super::serial::{self, Csr};

/// A rank of the benchmark of graphs.
#[derive(clap::Args)]
pub(crate) struct GraphRank {
    #[arg(long)]
    scale: u32,
    /// The plain algorithms instead
    #[arg(long)]
    serial: bool,
    #[arg(long)]
    delta: Option<f64>,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Make an algorithm ready.
    Prepare(u64),
    /// Run it, from a vertex.
    Run(u64),
    End,
}

pub(super) const KERNELS: [&str; 4] = ["bfs", "pagerank", "cc", "sssp"];

impl GraphRank {
    pub(crate) fn run(&self) -> anyhow::Result<std::process::ExitCode> {
        let world = treepie::init()?;
        let mut order = next(&world)?;
        while let Order::Prepare(kernel) = order {
            order = match KERNELS.get(kernel as usize) {
                Some(&"sssp") => self.sssp(&world)?,
                Some(kernel) => self.unweighted(&world, kernel)?,
                None => bail!("there is no algorithm {kernel}"),
            };
        }
        Ok(std::process::ExitCode::SUCCESS)
    }

    fn build<A: Arc>(&self, world: &Comm) -> anyhow::Result<Graph<A>> {
        let shape = Shape { drop_self_loops: true, dedupe: true, ..Shape::default() };
        Ok(Graph::build(world, &Kronecker::new(self.scale, Kronecker::EDGE_FACTOR)?, &shape)?)
    }

    fn unweighted(&self, world: &Comm, kernel: &str) -> anyhow::Result<Order> {
        let graph = self.build::<u32>(world)?;
        let limits = Limits::default();
        if self.serial {
            let graph = Csr::new(graph);
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
                    Ok(serial::pagerank::run(&graph, limits.damping, limits.tolerance, limits.iterations).1.into())
                }),
            };
        }
        let messages = Messages::default();
        match kernel {
            "bfs" => {
                let mut search = bfs::direction::Search::<u32, u32>::new(world, &graph, &messages)?;
                serve(world, |root| {
                    let labels = search.run(root)?;
                    Ok(labels.iter().filter(|label| label.level != bfs::UNREACHED).count() as u64)
                })
            }
            "cc" => serve(world, |_| {
                let first = graph.layout().first(graph.layout().rank());
                let found = sampling::run(world, &graph, &messages)?;
                Ok((first..).zip(found.labels).filter(|(vertex, label)| vertex == label).count() as u64)
            }),
            _ => {
                let mut pulling = Pulling::new(world, &graph)?;
                serve(world, |_| {
                    let iterations = pulling.run(&limits)?.iterations;
                    Ok(if world.rank() == 0 { iterations.into() } else { 0 })
                })
            }
        }
    }

    fn sssp(&self, world: &Comm) -> anyhow::Result<Order> {
        let graph = self.build::<Weighted>(world)?;
        let search = || sssp::Search::<f32>::new(world, &graph, self.delta, &Messages::default());
        if self.serial {
            let delta = search()?.delta();
            let graph = Csr::new(graph);
            return serve(world, |root| {
                let lengths = serial::sssp::run(&graph, root as usize, delta);
                Ok(lengths.iter().filter(|length| length.is_finite()).count() as u64)
            });
        }
        let mut search = search()?;
        serve(world, |root| {
            search.run(root)?;
            Ok(search.reached())
        })
    }
}

/// The next order, for all ranks.
fn next(world: &Comm) -> anyhow::Result<Order> {
    let mut words = [0u64; 2];
    if world.rank() == 0 {
        let mut line = String::new();
        stdin().lock().read_line(&mut line).context("no order can be read")?;
        let number = |text: &str| text.trim().parse().with_context(|| format!("`{text}` is no number"));
        words = match line.trim().split_once(' ') {
            Some(("prepare", kernel)) => [1, number(kernel)?],
            Some(("run", root)) => [2, number(root)?],
            _ => [0, 0],
        };
    }
    world.bcast(&mut words, 0)?;
    Ok(match words {
        [1, kernel] => Order::Prepare(kernel),
        [2, root] => Order::Run(root),
        _ => Order::End,
    })
}

/// Runs whenever that is ordered, and tells the time of the slowest rank and what was counted on all. Returns the order after.
fn serve(world: &Comm, mut run: impl FnMut(u64) -> treepie::graph::Result<u64>) -> anyhow::Result<Order> {
    if world.rank() == 0 {
        say!("ready");
    }
    loop {
        match next(world)? {
            Order::Run(root) => {
                world.barrier()?;
                let begun = world.now();
                let counted = run(root)?;
                let seconds = (world.now() - begun).as_secs_f64();
                let seconds = world.all_reduce(&[seconds], Max)?[0];
                let counted = world.all_reduce(&[counted], treepie::Sum)?[0];
                if world.rank() == 0 {
                    say!("took {seconds} {counted}");
                }
            }
            other => return Ok(other),
        }
    }
}
