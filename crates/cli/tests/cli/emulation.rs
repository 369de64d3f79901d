//! `--emulate`.

use treepie_model::Profile;

use super::{Scratch, err, out, refused, run, succeeds, treepie};

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

/// Two clusters of one rank, close to each other.
const FAST: &str = "clusters:2x1,wan=100us/200MBps,lan=5us/2GBps";

/// A command with a variable in its environment. One that fails prints a line.
fn with_variable(name: &str, value: &str, arguments: &[&str]) -> (bool, String) {
    let output = treepie(arguments).env(name, value).output().unwrap();
    (output.status.success(), err(&output))
}

#[test]
fn profiles_know_whether_links_were_emulated() {
    let [emulated, plain] = [Scratch::with_extension("toml"), Scratch::with_extension("toml")];
    succeeds(run(&["tune", "--emulate", FAST, "-o", emulated.path()]));
    assert_eq!(Profile::load(emulated.path()).unwrap().origin.engine, "emulated shm");
    std::fs::write(plain.path(), Profile::shared_memory().to_toml()).unwrap();
    let explain = |options: &[&str], path: &str| {
        let (is_ok, said) = with_variable("TREEPIE_PROFILE", path, &[&["explain", "barrier"], options].concat());
        assert!(is_ok, "{said}");
        said
    };
    let said = explain(&[], emulated.path());
    assert!(said.lines().count() == 1 && said.contains("these ranks use shm;"), "{said}");
    let said = explain(&["--emulate", FAST], plain.path());
    assert!(said.lines().count() == 1 && said.contains("these ranks use emulated shm;"), "{said}");
    assert_eq!(explain(&["--emulate", FAST], emulated.path()), "");
    refused(&["explain", "barrier", "--profile", emulated.path()], "of the engine emulated shm");
    // A world does the same, and says so once.
    let program = ["run", "--emulate", FAST, env!("CARGO_BIN_EXE_treepie"), "graph", "cc", "--grid", "4x4"];
    let (is_ok, said) = with_variable("TREEPIE_PROFILE", plain.path(), &program);
    assert!(is_ok && said.matches("that of the emulated links is used").count() == 1, "{said}");
    assert_eq!(with_variable("TREEPIE_PROFILE", emulated.path(), &program), (true, String::new()));
}

#[test]
fn links_of_the_command_line_and_of_the_environment_do_not_mix() {
    let variable = |name, value, arguments: &[&str], expected: &str| {
        let (is_ok, said) = with_variable(name, value, arguments);
        assert!(!is_ok && said.lines().count() == 1 && said.contains(expected), "{arguments:?}: {said}");
    };
    let both = "--emulate gives the network, and so does TREEPIE_NETWORK";
    variable("TREEPIE_NETWORK", "flat:4", &["run", "--emulate", LINKS, "true"], both);
    variable("TREEPIE_NETWORK", "flat:4", &["explain", "barrier", "--emulate", LINKS], both);
    let unset = "TREEPIE_EMULATE is set: unset it and use";
    variable("TREEPIE_EMULATE", LINKS, &["explain", "barrier"], unset);
    variable("TREEPIE_EMULATE", LINKS, &["bench", "choices", "--quick"], unset);
    // That of the command line counts, whatever the other is for.
    let overridden = with_variable("TREEPIE_EMULATE", "clusters:4x2", &["run", "--emulate", "clusters:2x1", "true"]);
    assert_eq!(overridden, (true, String::new()));
    refused(&["run", "--sim", "flat:4", "--emulate", LINKS, "true"], "cannot be used with");
}

#[test]
fn benchmarks_of_messages_and_exchanges_end_over_emulated_links() {
    for arguments in [
        &["bench", "p2p", "--emulate", FAST][..],
        &["bench", "exchange", "-n", "4", "--k", "2", "--emulate", LINKS, "--protocol", "all"],
    ] {
        let json = Scratch::new();
        succeeds(run(&[arguments, &["--json", json.path()]].concat()));
        let records = json.lines();
        assert!(records.len() > 3 && records.iter().all(|record| record["samples"] == 2), "{records:?}");
        assert!(records.iter().all(|record| record["spread"].as_f64().unwrap() > 0.0), "{records:?}");
    }
}
