//! Saved graphs are the same when loaded on another number of ranks, and so are graphs distributed by a partition file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use treepie::Comm;
use treepie::graph::bfs::{BfsOptions, UNREACHED};
use treepie::graph::components::ComponentOptions;
use treepie::graph::sssp::SsspOptions;
use treepie::graph::{BuildOptions, EdgeFiles, EdgeSource, Graph, Orientation, WeightKind};

use super::{RandomGraph, am_config, build_options, fewer_seeds, oracle};
use crate::check::{Failure, Outcome, check, check_eq};

/// A file whose path all ranks know. Rank 0 removes it when dropped.
struct SharedFile {
    path: PathBuf,
    is_first: bool,
}

impl SharedFile {
    /// Collective: broadcasts a unique path.
    fn new(comm: &Comm, ending: &str) -> Outcome<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Rank 0's numbers, as ranks may be processes or threads of one.
        let mut numbers = [std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)];
        comm.bcast(&mut numbers, 0)?;
        let name = format!("treepie-conformance-{}-{}.{ending}", numbers[0], numbers[1]);
        Ok(Self { path: std::env::temp_dir().join(name), is_first: comm.rank() == 0 })
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        if self.is_first {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn random_graph(seed: u64) -> (RandomGraph, BuildOptions) {
    let orientation = [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize];
    (RandomGraph::new(seed, orientation), BuildOptions { store_in_edges: true, ..build_options(seed) })
}

pub(super) fn saved(comm: &Comm) -> Outcome {
    let file = SharedFile::new(comm, "tpg")?;
    for seed in fewer_seeds(comm, 16) {
        let (input, options) = random_graph(seed);
        let arcs = input.arcs(&options);
        let graph = Graph::<u32>::build_weighted_with(comm, &input, &options)?;
        graph.save(&file.path)?;
        check_distances(&graph, &arcs, seed)?;
        // Half of the ranks load it with other build options.
        let is_reader = comm.rank().is_multiple_of(2);
        if let Some(readers) = comm.split(is_reader.then_some(0), 0)? {
            let again = BuildOptions { store_in_edges: true, ..super::build_options(seed / 2 + 1) };
            let again = BuildOptions { dedupe: false, drop_self_loops: false, ..again };
            let during = |failure: Failure| failure.context(format!("seed {seed}, read with {again:?}"));
            check_reload(&readers, &file.path, &again, &arcs, &graph, seed).map_err(during)?;
        }
        comm.barrier()?;
    }
    Ok(())
}

fn check_reload(
    comm: &Comm,
    file: &Path,
    options: &BuildOptions,
    arcs: &oracle::Arcs,
    before: &Graph<u32>,
    seed: u64,
) -> Outcome {
    let files = EdgeFiles::open(&[file.to_owned()], None)?;
    check_eq!(files.weights(), WeightKind::Integer, "weights");
    let graph = Graph::<u32>::build_weighted_with(comm, &files, options)?;
    check_eq!(
        (graph.num_vertices(), graph.num_arcs()),
        (before.num_vertices(), before.num_arcs()),
        "vertices and arcs"
    );
    check_eq!(graph.is_symmetric(), before.is_symmetric(), "whether the graph is symmetric");
    let read = Graph::read(comm, file)?;
    check_eq!((read.num_vertices(), read.num_arcs()), (graph.num_vertices(), graph.num_arcs()), "without weights");
    let read = Graph::<u32>::read_weighted_with(comm, file, options)?;
    check_distances(&read, arcs, seed)?;
    check!(Graph::read(comm, file.with_extension("missing.tpg")).is_err(), "a file that does not exist");
    check_distances(&graph, arcs, seed)
}

/// Checks BFS levels and shortest distances from two vertices.
fn check_distances(graph: &Graph<u32>, arcs: &oracle::Arcs, seed: u64) -> Outcome {
    let config = am_config(seed);
    for id in [0, arcs.len() as u64 / 2].into_iter().filter(|id| *id < arcs.len() as u64) {
        let levels = oracle::levels(arcs, &[id]);
        let bfs = graph.bfs_with(id, &BfsOptions { config: config.clone(), ..BfsOptions::default() })?;
        for (to, level) in bfs.levels.iter() {
            check_eq!(*level, levels[to as usize].unwrap_or(UNREACHED), "level of {to} from {id}, seed {seed}");
        }
        let expected = oracle::distances(arcs, id, |distance, weight| distance + weight);
        let sssp = graph.sssp_with(id, &SsspOptions { config: config.clone(), ..SsspOptions::default() })?;
        for (to, distance) in sssp.distances.iter() {
            let distance = if *distance < u32::MAX { f64::from(*distance) } else { f64::INFINITY };
            check_eq!(distance, expected[to as usize], "distance to {to} from {id}, seed {seed}");
        }
    }
    Ok(())
}

pub(super) fn partitioned(comm: &Comm) -> Outcome {
    let file = SharedFile::new(comm, "part")?;
    for seed in fewer_seeds(comm, 16) {
        let (input, options) = random_graph(seed);
        let arcs = input.arcs(&options);
        // Sometimes fewer parts than ranks, and sometimes more.
        let parts = 1 + seed % (2 * comm.size() as u64);
        let part = |vertex: usize| (vertex as u64 * 5 + seed / 7) % parts;
        if comm.rank() == 0 {
            let text: String = (0..arcs.len()).map(|vertex| format!("{}\n", part(vertex))).collect();
            fs::write(&file.path, text).map_err(|error| Failure::new(error.to_string()))?;
        }
        comm.barrier()?;
        let options = BuildOptions { partition_file: Some(file.path.clone()), ..options };
        let graph = Graph::<u32>::build_weighted_with(comm, &input, &options)?;
        check_eq!(graph.num_vertices(), arcs.len() as u64, "vertices, seed {seed}");
        for local in graph.local_vertices() {
            let id = graph.external_id(local) as usize;
            check_eq!(part(id) % comm.size() as u64, comm.rank() as u64, "the owner of {id}, seed {seed}");
        }
        check_distances(&graph, &arcs, seed)?;
        if graph.is_symmetric() {
            let plain = Graph::build_with(comm, &input, &options)?;
            let options = ComponentOptions { config: am_config(seed), ..ComponentOptions::default() };
            let components = plain.components_with(&options)?;
            let expected = oracle::components(&arcs);
            let roots = (0..).zip(&expected).filter(|(id, root): &(u64, &u64)| id == *root).count() as u64;
            check_eq!(components.summary()?.components, roots, "components, seed {seed}");
        }
        comm.barrier()?;
    }
    let few =
        RandomGraph { vertices: 3, edges: vec![], is_vertex_count_known: true, orientation: Orientation::Directed };
    if comm.rank() == 0 {
        fs::write(&file.path, "0\n1\n0\nx\n").map_err(|error| Failure::new(error.to_string()))?;
    }
    comm.barrier()?;
    let options = BuildOptions { partition_file: Some(file.path.clone()), ..BuildOptions::default() };
    let refused =
        Graph::build_with(comm, &few, &options).map(|graph| graph.num_arcs()).map_err(|error| error.to_string());
    check!(refused.as_ref().is_err_and(|error| error.contains(":4: `x` is no part")), "a bad line: {refused:?}");
    Ok(())
}
