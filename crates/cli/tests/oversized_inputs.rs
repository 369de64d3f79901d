//! Small inputs that declare large sizes: they are refused with one line, and need little memory until then.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary file, removed after the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(ending: &str, text: impl AsRef<[u8]>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("treepie-claims-{}-{number}.{ending}", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    /// Compressed with `gzip`: a head, a repeated part, and an end, each as members of the file.
    fn compressed(ending: &str, head: &[u8], repeated: &[u8], times: usize, end: &[u8]) -> Self {
        let [head, repeated, end] = [head, repeated, end].map(|part| {
            let plain = Self::new(ending, part);
            let gzip =
                Command::new("gzip").arg("-c").stdin(File::open(&plain.0).unwrap()).output().expect("gzip is there");
            assert!(gzip.status.success());
            gzip.stdout
        });
        Self::new(ending, [head, repeated.repeat(times), end].concat())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs the command with a limit of address space.
fn limited(megabytes: u32, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    let limited = format!("ulimit -v {}; exec \"$0\" \"$@\"", megabytes << 10);
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_treepie")]).args(arguments).envs(variables.iter().copied());
    command.stdin(Stdio::null()).output().unwrap()
}

/// The error of the command, which must fail with this limit of address space.
#[track_caller]
fn refused(megabytes: u32, variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let output = limited(megabytes, variables, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {} {stderr}", output.status);
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    stderr
}

fn path(file: &Scratch) -> &str {
    file.0.to_str().unwrap()
}

fn matrix(vertices: u64, entries: u64, symmetry: &str) -> Scratch {
    let head = format!("%%MatrixMarket matrix coordinate pattern {symmetry}\n");
    Scratch::new("mtx", format!("{head}{vertices} {vertices} {entries}\n1 2\n"))
}

#[test]
fn a_graph_that_the_algorithm_refuses_is_not_built() {
    let file = matrix(300_000_000, 1, "general");
    let stderr = refused(500, &[], &["graph", "cc", "-n", "1", path(&file), "--save", "/tmp/not-saved.tpg"]);
    assert!(stderr.contains("cc adds the reverse of each edge: say --symmetrize to save that graph"), "{stderr}");
}

#[test]
fn more_vertices_than_memory_are_an_error() {
    // The CSR offsets alone take 34 GB.
    let file = matrix(4_294_967_000, 1, "symmetric");
    for (kernel, ranks, megabytes) in [("cc", "1", 1000), ("bfs", "1", 8000), ("pagerank", "2", 4000)] {
        let stderr = refused(megabytes, &[], &["graph", kernel, "-n", ranks, path(&file)]);
        assert!(stderr.contains("not enough memory for a row for each vertex"), "{kernel}: {stderr}");
    }
}

/// There is memory for the CSR, but perhaps not for the state of the algorithm.
#[test]
fn algorithms_end_with_a_result_or_an_error() {
    let matrix = matrix(1_000_000, 1, "symmetric");
    let weighted = Scratch::new("gr", "p sp 1000000 1\na 1 2 1\n");
    let mut failed = 0;
    for kernel in ["bfs", "sssp", "cc", "pagerank", "scc", "bc", "reach", "kcore", "triangles", "mis", "info"] {
        let file = if kernel == "sssp" { &weighted } else { &matrix };
        let has_root = matches!(kernel, "bfs" | "sssp" | "bc" | "reach");
        let root: &[&str] = if has_root { &["--root", "1"] } else { &[] };
        for megabytes in [60, 75, 90, 120] {
            let output = limited(megabytes, &[], &[&["graph", kernel, "-n", "1", path(file)], root].concat());
            let stderr = String::from_utf8_lossy(&output.stderr);
            let refused = stderr.contains("not enough memory for") && stderr.lines().count() == 1;
            let is_expected = output.status.success() || output.status.code() == Some(1) && refused;
            assert!(is_expected, "{kernel} with {megabytes} MB: {} {stderr}", output.status);
            failed += u32::from(!output.status.success());
        }
    }
    assert!(failed > 0, "the limits are too high to test anything");
}

#[test]
fn counts_beyond_the_file_size_are_refused() {
    for (ending, text, what) in [
        ("mtx", "%%MatrixMarket matrix coordinate pattern general\n5 5 99999999999\n1 2\n", "99999999999 entries"),
        ("gr", "p sp 5 99999999999\na 1 2 1\n", "99999999999 arcs"),
        ("graph", "4000000000 1\n2\n1\n", "4000000000 vertices"),
        ("graph", "2 99999999999\n2\n1\n", "199999999998 neighbors"),
    ] {
        let file = Scratch::new(ending, text);
        let stderr = refused(500, &[], &["graph", "reach", "-n", "1", path(&file)]);
        let expected = format!("{what} cannot be in a file of {} bytes", text.len());
        assert!(stderr.contains(&expected), "{ending}: {stderr}");
    }
}

#[test]
fn more_edges_than_declared_are_refused() {
    // Gigabytes of edges, in one line or in many, where two are declared.
    let long = Scratch::compressed("graph.gz", b"3 2\n", &b"2 ".repeat(1 << 20), 1000, b"\n1\n\n");
    let stderr = refused(500, &[], &["graph", "cc", "-n", "1", path(&long)]);
    assert!(stderr.contains(":2: a line of more than"), "{stderr}");
    let head = b"3 2\n";
    let many = Scratch::compressed(
        "graph.gz",
        head,
        &(b"2 ".repeat(1 << 18).into_iter().chain(*b"\n").collect::<Vec<_>>()),
        3,
        b"",
    );
    let stderr = refused(500, &[], &["graph", "cc", "-n", "1", path(&many)]);
    assert!(stderr.contains(":1: 4 neighbors, two an edge, are declared here, but there are more"), "{stderr}");
    for (ending, head, line) in [
        ("mtx.gz", &b"%%MatrixMarket matrix coordinate pattern symmetric\n5 5 2\n"[..], &b"1 2\n"[..]),
        ("gr.gz", b"p sp 5 2\n", b"a 1 2 7\n"),
    ] {
        let file = Scratch::compressed(ending, head, &line.repeat(1 << 16), 1000, b"");
        let stderr = refused(500, &[], &["graph", "reach", "-n", "1", "--symmetrize", path(&file)]);
        assert!(stderr.contains("are declared here, but there are more"), "{stderr}");
    }
}

#[test]
fn truncated_saved_graphs_are_refused() {
    let mut head = b"treepie\x1a".to_vec();
    head.extend(1_u32.to_le_bytes());
    head.extend(4_u32.to_le_bytes());
    head.extend((1_u64 << 50).to_le_bytes());
    head.extend([0; 16]);
    let plain = Scratch::new("tpg", &head);
    let stderr = refused(500, &[], &["graph", "cc", "-n", "1", path(&plain)]);
    assert!(stderr.contains("it has 40 bytes, but 1125899906842624 vertices"), "{stderr}");
    // All block checksums would be read before the first is checked.
    let bomb = Scratch::compressed("tpg.gz", &head, &[0; 1 << 20], 1000, b"");
    let stderr = refused(500, &[], &["graph", "cc", "-n", "1", path(&bomb)]);
    assert!(stderr.contains("bytes cannot be in a file of"), "{stderr}");
}

#[test]
fn machines_that_are_too_large_are_an_error() {
    let simulated = |network: &[&str]| refused(1000, &[], &[&["sim", "barrier/dissemination"], network].concat());
    let stderr = simulated(&["--network", "clusters:60000x1"]);
    assert!(stderr.contains("not enough memory for the links between all clusters"), "{stderr}");
    let stderr = simulated(&["--network", "flat", "--ranks", "2000000000", "--level", "events"]);
    assert!(stderr.contains("not enough memory for the ranks of a simulated machine"), "{stderr}");
}

#[test]
fn networks_are_regular_files() {
    let expected = "cannot read the network file /dev/zero: it is not a regular file";
    let stderr = refused(500, &[], &["sim", "allreduce", "--network", "/dev/zero"]);
    assert!(stderr.contains(expected), "{stderr}");
    let stderr = refused(500, &[("TREEPIE_NETWORK", "/dev/zero")], &["graph", "cc", "-n", "1", "--kronecker", "4"]);
    assert!(stderr.contains(expected), "{stderr}");
    assert!(Path::new("/dev/zero").exists());
}

#[test]
fn short_network_descriptions_need_little_memory() {
    let stderr = refused(100, &[], &["sim", "allreduce", "--network", "torus:2x2@0-4194303"]);
    assert!(stderr.contains("rank 4 is at node 4, but the network has nodes 0 to 3"), "{stderr}");
    for text in ["torus:2x2@0-67108863", "torus:2x2@0-3+0-4194303+0-4194303", "clusters:67108864x1"] {
        let stderr = refused(100, &[], &["sim", "allreduce", "--network", text]);
        assert!(stderr.contains("is not a network: expected"), "{stderr}");
    }
    // Two lists of 16 MB each, and a table of 64 MB or more, which does not fit.
    let stderr = refused(100, &[], &["sim", "allreduce", "--network", "flat:4194304@0-4194303"]);
    assert!(stderr.contains("cannot allocate a list of 4194304 nodes"), "{stderr}");
}
