//! Graph algorithms against plain serial ones, on many small graphs of every kind.
//!
//! Each rank generates the same graph from a seed, computes the expected result serially, and compares its local
//! vertices.

mod algorithms;
mod building;
mod deep;
mod files;
mod golden;
mod methods;
mod oracle;
mod properties;
mod split;
mod undirected;
mod wrong_results;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::Comm;
use treepie::am::Detector;
use treepie::graph::{
    AmConfig, BuildOptions, Distribution, Edge, EdgeSource, GhostPolicy, Orientation, WeightKind, block_range,
};

use crate::check::Failure;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("graphs/csr-with-every-build-option", 1, building::shapes),
    Case::new("graphs/sparse-vertex-ids", 1, building::sparse_ids),
    Case::new("graphs/bad-edges-are-refused", 1, building::refused),
    Case::new("graphs/saved-and-loaded-on-fewer-ranks", 1, files::saved),
    Case::new("graphs/partition-files", 1, files::partitioned),
    Case::new("graphs/methods", 1, methods::methods),
    Case::new("graphs/searches", 1, algorithms::searches),
    Case::new("graphs/shortest-paths", 1, algorithms::shortest_paths),
    Case::new("graphs/components", 1, algorithms::components),
    Case::new("graphs/pagerank", 1, algorithms::pagerank_scores),
    Case::new("graphs/strong-components", 1, deep::strong_components),
    Case::new("graphs/betweenness", 1, deep::betweenness_centrality),
    Case::new("graphs/core-numbers", 1, undirected::cores),
    Case::new("graphs/triangles", 1, undirected::triangles),
    Case::new("graphs/independent-sets", 1, undirected::independent_sets),
    Case::new("graphs/degrees", 1, undirected::degrees),
    Case::new("graphs/hubs", 1, split::same),
    Case::new("graphs/hubs-are-refused", 1, split::refused),
    Case::new("graphs/properties", 1, properties::read_and_updated),
    Case::new("graphs/graph500-reference-results", 1, golden::matches_reference),
    Case::new("graphs/verifiers-reject-wrong-results", 1, wrong_results::rejected),
];

/// A graph operation failed that must succeed.
impl From<treepie::graph::Error> for Failure {
    #[track_caller]
    fn from(error: treepie::graph::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Whether `TREEPIE_LONG` asks for runs that take minutes.
fn is_long_run() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some()
}

/// The seeds of a run: worlds of different sizes and engines have different ones.
fn seeds(comm: &Comm) -> impl Iterator<Item = u64> {
    let engine: u64 = comm.engine().bytes().map(u64::from).sum();
    let count = match comm.engine() {
        _ if is_long_run() => 300,
        "threads" if comm.size() < 6 => 60,
        _ if comm.size() < 6 => 24,
        _ => 6,
    };
    let first = 1000 * (16 * engine + comm.size() as u64);
    first..first + count
}

/// At most `limit` of these seeds, for slow cases; all of them in long runs.
fn fewer_seeds(comm: &Comm, limit: usize) -> impl Iterator<Item = u64> {
    seeds(comm).take(if is_long_run() { usize::MAX } else { limit })
}

/// A random edge list, the same on every rank.
struct RandomGraph {
    vertices: u64,
    edges: Vec<Edge>,
    /// Whether the source states the number of vertices before its edges are read.
    is_vertex_count_known: bool,
    orientation: Orientation,
}

impl EdgeSource for RandomGraph {
    fn num_vertices(&self) -> Option<u64> {
        self.is_vertex_count_known.then_some(self.vertices)
    }

    fn orientation(&self) -> Orientation {
        self.orientation
    }

    fn weights(&self) -> WeightKind {
        WeightKind::Integer
    }

    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> treepie::graph::Result<()> {
        let range = block_range(self.edges.len() as u64, part, parts);
        self.edges[range.start as usize..range.end as usize].chunks(7).for_each(sink);
        Ok(())
    }
}

impl RandomGraph {
    /// A graph with zero to hundreds of vertices and few or many edges, in several components, with loops and
    /// duplicates.
    fn new(seed: u64, orientation: Orientation) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = |bound: u64| random.next_u64() % bound.max(1);
        let vertices = match below(10) {
            0 => below(2),
            1 => 2 + below(3),
            2 => 150 + below(200),
            _ => 5 + below(60),
        };
        let num_edges = match below(4) {
            0 => vertices / 2,
            1 => vertices,
            2 => 2 * vertices,
            _ => 6 * vertices,
        };
        let (parts, is_path) = (1 + below(4), below(3) == 0);
        let mut edges: Vec<Edge> = Vec::new();
        for i in 0..if vertices == 0 { 0 } else { num_edges } {
            let from = if is_path { i % vertices } else { below(vertices) };
            let to = match below(12) {
                0 => from,
                1 if !edges.is_empty() => edges[below(edges.len() as u64) as usize].to,
                _ if is_path => (from + 1) % vertices,
                // In the same component.
                _ => (from % parts + parts * below(vertices)) % vertices,
            };
            edges.push(Edge { from, to, weight: (1 + below(20)) as f64 });
            if below(15) == 0 {
                edges.push(*edges.last().expect("there is one"));
            }
        }
        let is_vertex_count_known = !seed.is_multiple_of(3);
        if !is_vertex_count_known {
            // The vertices are then those of the edges; loops make the ids contiguous.
            let num_vertices = edges.iter().map(|edge| edge.from.max(edge.to) + 1).max().unwrap_or(0);
            edges.extend((0..num_vertices).map(|id| Edge::new(id, id)));
        }
        Self { vertices, edges, is_vertex_count_known, orientation }
    }

    /// Its arcs by vertex, as a build with these options makes them.
    fn arcs(&self, options: &BuildOptions) -> Vec<Vec<(u64, f64)>> {
        let add_reverse = match self.orientation {
            Orientation::Directed => options.symmetrize,
            Orientation::Undirected => !options.directed,
            Orientation::Symmetric => false,
        };
        let mut arcs = vec![Vec::new(); self.num_vertices() as usize];
        for edge in &self.edges {
            if edge.from == edge.to && options.drop_self_loops {
                continue;
            }
            arcs[edge.from as usize].push((edge.to, edge.weight));
            if add_reverse && edge.from != edge.to {
                arcs[edge.to as usize].push((edge.from, edge.weight));
            }
        }
        for row in &mut arcs {
            row.sort_by(|left, right| left.partial_cmp(right).expect("weights are numbers"));
            if options.dedupe {
                row.dedup_by_key(|arc| arc.0);
            }
        }
        arcs
    }

    /// The number of vertices: as stated, or the largest id of an edge plus one.
    fn num_vertices(&self) -> u64 {
        let from_edges = self.edges.iter().map(|edge| edge.from.max(edge.to) + 1).max().unwrap_or(0);
        if self.is_vertex_count_known { self.vertices } else { from_edges }
    }
}

/// Build options, by seed.
fn build_options(seed: u64) -> BuildOptions {
    BuildOptions {
        dedupe: seed % 2 == 1,
        drop_self_loops: seed % 5 < 2,
        distribution: [Distribution::Block, Distribution::Cyclic, Distribution::Hashed][(seed / 2 % 3) as usize],
        ghost_policy: [GhostPolicy::Replicated, GhostPolicy::Ghosts][(seed / 6 % 2) as usize],
        ..BuildOptions::default()
    }
}

/// A configuration of active messages, by seed.
fn am_config(seed: u64) -> AmConfig {
    let styles = ["style=am", "style=bsp"];
    let routes = ["routing=direct", "routing=rook", "routing=hypercube"];
    let reductions = ["reductions=off", "reductions=16", "reductions=adaptive"];
    let coalescing = ["coalescing=adaptive", "coalescing=1", "coalescing=7"];
    let pick = |of: &[&'static str], by: u64| of[(seed / by) as usize % of.len()];
    let text = [pick(&styles, 1), pick(&routes, 2), pick(&reductions, 6), pick(&coalescing, 18)].join(",");
    let config = Some(text.parse().expect("a configuration"));
    let detector = [Detector::Auto, Detector::FourCounter, Detector::Consensus][(seed / 4 % 3) as usize];
    AmConfig { config, detector }
}
