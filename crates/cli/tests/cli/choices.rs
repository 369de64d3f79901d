//! Choices: explained, mapped, and by profiles and rules.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_treepie");

/// Two or three ranks that make each call of these cases once, and what they log.
fn logged(ranks: &str, cases: &str, variable: (&str, &str)) -> Output {
    let arguments =
        ["run", "--label", "never", "-n", ranks, PROGRAM, "choices-rank", "--repeat", "0", "--cases", cases];
    treepie(&arguments).env("TREEPIE_LOG", "choices").env(variable.0, variable.1).output().unwrap()
}

#[test]
fn rules_of_a_file_choose() {
    let file = Scratch::with_extension("toml");
    fs::write(&file.0, "[[rule]]\nalgorithm = 'allreduce/ring'\nbytes = [1000, 2000]\nranks = [3, 3]\n").unwrap();
    let chosen = |ranks: &str, bytes: u32| {
        let output = logged(ranks, &format!("allreduce/{bytes}"), ("TREEPIE_RULES", file.path()));
        assert!(output.status.success(), "{}", err(&output));
        err(&output).contains("treepie: allreduce/ring for")
    };
    assert!(chosen("3", 1024));
    assert!(!chosen("3", 8), "of another size");
    assert!(!chosen("2", 1024), "of another number of ranks");
    fs::write(&file.0, "[[rule]]\nalgorithm = 'allreduce/rng'\n").unwrap();
    let output = logged("2", "allreduce/8", ("TREEPIE_RULES", file.path()));
    let message = err(&output);
    assert!(!output.status.success() && message.contains("rule 1: ") && message.contains("allreduce/rng"), "{message}");
}

#[test]
fn a_profile_is_used_adapted_or_refused() {
    let file = Scratch::with_extension("toml");
    succeeds(run(&["tune", "-n", "2", "-o", file.path()]));
    let says = |ranks: &str| {
        let output = logged(ranks, "bcast/8", ("TREEPIE_PROFILE", file.path()));
        assert!(output.status.success(), "{}", err(&output));
        let lines = err(&output);
        lines.lines().filter(|line| line.starts_with("treepie: TREEPIE_PROFILE: ")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(says("2"), "");
    let adapted = says("3");
    assert!(adapted.contains("2 ranks") && adapted.lines().count() == 1, "{adapted}");
    // Messages that cost much change what is chosen.
    let text = fs::read_to_string(&file.0).unwrap();
    let slow = text.replace("round = ", "round = 1000").replace("barrier = ", "barrier = 1000");
    fs::write(&file.0, slow).unwrap();
    let output = logged("2", "bcast/8", ("TREEPIE_PROFILE", file.path()));
    assert!(err(&output).contains("8 bytes, point-to-point"), "{}", err(&output));
    fs::write(&file.0, text.replace("engine = \"shm\"", "engine = \"mpi\"")).unwrap();
    assert!(says("2").ends_with("the default is used"), "{}", says("2"));
    let output = run(&["explain", "bcast", "-n", "2", "--profile", file.path()]);
    assert!(!output.status.success() && err(&output).lines().count() == 1, "{}", err(&output));
    fs::write(&file.0, &text[..text.len() / 2]).unwrap();
    let output = logged("2", "bcast/8", ("TREEPIE_PROFILE", file.path()));
    assert!(!output.status.success() && err(&output).contains("TREEPIE_PROFILE="), "{}", err(&output));
}

#[test]
fn candidates_are_explained_and_measured() {
    let shown = succeeds(run(&["explain", "allreduce", "--bytes", "1000", "-n", "2", "--measure"]));
    assert!(shown.starts_with("allreduce of 1000 bytes, as those of 1024, 2 ranks"), "{shown}");
    let rows: Vec<&str> = shown.lines().filter(|line| line.starts_with("  allreduce/")).collect();
    assert!(rows.len() > 8 && rows.iter().all(|row| row.matches(" us").count() == 2), "{shown}");
    // More arguments, so the prediction is no worse.
    let predicted = |more: &[&str]| {
        let arguments = ["explain", "reduce", "--bytes", "256K", "--network", "clusters:8x4"];
        let shown = succeeds(run(&[&arguments[..], more].concat()));
        let row = shown.lines().find(|line| line.starts_with("  reduce/")).unwrap().to_owned();
        row.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap()
    };
    let (all, ruled) = (predicted(&["--exhaustive"]), predicted(&[]));
    assert!(all <= ruled && ruled < 1.05 * all, "{all} {ruled}");
}

#[test]
fn choices_are_compared_with_the_best() {
    let json = Scratch::new();
    let shown = succeeds(run(&[
        "bench",
        "choices",
        "-n",
        "2",
        "--operations",
        "bcast,exchange,split",
        "--quick",
        "--repeat",
        "2",
        "--list",
        "--json",
        json.path(),
    ]));
    for text in ["bcast ", "exchange, k=1 ", "split ", "all cells: ", "communicators"] {
        assert!(shown.contains(text), "no {text:?} in\n{shown}");
    }
    assert_eq!(json.lines().len(), 3 + 2 + 2);
    let shown = succeeds(run(&[
        "bench",
        "choices",
        "--networks",
        "clusters:2x2",
        "--operations",
        "exchange,split,gather",
        "--quick",
    ]));
    assert!(shown.contains("clusters:2x2, simulated") && shown.contains("exchange, k=3"), "{shown}");
    let output = run(&["bench", "choices", "--operations", "fly"]);
    assert!(!output.status.success() && err(&output).contains("allreduce"), "{}", err(&output));
}

#[test]
fn programs_measure_at_the_start_if_told_so() {
    let output = logged("2", "bcast/8,allreduce/65536", ("TREEPIE_PROFILE", "measure"));
    assert!(output.status.success(), "{}", err(&output));
    assert!(err(&output).contains("treepie: bcast/"), "{}", err(&output));
    // One rank has nobody to measure with.
    let output = logged("1", "bcast/8", ("TREEPIE_PROFILE", "measure"));
    assert!(output.status.success(), "{}", err(&output));
}

/// The time of what the MPI library does is in the profile, and decides.
#[test]
fn collectives_of_the_mpi_library_are_chosen_where_they_are_fastest() {
    let output = run(&["tune", "--collectives"]);
    assert!(!output.status.success() && err(&output).lines().count() == 1, "{}", err(&output));
    if !super::mpi::has_mpi() {
        return;
    }
    let file = Scratch::with_extension("toml");
    let in_job = |arguments: &[&str]| {
        let mut job = Command::new("mpirun");
        if Command::new("mpirun").arg("--version").output().is_ok_and(|shown| out(&shown).contains("Open MPI")) {
            job.args(treepie_mpi::OPENMPI_TEST_OPTIONS);
        }
        job.args(["-n", "2", PROGRAM]).args(arguments);
        job
    };
    let shown = succeeds(in_job(&["tune", "--collectives", "-o", file.path()]).output().unwrap());
    assert!(shown.contains("allreduce/mpi "), "{shown}");
    let measured = fs::read_to_string(&file.0).unwrap();
    assert_eq!(measured.matches("[[host_collective]]").count(), 10, "{measured}");
    for (time, is_chosen) in [("0.001", true), ("1e6", false)] {
        let mut profile = treepie_model::Profile::parse(&measured).unwrap();
        for of_mpi in &mut profile.host_collectives {
            of_mpi.time = treepie_model::plogp::PiecewiseLinear::constant("time", time.parse().unwrap()).unwrap();
        }
        fs::write(&file.0, profile.to_toml()).unwrap();
        let cases = "bcast/8,allreduce/65536,barrier/0";
        let mut job = in_job(&["choices-rank", "--repeat", "0", "--cases", cases]);
        let output = job.env("TREEPIE_LOG", "choices").env("TREEPIE_PROFILE", file.path()).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(err(&output).contains("the MPI library"), is_chosen, "{}", err(&output));
        let explain = ["explain", "allreduce", "--bytes", "1K", "--network", "flat:2", "--profile", file.path()];
        let best = succeeds(run(&explain)).lines().nth(2).unwrap_or_default().to_owned();
        assert_eq!(best.contains("allreduce/mpi"), is_chosen, "{best}");
    }
}
