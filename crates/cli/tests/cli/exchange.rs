//! `treepie bench exchange`.

use serde_json::Value;

use super::mpi::has_mpi;
use super::{Scratch, err, out, refused, run, succeeds, treepie};

#[test]
fn mistakes_are_reported_first() {
    let cases: &[(&[&str], &str)] = &[
        (&["-n", "1"], "'1'"),
        (&["-n", "4", "--k", "4"], "with 4 ranks there are at most 3 neighbors, not 4"),
        (&["-n", "4", "--k", "some"], "'some'"),
        (&["-n", "8", "--protocol", "walk"], "the protocols are all, auto, exchange/pex"),
        (&["-n", "8", "--bytes", "many"], "'many'"),
        (&["-n", "8", "--bytes", "1024G"], "not enough memory"),
        (&["-n", "8,16"], "several numbers of ranks"),
        (&["-n", "8", "--rounds", "3"], "--rounds applies to simulations"),
        (&["-n", "8", "--repeat", "0"], "'0'"),
        (&["-n", "8", "--json", "/no/such/place"], "/no/such/place"),
        (&["-n", "8", "--fabric", "mpi", "--protocol", "nbx:condition=1"], "exchange/nbx:condition=1 needs a barrier"),
        (&["-n", "8", "--machine", "cray"], "there are intrepid"),
        (&["-n", "8", "--machine", "jaguar", "--against", "mpi"], "--against"),
        (&["-n", "8", "--network", "flat", "--fabric", "threads"], "--fabric"),
        (&["-n", "8", "--machine", "jaguar", "--bytes", "8"], "--bytes"),
        (&["-n", "8", "--machine", "jaguar", "--rounds", "0"], "'0'"),
        (&["-n", "8", "--machine", "jaguar", "--k", "8"], "at most 7 neighbors, not 8"),
        (&["-n", "8", "--machine", "jaguar", "--protocol", "nbx:condition=1"], "not simulated"),
        (&["-n", "8", "--machine", "jaguar", "--json", "/no/such/place"], "/no/such/place"),
        (&["-n", "8", "--network", "torus:4x4"], "8"),
        (&["-n", "16", "--network", "/no/such/file"], "/no/such/file"),
        (&["--machine", "jaguar"], "the number of ranks is missing"),
    ];
    for (arguments, named) in cases {
        let arguments = [&["bench", "exchange"], *arguments].concat();
        assert_eq!(out(&refused(&arguments, named)), "", "{arguments:?}");
    }
    let output = treepie(&["bench", "exchange", "-n", "8"]).env("TREEPIE_ALGORITHM", "exchange/nbx").output().unwrap();
    assert!(!output.status.success() && err(&output).contains("--protocol"), "{}", err(&output));
}

fn cases(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["case"].as_str().unwrap()).collect()
}

#[test]
fn all_protocols_are_measured_and_the_chosen_one_is_compared_with_the_best() {
    for fabric in ["shm", "threads"] {
        let scratch = Scratch::new();
        let arguments = ["bench", "exchange", "-n", "3", "--k", "1,all", "--protocol", "all", "--repeat", "1"];
        let shown = succeeds(run(&[&arguments[..], &["--fabric", fabric, "--json", scratch.path()]].concat()));
        let records = scratch.lines();
        let right = ["pex", "pcx", "rsx", "nbx", "nbx:condition=1", "nbx:condition=2", "crystal", "auto"];
        let right = ["k1", "k2"].map(|k| right.map(|protocol| format!("exchange/{protocol}/{k}")));
        assert_eq!(cases(&records), right.concat());
        for record in &records {
            assert!(record["value"].as_f64().unwrap() > 0.0, "{record}");
            assert_eq!((&record["unit"], &record["engine"]), (&Value::from("us"), &Value::from(fabric)));
            assert_eq!((&record["ranks"], &record["samples"]), (&Value::from(3), &Value::from(1)));
        }
        // Two rounds of counts, then the message; the selected protocol is named.
        let line = |begin: &str| shown.lines().find(|line| line.starts_with(begin)).expect(begin);
        assert!(line("exchange/pcx/k1 ").ends_with(" 3.0"), "{shown}");
        assert!(line("exchange/auto/k2 ").rsplit(' ').next().unwrap().starts_with("exchange/"), "{shown}");
        assert_eq!(shown.lines().filter(|line| line.contains("best: exchange/")).count(), 2, "{shown}");
        assert!(shown.contains("worst: "), "{shown}");
    }
}

#[test]
fn one_protocol_is_measured_with_messages_of_one_length() {
    let scratch = Scratch::new();
    let arguments = ["bench", "exchange", "-n", "2", "--k", "half,all", "--bytes", "8,64K", "--protocol", "nbx"];
    let shown = succeeds(run(&[&arguments[..], &["--repeat", "1", "--json", scratch.path()]].concat()));
    // With two ranks, half and all are the same.
    assert_eq!(cases(&scratch.lines()), ["exchange/nbx/k1/8", "exchange/nbx/k1/65536"]);
    assert!(!shown.contains("best: ") && !shown.contains("MPI_Alltoall"), "{shown}");
}

#[test]
fn the_same_messages_are_exchanged_with_mpi() {
    if !has_mpi() {
        return;
    }
    let scratch = Scratch::new();
    let arguments = ["bench", "exchange", "-n", "3", "--k", "0,1,all", "--against", "mpi", "--repeat", "1"];
    let shown =
        succeeds(run(&[&arguments[..], &["--seed", "18446744073709551615", "--json", scratch.path()]].concat()));
    assert_eq!(cases(&scratch.lines()), ["exchange/auto/k0", "exchange/auto/k1", "exchange/auto/k2"]);
    for record in scratch.lines() {
        assert!(record["peer_value"].as_f64().unwrap() > 0.0 && record["ratio"].as_f64().unwrap() > 0.0, "{record}");
    }
    for text in ["exchange_peer", "exchange the same messages", "MPI_Alltoallv", "too few to state"] {
        assert!(shown.contains(text), "no {text:?} in\n{shown}");
    }
    let on_mpi = ["bench", "exchange", "-n", "2", "--k", "1", "--fabric", "mpi", "--protocol", "all", "--repeat", "1"];
    let shown = succeeds(run(&on_mpi));
    assert!(shown.contains("exchange/nbx/k1 ") && !shown.contains("condition=1"), "{shown}");
}

#[test]
fn exchanges_are_simulated_at_several_scales() {
    let scratch = Scratch::new();
    let arguments =
        ["bench", "exchange", "--machine", "intrepid", "--ranks", "16,64", "--protocol", "all", "--rounds", "3"];
    let shown = succeeds(run(&[&arguments[..], &["--json", scratch.path()]].concat()));
    let records = scratch.lines();
    assert_eq!(records.len(), 14, "six protocols and auto, twice");
    let found = |case: &str, ranks: u32| {
        let is_it = |record: &&Value| record["case"] == case && record["ranks"] == ranks;
        records.iter().find(is_it).unwrap_or_else(|| panic!("no {case} of {ranks} in {records:?}"))
    };
    let nbx = found("exchange/nbx/k6", 64);
    // The hardware provides the barrier.
    assert_eq!((&nbx["engine"], &nbx["messages_per_rank"]), (&Value::from("sim"), &Value::from(6.0)));
    assert!(nbx["value"].as_f64().unwrap() > 0.0 && nbx["model"].as_f64().unwrap() > 0.0, "{nbx}");
    assert!(nbx["machine"].as_str().unwrap().contains("intrepid"), "{nbx}");
    let pcx = |ranks| found("exchange/pcx/k6", ranks)["memory"].as_u64().unwrap();
    assert_eq!(pcx(64) - pcx(16), 4 * 48);
    let auto = found("exchange/auto/k6", 64);
    let took = auto["took"].as_str().unwrap();
    assert_eq!(found(&format!("{took}/k6"), 64)["value"], auto["value"]);
    assert!(shown.contains(&format!("chose {took}")), "{shown}");
    let torus = succeeds(run(&["bench", "exchange", "--network", "torus:4x4", "--k", "half", "--rounds", "2"]));
    assert!(torus.contains("     16     8  exchange/auto "), "{torus}");
}
