//! `treepie sim`.

use std::fs;

use serde_json::Value;

use super::{Scratch, err, out, refused, run, succeeds};

#[test]
fn mistakes_are_reported_first() {
    let cases: &[(&[&str], &str)] = &[
        (&["sim", "walk"], "there is no operation walk; the operations are barrier, bcast"),
        (&["sim", "allgather"], "number of ranks is missing"),
        (&["sim", "allgather", "--network", "torus:4x4", "--ranks", "17"], "17 ranks requested"),
        (&["sim", "allgather", "--network", "torus:4x"], "torus:8x16x32"),
        (&["sim", "allgather", "--network", "/no/such/file"], "/no/such/file"),
        (&["sim", "allgather", "--network", "flat:8", "--algo", "no_such"], "no_such"),
        (&["sim", "allgather", "--network", "flat:8", "--algo", "bucket"], "torus"),
        (&["sim", "allgather", "--network", "flat:8", "--set", "alpha=-1"], "alpha must be"),
        (&["sim", "allgather", "--network", "flat:8", "--set", "beauty=1"], "beauty"),
        (&["sim", "allgather", "--network", "flat:8", "--machine", "cray"], "there are intrepid"),
        (&["sim", "allgather", "--network", "flat:8", "--bytes", "many"], "'many'"),
        (&["sim", "allgather", "--network", "flat:8", "--sweep", "bytes=8..4"], "a sweep starts at 1 byte or more"),
        (&["sim", "bcast", "--network", "flat:8", "--root", "8"], "the root is 8"),
        (&["sim", "bcast", "--network", "flat:8", "--trace", "/tmp/t.json"], "one algorithm"),
        (&["sim", "bcast", "--network", "flat:8", "--json", "/no/such/place"], "/no/such/place"),
        (&["sim", "allgather/ring", "--network", "flat:8", "--compare", "bruck"], "names an algorithm, and --compare"),
        (&["sim", "allgather", "--network", "flat:8", "--compare", "ring,no_such"], "no_such"),
        (
            &["sim", "allgather", "--network", "torus:8", "--set", "delta=1e15"],
            "delta must be at most 1e12, and is 1e15",
        ),
        (&["sim", "allgather", "--network", "torus:8", "--set", "hop=1e300"], "at most 1e6, and is 1e300"),
        (&["sim", "allgather", "--network", "torus:8", "--set", "jitter=1e300"], "jitter must be at most"),
        (&["sim", "bcast", "--network", "clusters:2x2", "--set", "wan_bandwidth=1e-13"], "at least 1e-12"),
        (&["sim", "allgather", "--network", "torus:8", "--set", "dies=8:1"], "rank 8 does not exist"),
        (&["sim", "allgather", "--network", "torus:8", "--set", "slow_rank=9:2"], "rank 9 does not exist"),
        (&["sim", "allgather", "--network", "torus:8", "--set", "slow_link=16:2"], "link 16 does not exist"),
        (&["sim", "allgather", "--network", "flat:8", "--set", "slow_link=1:2,L=1"], "slow links need link costs"),
        (&["sim", "bcast/flat", "--network", "flat:8", "--trace", "/no/such/place"], "/no/such/place"),
        (&["sim", "bcast/flat", "--network", "flat:8", "--goal", "/no/such/place"], "/no/such/place"),
        (&["sim", "bcast/flat", "--network", "flat:8", "--goal", "/"], "is a directory"),
        (&["sim", "alltoall/linear", "--network", "flat:1048576", "--goal", "/tmp/t.goal"], "8 million messages"),
        (&["sim", "alltoall/linear", "--network", "flat:1048576", "--trace", "/tmp/t.json"], "8 million messages"),
    ];
    for (arguments, named) in cases {
        assert_eq!(out(&refused(arguments, named)), "", "{arguments:?}");
    }
}

#[test]
fn failed_simulations_name_the_reason() {
    let too_long = "the simulation exceeds 53 days of virtual time";
    let cases: &[(&[&str], &str)] = &[
        (&["allgather/bruck", "--ranks", "2048", "--bytes", "1024G"], too_long),
        (&["bcast/hierarchical", "--network", "clusters:32x1", "--bytes", "1024G"], too_long),
        (&["allgather/ring", "--network", "torus:8", "--set", "dies=3:5"], "rank 3 failed at 5 us; 7 ranks wait"),
        (
            &["bcast/flat", "--network", "clusters:2x2x2", "--set", "wan_level=3:1"],
            "there is no level 3; the levels are 1 to 2",
        ),
        (&["bcast/flat", "--network", "clusters:2x2", "--set", "wan_level=1:1"], "it is for nested clusters"),
        (&["bcast/flat", "--network", "clusters:2x2+3"], "clusters:(3+5)+(8+2+2)"),
        (&["bcast/flat", "--network", "flat:8,ppn=0"], "flat:64,ppn=4"),
        (&["bcast/flat", "--network", "clusters:2x2x1", "--machine", "das"], "das has no nested clusters"),
        (&["allgather/ring", "--network", "flat:8,ppn=4", "--level", "rounds"], "hosts of several ranks"),
        (&["allgather/ring", "--network", "flat:8,ppn=4", "--level", "formula"], "there is no formula"),
        // Too many lanes to enumerate.
        (&["bcast/chain:segments=4000000000", "--network", "flat:8"], "--level events"),
        (&["alltoall/linear", "--network", "clusters:4x1024"], "--level events"),
        (&["scan/recursive_doubling", "--network", "flat:1048576", "--machine", "intrepid"], "--level events"),
        (&["allgather/ring", "--network", "flat:8", "--level", "formula", "--set", "jitter=1"], "there is no formula"),
        (
            &["allgather/ring", "--network", "flat:8", "--level", "rounds", "--set", "memory=9"],
            "lockstep rounds do not support",
        ),
        (&["allgather/bucket", "--network", "torus:4x4", "--level", "formula", "--set", "barrier=1"], "no formula"),
    ];
    for (arguments, named) in cases {
        refused(&[&["sim"], *arguments].concat(), named);
    }
}

#[test]
fn records_are_replaced_by_records_only() {
    let scratch = Scratch::new();
    let arguments = ["sim", "allgather/ring", "--network", "flat:8", "--json", scratch.path()];
    let dies = [&arguments[..], &["--set", "dies=3:5"]].concat();
    refused(&dies, "rank 3 failed");
    assert!(!fs::exists(scratch.path()).unwrap(), "nothing is left where nothing was");
    fs::write(scratch.path(), "before\n").unwrap();
    refused(&dies, "rank 3 failed");
    assert_eq!(fs::read_to_string(scratch.path()).unwrap(), "before\n");
    succeeds(run(&arguments));
    let [record] = &scratch.lines()[..] else { panic!("one record") };
    // Seven blocks of 1024 bytes come over the link of each node.
    assert_eq!((&record["messages"], &record["busiest_link_bytes"]), (&Value::from(56), &Value::from(7 * 1024)));
    assert!(record["busiest_link"].is_string(), "{record}");
    let bandwidth = 7.0 * 1024.0 / record["value"].as_f64().unwrap();
    assert!((record["bandwidth"].as_f64().unwrap() / bandwidth - 1.0).abs() < 1e-9, "{record}");
}

#[test]
fn a_sweep_of_one_size_is_written_with_that_size() {
    let (trace, goal) = (Scratch::new(), Scratch::new());
    let arguments = ["sim", "bcast/binomial", "--network", "flat:4", "--sweep", "bytes=64..64"];
    succeeds(run(&[&arguments[..], &["--trace", trace.path(), "--goal", goal.path()]].concat()));
    let trace = fs::read_to_string(trace.path()).unwrap();
    assert!(trace.contains("\"bytes\":64") && !trace.contains("1024"), "{trace}");
    let goal = fs::read_to_string(goal.path()).unwrap();
    assert!(goal.contains("send 64b to ") && !goal.contains("1024b"), "{goal}");
}

#[test]
fn parameters_are_used_and_named() {
    let shown = |arguments: &[&str]| succeeds(run(&[&["sim"], arguments].concat()));
    let by_hand = shown(&["allgather/ring", "--network", "torus:4x4", "--set", "L=5"]);
    assert!(by_hand.contains("set by hand: L 5 us, o 0 us") && !by_hand.contains("bgp"), "{by_hand}");
    let intrepid = shown(&["allgather/ring", "--network", "torus:4x4", "--machine", "intrepid", "--set", "L=5"]);
    assert!(intrepid.contains("intrepid: L 5 us, o 2.87 us"), "{intrepid}");
    // A start-up, a link of 1024 bytes and a hop, three times; the closed form does not model hops.
    let hop = shown(&["allgather/ring", "--network", "torus:4", "--set", "hop=10"]);
    let row = hop.lines().last().unwrap();
    assert!(row.contains("57.062 us") && row.ends_with('-'), "{hop}");
    // Without hops there is a closed form.
    assert!(shown(&["allgather/ring", "--network", "torus:4"]).trim_end().ends_with("27.062 us"));
    // 3/4 of 4000 bytes come from others, in three steps of a start-up and 1000 bytes.
    let scattered = shown(&["reduce_scatter/ring", "--network", "flat:4", "--bytes", "4000"]);
    assert!(scattered.contains("26.870 us         112 "), "{scattered}");
    let compared = shown(&["allgather", "--network", "torus:4x4", "--compare", "distance_halving:4,moved,ring"]);
    assert!(compared.contains("allgather/ring ") && compared.contains("distance_halving:4,moved "), "{compared}");
}

#[test]
fn a_truncated_description_of_a_network_is_refused() {
    let scratch = Scratch::new();
    fs::write(scratch.path(), "kind = \"torus\"\ndims = [8, 8").unwrap();
    let output = run(&["sim", "allgather", "--network", scratch.path()]);
    let stderr = err(&output);
    assert!(!output.status.success() && stderr.lines().count() == 1 && stderr.contains(scratch.path()), "{stderr}");
}

#[test]
fn algorithms_are_simulated_and_the_best_comes_first() {
    let scratch = Scratch::new();
    let shown =
        succeeds(run(&["sim", "allgather", "--network", "torus:4x4x4", "--bytes", "64K", "--json", scratch.path()]));
    let times: Vec<f64> = scratch.lines().iter().map(|record| record["value"].as_f64().unwrap()).collect();
    assert!(times.len() > 10 && times.is_sorted(), "{times:?}");
    assert_eq!(scratch.lines()[0]["engine"], "sim");
    // 63 steps of a start-up and 64 KiB over a link.
    let ring = scratch.lines().into_iter().find(|record| record["case"] == "allgather/ring/65536").expect("a ring");
    let right = 63.0 * (6.29 + 65536.0 / 375.0);
    assert!((ring["value"].as_f64().unwrap() / right - 1.0).abs() < 1e-8, "{ring}");
    assert!(shown.contains("allgather/bucket_k") && shown.contains("bgp: alpha 6.29 us"), "{shown}");
}

#[test]
fn a_million_ranks_and_every_level() {
    let args = ["sim", "allgather/ring", "--bytes", "1K", "--network"];
    let shown = succeeds(run(&[&args[..], &["flat:1048576"]].concat()));
    assert!(shown.contains("one rank") && shown.contains("9.4588 s"), "{shown}");
    for level in ["events", "one-rank", "rounds", "formula"] {
        let shown = succeeds(run(&[&args[..], &["flat:512", "--level", level]].concat()));
        assert!(shown.contains("4.610 ms"), "{level}: {shown}");
    }
}

#[test]
fn nested_clusters_and_hosts_are_simulated() {
    let levels = ["--set", "wan_level=1:100,wan_level_bandwidth=1:10,wan_level=2:5000,wan_level_bandwidth=2:1"];
    let broadcast = |id| {
        let arguments = ["sim", id, "--network", "clusters:2x2x2", "--bytes", "1000"];
        succeeds(run(&[&arguments[..], &levels].concat()))
    };
    // To the other site 20 + 1000 + 5000 + 20, to its other cluster 20 + 100 + 100 + 20, within it 20 + 20.
    let shown = broadcast("bcast/hierarchical");
    assert!(shown.contains("6.320 ms") && shown.contains("1000 B on level 1: 0-1"), "{shown}");
    let shown = broadcast("bcast/flat");
    assert!(shown.contains("4000 B on level 2: 0-1"), "{shown}");
    let costs = ["--set", "L=10,o=1,g=3,G=0.5,shm=1,shm_bandwidth=4", "--bytes", "9"];
    let shown = succeeds(run(&[&["sim", "scatter/flat", "--network", "flat:4,ppn=2"], &costs[..]].concat()));
    // Rank 1 is in the same host; ranks 2 and 3 are in another, and their messages leave its port 3 + 4 apart.
    assert!(shown.contains("within hosts 1 us and 4 B/us") && shown.contains("24.000 us"), "{shown}");
}

#[test]
fn sweeps_comparisons_traces_and_goal_files() {
    let (scratch, trace, goal) = (Scratch::new(), Scratch::new(), Scratch::new());
    let arguments = ["sim", "bcast", "--network", "clusters:4x2", "--machine", "das"];
    let compare =
        ["--compare", "hierarchical:segments=4,window=2,binomial", "--sweep", "bytes=64..1K", "--json", scratch.path()];
    succeeds(run(&[&arguments[..], &compare].concat()));
    let cases: Vec<Value> = scratch.lines().into_iter().map(|record| record["case"].clone()).collect();
    assert_eq!(cases.len(), 10, "two algorithms, five sizes: {cases:?}");
    let single = ["--algo", "hierarchical", "--trace", trace.path(), "--goal", goal.path()];
    succeeds(run(&[&arguments[..], &single].concat()));
    let trace: Value = serde_json::from_str(&fs::read_to_string(trace.path()).unwrap()).unwrap();
    assert!(!trace["traceEvents"].as_array().unwrap().is_empty());
    let goal = fs::read_to_string(goal.path()).unwrap();
    assert!(goal.starts_with("num_ranks 8") && goal.contains("send 1024b to "), "{goal}");
}

#[test]
fn the_simulator_is_measured_against_its_targets() {
    let scratch = Scratch::new();
    let shown = succeeds(run(&["bench", "sim", "--repeat", "1", "--json", scratch.path()]));
    for (case, target) in [
        ("sim/doubling/32768", "at least 5"),
        ("sim/bucket/4096", "at least 1"),
        ("sim/bucket_k/4096", "at least 1"),
        ("sim/doubling/1048576/memory", "at most 200"),
        ("sim/peak_memory", "at most 2000"),
    ] {
        let line = shown.lines().find(|line| line.starts_with(&format!("{case} "))).expect(case);
        assert!(line.ends_with(target), "{line}");
    }
    let peak = scratch.lines().pop().expect("records");
    assert_eq!((&peak["case"], &peak["unit"]), (&Value::from("sim/peak_memory"), &Value::from("MB")));
    assert!(peak["value"].as_f64().unwrap() > 1.0, "{peak}");
}
