//! A simulated rank that overflows its stack is reported, with the size of the stack, before SIGSEGV ends the process.
//!
//! This test program is started again as the program that overflows; see `as_program`.

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use treepie_sim::costs::LogGP;
use treepie_sim::engine::{Options, run};
use treepie_topology::Network;

const WHAT: &str = "OVERFLOW_TEST_WHAT";

fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if black_box(true) { recurse(depth + 1) + frame[3] } else { 0 }
}

/// Not a test: the program that overflows.
#[test]
fn as_program() {
    let Ok(what) = std::env::var(WHAT) else { return };
    let (network, machine) = (Network::flat(5), LogGP { latency: 1.0, overhead: 1.0, gap: 1.0, per_byte: 0.0 }.into());
    let stack = if what == "larger" { 1 << 20 } else { Options::default().stack_size };
    let options = Options { stack_size: stack, ..Options::default() };
    let ranks = run(&network, &machine, &options, |fabric| {
        match (what.as_str(), fabric.rank()) {
            ("default" | "larger", 3) => {
                black_box(recurse(0));
            }
            // A nested simulation has its own ranks; afterwards the outer rank is current again.
            ("inner", 2) => {
                let inner = run(&network, &machine, &options, |fabric| fabric.rank());
                assert!(inner.is_ok());
                black_box(recurse(0));
            }
            _ => {}
        }
    });
    assert!(ranks.is_ok());
    match what.as_str() {
        "thread" => {
            let overflows = || black_box(recurse(0));
            std::thread::Builder::new().name("aside".into()).spawn(overflows).unwrap().join().unwrap();
        }
        "elsewhere" => std::process::abort(),
        _ => {}
    }
}

/// The signal that ended the program, and its standard error.
fn end_of(what: &str) -> (Option<i32>, String) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["as_program", "--exact", "--nocapture"]).env(WHAT, what);
    let output = program.output().unwrap();
    (output.status.signal(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_overflow_names_the_rank_its_stack_and_the_option() {
    for (what, rank, bytes) in [("default", 3, 262_144), ("larger", 3, 1_048_576), ("inner", 2, 262_144)] {
        let line = format!(
            "treepie: simulated rank {rank} overflowed its stack of {bytes} bytes; set a larger Options::stack_size \
             in treepie::simulate::simulate_with\n"
        );
        assert_eq!(end_of(what), (Some(11), line), "{what}");
    }
}

#[test]
fn other_faults_are_handled_as_before() {
    let (signal, stderr) = end_of("thread");
    assert_eq!(signal, Some(6), "Rust aborts: {stderr}");
    assert!(stderr.contains("thread 'aside'") && stderr.contains("has overflowed its stack"), "{stderr}");
    assert!(!stderr.contains("treepie"), "{stderr}");
    assert_eq!(end_of("elsewhere").0, Some(6));
}
