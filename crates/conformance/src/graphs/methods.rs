//! The methods of a graph give the results of plain serial algorithms, by local index and by vertex id on every rank.

use std::fmt::Debug;

use treepie::Comm;
use treepie::graph::bfs::UNREACHED;
use treepie::graph::{BuildOptions, EdgeWeight, Graph, Orientation, PropertyMap};
use treepie::prelude::Pod;

use super::{RandomGraph, build_options, fewer_seeds, oracle};
use crate::check::{Failure, Outcome, check, check_eq};

/// Vertices of the largest graph: the serial oracles are slow.
const MAX_VERTICES: usize = 70;

/// A random graph whose vertex ids are those of its arcs, or with gaps: `3 * id + 5`.
struct Input {
    graph: RandomGraph,
    options: BuildOptions,
    arcs: Vec<Vec<(u64, f64)>>,
    has_gaps: bool,
}

impl Input {
    fn new(seed: u64) -> Self {
        let orientation = [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize];
        let mut graph = RandomGraph::new(seed, orientation);
        let options = build_options(seed);
        let arcs = graph.arcs(&options);
        let has_gaps = !graph.is_vertex_count_known && seed % 2 == 1;
        if has_gaps {
            graph.edges.iter_mut().for_each(|edge| (edge.from, edge.to) = (3 * edge.from + 5, 3 * edge.to + 5));
        }
        Self { graph, options, arcs, has_gaps }
    }

    fn vertex_id(&self, vertex: usize) -> u64 {
        if self.has_gaps { 3 * vertex as u64 + 5 } else { vertex as u64 }
    }

    fn vertex(&self, id: u64) -> usize {
        if self.has_gaps { (id as usize - 5) / 3 } else { id as usize }
    }

    /// Compares values with those of all vertices. All ranks call it.
    fn check_map<T: Pod + Debug, W: EdgeWeight>(
        &self,
        map: &PropertyMap<'_, T, W>,
        expected: &[T],
        what: &str,
        is_same: impl Fn(T, T) -> bool,
    ) -> Outcome {
        let graph = map.graph();
        let check = |id: u64, found: T| -> Outcome {
            let expected = expected[self.vertex(id)];
            check!(is_same(found, expected), "{what} of {id} is {found:?}, not {expected:?}");
            Ok(())
        };
        check_eq!(map.local().len(), graph.num_local(), "values");
        graph.local_vertices().try_for_each(|local| check(graph.external_id(local), map[local]))?;
        map.iter().try_for_each(|(id, value)| check(id, *value))?;
        for vertex in (0..self.arcs.len()).step_by(1 + self.arcs.len() / 8) {
            check(self.vertex_id(vertex), map.get(self.vertex_id(vertex))?)?;
        }
        check!(map.get(self.vertex_id(self.arcs.len())).is_err(), "{what} of a vertex that does not exist");
        Ok(())
    }
}

pub(super) fn methods(comm: &Comm) -> Outcome {
    for (seed, input) in fewer_seeds(comm, 24).map(|seed| (seed, Input::new(seed))) {
        if input.arcs.len() < MAX_VERTICES {
            check_methods(comm, &input).map_err(|failure: Failure| failure.context(format!("seed {seed}")))?;
        }
    }
    Ok(())
}

fn check_methods(comm: &Comm, input: &Input) -> Outcome {
    let graph = Graph::build_with(comm, &input.graph, &input.options)?;
    let weighted = Graph::<u32>::build_weighted_with(comm, &input.graph, &input.options)?;
    let arcs = &input.arcs;
    check_eq!((graph.comm().rank(), graph.comm().size()), (comm.rank(), comm.size()), "the communicator");
    check_eq!(graph.num_vertices(), arcs.len() as u64, "vertices");
    check_neighbors(input, &weighted)?;
    if arcs.is_empty() {
        check!(graph.bfs(0).is_err() && weighted.sssp(0).is_err(), "a root of an empty graph");
        return Ok(());
    }
    let root = arcs.len() as u64 / 2;
    let root_id = input.vertex_id(root as usize);

    let levels = oracle::levels(arcs, &[root]);
    let bfs = graph.bfs(root_id)?;
    let expected: Vec<u32> = levels.iter().map(|level| level.unwrap_or(UNREACHED)).collect();
    input.check_map(&bfs.levels, &expected, "the level", |left, right| left == right)?;
    check_eq!(bfs.level_sizes()?.iter().sum::<u64>(), levels.iter().flatten().count() as u64, "reached vertices");
    bfs.verify()?;

    let expected: Vec<u8> = levels.iter().map(|level| u8::from(level.is_some())).collect();
    let reach = graph.reach([root_id])?;
    input.check_map(&reach.reached, &expected, "whether it is reached", |left, right| left == right)?;
    check_eq!(reach.summary()?.reached, levels.iter().flatten().count() as u64, "reached vertices");
    reach.verify()?;

    let expected = oracle::distances(arcs, root, |distance, weight| distance + weight);
    let expected: Vec<u32> = expected.iter().map(|distance| *distance as u32).collect();
    let sssp = weighted.sssp(root_id)?;
    input.check_map(&sssp.distances, &expected, "the distance", |left, right| left == right)?;

    let pagerank = graph.pagerank()?;
    let expected = oracle::pagerank(arcs, 0.85, pagerank.iterations);
    input.check_map(&pagerank.scores, &expected, "the score", |left, right| (left - right).abs() <= 1e-5 * right)?;

    // The least ids of components, whatever the distribution of vertices.
    let to_id = |vertex: &u64| input.vertex_id(*vertex as usize);
    let count = |labels: &[u64]| (0..).zip(labels).filter(|(vertex, label): &(u64, &u64)| vertex == *label).count();
    let labels = oracle::strong_components(arcs, |vertex| vertex);
    let scc = graph.scc()?;
    let expected: Vec<u64> = labels.iter().map(to_id).collect();
    let found = scc.external_labels()?;
    input.check_map(&found, &expected, "the strong component", |left, right| left == right)?;
    check_eq!(scc.summary()?.components, count(&labels) as u64, "strong components");
    if graph.is_symmetric() {
        let labels = oracle::components(arcs);
        let components = graph.components()?;
        let expected: Vec<u64> = labels.iter().map(to_id).collect();
        let found = components.external_labels()?;
        input.check_map(&found, &expected, "the component", |left, right| left == right)?;
        check_eq!(components.summary()?.components, count(&labels) as u64, "components");
    } else {
        check!(graph.components().is_err(), "components of a directed graph");
    }
    check_betweenness(input, &graph, &weighted)
}

fn check_betweenness(input: &Input, graph: &Graph, weighted: &Graph<u32>) -> Outcome {
    let sources = [0, input.arcs.len() as u64 - 1];
    let ids: Vec<u64> = sources.iter().map(|source| input.vertex_id(*source as usize)).collect();
    let divisor = if graph.is_symmetric() { 2.0 } else { 1.0 };
    let scores = |arcs: &oracle::Arcs| -> Vec<f64> {
        oracle::betweenness(arcs, &sources).into_iter().map(|score| score / divisor).collect()
    };
    let is_near = |left: f64, right: f64| (left - right).abs() <= 1e-9 * right.max(1.0);
    let mut hops = input.arcs.clone();
    hops.iter_mut().flatten().for_each(|(_, weight)| *weight = 1.0);
    input.check_map(&graph.betweenness(&ids)?, &scores(&hops), "betweenness", is_near)?;
    let found = weighted.weighted_betweenness(ids)?;
    input.check_map(&found, &scores(&input.arcs), "weighted betweenness", is_near)
}

/// The neighbors of each local vertex are the targets of its arcs, with their weights and owners.
fn check_neighbors(input: &Input, graph: &Graph<u32>) -> Outcome {
    let ids = graph.with_ghosts(graph.local_vertices().map(|local| graph.external_id(local)))?;
    let places = graph.with_ghosts(graph.local_vertices().map(|local| [graph.comm().rank(), local]))?;
    check_eq!(graph.local_vertices().len(), graph.num_local(), "local vertices");
    for local in graph.local_vertices() {
        let id = graph.external_id(local);
        let mut found = Vec::new();
        for neighbor in graph.neighbors(local) {
            let (rank, local_index) = neighbor.owner();
            check_eq!([rank, local_index as usize], places[neighbor.index()], "an owner of a neighbor of {id}");
            found.push((ids[neighbor.index()], f64::from(neighbor.weight())));
        }
        let arcs = &input.arcs[input.vertex(id)];
        let mut expected: Vec<_> = arcs.iter().map(|(to, weight)| (input.vertex_id(*to as usize), *weight)).collect();
        found.sort_by(|left, right| left.partial_cmp(right).expect("weights are numbers"));
        expected.sort_by(|left, right| left.partial_cmp(right).expect("weights are numbers"));
        check_eq!(found, expected, "the neighbors of {id}");
        check_eq!(graph.degree(local), expected.len() as u64, "the degree of {id}");
    }
    Ok(())
}
