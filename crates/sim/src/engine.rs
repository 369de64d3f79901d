//! The `sim` engine: runs unmodified rank programs in virtual time.
//!
//! Each rank runs on its own stack, all in the caller's thread, and a rank that waits lets others run. So a rank
//! program is ordinary blocking code, and every run is deterministic.
//!
//! What costs time: sending and receiving, as the machine prices it; combining in collective operations (gamma; copying
//! is free here, while simulated schedules pay gamma for both); the work that the program reports
//! ([`Fabric::charge_time`], [`Fabric::charge_work`]); and empty polls ([`Options::poll_cost`]), so that polling loops
//! let time advance. Everything else is free. A message of up to 64 KiB is one transfer; a longer one is a rendezvous
//! (RTS, CTS) and one bulk transfer. Protocols above engines (credit, acks of synchronous sends unless
//! [`Settings::handshake`] says otherwise) send their own messages, which count.
//!
//! If no event is left while ranks wait, that is a deadlock, and all of them end. A rank that fails is unwound where it
//! waits, or where it computes beyond its failure time; others get `PeerLost` once all that it sent has arrived. Ranks
//! that finalize are noticed when no other event is left, and otherwise after 1 ms, 2 ms more, 4 ms more, and so on. A
//! handle that is moved into the code of another rank, or into a nested simulation, is unusable there: operations fail,
//! and its rank can use it as before. `Settings::memory_cap` counts short messages that a rank has not read or not
//! matched; long ones wait at their senders.
//!
//! | file | contents |
//! |---|---|
//! | `fibre` | stacks; everything `unsafe` |
//! | `world`, `bulk`, `liveness` | what all ranks share; bulk transfers; liveness of ranks |
//! | `fabric` | the `Fabric` of a rank |

mod bulk;
mod fabric;
mod fibre;
mod liveness;
mod options;
mod world;

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use treepie_fabric::Fabric;
use treepie_topology::Network;

use crate::costs::{CostModel, Settings};
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::time::{MAX_TIME, Time, from_micros, to_micros};
use crate::trace::SimTrace;
use fabric::SimFabric;
use fibre::{Fibres, Suspender};
pub use options::Options;
use world::{HaltReason, SimWorld};

/// Result of a simulation of programs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProgramResult<R> {
    /// The result of each rank; none for a rank that failed.
    pub results: Vec<Option<R>>,
    /// When each rank ended.
    pub end_times: Vec<Time>,
    /// When the last rank ended.
    pub makespan: Time,
    /// Transfers of all ranks, including those of protocols.
    pub messages: u64,
    /// Bytes of all transfers.
    pub bytes: u64,
    /// The trace, if it was recorded.
    pub trace: Option<SimTrace>,
}

impl<R> ProgramResult<R> {
    /// The makespan in microseconds.
    pub fn micros(&self) -> f64 {
        to_micros(self.makespan)
    }

    /// The same with other results.
    pub fn try_map_results<T, E>(
        self,
        map: impl FnOnce(Vec<Option<R>>) -> std::result::Result<Vec<Option<T>>, E>,
    ) -> std::result::Result<ProgramResult<T>, E> {
        let Self { results, end_times, makespan, messages, bytes, trace } = self;
        Ok(ProgramResult { results: map(results)?, end_times, makespan, messages, bytes, trace })
    }

    /// The ranks that failed.
    pub fn failed_ranks(&self) -> Vec<u32> {
        let failed = self.results.iter().enumerate().filter(|(_, result)| result.is_none());
        failed.map(|(rank, _)| rank as u32).collect()
    }

    /// The results of all ranks.
    ///
    /// # Panics
    /// If a rank failed, which happens only with [`Noise::failures`](crate::noise::Noise::failures).
    pub fn into_results(self) -> Vec<R> {
        let result = |(rank, result): (usize, Option<R>)| result.unwrap_or_else(|| panic!("rank {rank} failed"));
        self.results.into_iter().enumerate().map(result).collect()
    }
}

/// How the program of a rank ended.
enum RankOutcome<R> {
    Returned(R),
    Failed,
    Panicked(Box<dyn Any + Send>),
}

/// Runs `program` on each rank of the network, with its fabric. If a rank panics, others get `PeerLost` where they wait
/// for it, and the panic resumes in the caller when all ranks have ended.
pub fn run<R>(
    network: &Network,
    settings: &Settings,
    options: &Options,
    program: impl Fn(Box<dyn Fabric>) -> R,
) -> Result<ProgramResult<R>> {
    options.check()?;
    if std::thread::panicking() {
        return Err(Error::Panicking);
    }
    let mut machine = Machine::new(network, settings)?;
    machine.keep_order();
    if options.trace {
        machine.enable_trace();
    }
    let ranks = machine.ranks();
    let failures = &settings.noise.failures;
    let failure_time =
        |rank| failures.iter().filter(|(failed, _)| *failed == rank).map(|(_, at)| from_micros(*at)).min();
    let world = Rc::new(RefCell::new(SimWorld::new(machine, |rank| failure_time(rank).unwrap_or(Time::MAX), options)));
    world.borrow_mut().work_unit_time = settings.work_unit_time * 1e6;
    world.borrow_mut().ack_latency = settings.ack_latency();
    world.borrow_mut().syncs_before_send = matches!(settings.costs, CostModel::Clusters(_));
    let outcomes: RefCell<Vec<Option<RankOutcome<R>>>> = RefCell::new((0..ranks).map(|_| None).collect());
    let rank_program = |rank: u32| {
        let (world, outcomes, program) = (&world, &outcomes, &program);
        move |suspender: Suspender| {
            let fabric = Box::new(SimFabric::new(rank, world, suspender));
            let outcome = match catch_unwind(AssertUnwindSafe(|| program(fabric))) {
                Ok(result) => RankOutcome::Returned(result),
                Err(_) if world.borrow().ranks[rank as usize].is_past_failure() => RankOutcome::Failed,
                Err(panic) => RankOutcome::Panicked(panic),
            };
            world.borrow_mut().on_exit(rank, !matches!(outcome, RankOutcome::Returned(_)));
            outcomes.borrow_mut()[rank as usize] = Some(outcome);
        }
    };
    fibre::run((0..ranks).map(rank_program), options.stack_size, |fibres| drive(fibres, &world))
        .map_err(|(rank, error)| Error::StackAllocation { rank: rank as u32, ranks, why: error.to_string() })?;
    let mut results = Vec::with_capacity(ranks as usize);
    for outcome in outcomes.into_inner().into_iter().flatten() {
        match outcome {
            RankOutcome::Returned(result) => results.push(Some(result)),
            RankOutcome::Failed => results.push(None),
            RankOutcome::Panicked(panic) => resume_unwind(panic),
        }
    }
    let mut world = world.borrow_mut();
    if let Some(halt) = world.halt {
        let waiting = world.ranks.iter().enumerate();
        let waiting = waiting.filter_map(|(rank, state)| Some((rank as u32, state.waits_for.clone()?))).collect();
        return Err(match halt {
            HaltReason::Deadlock => Error::Deadlock { ranks, waiting },
            HaltReason::TimeLimit => {
                Error::TimeLimit { micros: to_micros(world.time_limit), ranks, unfinished: waiting }
            }
            HaltReason::TimeOverflow => Error::TimeOverflow,
            HaltReason::OutOfMemory { rank, held, time } => {
                let cap = world.machine.memory_cap().unwrap_or(0);
                Error::OutOfMemory { rank, micros: to_micros(time), held, cap }
            }
        });
    }
    let end_times: Vec<Time> = world.ranks.iter().map(|rank| rank.ended.unwrap_or(rank.time)).collect();
    let totals = world.machine.totals();
    Ok(ProgramResult {
        results,
        makespan: end_times.iter().copied().max().unwrap_or(0),
        end_times,
        messages: totals.messages,
        bytes: totals.bytes,
        trace: world.machine.take_trace(),
    })
}

/// Processes events until all programs have ended.
fn drive(fibres: &Fibres, world: &RefCell<SimWorld>) {
    loop {
        while let Some(rank) = next_ready(world) {
            fibres.resume(rank as usize);
        }
        let mut world = world.borrow_mut();
        if world.running == 0 {
            return;
        }
        match world.machine.next() {
            Some(event) if event.time > world.time_limit && world.halt.is_none() => {
                world.halt_all(HaltReason::TimeLimit)
            }
            Some(event) => {
                world.on_event(event);
                world.publish_departures();
            }
            None if world.machine.now() >= MAX_TIME => world.halt_all(HaltReason::TimeOverflow),
            // No message is in flight, so the liveness of ended ranks may be published.
            None if world.publish_lives() => {}
            None => world.halt_all(HaltReason::Deadlock),
        }
    }
}

fn next_ready(world: &RefCell<SimWorld>) -> Option<u32> {
    world.borrow_mut().ready.pop_front()
}

/// Describes the waiting ranks.
pub(crate) fn format_waiting(ranks: &u32, waiting: &[(u32, String)]) -> String {
    format!("{} of {ranks} ranks wait forever: {}", waiting.len(), format_ranks(waiting))
}

/// Lists ranks and the operations they wait in; only the first of many.
pub(crate) fn format_ranks(waiting: &[(u32, String)]) -> String {
    const MAX_LISTED: usize = 8;
    let describe = |(rank, what): &(u32, String)| match what.as_str() {
        "" => format!("rank {rank}"),
        what => format!("rank {rank} in {what}"),
    };
    let mut listed: Vec<String> = waiting.iter().take(MAX_LISTED).map(describe).collect();
    if waiting.len() > MAX_LISTED {
        listed.push(format!("and {} more", waiting.len() - MAX_LISTED));
    }
    listed.join("; ")
}
