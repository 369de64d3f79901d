//! Runs the conformance suite in the world that this process was started in, or in a new one.

use std::process::ExitCode;

use treepie::Network;
use treepie::simulate::{ClusterCosts, LinkCosts, LogGP, PLogP, Settings, WanLink};
use treepie_conformance::{Summary, cases, run_all};
use treepie_shm::launch::{LabelMode, Launch};

const USAGE: &str = "\
usage: conformance [--threads N | --shm N | --sim NETWORK] [--parts] [FILTER]
       conformance --list [FILTER]

Runs the cases whose names contain one of the comma-separated words of FILTER, or all, as a rank of the world it was
started in (treepie run, mpirun).

  --threads N     on N threads
  --shm N         on N processes that it starts
  --sim NETWORK   on simulated ranks: a number, or a network such as torus:4x4
  --parts         on two communicators at once, of the even and the odd ranks, with permuted ranks
  --list          lists the cases";

/// Where the ranks come from.
enum World {
    Inherited,
    Threads(usize),
    Processes(u32),
    Simulated(Network),
}

fn main() -> ExitCode {
    let mut world = World::Inherited;
    let mut list = false;
    let mut parts = false;
    let mut filter = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--list" => list = true,
            "--parts" => parts = true,
            "--threads" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) => world = World::Threads(n),
                None => return usage("--threads needs a number"),
            },
            "--shm" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) => world = World::Processes(n),
                None => return usage("--shm needs a number"),
            },
            "--sim" => match args.next().map(|text| network(&text)) {
                Some(Ok(network)) => world = World::Simulated(network),
                Some(Err(error)) => return usage(&format!("--sim: {error}")),
                None => return usage("--sim needs a number or a network"),
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
    match run(world, parts, filter) {
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

/// Runs the cases and returns whether all passed.
fn run(world: World, parts: bool, filter: Option<&str>) -> Result<bool, Box<dyn std::error::Error>> {
    match world {
        World::Inherited => {
            let world = treepie::init()?;
            run_in(&world, parts, filter).map_err(Into::into)
        }
        World::Threads(ranks) => {
            Ok(treepie::launch(ranks, |world| run_in(&world, parts, filter))?.into_iter().all(|passed| passed))
        }
        World::Simulated(network) => {
            let run_it = |world: treepie::Comm| run_in(&world, parts, filter);
            let simulated = treepie::simulate(&network, &settings(&network), run_it)?;
            println!("{} messages in {:.0} simulated us", simulated.messages, simulated.micros());
            Ok(simulated.into_results().into_iter().all(|passed| passed))
        }
        World::Processes(ranks) => {
            let mut launch = Launch::new(ranks, std::env::current_exe()?);
            let parts = parts.then_some("--parts");
            launch.args = parts.into_iter().chain(filter).map(Into::into).collect();
            launch.label = LabelMode::Never;
            let outcome = launch.run()?;
            if !outcome.is_success() {
                eprintln!("conformance: {outcome}");
            }
            Ok(outcome.is_success())
        }
    }
}

/// Runs the cases in a world, or in its parts.
fn run_in(world: &treepie::Comm, parts: bool, filter: Option<&str>) -> treepie::Result<bool> {
    if !parts {
        return Ok(report(world.rank(), &run_all(world, filter)));
    }
    let rank = world.rank();
    // Neighbors are swapped, so that no formula describes the ranks.
    let part = world.split(rank as u32 % 2, (rank as i32 / 2) ^ 1)?.expect("every rank has a color");
    let passed = report(part.rank(), &run_all(&part, filter));
    // Ranks of the other part would see ranks that leave the world as failed.
    world.barrier()?;
    Ok(passed)
}

/// Parses a number of ranks or a network.
fn network(text: &str) -> Result<Network, Box<dyn std::error::Error>> {
    let network = match text.parse() {
        Ok(ranks) if ranks > 0 => Network::flat(ranks),
        Ok(_) => return Err("a world needs a rank".into()),
        Err(_) => Network::load(text)?,
    };
    if network.ranks() == 0 {
        return Err(format!("{text} does not say how many ranks there are").into());
    }
    Ok(network)
}

/// Message costs for a kind of network. They change the order of events, but no result.
fn settings(network: &Network) -> Settings {
    if let Some(clusters) = network.as_clusters() {
        let wide = WanLink { latency: 1000.0, bandwidth: 1.0 };
        let links = vec![wide; clusters.levels() as usize];
        return ClusterCosts::per_level(PLogP::from_latency_bandwidth(20.0, 50.0), links).into();
    }
    if network.as_torus().is_some() || network.as_clos().is_some() {
        return LinkCosts::new(6.29, 1.0 / 375.0).into();
    }
    LogGP { latency: 4.29, overhead: 2.87, gap: 2.04, per_byte: 0.00267 }.into()
}

fn report(rank: usize, summary: &Summary) -> bool {
    if rank == 0 {
        println!("{summary}");
    } else if let Some(error) = &summary.broken {
        eprintln!("conformance: rank {rank} stopped: {error}");
    }
    summary.is_success() && !summary.entries.is_empty()
}
