//! Graphs that are spread as a file says.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use treepie_graph::{
    Edges, Error, Files, Graph, Messages, Seeing, Shape, Weighted, Weights, components, pagerank, scc,
};

use super::listed::Listed;
use super::worlds::{launch, simulate};
use super::{Scratch, joined, rows};

/// Which part each vertex is of: any, also more than ranks.
fn parts(vertices: u64, seed: u64) -> Vec<u64> {
    (0..vertices).map(|vertex| (vertex * 7 + seed * vertex / 3) % (1 + seed % 9)).collect()
}

fn write(file: &Path, parts: &[u64]) {
    fs::write(file, parts.iter().map(|part| format!("{part}\n")).collect::<String>()).unwrap();
}

fn shape(file: &Path, seed: u64) -> Shape {
    let seeing = if seed.is_multiple_of(2) { Seeing::All } else { Seeing::Ghosts };
    Shape { partition: Some(file.to_owned()), seeing, whole_weights: true, backwards: true, ..Shape::default() }
}

#[test]
fn vertices_are_where_the_file_says() {
    let scratch = Scratch::new("parts");
    let file = scratch.0.join("parts");
    for seed in 0..40 {
        let listed = Listed::draw(seed);
        let parts = parts(listed.vertices, seed);
        write(&file, &parts);
        let block = Shape { whole_weights: true, ..Shape::default() };
        let expected = joined(launch(1, |comm| rows(&comm, &listed, &block).unwrap()));
        for ranks in 1..=5 {
            let found = launch(ranks, |comm| rows(&comm, &listed, &shape(&file, seed)).unwrap());
            for (rank, rows) in found.iter().enumerate() {
                let own: Vec<u64> = rows.iter().map(|(name, _)| *name).collect();
                let mine = |name: &u64| parts[*name as usize] % u64::from(ranks) == rank as u64;
                assert_eq!(own, (0..listed.vertices).filter(mine).collect::<Vec<_>>(), "rank {rank} of {ranks}");
            }
            assert_eq!(joined(found), expected, "graph {seed} on {ranks} ranks");
        }
    }
}

#[test]
fn results_are_those_of_blocks() {
    let scratch = Scratch::new("results");
    let file = scratch.0.join("parts");
    let found = |comm: &treepie_comm::Comm, listed: &Listed, shape: &Shape| {
        let messages = Messages::default();
        let graph = Graph::<u32>::build(comm, listed, shape).unwrap();
        let root = graph.find(comm, listed.vertices - 1).unwrap();
        let mut search = treepie_graph::bfs::direction::Search::<u32, u64>::new(comm, &graph, &messages).unwrap();
        let levels = treepie_graph::bfs::count(comm, &graph, search.run(root).unwrap()).unwrap().level_sizes;
        let mut strong = scc::Search::new(comm, &graph, &messages).unwrap();
        strong.run().unwrap();
        let strong = components::count(comm, &graph, strong.labels()).unwrap();
        let limits = pagerank::Limits { iterations: 20, tolerance: 0.0, ..pagerank::Limits::default() };
        let scores = pagerank::pull::Pulling::new(comm, &graph).unwrap().run(&limits).unwrap().scores;
        let mut scores = treepie_graph::top(comm, &graph, &scores, 1000).unwrap();
        scores.sort_unstable_by_key(|(name, _)| *name);
        (levels, (strong.components, strong.largest), scores)
    };
    let is_near = |left: &[(u64, f64)], right: &[(u64, f64)]| {
        let near = |((left, score), (right, other)): (&(u64, f64), &(u64, f64))| {
            left == right && (score - other).abs() <= 1e-5 * other
        };
        left.len() == right.len() && left.iter().zip(right).all(near)
    };
    for seed in 2..30 {
        let listed = Listed::draw(seed);
        write(&file, &parts(listed.vertices, seed));
        let block = Shape { backwards: true, ..Shape::default() };
        let right = launch(1, |comm| found(&comm, &listed, &block)).remove(0);
        for ranks in [1, 2, 4] {
            for (levels, strong, scores) in launch(ranks, |comm| found(&comm, &listed, &shape(&file, seed))) {
                assert_eq!((&levels, strong), (&right.0, right.1), "graph {seed} on {ranks} ranks");
                assert!(is_near(&scores, &right.2), "graph {seed} on {ranks} ranks: {scores:?}, {:?}", right.2);
            }
        }
        simulate(3, seed, |comm| assert_eq!(found(&comm, &listed, &shape(&file, seed)).0, right.0));
    }
}

#[test]
fn saved_graphs_do_not_tell_how_they_were_spread() {
    let scratch = Scratch::new("spread");
    let [file, one, other] = ["parts", "one.tpg", "other.tpg"].map(|name| scratch.0.join(name));
    for seed in 0..12 {
        let listed = Listed::draw(seed);
        write(&file, &parts(listed.vertices, seed));
        let block = Shape { whole_weights: true, ..Shape::default() };
        for (saved, shape) in [(&one, &block), (&other, &shape(&file, seed))] {
            launch(3, |comm| {
                let graph = Graph::<Weighted>::build(&comm, &listed, shape).unwrap();
                graph.save(&comm, saved, Weights::Whole).unwrap();
            });
        }
        assert_eq!(fs::read(&one).unwrap(), fs::read(&other).unwrap(), "graph {seed}");
    }
}

#[test]
fn bad_files_are_refused_by_all_with_one_line() {
    let scratch = Scratch::new("bad");
    let file = scratch.0.join("parts");
    let listed = Listed::directed(4, [(0, 1), (1, 2), (2, 3)]);
    let refused = |text: &str, edges: &(dyn Edges + Sync)| {
        fs::write(&file, text).unwrap();
        for ranks in 1..=5 {
            let errors = launch(ranks, |comm| match Graph::<u32>::build(&comm, edges, &shape(&file, 1)) {
                Err(Error::Comm(error)) => panic!("{error}"),
                other => other.map(|graph| graph.arcs()).expect_err("it is bad").to_string(),
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
        ("0 1\n1\n1\n1\n", "parts:1: `1` behind the part of a vertex"),
    ] {
        assert_eq!(refused(text, &listed), message);
    }
    let outside = Listed::directed(4, [(0, 1), (1, 4)]);
    let message = "vertex 4 of an edge is not below the number of vertices, 4";
    assert_eq!(refused("0\n1\n2\n3", &outside), message);
    let list = scratch.0.join("far.txt");
    fs::write(&list, "0 1\n1 3\n").unwrap();
    let message = "parts: it is for vertices with the names 0, 1, and so on, but not all of these have edges here";
    assert_eq!(refused("0\n1\n0\n", &Files::open(&[list], None).unwrap()), message);
}

/// Nothing that is done to a file by chance makes anybody panic, and it is the same on all numbers of ranks.
#[test]
fn spoilt_files_are_taken_or_refused_by_all() {
    let scratch = Scratch::new("spoilt");
    let file = scratch.0.join("parts");
    let listed = Listed::directed(9, [(0, 1), (1, 2), (2, 8), (5, 3)]);
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
            let (place, end) = (below(text.len()), below(text.len()));
            match below(4) {
                0 => text.truncate(place),
                1 => drop(text.drain(place.min(end)..place.max(end))),
                _ => {
                    let word: &[u8] =
                        [&b"-1"[..], b"\n", b" ", b"x", b"\r", b"\0", b"99999999999999999999", b"3"][below(8)];
                    drop(text.splice(place..place, word.iter().copied()));
                }
            }
        }
        fs::write(&file, &text).unwrap();
        let found = [1, 3].map(|ranks| {
            let found = launch(ranks, |comm| match Graph::<u32>::build(&comm, &listed, &shape(&file, 1)) {
                Err(Error::Comm(error)) => panic!("{error}"),
                other => other.map(|graph| graph.arcs()).map_err(|error| error.to_string()),
            });
            assert!(found.iter().all(|of_rank| *of_rank == found[0]), "{found:?}");
            found[0].clone().map_err(drop)
        });
        assert_eq!(found[0], found[1], "{:?}", String::from_utf8_lossy(&text));
    }
}
