//! Saved graphs, and graphs distributed by a partition file: on threads, and in the simulator with random message
//! delays.

mod compressed;
mod partition;
mod reverse_edges;
mod saved;

use std::fs;
use std::path::{Path, PathBuf};

use treepie_comm::Comm;
use treepie_graph::{BuildOptions, CsrEdge, EdgeSource, Graph};

/// A temporary directory.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn file_names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it is there");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The external ids of local vertices, and the targets and integer weights of their arcs.
type AdjacencyLists = Vec<(u64, Vec<(u64, u32)>)>;

/// The adjacency of this rank's local vertices, by external ids. All ranks call it.
fn local_adjacency(
    comm: &Comm,
    edges: &dyn EdgeSource,
    options: &BuildOptions,
) -> treepie_graph::Result<AdjacencyLists> {
    let graph = Graph::<u32>::build_weighted_with(comm, edges, options)?;
    let ids = graph.with_ghosts(graph.local_vertices().map(|vertex| graph.external_id(vertex)))?;
    let row = |vertex| {
        let arcs = graph.neighbors(vertex).map(|neighbor| (ids[neighbor.index()], neighbor.weight()));
        let mut arcs: Vec<(u64, u32)> = arcs.collect();
        arcs.sort_unstable();
        (graph.external_id(vertex), arcs)
    };
    let all: Vec<_> = graph.local_vertices().map(row).collect();
    let local = graph.view().local_range();
    for local_index in graph.local_vertices() {
        let (local_arcs, remote_arcs) = graph.out_edges().local_and_remote(local_index);
        let is_local = |arc: &CsrEdge<u32>| local.contains(&(arc.target as usize));
        assert!(local_arcs.iter().all(is_local) && !remote_arcs.iter().any(is_local), "local targets come first");
    }
    Ok(all)
}

/// The rows of all ranks, sorted by external id.
fn merged(ranks: Vec<AdjacencyLists>) -> AdjacencyLists {
    let mut all: AdjacencyLists = ranks.into_iter().flatten().collect();
    all.sort_unstable();
    all
}
