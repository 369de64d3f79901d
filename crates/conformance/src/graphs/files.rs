//! Graphs that were saved are the same on another number of ranks, and those that are spread as a file says are the
//! same, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use treepie::Comm;
use treepie::graph::bfs::{UNREACHED, direction};
use treepie::graph::{Edges, Files, Graph, Orientation, Shape, Weighted, Weights, components, sssp};

use super::{Drawn, fewer_seeds, messages, oracle, shape};
use crate::check::{Failure, Outcome, check, check_eq};

/// A file that all ranks know, and the first one removes in the end.
struct Shared {
    path: PathBuf,
    is_first: bool,
}

impl Shared {
    /// All ranks call it.
    fn new(comm: &Comm, ending: &str) -> Outcome<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // The first rank's, as ranks may be processes or threads of one.
        let mut numbers = [std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)];
        comm.bcast(&mut numbers, 0)?;
        let name = format!("treepie-conformance-{}-{}.{ending}", numbers[0], numbers[1]);
        Ok(Self { path: std::env::temp_dir().join(name), is_first: comm.rank() == 0 })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_first {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn drawn(seed: u64) -> (Drawn, Shape) {
    let orientation = [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize];
    (Drawn::new(seed, orientation), Shape { backwards: true, whole_weights: true, ..shape(seed) })
}

pub(super) fn saved(comm: &Comm) -> Outcome {
    let file = Shared::new(comm, "tpg")?;
    for seed in fewer_seeds(comm, 16) {
        let (drawn, shape) = drawn(seed);
        let arcs = drawn.arcs(&shape);
        let graph = Graph::<Weighted>::build(comm, &drawn, &shape)?;
        graph.save(comm, &file.path, Weights::Whole)?;
        found(comm, &graph, &arcs, seed)?;
        // Half of them have it again, in another way.
        let is_reader = comm.rank().is_multiple_of(2);
        if let Some(readers) = comm.split(is_reader.then_some(0), 0)? {
            let again = Shape { backwards: true, whole_weights: true, ..super::shape(seed / 2 + 1) };
            let again = Shape { dedupe: false, drop_self_loops: false, ..again };
            let during = |failure: Failure| failure.during(format!("seed {seed}, read with {again:?}"));
            reread(&readers, &file.path, &again, &arcs, &graph, seed).map_err(during)?;
        }
        comm.barrier()?;
    }
    Ok(())
}

fn reread(
    comm: &Comm,
    file: &Path,
    shape: &Shape,
    arcs: &oracle::Arcs,
    before: &Graph<Weighted>,
    seed: u64,
) -> Outcome {
    let files = Files::open(&[file.to_owned()], None)?;
    check_eq!(files.weights(), Weights::Whole, "weights");
    let graph = Graph::<Weighted>::build(comm, &files, shape)?;
    check_eq!((graph.vertices(), graph.arcs()), (before.vertices(), before.arcs()), "vertices and arcs");
    check_eq!(graph.is_symmetric(), before.is_symmetric(), "whether all arcs go both ways");
    found(comm, &graph, arcs, seed)
}

/// Levels and lengths from a vertex are right.
fn found(comm: &Comm, graph: &Graph<Weighted>, arcs: &oracle::Arcs, seed: u64) -> Outcome {
    let travels = messages(seed);
    for name in [0, arcs.len() as u64 / 2].into_iter().filter(|name| *name < arcs.len() as u64) {
        let root = graph.find(comm, name)?;
        let levels = oracle::levels(arcs, &[name]);
        let mut search = direction::Search::<Weighted, u64>::new(comm, graph, &travels)?;
        for (place, label) in search.run(root)?.iter().enumerate() {
            let to = graph.layout().name(place) as usize;
            check_eq!(label.level, levels[to].unwrap_or(UNREACHED), "level of {to} from {name}, seed {seed}");
        }
        let right = oracle::lengths(arcs, name, |length, weight| length + weight);
        let mut search = sssp::Search::<u32>::new(comm, graph, None, &travels)?;
        search.run(root)?;
        for (place, length) in search.lengths().into_iter().enumerate() {
            let to = graph.layout().name(place) as usize;
            let length = if length < u32::MAX { f64::from(length) } else { f64::INFINITY };
            check_eq!(length, right[to], "length to {to} from {name}, seed {seed}");
        }
    }
    Ok(())
}

pub(super) fn partitioned(comm: &Comm) -> Outcome {
    let file = Shared::new(comm, "part")?;
    for seed in fewer_seeds(comm, 16) {
        let (drawn, shape) = drawn(seed);
        let arcs = drawn.arcs(&shape);
        // Sometimes fewer parts than ranks, and sometimes more.
        let parts = 1 + seed % (2 * comm.size() as u64);
        let part = |vertex: usize| (vertex as u64 * 5 + seed / 7) % parts;
        if comm.rank() == 0 {
            let text: String = (0..arcs.len()).map(|vertex| format!("{}\n", part(vertex))).collect();
            fs::write(&file.path, text).map_err(|error| Failure::new(error.to_string()))?;
        }
        comm.barrier()?;
        let shape = Shape { partition: Some(file.path.clone()), ..shape };
        let graph = Graph::<Weighted>::build(comm, &drawn, &shape)?;
        check_eq!(graph.vertices(), arcs.len() as u64, "vertices, seed {seed}");
        for place in 0..graph.own() {
            let name = graph.layout().name(place) as usize;
            check_eq!(part(name) % comm.size() as u64, comm.rank() as u64, "whose {name} is, seed {seed}");
        }
        found(comm, &graph, &arcs, seed)?;
        if graph.is_symmetric() {
            let plain = Graph::<u32>::build(comm, &drawn, &shape)?;
            let labels = components::sampling::run(comm, &plain, &messages(seed))?.labels;
            let right = oracle::components(&arcs);
            let roots = (0..).zip(&right).filter(|(name, root): &(u64, &u64)| name == *root).count() as u64;
            check_eq!(components::count(comm, &plain, &labels)?.components, roots, "components, seed {seed}");
        }
        comm.barrier()?;
    }
    let few = Drawn { vertices: 3, edges: vec![], is_known: true, orientation: Orientation::Directed };
    if comm.rank() == 0 {
        fs::write(&file.path, "0\n1\n0\nx\n").map_err(|error| Failure::new(error.to_string()))?;
    }
    comm.barrier()?;
    let shape = Shape { partition: Some(file.path.clone()), ..Shape::default() };
    let refused = Graph::<u32>::build(comm, &few, &shape).map(|graph| graph.arcs()).map_err(|error| error.to_string());
    check!(refused.as_ref().is_err_and(|error| error.contains(":4: `x` is no part")), "a bad line: {refused:?}");
    Ok(())
}
