//! Graphs that are saved and read again, and graphs that are spread as a file says: on threads, and in the simulator,
//! where messages are late by chance.

#[path = "../deep/listed.rs"]
mod listed;
mod partition;
mod saved;
#[path = "../deep/worlds.rs"]
mod worlds;

use std::fs;
use std::path::{Path, PathBuf};

use treepie_comm::Comm;
use treepie_graph::{Arc, Edges, Graph, Shape, Weighted};

/// An empty directory that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a place for files");
        Self(path)
    }

    fn names(&self) -> Vec<String> {
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

/// Names of the own vertices, and where their arcs lead, with weights that are whole numbers.
type Rows = Vec<(u64, Vec<(u64, u32)>)>;

/// What this rank has of a graph, in names. All ranks call it.
fn rows(comm: &Comm, edges: &dyn Edges, shape: &Shape) -> treepie_graph::Result<Rows> {
    let graph = Graph::<Weighted>::build(comm, edges, shape)?;
    let mut names = vec![0; graph.view().len()];
    graph.view().own().enumerate().for_each(|(index, place)| names[place] = graph.layout().name(index));
    graph.view().gather(comm, &mut names)?;
    let row = |place| {
        let arcs = graph.out().row(place).iter().map(|arc| (names[arc.target() as usize], arc.weight()));
        let mut arcs: Vec<(u64, u32)> = arcs.collect();
        arcs.sort_unstable();
        (graph.layout().name(place), arcs)
    };
    let all: Vec<_> = (0..graph.own()).map(row).collect();
    let own = graph.view().own();
    for place in 0..graph.own() {
        let (near, far) = graph.out().parts(place);
        let is_near = |arc: &Weighted| own.contains(&(arc.target() as usize));
        assert!(near.iter().all(is_near) && !far.iter().any(is_near), "own ones come first");
    }
    Ok(all)
}

/// The rows of all ranks, in order of names.
fn joined(ranks: Vec<Rows>) -> Rows {
    let mut all: Rows = ranks.into_iter().flatten().collect();
    all.sort_unstable();
    all
}
