//! Graphs that are saved and read again.

use std::fs;
use std::path::Path;

use treepie_graph::{Distribution, Edge, Edges, Files, Graph, Orientation, Seeing, Shape, Weighted, Weights};

use super::listed::Listed;
use super::worlds::{launch, simulate};
use super::{Scratch, joined, rows};

fn save(ranks: u32, edges: &(dyn Edges + Sync), shape: &Shape, file: &Path) {
    launch(ranks, |comm| {
        let graph = Graph::<Weighted>::build(&comm, edges, shape).unwrap();
        graph.save(&comm, file, Weights::Whole).unwrap();
    });
}

fn open(file: &Path) -> Files {
    Files::open(&[file.to_owned()], None).unwrap()
}

/// The rows that there have to be.
fn right(listed: &Listed) -> super::Rows {
    let row = |(name, arcs): (u64, Vec<(usize, u32)>)| {
        let mut arcs: Vec<(u64, u32)> = arcs.into_iter().map(|(to, weight)| (to as u64, weight)).collect();
        arcs.sort_unstable();
        (name, arcs)
    };
    (0..).zip(listed.arcs()).map(row).collect()
}

#[test]
fn any_number_of_ranks_reads_what_any_number_wrote() {
    let scratch = Scratch::new("ranks");
    let mut taken = 0;
    for seed in 0..40_u64 {
        let listed = Listed::draw(seed);
        let file = scratch.0.join(format!("{seed}.tpg"));
        let mut written = Vec::new();
        for ranks in 1..=4 {
            let shape = Shape { backwards: false, ..listed.shape(seed + u64::from(ranks)) };
            save(ranks, &listed, &shape, &file);
            let bytes = fs::read(&file).unwrap();
            assert!(ranks == 1 || bytes == written, "graph {seed} on {ranks} ranks: not the same file");
            written = bytes;
        }
        let saved = open(&file);
        let both =
            if listed.orientation == Orientation::Undirected { Orientation::Symmetric } else { listed.orientation };
        assert_eq!((saved.vertices(), saved.orientation()), (Some(listed.vertices), both));
        for ranks in 1..=5 {
            for distribution in [Distribution::Block, Distribution::Cyclic, Distribution::Hashed] {
                let seeing = if (seed + u64::from(ranks)).is_multiple_of(2) { Seeing::All } else { Seeing::Ghosts };
                let shape = Shape { distribution, seeing, whole_weights: true, ..Shape::default() };
                taken += u32::from(distribution == Distribution::Block && ranks > 1);
                let found = joined(launch(ranks, |comm| rows(&comm, &saved, &shape).unwrap()));
                assert_eq!(found, right(&listed), "graph {seed} on {ranks} ranks, {distribution}");
            }
        }
    }
    assert_eq!((scratch.names().len(), taken), (40, 160));
}

/// Whatever else is asked for is done, also where rows could be taken as they lie.
#[test]
fn shapes_count_for_saved_graphs() {
    let scratch = Scratch::new("shapes");
    for seed in 2..20 {
        let listed = Listed::draw(seed);
        let file = scratch.0.join("saved.tpg");
        save(3, &listed, &Shape { whole_weights: true, ..Shape::default() }, &file);
        let saved = open(&file);
        for bits in 0..16_u32 {
            let has = |bit: u32| bits >> bit & 1 == 1;
            let shape = Shape {
                dedupe: has(0),
                drop_self_loops: has(1),
                symmetrize: has(2) && listed.orientation == Orientation::Directed,
                backwards: has(3),
                whole_weights: true,
                ..Shape::default()
            };
            let found = joined(launch(3, |comm| rows(&comm, &saved, &shape).unwrap()));
            let expected = joined(launch(1, |comm| rows(&comm, &listed, &shape).unwrap()));
            assert_eq!(found, expected, "graph {seed}, {shape:?}");
        }
    }
}

/// Names with gaps, of which one is left without arcs.
struct Far;

impl Edges for Far {
    fn vertices(&self) -> Option<u64> {
        None
    }

    fn orientation(&self) -> Orientation {
        Orientation::Directed
    }

    fn weights(&self) -> Weights {
        Weights::Whole
    }

    fn part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> treepie_graph::Result<()> {
        let edges = [(7, 7, 1), (9, 1 << 40, 2), (1 << 40, 9, 3), (1 << 50, 9, 4), (9, 5, 5)];
        let edges = edges.into_iter().skip(part).step_by(parts);
        edges.for_each(|(from, to, weight)| sink(&[Edge { from, to, weight: f64::from(weight) }]));
        Ok(())
    }
}

#[test]
fn names_come_back_also_of_vertices_without_arcs() {
    let scratch = Scratch::new("names");
    let file = scratch.0.join("far.tpg");
    let shape = Shape { drop_self_loops: true, whole_weights: true, ..Shape::default() };
    let expected = vec![
        (5, vec![]),
        (7, vec![]),
        (9, vec![(5, 5), (1 << 40, 2)]),
        (1 << 40, vec![(9, 3)]),
        (1 << 50, vec![(9, 4)]),
    ];
    for writers in 1..=4 {
        save(writers, &Far, &shape, &file);
        for readers in 1..=4 {
            let found = joined(launch(readers, |comm| rows(&comm, &open(&file), &shape).unwrap()));
            assert_eq!(found, expected, "{writers} have written, {readers} have read");
        }
        // What was read can be saved.
        save(3, &open(&file), &shape, &file);
        assert_eq!(joined(launch(2, |comm| rows(&comm, &open(&file), &shape).unwrap())), expected);
    }
}

#[test]
fn late_messages_change_nothing() {
    let scratch = Scratch::new("late");
    for seed in 0..6 {
        let listed = Listed::draw(seed);
        let (file, other) = (scratch.0.join("late.tpg"), scratch.0.join("in-time.tpg"));
        let shape = Shape { backwards: false, ..listed.shape(seed) };
        save(1, &listed, &shape, &other);
        simulate(4, seed, |comm| {
            let graph = Graph::<Weighted>::build(&comm, &listed, &shape).unwrap();
            graph.save(&comm, &file, Weights::Whole).unwrap();
        });
        assert_eq!(fs::read(&file).unwrap(), fs::read(&other).unwrap(), "graph {seed}");
    }
}

/// More than one block: ranks write parts of the same ones.
#[test]
fn blocks_of_several_ranks() {
    let scratch = Scratch::new("blocks");
    let (file, alone) = (scratch.0.join("many.tpg"), scratch.0.join("alone.tpg"));
    let arcs = (0..150_000_u64).map(|arc| (arc * 7 % 30_001, arc * 11 % 30_001));
    let listed = Listed::directed(30_001, arcs);
    let shape = Shape { whole_weights: true, ..Shape::default() };
    save(1, &listed, &shape, &alone);
    save(3, &listed, &shape, &file);
    let bytes = fs::read(&file).unwrap();
    assert!(bytes == fs::read(&alone).unwrap() && bytes.len() > 5 << 18);
    for ranks in [1, 2, 3] {
        for distribution in [Distribution::Block, Distribution::Hashed] {
            let shape = Shape { distribution, ..shape.clone() };
            let found = joined(launch(ranks, |comm| rows(&comm, &open(&file), &shape).unwrap()));
            assert!(found == right(&listed), "{ranks} ranks, {distribution}");
        }
    }
    // One byte in any block is noticed, and all ranks say the same.
    for at in (0..bytes.len()).step_by(100_003) {
        let mut spoilt = bytes.clone();
        spoilt[at] ^= 4;
        fs::write(&file, spoilt).unwrap();
        let errors = |distribution| {
            let shape = Shape { distribution, ..shape.clone() };
            let Ok(saved) = Files::open(std::slice::from_ref(&file), None) else { return vec![] };
            launch(3, |comm| rows(&comm, &saved, &shape).expect_err("it is spoilt").to_string())
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
    let listed = Listed::draw(9);
    let refused = |file: &Path, weights| {
        let errors = launch(3, |comm| {
            let graph = Graph::<u32>::build(&comm, &listed, &Shape::default()).unwrap();
            graph.save(&comm, file, weights).expect_err("it cannot be").to_string()
        });
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        errors[0].clone()
    };
    let missing = refused(&scratch.0.join("no/such.tpg"), Weights::None);
    assert!(missing.contains("no/such.tpg: No such file"), "{missing}");
    fs::create_dir(scratch.0.join("directory.tpg")).unwrap();
    let directory = refused(&scratch.0.join("directory.tpg"), Weights::None);
    assert!(directory.ends_with("directory.tpg: is a directory"), "{directory}");
    let weights = refused(&scratch.0.join("weights.tpg"), Weights::Real);
    assert_eq!(weights, "weights of a graph without weights cannot be saved");
    assert_eq!(scratch.names(), ["directory.tpg"]);
}
