//! Compressed files, whose lines ranks hand each other.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use treepie_graph::{BuildOptions, EdgeFiles, Error, Graph};

use super::{Scratch, local_adjacency, merged};
use crate::worlds::{launch, simulate};

const VERTICES: u64 = 40_000;

/// A cycle with chords: each vertex, its two successors, and a weight.
fn edges() -> impl Iterator<Item = (u64, u64, u64)> {
    (0..VERTICES)
        .flat_map(|vertex| [1, 1 + vertex * vertex % 9973].map(|step| (vertex, (vertex + step) % VERTICES, step)))
}

/// The same graph, symmetric, in all formats of lines; some blocks of text each.
fn texts() -> [(&'static str, String); 4] {
    let list: String = edges().map(|(from, to, weight)| format!("{} {} {weight}\n", from + 1, to + 1)).collect();
    let mut neighbors = vec![Vec::new(); VERTICES as usize];
    for (from, to, weight) in edges() {
        neighbors[from as usize].push((to + 1, weight));
        neighbors[to as usize].push((from + 1, weight));
    }
    let row = |row: &Vec<(u64, u64)>| {
        let comment = if row.len() % 4 == 1 { "% a comment\n" } else { "" };
        let row: Vec<String> = row.iter().map(|(to, weight)| format!("{to} {weight}")).collect();
        format!("{comment}{}\n", row.join("  "))
    };
    let rows: String = neighbors.iter().map(row).collect();
    let count = 2 * VERTICES;
    [
        ("txt", format!("# all of them\n{list}")),
        ("mtx", format!("%%MatrixMarket matrix coordinate integer symmetric\n{VERTICES} {VERTICES} {count}\n{list}")),
        (
            "gr",
            format!("p sp {VERTICES} {count}\n{}", list.lines().map(|line| format!("a {line}\n")).collect::<String>()),
        ),
        ("graph", format!("{VERTICES} {count} 1\n{rows}")),
    ]
}

fn compress(path: &PathBuf, text: &[u8]) {
    let mut file = GzEncoder::new(File::create(path).unwrap(), Compression::fast());
    file.write_all(text).unwrap();
    file.finish().unwrap();
}

fn open(paths: &[PathBuf]) -> EdgeFiles {
    EdgeFiles::open(paths, None).unwrap()
}

#[test]
fn lines_that_are_handed_out_make_the_same_graph() {
    let scratch = Scratch::new("compressed");
    for (extension, text) in texts() {
        let options = BuildOptions { symmetrize: matches!(extension, "txt" | "gr"), ..BuildOptions::default() };
        let [plain, compressed] = ["", ".gz"].map(|more| scratch.0.join(format!("graph.{extension}{more}")));
        fs::write(&plain, &text).unwrap();
        compress(&compressed, text.as_bytes());
        let expected =
            merged(launch(1, |comm| local_adjacency(&comm, &open(std::slice::from_ref(&plain)), &options).unwrap()));
        assert_eq!(expected.len() as u64, VERTICES, "{extension}");
        let compressed = [compressed];
        for ranks in [1, 2, 3, 5] {
            let found = merged(launch(ranks, |comm| local_adjacency(&comm, &open(&compressed), &options).unwrap()));
            assert!(found == expected, "{extension} on {ranks} ranks");
        }
        simulate(3, 7, |comm| {
            let arcs = Graph::build_with(&comm, &open(&compressed), &options).unwrap().num_arcs();
            assert_eq!(arcs, 4 * VERTICES, "{extension}");
        });
    }
}

#[test]
fn several_files_are_decompressed_at_once() {
    let scratch = Scratch::new("several");
    let all = merged_text(&scratch);
    let expected = merged(launch(1, |comm| local_adjacency(&comm, &open(&all[..1]), &options()).unwrap()));
    for ranks in [1, 2, 3, 4, 7] {
        let found = merged(launch(ranks, |comm| local_adjacency(&comm, &open(&all[1..]), &options()).unwrap()));
        assert!(found == expected, "{ranks} ranks");
    }
}

fn options() -> BuildOptions {
    BuildOptions { symmetrize: true, ..BuildOptions::default() }
}

/// A list, and files with parts of it, the second one not compressed.
fn merged_text(scratch: &Scratch) -> Vec<PathBuf> {
    let [(_, text), ..] = texts();
    let mut paths = vec![scratch.0.join("all.txt")];
    fs::write(&paths[0], &text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (part, lines) in lines.chunks(lines.len() / 4 + 1).enumerate() {
        let text = lines.join("\n");
        let path = scratch.0.join(if part == 1 { "1.txt".to_owned() } else { format!("{part}.txt.gz") });
        if part == 1 {
            fs::write(&path, text).unwrap()
        } else {
            compress(&path, text.as_bytes())
        }
        paths.push(path);
    }
    paths
}

/// The error is that of the file, on all ranks, and no rank waits for lines that nobody hands out.
#[test]
fn broken_files_are_refused_by_all() {
    let scratch = Scratch::new("broken");
    let [(_, text), (_, matrix), _, (_, rows)] = texts();
    let path = |name: &str| scratch.0.join(name);
    let line = text.lines().position(|line| line.starts_with("30000 ")).unwrap() + 1;
    compress(&path("line.txt.gz"), text.replacen("\n30000 ", "\nx ", 1).as_bytes());
    compress(&path("count.mtx.gz"), matrix.replacen(" 80000\n", " 80001\n", 1).as_bytes());
    compress(&path("rows.graph.gz"), &rows.as_bytes()[..=rows[..rows.len() / 2].rfind('\n').unwrap()]);
    compress(&path("end.txt.gz"), text.as_bytes());
    let mut bytes = fs::read(path("end.txt.gz")).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(path("end.txt.gz"), &bytes).unwrap();
    let refusals = [
        ("line.txt.gz", format!("line.txt.gz:{line}: `x` is no vertex: expected a whole number")),
        ("count.mtx.gz", "count.mtx.gz:2: 80001 entries are declared here, but there are 80000".to_owned()),
        ("rows.graph.gz", "rows.graph.gz:1: 40000 vertices are declared here, but there are lines for".to_owned()),
        ("end.txt.gz", "end.txt.gz: it cannot be decompressed".to_owned()),
    ];
    for (name, message) in refusals {
        for ranks in [1, 2, 4] {
            let files = open(&[path(name)]);
            let errors = launch(ranks, |comm| match Graph::build_with(&comm, &files, &options()) {
                Err(Error::Comm(error)) => panic!("{error}"),
                other => other.map(|graph| graph.num_arcs()).expect_err("it is broken").to_string(),
            });
            let first = errors[0].replace(&format!("{}/", scratch.0.display()), "");
            assert!(first.starts_with(&message), "{first}");
            assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        }
    }
}
