//! `treepie bench am`.

use serde_json::Value;

use super::mpi::has_mpi;
use super::{Scratch, err, out, refused, run, succeeds, treepie};

/// Small enough to take no time.
const SMALL: [&str; 6] = ["--words", "256", "--updates", "2000", "--repeat", "1"];

#[test]
fn mistakes_are_reported_first() {
    let cases: &[(&[&str], &str)] = &[
        (&["-n", "0"], "'0'"),
        (&["--words", "1000"], "expected a power of two"),
        (&["--words", "many"], "'many'"),
        (&["--words", "1073741824", "-n", "5"], "the maximum of 2^32"),
        (&["--updates", "0"], "'0'"),
        (&["--config", "routing=cube"], "direct, rook"),
        (&["--sweep", "everything"], "'everything'"),
        (&["--sweep", "coalescing", "--against", "mpi"], "--against"),
        (&["--handler-work", "200"], "--sweep"),
        (&["--json", "/no/such/place"], "/no/such/place"),
    ];
    for (arguments, named) in cases {
        let arguments = [&["bench", "am"], *arguments].concat();
        assert_eq!(out(&refused(&arguments, named)), "", "{arguments:?}");
    }
    let output = treepie(&["bench", "am"]).env("TREEPIE_AM", "routing=rook").output().unwrap();
    assert!(!output.status.success() && err(&output).contains("--config"), "{}", err(&output));
}

fn cases(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["case"].as_str().unwrap()).collect()
}

#[test]
fn one_rank_is_compared_with_a_plain_loop() {
    let scratch = Scratch::new();
    let shown = succeeds(run(&[&["bench", "am", "-n", "1", "--json", scratch.path()], &SMALL[..]].concat()));
    let records = scratch.lines();
    let forms = ["one", "touch", "batch", "one-huge", "touch-huge", "empty", "local"];
    let right: Vec<String> = forms.iter().map(|form| format!("am/update/{form}")).collect();
    assert_eq!(cases(&records)[..7], right);
    assert_eq!(cases(&records)[7..], ["am/gather/touch", "am/epoch", "am/epoch/sum"]);
    let loops = shown.split("Over a plain loop").nth(1).unwrap();
    assert!(forms[..6].iter().all(|form| loops.contains(&format!("am/update/{form} "))), "{shown}");
}

#[test]
fn updates_gathers_and_times_are_recorded() {
    for (ranks, fabric) in [("2", "shm"), ("4", "threads")] {
        let scratch = Scratch::new();
        let arguments = ["bench", "am", "-n", ranks, "--fabric", fabric, "--json", scratch.path()];
        let shown = succeeds(run(&[&arguments[..], &SMALL].concat()));
        let records = scratch.lines();
        let found = |case: &str| records.iter().find(|record| record["case"] == case);
        for (case, unit, better) in [
            ("am/update/one", "M/s", "high"),
            ("am/update/touch-huge", "M/s", "high"),
            ("am/update/empty", "M/s", "high"),
            ("am/gather/touch", "M/s", "high"),
            ("am/ping", "us", "low"),
            ("am/epoch", "us", "low"),
            ("am/look-up", "ns", "low"),
        ] {
            let record = found(case).unwrap_or_else(|| panic!("no {case} in {records:?}"));
            assert!(shown.contains(case), "no {case} in\n{shown}");
            assert_eq!((&record["unit"], &record["better"]), (&Value::from(unit), &Value::from(better)));
            assert_eq!((&record["engine"], &record["samples"]), (&Value::from(fabric), &Value::from(1)));
        }
        // With two ranks nothing is forwarded.
        assert_eq!(found("am/hop").is_some(), ranks == "4");
        assert!(found("am/update/local").is_none());
        assert!(shown.contains("Over am/update/touch in the same jobs"), "{shown}");
    }
}

#[test]
fn a_configuration_is_named_in_records() {
    let scratch = Scratch::new();
    let arguments = ["bench", "am", "--config", "coalescing=16,style=bsp", "--json", scratch.path()];
    succeeds(run(&[&arguments[..], &SMALL].concat()));
    assert!(cases(&scratch.lines()).contains(&"am/ping/coalescing=16,style=bsp"));
    assert!(cases(&scratch.lines()).contains(&"am/update/one-huge/coalescing=16,style=bsp"));
}

#[test]
fn adaptive_settings_are_compared_with_fixed_ones() {
    let scratch = Scratch::new();
    let arguments = ["bench", "am", "--sweep", "coalescing", "--json", scratch.path()];
    let shown = succeeds(run(&[&arguments[..], &SMALL].concat()));
    assert_eq!(scratch.lines().len(), 14);
    assert!(shown.contains("adaptive over the best fixed setting, am/sweep/coalescing/"), "{shown}");
    let arguments =
        ["bench", "am", "-n", "4", "--sweep", "reductions", "--config", "routing=rook", "--handler-work", "50"];
    let shown = succeeds(run(&[&arguments[..], &SMALL, &["--json", scratch.path()]].concat()));
    let records = scratch.lines();
    assert_eq!(records.len(), 16);
    assert_eq!(records[0]["case"], "am/sweep/reductions/uniform/off/routing=rook/work=50");
    assert!(shown.contains("adaptive over none, am/sweep/reductions/uniform/off"), "{shown}");
    // Skewed keys are combined often.
    let line = shown.lines().find(|line| line.starts_with("am/sweep/reductions/skewed/65536")).unwrap();
    let combined: f64 = line.split_whitespace().rev().nth(1).unwrap().parse().unwrap();
    assert!(combined > 20.0, "{shown}");
}

#[test]
fn the_same_is_done_with_mpi() {
    if !has_mpi() {
        return;
    }
    for ranks in ["1", "3"] {
        let scratch = Scratch::new();
        let arguments = ["bench", "am", "-n", ranks, "--against", "mpi", "--json", scratch.path()];
        let shown = succeeds(run(&[&arguments[..], &SMALL].concat()));
        let records = scratch.lines();
        let rates: Vec<&Value> = records
            .iter()
            .filter(|record| record["case"].as_str().unwrap().starts_with("am/update/"))
            .map(|record| &record["peer_value"])
            .collect();
        assert!(rates.len() >= 6 && rates.iter().all(|rate| *rate == rates[0]), "one rate for all: {rates:?}");
        let compared = |record: &Value| record["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0);
        let is_cost = |record: &Value| record["unit"] == "ns";
        assert!(records.iter().all(|record| is_cost(record) || compared(record)), "{records:?}");
        for text in ["am_peer", "MPI_Alltoallv", "too few to state"] {
            assert!(shown.contains(text), "no {text:?} in\n{shown}");
        }
    }
}
