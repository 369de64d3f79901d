//! Samples of all formats, valid and broken, read in one part and in many.

mod spoilt;

use std::fs;
use std::path::{Path, PathBuf};

use treepie_graph::{Edge, EdgeFiles, EdgeSource, InputFormat, Orientation, Result, WeightKind};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name)
}

/// A directory for the files of one test.
fn scratch(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("readers-{test}-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

fn part(files: &EdgeFiles, part: usize, parts: usize) -> Result<Vec<Edge>> {
    let mut edges = Vec::new();
    files.read_part(part, parts, &mut |some| edges.extend_from_slice(some))?;
    Ok(edges)
}

/// The edges of all parts, sorted, if their number is that declared in the files.
fn read(paths: &[PathBuf], parts: usize) -> Result<Vec<(u64, u64, f64)>> {
    let files = EdgeFiles::open(paths, None)?;
    let mut all = Vec::new();
    for index in 0..parts {
        all.extend(part(&files, index, parts)?.into_iter().map(|edge| (edge.from, edge.to, edge.weight)));
    }
    files.check_edge_count(all.len() as u64)?;
    all.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
    Ok(all)
}

use Orientation::{Directed, Symmetric, Undirected};
type Sample = (&'static str, Option<u64>, Orientation, WeightKind, &'static [(u64, u64, f64)]);

/// Valid samples: vertices, orientation, weights, and sorted edges.
const GOOD: &[Sample] = &[
    (
        "plain.txt",
        None,
        Directed,
        WeightKind::None,
        &[
            (0, 1, 1.0),
            (0, 1, 1.0),
            (1, 2, 1.0),
            (2, 3, 1.0),
            (3, 0, 1.0),
            (4, 4, 1.0),
            (7, 0, 1.0),
            (1 << 33, u64::MAX - 1, 1.0),
        ],
    ),
    (
        "table.csv",
        None,
        Directed,
        WeightKind::Real,
        &[(10, 10, 12345678901234567890.0), (10, 20, 0.5), (20, 30, 1e-3), (30, 10, 0.25)],
    ),
    ("marked.txt", None, Directed, WeightKind::None, &[(1, 2, 1.0), (2, 3, 1.0)]),
    ("table.tsv", None, Directed, WeightKind::None, &[(1, 2, 1.0), (2, 3, 1.0), (3, 1, 1.0)]),
    ("weights.wel", None, Directed, WeightKind::Real, &[(5, 6, 0.0), (6, 7, 3.5), (7, 5, 2.0)]),
    ("empty.edges", None, Directed, WeightKind::None, &[]),
    ("edges.el.bz2", None, Directed, WeightKind::None, &[(1, 2, 1.0), (2, 3, 1.0), (3, 4, 1.0), (4, 1, 1.0)]),
    ("edges.el.gz", None, Directed, WeightKind::None, &[(1, 2, 1.0), (2, 3, 1.0), (3, 4, 1.0), (4, 1, 1.0)]),
    (
        "general.mtx",
        Some(5),
        Directed,
        WeightKind::Real,
        &[(1, 2, 0.5), (1, 2, 7.0), (2, 3, 1.5), (3, 3, 2.0), (4, 5, 0.0), (5, 1, 100.0)],
    ),
    (
        "general.mtx.zst",
        Some(5),
        Directed,
        WeightKind::Real,
        &[(1, 2, 0.5), (1, 2, 7.0), (2, 3, 1.5), (3, 3, 2.0), (4, 5, 0.0), (5, 1, 100.0)],
    ),
    (
        "symmetric.mtx",
        Some(4),
        Undirected,
        WeightKind::Integer,
        &[(2, 1, 10.0), (3, 1, 20.0), (4, 3, 4294967295.0), (4, 4, 30.0)],
    ),
    ("pattern.mtx.gz", Some(3), Directed, WeightKind::None, &[(1, 2, 1.0), (2, 3, 1.0), (3, 1, 1.0)]),
    (
        "plain.graph",
        Some(7),
        Symmetric,
        WeightKind::None,
        &[
            (1, 2, 1.0),
            (1, 3, 1.0),
            (2, 1, 1.0),
            (2, 3, 1.0),
            (3, 1, 1.0),
            (3, 2, 1.0),
            (3, 5, 1.0),
            (5, 3, 1.0),
            (5, 6, 1.0),
            (5, 7, 1.0),
            (6, 5, 1.0),
            (6, 7, 1.0),
            (7, 5, 1.0),
            (7, 6, 1.0),
        ],
    ),
    ("weights.metis", Some(4), Symmetric, WeightKind::Integer, SQUARE_FROM_1),
    ("sizes.graph", Some(3), Symmetric, WeightKind::None, &[(1, 2, 1.0), (2, 1, 1.0), (2, 3, 1.0), (3, 2, 1.0)]),
    (
        "roads.gr",
        Some(6),
        Directed,
        WeightKind::Integer,
        &[(1, 2, 17.0), (2, 1, 17.0), (2, 3, 0.0), (3, 4, 4294967295.0), (4, 6, 1.0), (5, 5, 2.0), (6, 1, 3.0)],
    ),
    ("roads.gr.gz", Some(3), Directed, WeightKind::Integer, &[(1, 2, 3.0), (3, 2, 1.0)]),
    (
        "kron.packed",
        None,
        Undirected,
        WeightKind::Real,
        &[
            (0, 1, 0.5),
            (1, 0, 0.75),
            (1, 2, 0.25),
            (2, 0, 0.1_f32 as f64),
            (3, 3, 1.0),
            (5, (1 << 48) - 1, 1e30_f32 as f64),
            (1 << 33, 5, 0.0),
        ],
    ),
    (
        "bare.bin",
        None,
        Undirected,
        WeightKind::None,
        &[(0, 1, 1.0), (1, 2, 1.0), (2, 0, 1.0), (3, 3, 1.0), (1 << 33, 5, 1.0)],
    ),
    ("zipped.packed.gz", None, Undirected, WeightKind::Real, &[(0, 1, 0.5), (1, 2, 0.25), (2, 0, 0.1_f32 as f64)]),
    ("empty.packed", None, Undirected, WeightKind::None, &[]),
    ("square.tpg", Some(4), Symmetric, WeightKind::Integer, SQUARE),
    ("zipped.tpg.gz", Some(4), Symmetric, WeightKind::Integer, SQUARE),
    ("far.tpg", None, Directed, WeightKind::Real, &[(10, 20, 0.25), (10, 20, 0.5), (20, 10, 2.0), (1 << 32, 7, 3.0)]),
    ("bare.tpg", Some(4), Directed, WeightKind::None, &[(1, 0, 1.0)]),
    ("empty.tpg", Some(0), Symmetric, WeightKind::None, &[]),
];

const SQUARE: &[(u64, u64, f64)] =
    &[(0, 1, 5.0), (0, 2, 6.0), (1, 0, 5.0), (1, 3, 7.0), (2, 0, 6.0), (2, 3, 8.0), (3, 1, 7.0), (3, 2, 8.0)];

const SQUARE_FROM_1: &[(u64, u64, f64)] =
    &[(1, 2, 5.0), (1, 3, 6.0), (2, 1, 5.0), (2, 4, 7.0), (3, 1, 6.0), (3, 4, 8.0), (4, 2, 7.0), (4, 3, 8.0)];

#[test]
fn good_samples_have_the_same_edges_in_any_number_of_parts() {
    for (name, vertices, orientation, weights, edges) in GOOD {
        let path = sample("good").join(name);
        let files = EdgeFiles::open(std::slice::from_ref(&path), None).expect(name);
        assert_eq!(
            (files.num_vertices(), files.orientation(), files.weights()),
            (*vertices, *orientation, *weights),
            "{name}"
        );
        let counts_from_1 = [InputFormat::MatrixMarket, InputFormat::Metis, InputFormat::Dimacs];
        assert_eq!(files.first_id(), u64::from(counts_from_1.contains(&files.format())), "{name}");
        let is_declared = vertices.is_some() || files.format() == InputFormat::Treepie;
        assert_eq!(files.expected_edges(), is_declared.then_some(edges.len() as u64), "{name}");
        for parts in (1..=5).chain([200]) {
            assert_eq!(read(std::slice::from_ref(&path), parts).as_deref(), Ok(*edges), "{name} in {parts} parts");
        }
    }
}

#[test]
fn all_good_samples_are_listed() {
    for entry in fs::read_dir(sample("good")).expect("samples") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        assert!(name.contains(".weights") || GOOD.iter().any(|(known, ..)| *known == name), "{name}");
    }
}

#[test]
fn broken_samples_are_refused_with_one_clear_line() {
    let expected = fs::read_to_string(sample("messages.txt")).expect("what is expected");
    let directory = format!("{}/", sample("broken").display());
    let mut names: Vec<_> = fs::read_dir(sample("broken"))
        .expect("samples")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|name| !name.contains(".weights"))
        .collect();
    names.sort();
    for parts in 1..=5 {
        let message = |name: &String| read(&[sample("broken").join(name)], parts).expect_err(name).to_string();
        let messages: Vec<_> = names.iter().map(|name| message(name).replace(&directory, "")).collect();
        assert_eq!(messages, expected.lines().collect::<Vec<_>>(), "in {parts} parts");
    }
}

#[test]
fn lines_of_errors_are_those_of_the_file_whoever_reads_them() {
    let directory = scratch("lines");
    let path = directory.join("edges.txt");
    let text: String =
        (1..=10_000).map(|line| if line == 7654 { "x\n".into() } else { format!("{line} 1\n") }).collect();
    fs::write(&path, text).expect("it is written");
    for parts in 1..=7 {
        let error = read(std::slice::from_ref(&path), parts).expect_err("line 7654").to_string();
        assert_eq!(error, format!("{}:7654: `x` is no vertex: expected a whole number", path.display()));
    }
    fs::remove_dir_all(directory).expect("it is there");
}

#[test]
fn many_files_are_read_as_one() {
    let names = ["good/plain.txt", "good/empty.edges", "good/edges.el.gz", "good/table.tsv", "good/edges.el.gz"];
    let paths = names.map(sample);
    let mut expected: Vec<_> =
        paths.iter().flat_map(|path| read(std::slice::from_ref(path), 1).expect("good")).collect();
    expected.sort_by_key(|edge| (edge.0, edge.1));
    for parts in 1..=9 {
        assert_eq!(read(&paths, parts).as_ref(), Ok(&expected), "{parts}");
    }
}

#[test]
fn compressed_files_go_to_parts_in_turn() {
    let path = sample("good/edges.el.gz");
    let counts = |count: usize, parts: usize| {
        let files = EdgeFiles::open(&vec![path.clone(); count], None).expect("good");
        (0..parts).map(|index| part(&files, index, parts).expect("good").len()).collect::<Vec<_>>()
    };
    assert_eq!(counts(1, 3), [4, 0, 0]);
    assert_eq!(counts(5, 3), [8, 8, 4]);
}

#[test]
fn files_that_do_not_belong_together() {
    let refused = |names: &[&str]| {
        let paths: Vec<_> = names.iter().map(|name| sample("good").join(name)).collect();
        let directory = format!("{}/", sample("good").display());
        EdgeFiles::open(&paths, None).expect_err("they differ").to_string().replace(&directory, "")
    };
    for (names, message) in [
        (["plain.txt", "roads.gr"], "roads.gr: its format is dimacs, but that of plain.txt is text"),
        (["plain.txt", "weights.wel"], "weights.wel: its edges have weights, but those of plain.txt have none"),
        (["weights.wel", "plain.txt"], "plain.txt: its edges have no weights, but those of weights.wel have some"),
        (["roads.gr", "roads.gr.gz"], "roads.gr.gz: it has 3 vertices, but roads.gr has 6"),
    ] {
        assert_eq!(refused(&names), message);
    }
    let files = EdgeFiles::open(&[sample("good/plain.txt")], None).expect("good");
    assert_eq!(part(&files, 3, 3).expect_err("too many").to_string(), "there is no part 3 of 3");
    let twice = [sample("good/roads.gr"), sample("good/roads.gr")];
    assert_eq!((read(&twice, 1).map(|edges| edges.len()), read(&twice, 4).map(|edges| edges.len())), (Ok(14), Ok(14)));
    let few = EdgeFiles::open(&[sample("broken/few.gr")], None).expect("its header is valid");
    assert!(
        part(&few, 0, 1).is_err() && part(&few, 0, 2).is_ok(),
        "only a part with all of a file can check the count"
    );
    let twice = EdgeFiles::open(&twice, None).expect("good");
    assert!(
        twice.check_edge_count(13).expect_err("one less").to_string().ends_with("14 edges together, but there are 13")
    );
}

#[test]
fn formats_can_be_given() {
    let files =
        EdgeFiles::open(&[sample("broken/unknown.xyz")], Some(InputFormat::Text)).expect("text under another name");
    assert_eq!((part(&files, 0, 1).expect("good").len(), files.format()), (1, InputFormat::Text));
}

#[test]
fn lines_may_be_longer_than_any_buffer_where_a_line_is_a_vertex() {
    let directory = scratch("hub");
    let path = directory.join("star.graph");
    let leaves = 200_000;
    let mut text = format!("{} {leaves}\n", leaves + 1);
    (2..=leaves + 1).for_each(|leaf| text.push_str(&format!("{leaf} ")));
    text.push('\n');
    text.push_str(&"1\n".repeat(leaves));
    fs::write(&path, &text).expect("it is written");
    let expected = read(std::slice::from_ref(&path), 1).expect("good");
    assert_eq!((expected.len(), expected[leaves - 1], expected[leaves]), (2 * leaves, (1, 200_001, 1.0), (2, 1, 1.0)));
    for parts in [2, 3, 50] {
        assert!(read(std::slice::from_ref(&path), parts).as_ref() == Ok(&expected), "{parts}");
    }
    let path = directory.join("line.txt");
    for (length, is_good) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        fs::write(&path, format!("1 2\n#{}\n3 4\n", " ".repeat(length - 1))).expect("it is written");
        for parts in [1, 3, 7] {
            let refused = format!("{}:2: a line of more than 1048576 bytes", path.display());
            let outcome =
                read(std::slice::from_ref(&path), parts).map(|edges| edges.len()).map_err(|error| error.to_string());
            assert_eq!(outcome, if is_good { Ok(2) } else { Err(refused) }, "{parts}");
        }
    }
    fs::remove_dir_all(directory).expect("it is there");
}
