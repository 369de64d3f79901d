//! The algorithms, on the graphs of the paper.   [active messages paper, section 6]

use clap::builder::PossibleValue;
use treepie::Comm;
use treepie::graph::bfs::{BfsMethod, BfsOptions, BfsSearch};
use treepie::graph::components::{ComponentMethod, ComponentOptions};
use treepie::graph::generate::{ErdosRenyi, Kronecker};
use treepie::graph::pagerank::{PageRankOptions, push::PushPageRank};
use treepie::graph::sssp::{DeltaStepping, SsspOptions};
use treepie::graph::{AmConfig, AmTraffic, BuildOptions, EdgeSource, EdgeWeight, Graph, Result};

use crate::harness::rank::time_slowest;

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    Bfs,
    Sssp,
    Hooking,
    SearchAndHooking,
    Pagerank,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelResult {
    /// Time of the slowest rank.
    pub(super) seconds: f64,
    /// Summed over ranks; memory is the maximum.
    pub(super) traffic: AmTraffic,
}

/// Edges per vertex of the Kronecker graph; the average degree is twice that.
const EDGE_FACTOR: u64 = 8;

/// Iterations of PageRank, which are all alike; the time of one is reported. The paper ran 20.
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

    /// The reduction of vertices per rank relative to breadth-first search, as a power of two.
    pub(super) fn scale_reduction(self) -> u32 {
        match self {
            Self::Bfs => 0,
            Self::Sssp => 3,
            Self::Hooking | Self::SearchAndHooking | Self::Pagerank => 1,
        }
    }

    /// Entries of the paper's caches, per neighbor.
    pub(super) fn cache_entries(self) -> usize {
        match self {
            Self::Bfs => 1 << 20,
            _ => 1 << 18,
        }
    }

    /// Runs it with one configuration after the other. Collective.
    pub(super) fn run(
        self,
        world: &Comm,
        vertices: u64,
        configs: impl Iterator<Item = AmConfig>,
    ) -> Result<Vec<KernelResult>> {
        let all = vertices * world.size() as u64;
        let kronecker = || Kronecker::new(all.trailing_zeros(), EDGE_FACTOR);
        match self {
            Self::Bfs => {
                let kronecker = kronecker()?;
                let graph = build::<()>(world, &kronecker)?;
                let root = root(world, &graph, kronecker)?;
                let run = |config: AmConfig| {
                    let method = Some(BfsMethod::ActiveMessages);
                    let options = BfsOptions { method, config, ..BfsOptions::default() };
                    let mut search = BfsSearch::<(), u32>::new(&graph, &options)?;
                    time(world, || search.run(root).map(drop))?.with_traffic(world, search.traffic())
                };
                configs.map(run).collect()
            }
            Self::Sssp => {
                let kronecker = kronecker()?;
                let graph = build::<f32>(world, &kronecker)?;
                let root = root(world, &graph, kronecker)?;
                let run = |config: AmConfig| {
                    let mut search = DeltaStepping::new(&graph, &SsspOptions { delta: None, config })?;
                    time(world, || search.run(root).map(drop))?.with_traffic(world, search.traffic())
                };
                configs.map(run).collect()
            }
            Self::Hooking | Self::SearchAndHooking => {
                let graph = build::<()>(world, &ErdosRenyi::with_degree(all, 2.0)?)?;
                let method = if self == Self::Hooking { ComponentMethod::Hooking } else { ComponentMethod::Search };
                let run = |config: AmConfig| {
                    let (options, mut traffic) = (ComponentOptions { method, config }, AmTraffic::default());
                    let ran = time(world, || {
                        traffic = graph.components_with(&options)?.traffic;
                        Ok(())
                    })?;
                    ran.with_traffic(world, traffic)
                };
                configs.map(run).collect()
            }
            Self::Pagerank => {
                let graph = build::<()>(world, &kronecker()?)?;
                let options =
                    PageRankOptions { tolerance: 0.0, max_iterations: ITERATIONS, ..PageRankOptions::default() };
                let run = |config: AmConfig| {
                    let mut pagerank = PushPageRank::new(&graph, &config)?;
                    let ran =
                        time(world, || pagerank.run(&options).map(drop))?.with_traffic(world, pagerank.traffic())?;
                    Ok(KernelResult { seconds: ran.seconds / f64::from(ITERATIONS), ..ran })
                };
                configs.map(run).collect()
            }
        }
    }
}

/// Virtual seconds of the slowest rank.
struct Elapsed(f64);

impl Elapsed {
    fn with_traffic(self, world: &Comm, traffic: AmTraffic) -> Result<KernelResult> {
        Ok(KernelResult { seconds: self.0, traffic: traffic.allreduce(world)? })
    }
}

fn time(world: &Comm, run: impl FnOnce() -> Result<()>) -> Result<Elapsed> {
    Ok(Elapsed(time_slowest(world, run)?.1))
}

fn build<W: EdgeWeight>(world: &Comm, edges: &dyn EdgeSource) -> Result<Graph<W>> {
    Graph::build_weighted_with(world, edges, &BuildOptions { drop_self_loops: true, ..BuildOptions::default() })
}

/// The first sampled vertex with an edge.
fn root<W: EdgeWeight>(world: &Comm, graph: &Graph<W>, kronecker: Kronecker) -> Result<u64> {
    for drawing in 0..1000 {
        let root = kronecker.search_key_candidate(drawing);
        if world.any(graph.local_index(root).is_some_and(|local| graph.out_edges().degree(local) > 0))? {
            return Ok(root);
        }
    }
    Ok(0)
}
