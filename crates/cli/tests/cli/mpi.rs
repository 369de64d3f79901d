//! Comparisons with MPI, and the messages where there is none.

use std::fs;

use serde_json::Value;

use super::{Scratch, err, run, succeeds, treepie};

#[test]
fn a_machine_without_mpi_says_how_to_get_one() {
    let compare = ["bench", "p2p", "--against", "mpi", "--repeat", "1"];
    for arguments in [&compare[..], &["mpi", "setup"]] {
        let output = treepie(arguments).env("PATH", "/nowhere").env_remove("TREEPIE_MPICC").output().unwrap();
        let stderr = err(&output);
        assert!(!output.status.success() && stderr.lines().count() == 1, "{stderr}");
        assert!(stderr.contains("no mpicc") && stderr.contains("libopenmpi-dev"), "{stderr}");
    }
    let shown = succeeds(treepie(&["demo"]).env("PATH", "/nowhere").output().unwrap());
    assert!(shown.contains("skipped") && shown.contains("libopenmpi-dev"), "{shown}");
}

/// Whether there is an MPI to compare with; prints a note if not.
pub(super) fn has_mpi() -> bool {
    let has = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
    };
    let found = has("mpicc") && has("mpirun");
    if !found {
        eprintln!("SKIPPED: no mpicc and mpirun, so there is nothing to compare with");
    }
    found
}

#[test]
fn collective_operations_are_compared_in_all_cells() {
    if !has_mpi() {
        return;
    }
    let scratch = Scratch::new();
    let arguments = ["bench", "collectives", "--against", "mpi", "--repeat", "1", "--json", scratch.path()];
    let shown = succeeds(run(&arguments));
    for text in ["collectives_peer", "same calls", "all cells", "(21 cells)", "(10 cells)", "worst cell: "] {
        assert!(shown.contains(text), "no {text:?} in\n{shown}");
    }
    let records = scratch.lines();
    assert_eq!(records.len(), 21);
    for operation in ["bcast", "allgather", "allreduce", "reduce_scatter", "alltoall"] {
        for bytes in [8, 1024, 65536, 1048576] {
            let case = format!("{operation}/auto/{bytes}");
            let record = records.iter().find(|record| record["case"] == case).expect(&case);
            assert!(record["value"].as_f64().unwrap() > 0.0 && record["ratio"].as_f64().unwrap() > 0.0, "{record}");
            assert_eq!((&record["unit"], &record["better"]), (&Value::from("us"), &Value::from("low")));
        }
    }
    assert_eq!(records[20]["case"], "barrier/auto/0");
    assert!(shown.contains("each after an untimed barrier"), "{shown}");
    let streamed = ["--rule", "stream", "--algorithm", "bcast/binomial"];
    let shown = succeeds(run(&[&arguments[..], &streamed].concat()));
    assert!(shown.contains("back to back"), "{shown}");
    assert_eq!(scratch.lines()[0]["case"], "bcast/binomial/8/stream");
}

#[test]
fn a_comparison_names_its_peer_and_leaves_nothing() {
    if !has_mpi() {
        return;
    }
    let scratch = Scratch::new();
    let directory = std::env::temp_dir().join(format!("treepie-cli-tmp-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    let arguments = ["bench", "p2p", "-n", "3", "--against", "mpi", "--repeat", "2", "--json", scratch.path()];
    let output = treepie(&arguments).env("TMPDIR", &directory).output().unwrap();
    let left: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    fs::remove_dir_all(&directory).unwrap();
    let shown = succeeds(output);
    // Open MPI keeps its own session directory there for all jobs of a user.
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("treepie")), "{left:?}");
    assert!(shown.contains("mpirun") && shown.contains("too few"), "{shown}");
    let records = scratch.lines();
    assert_eq!(records.len(), 2);
    for record in &records {
        assert!(record["peer_value"].as_f64().unwrap() > 0.0 && record["ratio"].as_f64().unwrap() > 0.0, "{record}");
        assert!(record["peer"].as_str().unwrap().contains('.'), "{record}");
        assert!(record.get("ratio_low").is_none(), "two pairs make no interval: {record}");
    }
}
