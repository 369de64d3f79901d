//! The `sim` engine: programs of ranks run as they are, in virtual time.
//!
//! Each rank runs on a stack of its own, all of them in the thread of the caller, and waiting lets others run. So a rank
//! program is ordinary blocking code, and a run is the same every time.
//!
//! What costs time: sending and receiving, as the machine prices it; combining in collective operations (gamma; copying is
//! for free here, while schedules that are played pay gamma for both); what the program says that it computes
//! ([`Fabric::compute`], [`Fabric::worked`]); and looking for something in vain ([`Options::poll`]), so that loops that poll do not keep time
//! from going on. Everything else is for free. A message of up to 64 KiB is one transfer;
//! a longer one is announced, asked for, and then one transfer too. Protocols above engines (credit, answers to synchronous
//! sends unless [`Settings::handshake`] says otherwise) send messages of their own, which count.
//!
//! When nothing happens any more and ranks still wait, that is a deadlock, which ends all of them. A rank that dies is
//! unwound where it waits, or where it computes beyond its death; others get `PeerLost` once all that it had sent has arrived.
//! Ranks that leave in order are noticed when nothing else happens, and otherwise after a millisecond, two more, four more,
//! and so on. A handle that gets to the code of another rank, or into a simulation inside of this one, is of no use there:
//! what is begun there fails, and its own rank can use it as before. What counts for
//! `Settings::memory_cap` are short messages that a rank has not looked at or not asked for; long ones wait at their senders.
//!
//! | file | what |
//! |---|---|
//! | `fibre` | stacks; everything `unsafe` |
//! | `world`, `bulk`, `lives` | what all ranks share; long messages; who has ended |
//! | `fabric` | a rank's end |

mod bulk;
mod fabric;
mod fibre;
mod lives;
mod world;

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use treepie_fabric::Fabric;
use treepie_topology::Network;

use crate::costs::{Costs, Settings};
use crate::error::{Error, Result, not_negative};
use crate::machine::Machine;
use crate::time::{END, Time, from_micros, micros};
use crate::trace::Trace;
use fabric::SimFabric;
use fibre::{Fibres, Suspender};
use world::{Halt, World};

/// How programs are run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Microseconds that looking for something in vain costs, above 0.
    pub poll: f64,
    /// Bytes of each rank's stack, from 64 KiB to 1 GiB; 256 KiB by default. Only what is touched takes memory. A rank that
    /// needs more touches the guard page below it: a line names the rank and the size, and SIGSEGV ends the process.
    pub stack: usize,
    /// Microseconds of virtual time after which all are ended that have not ended; none if nothing is said.
    pub limit: Option<f64>,
    /// Whether to record what ranks do.
    pub trace: bool,
}

impl Default for Options {
    /// 0.1 us, 256 KiB, no limit, and nothing is recorded.
    fn default() -> Self {
        Self { poll: 0.1, stack: 256 << 10, limit: None, trace: false }
    }
}

impl Options {
    /// Refuses what cannot be.
    fn check(&self) -> Result<()> {
        not_negative("the price of a poll", self.poll)?;
        if from_micros(self.poll) == 0 {
            let (name, must) = ("the price of a poll", "at least a picosecond");
            return Err(Error::Parameter { name, must, value: self.poll });
        }
        self.limit.map_or(Ok(()), |limit| not_negative("the limit of virtual time", limit))?;
        if !(64 << 10..=1 << 30).contains(&self.stack) {
            let (name, must) = ("the stack of a rank", "from 65536 to 1073741824 bytes");
            return Err(Error::Parameter { name, must, value: self.stack as f64 });
        }
        Ok(())
    }
}

/// What came out of programs of ranks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Simulated<R> {
    /// What each rank returned; nothing for one that died.
    pub results: Vec<Option<R>>,
    /// When each rank ended.
    pub ends: Vec<Time>,
    /// When the last one did.
    pub makespan: Time,
    /// Transfers of all ranks, those of protocols among them.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What ranks did, if it was recorded.
    pub trace: Option<Trace>,
}

impl<R> Simulated<R> {
    /// The time of the whole in microseconds.
    pub fn micros(&self) -> f64 {
        micros(self.makespan)
    }

    /// The ranks that died.
    pub fn died(&self) -> Vec<u32> {
        let dead = self.results.iter().enumerate().filter(|(_, result)| result.is_none());
        dead.map(|(rank, _)| rank as u32).collect()
    }

    /// What each rank returned.
    ///
    /// # Panics
    /// If one died, which happens only where the settings say so.
    pub fn into_results(self) -> Vec<R> {
        let result = |(rank, result): (usize, Option<R>)| result.unwrap_or_else(|| panic!("rank {rank} died"));
        self.results.into_iter().enumerate().map(result).collect()
    }
}

/// How the program of a rank ended.
enum End<R> {
    Returned(R),
    Died,
    Panicked(Box<dyn Any + Send>),
}

/// Runs `program` on each rank of the network, with its engine. If one panics, others get `PeerLost` where they wait for
/// it, and the panic goes on here when all have ended.
pub fn run<R>(
    network: &Network,
    settings: &Settings,
    options: &Options,
    program: impl Fn(Box<dyn Fabric>) -> R,
) -> Result<Simulated<R>> {
    options.check()?;
    if std::thread::panicking() {
        return Err(Error::Panicking);
    }
    let mut machine = Machine::new(network, settings)?;
    machine.keep_order();
    if options.trace {
        machine.record();
    }
    let ranks = machine.ranks();
    let deaths = &settings.noise.deaths;
    let death = |rank| deaths.iter().filter(|(dead, _)| *dead == rank).map(|(_, at)| from_micros(*at)).min();
    let world = Rc::new(RefCell::new(World::new(machine, |rank| death(rank).unwrap_or(Time::MAX), options)));
    world.borrow_mut().work = settings.work * 1e6;
    world.borrow_mut().handshake = settings.known_after().map(from_micros);
    world.borrow_mut().sends_on_time = matches!(settings.costs, Costs::Clusters(_));
    let ends: RefCell<Vec<Option<End<R>>>> = RefCell::new((0..ranks).map(|_| None).collect());
    let rank_program = |rank: u32| {
        let (world, ends, program) = (&world, &ends, &program);
        move |suspender: Suspender| {
            let fabric = Box::new(SimFabric::new(rank, world, suspender));
            let end = match catch_unwind(AssertUnwindSafe(|| program(fabric))) {
                Ok(result) => End::Returned(result),
                Err(_) if world.borrow().ranks[rank as usize].outlived_itself() => End::Died,
                Err(panic) => End::Panicked(panic),
            };
            world.borrow_mut().ends(rank, !matches!(end, End::Returned(_)));
            ends.borrow_mut()[rank as usize] = Some(end);
        }
    };
    fibre::run((0..ranks).map(rank_program), options.stack, |fibres| drive(fibres, &world))
        .map_err(|(rank, error)| Error::Stack { rank: rank as u32, ranks, why: error.to_string() })?;
    let mut results = Vec::with_capacity(ranks as usize);
    for end in ends.into_inner().into_iter().flatten() {
        match end {
            End::Returned(result) => results.push(Some(result)),
            End::Died => results.push(None),
            End::Panicked(panic) => resume_unwind(panic),
        }
    }
    let mut world = world.borrow_mut();
    if let Some(halt) = world.halt {
        let waiting = world.ranks.iter().enumerate();
        let waiting = waiting.filter_map(|(rank, own)| Some((rank as u32, own.waits_for.clone()?))).collect();
        return Err(match halt {
            Halt::Stuck => Error::Deadlock { ranks, waiting },
            Halt::Limit => Error::Limit { micros: micros(world.limit), ranks, unfinished: waiting },
            Halt::TooLong => Error::TooLong,
            Halt::Memory { rank, held, time } => {
                let cap = world.machine.memory_cap().unwrap_or(0);
                Error::Memory { rank, micros: micros(time), held, cap }
            }
        });
    }
    let ends: Vec<Time> = world.ranks.iter().map(|rank| rank.ended.unwrap_or(rank.time)).collect();
    let totals = world.machine.totals();
    Ok(Simulated {
        results,
        makespan: ends.iter().copied().max().unwrap_or(0),
        ends,
        messages: totals.messages,
        bytes: totals.bytes,
        trace: world.machine.take_trace(),
    })
}

/// Lets things happen until all programs have ended.
fn drive(fibres: &Fibres, world: &RefCell<World>) {
    loop {
        while let Some(rank) = next_ready(world) {
            fibres.resume(rank as usize);
        }
        let mut world = world.borrow_mut();
        if world.running == 0 {
            return;
        }
        match world.machine.next() {
            Some(happening) if happening.time > world.limit && world.halt.is_none() => world.halts(Halt::Limit),
            Some(happening) => {
                world.happens(happening);
                world.notice();
            }
            None if world.machine.now() >= END => world.halts(Halt::TooLong),
            // Nothing is on the way any more, so what is known of those who ended may be known to all.
            None if world.show_lives() => {}
            None => world.halts(Halt::Stuck),
        }
    }
}

fn next_ready(world: &RefCell<World>) -> Option<u32> {
    world.borrow_mut().ready.pop_front()
}

/// Those that wait, in words.
pub(crate) fn list_of_waiting(ranks: &u32, waiting: &[(u32, String)]) -> String {
    format!("{} of {ranks} ranks wait for what never comes: {}", waiting.len(), named(waiting))
}

/// Ranks and what they are in, in words; only the first of many.
pub(crate) fn named(waiting: &[(u32, String)]) -> String {
    const NAMED: usize = 8;
    let name = |(rank, what): &(u32, String)| match what.as_str() {
        "" => format!("rank {rank}"),
        what => format!("rank {rank} in {what}"),
    };
    let mut named: Vec<String> = waiting.iter().take(NAMED).map(name).collect();
    if waiting.len() > NAMED {
        named.push(format!("and {} more", waiting.len() - NAMED));
    }
    named.join("; ")
}
