//! `treepie graph` and `treepie bench graph`.

use std::fs;

use serde_json::{Value, json};

use super::{Scratch, out, refused, run, succeeds};

/// Two triangles with a bridge between them, and a separate edge; the vertex ids are not consecutive.
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
        (&["sssp", "--kronecker", "10", "--method", "pull"], "only one method"),
        (&["cc", "--kronecker", "10", "--root", "3"], "cc has no roots"),
        (&["bfs", "--kronecker", "10", "--root", "1024"], "no vertex 1024 among the 1024"),
        (&["sssp", "--kronecker", "10", "--delta", "0"], "--delta"),
        (&["sssp", "--kronecker", "10", "--config", "routing=cube"], "direct, rook"),
        (
            &["bfs", "--kronecker", "10", "--style", "bsp"],
            "--style is for active messages, which bfs by direction does not send",
        ),
        (&["cc", "--kronecker", "10", "--graph500"], "Graph 500"),
        (&["cc", &path, "--symmetrize"], ":2: "),
        (&["cc", "--kronecker", "10", "--weighted"], "--weighted"),
        (&["bfs", "--kronecker", "10", "--split", "0"], "--split"),
        (
            &["bfs", "--kronecker", "10", "--split", "9", "--method", "exchange"],
            "bfs by exchange does not support split vertices",
        ),
        (&["cc", "--kronecker", "10", "--split", "9"], "cc does not support split vertices"),
        (&["scc", "--kronecker", "10", "--split", "9"], "without --split"),
        (&["bfs", "--kronecker", "10", "-o", "levels.xls"], "levels.xls"),
        (&["bfs", "--kronecker", "10", "--json", "/no/such/place"], "/no/such/place"),
        (&["cc", "--kronecker", "10", "--save", "saved.txt"], "saved.txt: --save needs a .tpg file name"),
        (&["cc", "--kronecker", "10", "--save", "/no/such/saved.tpg"], "/no/such/saved.tpg: No such file"),
        (&["cc", "--kronecker", "10", "--partition", "/no/such/parts"], "/no/such/parts: no such file"),
        (&["cc", "--kronecker", "10", "--partition", &path, "--distribution", "cyclic"], "cannot be used with"),
        (&["cc", "--kronecker", "10", "--partition", &path], ":1: `2` after the part"),
    ];
    for (arguments, named) in cases {
        for ranks in ["1", "2"] {
            let arguments = [&["graph"], *arguments, &["-n", ranks]].concat();
            assert_eq!(out(&refused(&arguments, named)), "", "{arguments:?}");
        }
    }
}

#[test]
fn results_have_the_external_ids_of_the_file() {
    let (_scratch, path) = file("txt", EDGES);
    for ranks in ["1", "3"] {
        let levels = Scratch::new();
        let output = format!("{}.csv", levels.path());
        let arguments = ["bfs", &path, "--symmetrize", "--root", "10", "-n", ranks, "--verify", "-o", &output];
        let found = record(&arguments);
        assert_eq!(found["result"], json!({"reached": 6, "level_sizes": [1, 2, 1, 2]}));
        assert_eq!((&found["case"].as_str().unwrap()[..10], &found["verified"]), ("graph/bfs/", &json!(true)));
        let written = fs::read_to_string(&output).unwrap();
        assert_eq!(written, "vertex,level\n7,-1\n8,-1\n10,0\n20,1\n30,1\n40,2\n50,3\n60,3\n");

        let paths = record(&["sssp", &path, "--symmetrize", "--root", "20", "-n", ranks, "--verify"]);
        assert_eq!((&paths["result"]["reached"], &paths["result"]["max"]), (&json!(6), &json!(4.0)));
        let components = record(&["cc", &path, "--symmetrize", "-n", ranks, "--verify", "--method", "hooking"]);
        assert_eq!(components["result"], json!({"components": 2, "largest": 6}));
        let reached = record(&["reach", &path, "--root", "40", "-n", ranks, "--verify"]);
        assert_eq!(reached["result"], json!({"reached": 3}));
        let strong = record(&["scc", &path, "-n", ranks, "--verify"]);
        assert_eq!(strong["result"], json!({"components": 4, "largest": 3}));
        let between = record(&["bc", &path, "--symmetrize", "-n", ranks, "--verify"]);
        // All shortest paths between the triangles cross both ends of the bridge: 2 vertices on one side, 3 on the
        // other.
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
fn graph500_output_has_the_required_lines() {
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
    let arguments = ["bfs", "--kronecker", "10", "--roots", "2", "-n", "3", "--verify", "--method", "messages"];
    let usual = record(&arguments);
    for more in [
        &["--style", "bsp"][..],
        &["--config", "routing=rook,reductions=64"],
        &["--ghosts", "--distribution", "hashed"],
    ] {
        let other = record(&[&arguments[..], more].concat());
        let results =
            |of: &Value| of["roots"].as_array().unwrap().iter().map(|root| root["result"].clone()).collect::<Vec<_>>();
        assert_eq!(results(&other), results(&usual), "{more:?}");
    }
}

#[test]
fn saved_graphs_are_the_same_on_other_ranks() {
    let (_scratch, path) = file("txt", EDGES);
    let place = Scratch::new();
    let saved = format!("{}.tpg", place.path());
    // Weights are saved too, although components do not need them.
    for (writers, readers) in [("3", "1"), ("1", "2"), ("2", "3")] {
        record(&["cc", &path, "--symmetrize", "-n", writers, "--save", &saved]);
        let output = format!("{}.csv", place.path());
        let levels = record(&["bfs", &saved, "--root", "10", "-n", readers, "--verify", "-o", &output]);
        assert_eq!(levels["result"], json!({"reached": 6, "level_sizes": [1, 2, 1, 2]}));
        let written = fs::read_to_string(&output).unwrap();
        assert_eq!(written, "vertex,level\n7,-1\n8,-1\n10,0\n20,1\n30,1\n40,2\n50,3\n60,3\n");
        let paths = record(&["sssp", &saved, "--root", "20", "-n", readers, "--verify", "--save", &saved]);
        assert_eq!((&paths["result"]["reached"], &paths["result"]["max"]), (&json!(6), &json!(4.0)));
        fs::remove_file(output).unwrap();
    }
    let usual =
        record(&["bfs", "--kronecker", "8", "--root", "3", "-n", "2", "--save", &saved, "--distribution", "hashed"]);
    let again = record(&["bfs", &saved, "--root", "3", "-n", "3", "--verify"]);
    assert_eq!((&usual["result"], &usual["graph"]["arcs"]), (&again["result"], &again["graph"]["arcs"]));
    // Split vertices are unsplit in a file.
    let whole = fs::read(&saved).unwrap();
    record(&["sssp", "--kronecker", "8", "-n", "3", "--save", &saved, "--split", "20"]);
    assert!(fs::read(&saved).unwrap() == whole, "the same file");

    let mut bytes = fs::read(&saved).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&saved, &bytes).unwrap();
    for ranks in ["1", "3"] {
        refused(&["graph", "cc", &saved, "-n", ranks], "the checksum differs");
    }
    fs::write(&saved, &bytes[..1000]).unwrap();
    refused(&["graph", "cc", &saved, "-n", "2"], "it has 1000 bytes, but 256 vertices");
    fs::remove_file(saved).unwrap();
}

#[test]
fn a_partition_file_distributes_the_vertices() {
    let text: String = (0..256).map(|vertex| format!("{}\n", vertex * 7 % 5)).collect();
    let (_scratch, parts) = file("part", &text);
    // Buckets depend on message timing, and sums on the order of additions.
    let result = |of: &Value| {
        let mut result = of["result"].clone();
        result.as_object_mut().unwrap().retain(|name, _| name != "buckets" && name != "sum");
        (of["root"].clone(), result)
    };
    let results = |of: &Value| {
        let roots = of["roots"].as_array().map_or(&[][..], |roots| roots);
        roots.iter().chain([of]).map(result).collect::<Vec<_>>()
    };
    for arguments in [&["bfs", "--roots", "3"][..], &["sssp"], &["cc"], &["scc"], &["reach"]] {
        let arguments = [arguments, &["--kronecker", "8", "-n", "3", "--verify"]].concat();
        let (usual, other) = (record(&arguments), record(&[&arguments[..], &["--partition", &parts]].concat()));
        assert_eq!(results(&other), results(&usual), "{arguments:?}");
        assert!(other["graph"]["source"].as_str().unwrap().contains(&parts), "{other}");
    }
    let (_short, short) = file("part", "0\n1\n2\n");
    for ranks in ["1", "3"] {
        refused(
            &["graph", "cc", "--kronecker", "8", "-n", ranks, "--partition", &short],
            ":3: the last line, but there are 256",
        );
    }
}

#[test]
fn split_vertices_do_not_change_the_result() {
    let arguments: &[&[&str]] = &[
        &["bfs", "--roots", "2", "--verify", "--method", "messages"],
        &["sssp", "--roots", "2", "--verify", "--delta", "0.1"],
        &["reach", "--verify"],
        &["pagerank", "--verify", "--iterations", "9", "--method", "pull"],
        &["pagerank", "--verify", "--iterations", "9", "--method", "push", "--directed"],
    ];
    for arguments in arguments {
        let arguments = [*arguments, &["--kronecker", "10", "-n", "4"]].concat();
        let whole = record(&arguments);
        assert_eq!(whole["graph"]["hubs"], json!(0));
        for style in ["am", "bsp"] {
            let sends = !arguments.contains(&"pull");
            let style_option = if sends { &["--style", style][..] } else { &[] };
            let split = record(&[&arguments[..], &["--split", "100"], style_option].concat());
            assert!(split["graph"]["hubs"].as_u64().unwrap() > 10, "{split}");
            assert_eq!(split["graph"]["arcs"], whole["graph"]["arcs"]);
            assert_eq!(rounded(&split["result"]), rounded(&whole["result"]), "{arguments:?}, {style}");
            let edges = |of: &Value| {
                let roots = of["roots"].as_array().cloned().unwrap_or_default();
                roots.iter().map(|root| root["edges"].clone()).collect::<Vec<_>>()
            };
            assert_eq!(edges(&split), edges(&whole), "{arguments:?}");
        }
    }
    // The default method is one that supports it.
    let default = record(&["bfs", "--kronecker", "10", "-n", "2", "--split", "100"]);
    assert_eq!(default["method"], json!("messages"));
    // In a star, one rank has half of all arcs.
    let (_scratch, star) = file("txt", &(1..4000).map(|leaf| format!("0 {leaf}\n")).collect::<String>());
    let rows = |more: &[&str]| {
        let arguments = ["bfs", &star, "--symmetrize", "--method", "messages", "--root", "5", "--verify", "-n", "4"];
        let found = record(&[&arguments[..], more].concat());
        assert_eq!(found["result"]["level_sizes"], json!([1, 1, 3998]));
        found["graph"]["rows_bytes"].as_u64().unwrap()
    };
    let (whole, split) = (rows(&[]), rows(&["--split", "2"]));
    assert!(split + 4 * 2900 < whole, "{split} bytes, {whole} without");
}

/// A result with rounded numbers, independent of the order of additions.
fn rounded(result: &Value) -> Value {
    match result {
        Value::Number(number) if number.is_f64() => json!(format!("{:.5e}", number.as_f64().unwrap())),
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), rounded(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn sides_of_the_benchmark_agree() {
    let scratch = Scratch::new();
    let arguments = ["bench", "graph", "--scale", "8", "--repeat", "2", "-n", "1,3", "--json", scratch.path()];
    let shown = succeeds(run(&arguments));
    assert!(
        ["bfs", "pagerank", "cc", "sssp"].iter().all(|kernel| shown.contains(&format!("{kernel:<10} serial"))),
        "{shown}"
    );
    let records = scratch.lines();
    assert_eq!(records.len(), 8);
    assert!(records.iter().all(|record| record["ratio"].as_f64().unwrap() > 0.0));
    refused(&["bench", "graph", "--kernels", "walk"], "walk");
}

#[test]
fn component_labels_do_not_depend_on_the_distribution() {
    let (_scratch, path) = file("txt", EDGES);
    let place = Scratch::new();
    let output = format!("{}.csv", place.path());
    let written = |arguments: &[&str]| {
        record(&[arguments, &["-o", &output]].concat());
        let written = fs::read_to_string(&output).unwrap();
        fs::remove_file(&output).unwrap();
        written
    };
    for kernel in ["cc", "scc"] {
        let usual = written(&[kernel, "--kronecker", "6", "-n", "1"]);
        let gaps = written(&[kernel, &path, "--symmetrize", "-n", "1"]);
        assert!(gaps.contains("\n60,10\n") && gaps.contains("\n8,7\n"), "{gaps}");
        for ranks in ["2", "3"] {
            assert_eq!(written(&[kernel, &path, "--symmetrize", "-n", ranks]), gaps, "{kernel} on {ranks}");
            for how in ["block", "cyclic", "hashed"] {
                let found = written(&[kernel, "--kronecker", "6", "-n", ranks, "--distribution", how]);
                assert_eq!(found, usual, "{kernel} on {ranks}, {how}");
            }
        }
    }
}

#[test]
fn graphs_with_wrong_results_are_refused() {
    // Arcs 1 to 2 and 2 to 3: two entries, as for one edge, but neither has its reverse.
    let (_metis, one_way) = file("graph", "3 1\n2\n3\n\n");
    // A path whose length overflows the distance type.
    let (_dimacs, long) = file("gr", "p sp 3 2\na 1 2 4000000000\na 2 3 4000000000\n");
    let (_text, far) = file("txt", "0 1 3e38\n1 2 3e38\n");
    for ranks in ["1", "3"] {
        refused(&["graph", "sssp", &far, "--root", "0", "-n", ranks], "too long");
        refused(&["graph", "bfs", &one_way, "--root", "1", "-n", ranks], "in both directions");
        refused(&["graph", "sssp", &long, "--root", "1", "-n", ranks], "too long");
        let near = record(&["sssp", &long, "--root", "2", "-n", ranks, "--verify"]);
        assert_eq!(near["result"]["max"], json!(4e9));
    }
    let narrow = record(&["sssp", "--kronecker", "6", "--delta", "1e-20", "-n", "2", "--verify"]);
    let usual = record(&["sssp", "--kronecker", "6", "-n", "1"]);
    assert_eq!(narrow["result"]["sum"], usual["result"]["sum"]);
}
