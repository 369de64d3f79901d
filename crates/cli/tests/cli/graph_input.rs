//! Input as people have it, and output as they want it: vertex ids of the file, pipes, columns, standard output.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::{Scratch, err, out, refused, run, succeeds, treepie};

fn file(name: &str, text: &str) -> (Scratch, String) {
    let scratch = Scratch::new();
    let path = format!("{}.{name}", scratch.path());
    fs::write(&path, text).unwrap();
    (scratch, path)
}

/// Runs it with this standard input.
fn with_input(arguments: &[&str], text: &str) -> Output {
    let mut command = treepie(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// A chain of four vertices, 1 to 4.
const ROADS: &str = "p sp 4 6\na 1 2 5\na 2 1 5\na 2 3 7\na 3 2 7\na 3 4 1\na 4 3 1\n";

#[test]
fn vertices_have_the_ids_of_the_file() {
    let matrix = "%%MatrixMarket matrix coordinate integer symmetric\n4 4 3\n2 1 5\n3 2 7\n4 3 1\n";
    let metis = "4 3 1\n2 5\n1 5 3 7\n2 7 4 1\n3 1\n";
    for (extension, text) in [("gr", ROADS), ("mtx", matrix), ("graph", metis), ("txt", "1 2 5\n2 3 7\n3 4 1\n")] {
        let (_scratch, path) = file(extension, text);
        let directed = if extension == "txt" { &["--symmetrize"][..] } else { &[] };
        for (ranks, distribution) in [("1", "block"), ("2", "cyclic"), ("3", "hashed")] {
            let arguments = ["graph", "sssp", &path, "--root", "1", "-n", ranks, "--distribution", distribution];
            let shown = succeeds(run(&[&arguments, directed, &["--verify", "-o", "-"]].concat()));
            assert_eq!(shown, "1 0.0\n2 5.0\n3 12.0\n4 13.0\n", "{extension} on {ranks} ranks");
        }
        for root in ["0", "5"] {
            let arguments = ["graph", "bfs", &path, "--root", root, "-n", "2"];
            refused(&[&arguments, directed].concat(), &format!("there is no vertex {root} among the 4 vertices"));
        }
        let components = succeeds(run(&["graph", "cc", &path, "-n", "2", "-o", "-"]));
        assert_eq!(components, "1 1\n2 1\n3 1\n4 1\n", "{extension}");
    }
}

#[test]
fn saved_graphs_keep_ids_from_1() {
    let (scratch, path) = file("gr", ROADS);
    let saved = format!("{}.tpg", scratch.path());
    succeeds(run(&["graph", "sssp", &path, "--root", "1", "--save", &saved, "--distribution", "hashed", "-n", "2"]));
    let shown = succeeds(run(&["graph", "sssp", &saved, "--root", "4", "-n", "3", "-o", "-", "--verify"]));
    assert_eq!(shown, "1 13.0\n2 8.0\n3 1.0\n4 0.0\n");
}

#[test]
fn standard_input_is_read_by_all_ranks() {
    let text: String = (0..5000).map(|vertex| format!("{vertex} {}\n", (vertex * 7 + 1) % 5000)).collect();
    for ranks in ["1", "2", "3"] {
        let shown = succeeds(with_input(&["graph", "cc", "-", "-n", ranks], &text));
        assert!(shown.contains("standard input (text)") && shown.contains("5000 vertices"), "{shown}");
    }
    let broken = with_input(&["graph", "cc", "-", "-n", "2"], "1 2\n3 x\n");
    assert_eq!(err(&broken), "treepie: standard input:2: `x` is no vertex: expected a whole number\n");
    let matrix = "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n";
    let shown =
        succeeds(with_input(&["graph", "reach", "-", "--format", "matrix-market", "-n", "2", "--root", "1"], matrix));
    assert!(shown.contains("reached 2"), "{shown}");
    refused(&["graph", "cc", "-", "-"], "standard input (`-`) can only be read once");
}

#[test]
fn a_redirected_file_is_standard_input() {
    let (_scratch, path) = file("txt", "1 2\n2 3\n");
    let input = fs::File::open(&path).unwrap();
    let output = treepie(&["graph", "cc", "/dev/stdin", "-n", "2", "-o", "-"]).stdin(input).output().unwrap();
    assert_eq!(succeeds(output), "1 1\n2 1\n3 1\n");
}

#[test]
fn pipes_are_read() {
    let script = "exec \"$0\" graph cc <(printf '1 2\\n2 3\\n') <(printf '7 8\\n' | gzip) -n 2 -o -";
    let output = Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_treepie")]).output().unwrap();
    assert_eq!(succeeds(output), "1 1\n2 1\n3 1\n7 7\n8 7\n");
}

#[test]
fn directories_are_read() {
    let (scratch, _path) = file("txt", "");
    let directory = format!("{}.parts", scratch.path());
    fs::create_dir(&directory).unwrap();
    refused(&["graph", "cc", &directory, "-n", "2"], "there are no files in this directory");
    for (name, text) in [("b.txt", "2 3\n"), ("a.txt", "1 2\n"), (".hidden", "x\n")] {
        fs::write(format!("{directory}/{name}"), text).unwrap();
    }
    let shown = succeeds(run(&["graph", "cc", &directory, "-n", "2", "-o", "-"]));
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(shown, "1 1\n2 1\n3 1\n");
}

#[test]
fn results_on_standard_output_have_it_for_themselves() {
    let output = run(&["graph", "bfs", "--grid", "3x3", "--root", "0", "-n", "2", "--json", "-"]);
    let record: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(record["result"]["reached"], 9);
    assert!(err(&output).contains("9 vertices"), "the summary: {}", err(&output));
    let output = run(&["graph", "bfs", "--grid", "3x3", "--root", "0", "-n", "2", "-q", "-o", "-"]);
    assert_eq!((out(&output).lines().count(), err(&output).as_str()), (9, ""));
    assert_eq!(succeeds(run(&["graph", "bfs", "--grid", "3x3", "--root", "0", "-n", "2", "--quiet"])), "");
}

#[test]
fn several_roots_have_a_column_each() {
    let (scratch, path) = file("txt", "10 20\n20 30\n");
    let output = format!("{}.csv", scratch.path());
    let arguments = ["graph", "bfs", &path, "--root", "10", "--root", "20", "-n", "2", "-o", &output];
    succeeds(run(&arguments));
    assert_eq!(fs::read_to_string(&output).unwrap(), "vertex,level_10,level_20\n10,0,-1\n20,1,0\n30,2,1\n");
    let arrays = format!("{}.npy", scratch.path());
    succeeds(run(&["graph", "sssp", &path, "--roots", "2", "-n", "2", "-o", &arrays]));
    let (values, ids) = (fs::read(&arrays).unwrap(), fs::read(arrays.replace(".npy", ".ids.npy")).unwrap());
    assert_eq!((values.len(), ids.len()), (128 + 8 * 2 * 3, 128 + 8 * 3));
}

#[test]
fn components_of_directed_graphs_are_weakly_connected() {
    let (_scratch, path) = file("txt", "1 2\n3 2\n4 5\n");
    for ranks in ["1", "2"] {
        let shown = succeeds(run(&["graph", "cc", &path, "-n", ranks, "--verify"]));
        assert!(shown.contains("weakly connected components") && shown.contains("components 2"), "{shown}");
        let shown = succeeds(run(&["graph", "cc", &path, "-n", ranks, "--symmetrize"]));
        assert!(!shown.contains("weakly"), "{shown}");
    }
}

#[test]
fn what_is_ignored_is_said() {
    let (_scratch, path) = file("gr", ROADS);
    let shown = succeeds(run(&["graph", "bfs", &path, "--root", "1"]));
    assert!(shown.contains("bfs does not use the weights of the edges"), "{shown}");
    let shown = succeeds(run(&["graph", "sssp", &path, "--root", "1"]));
    assert!(!shown.contains("does not use"), "{shown}");
}

#[test]
fn pagerank_that_has_not_converged_fails_unless_iterations_are_given() {
    let arguments = ["graph", "pagerank", "--kronecker", "8", "-n", "2", "--tolerance", "0"];
    let output = refused(&arguments, "pagerank has not converged: iteration 100 changed the scores by");
    assert!(out(&output).contains("iterations 100"), "{}", out(&output));
    let shown = succeeds(run(&[&arguments[..], &["--iterations", "3"]].concat()));
    assert!(shown.contains("note     pagerank has not converged"), "{shown}");
}

#[test]
fn columns_are_chosen() {
    let (_scratch, path) = file("csv", "time,who,whom,weight\n100,\"1\",2,0.5\n101,2,3,0.25\n");
    let shown = succeeds(run(&["graph", "sssp", &path, "--columns", "1,2,3", "--root", "1", "-n", "2", "-o", "-"]));
    assert_eq!(shown, "1 0.0\n2 0.5\n3 0.75\n");
    let shown = succeeds(run(&["graph", "sssp", &path, "--columns", "2,1", "--root", "3", "-n", "2", "-o", "-"]));
    assert_eq!(shown, "1 2.0\n2 1.0\n3 0.0\n");
    refused(&["graph", "cc", &path], "4 columns, but an edge has 2, or 3 with a weight; choose them (`--columns`)");
    refused(&["graph", "cc", &path, "--columns", "1,4"], ":1: 4 columns, but column 4, counted from 0, was chosen");
    refused(&["graph", "cc", &path, "--columns", "1"], "source, target and perhaps weight");
    let (_scratch, path) = file("gr", ROADS);
    refused(&["graph", "cc", &path, "--columns", "0,1"], "columns are chosen of edge lists, not of the format dimacs");
}

#[test]
fn more_questions_are_answered() {
    // Two triangles with a common edge, a tail, and a vertex that has only a loop.
    let (_scratch, path) = file("txt", "1 2\n2 3\n3 1\n3 4\n4 2\n4 5\n6 6\n");
    for ranks in ["1", "3"] {
        let ask = |kernel: &str| {
            let verify: &[&str] = if kernel == "info" { &[] } else { &["--verify"] };
            succeeds(run(&[&["graph", kernel, &path, "-n", ranks, "-o", "-"], verify].concat()))
        };
        assert_eq!(ask("kcore"), "1 2\n2 2\n3 2\n4 2\n5 1\n6 0\n");
        assert_eq!(
            ask("triangles")
                .lines()
                .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>(),
            ["1 1", "2 2", "3 2", "4 1", "5 0", "6 0"]
        );
        assert_eq!(ask("info"), "1 1\n2 1\n3 2\n4 2\n5 0\n6 1\n");
        let set = ask("mis");
        assert!(set.contains("6 1\n") && set.lines().count() == 6, "{set}");
        let shown = succeeds(run(&["graph", "info", &path, "-n", ranks]));
        for fact in ["max degree 2", "self loops 1", "isolated vertices 0", "median degree 1", "max in degree 2"] {
            assert!(shown.contains(fact), "{fact}: {shown}");
        }
        let shown = succeeds(run(&["graph", "triangles", &path, "-n", ranks]));
        assert!(shown.contains("triangles 2") && shown.contains("edges connect in both directions"), "{shown}");
    }
    refused(&["graph", "kcore", &path, "--split", "3"], "kcore does not support split vertices");
    refused(&["graph", "mis", &path, "--root", "3"], "mis has no roots");
    refused(&["graph", "info", &path, "--verify"], "info only counts: there is nothing to verify");
    refused(&["graph", "cc", &path, "--save", "/tmp/not-saved.tpg"], "say --symmetrize to save that graph");
    refused(
        &["graph", "triangles", &path, "--style", "bsp"],
        "--style is for active messages, which triangles does not",
    );
}
