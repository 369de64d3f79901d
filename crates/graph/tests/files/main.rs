//! Saved graphs, and graphs distributed by a partition file: on threads, and in the simulator with random message
//! delays.

#[path = "../deep/listed.rs"]
mod listed;
mod partition;
mod saved;
#[path = "../deep/worlds.rs"]
mod worlds;

use std::fs;
use std::path::{Path, PathBuf};

use treepie_comm::Comm;
use treepie_graph::{BuildOptions, CsrEdge, EdgeSource, Graph, WeightedEdge};

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
    let graph = Graph::<WeightedEdge>::build(comm, edges, options)?;
    let mut view_ids = vec![0; graph.view().len()];
    graph
        .view()
        .local_range()
        .enumerate()
        .for_each(|(local_index, index)| view_ids[index] = graph.layout().external_id(local_index));
    graph.view().update_ghosts(comm, &mut view_ids)?;
    let row = |local_index| {
        let arcs = graph.out_edges().row(local_index).iter().map(|arc| (view_ids[arc.target() as usize], arc.weight()));
        let mut arcs: Vec<(u64, u32)> = arcs.collect();
        arcs.sort_unstable();
        (graph.layout().external_id(local_index), arcs)
    };
    let all: Vec<_> = (0..graph.num_local()).map(row).collect();
    let local = graph.view().local_range();
    for local_index in 0..graph.num_local() {
        let (local_arcs, remote_arcs) = graph.out_edges().local_and_remote(local_index);
        let is_local = |arc: &WeightedEdge| local.contains(&(arc.target() as usize));
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
