//! `treepie bench split`.

use serde_json::Value;

use super::{Scratch, out, refused, run, succeeds};

#[test]
fn mistakes_are_reported_first() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "--emulate"),
        (&["--emulate", "many"], "'many'"),
        (&["--emulate", "3M"], "powers of two"),
        (&["--emulate", "8M..4M"], "the smaller size first"),
        (&["--emulate", "1k", "--sorters", "512..1024"], "at most 256"),
        (&["--emulate", "64", "--sorters", "64"], "at most half"),
        (&["--emulate", "1024M", "--sorters", "2"], "not enough memory"),
        (&["--simulate", "1k", "--sorters", "0"], "'0'"),
        (&["--simulate", "16", "--sorters", "32"], "16 ranks cannot have 32 sorters"),
        (&["--simulate", "64M"], "at most 16M"),
        (&["--simulate", "1k", "--way", "walk"], "the algorithms are all, split/allgather_sort"),
        (&["--simulate", "1k", "--machine", "cray"], "there are intrepid"),
        (&["--simulate", "1k", "--machine", "bgp"], "use intrepid, jaguar or bigred"),
        (&["--quick", "--repeat", "0"], "'0'"),
        (&["--quick", "--json", "/no/such/place"], "/no/such/place"),
    ];
    for (arguments, named) in cases {
        let arguments = [&["bench", "split"], *arguments].concat();
        assert_eq!(out(&refused(&arguments, named)), "", "{arguments:?}");
    }
}

#[test]
fn something_small_is_emulated_and_simulated() {
    let scratch = Scratch::new();
    let shown = succeeds(run(&["bench", "split", "--quick", "--json", scratch.path()]));
    for row in ["collect", "splitters", "exchange", "merge", "total", "parallel_sort", "allgather_sort", "1/1000"] {
        let count = shown.lines().filter(|line| line.trim_start().starts_with(row)).count();
        assert!(count >= 2, "{row} of two sizes in {shown}");
    }
    assert!(shown.contains("GB/s") && shown.contains("the best number of sorters"), "{shown}");
    let records = scratch.lines();
    let find = |case: &str, ranks: u32| {
        let is_it = |record: &&Value| record["case"] == case && record["ranks"] == ranks;
        records.iter().find(is_it).unwrap_or_else(|| panic!("{case} of {ranks}"))
    };
    let total = find("split/emulate/64k/distributed/8/total", 64 << 10)["value"].as_f64().unwrap();
    let phases = ["collect", "splitters", "exchange", "merge"]
        .map(|phase| find(&format!("split/emulate/64k/distributed/8/{phase}"), 64 << 10)["value"].as_f64().unwrap());
    assert!(phases.iter().all(|seconds| *seconds > 0.0));
    assert!((phases.iter().sum::<f64>() - total).abs() < 1e-9);
    for algorithm in ["allgather_sort", "merge", "parallel_sort:sorters=8", "distributed:sorters=8", "quick:sorters=8"]
    {
        let record = find(&format!("split/{algorithm}"), 512);
        assert_eq!((&record["engine"], &record["by_symmetry"]), (&Value::from("sim"), &Value::from(false)));
        assert!(record["value"].as_f64().unwrap() > 0.0 && record["messages"].as_u64().unwrap() > 0);
    }
    let memory = |sorters: u32| find(&format!("split/distributed:sorters={sorters}"), 512)["memory_during"].as_u64();
    assert_eq!([2, 4, 8].map(memory), [256, 128, 64].map(|rows| Some(rows * 16)));
}

#[test]
fn large_splits_are_simulated_by_one_group() {
    let arguments = ["bench", "split", "--simulate", "256k", "--sorters", "16", "--way", "distributed"];
    let shown = succeeds(run(&arguments));
    assert!(shown.lines().any(|line| line.contains("256k distributed") && line.ends_with('*')), "{shown}");
    let quick = succeeds(run(&["bench", "split", "--simulate", "1M", "--sorters", "16", "--way", "split/quick"]));
    assert!(quick.contains("too large to simulate"), "{quick}");
}
