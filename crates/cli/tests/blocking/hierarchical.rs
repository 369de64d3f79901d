//! Hierarchical algorithms and MagPIe's: a rank is lost in the middle of the operation. On every engine with clusters as
//! the network, and on threads and processes also behind emulated links. The others get an error or the correct result
//! from that operation; from later ones, which need the lost rank, only an error.

use std::process::Command;

use treepie::{Comm, Network, Request, Result, Sum};
use treepie_collectives::registry;

use crate::running::{self, Failures, Fault, check_error, has_launcher, settings, with_expected_panic};
use crate::table::{Outcome, Stop};

/// Three clusters of two ranks: every algorithm applies.
const NETWORK: &str = "clusters:3x2";
const LINKS: &str = "clusters:3x2,wan=200us/100MBps,lan=5us/1GBps";
const RANKS: usize = 6;

/// Operations of the others, of which the victim starts the first.
const CALLS: usize = 3;

/// Elements of a block: with 6 blocks above the eager limit.
const N: usize = 4096;

/// The algorithm, and when which rank is lost.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    id: String,
    /// A coordinator, or another rank.
    victim: usize,
    /// How often the victim makes progress before it is lost; `None`: it is lost instead of a blocking call.
    polls: Option<usize>,
}

impl Loss {
    /// `ID/VICTIM/POLLS`, or `ID/VICTIM/blocking`.
    fn to_text(&self) -> String {
        let polls = self.polls.map_or("blocking".to_owned(), |polls| polls.to_string());
        format!("{}/{}/{polls}", self.id, self.victim)
    }

    fn in_progress(id: &str, victim: usize, polls: usize) -> Self {
        Self { id: id.to_owned(), victim, polls: Some(polls) }
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.rsplitn(3, '/');
        let polls = match parts.next()? {
            "blocking" => None,
            polls => Some(polls.parse().ok()?),
        };
        let victim = parts.next()?.parse().ok()?;
        Some(Self { id: parts.next()?.to_owned(), victim, polls })
    }
}

/// All algorithms over clusters, some also with arguments, with a coordinator that is lost early and late, and a rank that is none.
fn losses() -> Vec<Loss> {
    let names = registry::all().iter().filter(|algorithm| {
        let name = algorithm.name();
        name.starts_with("hierarchical") || name == "magpie"
    });
    let ids = names.map(|algorithm| algorithm.id.clone()).chain(WITH_ARGUMENTS.map(str::to_owned));
    let losses =
        ids.flat_map(|id| [(2, 0), (2, 4), (3, 1)].map(|(victim, polls)| Loss::in_progress(&id, victim, polls)));
    losses.collect()
}

/// Segments in flight, and several coordinators of a cluster.
const WITH_ARGUMENTS: [&str; 4] = [
    "bcast/hierarchical:segments=8,coordinators=2",
    "reduce/hierarchical:segments=8",
    "allreduce/hierarchical:segments=16,coordinators=2",
    "allgather/hierarchical:segments=4,coordinators=2",
];

/// Starts the operation of the algorithm, in which every rank contributes ones.
fn start(comm: &Comm, operation: &str) -> Result<Request<'static, Vec<u64>>> {
    let (block, all) = (vec![1u64; N], vec![1u64; N * RANKS]);
    let at_root = |data: Vec<u64>| if comm.rank() == 0 { data } else { Vec::new() };
    match operation {
        "bcast" => comm.ibcast(all, 0),
        "scatter" => comm.iscatter(at_root(all), N, 0),
        "gather" => comm.igather(block, 0),
        "allgather" => comm.iallgather(block),
        "reduce" => comm.ireduce(all, Sum, 0),
        "allreduce" => comm.iallreduce(all, Sum),
        "reduce_scatter" => comm.ireduce_scatter_block(all, Sum),
        "alltoall" => comm.ialltoall(all),
        "scan" => comm.iscan(all, Sum),
        "exscan" => comm.iexscan(all, Sum),
        other => unreachable!("{other} is not started here"),
    }
}

/// The blocking call of the same.
fn call(comm: &Comm, operation: &str) -> Result<Vec<u64>> {
    let (block, mut all) = (vec![1u64; N], vec![1u64; N * RANKS]);
    match operation {
        "barrier" => comm.barrier().map(|()| Vec::new()),
        "bcast" => comm.bcast(&mut all, 0).map(|()| all),
        "allgather" => comm.allgather(&block),
        "reduce" => {
            let mut into = vec![0; if comm.rank() == 0 { all.len() } else { 0 }];
            comm.reduce(&all, &mut into, Sum, 0).map(|()| into)
        }
        "allreduce" => comm.allreduce(&all, Sum),
        other => unreachable!("{other} has no phases within hosts"),
    }
}

/// What every element of the result is.
fn expected(operation: &str, rank: usize) -> u64 {
    match operation {
        "reduce" | "allreduce" | "reduce_scatter" => RANKS as u64,
        "scan" => rank as u64 + 1,
        "exscan" => rank as u64,
        _ => 1,
    }
}

/// Whether every rank's result depends on every other rank.
fn needs_all(operation: &str) -> bool {
    ["allgather", "allreduce", "reduce_scatter", "alltoall", "barrier"].contains(&operation)
}

/// Makes progress some times, then injects the fault.
fn lose<T>(mut request: Request<'static, T>, loss: &Loss, fault: Fault) -> Outcome {
    for _ in 0..loss.polls.unwrap_or(0) {
        if request.test().is_some() {
            break;
        }
        running::yield_turn();
    }
    fault.inject();
    Err(Stop::Left)
}

fn trial(world: &Comm, loss: &Loss, fault: Fault) -> Outcome {
    let comm = world.with_algorithm(&loss.id)?;
    let operation = loss.id.split('/').next().unwrap_or_default();
    // Faults are injected only after all ranks have started.
    world.barrier()?;
    for number in 0..CALLS {
        let result = if loss.polls.is_none() {
            // All have called once, so that the others are in different phases of the second call.
            if world.rank() == loss.victim && number == 1 {
                fault.inject();
                return Err(Stop::Left);
            }
            call(&comm, operation)
        } else if operation == "barrier" {
            let request = comm.ibarrier()?;
            if world.rank() == loss.victim {
                return lose(request, loss, fault);
            }
            request.wait().map(|()| Vec::new())
        } else {
            let request = match start(&comm, operation) {
                Ok(request) => request,
                Err(_) if number > 0 => continue,
                Err(error) => return Err(error.into()),
            };
            if world.rank() == loss.victim {
                return lose(request, loss, fault);
            }
            request.wait()
        };
        let rank = world.rank();
        match result {
            Ok(_) if number > 0 && needs_all(operation) => {
                return Err(Stop::Wrong(format!("rank {rank}: operation {number} returned Ok")));
            }
            Ok(data) if data.iter().any(|element| *element != expected(operation, rank)) => {
                return Err(Stop::Wrong(format!("rank {rank}: operation {number} returned a wrong value")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs a rank of a job, whose text names the loss.
pub(crate) fn rank_trial(world: &Comm, text: &str, fault: Fault) -> Option<Outcome> {
    let loss = Loss::from_text(text)?;
    Some(on_clusters(world).map_err(Stop::from).and_then(|world| trial(&world, &loss, fault)))
}

/// The world with clusters as its network, which it has already behind emulated links.
fn on_clusters(world: &Comm) -> Result<Comm> {
    if world.network()?.as_clusters().is_some() { Ok(world.clone()) } else { world.with_network(NETWORK) }
}

fn on_threads(loss: &Loss, fault: Fault, is_emulated: bool) -> std::result::Result<(), String> {
    let failures = Failures::default();
    let body = |world: Comm| failures.record(fault, trial(&on_clusters(&world)?, loss, fault));
    let launched = with_expected_panic(|| {
        if is_emulated { treepie::launch_emulated(LINKS, body) } else { treepie::launch(RANKS, body) }
    })?;
    check_error(fault, launched)?;
    failures.verdict()
}

fn simulated(loss: &Loss, fault: Fault) -> std::result::Result<(), String> {
    let network: Network = NETWORK.parse().map_err(|error| format!("{error}"))?;
    (0..4).try_for_each(|seed| {
        let failures = Failures::default();
        let body = |world: Comm| failures.record(fault, trial(&world, loss, fault));
        let simulated = with_expected_panic(|| treepie::simulate(&network, &settings(seed), body))?;
        check_error(fault, simulated)?;
        failures.verdict()
    })
}

fn on_processes(loss: &Loss, is_emulated: bool) -> std::result::Result<(), String> {
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_treepie"));
    launcher.args(["run", "-n", &RANKS.to_string()]);
    if loss.polls.is_none() {
        // The ranks of each cluster share a segment.
        launcher.env("TREEPIE_SHARED_SEGMENT", "2");
    }
    if is_emulated {
        launcher.args(["--emulate", LINKS]);
    }
    let output = running::job(&mut launcher, Fault::Killed, &loss.to_text())?;
    running::check_status(&output, Fault::Killed, loss.victim)
}

fn on_mpi(launcher: &str, loss: &Loss) -> std::result::Result<(), String> {
    let mut command = running::mpi_launcher(launcher, RANKS);
    let output = running::job(&mut command, Fault::Killed, &loss.to_text())?;
    running::check(&output)?;
    if output.status.success() { Err("a job with a killed rank succeeded".to_owned()) } else { Ok(()) }
}

pub(crate) fn all(run: &mut impl FnMut(String, &dyn Fn() -> std::result::Result<(), String>)) {
    let long = std::env::var_os("TREEPIE_LONG").is_some();
    for id in registry::all().iter().filter(|algorithm| algorithm.name() == "smp").map(|algorithm| &algorithm.id) {
        // The root, the leader of another host, and a rank that is none.
        for victim in [0, 2, 3] {
            let loss = Loss { id: id.clone(), victim, polls: None };
            run(format!("processes, Killed in {}", loss.to_text()), &|| on_processes(&loss, false));
        }
    }
    for loss in losses() {
        let text = loss.to_text();
        for fault in [Fault::Leaves, Fault::Panics] {
            run(format!("threads, {fault} in {text}"), &|| on_threads(&loss, fault, false));
            run(format!("emulated on threads, {fault} in {text}"), &|| on_threads(&loss, fault, true));
            run(format!("simulated, {fault} in {text}"), &|| simulated(&loss, fault));
        }
        run(format!("emulated on processes, Killed in {text}"), &|| on_processes(&loss, true));
        if long || loss.polls > Some(1) {
            run(format!("processes, Killed in {text}"), &|| on_processes(&loss, false));
        }
        for launcher in ["mpirun.openmpi", "mpirun.mpich"] {
            if long && has_launcher(launcher) {
                run(format!("{launcher}, Killed in {text}"), &|| on_mpi(launcher, &loss));
            }
        }
    }
}
