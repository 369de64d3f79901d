//! Every blocking call of the public API, with one rank that is killed, leaves, panics or returns an error instead of
//! calling it. Every other rank gets an error or the correct result: never a wrong `Ok`, never a hang.
//!
//! The calls are in a table ([`table`]); [`api`] reads the sources and fails if a function that returns a `Result` is
//! neither in the table nor listed as local. Each call is made three times after the fault, because a call that failed
//! must keep failing.
//!
//! This program is both the test and, started by a launcher, a rank: `blocking rank FAULT CALL`.

mod active;
mod api;
mod collectives;
mod communicators;
mod epochs;
mod exchanges;
mod graphs;
mod hierarchical;
mod messages;
mod randomaccess;
mod repeated;
mod running;
mod table;

use std::process::ExitCode;

use running::{Fault, mpi, processes, rank_main, simulated, threads};
use table::table;

/// Rows that also run under MPI, where starting a job takes long; with `TREEPIE_LONG` all do.
const MPI_SAMPLE: [&str; 3] = ["Comm::recv", "Comm::barrier", "ActiveMessages::epoch_for"];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, role, fault, call] = &args[..]
        && role == "rank"
    {
        return rank_main(fault, call);
    }
    // The first argument that is not an option filters by name, as with `cargo test`.
    let filter = args[1..].iter().find(|arg| !arg.starts_with('-')).cloned().unwrap_or_default();
    // Jobs wait for processes to start and end, so the rows of this process run meanwhile.
    let results = std::thread::scope(|scope| {
        let jobs = scope.spawn(|| run_rows(&filter, true));
        let mut results = run_rows(&filter, false);
        results.extend(jobs.join().expect("rows return their failures"));
        results
    });
    let failed = results.iter().filter(|(_, result)| result.is_err()).count();
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {} passed; {failed} failed", results.len() - failed);
    ExitCode::from(u8::from(failed > 0))
}

/// The verdict on a row, with its name.
type RowResult = (String, Result<(), String>);

/// Runs the rows that start processes, or all others, if their names contain the filter.
fn run_rows(filter: &str, are_jobs: bool) -> Vec<RowResult> {
    let long = std::env::var_os("TREEPIE_LONG").is_some();
    let mut results = Vec::new();
    let mut run = |name: String, test: &dyn Fn() -> Result<(), String>| {
        let is_job =
            ["processes", "mpirun."].iter().any(|engine| name.split(',').next().unwrap_or_default().contains(engine));
        if is_job == are_jobs && name.contains(filter) {
            if !is_job {
                running::CURRENT_ROW.lock().expect("not poisoned").clone_from(&name);
            }
            let result = test();
            if let Err(why) = &result {
                println!("test {name} ... FAILED\n    {why}");
            }
            results.push((name, result));
        }
    };
    run("every blocking call is in the table".into(), &api::all_are_listed);
    for call in table() {
        let name = call.name();
        for fault in [Fault::Leaves, Fault::Panics] {
            run(format!("threads, {fault}: {name}"), &|| threads(fault, &call));
            run(format!("simulated, {fault}: {name}"), &|| simulated(fault, &call));
        }
        for fault in Fault::ALL {
            // The other faults differ only in what the launcher prints.
            if long || call.is_sample || matches!(fault, Fault::Killed | Fault::Leaves) {
                run(format!("processes, {fault}: {name}"), &|| processes(fault, &call));
            }
        }
        for launcher in ["mpirun.openmpi", "mpirun.mpich"] {
            for fault in Fault::ALL {
                if (long || MPI_SAMPLE.contains(&name)) && running::has_launcher(launcher) {
                    run(format!("{launcher}, {fault}: {name}"), &|| mpi(launcher, fault, &call));
                }
            }
        }
    }
    repeated::all(&mut run);
    epochs::all(&mut run);
    hierarchical::all(&mut run);
    results
}
