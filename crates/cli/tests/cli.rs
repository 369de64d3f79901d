//! The command as users see it: output, exit status, and one clear line for every mistake.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

#[path = "cli/am.rs"]
mod am;
#[path = "cli/choices.rs"]
mod choices;
#[path = "cli/emulation.rs"]
mod emulation;
#[path = "cli/exchange.rs"]
mod exchange;
#[path = "cli/graph.rs"]
mod graph;
#[path = "cli/graph_input.rs"]
mod graph_input;
#[path = "cli/mistakes.rs"]
mod mistakes;
#[path = "cli/mpi.rs"]
mod mpi;
#[path = "cli/randomaccess.rs"]
mod randomaccess;
#[path = "cli/sim.rs"]
mod sim;
#[path = "cli/split.rs"]
mod split;
#[path = "cli/tasks.rs"]
mod tasks;
#[path = "cli/tune.rs"]
mod tune;

fn treepie(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treepie"));
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    treepie(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn succeeds(output: Output) -> String {
    assert!(output.status.success(), "{}\n{}{}", output.status, out(&output), err(&output));
    out(&output)
}

/// A temporary file, removed after the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        Self::with_extension("json")
    }

    fn with_extension(extension: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("treepie-cli-{}-{count}.{extension}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        fs::read_to_string(&self.0).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Scratch {
    /// Also removes files with its name as a prefix.
    fn drop(&mut self) {
        let prefix = self.0.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[test]
fn ranks_inherit_open_files() {
    let file = Scratch::new();
    fs::write(&file.0, "what is in it\n").unwrap();
    let script = "exec \"$0\" run -n 2 --label never sh -c 'cat /proc/self/fd/7; cat <&0' 7<\"$1\" </dev/null";
    let program = env!("CARGO_BIN_EXE_treepie");
    let shown = succeeds(Command::new("sh").args(["-c", script, program, file.path()]).output().unwrap());
    assert_eq!(shown, "what is in it\n".repeat(2));
}

#[test]
fn mistakes_get_one_line_and_a_status() {
    let cases: &[(&[&str], &str)] = &[
        (&["run", "-n", "2"], "<PROGRAM>"),
        (&["run", "true"], "--ranks <P>"),
        (&["run", "-n", "0", "true"], "'0'"),
        (&["run", "-n", "many", "true"], "'many'"),
        (&["run", "-n", "2", "/no/such/program"], "/no/such/program"),
        (&["run", "-n", "2", "no-such-program-anywhere"], "no-such-program-anywhere"),
        (&["run", "--label", "maybe", "-n", "2", "true"], "'maybe'"),
        (&["mpi", "setup", "--mpicc", "/no/such/mpicc"], "/no/such/mpicc"),
        (&["bench", "p2p", "-n", "1"], "'1'"),
        (&["bench", "p2p", "--repeat", "0"], "'0'"),
        (&["bench", "p2p", "--against", "nobody"], "'nobody'"),
        (&["bench", "p2p", "--against", "/no/such/build"], "cannot run /no/such/build"),
        (&["bench", "p2p", "--against", "/bin/true"], "/bin/true is not a build of treepie"),
        (&["bench", "p2p", "--json", "/no/such/place"], "/no/such/place"),
        (&["bench", "collectives", "-n", "1"], "'1'"),
        (&["bench", "collectives", "--algorithm", "walk/ring"], "'walk/ring'"),
        (&["bench", "collectives", "--algorithm", "allgather/no_such"], "no_such"),
        (&["bench", "collectives", "--json", "/no/such/place"], "/no/such/place"),
        (&["algorithms", "walk"], "there is no operation walk; the operations are barrier, bcast"),
        (&["algorithms", "allgather", "bcast"], "'bcast'"),
        (&["algorithms", "--network", "flat"], "needs a number of ranks"),
        (&["algorithms", "--network", "torus:4x"], "torus:8x16x32"),
        (&["algorithms", "--network", "/no/such/file"], "/no/such/file"),
        (&["doctor", "--json", "/no/such/place"], "/no/such/place"),
        (&["demo", "--json", "/no/such/place"], "/no/such/place"),
        (&["fly"], "'fly'"),
    ];
    for (arguments, named) in cases {
        assert_eq!(out(&refused(arguments, named)), "", "{arguments:?}");
    }
}

/// The command fails with one line that contains `named`.
#[track_caller]
fn refused(arguments: &[&str], named: &str) -> Output {
    let output = run(arguments);
    let stderr = err(&output);
    assert!(!output.status.success(), "{arguments:?}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    assert!(stderr.starts_with("treepie: ") && stderr.contains(named), "{arguments:?}: {stderr}");
    output
}

#[test]
fn ranks_find_their_number_and_their_arguments() {
    let script = "echo rank $TREEPIE_RANK of $TREEPIE_SIZE: \"$@\"";
    let shown = succeeds(run(&["run", "-n", "3", "sh", "-c", script, "sh", "-n", "7", "--label", "two words"]));
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = (0..3).map(|rank| format!("rank {rank} of 3: -n 7 --label two words")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn lines_are_labelled_on_request() {
    let shown = succeeds(run(&["run", "--label", "always", "-n", "2", "echo", "hello"]));
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] hello", "[1] hello"]);
}

#[test]
fn the_status_is_that_of_the_rank_that_failed() {
    let output = run(&["run", "-n", "3", "sh", "-c", "[ $TREEPIE_RANK != 1 ] || exit 41; exec sleep 60"]);
    assert_eq!(output.status.code(), Some(41));
    let stderr = err(&output);
    assert!(stderr.contains("rank 1 exited with status 41") && stderr.lines().count() == 1, "{stderr}");
    let output = run(&["run", "-n", "2", "sh", "-c", "[ $TREEPIE_RANK = 0 ] || kill -9 $$; exec sleep 60"]);
    assert_eq!(output.status.code(), Some(128 + 9));
    assert!(err(&output).contains("rank 1 was killed by signal 9 (SIGKILL)"), "{}", err(&output));
}

#[test]
fn the_demo_passes() {
    let scratch = Scratch::new();
    let shown = succeeds(run(&["demo", "--json", scratch.path()]));
    assert!(shown.contains("All is well") && shown.contains(" 0 failed"), "{shown}");
    for part in ["threads", "processes", "exchange", "active messages", "graphs", "speed"] {
        assert!(shown.lines().any(|line| line.trim_start().starts_with(&format!("ok       {part}"))), "{shown}");
        let case = format!("demo/{}", part.replace(' ', "-"));
        assert!(scratch.lines().iter().any(|line| line["case"] == case));
    }
}

#[test]
fn the_doctor_reports_cores_and_the_engine() {
    let scratch = Scratch::new();
    let shown = succeeds(run(&["doctor", "--json", scratch.path()]));
    for word in ["cores", "memory", "single copy", "processes", "a world of one"] {
        assert!(shown.contains(word), "no {word:?} in\n{shown}");
    }
    let facts = &scratch.lines()[0];
    assert!(facts["cores_allowed"].as_u64().unwrap() >= 1);
    assert!(facts["memfd"].as_bool().unwrap());
    assert_eq!(facts["engine"], "alone");
    let program = env!("CARGO_BIN_EXE_treepie");
    let shown = succeeds(run(&["run", "-n", "1", program, "doctor"]));
    assert!(shown.contains("this is rank 0 of treepie run"), "{shown}");
}

#[test]
fn the_benchmark_writes_records() {
    let scratch = Scratch::new();
    let shown = succeeds(run(&["bench", "p2p", "--repeat", "1", "--json", scratch.path()]));
    let records = scratch.lines();
    for (case, unit, better) in [
        ("p2p/latency/8", "us", "low"),
        ("p2p/rate/64", "M/s", "high"),
        ("p2p/bandwidth/65536", "GB/s", "high"),
        ("p2p/bandwidth_fresh/1048576", "GB/s", "high"),
        ("p2p/bandwidth_ring/16777216", "GB/s", "high"),
        ("p2p/ring/2", "us", "low"),
        ("p2p/barrier/2", "us", "low"),
    ] {
        assert!(shown.contains(case), "no {case} in\n{shown}");
        let record = records.iter().find(|record| record["case"] == case).unwrap();
        assert!(record["value"].as_f64().unwrap() > 0.0, "{record}");
        assert_eq!(record["unit"], unit);
        assert_eq!(record["better"], better);
        assert_eq!(record["engine"], "shm");
        assert_eq!(record["ranks"], 2);
        assert_eq!(record["samples"], 1);
        assert_eq!(record["statistic"], "median");
        assert!(record["machine"].is_string() && record["version"].is_string() && record["spread"].is_number());
        assert!(record.get("peer").is_none() && record.get("ratio").is_none());
    }
}

/// The ids at the start of lines.
fn ids(shown: &str) -> Vec<&str> {
    shown.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| word.contains('/')).collect()
}

#[test]
fn algorithms_are_listed_for_all_operations_or_one() {
    let all = succeeds(run(&["algorithms"]));
    let head = all.lines().next().unwrap();
    for column in ["id", "requires", "parameters", "cost", "from"] {
        assert!(head.split_whitespace().any(|word| word == column), "{head}");
    }
    let all = ids(&all);
    let operations = [
        "barrier",
        "bcast",
        "scatter",
        "gather",
        "allgather",
        "reduce",
        "allreduce",
        "reduce_scatter",
        "alltoall",
        "scan",
        "exscan",
        "exchange",
        "split",
    ];
    let mut listed = 0;
    for operation in operations {
        let begin = format!("{operation}/");
        let shown = succeeds(run(&["algorithms", operation]));
        let expected: Vec<&str> = all.iter().copied().filter(|id| id.starts_with(&begin)).collect();
        assert!(expected.len() >= 2, "{operation}: {expected:?}");
        assert_eq!(ids(&shown), expected);
        listed += expected.len();
    }
    assert_eq!(listed, all.len());
}

#[test]
fn algorithms_are_listed_for_a_network() {
    let on = |network| succeeds(run(&["algorithms", "allgather", "--network", network]));
    let (flat, torus, uneven) = (on("flat:64"), on("torus:4x4x4"), on("torus:3x5"));
    let (flat, torus, uneven) = (ids(&flat), ids(&torus), ids(&uneven));
    let all = succeeds(run(&["algorithms", "allgather"]));
    for shown in [&flat, &torus, &uneven] {
        assert!(shown.contains(&"allgather/ring") && shown.iter().all(|id| ids(&all).contains(id)), "{shown:?}");
    }
    assert!(!flat.contains(&"allgather/bucket_k") && torus.contains(&"allgather/bucket_k"), "{flat:?} {torus:?}");
    // It needs sides that are powers of two.
    assert!(
        !uneven.contains(&"allgather/alternating") && torus.contains(&"allgather/alternating"),
        "{uneven:?} {torus:?}"
    );
    let everything = succeeds(run(&["algorithms", "--network", "clusters:3+5"]));
    assert!(ids(&everything).contains(&"bcast/hierarchical"), "{everything}");
}

#[test]
fn collectives_are_measured_with_the_requested_algorithm() {
    let scratch = Scratch::new();
    let arguments = ["bench", "collectives", "-n", "3", "--algorithm", "allgather/ring", "--repeat", "1"];
    let shown = succeeds(run(&[&arguments[..], &["--json", scratch.path()]].concat()));
    let cases: Vec<Value> = scratch.lines().into_iter().map(|record| record["case"].clone()).collect();
    assert_eq!(cases, [8, 1024, 65536, 1048576].map(|bytes| Value::from(format!("allgather/ring/{bytes}"))));
    assert!(shown.contains("the slowest rank counts") && !shown.contains("worst cell"), "{shown}");
    let output = treepie(&arguments).env("TREEPIE_ALGORITHM", "allgather/bruck").output().unwrap();
    assert!(!output.status.success() && err(&output).contains("--algorithm"), "{}", err(&output));
}

#[test]
fn another_build_is_compared() {
    let scratch = Scratch::new();
    let arguments = ["bench", "p2p", "-n", "3", "--repeat", "2", "--against", env!("CARGO_BIN_EXE_treepie")];
    for engine in ["shm", "threads"] {
        let shown = succeeds(run(&[&arguments[..], &["--fabric", engine, "--json", scratch.path()]].concat()));
        for text in ["  other build: ", "same calls", "all cells", "(2 cells)", "worst cell: ", "too few"] {
            assert!(shown.contains(text), "no {text:?} in\n{shown}");
        }
        let records = scratch.lines();
        assert_eq!(records.len(), 2);
        for record in &records {
            assert_eq!((&record["peer"], &record["engine"]), (&"other build".into(), &engine.into()), "{record}");
            assert!(record["ratio"].as_f64().unwrap() > 0.0, "{record}");
        }
    }
}

#[test]
fn a_closed_output_pipe_ends_the_command() {
    let mut command = treepie(&["doctor"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(err(&output), "");
    assert_eq!(output.status.code(), Some(1));
}

/// Four ranks in one process.
const ENGINES_IN_ONE_PROCESS: [[&str; 2]; 4] =
    [["--threads", "4"], ["--sim", "torus:2x2"], ["--sim", "flat:4,ppn=2"], ["--sim", "clusters:2x1x2"]];

#[test]
fn the_examples_run_alone_and_as_ranks() {
    let tests = std::env::current_exe().unwrap();
    let examples = tests.ancestors().nth(2).unwrap().join("examples");
    let examples_and_output = [
        ("messages", "rank 0: the token went around"),
        ("counters", "as they should"),
        ("grid", "rank 0: the heat of all cells is still 256"),
        ("histogram", "rank 0: 100000 samples"),
        ("active", "rank 0: 10000 vertices in 8 components"),
        ("graph", "rank 0: 65536 vertices, 18728 components"),
        ("random_updates", "rank 0: hypercube_any, 262144 updates, 0 wrong words"),
    ];
    for (name, expected) in examples_and_output {
        let example = examples.join(name);
        if !example.is_file() {
            eprintln!("SKIPPED: {} was not built; `cargo test` without --test builds it", example.display());
            continue;
        }
        let alone = succeeds(Command::new(&example).output().unwrap());
        assert!(alone.contains(expected), "{alone}");
        let ranks = succeeds(run(&["run", "-n", "4", example.to_str().unwrap()]));
        assert!(ranks.contains(expected) && ranks.contains("rank 3: "), "{ranks}");
        for engine in ENGINES_IN_ONE_PROCESS {
            let output = run(&["run", engine[0], engine[1], example.to_str().unwrap()]);
            let simulated = err(&output).contains(&format!("4 ranks of {}: ", engine[1]));
            assert_eq!(simulated, engine[0] == "--sim", "{}", err(&output));
            let ranks = succeeds(output);
            assert!(ranks.contains(expected) && ranks.contains("rank 3: "), "{ranks}");
        }
    }
}

#[test]
fn a_program_that_joins_as_one_rank_is_refused_as_several() {
    let program = env!("CARGO_BIN_EXE_treepie");
    for engine in ENGINES_IN_ONE_PROCESS {
        let output = run(&["run", engine[0], engine[1], program, "demo-rank"]);
        assert!(err(&output).contains("treepie::init makes this process one rank"), "{}", err(&output));
        assert!(!output.status.success());
    }
}
