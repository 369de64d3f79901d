//! Runs an algorithm, once per root.

use std::cell::Cell;

use serde_json::{Value, json};
use treepie::graph::betweenness::{self, Betweenness, HopMetric, PathMetric, WeightedMetric};
use treepie::graph::bfs::{self, Label};
use treepie::graph::components::{self, hooking, sampling, search};
use treepie::graph::pagerank::{self, pull::PullPageRank, push::PushPageRank};
use treepie::graph::{
    AmConfig, AmTraffic, Column, CsrEdge, Graph, Result, Values, VertexId, Weight, WeightKind, WeightedEdge, reach,
    scc, sssp, top_k,
};
use treepie::{Comm, Max};
use treepie_base::memory;

use super::answer::{Answer, KernelRun};
use super::input::{GraphFacts, Source};
use super::roots::roots;
use super::{GRAPH500_ROOTS, GraphCommand, Kernel, Method};
use treepie_bench::machine;

/// The inputs of an algorithm.
struct KernelTask<'a> {
    options: &'a GraphCommand,
    world: &'a Comm,
    am_config: AmConfig,
    source: Source,
    /// Bytes of this process before the graph was built, and the peak of the runs.
    memory_before: u64,
    peak_memory: Cell<u64>,
}

/// The runs and their results.
struct KernelOutcome {
    runs: Vec<KernelRun>,
    verified: Vec<f64>,
    traffic: AmTraffic,
    column: Column,
}

/// Builds the graph and runs the algorithm. Collective.
pub(super) fn run_kernel(options: &GraphCommand, world: &Comm, source: Source) -> anyhow::Result<Answer> {
    let (memory_before, peak_memory) = (machine::private_memory().unwrap_or(0), Cell::new(0));
    let task = KernelTask { options, world, am_config: options.am_config()?, source, memory_before, peak_memory };
    let weighted = options.kernel == Kernel::Sssp || options.kernel == Kernel::Bc && options.weighted;
    let in_edges = match options.kernel {
        Kernel::Bfs => options.method() == Some(Method::Direction),
        Kernel::Pagerank | Kernel::Scc | Kernel::Bc => true,
        Kernel::Sssp | Kernel::Cc | Kernel::Reach => false,
    };
    let build = options.input.build_options(&task.source, in_edges, options.graph500);
    // Reject a directed graph before building it.
    if options.kernel == Kernel::Cc && !build.0.makes_symmetric(task.source.edges.orientation()) {
        return Err(components::directed_graph_error().into());
    }
    let (outcome, facts, vertex_ids) = if weighted {
        let (graph, facts) = options.input.build::<WeightedEdge>(world, &task.source, &build)?;
        let is_integer = task.source.edges.weights() == WeightKind::Integer;
        let outcome = match (options.kernel, is_integer) {
            (Kernel::Bc, true) => {
                task.betweenness(&graph, || WeightedMetric::<u32>::new(world, &graph, options.delta, &task.am_config))?
            }
            (Kernel::Bc, false) => {
                task.betweenness(&graph, || WeightedMetric::<f32>::new(world, &graph, options.delta, &task.am_config))?
            }
            (_, true) => task.sssp::<u32>(&graph)?,
            (_, false) => task.sssp::<f32>(&graph)?,
        };
        (outcome, facts, vertex_ids(&graph)?)
    } else {
        let (graph, facts): (_, GraphFacts) = options.input.build::<u32>(world, &task.source, &build)?;
        let outcome = match options.kernel {
            Kernel::Bfs if graph.num_vertices() < u64::from(u32::MAX) => task.bfs::<u32>(&graph)?,
            Kernel::Bfs => task.bfs::<u64>(&graph)?,
            Kernel::Cc => task.components(&graph)?,
            Kernel::Pagerank => task.pagerank(&graph)?,
            Kernel::Scc => task.strong_components(&graph)?,
            Kernel::Bc => task.betweenness(&graph, || HopMetric::new(world, &graph, &task.am_config))?,
            Kernel::Reach | Kernel::Sssp => task.reach(&graph)?,
        };
        (outcome, facts, vertex_ids(&graph)?)
    };
    let method = options.method().map_or_else(String::new, |method| format!("{method:?}").to_lowercase());
    let KernelOutcome { runs, verified, traffic, column } = outcome;
    let traffic = traffic.allreduce(world)?;
    let peak_bytes = world.allreduce(&[task.peak_memory.get()], Max)?[0];
    Ok(Answer {
        peak_bytes,
        kernel: options.kernel.name(),
        method,
        ranks: world.size(),
        facts,
        runs,
        verified,
        traffic,
        vertex_ids,
        column,
    })
}

fn vertex_ids<A: CsrEdge>(graph: &Graph<A>) -> treepie::Result<Vec<u64>> {
    memory::collected((0..graph.num_local()).map(|local| graph.layout().external_id(local)), "the vertex ids")
}

/// Fails early if there is no memory for the results: isolated vertices may exist only as a count. The memory is freed
/// at once.
fn check_result_memory<A: CsrEdge>(graph: &Graph<A>) -> treepie::Result<()> {
    memory::with_capacity::<[u64; 3]>(graph.num_local(), "the result of each vertex").map(drop)
}

/// A variant of breadth-first search.
enum BfsVariant<'g, I: VertexId> {
    Direction(bfs::direction_optimizing::DirectionOptimizingBfs<'g, u32, I>),
    Messages(bfs::active_messages::AmBfs<'g, u32, I>),
    Exchange(bfs::sparse_exchange::SparseExchangeBfs<'g, u32, I>),
}

impl<I: VertexId> BfsVariant<'_, I> {
    fn run(&mut self, root: u64) -> Result<&[Label<I>]> {
        match self {
            Self::Direction(search) => search.run(root),
            Self::Messages(search) => search.run(root),
            Self::Exchange(search) => search.run(root),
        }
    }

    fn traffic(&self) -> AmTraffic {
        match self {
            Self::Direction(search) => search.traffic(),
            Self::Messages(search) => search.traffic(),
            Self::Exchange(_) => AmTraffic::default(),
        }
    }
}

impl KernelTask<'_> {
    /// Runs something and returns the time of the slowest rank.
    fn time<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
        self.world.barrier()?;
        let start = self.world.now();
        let result = run()?;
        let seconds = (self.world.now() - start).as_secs_f64();
        Ok((result, self.world.allreduce(&[seconds], Max)?[0]))
    }

    /// The same for the algorithm itself, whose peak memory is recorded too.
    fn measure<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
        let (timed, peak) = machine::memory_during(|| self.time(run));
        self.peak_memory.set(self.peak_memory.get().max(peak.unwrap_or(0).saturating_sub(self.memory_before)));
        timed
    }

    fn is_verified(&self) -> bool {
        self.options.verify || self.options.graph500
    }

    fn verify(&self, verified: &mut Vec<f64>, verify: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_verified() {
            verified.push(self.time(verify)?.1);
        }
        Ok(())
    }

    /// The roots, by global id.
    fn roots<A: CsrEdge>(&self, graph: &Graph<A>) -> anyhow::Result<Vec<u64>> {
        let count = self.options.roots.unwrap_or(if self.options.graph500 { GRAPH500_ROOTS } else { 1 });
        roots(self.world, graph, &self.source, &self.options.root, count)
    }

    /// The external id of a vertex. Collective.
    fn vertex_id<A: CsrEdge>(&self, graph: &Graph<A>, vertex: u64) -> Result<u64> {
        let id = graph.local_index(vertex).map_or(0, |local| graph.layout().external_id(local));
        Ok(self.world.allreduce(&[id], Max)?[0])
    }

    fn bfs<I: VertexId>(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let (world, config) = (self.world, &self.am_config);
        let (mut runs, mut verified, mut levels) = (Vec::new(), Vec::new(), Vec::new());
        let mut search: BfsVariant<I> = match self.options.method() {
            Some(Method::Messages) => BfsVariant::Messages(bfs::active_messages::AmBfs::new(world, graph, config)?),
            Some(Method::Exchange) => BfsVariant::Exchange(bfs::sparse_exchange::SparseExchangeBfs::new(world, graph)),
            _ => BfsVariant::Direction(bfs::direction_optimizing::DirectionOptimizingBfs::new(world, graph, config)?),
        };
        for root in self.roots(graph)? {
            let (labels, seconds) = self.measure(|| search.run(root))?;
            check_result_memory(graph)?;
            self.verify(&mut verified, || bfs::verify(world, graph, root, labels, config))?;
            let summary = bfs::summarize(world, graph, labels)?;
            levels = labels.iter().map(|label| label.level).collect();
            let result = json!({"reached": summary.reached, "level_sizes": summary.level_sizes});
            let edges = self.edges(graph, summary.num_arcs);
            runs.push(KernelRun { root: Some(self.vertex_id(graph, root)?), seconds, edges, result });
        }
        // Unreached vertices have level -1.
        let levels = levels.into_iter().map(|level| if level == bfs::UNREACHED { -1 } else { i64::from(level) });
        let column = Column { name: "level".to_owned(), values: Values::I64(levels.collect()) };
        Ok(KernelOutcome { runs, verified, traffic: search.traffic(), column })
    }

    /// The number of edges for a number of arcs.
    fn edges<A: CsrEdge>(&self, graph: &Graph<A>, arcs: u64) -> u64 {
        if graph.is_symmetric() { arcs / 2 } else { arcs }
    }

    fn sssp<W: Weight>(&self, graph: &Graph<WeightedEdge>) -> anyhow::Result<KernelOutcome> {
        let (world, config) = (self.world, &self.am_config);
        let (mut runs, mut verified, mut distances) = (Vec::new(), Vec::new(), Vec::new());
        let mut search = sssp::DeltaStepping::<W>::new(world, graph, self.options.delta, config)?;
        for root in self.roots(graph)? {
            let (buckets, seconds) = self.measure(|| search.run(root))?;
            check_result_memory(graph)?;
            distances = search.distances();
            self.verify(&mut verified, || sssp::verify(world, graph, root, &distances, config))?;
            let summary = sssp::summarize(world, graph, &distances)?;
            let result = json!({
                "reached": summary.reached, "max": summary.max_distance, "sum": summary.sum_distances,
                "delta": search.delta(), "buckets": buckets,
            });
            let edges = self.edges(graph, summary.num_arcs);
            runs.push(KernelRun { root: Some(self.vertex_id(graph, root)?), seconds, edges, result });
        }
        let to_f64 = |distance: &W| if *distance < W::INFINITY { distance.as_f64() } else { f64::INFINITY };
        let column =
            Column { name: "distance".to_owned(), values: Values::F64(distances.iter().map(to_f64).collect()) };
        Ok(KernelOutcome { runs, verified, traffic: search.traffic(), column })
    }

    fn reach(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let (world, config) = (self.world, &self.am_config);
        let mut search = reach::Reachability::new(world, graph, config)?;
        let roots = self.roots(graph)?;
        let (visited, seconds) = self.measure(|| Ok(search.run(&roots)?.clone()))?;
        let mut verified = Vec::new();
        self.verify(&mut verified, || reach::verify(world, graph, &roots, &visited, config))?;
        let (reached, arcs) = reach::count_reached(world, graph, &visited)?;
        let root = roots.first().map(|root| self.vertex_id(graph, *root)).transpose()?;
        let run = KernelRun { root, seconds, edges: self.edges(graph, arcs), result: json!({"reached": reached}) };
        check_result_memory(graph)?;
        let reached = (0..graph.num_local()).map(|local| u32::from(visited.contains(local))).collect();
        let column = Column { name: "reached".to_owned(), values: Values::U32(reached) };
        Ok(KernelOutcome { runs: vec![run], verified, traffic: search.traffic(), column })
    }

    /// The labels as external ids, if they are written to a file. Collective.
    fn label_ids(&self, graph: &Graph, labels: &[u64]) -> Result<Vec<u64>> {
        if self.options.output.is_none() {
            return Ok(Vec::new());
        }
        components::external_labels(self.world, graph, labels, &self.am_config)
    }

    fn components(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let (world, config) = (self.world, &self.am_config);
        let (components, seconds) = self.measure(|| match self.options.method() {
            Some(Method::Hooking) => hooking::run(world, graph, config),
            Some(Method::Search) => search::run(world, graph, config),
            _ => sampling::run(world, graph, config),
        })?;
        let mut verified = Vec::new();
        self.verify(&mut verified, || components::verify(world, graph, &components.labels, config))?;
        let summary = components::summarize(world, graph, &components.labels)?;
        let result = json!({"components": summary.components, "largest": summary.largest});
        let labels = self.label_ids(graph, &components.labels)?;
        let column = Column { name: "component".to_owned(), values: Values::U64(labels) };
        let runs = vec![KernelRun { root: None, seconds, edges: 0, result }];
        Ok(KernelOutcome { runs, verified, traffic: components.traffic, column })
    }

    fn strong_components(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let (world, config) = (self.world, &self.am_config);
        let mut search = scc::SccSearch::new(world, graph, config)?;
        let (_, seconds) = self.measure(|| search.run())?;
        let mut verified = Vec::new();
        self.verify(&mut verified, || scc::verify(world, graph, search.labels(), config))?;
        let summary = components::summarize(world, graph, search.labels())?;
        let result = json!({"components": summary.components, "largest": summary.largest});
        let labels = self.label_ids(graph, search.labels())?;
        let column = Column { name: "component".to_owned(), values: Values::U64(labels) };
        let runs = vec![KernelRun { root: None, seconds, edges: 0, result }];
        Ok(KernelOutcome { runs, verified, traffic: search.traffic(), column })
    }

    /// Betweenness from all vertices, unless roots are given.
    fn betweenness<'g, M: PathMetric<'g>>(
        &self,
        graph: &Graph<M::Edge>,
        metric: impl Fn() -> Result<M>,
    ) -> anyhow::Result<KernelOutcome> {
        let (world, config) = (self.world, &self.am_config);
        let is_all = self.options.root.is_empty() && self.options.roots.is_none();
        let chosen = if is_all { Vec::new() } else { self.roots(graph)? };
        let all = if is_all { 0..graph.num_vertices() } else { 0..0 };
        let sources = all.chain(chosen);
        let mut search = Betweenness::new(world, metric()?, config)?;
        let ((), seconds) = self.measure(|| sources.clone().try_for_each(|source| search.run(source).map(|_| ())))?;
        check_result_memory(graph)?;
        let scores = search.scores();
        let mut verified = Vec::new();
        self.verify(&mut verified, || betweenness::verify(world, &mut metric()?, sources.clone(), &scores, config))?;
        let top = top_k(world, graph, &scores, 10)?;
        let top: Vec<Value> = top.into_iter().map(|(id, score)| json!([id, score])).collect();
        let result = json!({"sources": sources.count(), "top": top});
        let column = Column { name: "betweenness".to_owned(), values: Values::F64(scores) };
        let runs = vec![KernelRun { root: None, seconds, edges: 0, result }];
        Ok(KernelOutcome { runs, verified, traffic: search.traffic(), column })
    }

    fn pagerank(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let (world, config) = (self.world, &self.am_config);
        let options = self.options.pagerank_options();
        let (ranking, seconds, traffic) = if self.options.method() == Some(Method::Push) {
            let mut pagerank = PushPageRank::new(world, graph, config)?;
            let (ranking, seconds) = self.measure(|| pagerank.run(&options))?;
            (ranking, seconds, pagerank.traffic())
        } else {
            let mut pagerank = PullPageRank::new(world, graph)?;
            let (ranking, seconds) = self.measure(|| pagerank.run(&options))?;
            (ranking, seconds, AmTraffic::default())
        };
        let mut verified = Vec::new();
        self.verify(&mut verified, || pagerank::verify(world, graph, &ranking, &options))?;
        let top = top_k(world, graph, &ranking.scores, 10)?;
        let top: Vec<Value> = top.into_iter().map(|(id, score)| json!([id, score])).collect();
        let result = json!({"iterations": ranking.iterations, "top": top});
        let column = Column { name: "score".to_owned(), values: Values::F64(ranking.scores) };
        Ok(KernelOutcome { runs: vec![KernelRun { root: None, seconds, edges: 0, result }], verified, traffic, column })
    }
}
