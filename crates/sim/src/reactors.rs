//! Drives protocols that are state machines ([`Reactor`]) on a [`Machine`], without a stack for each: a rank is as large as
//! its reactor.
//!
//! Messages of one pair and one tag come in order; everything else comes as the network and the noise have it. A rank takes
//! a message when its CPU is free, which costs what receiving and handling one cost and what the reactor says that it has computed, and sends
//! at once what the reactor gives out then. A message to oneself costs what handling it does, and nothing else. The sender of a synchronous message
//! is told after it was handled, by what the settings say: a message back, or some more latency. A barrier takes what the
//! settings say, from when the last rank comes there. What comes after a reactor is done is dropped, as it is by the driver
//! over an endpoint.

use std::time::Duration;

use treepie_base::Bytes;
use treepie_fabric::{Gathered, Reactor, Transmit};
use treepie_topology::{Network, Tie};

use crate::costs::Settings;
use crate::error::{Error, Result, not_negative};
use crate::machine::{Machine, Message, What};
use crate::time::{END, Time, from_micros, micros};
use crate::trace::Trace;

/// What came out of reactors.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ran<R> {
    /// The reactors, by rank.
    pub reactors: Vec<R>,
    /// When the last of them was done.
    pub makespan: Time,
    /// Messages of all ranks.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most messages that were on the way at once.
    pub most_in_flight: u64,
    /// The ranks that died.
    pub died: Vec<u32>,
    /// What ranks did, if it was recorded.
    pub trace: Option<Trace>,
}

impl<R> Ran<R> {
    /// The time of the whole in microseconds.
    pub fn micros(&self) -> f64 {
        micros(self.makespan)
    }
}

/// Runs these reactors, one for each rank of the network, until nothing happens any more. Handling a message costs
/// `handler` microseconds.
///
/// # Errors
/// What the first reactor that ends with an error says, or those that are not done, unless they have died.
pub fn run<R: Reactor>(network: &Network, settings: &Settings, reactors: Vec<R>, handler: f64) -> Result<Ran<R>> {
    Driver::new(network, settings, reactors, handler)?.run()
}

/// The same, and records what ranks do.
pub fn run_recorded<R: Reactor>(
    network: &Network,
    settings: &Settings,
    reactors: Vec<R>,
    handler: f64,
) -> Result<Ran<R>> {
    let mut driver = Driver::new(network, settings, reactors, handler)?;
    driver.machine.record();
    driver.run()
}

/// A message on the way, or one that waits for the CPU.
struct Parcel {
    from: u32,
    tag: u32,
    what: Content,
}

enum Content {
    Message {
        bytes: Bytes,
        synchronous: bool,
    },
    /// The message of that tag to `from` has been taken.
    Taken,
}

/// Wakes of ranks because all have come to a barrier have this bit.
const GATHERED: u64 = 1 << 63;

/// Answers are sent under a tag that no reactor has.
const ANSWERS: u32 = u32::MAX;

/// Who has come to the barrier.
#[derive(Default)]
struct Barrier {
    arrived: u32,
    last: Time,
    census: u64,
    /// What all brought to the one before.
    brought: u64,
}

struct Driver<R> {
    machine: Machine,
    reactors: Vec<R>,
    /// Until when each rank handles what it has; what comes then waits, also where handling is for free.
    busy: Vec<Time>,
    parcels: Vec<Option<Parcel>>,
    free: Vec<usize>,
    handler: Time,
    /// Of a unit of work, in microseconds.
    work: f64,
    /// After what time senders know that their messages were taken, if they need no answers for that.
    known_after: Option<Time>,
    barrier: Barrier,
    makespan: Time,
    died: Vec<u32>,
}

impl<R: Reactor> Driver<R> {
    fn new(network: &Network, settings: &Settings, reactors: Vec<R>, handler: f64) -> Result<Self> {
        not_negative("the cost of a handler", handler)?;
        let mut machine = Machine::new(network, settings)?;
        machine.keep_order();
        if reactors.len() != machine.ranks() as usize {
            let (reactors, network) = (reactors.len(), machine.ranks());
            return Err(Error::Reactors { reactors, network });
        }
        Ok(Self {
            known_after: settings.known_after().map(from_micros),
            barrier: Barrier::default(),
            busy: vec![0; reactors.len()],
            machine,
            reactors,
            parcels: Vec::new(),
            free: Vec::new(),
            handler: from_micros(handler),
            work: settings.work,
            makespan: 0,
            died: Vec::new(),
        })
    }

    fn run(mut self) -> Result<Ran<R>> {
        for rank in 0..self.machine.ranks() {
            self.transmit(rank);
        }
        while let Some(happening) = self.machine.next() {
            let rank = happening.rank;
            match happening.what {
                What::Delivered { bytes, token, .. } => {
                    self.machine.hold(rank, bytes)?;
                    let taken = self.machine.receive(rank, happening.time, bytes);
                    self.handle_after(rank, taken, token)?;
                }
                What::Woken { token } if token & GATHERED != 0 => self.all_have_come(rank)?,
                What::Woken { token } => self.handle(rank, token)?,
                What::Died if self.died.contains(&rank) => {}
                What::Died => self.died.push(rank),
                What::Sent { .. } => {}
            }
        }
        if self.machine.now() >= END {
            return Err(Error::TooLong);
        }
        let is_missing = |rank: &u32| !self.reactors[*rank as usize].is_done() && !self.died.contains(rank);
        let waiting: Vec<(u32, String)> =
            (0..self.machine.ranks()).filter(is_missing).map(|rank| (rank, String::new())).collect();
        if !waiting.is_empty() {
            return Err(Error::Deadlock { ranks: self.machine.ranks(), waiting });
        }
        let totals = self.machine.totals();
        Ok(Ran {
            reactors: self.reactors,
            makespan: self.makespan,
            messages: totals.messages,
            bytes: totals.bytes,
            most_in_flight: totals.most_in_flight,
            died: self.died,
            trace: self.machine.take_trace(),
        })
    }

    /// Sends what a reactor gives out.
    fn transmit(&mut self, rank: u32) {
        let now = self.machine.now();
        let mut free = now;
        let work = self.reactors[rank as usize].take_work();
        if work > 0 && self.work > 0.0 {
            // What it sends, and what it handles next, waits for that.
            free = self.machine.occupy(rank, now, from_micros(work as f64 * self.work));
        }
        while let Some(Transmit { to, tag, bytes, synchronous }) = self.reactors[rank as usize].poll_transmit() {
            let length = bytes.as_slice().len() as u64;
            self.reactors[rank as usize].on_sent(to, tag, None);
            let token = self.keep(Parcel { from: rank, tag, what: Content::Message { bytes, synchronous } });
            if to == rank {
                // It is there at once, and handled as others are.
                let over = self.machine.occupy(rank, now, self.handler);
                self.wait_for_turn(rank, over, token);
                continue;
            }
            let message = Message { from: rank, to, bytes: length, channel: tag, token, tie: Tie::default() };
            free = free.max(self.machine.send(now, message).free);
        }
        self.makespan = self.makespan.max(free);
        if let Some(census) = self.reactors[rank as usize].poll_arrive() {
            // The CPU may still be busy with what was given out before, or with answers.
            let free = self.machine.occupy(rank, free, 0);
            self.arrive(free, census);
        }
    }

    /// A rank comes to the barrier at a time.
    fn arrive(&mut self, at: Time, census: u64) {
        let barrier = &mut self.barrier;
        barrier.arrived += 1;
        barrier.last = barrier.last.max(at);
        barrier.census |= census;
        if barrier.arrived == self.machine.ranks() {
            let over = barrier.last + self.machine.barrier();
            *barrier = Barrier { brought: barrier.census, ..Barrier::default() };
            (0..self.machine.ranks()).for_each(|rank| self.machine.wake(over, rank, GATHERED));
        }
    }

    fn all_have_come(&mut self, rank: u32) -> Result<()> {
        let gathered = Gathered { census: self.barrier.brought, added: 0 };
        self.reactors[rank as usize].on_gathered(gathered).map_err(|error| Error::Reactor { rank, error })?;
        self.transmit(rank);
        Ok(())
    }

    /// Lets the sender of a message know that it was taken.
    fn tell_taken(&mut self, rank: u32, sender: u32, tag: u32) {
        let now = self.machine.now();
        let token = self.keep(Parcel { from: rank, tag, what: Content::Taken });
        let at_home = (sender == rank).then_some(0);
        if let Some(later) = self.known_after.or(at_home) {
            return self.machine.wake(now + later, sender, token);
        }
        let answer = Message { from: rank, to: sender, bytes: 0, channel: ANSWERS, token, tie: Tie::default() };
        let free = self.machine.send(now, answer).free;
        self.makespan = self.makespan.max(free);
    }

    /// A message has been taken, or will be at a time; then it is handled.
    fn handle_after(&mut self, rank: u32, taken: Time, token: u64) -> Result<()> {
        let over = self.machine.occupy(rank, taken, self.handler);
        if over <= self.machine.now() && self.busy[rank as usize] < self.machine.now() {
            return self.handle(rank, token);
        }
        self.wait_for_turn(rank, over, token);
        Ok(())
    }

    /// Handles a message at a time, after those before it: without that, one that costs nothing would overtake others.
    fn wait_for_turn(&mut self, rank: u32, time: Time, token: u64) {
        let busy = &mut self.busy[rank as usize];
        *busy = time.max(*busy);
        self.machine.wake(*busy, rank, token);
    }

    fn handle(&mut self, rank: u32, token: u64) -> Result<()> {
        let Some(parcel) = self.parcels[token as usize].take() else { return Ok(()) };
        self.free.push(token as usize);
        let Parcel { from, tag, what } = parcel;
        let reactor = &mut self.reactors[rank as usize];
        match what {
            Content::Taken => reactor.on_taken(from, tag),
            Content::Message { bytes, synchronous } => {
                if from != rank {
                    self.machine.let_go(rank, bytes.as_slice().len() as u64);
                }
                if reactor.is_done() {
                    return Ok(());
                }
                let now = Duration::from_nanos(self.machine.now() / 1000);
                reactor.on_message(now, from, tag, bytes).map_err(|error| Error::Reactor { rank, error })?;
                if synchronous {
                    self.tell_taken(rank, from, tag);
                }
            }
        }
        self.transmit(rank);
        Ok(())
    }

    fn keep(&mut self, parcel: Parcel) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.parcels.push(None);
            self.parcels.len() - 1
        });
        self.parcels[place] = Some(parcel);
        place as u64
    }
}
