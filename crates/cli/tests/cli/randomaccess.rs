//! `treepie randomaccess` and its benchmark.

use serde_json::Value;

use super::{Scratch, run, succeeds};

#[test]
fn updates_are_made_and_verified() {
    for (arguments, said) in [
        (&["-n", "1"][..], "serial"),
        (&["-n", "2", "--algorithm", "hypercube", "--refinements", "mod7"], "hypercube"),
        (&["-n", "3", "--words", "100000", "--algorithm", "hypercube_any"], "100000 words"),
        (&["-n", "4", "--algorithm", "buffered_async", "--base-pages"], "buffered_async"),
        (&["-n", "2", "--algorithm", "am", "--runs", "2"], "am"),
        (&["-n", "2", "--look-ahead", "2048"], "outside the rules, which allow 1024"),
        (&["-n", "2", "--refinements", "overlap"], "rounds of 512 that overlap"),
        (&["-n", "2", "--updates-per-word", "8"], "outside the rules, which ask for 4"),
    ] {
        let scratch = Scratch::new();
        let size = if arguments.contains(&"--words") { &[][..] } else { &["--table-log2", "12"] };
        let shown = succeeds(run(&[&["randomaccess", "--json", scratch.path()], arguments, size].concat()));
        assert!(shown.contains(said) && shown.contains("verified     0 wrong words"), "{shown}");
        let record = scratch.lines().pop().expect("a record");
        assert!(record["case"].as_str().unwrap().starts_with("randomaccess/"), "{record}");
        assert_eq!((&record["unit"], record["value"].as_f64().unwrap() > 0.0), (&Value::from("GUP/s"), true));
    }
}

/// Far more than 1% of the updates of rounds of 16 exceed the look-ahead.
#[test]
fn too_many_discarded_updates_are_invalid() {
    let arguments = ["randomaccess", "-n", "2", "--table-log2", "12", "--look-ahead", "16", "--refinements", "discard"];
    let output = run(&arguments);
    let shown = super::out(&output);
    assert!(
        shown.contains("INVALID: more than 1% of the updates were discarded") && !output.status.success(),
        "{shown}"
    );
}

#[test]
fn the_algorithms_are_listed() {
    let shown = succeeds(run(&["randomaccess", "--list"]));
    assert!(shown.contains("hypercube_any") && shown.lines().count() == 13, "{shown}");
}

#[test]
fn algorithms_are_measured_against_mpi() {
    let arguments = ["bench", "randomaccess", "--table-log2", "12", "--updates", "8192", "--repeat", "1"];
    let scratch = Scratch::new();
    let shown = succeeds(run(&[&arguments[..], &["--algorithms", "auto am", "--json", scratch.path()]].concat()));
    assert!(shown.contains("generate") && scratch.lines().len() == 2, "{shown}");
    if treepie_mpi::installations().is_empty() {
        eprintln!("SKIPPED: no MPI to compare with");
        return;
    }
    let shown = succeeds(run(&[&arguments[..], &["--against", "mpi"]].concat()));
    assert!(shown.contains("randomaccess/auto/2^12/alone"), "{shown}");
}

#[test]
fn rates_are_measured_and_fitted() {
    let scratch = Scratch::new();
    let sizes = ["--table-log2", "10", "--updates", "65536", "--repeat", "1", "--json", scratch.path()];
    let output = run(&[&["bench", "randomaccess", "--fit", "1,4"], &sizes[..]].concat());
    if !output.status.success() {
        // One rank may be slow by chance. The fit itself has a test with the rates of the paper.
        assert!(super::err(&output).contains("does not fit"), "{}", super::err(&output));
        return;
    }
    let shown = succeeds(output);
    assert!(shown.contains("T1 = ") && shown.contains("131072"), "{shown}");
    // Two measurements, T1 and TC, and six predictions.
    assert_eq!(scratch.lines().len(), 10, "{shown}");
}

#[test]
fn tables_of_the_paper_and_scaling_are_simulated() {
    let shown = succeeds(run(&["bench", "randomaccess", "--scaling", "2,16"]));
    assert!(shown.contains("alltoall_3d") && shown.lines().count() == 4, "{shown}");
    let algorithms = ["--algorithms", "buffered_async hypercube/mod3"];
    let shown = succeeds(run(&[&["bench", "randomaccess", "--scaling", "8"], &algorithms[..]].concat()));
    assert!(shown.contains("hypercube/prepost,deferred,late-wait") && shown.lines().count() == 3, "{shown}");
    let shown = succeeds(run(&["bench", "randomaccess", "--paper", "3"]));
    assert_eq!(shown.matches("simulated").count(), 7, "{shown}");
}
