//! The demo's graph: made by all ranks, searched, taken apart, and verified.

use anyhow::ensure;
use treepie::Comm;
use treepie::graph::generate::Kronecker;
use treepie::graph::{Graph, Messages, Shape, bfs, components};

pub(super) struct Seen {
    pub(super) vertices: u64,
    pub(super) edges: u64,
    pub(super) reached: u64,
    pub(super) components: u64,
}

/// What the reference implementation of Graph 500 finds at this scale from this root.
const SCALE: u32 = 12;
const ROOT: u64 = 1834;
const LEVELS: [u64; 5] = [1, 33, 1940, 1361, 16];

pub(super) fn run(world: &Comm) -> anyhow::Result<Seen> {
    let messages = Messages::default();
    let shape = Shape { drop_self_loops: true, ..Shape::default() };
    let graph = Graph::<u32>::build(world, &Kronecker::new(SCALE, Kronecker::EDGE_FACTOR)?, &shape)?;
    let root = graph.find(world, ROOT)?;
    let mut search = bfs::direction::Search::<u32, u32>::new(world, &graph, &messages)?;
    let labels = search.run(root)?;
    bfs::verify(world, &graph, root, labels, &messages)?;
    let found = bfs::count(world, &graph, labels)?;
    ensure!(found.level_sizes == LEVELS, "levels of {:?} vertices instead of {LEVELS:?}", found.level_sizes);
    let labels = components::sampling::run(world, &graph, &messages)?.labels;
    components::verify(world, &graph, &labels, &messages)?;
    let parts = components::count(world, &graph, &labels)?;
    ensure!(
        parts.largest == found.reached,
        "a component of {} vertices, of which {} are reached",
        parts.largest,
        found.reached
    );
    Ok(Seen {
        vertices: graph.vertices(),
        edges: graph.arcs() / 2,
        reached: found.reached,
        components: parts.components,
    })
}
