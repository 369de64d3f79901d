//! Graphs distributed by a partition file.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use treepie_graph::pagerank::{PageRankMethod, PageRankOptions};
use treepie_graph::{BuildOptions, EdgeFiles, EdgeSource, Error, GhostPolicy, Graph};

use super::{Scratch, local_adjacency, merged};
use crate::listed::EdgeList;
use crate::worlds::{launch, simulate};

/// The part of each vertex; there may be more parts than ranks.
fn partition(vertices: u64, seed: u64) -> Vec<u64> {
    (0..vertices).map(|vertex| (vertex * 7 + seed * vertex / 3) % (1 + seed % 9)).collect()
}

fn write(file: &Path, parts: &[u64]) {
    fs::write(file, parts.iter().map(|part| format!("{part}\n")).collect::<String>()).unwrap();
}

fn build_options(file: &Path, seed: u64) -> BuildOptions {
    let ghost_policy = if seed.is_multiple_of(2) { GhostPolicy::Replicated } else { GhostPolicy::Ghosts };
    BuildOptions {
        partition_file: Some(file.to_owned()),
        ghost_policy,
        store_in_edges: true,
        ..BuildOptions::default()
    }
}

#[test]
fn vertices_are_where_the_file_says() {
    let scratch = Scratch::new("parts");
    let file = scratch.0.join("parts");
    for seed in 0..40 {
        let list = EdgeList::random(seed);
        let parts = partition(list.vertices, seed);
        write(&file, &parts);
        let first_id = seed % 2;
        let list = list.counted_from(first_id);
        let block = BuildOptions { store_in_edges: false, ..BuildOptions::default() };
        let expected = merged(launch(1, |comm| local_adjacency(&comm, &list, &block).unwrap()));
        for ranks in 1..=5 {
            let found = launch(ranks, |comm| local_adjacency(&comm, &list, &build_options(&file, seed)).unwrap());
            for (rank, rows) in found.iter().enumerate() {
                let local: Vec<u64> = rows.iter().map(|(external_id, _)| *external_id).collect();
                let is_local = |(_, part): &(u64, &u64)| **part % u64::from(ranks) == rank as u64;
                let expected = (first_id..).zip(&parts).filter(is_local).map(|(external_id, _)| external_id);
                assert_eq!(local, expected.collect::<Vec<_>>(), "rank {rank} of {ranks}");
            }
            assert_eq!(merged(found), expected, "graph {seed} on {ranks} ranks");
        }
    }
}

#[test]
fn results_are_those_of_blocks() {
    let scratch = Scratch::new("results");
    let file = scratch.0.join("parts");
    let found = |comm: &treepie_comm::Comm, list: &EdgeList, options: &BuildOptions| {
        let graph = Graph::build_with(comm, list, options).unwrap();
        let levels = graph.bfs(list.vertices - 1).unwrap().level_sizes().unwrap();
        let summary = graph.scc().unwrap().summary().unwrap();
        let pagerank_options = PageRankOptions {
            max_iterations: 20,
            tolerance: 0.0,
            method: Some(PageRankMethod::Pull),
            ..PageRankOptions::default()
        };
        let mut scores = graph.pagerank_with(&pagerank_options).unwrap().scores.top_k(1000).unwrap();
        scores.sort_unstable_by_key(|(external_id, _)| *external_id);
        (levels, (summary.components, summary.largest), scores)
    };
    let is_near = |left: &[(u64, f64)], right: &[(u64, f64)]| {
        let near = |((left, score), (right, other)): (&(u64, f64), &(u64, f64))| {
            left == right && (score - other).abs() <= 1e-5 * other
        };
        left.len() == right.len() && left.iter().zip(right).all(near)
    };
    for seed in 2..30 {
        let list = EdgeList::random(seed);
        write(&file, &partition(list.vertices, seed));
        let block = BuildOptions { store_in_edges: true, ..BuildOptions::default() };
        let expected = launch(1, |comm| found(&comm, &list, &block)).remove(0);
        for ranks in [1, 2, 4] {
            for (levels, summary, scores) in launch(ranks, |comm| found(&comm, &list, &build_options(&file, seed))) {
                assert_eq!((&levels, summary), (&expected.0, expected.1), "graph {seed} on {ranks} ranks");
                assert!(is_near(&scores, &expected.2), "graph {seed} on {ranks} ranks: {scores:?}, {:?}", expected.2);
            }
        }
        simulate(3, seed, |comm| assert_eq!(found(&comm, &list, &build_options(&file, seed)).0, expected.0));
    }
}

#[test]
fn saved_graphs_do_not_depend_on_distribution() {
    let scratch = Scratch::new("spread");
    let [file, one, other] = ["parts", "one.tpg", "other.tpg"].map(|name| scratch.0.join(name));
    for seed in 0..12 {
        let list = EdgeList::random(seed);
        write(&file, &partition(list.vertices, seed));
        let block = BuildOptions { store_in_edges: false, ..BuildOptions::default() };
        for (saved, options) in [(&one, &block), (&other, &build_options(&file, seed))] {
            launch(3, |comm| {
                Graph::<u32>::build_weighted_with(&comm, &list, options).unwrap().save(saved).unwrap();
            });
        }
        assert_eq!(fs::read(&one).unwrap(), fs::read(&other).unwrap(), "graph {seed}");
    }
}

#[test]
fn bad_files_are_refused_by_all_with_one_line() {
    let scratch = Scratch::new("bad");
    let file = scratch.0.join("parts");
    let list = EdgeList::directed(4, [(0, 1), (1, 2), (2, 3)]);
    let refused = |text: &str, edges: &(dyn EdgeSource + Sync)| {
        fs::write(&file, text).unwrap();
        for ranks in 1..=5 {
            let errors = launch(ranks, |comm| match Graph::build_with(&comm, edges, &build_options(&file, 1)) {
                Err(Error::Comm(error)) => panic!("{error}"),
                other => other.map(|graph| graph.num_arcs()).expect_err("it is bad").to_string(),
            });
            assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
            if ranks == 5 {
                return errors[0].replace(&format!("{}/", scratch.0.display()), "");
            }
        }
        unreachable!("it has returned")
    };
    for (text, message) in [
        ("0\n1\n", "parts:2: the last line, but there are 4 vertices, and a line for each"),
        ("", "parts: an empty file, but there are 4 vertices, and a line for each"),
        ("0\n1\n0\n1\n0\n1\n", "parts:5: one line of 6, but there are 4 vertices, and a line for each"),
        ("0\n1\nx\n1\n", "parts:3: `x` is no part: expected a whole number"),
        ("0\n-1\n0\n1\n", "parts:2: part `-1` is negative"),
        ("0\n1\n\n1\n", "parts:3: an empty line: expected the part of a vertex"),
        ("0 1\n1\n1\n1\n", "parts:1: `1` after the part of a vertex"),
    ] {
        assert_eq!(refused(text, &list), message);
    }
    let outside = EdgeList::directed(4, [(0, 1), (1, 4)]);
    let message = "vertex 4 of an edge is not one of the 4 vertices from 0 on";
    assert_eq!(refused("0\n1\n2\n3", &outside), message);
    let path = scratch.0.join("far.txt");
    fs::write(&path, "0 1\n1 3\n").unwrap();
    let message = "parts: it is for vertices with consecutive ids from 0 or 1 on, but not all of these have edges here";
    assert_eq!(refused("0\n1\n0\n", &EdgeFiles::open(&[path], None).unwrap()), message);
}

/// Random corruption of a file makes no rank panic, and the outcome does not depend on the number of ranks.
#[test]
fn corrupted_files_are_accepted_or_refused_by_all() {
    let scratch = Scratch::new("spoilt");
    let file = scratch.0.join("parts");
    let list = EdgeList::directed(9, [(0, 1), (1, 2), (2, 8), (5, 3)]);
    let until = std::env::var_os("TREEPIE_LONG").map(|_| Instant::now() + Duration::from_secs(60));
    let mut random = 88172645463325252_u64;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % bound.max(1)
    };
    let mut round = 0;
    while until.map_or(round < 400, |until| Instant::now() < until) {
        round += 1;
        let mut text = b"0\n1\n2\n0\n1\n2\n0\n0\n7\n".to_vec();
        for _ in 0..1 + below(3) {
            let (start, end) = (below(text.len()), below(text.len()));
            match below(4) {
                0 => text.truncate(start),
                1 => drop(text.drain(start.min(end)..start.max(end))),
                _ => {
                    let insertion: &[u8] =
                        [&b"-1"[..], b"\n", b" ", b"x", b"\r", b"\0", b"99999999999999999999", b"3"][below(8)];
                    drop(text.splice(start..start, insertion.iter().copied()));
                }
            }
        }
        fs::write(&file, &text).unwrap();
        let found = [1, 3].map(|ranks| {
            let found = launch(ranks, |comm| match Graph::build_with(&comm, &list, &build_options(&file, 1)) {
                Err(Error::Comm(error)) => panic!("{error}"),
                other => other.map(|graph| graph.num_arcs()).map_err(|error| error.to_string()),
            });
            assert!(found.iter().all(|of_rank| *of_rank == found[0]), "{found:?}");
            found[0].clone().map_err(drop)
        });
        assert_eq!(found[0], found[1], "{:?}", String::from_utf8_lossy(&text));
    }
}
