//! Runs an algorithm, once per root.

use std::cell::Cell;

use anyhow::ensure;
use serde_json::{Value, json};
use treepie::graph::betweenness::{self, Betweenness, HopMetric, PathMetric, WeightedMetric};
use treepie::graph::bfs::{BfsMethod, BfsOptions, BfsResult, BfsSearch, UNREACHED};
use treepie::graph::components::{ComponentLabels, ComponentMethod, ComponentOptions};
use treepie::graph::pagerank::{PageRankMethod, pull::PullPageRank, push::PushPageRank};
use treepie::graph::scc::SccSearch;
use treepie::graph::sssp::{DeltaStepping, SsspOptions, SsspResult};
use treepie::graph::{
    AmConfig, AmTraffic, BuildOptions, Column, EdgeWeight, Graph, PropertyMap, Result, Values, VertexId, Weight,
    WeightKind, reach,
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
    /// The results of the local vertices, if they are to be written.
    columns: Vec<Column>,
    /// What the result is not.
    notes: Vec<String>,
    /// Why the command fails although it has a result.
    failure: Option<String>,
}

impl KernelOutcome {
    fn new(runs: Vec<KernelRun>, verified: Vec<f64>, traffic: AmTraffic, columns: Vec<Column>) -> Self {
        Self { runs, verified, traffic, columns, notes: Vec::new(), failure: None }
    }
}

/// Builds the graph and runs the algorithm. Collective.
pub(super) fn run_kernel(options: &GraphCommand, world: &Comm, source: Source) -> anyhow::Result<Answer> {
    let (memory_before, peak_memory) = (machine::private_memory().unwrap_or(0), Cell::new(0));
    let task = KernelTask { options, world, am_config: options.am_config()?, source, memory_before, peak_memory };
    let weighted = options.kernel == Kernel::Sssp || options.kernel == Kernel::Bc && options.weighted;
    let in_edges = match options.kernel {
        Kernel::Bfs => options.method() == Some(Method::Bfs(BfsMethod::DirectionOptimizing)),
        Kernel::Pagerank | Kernel::Scc | Kernel::Bc | Kernel::Info => true,
        Kernel::Sssp | Kernel::Cc | Kernel::Reach | Kernel::Kcore | Kernel::Triangles | Kernel::Mis => false,
    };
    let mut notes = Vec::new();
    // Components of a directed graph are weakly connected ones, for example.
    let is_weak = options.kernel.is_undirected() && options.input.is_directed(&task.source);
    if is_weak {
        let kernel = options.kernel.name();
        ensure!(
            options.input.save.is_none(),
            "{kernel} adds the reverse of each edge: say --symmetrize to save that graph"
        );
        let what = if options.kernel == Kernel::Cc { "weakly connected components: " } else { "" };
        notes.push(format!("{what}edges connect in both directions"));
    }
    let ignores_weights = task.source.edges.weights() != WeightKind::None && !weighted;
    if task.source.is_file && ignores_weights && options.kernel != Kernel::Info {
        notes.push(format!("{} does not use the weights of the edges", options.kernel.name()));
    }
    let build = options.input.build_options(&task.source, in_edges, is_weak, options.graph500);
    let (outcome, facts, vertex_ids) = if !weighted {
        let (graph, facts) = options.input.build::<()>(world, &task.source, &build)?;
        let outcome = match options.kernel {
            Kernel::Bfs if graph.num_vertices() < u64::from(u32::MAX) => task.bfs::<u32>(&graph)?,
            Kernel::Bfs => task.bfs::<u64>(&graph)?,
            Kernel::Cc => task.components(&graph)?,
            Kernel::Pagerank => task.pagerank(&graph)?,
            Kernel::Scc => task.strong_components(&graph)?,
            Kernel::Bc => task.betweenness(&graph, || HopMetric::new(&graph, &task.am_config))?,
            Kernel::Kcore => task.cores(&graph)?,
            Kernel::Triangles => task.triangles(&graph)?,
            Kernel::Mis => task.independent_set(&graph)?,
            Kernel::Info => task.info(&graph)?,
            Kernel::Reach | Kernel::Sssp => task.reach(&graph)?,
        };
        (outcome, facts, vertex_ids(&graph)?)
    } else if task.source.edges.weights() == WeightKind::Integer {
        task.weighted::<u32>(&build)?
    } else {
        task.weighted::<f32>(&build)?
    };
    let method = options.method().map_or_else(String::new, |method| method.name().to_owned());
    let KernelOutcome { runs, verified, traffic, columns, notes: more, failure } = outcome;
    notes.extend(more);
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
        columns,
        notes,
        failure,
    })
}

fn vertex_ids<W: EdgeWeight>(graph: &Graph<W>) -> treepie::Result<Vec<u64>> {
    memory::collected(graph.local_vertices().map(|local| graph.external_id(local)), "the vertex ids")
}

/// The name of the column of a root's results.
fn column_name(name: &str, root: u64, roots: &[u64]) -> String {
    if roots.len() == 1 { name.to_owned() } else { format!("{name}_{root}") }
}

/// The highest scores. Collective.
fn top_scores<W: EdgeWeight>(scores: &PropertyMap<'_, f64, W>) -> Result<Vec<Value>> {
    Ok(scores.top_k(10)?.into_iter().map(|(id, score)| json!([id, score])).collect())
}

/// What memory is allocated for, in error messages.
const RESULTS: &str = "the result of each vertex";

/// Fails early if there is no memory for the results: isolated vertices may exist only as a count. The memory is freed
/// at once.
fn check_result_memory<W: EdgeWeight>(graph: &Graph<W>) -> treepie::Result<()> {
    memory::with_capacity::<[u64; 3]>(graph.num_local(), RESULTS).map(drop)
}

impl KernelTask<'_> {
    /// Builds a graph with weights and runs an algorithm that uses them. Collective.
    fn weighted<W: Weight>(
        &self,
        build: &(BuildOptions, String),
    ) -> anyhow::Result<(KernelOutcome, GraphFacts, Vec<u64>)> {
        let (graph, facts) = self.options.input.build::<W>(self.world, &self.source, build)?;
        let outcome = if self.options.kernel == Kernel::Bc {
            self.betweenness(&graph, || WeightedMetric::new(&graph, &self.sssp_options()))?
        } else {
            self.sssp(&graph)?
        };
        let vertex_ids = vertex_ids(&graph)?;
        Ok((outcome, facts, vertex_ids))
    }

    fn sssp_options(&self) -> SsspOptions {
        SsspOptions { delta: self.options.delta, config: self.am_config.clone() }
    }

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

    /// Whether the results of all vertices are written.
    fn is_written(&self) -> bool {
        self.options.output.is_some()
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
    fn roots<W: EdgeWeight>(&self, graph: &Graph<W>) -> anyhow::Result<Vec<u64>> {
        let count = self.options.roots.unwrap_or(if self.options.graph500 { GRAPH500_ROOTS } else { 1 });
        roots(graph, &self.source, &self.options.root, count)
    }

    /// The external id of a vertex. Collective.
    fn vertex_id<W: EdgeWeight>(&self, graph: &Graph<W>, vertex: u64) -> Result<u64> {
        let id = graph.local_index(vertex).map_or(0, |local| graph.external_id(local));
        Ok(self.world.allreduce_one(id, Max)?)
    }

    fn bfs<I: VertexId>(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let config = self.am_config.clone();
        let (mut runs, mut verified, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        let method = if let Some(Method::Bfs(method)) = self.options.method() { Some(method) } else { None };
        let mut search = BfsSearch::<(), I>::new(graph, &BfsOptions { method, config, ..BfsOptions::default() })?;
        let roots = self.roots(graph)?;
        for &root in &roots {
            let (labels, seconds) = self.measure(|| search.run(root))?;
            check_result_memory(graph)?;
            let result = BfsResult::new(graph, root, labels, &self.am_config)?;
            self.verify(&mut verified, || result.verify())?;
            let summary = result.summary()?;
            let id = self.vertex_id(graph, root)?;
            if self.is_written() {
                // Unreached vertices have level -1.
                let level = |level: &u32| if *level == UNREACHED { -1 } else { i64::from(*level) };
                let values = Values::I64(result.levels.local().iter().map(level).collect());
                columns.push(Column { name: column_name("level", id, &roots), values });
            }
            let result = json!({"reached": summary.reached, "level_sizes": summary.level_sizes});
            let edges = self.edges(graph, summary.num_arcs);
            runs.push(KernelRun { root: Some(id), seconds, edges, result });
        }
        Ok(KernelOutcome::new(runs, verified, search.traffic(), columns))
    }

    /// The number of edges for a number of arcs.
    fn edges<W: EdgeWeight>(&self, graph: &Graph<W>, arcs: u64) -> u64 {
        if graph.is_symmetric() { arcs / 2 } else { arcs }
    }

    fn sssp<W: Weight>(&self, graph: &Graph<W>) -> anyhow::Result<KernelOutcome> {
        let (mut runs, mut verified, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        let mut search = DeltaStepping::new(graph, &self.sssp_options())?;
        let roots = self.roots(graph)?;
        for &root in &roots {
            let (buckets, seconds) = self.measure(|| search.run(root))?;
            check_result_memory(graph)?;
            let found = SsspResult::new(root, search.distances()?, &self.am_config);
            self.verify(&mut verified, || found.verify())?;
            let summary = found.summary()?;
            let id = self.vertex_id(graph, root)?;
            if self.is_written() {
                let to_f64 = |distance: &W| if *distance < W::INFINITY { distance.as_f64() } else { f64::INFINITY };
                let values = Values::F64(found.distances.local().iter().map(to_f64).collect());
                columns.push(Column { name: column_name("distance", id, &roots), values });
            }
            let result = json!({
                "reached": summary.reached, "max": summary.max_distance, "sum": summary.sum_distances,
                "delta": search.delta(), "buckets": buckets,
            });
            let edges = self.edges(graph, summary.num_arcs);
            runs.push(KernelRun { root: Some(id), seconds, edges, result });
        }
        Ok(KernelOutcome::new(runs, verified, search.traffic(), columns))
    }

    fn reach(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let mut search = reach::Reachability::new(graph, &self.am_config)?;
        let roots = self.roots(graph)?;
        let (visited, seconds) = self.measure(|| Ok(search.run(&roots)?.clone()))?;
        let mut verified = Vec::new();
        self.verify(&mut verified, || reach::verify(graph, &roots, &visited, &self.am_config))?;
        let (reached, arcs) = reach::count_reached(graph, &visited)?;
        let root = roots.first().map(|root| self.vertex_id(graph, *root)).transpose()?;
        let run = KernelRun { root, seconds, edges: self.edges(graph, arcs), result: json!({"reached": reached}) };
        check_result_memory(graph)?;
        let reached = graph.local_vertices().map(|local| u32::from(visited.contains(local))).collect();
        let column = Column { name: "reached".to_owned(), values: Values::U32(reached) };
        Ok(KernelOutcome::new(vec![run], verified, search.traffic(), vec![column]))
    }

    fn components(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let method = if let Some(Method::Components(method)) = self.options.method() {
            method
        } else {
            ComponentMethod::default()
        };
        let options = ComponentOptions { method, config: self.am_config.clone() };
        let (components, seconds) = self.measure(|| graph.components_with(&options))?;
        self.component_outcome(&components, seconds)
    }

    fn strong_components(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let mut search = SccSearch::new(graph, &self.am_config)?;
        let (_, seconds) = self.measure(|| search.run())?;
        self.component_outcome(&search.into_components()?, seconds)
    }

    fn component_outcome(&self, components: &ComponentLabels<'_>, seconds: f64) -> anyhow::Result<KernelOutcome> {
        let mut verified = Vec::new();
        self.verify(&mut verified, || components.verify())?;
        let summary = components.summary()?;
        let result = json!({"components": summary.components, "largest": summary.largest});
        // External ids, if they are written to a file.
        let labels = if self.is_written() { components.external_labels()?.into_local() } else { Vec::new() };
        let column = Column { name: "component".to_owned(), values: Values::U64(labels) };
        let runs = vec![KernelRun { root: None, seconds, edges: 0, result }];
        Ok(KernelOutcome::new(runs, verified, components.traffic, vec![column]))
    }

    /// The outcome of an algorithm without roots and messages.
    fn plain_outcome(
        &self,
        seconds: f64,
        result: Value,
        name: &str,
        values: Values,
        verify: impl FnOnce() -> Result<()>,
    ) -> anyhow::Result<KernelOutcome> {
        let mut verified = Vec::new();
        self.verify(&mut verified, verify)?;
        let runs = vec![KernelRun { root: None, seconds, edges: 0, result }];
        let column = Column { name: name.to_owned(), values };
        Ok(KernelOutcome::new(runs, verified, AmTraffic::default(), vec![column]))
    }

    fn cores(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let (found, seconds) = self.measure(|| graph.cores())?;
        let summary = found.summary()?;
        let result =
            json!({"largest_core": summary.largest, "vertices_in_it": summary.vertices, "rounds": found.rounds});
        let values = Values::U32(memory::collected(found.cores.local().iter().copied(), RESULTS)?);
        self.plain_outcome(seconds, result, "core", values, || found.verify())
    }

    fn triangles(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let (found, seconds) = self.measure(|| graph.triangles())?;
        let summary = found.summary()?;
        let result = json!({
            "triangles": summary.triangles, "transitivity": summary.transitivity,
            "average_clustering": summary.average_clustering,
        });
        let clustering = Values::F64(found.clustering()?.into_local());
        let counts = Values::U64(memory::collected(found.counts.local().iter().copied(), RESULTS)?);
        let mut outcome = self.plain_outcome(seconds, result, "triangles", counts, || found.verify())?;
        outcome.columns.push(Column { name: "clustering".to_owned(), values: clustering });
        Ok(outcome)
    }

    fn independent_set(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let (found, seconds) = self.measure(|| graph.independent_set())?;
        let result = json!({"vertices_in_set": found.size()?, "rounds": found.rounds});
        let members = found.members.local().iter().map(|member| u32::from(*member));
        let values = Values::U32(memory::collected(members, RESULTS)?);
        self.plain_outcome(seconds, result, "member", values, || found.verify())
    }

    fn info(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let (found, seconds) = self.measure(|| graph.degree_statistics())?;
        let mut result = json!({
            "min_degree": found.min, "median_degree": found.median, "mean_degree": found.mean,
            "max_degree": found.max, "isolated_vertices": found.isolated, "self_loops": found.self_loops,
            "parallel_arcs": found.parallel_arcs, "vertices_by_log2_degree": found.histogram,
        });
        if let Some(max_in) = found.max_in.filter(|_| !graph.is_symmetric()) {
            result["max_in_degree"] = json!(max_in);
        }
        let degrees = graph.local_vertices().map(|vertex| graph.degree(vertex));
        let degrees = Values::U64(memory::collected(degrees, RESULTS)?);
        // Nothing is left to verify in what is only counted.
        self.plain_outcome(seconds, result, "degree", degrees, || Ok(()))
    }

    /// Betweenness from all vertices, unless roots are given.
    fn betweenness<'g, M: PathMetric<'g>>(
        &self,
        graph: &Graph<M::Weight>,
        metric: impl Fn() -> Result<M>,
    ) -> anyhow::Result<KernelOutcome> {
        let config = &self.am_config;
        let is_all = self.options.root.is_empty() && self.options.roots.is_none();
        let chosen = if is_all { Vec::new() } else { self.roots(graph)? };
        let all = if is_all { 0..graph.num_vertices() } else { 0..0 };
        let sources = all.chain(chosen);
        let mut search = Betweenness::new(metric()?, config)?;
        let ((), seconds) = self.measure(|| sources.clone().try_for_each(|source| search.run(source).map(|_| ())))?;
        check_result_memory(graph)?;
        let scores = search.scores()?;
        let mut verified = Vec::new();
        self.verify(&mut verified, || betweenness::verify(&mut metric()?, sources.clone(), &scores, config))?;
        let result = json!({"sources": sources.count(), "top": top_scores(&scores)?});
        let column = Column { name: "betweenness".to_owned(), values: Values::F64(scores.into_local()) };
        let runs = vec![KernelRun { root: None, seconds, edges: 0, result }];
        Ok(KernelOutcome::new(runs, verified, search.traffic(), vec![column]))
    }

    fn pagerank(&self, graph: &Graph) -> anyhow::Result<KernelOutcome> {
        let options = self.options.pagerank_options();
        let (ranking, seconds, traffic) = if self.options.method() == Some(Method::PageRank(PageRankMethod::Push)) {
            let mut pagerank = PushPageRank::new(graph, &self.am_config)?;
            let (ranking, seconds) = self.measure(|| pagerank.run(&options))?;
            (ranking, seconds, pagerank.traffic())
        } else {
            let mut pagerank = PullPageRank::new(graph)?;
            let (ranking, seconds) = self.measure(|| pagerank.run(&options))?;
            (ranking, seconds, AmTraffic::default())
        };
        let mut verified = Vec::new();
        self.verify(&mut verified, || ranking.verify())?;
        let (has_converged, residual) = (ranking.has_converged(), ranking.residual);
        let result = json!({"iterations": ranking.iterations, "top": top_scores(&ranking.scores)?});
        let column = Column { name: "score".to_owned(), values: Values::F64(ranking.scores.into_local()) };
        let runs = vec![KernelRun { root: None, seconds, edges: 0, result }];
        let mut outcome = KernelOutcome::new(runs, verified, traffic, vec![column]);
        if !has_converged {
            let (iterations, tolerance) = (options.max_iterations, options.tolerance);
            let why = format!(
                "pagerank has not converged: iteration {iterations} changed the scores by {residual:e}, more than the \
                 tolerance of {tolerance:e}"
            );
            // As many iterations as were asked for are what was asked for.
            match self.options.iterations {
                Some(_) => outcome.notes.push(why),
                None => outcome.failure = Some(why),
            }
        }
        Ok(outcome)
    }
}
