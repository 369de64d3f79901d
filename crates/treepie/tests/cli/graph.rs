//! `treepie graph` and `treepie bench graph`.

use std::fs;

use serde_json::{Value, json};

use super::{Scratch, out, refused, run, succeeds};

/// Two triangles with a bridge between them, and a vertex far away: names are no consecutive numbers.
const EDGES: &str = "# a graph\n10 20 1.5\n20 30 1\n30 10 0.25\r\n30 40 2\n40 50 1\n50 60 1\n60 40 1\n7 8 1\n";

fn file(name: &str, text: &str) -> (Scratch, String) {
    let scratch = Scratch::new();
    let path = format!("{}.{name}", scratch.path());
    fs::write(&path, text).unwrap();
    (scratch, path)
}

fn record(arguments: &[&str]) -> Value {
    let scratch = Scratch::new();
    succeeds(run(&[&["graph"], arguments, &["--json", scratch.path()]].concat()));
    scratch.lines().swap_remove(0)
}

#[test]
fn mistakes_are_one_line() {
    let (_scratch, path) = file("txt", "1 2\n3 x\n");
    let cases: &[(&[&str], &str)] = &[
        (&["bfs"], "no graph"),
        (&["bfs", "--kronecker", "10", "--grid", "3x3"], "more than one graph"),
        (&["bfs", "/no/such/file.txt"], "/no/such/file.txt"),
        (&["walk", "--kronecker", "10"], "'walk'"),
        (&["bfs", "--kronecker", "many"], "many"),
        (&["bfs", "--kronecker", "10", "--method", "pull"], "direction, messages, exchange"),
        (&["sssp", "--kronecker", "10", "--method", "pull"], "one way"),
        (&["cc", "--kronecker", "10", "--root", "3"], "cc has no roots"),
        (&["bfs", "--kronecker", "10", "--root", "1024"], "no vertex 1024 among the 1024"),
        (&["sssp", "--kronecker", "10", "--delta", "0"], "--delta"),
        (&["bfs", "--kronecker", "10", "--config", "routing=cube"], "direct, rook"),
        (&["cc", "--kronecker", "10", "--graph500"], "Graph 500"),
        (&["cc", &path], ":2: "),
        (&["cc", "--kronecker", "10", "--weighted"], "--weighted"),
        (&["bfs", "--kronecker", "10", "-o", "levels.xls"], "levels.xls"),
        (&["bfs", "--kronecker", "10", "--json", "/no/such/place"], "/no/such/place"),
    ];
    for (arguments, named) in cases {
        for ranks in ["1", "2"] {
            let arguments = [&["graph"], *arguments, &["-n", ranks]].concat();
            assert_eq!(out(&refused(&arguments, named)), "", "{arguments:?}");
        }
    }
}

#[test]
fn a_file_is_answered_in_its_own_names() {
    let (_scratch, path) = file("txt", EDGES);
    for ranks in ["1", "3"] {
        let levels = Scratch::new();
        let output = format!("{}.csv", levels.path());
        let asked = ["bfs", &path, "--symmetrize", "--root", "10", "-n", ranks, "--verify", "-o", &output];
        let found = record(&asked);
        assert_eq!(found["result"], json!({"reached": 6, "level_sizes": [1, 2, 1, 2]}));
        assert_eq!((&found["case"].as_str().unwrap()[..10], &found["verified"]), ("graph/bfs/", &json!(true)));
        let written = fs::read_to_string(&output).unwrap();
        assert_eq!(written, "vertex,level\n7,-1\n8,-1\n10,0\n20,1\n30,1\n40,2\n50,3\n60,3\n");

        let ways = record(&["sssp", &path, "--symmetrize", "--root", "20", "-n", ranks, "--verify"]);
        assert_eq!((&ways["result"]["reached"], &ways["result"]["max"]), (&json!(6), &json!(4.0)));
        let parts = record(&["cc", &path, "--symmetrize", "-n", ranks, "--verify", "--method", "hooking"]);
        assert_eq!(parts["result"], json!({"components": 2, "largest": 6}));
        let reached = record(&["reach", &path, "--root", "40", "-n", ranks, "--verify"]);
        assert_eq!(reached["result"], json!({"reached": 3}));
        let strong = record(&["scc", &path, "-n", ranks, "--verify"]);
        assert_eq!(strong["result"], json!({"components": 4, "largest": 3}));
        let between = record(&["bc", &path, "--symmetrize", "-n", ranks, "--verify"]);
        // All ways between the triangles lead over the ends of the bridge: 2 vertices before each, 3 behind.
        assert_eq!(between["result"]["top"][0], json!([30, 6.0]));
        assert_eq!(between["result"]["top"][1], json!([40, 6.0]));
        assert_eq!(between["result"]["top"][2][1], json!(0.0));
        let weighted = record(&["bc", &path, "--symmetrize", "--weighted", "-n", ranks, "--verify", "--root", "10"]);
        assert_eq!(weighted["result"]["sources"], json!(1));
        let scores = record(&["pagerank", &path, "-n", ranks, "--verify", "--iterations", "50"]);
        assert_eq!(scores["result"]["top"].as_array().unwrap().len(), 8);
        assert_eq!(scores["result"]["top"][0][0], json!(40));
    }
}

#[test]
fn the_benchmark_prints_what_it_must() {
    let shown = succeeds(run(&["graph", "bfs", "--kronecker", "10", "--graph500", "-n", "2"]));
    let line =
        |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {shown}"));
    for (name, value) in [("SCALE:", "10"), ("edgefactor:", "16"), ("NBFS:", "64"), ("bfs median_nedge:", "16239")] {
        assert!(line(name).ends_with(&format!(" {value}")), "{shown}");
    }
    for name in ["construction_time:", "bfs firstquartile_time:", "bfs harmonic_mean_TEPS:", "bfs max_validate:"] {
        line(name);
    }
}

#[test]
fn styles_and_settings_do_not_change_the_result() {
    let asked = ["bfs", "--kronecker", "10", "--roots", "2", "-n", "3", "--verify", "--method", "messages"];
    let usual = record(&asked);
    for more in [
        &["--style", "bsp"][..],
        &["--config", "routing=rook,reductions=64"],
        &["--ghosts", "--distribution", "hashed"],
    ] {
        let other = record(&[&asked[..], more].concat());
        let results =
            |of: &Value| of["roots"].as_array().unwrap().iter().map(|root| root["result"].clone()).collect::<Vec<_>>();
        assert_eq!(results(&other), results(&usual), "{more:?}");
    }
}

#[test]
fn sides_of_the_benchmark_agree() {
    let scratch = Scratch::new();
    let asked = ["bench", "graph", "--scale", "8", "--repeat", "2", "-n", "1,3", "--json", scratch.path()];
    let shown = succeeds(run(&asked));
    assert!(
        ["bfs", "pagerank", "cc", "sssp"].iter().all(|kernel| shown.contains(&format!("{kernel:<10} plain"))),
        "{shown}"
    );
    let records = scratch.lines();
    assert_eq!(records.len(), 8);
    assert!(records.iter().all(|record| record["ratio"].as_f64().unwrap() > 0.0));
    refused(&["bench", "graph", "--kernels", "walk"], "walk");
}

#[test]
fn graphs_that_would_be_answered_wrongly_are_refused() {
    // Arcs 1 to 2 and 2 to 3, as many entries as one edge has, but none in both directions.
    let (_metis, one_way) = file("graph", "3 1\n2\n3\n\n");
    // A way that is longer than the numbers that ways are counted in.
    let (_dimacs, long) = file("gr", "p sp 3 2\na 1 2 4000000000\na 2 3 4000000000\n");
    for ranks in ["1", "3"] {
        refused(&["graph", "bfs", &one_way, "--root", "0", "-n", ranks], "in both directions");
        refused(&["graph", "sssp", &long, "--root", "0", "-n", ranks], "too long");
        let near = record(&["sssp", &long, "--root", "1", "-n", ranks, "--verify"]);
        assert_eq!(near["result"]["max"], json!(4e9));
    }
    let narrow = record(&["sssp", "--kronecker", "6", "--delta", "1e-20", "-n", "2", "--verify"]);
    let usual = record(&["sssp", "--kronecker", "6", "-n", "1"]);
    assert_eq!(narrow["result"]["sum"], usual["result"]["sum"]);
}
