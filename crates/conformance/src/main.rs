//! Runs the conformance suite in the world that this process was started in, or in one that it makes.

use std::process::ExitCode;

use treepie_conformance::{Summary, cases, run_all};
use treepie_shm::launch::{Label, Launch};

const USAGE: &str = "\
usage: conformance [--threads N | --shm N] [FILTER]
       conformance --list [FILTER]

Runs the cases whose name contains one of the words of FILTER (commas between them), or all: as a rank of the world it was started in (treepie run, mpirun); with
--threads on N threads of its own, with --shm on N processes that it starts.";

/// Where the ranks come from.
enum World {
    Found,
    Threads(usize),
    Processes(u32),
}

fn main() -> ExitCode {
    let mut world = World::Found;
    let mut list = false;
    let mut filter = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--list" => list = true,
            "--threads" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) => world = World::Threads(n),
                None => return usage("--threads needs a number"),
            },
            "--shm" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) => world = World::Processes(n),
                None => return usage("--shm needs a number"),
            },
            "--help" | "-h" => {
                println!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            other if other.starts_with('-') || filter.is_some() => return usage(&format!("unexpected: {other}")),
            other => filter = Some(other.to_owned()),
        }
    }
    let filter = filter.as_deref();
    if list {
        for case in cases().iter().filter(|case| case.is_chosen_by(filter.unwrap_or_default())) {
            println!("{:<75} {} or more ranks", case.name, case.min_ranks);
        }
        return ExitCode::SUCCESS;
    }
    match run(world, filter) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage(what: &str) -> ExitCode {
    eprintln!("conformance: {what}\n{USAGE}");
    ExitCode::from(2)
}

/// Whether all cases passed.
fn run(world: World, filter: Option<&str>) -> Result<bool, Box<dyn std::error::Error>> {
    match world {
        World::Found => {
            let world = treepie::init()?;
            Ok(report(world.rank(), &run_all(&world, filter)))
        }
        World::Threads(ranks) => {
            let passed = treepie::launch(ranks, |world| report(world.rank(), &run_all(&world, filter)))?;
            Ok(passed.into_iter().all(|passed| passed))
        }
        World::Processes(ranks) => {
            let mut launch = Launch::new(ranks, std::env::current_exe()?);
            launch.args = filter.into_iter().map(Into::into).collect();
            launch.label = Label::Never;
            let outcome = launch.run()?;
            if !outcome.is_success() {
                eprintln!("conformance: {outcome}");
            }
            Ok(outcome.is_success())
        }
    }
}

fn report(rank: usize, summary: &Summary) -> bool {
    if rank == 0 {
        println!("{summary}");
    } else if let Some(error) = &summary.broken {
        eprintln!("conformance: rank {rank} stopped: {error}");
    }
    summary.is_success() && !summary.entries.is_empty()
}
