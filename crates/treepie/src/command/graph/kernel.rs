//! Runs an algorithm, as often as it was asked for.

use std::cell::Cell;

use serde_json::{Value, json};
use treepie::graph::betweenness::{self, Betweenness, Hops, Lengths, Measure};
use treepie::graph::bfs::{self, Label};
use treepie::graph::components::{self, hooking, sampling, search};
use treepie::graph::pagerank::{self, pull::Pulling, push::Pushing};
use treepie::graph::{
    Arc, Column, Graph, Id, Messages, Result, Traffic, Values, Weight, Weighted, Weights, reach, scc, sssp, top,
};
use treepie::{Comm, Max};
use treepie_base::memory;

use super::super::machine;
use super::answer::{Answer, Run};
use super::input::{Facts, Source};
use super::roots::roots;
use super::{Graph as Asked, KEYS, Kernel, Method};

/// What an algorithm is run with.
struct Task<'a> {
    asked: &'a Asked,
    world: &'a Comm,
    messages: Messages,
    source: Source,
    /// Bytes that this process had before there was a graph, and the most that runs had.
    before: u64,
    during: Cell<u64>,
}

/// Runs and what they left.
struct Done {
    runs: Vec<Run>,
    verified: Vec<f64>,
    traffic: Traffic,
    column: Column,
}

/// Builds the graph and runs the algorithm. All ranks call it.
pub(super) fn answer(asked: &Asked, world: &Comm, source: Source) -> anyhow::Result<Answer> {
    let (before, during) = (machine::own_memory().unwrap_or(0), Cell::new(0));
    let task = Task { asked, world, messages: asked.messages()?, source, before, during };
    let weighted = asked.kernel == Kernel::Sssp || asked.kernel == Kernel::Bc && asked.weighted;
    let backwards = match asked.kernel {
        Kernel::Bfs => asked.method() == Some(Method::Direction),
        Kernel::Pagerank | Kernel::Scc | Kernel::Bc => true,
        Kernel::Sssp | Kernel::Cc | Kernel::Reach => false,
    };
    let shape = asked.input.shape(&task.source, backwards, asked.graph500);
    // What the graph would be refused for is known before there is one.
    if asked.kernel == Kernel::Cc && !shape.0.makes_symmetric(task.source.edges.orientation()) {
        return Err(components::directed().into());
    }
    let (done, facts, names) = if weighted {
        let (graph, facts) = asked.input.build::<Weighted>(world, &task.source, &shape)?;
        let is_whole = task.source.edges.weights() == Weights::Whole;
        let done = match (asked.kernel, is_whole) {
            (Kernel::Bc, true) => {
                task.betweenness(&graph, || Lengths::<u32>::new(world, &graph, asked.delta, &task.messages))?
            }
            (Kernel::Bc, false) => {
                task.betweenness(&graph, || Lengths::<f32>::new(world, &graph, asked.delta, &task.messages))?
            }
            (_, true) => task.sssp::<u32>(&graph)?,
            (_, false) => task.sssp::<f32>(&graph)?,
        };
        (done, facts, names(&graph)?)
    } else {
        let (graph, facts): (_, Facts) = asked.input.build::<u32>(world, &task.source, &shape)?;
        let done = match asked.kernel {
            Kernel::Bfs if graph.vertices() < u64::from(u32::MAX) => task.bfs::<u32>(&graph)?,
            Kernel::Bfs => task.bfs::<u64>(&graph)?,
            Kernel::Cc => task.components(&graph)?,
            Kernel::Pagerank => task.pagerank(&graph)?,
            Kernel::Scc => task.strong(&graph)?,
            Kernel::Bc => task.betweenness(&graph, || Hops::new(world, &graph, &task.messages))?,
            Kernel::Reach | Kernel::Sssp => task.reach(&graph)?,
        };
        (done, facts, names(&graph)?)
    };
    let method = asked.method().map_or_else(String::new, |method| format!("{method:?}").to_lowercase());
    let Done { runs, verified, traffic, column } = done;
    let traffic = traffic.of_all(world)?;
    let during = world.all_reduce(&[task.during.get()], Max)?[0];
    Ok(Answer {
        during,
        kernel: asked.kernel.name(),
        method,
        ranks: world.size(),
        facts,
        runs,
        verified,
        traffic,
        names,
        column,
    })
}

fn names<A: Arc>(graph: &Graph<A>) -> treepie::Result<Vec<u64>> {
    memory::collected((0..graph.own()).map(|place| graph.layout().name(place)), "the names of vertices")
}

/// Whether there is memory for the results of vertices that may be there only by their number. It is given back at once.
fn ensure_room<A: Arc>(graph: &Graph<A>) -> treepie::Result<()> {
    memory::with_capacity::<[u64; 3]>(graph.own(), "the result of each vertex").map(drop)
}

/// A breadth-first search, in one way or another.
enum Bfs<'g, I: Id> {
    Direction(bfs::direction::Search<'g, u32, I>),
    Messages(bfs::messages::Search<'g, u32, I>),
    Exchange(bfs::exchange::Search<'g, u32, I>),
}

impl<I: Id> Bfs<'_, I> {
    fn run(&mut self, root: u64) -> Result<&[Label<I>]> {
        match self {
            Self::Direction(search) => search.run(root),
            Self::Messages(search) => search.run(root),
            Self::Exchange(search) => search.run(root),
        }
    }

    fn traffic(&self) -> Traffic {
        match self {
            Self::Direction(search) => search.traffic(),
            Self::Messages(search) => search.traffic(),
            Self::Exchange(_) => Traffic::default(),
        }
    }
}

impl Task<'_> {
    /// The time that the slowest rank took.
    fn time<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
        self.world.barrier()?;
        let begun = self.world.now();
        let done = run()?;
        let seconds = (self.world.now() - begun).as_secs_f64();
        Ok((done, self.world.all_reduce(&[seconds], Max)?[0]))
    }

    /// The same for what the answer is about, whose memory is of interest, too.
    fn measure<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
        let (timed, most) = machine::memory_during(|| self.time(run));
        self.during.set(self.during.get().max(most.unwrap_or(0).saturating_sub(self.before)));
        timed
    }

    fn is_verified(&self) -> bool {
        self.asked.verify || self.asked.graph500
    }

    fn verify(&self, verified: &mut Vec<f64>, verify: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_verified() {
            verified.push(self.time(verify)?.1);
        }
        Ok(())
    }

    /// Where searches begin, by number.
    fn roots<A: Arc>(&self, graph: &Graph<A>) -> anyhow::Result<Vec<u64>> {
        let count = self.asked.roots.unwrap_or(if self.asked.graph500 { KEYS } else { 1 });
        roots(self.world, graph, &self.source, &self.asked.root, count)
    }

    /// The name of a vertex, by number. All ranks call it.
    fn name<A: Arc>(&self, graph: &Graph<A>, number: u64) -> Result<u64> {
        let own = graph.mine(number).map_or(0, |place| graph.layout().name(place));
        Ok(self.world.all_reduce(&[own], Max)?[0])
    }

    fn bfs<I: Id>(&self, graph: &Graph) -> anyhow::Result<Done> {
        let (world, messages) = (self.world, &self.messages);
        let (mut runs, mut verified, mut levels) = (Vec::new(), Vec::new(), Vec::new());
        let mut search: Bfs<I> = match self.asked.method() {
            Some(Method::Messages) => Bfs::Messages(bfs::messages::Search::new(world, graph, messages)?),
            Some(Method::Exchange) => Bfs::Exchange(bfs::exchange::Search::new(world, graph)),
            _ => Bfs::Direction(bfs::direction::Search::new(world, graph, messages)?),
        };
        for root in self.roots(graph)? {
            let (labels, seconds) = self.measure(|| search.run(root))?;
            ensure_room(graph)?;
            self.verify(&mut verified, || bfs::verify(world, graph, root, labels, messages))?;
            let found = bfs::count(world, graph, labels)?;
            levels = labels.iter().map(|label| label.level).collect();
            let result = json!({"reached": found.reached, "level_sizes": found.level_sizes});
            let edges = self.edges(graph, found.arcs);
            runs.push(Run { root: Some(self.name(graph, root)?), seconds, edges, result });
        }
        // Those that are not reached have no level.
        let levels = levels.into_iter().map(|level| if level == bfs::UNREACHED { -1 } else { i64::from(level) });
        let column = Column { name: "level".to_owned(), values: Values::I64(levels.collect()) };
        Ok(Done { runs, verified, traffic: search.traffic(), column })
    }

    /// Edges that arcs stand for.
    fn edges<A: Arc>(&self, graph: &Graph<A>, arcs: u64) -> u64 {
        if graph.is_symmetric() { arcs / 2 } else { arcs }
    }

    fn sssp<W: Weight>(&self, graph: &Graph<Weighted>) -> anyhow::Result<Done> {
        let (world, messages) = (self.world, &self.messages);
        let (mut runs, mut verified, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        let mut search = sssp::Search::<W>::new(world, graph, self.asked.delta, messages)?;
        for root in self.roots(graph)? {
            let (buckets, seconds) = self.measure(|| search.run(root))?;
            ensure_room(graph)?;
            lengths = search.lengths();
            self.verify(&mut verified, || sssp::verify(world, graph, root, &lengths, messages))?;
            let found = sssp::count(world, graph, &lengths)?;
            let result = json!({
                "reached": found.reached, "max": found.max, "sum": found.sum, "delta": search.delta(), "buckets": buckets,
            });
            let edges = self.edges(graph, found.arcs);
            runs.push(Run { root: Some(self.name(graph, root)?), seconds, edges, result });
        }
        let length = |length: &W| if *length < W::FAR { length.as_f64() } else { f64::INFINITY };
        let column = Column { name: "distance".to_owned(), values: Values::F64(lengths.iter().map(length).collect()) };
        Ok(Done { runs, verified, traffic: search.traffic(), column })
    }

    fn reach(&self, graph: &Graph) -> anyhow::Result<Done> {
        let (world, messages) = (self.world, &self.messages);
        let mut search = reach::Search::new(world, graph, messages)?;
        let roots = self.roots(graph)?;
        let (visited, seconds) = self.measure(|| Ok(search.run(&roots)?.clone()))?;
        let mut verified = Vec::new();
        self.verify(&mut verified, || reach::verify(world, graph, &roots, &visited, messages))?;
        let (reached, arcs) = reach::count(world, graph, &visited)?;
        let root = roots.first().map(|root| self.name(graph, *root)).transpose()?;
        let run = Run { root, seconds, edges: self.edges(graph, arcs), result: json!({"reached": reached}) };
        ensure_room(graph)?;
        let reached = (0..graph.own()).map(|place| u32::from(visited.has(place))).collect();
        let column = Column { name: "reached".to_owned(), values: Values::U32(reached) };
        Ok(Done { runs: vec![run], verified, traffic: search.traffic(), column })
    }

    /// The names of labels, if somebody wants to know them. All ranks call it.
    fn names(&self, graph: &Graph, labels: &[u64]) -> Result<Vec<u64>> {
        if self.asked.output.is_none() {
            return Ok(Vec::new());
        }
        components::names(self.world, graph, labels, &self.messages)
    }

    fn components(&self, graph: &Graph) -> anyhow::Result<Done> {
        let (world, messages) = (self.world, &self.messages);
        let (found, seconds) = self.measure(|| match self.asked.method() {
            Some(Method::Hooking) => hooking::run(world, graph, messages),
            Some(Method::Search) => search::run(world, graph, messages),
            _ => sampling::run(world, graph, messages),
        })?;
        let mut verified = Vec::new();
        self.verify(&mut verified, || components::verify(world, graph, &found.labels, messages))?;
        let counts = components::count(world, graph, &found.labels)?;
        let result = json!({"components": counts.components, "largest": counts.largest});
        let labels = self.names(graph, &found.labels)?;
        let column = Column { name: "component".to_owned(), values: Values::U64(labels) };
        let runs = vec![Run { root: None, seconds, edges: 0, result }];
        Ok(Done { runs, verified, traffic: found.traffic, column })
    }

    fn strong(&self, graph: &Graph) -> anyhow::Result<Done> {
        let (world, messages) = (self.world, &self.messages);
        let mut search = scc::Search::new(world, graph, messages)?;
        let (_, seconds) = self.measure(|| search.run())?;
        let mut verified = Vec::new();
        self.verify(&mut verified, || scc::verify(world, graph, search.labels(), messages))?;
        let counts = components::count(world, graph, search.labels())?;
        let result = json!({"components": counts.components, "largest": counts.largest});
        let labels = self.names(graph, search.labels())?;
        let column = Column { name: "component".to_owned(), values: Values::U64(labels) };
        let runs = vec![Run { root: None, seconds, edges: 0, result }];
        Ok(Done { runs, verified, traffic: search.traffic(), column })
    }

    /// From all vertices, unless some were asked for.
    fn betweenness<'g, M: Measure<'g>>(
        &self,
        graph: &Graph<M::Arc>,
        measure: impl Fn() -> Result<M>,
    ) -> anyhow::Result<Done> {
        let (world, messages) = (self.world, &self.messages);
        let is_all = self.asked.root.is_empty() && self.asked.roots.is_none();
        let chosen = if is_all { Vec::new() } else { self.roots(graph)? };
        let all = if is_all { 0..graph.vertices() } else { 0..0 };
        let sources = all.chain(chosen);
        let mut search = Betweenness::new(world, measure()?, messages)?;
        let ((), seconds) = self.measure(|| sources.clone().try_for_each(|source| search.run(source).map(|_| ())))?;
        ensure_room(graph)?;
        let scores = search.scores();
        let mut verified = Vec::new();
        self.verify(&mut verified, || betweenness::verify(world, &mut measure()?, sources.clone(), &scores, messages))?;
        let top = top(world, graph, &scores, 10)?;
        let top: Vec<Value> = top.into_iter().map(|(name, score)| json!([name, score])).collect();
        let result = json!({"sources": sources.count(), "top": top});
        let column = Column { name: "betweenness".to_owned(), values: Values::F64(scores) };
        let runs = vec![Run { root: None, seconds, edges: 0, result }];
        Ok(Done { runs, verified, traffic: search.traffic(), column })
    }

    fn pagerank(&self, graph: &Graph) -> anyhow::Result<Done> {
        let (world, messages) = (self.world, &self.messages);
        let limits = self.asked.limits();
        let (ranking, seconds, traffic) = if self.asked.method() == Some(Method::Push) {
            let mut pushing = Pushing::new(world, graph, messages)?;
            let (ranking, seconds) = self.measure(|| pushing.run(&limits))?;
            (ranking, seconds, pushing.traffic())
        } else {
            let mut pulling = Pulling::new(world, graph)?;
            let (ranking, seconds) = self.measure(|| pulling.run(&limits))?;
            (ranking, seconds, Traffic::default())
        };
        let mut verified = Vec::new();
        self.verify(&mut verified, || pagerank::verify(world, graph, &ranking, &limits))?;
        let top = top(world, graph, &ranking.scores, 10)?;
        let top: Vec<Value> = top.into_iter().map(|(name, score)| json!([name, score])).collect();
        let result = json!({"iterations": ranking.iterations, "top": top});
        let column = Column { name: "score".to_owned(), values: Values::F64(ranking.scores) };
        Ok(Done { runs: vec![Run { root: None, seconds, edges: 0, result }], verified, traffic, column })
    }
}
