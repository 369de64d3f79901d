//! Graph algorithms against plain serial ones, on many small graphs of every kind.
//!
//! Each rank draws the same graph from a seed, computes what is right by itself, and compares that of its own vertices.

mod algorithms;
mod building;
mod deep;
mod files;
mod golden;
mod oracle;
mod planted;
mod properties;
mod split;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::Comm;
use treepie::am::Detector;
use treepie::graph::{Distribution, Edge, Edges, Messages, Orientation, Seeing, Shape, Weights, share};

use crate::check::Failure;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("graphs/rows-of-every-shape", 1, building::shapes),
    Case::new("graphs/names-far-apart", 1, building::far_apart),
    Case::new("graphs/bad-edges-are-refused", 1, building::refused),
    Case::new("graphs/saved-and-read-by-others", 1, files::saved),
    Case::new("graphs/spread-as-a-file-says", 1, files::partitioned),
    Case::new("graphs/searches", 1, algorithms::searches),
    Case::new("graphs/shortest-ways", 1, algorithms::ways),
    Case::new("graphs/components", 1, algorithms::components),
    Case::new("graphs/pagerank", 1, algorithms::ranking),
    Case::new("graphs/strong-components", 1, deep::strong),
    Case::new("graphs/betweenness", 1, deep::between),
    Case::new("graphs/split-vertices", 1, split::same),
    Case::new("graphs/split-vertices-are-refused", 1, split::refused),
    Case::new("graphs/properties", 1, properties::read_and_changed),
    Case::new("graphs/what-the-reference-finds", 1, golden::found),
    Case::new("graphs/wrong-results-are-found", 1, planted::wrong),
];

/// An operation on a graph that must succeed did not.
impl From<treepie::graph::Error> for Failure {
    #[track_caller]
    fn from(error: treepie::graph::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Whether runs that take minutes are wanted.
fn is_long() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some()
}

/// The seeds of a run: worlds of different sizes and engines have different ones.
fn seeds(comm: &Comm) -> impl Iterator<Item = u64> {
    let engine: u64 = comm.engine().bytes().map(u64::from).sum();
    let count = match comm.engine() {
        _ if is_long() => 300,
        "threads" if comm.size() < 6 => 60,
        _ if comm.size() < 6 => 24,
        _ => 6,
    };
    let first = 1000 * (16 * engine + comm.size() as u64);
    first..first + count
}

/// The same where each takes long: so many of them, unless there is time.
fn fewer_seeds(comm: &Comm, most: usize) -> impl Iterator<Item = u64> {
    seeds(comm).take(if is_long() { usize::MAX } else { most })
}

/// Edges in a list, as every rank has it.
struct Drawn {
    vertices: u64,
    edges: Vec<Edge>,
    /// Known before edges are looked at.
    is_known: bool,
    orientation: Orientation,
}

impl Edges for Drawn {
    fn vertices(&self) -> Option<u64> {
        self.is_known.then_some(self.vertices)
    }

    fn orientation(&self) -> Orientation {
        self.orientation
    }

    fn weights(&self) -> Weights {
        Weights::Whole
    }

    fn part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> treepie::graph::Result<()> {
        let share = share(self.edges.len() as u64, part, parts);
        self.edges[share.start as usize..share.end as usize].chunks(7).for_each(sink);
        Ok(())
    }
}

impl Drawn {
    /// A graph of some seed: of no vertices, one, or some, with edges from none to many, in parts, with loops and repetitions.
    fn new(seed: u64, orientation: Orientation) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = |bound: u64| random.next_u64() % bound.max(1);
        let vertices = match below(10) {
            0 => below(2),
            1 => 2 + below(3),
            2 => 150 + below(200),
            _ => 5 + below(60),
        };
        let most = match below(4) {
            0 => vertices / 2,
            1 => vertices,
            2 => 2 * vertices,
            _ => 6 * vertices,
        };
        let (parts, paths) = (1 + below(4), below(3) == 0);
        let mut edges: Vec<Edge> = Vec::new();
        for i in 0..if vertices == 0 { 0 } else { most } {
            let from = if paths { i % vertices } else { below(vertices) };
            let to = match below(12) {
                0 => from,
                1 if !edges.is_empty() => edges[below(edges.len() as u64) as usize].to,
                _ if paths => (from + 1) % vertices,
                // In the same part.
                _ => (from % parts + parts * below(vertices)) % vertices,
            };
            edges.push(Edge { from, to, weight: (1 + below(20)) as f64 });
            if below(15) == 0 {
                edges.push(*edges.last().expect("there is one"));
            }
        }
        let is_known = !seed.is_multiple_of(3);
        if !is_known {
            // Vertices are then those that edges have: none is left out below the last.
            let most = edges.iter().map(|edge| edge.from.max(edge.to) + 1).max().unwrap_or(0);
            edges.extend((0..most).map(|name| Edge::new(name, name)));
        }
        Self { vertices, edges, is_known, orientation }
    }

    /// Its arcs by vertex, as a shape makes them of its edges.
    fn arcs(&self, shape: &Shape) -> Vec<Vec<(u64, f64)>> {
        let twice = match self.orientation {
            Orientation::Directed => shape.symmetrize,
            Orientation::Undirected => !shape.directed,
            Orientation::Symmetric => false,
        };
        let mut arcs = vec![Vec::new(); self.count() as usize];
        for edge in &self.edges {
            if edge.from == edge.to && shape.drop_self_loops {
                continue;
            }
            arcs[edge.from as usize].push((edge.to, edge.weight));
            if twice && edge.from != edge.to {
                arcs[edge.to as usize].push((edge.from, edge.weight));
            }
        }
        for row in &mut arcs {
            row.sort_by(|left, right| left.partial_cmp(right).expect("weights are numbers"));
            if shape.dedupe {
                row.dedup_by_key(|arc| arc.0);
            }
        }
        arcs
    }

    /// How many vertices the graph has: as many as names, if it is not said.
    fn count(&self) -> u64 {
        let most = self.edges.iter().map(|edge| edge.from.max(edge.to) + 1).max().unwrap_or(0);
        if self.is_known { self.vertices } else { most }
    }
}

/// A shape, by seed.
fn shape(seed: u64) -> Shape {
    Shape {
        dedupe: seed % 2 == 1,
        drop_self_loops: seed % 5 < 2,
        distribution: [Distribution::Block, Distribution::Cyclic, Distribution::Hashed][(seed / 2 % 3) as usize],
        seeing: [Seeing::All, Seeing::Ghosts][(seed / 6 % 2) as usize],
        ..Shape::default()
    }
}

/// How messages travel, by seed.
fn messages(seed: u64) -> Messages {
    let styles = ["style=am", "style=bsp"];
    let routes = ["routing=direct", "routing=rook", "routing=hypercube"];
    let reductions = ["reductions=off", "reductions=16", "reductions=adaptive"];
    let coalescing = ["coalescing=adaptive", "coalescing=1", "coalescing=7"];
    let pick = |of: &[&'static str], by: u64| of[(seed / by) as usize % of.len()];
    let text = [pick(&styles, 1), pick(&routes, 2), pick(&reductions, 6), pick(&coalescing, 18)].join(",");
    let config = Some(text.parse().expect("it is a configuration"));
    let detector = [Detector::Auto, Detector::Counting, Detector::NbxLike][(seed / 4 % 3) as usize];
    Messages { config, detector }
}
