//! A simulated rank's end of the world.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::time::Duration;

use treepie_base::Span;
use treepie_fabric::{Event, Fabric, Head, Invite, Life, Offers, Refused, Sleep};

use super::fibre::Suspender;
use super::world::{Arrival, Doom, World};
use crate::time::{END, Time};

/// The longest body of a record: most messages are one transfer.
const MAX_BODY: usize = 64 << 10;

/// How often a rank may look in vain at one time, for free, without waiting: the endpoint does when a program begins or
/// ends, or a peer is lost.
const LOOKS: u32 = 4;

/// How often a rank may ask in vain where it cannot wait. One that is cut off has all its memory back after a few times.
const PATIENCE: u32 = 1 << 20;

/// What unwinds a rank that dies.
pub(super) struct Killed;

/// A simulated rank's end of the world.
pub(super) struct SimFabric {
    rank: u32,
    size: u32,
    world: Rc<RefCell<World>>,
    suspender: Suspender,
    /// The body of the record that was handed out last.
    body: Vec<u8>,
    /// When it last polled in vain, and how often since something came.
    in_vain: (Time, u32),
    /// The news that were last asked for.
    heard: Cell<Option<usize>>,
    /// How often it was told that it is cut off.
    times_told: Cell<u32>,
    /// It wanted to wait, or to move memory, while a panic unwinds. From then on all others are gone.
    severed: bool,
    /// Lent memory is waited for.
    settling: bool,
    asked_in_vain: u32,
}

impl SimFabric {
    pub(super) fn new(rank: u32, world: &Rc<RefCell<World>>, suspender: Suspender) -> Self {
        Self {
            rank,
            size: world.borrow().machine.ranks(),
            world: world.clone(),
            suspender,
            body: Vec::new(),
            in_vain: (0, 0),
            heard: Cell::new(None),
            times_told: Cell::new(0),
            severed: false,
            settling: false,
            asked_in_vain: 0,
        }
    }

    fn doom(&self) -> Doom {
        self.world.borrow().ranks[self.rank as usize].doom
    }

    /// Whether nothing can be sent or received any more.
    fn is_cut_off(&self) -> bool {
        self.severed || self.doom() == Doom::Certain || self.suspender.is_over()
    }

    /// Whether this is the code of somebody else, who has a handle of this rank: then it can do nothing for now.
    fn is_astray(&self) -> bool {
        !self.suspender.is_here() && !self.suspender.is_over()
    }

    /// Others would see the panic if they ran now. So this rank waits for nobody any more, and wants its memory back.
    fn sever(&mut self) {
        if !self.severed {
            self.severed = true;
            self.world.borrow_mut().cut_off(self.rank);
        }
    }

    /// Lets time come here before a send where that matters for its price.
    fn be_on_time(&self) {
        if self.world.borrow().sends_on_time && !self.is_cut_off() && !std::thread::panicking() {
            self.catch_up();
        }
    }

    /// Time has been spent. Whoever comes to the end of its own, or of all, is ended there.
    fn has_spent(&self) {
        let is_late = {
            let world = self.world.borrow();
            let own = &world.ranks[self.rank as usize];
            own.time >= own.dies || own.time > world.limit || own.time >= END
        };
        if is_late && self.suspender.is_here() && !self.is_cut_off() && !self.settling && !std::thread::panicking() {
            self.catch_up();
            self.end_if_doomed();
        }
    }

    fn time(&self) -> Time {
        self.world.borrow().ranks[self.rank as usize].time
    }

    /// Lets others run; the world knows when to come back.
    fn suspend(&self) {
        self.suspender.suspend();
        let mut world = self.world.borrow_mut();
        let now = world.machine.now();
        let own = world.rank(self.rank);
        own.time = own.time.max(now);
    }

    /// Waits until the machine has come to this rank's time.
    fn catch_up(&self) {
        let ahead = self.world.borrow_mut().wait_for_time(self.rank);
        if ahead {
            self.suspend();
        }
    }

    /// Waits for something to come, until that time if there is one.
    fn wait(&self, until: Option<Time>) {
        self.world.borrow_mut().wait_for_arrival(self.rank, until);
        self.suspend();
    }

    /// Ends this rank if it is to end, and if it can be ended here.
    fn end_if_doomed(&self) {
        if self.doom() == Doom::Asked {
            self.world.borrow_mut().doom(self.rank);
        }
        let is_doomed = self.doom() == Doom::Certain;
        if is_doomed && self.suspender.is_here() && !self.settling && !std::thread::panicking() {
            resume_unwind(Box::new(Killed));
        }
    }

    fn take(&mut self) -> Option<Arrival> {
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        let own = &mut world.ranks[self.rank as usize];
        let arrival = own.inbox.pop_front()?;
        own.lying -= arrival.lying();
        let bytes = match &arrival {
            Arrival::Record { body, .. } => body.len(),
            Arrival::BulkReceived { span, .. } => span.len(),
            _ => return Some(arrival),
        };
        own.time = world.machine.receive(self.rank, own.time, bytes as u64);
        Some(arrival)
    }

    fn next(&mut self) -> Option<Arrival> {
        if self.is_astray() {
            return None;
        }
        if self.is_cut_off() || std::thread::panicking() {
            self.end_if_doomed();
            return self.take();
        }
        self.end_if_doomed();
        self.catch_up();
        self.end_if_doomed();
        if let Some(arrival) = self.take() {
            self.in_vain = (0, 0);
            return Some(arrival);
        }
        // Whoever looks again and again without waiting would keep time from going on.
        let (last, times) = self.in_vain;
        let times = if last == self.time() { times + 1 } else { 1 };
        if times > LOOKS && !self.is_cut_off() {
            let until = self.time() + self.world.borrow().poll;
            self.wait(Some(until));
            self.end_if_doomed();
        }
        let arrival = self.take();
        self.in_vain = if arrival.is_none() { (self.time(), times) } else { (0, 0) };
        arrival
    }
}

impl Fabric for SimFabric {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn name(&self) -> &'static str {
        "sim"
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.time() / 1000)
    }

    fn max_body(&self) -> usize {
        MAX_BODY
    }

    fn try_send(&mut self, to: u32, head: Head, body: &[u8]) -> bool {
        if self.is_astray() {
            return false;
        }
        self.be_on_time();
        if self.is_cut_off() {
            return true;
        }
        self.world.borrow_mut().send(self.rank, to, head, body);
        true
    }

    fn poll(&mut self) -> Option<Event<'_>> {
        Some(match self.next()? {
            Arrival::Record { from, head, body } => {
                self.body = body;
                Event::Record { from, head, body: &self.body }
            }
            Arrival::BulkReceived { slot, span } => Event::BulkReceived { slot, span, tell_sender: false },
            Arrival::BulkSent { slot, span } => Event::BulkSent { slot, span },
            Arrival::BulkFailed { slot, span, sending } => Event::BulkFailed { slot, span, sending },
            Arrival::Gathered { cell, census } => Event::Gathered { cell, census },
            Arrival::Acked { slot } => Event::Acked { slot },
        })
    }

    /// The first time it may be somebody who only looks, and who goes on after what that costs.
    fn sleep(&self, round: u32) -> Sleep {
        if round > 0 { Sleep::ForGood } else { Sleep::Brief }
    }

    fn idle(&mut self, round: u32) -> bool {
        self.in_vain = (0, 0);
        if self.is_cut_off() || self.is_astray() {
            self.end_if_doomed();
            self.asked_in_vain += 1;
            let why = if self.is_astray() { "in the code of another" } else { "after its end" };
            assert!(
                self.asked_in_vain < PATIENCE,
                "rank {} looks again and again {why}, where nothing comes",
                self.rank
            );
            return false;
        }
        if std::thread::panicking() {
            self.sever();
            return false;
        }
        let (nothing_new, until) = {
            let world = self.world.borrow();
            let own = &world.ranks[self.rank as usize];
            let nothing_new = own.inbox.is_empty() && self.heard.get() == Some(world.changed.len());
            (nothing_new, own.time + world.poll)
        };
        if nothing_new {
            self.wait((round == 0).then_some(until));
        }
        self.doom() == Doom::Asked
    }

    fn depart(&mut self) {
        if !self.is_cut_off() && !self.is_astray() {
            self.world.borrow_mut().lives_on_as(self.rank, Life::Leaving);
        }
    }

    fn departed(&mut self) -> bool {
        true
    }

    fn fail(&mut self) {
        if !self.is_cut_off() {
            self.world.borrow_mut().lives_on_as(self.rank, Life::Failing);
        }
    }

    fn bulk_recv(&mut self, from: u32, _key: u64, slot: u32, span: Span) -> Result<Option<Invite>, Refused> {
        if std::thread::panicking() {
            self.sever();
        }
        if self.is_cut_off() || self.is_astray() {
            return Err(Refused::not_here(span));
        }
        let mut world = self.world.borrow_mut();
        let ranks = world.ranks.len();
        if from as usize >= ranks || !span.is_writable() {
            let why = format!("a bulk receive from rank {from} of {ranks} into {} bytes cannot be", span.len());
            return Err(Refused::because(span, why));
        }
        let gone = world.ranks[from as usize].ended.is_some() || world.ranks[from as usize].doom == Doom::Certain;
        if gone {
            world.arrives(self.rank, Arrival::BulkFailed { slot, span, sending: false });
            return Ok(None);
        }
        Ok(Some([world.bulks.expect(from, self.rank, slot, span), 0, 0, 0]))
    }

    fn bulk_send(&mut self, to: u32, slot: u32, invite: Invite, span: Span) -> Result<(), Refused> {
        if std::thread::panicking() {
            self.sever();
        }
        let is_cut_off = self.is_cut_off() || self.is_astray();
        if !is_cut_off {
            self.be_on_time();
        }
        let is_cut_off = is_cut_off || self.is_cut_off();
        let mut world = self.world.borrow_mut();
        if is_cut_off {
            world.arrives(self.rank, Arrival::BulkFailed { slot, span, sending: true });
        } else if world.bulks.may_be(invite[0], self.rank, to) {
            world.send_bulk(self.rank, to, invite[0], slot, span);
        } else {
            let why = format!("rank {to} has not asked rank {} for bulk transfer {}", self.rank, invite[0]);
            return Err(Refused::because(span, why));
        }
        Ok(())
    }

    fn ack(&mut self, to: u32, slot: u32) -> bool {
        !self.is_cut_off() && !self.is_astray() && self.world.borrow_mut().acknowledge(self.rank, to, slot)
    }

    fn holds(&mut self, bytes: u64) {
        let mut world = self.world.borrow_mut();
        world.rank(self.rank).kept = bytes;
        world.check_memory(self.rank);
    }

    fn offers(&self) -> Offers {
        // What is on the way when all have come may still be on the way when they are told.
        let cells = if self.world.borrow().machine.barrier() > 0 { u32::MAX } else { 0 };
        Offers { cells, ..Offers::default() }
    }

    fn arrive(&mut self, cell: u32, census: u64) -> bool {
        let ends =
            self.is_cut_off() || self.is_astray() || self.world.borrow().ranks[self.rank as usize].life != Life::Here;
        !ends && self.world.borrow_mut().gather(self.rank, cell, census)
    }

    fn arrivals(&self, rank: u32, cell: u32) -> u64 {
        // Who is cut off has no barriers to come to any more.
        if rank != self.rank && self.is_cut_off() {
            return 0;
        }
        self.world.borrow().ranks[rank as usize].arrivals.get(&cell).copied().unwrap_or(0)
    }

    fn news(&self) -> u32 {
        let news = self.world.borrow().changed.len();
        self.heard.set(Some(news));
        if self.is_cut_off() {
            // Whoever looks after those who are lost may be unwound in the middle of it, so that is always news.
            self.times_told.set(self.times_told.get().wrapping_add(1));
        }
        (news as u32).wrapping_add(self.times_told.get())
    }

    fn changed_since(&self, news: Option<u32>, tell: &mut dyn FnMut(u32, Life)) {
        if self.is_cut_off() {
            (0..self.size).filter(|rank| *rank != self.rank).for_each(|rank| tell(rank, Life::Dead));
            return;
        }
        // Who is not cut off never was.
        let world = self.world.borrow();
        let known = news.map_or(0, |news| news as usize);
        world.changed[known..].iter().for_each(|rank| tell(*rank, world.shown(*rank)));
    }

    fn life(&self, rank: u32) -> Life {
        match rank {
            _ if rank == self.rank => Life::Here,
            _ if self.is_cut_off() => Life::Dead,
            _ => self.world.borrow().shown(rank),
        }
    }

    fn compute(&mut self, time: Duration) {
        self.world.borrow_mut().compute(self.rank, time.as_nanos() as f64 * 1000.0);
        self.has_spent();
    }

    fn worked(&mut self, units: u64) {
        let picoseconds = units as f64 * self.world.borrow().work;
        if picoseconds > 0.0 {
            self.world.borrow_mut().compute(self.rank, picoseconds);
            self.has_spent();
        }
    }

    fn combined(&mut self, bytes: usize) {
        let mut world = self.world.borrow_mut();
        let time = world.ranks[self.rank as usize].time;
        world.rank(self.rank).time = world.machine.combine(self.rank, time, bytes as u64);
    }

    fn is_here(&self) -> bool {
        !self.is_astray()
    }

    fn waits_for(&mut self, what: &dyn fmt::Display) {
        if self.doom() == Doom::Asked {
            self.world.borrow_mut().rank(self.rank).waits_for = Some(what.to_string());
        }
    }

    fn settling(&mut self, is_so: bool) {
        self.settling = is_so;
    }
}

impl Drop for SimFabric {
    /// The rank has left the world, though its program may go on.
    fn drop(&mut self) {
        if !self.is_cut_off() {
            self.world.borrow_mut().leaves(self.rank);
        }
    }
}
