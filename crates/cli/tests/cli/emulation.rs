//! `--emulate`.

use super::{Scratch, out, refused, run, succeeds};

const LINKS: &str = "clusters:2x2,wan=2ms/20MBps,lan=20us/500MBps";

#[test]
fn collectives_are_measured_over_emulated_links() {
    let json = Scratch::new();
    let options = ["--operation", "bcast,gather", "--bytes", "8,64K", "--json", json.path()];
    let shown = succeeds(run(&[&["bench", "collectives", "-n", "4", "--emulate", LINKS], &options[..]].concat()));
    assert!(shown.contains("predicted us") && shown.contains("TREEPIE_EMULATE"), "{shown}");
    let records = json.lines();
    let value = |case: &str| {
        let record = records.iter().find(|record| record["case"] == *case).unwrap_or_else(|| panic!("no {case}"));
        record["value"].as_f64().unwrap()
    };
    // Never faster than the links: 2 ms, and 64 KiB at 20 bytes per microsecond.
    assert!(value("bcast/auto/8") >= 2000.0 && value("gather/auto/8") >= 2000.0);
    assert!(value("bcast/auto/65536") >= 2000.0 + 65536.0 / 20.0);
    // A link carries the blocks of two ranks.
    assert!(value("gather/auto/65536/predicted") >= 2.0 * 65536.0 / 20.0);
}

#[test]
fn candidates_are_measured_over_emulated_links() {
    let shown = succeeds(run(&["explain", "barrier", "--emulate", LINKS, "--measure"]));
    let line = shown.lines().find(|line| line.contains("barrier/hierarchical")).unwrap();
    assert!(line.ends_with("us"), "{line}");
}

#[test]
fn ranks_learn_of_the_links() {
    let shown = succeeds(run(&["run", "--label", "never", "--emulate", LINKS, "sh", "-c", "echo $TREEPIE_EMULATE"]));
    assert_eq!(shown, format!("{LINKS}\n").repeat(4));
    let shown = refused(&["bench", "p2p", "--emulate", LINKS], "--emulate: clusters:2x2 has 4 ranks, but there are 2");
    assert_eq!(out(&shown), "");
    refused(
        &["bench", "p2p", "--emulate", "clusters:2x1", "--against", "mpi"],
        "--emulate: links are emulated between",
    );
}
