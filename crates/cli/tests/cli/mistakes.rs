//! Usage errors: each is one line, with a suggestion.

use super::{Scratch, err, out, refused, run, succeeds, treepie};

#[test]
fn mistyped_words_get_a_suggestion() {
    let cases: &[(&[&str], &str)] = &[
        (&["rnu", "-n", "2", "true"], "did you mean run?"),
        (&["bench", "colectives"], "'collectives'"),
        (&["bench", "ma"], "did you mean am?"),
        (&["run", "-np", "4", "true"], "did you mean -n 4?"),
        (&["run", "--np", "4", "true"], "did you mean -n 4?"),
        (&["run", "-np"], "did you mean -n P?"),
        (&["graph", "cc", "--kronecker", "5", "-np", "2"], "did you mean -n 2?"),
        (&["run", "--thread", "4", "true"], "'--threads'"),
        (&["run", "-n", "2", "--no-pn", "true"], "'--no-pin'"),
        (&["graph", "cc", "--symetrize", "file"], "'--symmetrize'"),
        (&["graph", "bfz", "--kronecker", "5"], "'bfs'"),
        (&["sim", "allgater", "--ranks", "4"], "did you mean allgather?"),
        (&["sim", "allgather", "--ranks", "4", "--algo", "rign"], "allgather/ring"),
        (&["sim", "allgather", "--ranks", "4", "--set", "alhpa=1"], "did you mean alpha?"),
        (&["algorithms", "alltoal"], "did you mean alltoall?"),
        (&["sim", "allgather", "--network", "toru:8x8"], "expected flat, torus:8x8x8, mesh:16x16"),
        (&["algorithms", "--network", "toru:8x8"], "`toru:8x8` is not a network"),
        (&["bench", "exchange", "--network", "toru:8x8"], "`toru:8x8` is not a network"),
        (&["run", "--emulate", "torus:2x2", "true"], "--emulate: torus:2x2 has no wide-area links"),
        (
            &["run", "-n", "3", "--emulate", "clusters:2x2", "true"],
            "--emulate: clusters:2x2 has 4 ranks, but there are 3",
        ),
        (&["explain", "bcast", "-n", "3", "--emulate", "clusters:2x2"], "clusters:2x2 has 4 ranks, but there are 3"),
        (&["tune", "--emulate", "clusters:2x2,wan=fast"], "--emulate: `fast` is no latency and rate as 10ms/1MBps"),
        (&["randomaccess", "--algorithm", "hypercub"], "there is no algorithm `hypercub` of RandomAccess"),
        (&["randomaccess", "--refinements", "mod8"], "there is no refinement `mod8`"),
        (&["randomaccess", "--look-ahead", "0"], "a look-ahead of 0 allows no update"),
        (&["randomaccess", "-n", "9", "--table-log2", "3"], "a table of 8 words has none for some of 9 ranks"),
        (&["randomaccess", "--table-log2", "40"], "not enough memory: the table and the lists of updates need"),
        (&["randomaccess", "-n", "2", "--algorithm", "serial"], "serial needs 1 rank, not 2"),
        (&["randomaccess", "-n", "3", "--algorithm", "hypercube"], "hypercube needs a power of two of ranks, not 3"),
        (&["randomaccess", "-n", "2", "--algorithm", "hypercube:order=morton"], "needs the network of a torus"),
        (&["bench", "randomaccess", "--fit", "2,2"], "--fit needs two different numbers of ranks"),
        (&["bench", "randomaccess", "--fit", "1,3"], "the number of ranks must be a power of two, not 3"),
        (&["bench", "randomaccess", "--fit", "1,2", "-n", "2"], "cannot be used with '--ranks"),
        (&["bench", "randomaccess", "--scaling", "8", "--repeat", "2"], "cannot be used with '--repeat"),
        (&["bench", "randomaccess", "--scaling", "8", "--algorithms", "am/mod3"], "am has no refinements"),
        (&["bench", "randomaccess", "--scaling", "8", "--algorithms", "hypercube/base"], "have no pages"),
        (&["bench", "randomaccess", "--against", "hpcc", "--table-log2", "12,13"], "choose one table"),
        (&["randomaccess", "--memory-fraction", "2"], "--memory-fraction must be above 0 and at most 1"),
        (&["bench", "bfs", "--protocols", "exchange/nbz"], "`treepie algorithms exchange` lists them"),
    ];
    for (arguments, named) in cases {
        assert_eq!(out(&refused(arguments, named)), "", "{arguments:?}");
    }
}

#[test]
fn options_that_would_have_no_effect_are_refused() {
    let cases: &[(&[&str], &str)] = &[
        (&["graph", "bfs", "--grid", "3x3", "--damping", "0.3"], "--damping is for pagerank, not for bfs"),
        (&["graph", "cc", "--grid", "3x3", "--iterations", "3"], "--iterations is for pagerank, not for cc"),
        (&["graph", "cc", "--grid", "3x3", "--tolerance", "3"], "--tolerance is for pagerank, not for cc"),
        (&["graph", "bfs", "--grid", "3x3", "--delta", "3"], "--delta is for sssp"),
        (&["sim", "barrier", "--ranks", "8", "--bytes", "7"], "a barrier has no bytes"),
        (&["sim", "barrier", "--ranks", "8", "--sweep", "bytes=1..8"], "a barrier has no bytes"),
        (&["sim", "allgather", "--ranks", "8", "--root", "3"], "--root: allgather has no root"),
        (&["bench", "p2p", "--mpirun", "mpirun"], "--mpirun is for --against mpi or --fabric mpi"),
        (&["bench", "split", "--look-ups", "--way", "split/quick"], "--simulate <SIZES>"),
        (&["bench", "split", "--look-ups", "--machine", "jaguar"], "--simulate <SIZES>"),
        (&["bench", "split", "--look-ups", "--fresh"], "--emulate <SIZES>"),
        (&["algorithms", "allgather/ring"], "did you mean allgather?"),
    ];
    for (arguments, named) in cases {
        assert_eq!(out(&refused(arguments, named)), "", "{arguments:?}");
    }
}

#[test]
fn a_closed_standard_error_is_ignored() {
    let script = "exec \"$0\" fly 2>&-";
    let status = std::process::Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_treepie")]).status().unwrap();
    assert_eq!(status.code(), Some(2));
    // A pipe without a reader fails differently from a closed descriptor.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(treepie(&["fly"]).stderr(writer).status().unwrap().code(), Some(2));
}

#[test]
fn options_after_the_program_are_its_own() {
    let shown = succeeds(run(&["run", "-n", "1", "echo", "-np", "4", "--no-pn"]));
    assert_eq!(shown, "-np 4 --no-pn\n");
    let shown = succeeds(run(&["run", "-n", "1", "--", "echo", "-np"]));
    assert_eq!(shown, "-np\n");
}

#[test]
fn engines_in_one_process_are_checked_before_the_program_starts() {
    refused(&["run", "--sim", "toru:4x4", "true"], "--sim: `toru:4x4` is not a network");
    refused(&["run", "--sim", "flat", "true"], "--sim: the number of ranks is missing");
    refused(&["run", "--threads", "4", "no-such-program"], "cannot run no-such-program");
    refused(&["run", "--threads", "0", "true"], "0 is not in 1..=4294967295");
    refused(&["run", "--threads", "2", "-n", "2", "true"], "cannot be used with");
    refused(&["run", "true"], "--ranks <P>");
}

#[test]
fn too_many_ranks_are_refused_with_the_limit() {
    for ranks in ["100000000", "4294967295"] {
        refused(&["run", "-n", ranks, "true"], "ranks are too many: this system allows at most");
        refused(&["graph", "cc", "--kronecker", "5", "-n", ranks], "ranks are too many: this system allows at most");
    }
    refused(&["run", "-n", "4294967296", "true"], "not in 1..=4294967295");
}

#[test]
fn too_many_vertices_are_refused_with_the_limit() {
    let limit =
        "4294967290 vertices are too many for 1 rank: a rank has at most 4294967231 of them; use at least 2 ranks";
    refused(&["graph", "cc", "--erdos-renyi", "4294967290,degree=1", "-n", "1"], limit);
}

#[test]
fn bytes_are_spelt_alike_everywhere() {
    for (text, bytes) in [("1KB", "1000"), ("1KiB", "1024"), ("1K", "1024"), ("1kb", "1000"), ("1024B", "1024")] {
        let shown = succeeds(run(&["sim", "allgather/ring", "--network", "flat:4", "--bytes", text]));
        let row = shown.lines().last().unwrap();
        assert_eq!(row.split_whitespace().nth(1), Some(bytes), "{text}: {row}");
        succeeds(run(&["sim", "bcast/flat", "--network", "flat:4", "--sweep", &format!("bytes={text}..2K")]));
        succeeds(run(&["sim", "bcast/flat", "--network", "flat:4", "--set", &format!("memory={text}")]));
    }
    for arguments in [
        &["sim", "bcast", "--network", "flat:4", "--bytes", "1XB"][..],
        &["sim", "bcast", "--network", "flat:4", "--sweep", "bytes=1XB..2K"],
        &["bench", "exchange", "--bytes", "1XB"],
        &["bench", "weak", "--memory", "1XB"],
    ] {
        refused(arguments, "64K or 64KiB (1024 each), 64KB (1000 each)");
    }
}

#[test]
fn each_cause_is_printed_once() {
    // Its shared memory cannot be allocated.
    let script = "ulimit -v 200000; exec \"$0\" run -n 512 true";
    let output = std::process::Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_treepie")]).output().unwrap();
    let stderr = err(&output);
    assert!(!output.status.success() && stderr.lines().count() == 1, "{stderr}");
    assert_eq!(stderr.matches("os error 12").count(), 1, "{stderr}");
}

/// Variables, invalid values, and the error.
const WRONG: [(&str, &str, &str); 10] = [
    ("TREEPIE_LOG", "debug", "TREEPIE_LOG=debug: expected choices"),
    ("TREEPIE_STALL_SECS", "abc", "TREEPIE_STALL_SECS=abc: expected a number of seconds"),
    ("TREEPIE_STALL_SECS", "-1", "TREEPIE_STALL_SECS=-1: expected a number of seconds"),
    ("TREEPIE_CHECKED", "maybe", "TREEPIE_CHECKED=maybe: expected 1, on, true, yes or 0, off, false, no"),
    ("TREEPIE_SINGLE_COPY", "never", "TREEPIE_SINGLE_COPY=never: expected 1, on, true, yes or 0"),
    ("TREEPIE_ALGORITHM", "allgather/rign", "TREEPIE_ALGORITHM=allgather/rign: there is no algorithm"),
    ("TREEPIE_NETWORK", "toru:2", "TREEPIE_NETWORK=toru:2: `toru:2` is not a network: expected flat"),
    ("TREEPIE_NETWORK", "torus:3", "TREEPIE_NETWORK=torus:3: 2 ranks requested"),
    ("TREEPIE_AM", "routing=rok", "TREEPIE_AM=routing=rok: "),
    ("TREEPIE_TMPFILE", "maybe", "TREEPIE_TMPFILE=maybe: expected 1, on, true, yes or 0, off, false, no"),
];

#[test]
fn invalid_variables_are_refused_before_anything_starts() {
    for (name, value, expected) in WRONG {
        let of_graph = ["graph", "cc", "--grid", "3x3", "-n", "2"];
        for arguments in [&["run", "-n", "2", "echo", "started"][..], &of_graph] {
            let output = treepie(arguments).env(name, value).output().unwrap();
            assert!(!output.status.success() && out(&output).is_empty(), "{name}={value}: {}", out(&output));
            let stderr = err(&output);
            assert!(
                stderr.starts_with(&format!("treepie: {expected}")) && stderr.lines().count() == 1,
                "{arguments:?}: {stderr}"
            );
        }
        if name != "TREEPIE_NETWORK" {
            let output = treepie(&["algorithms"]).env(name, value).output().unwrap();
            assert!(!output.status.success() && err(&output).contains(expected), "{}", err(&output));
        }
    }
}

#[test]
fn valid_variables_are_accepted() {
    for (name, value) in [
        ("TREEPIE_LOG", "choices"),
        ("TREEPIE_LOG", ""),
        ("TREEPIE_STALL_SECS", "0.5"),
        ("TREEPIE_STALL_SECS", "0"),
        ("TREEPIE_CHECKED", "yes"),
        ("TREEPIE_CHECKED", "off"),
        ("TREEPIE_SINGLE_COPY", "on"),
        ("TREEPIE_ALGORITHM", "allgather/ring,exchange/nbx"),
        ("TREEPIE_NETWORK", "torus:2"),
        ("TREEPIE_AM", "routing=rook"),
        ("TREEPIE_TMPFILE", "off"),
    ] {
        let output = treepie(&["graph", "cc", "--grid", "3x3", "-n", "2"]).env(name, value).output().unwrap();
        assert!(output.status.success(), "{name}={value}: {}", err(&output));
    }
}

#[test]
fn unknown_variables_are_warned_of_once() {
    let warned = |arguments: &[&str]| {
        let output = treepie(arguments).env("TREEPIE_STAL_SECS", "3").output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        let expected = "treepie: warning: the environment variable TREEPIE_STAL_SECS is not known and has no effect: \
                        did you mean TREEPIE_STALL_SECS?\n";
        assert_eq!(err(&output), expected, "{arguments:?}");
    };
    warned(&["graph", "cc", "--grid", "3x3", "-n", "3"]);
    warned(&["graph", "cc", "--grid", "3x3", "-n", "1"]);
    warned(&["algorithms", "bcast"]);
    let output = treepie(&["doctor"]).env("TREEPIE_STAL_SECS", "3").env("TREEPIE_LOG", "debug").output().unwrap();
    let shown = succeeds(output);
    assert!(shown.contains("invalid: TREEPIE_LOG=debug") && shown.contains("did you mean TREEPIE_STALL_SECS?"));
}

#[test]
fn a_record_of_bound_ranks_has_the_cores_of_the_machine() {
    let (alone, ranks) = (Scratch::new(), Scratch::new());
    succeeds(run(&["doctor", "--json", alone.path()]));
    succeeds(run(&["graph", "cc", "--grid", "3x3", "-n", "2", "--json", ranks.path()]));
    assert_eq!(ranks.lines()[0]["machine"], alone.lines()[0]["machine"]);
}
