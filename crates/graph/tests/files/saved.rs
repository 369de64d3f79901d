//! Saved graphs.

use std::fs;
use std::path::Path;

use treepie_graph::{
    BuildOptions, Distribution, Edge, EdgeFiles, EdgeSource, GhostPolicy, Graph, Orientation, WeightKind,
};

use super::{Scratch, local_adjacency, merged};
use crate::listed::EdgeList;
use crate::worlds::{launch, simulate};

fn save(ranks: u32, edges: &(dyn EdgeSource + Sync), options: &BuildOptions, file: &Path) {
    launch(ranks, |comm| {
        let graph = Graph::<u32>::build_weighted_with(&comm, edges, options).unwrap();
        graph.save(file).unwrap();
    });
}

fn open(file: &Path) -> EdgeFiles {
    EdgeFiles::open(&[file.to_owned()], None).unwrap()
}

/// The expected rows, with vertices from `first_id` on.
fn expected_adjacency(list: &EdgeList, first_id: u64) -> super::AdjacencyLists {
    let row = |(external_id, arcs): (u64, Vec<(usize, u32)>)| {
        let mut arcs: Vec<(u64, u32)> = arcs.into_iter().map(|(to, weight)| (first_id + to as u64, weight)).collect();
        arcs.sort_unstable();
        (external_id, arcs)
    };
    (first_id..).zip(list.adjacency()).map(row).collect()
}

#[test]
fn any_number_of_ranks_reads_what_any_number_wrote() {
    let scratch = Scratch::new("ranks");
    let mut direct = 0;
    for seed in 0..40_u64 {
        let list = EdgeList::random(seed);
        let first_id = u64::from(seed % 4 == 1 && list.vertices > 0);
        let counted = list.counted_from(first_id);
        let file = scratch.0.join(format!("{seed}.tpg"));
        let mut written = Vec::new();
        for ranks in 1..=4 {
            let options = BuildOptions { store_in_edges: false, ..list.build_options(seed + u64::from(ranks)) };
            save(ranks, &counted, &options, &file);
            let bytes = fs::read(&file).unwrap();
            assert!(ranks == 1 || bytes == written, "graph {seed} on {ranks} ranks: not the same file");
            written = bytes;
        }
        let saved = open(&file);
        let orientation =
            if list.orientation == Orientation::Undirected { Orientation::Symmetric } else { list.orientation };
        assert_eq!((saved.num_vertices(), saved.orientation()), (Some(list.vertices), orientation));
        assert_eq!(saved.first_id(), first_id);
        for ranks in 1..=5 {
            for distribution in [Distribution::Block, Distribution::Cyclic, Distribution::Hashed] {
                let ghost_policy = if (seed + u64::from(ranks)).is_multiple_of(2) {
                    GhostPolicy::Replicated
                } else {
                    GhostPolicy::Ghosts
                };
                let options =
                    BuildOptions { distribution, ghost_policy, store_in_edges: false, ..BuildOptions::default() };
                direct += u32::from(distribution == Distribution::Block && ranks > 1);
                let found = merged(launch(ranks, |comm| local_adjacency(&comm, &saved, &options).unwrap()));
                assert_eq!(found, expected_adjacency(&list, first_id), "graph {seed} on {ranks} ranks, {distribution}");
            }
        }
    }
    assert_eq!((scratch.file_names().len(), direct), (40, 160));
}

/// All options apply, even if rows could be read directly.
#[test]
fn build_options_apply_to_saved_graphs() {
    let scratch = Scratch::new("shapes");
    for seed in 2..20 {
        let list = EdgeList::random(seed);
        let file = scratch.0.join("saved.tpg");
        save(3, &list, &BuildOptions { store_in_edges: false, ..BuildOptions::default() }, &file);
        let saved = open(&file);
        for bits in 0..16_u32 {
            let has = |bit: u32| bits >> bit & 1 == 1;
            let options = BuildOptions {
                dedupe: has(0),
                drop_self_loops: has(1),
                symmetrize: has(2) && list.orientation == Orientation::Directed,
                store_in_edges: has(3),
                ..BuildOptions::default()
            };
            let found = merged(launch(3, |comm| local_adjacency(&comm, &saved, &options).unwrap()));
            let expected = merged(launch(1, |comm| local_adjacency(&comm, &list, &options).unwrap()));
            assert_eq!(found, expected, "graph {seed}, {options:?}");
        }
    }
}

/// External ids with gaps, one of them isolated.
struct SparseIds;

impl EdgeSource for SparseIds {
    fn num_vertices(&self) -> Option<u64> {
        None
    }

    fn orientation(&self) -> Orientation {
        Orientation::Directed
    }

    fn weights(&self) -> WeightKind {
        WeightKind::Integer
    }

    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> treepie_graph::Result<()> {
        let edges = [(7, 7, 1), (9, 1 << 40, 2), (1 << 40, 9, 3), (1 << 50, 9, 4), (9, 5, 5)];
        let edges = edges.into_iter().skip(part).step_by(parts);
        edges.for_each(|(from, to, weight)| sink(&[Edge { from, to, weight: f64::from(weight) }]));
        Ok(())
    }
}

#[test]
fn external_ids_round_trip_for_isolated_vertices() {
    let scratch = Scratch::new("names");
    let file = scratch.0.join("far.tpg");
    let options = BuildOptions { drop_self_loops: true, store_in_edges: false, ..BuildOptions::default() };
    let expected = vec![
        (5, vec![]),
        (7, vec![]),
        (9, vec![(5, 5), (1 << 40, 2)]),
        (1 << 40, vec![(9, 3)]),
        (1 << 50, vec![(9, 4)]),
    ];
    for writers in 1..=4 {
        save(writers, &SparseIds, &options, &file);
        for readers in 1..=4 {
            let found = merged(launch(readers, |comm| local_adjacency(&comm, &open(&file), &options).unwrap()));
            assert_eq!(found, expected, "{writers} have written, {readers} have read");
        }
        // A loaded graph can be saved again.
        save(3, &open(&file), &options, &file);
        assert_eq!(merged(launch(2, |comm| local_adjacency(&comm, &open(&file), &options).unwrap())), expected);
    }
}

#[test]
fn late_messages_change_nothing() {
    let scratch = Scratch::new("late");
    for seed in 0..6 {
        let list = EdgeList::random(seed);
        let (file, other) = (scratch.0.join("late.tpg"), scratch.0.join("in-time.tpg"));
        let options = BuildOptions { store_in_edges: false, ..list.build_options(seed) };
        save(1, &list, &options, &other);
        simulate(4, seed, |comm| {
            let graph = Graph::<u32>::build_weighted_with(&comm, &list, &options).unwrap();
            graph.save(&file).unwrap();
        });
        assert_eq!(fs::read(&file).unwrap(), fs::read(&other).unwrap(), "graph {seed}");
    }
}

/// Several blocks, of which ranks write parts.
#[test]
fn blocks_of_several_ranks() {
    let scratch = Scratch::new("blocks");
    let (file, alone) = (scratch.0.join("many.tpg"), scratch.0.join("alone.tpg"));
    let arcs = (0..150_000_u64).map(|arc| (arc * 7 % 30_001, arc * 11 % 30_001));
    let list = EdgeList::directed(30_001, arcs);
    let options = BuildOptions { store_in_edges: false, ..BuildOptions::default() };
    save(1, &list, &options, &alone);
    save(3, &list, &options, &file);
    let bytes = fs::read(&file).unwrap();
    assert!(bytes == fs::read(&alone).unwrap() && bytes.len() > 5 << 18);
    for ranks in [1, 2, 3] {
        for distribution in [Distribution::Block, Distribution::Hashed] {
            let options = BuildOptions { distribution, ..options.clone() };
            let found = merged(launch(ranks, |comm| local_adjacency(&comm, &open(&file), &options).unwrap()));
            assert!(found == expected_adjacency(&list, 0), "{ranks} ranks, {distribution}");
        }
    }
    // A changed byte in any block is detected, and all ranks return the same error.
    for at in (0..bytes.len()).step_by(100_003) {
        let mut corrupted = bytes.clone();
        corrupted[at] ^= 4;
        fs::write(&file, corrupted).unwrap();
        let errors = |distribution| {
            let options = BuildOptions { distribution, ..options.clone() };
            let Ok(saved) = EdgeFiles::open(std::slice::from_ref(&file), None) else { return vec![] };
            launch(3, |comm| local_adjacency(&comm, &saved, &options).expect_err("it is corrupted").to_string())
        };
        for distribution in [Distribution::Block, Distribution::Cyclic] {
            let errors = errors(distribution);
            assert!(errors.iter().all(|error| *error == errors[0] && error.contains("many.tpg: bytes ")), "{errors:?}");
        }
    }
}

#[test]
fn what_cannot_be_saved_leaves_nothing() {
    let scratch = Scratch::new("refused");
    let list = EdgeList::random(9);
    let refused = |file: &Path| {
        let errors = launch(3, |comm| {
            let graph = Graph::build(&comm, &list).unwrap();
            graph.save(file).expect_err("it cannot be").to_string()
        });
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        errors[0].clone()
    };
    let missing = refused(&scratch.0.join("no/such.tpg"));
    assert!(missing.contains("no/such.tpg: No such file"), "{missing}");
    fs::create_dir(scratch.0.join("directory.tpg")).unwrap();
    let directory = refused(&scratch.0.join("directory.tpg"));
    assert!(directory.ends_with("directory.tpg: is a directory"), "{directory}");
    assert_eq!(scratch.file_names(), ["directory.tpg"]);
}

/// Text files and saved graphs by their extension, with and without weights; values by the ids of the file.
#[test]
fn files_are_read_by_their_extension() {
    let scratch = Scratch::new("extension");
    let (text, saved) = (scratch.0.join("friends.txt"), scratch.0.join("friends.tpg"));
    fs::write(&text, "# ids with gaps\n10 20 2.5\n20 30 1\n30 10 0.25\n7 8 1\n").unwrap();
    for ranks in [1, 2, 3, 8] {
        launch(ranks, |comm| {
            let options = BuildOptions { symmetrize: true, ..BuildOptions::default() };
            let graph = Graph::read_with(&comm, &text, &options).unwrap();
            let bfs = graph.bfs(10).unwrap();
            assert_eq!([10, 20, 30, 7].map(|id| bfs.levels.get(id).unwrap()), [0, 1, 1, u32::MAX]);
            assert_eq!(graph.components().unwrap().summary().unwrap().components, 2);
            assert_eq!(bfs.levels.get(9).unwrap_err().to_string(), "there is no vertex 9 among the 5 vertices");
            let roads = Graph::<f32>::read_weighted_with(&comm, &text, &options).unwrap();
            roads.save(&saved).unwrap();
            let again = Graph::<f32>::read_weighted(&comm, &saved).unwrap();
            for distances in [roads.sssp(10).unwrap().distances, again.sssp(10).unwrap().distances] {
                assert_eq!([20, 30, 8].map(|id| distances.get(id).unwrap()), [1.25, 0.25, f32::INFINITY]);
            }
            let directed = Graph::read(&comm, &text).unwrap();
            assert_eq!((directed.num_arcs(), directed.is_symmetric()), (4, false));
            let missing = Graph::read(&comm, scratch.0.join("none.txt")).unwrap_err().to_string();
            assert!(missing.contains("none.txt: No such file"), "{missing}");
        });
    }
}
