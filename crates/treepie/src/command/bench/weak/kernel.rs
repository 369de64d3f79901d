//! The algorithms, on the graphs of the paper.   [active messages paper, section 6]

use clap::builder::PossibleValue;
use treepie::graph::generate::{ErdosRenyi, Kronecker};
use treepie::graph::pagerank::{Limits, push::Pushing};
use treepie::graph::{Arc, Edges, Graph, Messages, Result, Shape, Traffic, Weighted, bfs, components, sssp};
use treepie::{Comm, Max};

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    Bfs,
    Sssp,
    Hooking,
    SearchAndHooking,
    Pagerank,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    /// Of the slowest rank.
    pub(super) seconds: f64,
    /// Of all ranks; memory is the most of one.
    pub(super) traffic: Traffic,
}

/// Arcs of a vertex of a Kronecker graph, on average, are twice as many.
const EDGES: u64 = 8;

/// So many iterations, of which the time of one is told: they are all alike. The paper took 20.
const ITERATIONS: u32 = 4;

impl clap::ValueEnum for Kernel {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Bfs, Self::Sssp, Self::Hooking, Self::SearchAndHooking, Self::Pagerank]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

impl Kernel {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bfs => "bfs",
            Self::Sssp => "sssp",
            Self::Hooking => "sv",
            Self::SearchAndHooking => "ps+sv",
            Self::Pagerank => "pagerank",
        }
    }

    /// By how many powers of two a rank has fewer vertices than in breadth-first search.
    pub(super) fn fewer(self) -> u32 {
        match self {
            Self::Bfs => 0,
            Self::Sssp => 3,
            Self::Hooking | Self::SearchAndHooking | Self::Pagerank => 1,
        }
    }

    /// Messages in the paper's caches, for each neighbour.
    pub(super) fn cache(self) -> usize {
        match self {
            Self::Bfs => 1 << 20,
            _ => 1 << 18,
        }
    }

    /// Runs it with messages that travel in one way after the other. All ranks call it.
    pub(super) fn run(self, world: &Comm, vertices: u64, ways: impl Iterator<Item = Messages>) -> Result<Vec<Ran>> {
        let all = vertices * world.size() as u64;
        let kronecker = || Kronecker::new(all.trailing_zeros(), EDGES);
        match self {
            Self::Bfs => {
                let kronecker = kronecker()?;
                let graph = build::<u32>(world, &kronecker)?;
                let root = root(world, &graph, kronecker)?;
                let run = |messages: Messages| {
                    let mut search = bfs::messages::Search::<u32, u32>::new(world, &graph, &messages)?;
                    time(world, || search.run(root).map(drop))?.with(world, search.traffic())
                };
                ways.map(run).collect()
            }
            Self::Sssp => {
                let kronecker = kronecker()?;
                let graph = build::<Weighted>(world, &kronecker)?;
                let root = root(world, &graph, kronecker)?;
                let run = |messages: Messages| {
                    let mut search = sssp::Search::<f32>::new(world, &graph, None, &messages)?;
                    time(world, || search.run(root).map(drop))?.with(world, search.traffic())
                };
                ways.map(run).collect()
            }
            Self::Hooking | Self::SearchAndHooking => {
                let graph = build::<u32>(world, &ErdosRenyi::by_degree(all, 2.0)?)?;
                let run = |messages: Messages| {
                    let mut traffic = Traffic::default();
                    let ran = time(world, || {
                        let found = match self {
                            Self::Hooking => components::hooking::run(world, &graph, &messages)?,
                            _ => components::search::run(world, &graph, &messages)?,
                        };
                        traffic = found.traffic;
                        Ok(())
                    })?;
                    ran.with(world, traffic)
                };
                ways.map(run).collect()
            }
            Self::Pagerank => {
                let graph = build::<u32>(world, &kronecker()?)?;
                let limits = Limits { tolerance: 0.0, iterations: ITERATIONS, ..Limits::default() };
                let run = |messages: Messages| {
                    let mut pushing = Pushing::new(world, &graph, &messages)?;
                    let ran = time(world, || pushing.run(&limits).map(drop))?.with(world, pushing.traffic())?;
                    Ok(Ran { seconds: ran.seconds / f64::from(ITERATIONS), ..ran })
                };
                ways.map(run).collect()
            }
        }
    }
}

/// Virtual seconds of the slowest rank.
struct Took(f64);

impl Took {
    fn with(self, world: &Comm, traffic: Traffic) -> Result<Ran> {
        Ok(Ran { seconds: self.0, traffic: traffic.of_all(world)? })
    }
}

fn time(world: &Comm, run: impl FnOnce() -> Result<()>) -> Result<Took> {
    world.barrier()?;
    let begun = world.now();
    run()?;
    Ok(Took(world.all_reduce(&[(world.now() - begun).as_secs_f64()], Max)?[0]))
}

fn build<A: Arc>(world: &Comm, edges: &dyn Edges) -> Result<Graph<A>> {
    Graph::build(world, edges, &Shape { drop_self_loops: true, ..Shape::default() })
}

/// The first vertex that is drawn and has an edge.
fn root<A: Arc>(world: &Comm, graph: &Graph<A>, kronecker: Kronecker) -> Result<u64> {
    for drawing in 0..1000 {
        let root = kronecker.candidate(drawing);
        if world.any(graph.mine(root).is_some_and(|place| graph.out().degree(place) > 0))? {
            return Ok(root);
        }
    }
    Ok(0)
}
