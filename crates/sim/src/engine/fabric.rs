//! The `Fabric` of a simulated rank.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::time::Duration;

use treepie_base::{Error, Span};
use treepie_fabric::{BulkDescriptor, BulkError, Capabilities, Fabric, FabricEvent, Liveness, ParkKind, RecordHeader};

use super::fibre::Suspender;
use super::world::{InboxEvent, KillState, SimWorld};
use crate::time::{MAX_TIME, Time};

/// Longest body of a record: most messages are one transfer.
const MAX_BODY: usize = 64 << 10;

/// Free empty polls of a rank at one time before it waits: the endpoint polls so when a program begins or ends, or a
/// peer is lost.
const FREE_EMPTY_POLLS: u32 = 4;

/// Idle polls of a rank where it cannot wait. A disconnected rank has all its memory back after a few.
const MAX_IDLE_POLLS: u32 = 1 << 20;

/// Panic payload that unwinds a killed rank.
pub(super) struct Killed;

/// The `Fabric` of a simulated rank.
pub(super) struct SimFabric {
    rank: u32,
    size: u32,
    world: Rc<RefCell<SimWorld>>,
    suspender: Suspender,
    /// The body of the last polled record.
    body: Vec<u8>,
    /// Time of the last empty poll, and the number of empty polls since the last event.
    empty_polls: (Time, u32),
    /// Liveness changes seen at the last query.
    seen_life_changes: Cell<Option<usize>>,
    /// Number of times that it was notified of its disconnection.
    disconnect_notices: Cell<u32>,
    /// It tried to wait, or to transfer memory, during unwinding. From then on all peers count as lost.
    severed: bool,
    /// The endpoint is waiting for lent memory.
    settling: bool,
    idle_polls: u32,
}

impl SimFabric {
    pub(super) fn new(rank: u32, world: &Rc<RefCell<SimWorld>>, suspender: Suspender) -> Self {
        Self {
            rank,
            size: world.borrow().machine.ranks(),
            world: world.clone(),
            suspender,
            body: Vec::new(),
            empty_polls: (0, 0),
            seen_life_changes: Cell::new(None),
            disconnect_notices: Cell::new(0),
            severed: false,
            settling: false,
            idle_polls: 0,
        }
    }

    fn kill_state(&self) -> KillState {
        self.world.borrow().ranks[self.rank as usize].kill_state
    }

    /// Whether nothing can be sent or received any more.
    fn is_disconnected(&self) -> bool {
        self.severed || self.kill_state() == KillState::Killed || self.suspender.has_ended()
    }

    /// Whether the caller is another fibre that holds a handle of this rank: then nothing can be done for now.
    fn is_foreign_fibre(&self) -> bool {
        !self.suspender.is_current() && !self.suspender.has_ended()
    }

    /// Disconnects this rank during unwinding: other fibres would see the panic if they ran now. So it waits for no
    /// peer any more, and gets its memory back.
    fn sever(&mut self) {
        if !self.severed {
            self.severed = true;
            self.world.borrow_mut().disconnect(self.rank);
        }
    }

    /// Waits for the machine's clock before a send where its price depends on it.
    fn sync_before_send(&self) {
        if self.world.borrow().syncs_before_send && !self.is_disconnected() && !std::thread::panicking() {
            self.wait_for_clock();
        }
    }

    /// After time was charged: ends the rank if it is past its failure, the time limit, or the end of time.
    fn check_deadlines(&self) {
        let is_late = {
            let world = self.world.borrow();
            let state = &world.ranks[self.rank as usize];
            state.time >= state.failure_time || state.time > world.time_limit || state.time >= MAX_TIME
        };
        if is_late
            && self.suspender.is_current()
            && !self.is_disconnected()
            && !self.settling
            && !std::thread::panicking()
        {
            self.wait_for_clock();
            self.unwind_if_killed();
        }
    }

    fn time(&self) -> Time {
        self.world.borrow().ranks[self.rank as usize].time
    }

    /// Suspends this fibre; the world knows when to resume it.
    fn suspend(&self) {
        self.suspender.suspend();
        let mut world = self.world.borrow_mut();
        let now = world.machine.now();
        let state = world.rank(self.rank);
        state.time = state.time.max(now);
    }

    /// Waits until the machine's clock reaches this rank's.
    fn wait_for_clock(&self) {
        let ahead = self.world.borrow_mut().wait_for_time(self.rank);
        if ahead {
            self.suspend();
        }
    }

    /// Waits for an inbox event, at the latest until `until`.
    fn wait_for_arrival(&self, until: Option<Time>) {
        self.world.borrow_mut().wait_for_arrival(self.rank, until);
        self.suspend();
    }

    /// Unwinds this rank if it is killed, and if it can be unwound here.
    fn unwind_if_killed(&self) {
        if self.kill_state() == KillState::Requested {
            self.world.borrow_mut().kill(self.rank);
        }
        let is_killed = self.kill_state() == KillState::Killed;
        if is_killed && self.suspender.is_current() && !self.settling && !std::thread::panicking() {
            resume_unwind(Box::new(Killed));
        }
    }

    fn pop_inbox(&mut self) -> Option<InboxEvent> {
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        let state = &mut world.ranks[self.rank as usize];
        let event = state.inbox.pop_front()?;
        state.unread_bytes -= event.unread_bytes();
        let bytes = match &event {
            InboxEvent::Record { body, .. } => body.len(),
            InboxEvent::BulkReceived { span, .. } => span.len(),
            _ => return Some(event),
        };
        state.time = world.machine.receive(self.rank, state.time, bytes as u64);
        Some(event)
    }

    fn next_arrival(&mut self) -> Option<InboxEvent> {
        if self.is_foreign_fibre() {
            return None;
        }
        if self.is_disconnected() || std::thread::panicking() {
            self.unwind_if_killed();
            return self.pop_inbox();
        }
        self.unwind_if_killed();
        self.wait_for_clock();
        self.unwind_if_killed();
        if let Some(event) = self.pop_inbox() {
            self.empty_polls = (0, 0);
            return Some(event);
        }
        // A rank that polls without waiting would keep time from advancing.
        let (last, times) = self.empty_polls;
        let times = if last == self.time() { times + 1 } else { 1 };
        if times > FREE_EMPTY_POLLS && !self.is_disconnected() {
            let until = self.time() + self.world.borrow().poll_cost;
            self.wait_for_arrival(Some(until));
            self.unwind_if_killed();
        }
        let event = self.pop_inbox();
        self.empty_polls = if event.is_none() { (self.time(), times) } else { (0, 0) };
        event
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

    fn try_send(&mut self, to: u32, head: RecordHeader, body: &[u8]) -> bool {
        if self.is_foreign_fibre() {
            return false;
        }
        self.sync_before_send();
        if self.is_disconnected() {
            return true;
        }
        self.world.borrow_mut().send(self.rank, to, head, body);
        true
    }

    fn poll(&mut self) -> Option<FabricEvent<'_>> {
        Some(match self.next_arrival()? {
            InboxEvent::Record { from, head, body } => {
                self.body = body;
                FabricEvent::Record { from, head, body: &self.body }
            }
            InboxEvent::BulkReceived { slot, span } => FabricEvent::BulkReceived { slot, span, tell_sender: false },
            InboxEvent::BulkSent { slot, span } => FabricEvent::BulkSent { slot, span },
            InboxEvent::BulkFailed { slot, span, sending } => FabricEvent::BulkFailed { slot, span, sending },
            InboxEvent::BarrierDone { cell, traffic_summary: summary } => {
                FabricEvent::BarrierCompleted { cell, bits: summary }
            }
            InboxEvent::Acked { slot } => FabricEvent::Acked { slot },
        })
    }

    /// The first time the caller may only be polling, and continues after the cost of a poll.
    fn park_kind(&self, round: u32) -> ParkKind {
        if round > 0 { ParkKind::Indefinite } else { ParkKind::Brief }
    }

    fn idle(&mut self, round: u32) -> bool {
        self.empty_polls = (0, 0);
        if self.is_disconnected() || self.is_foreign_fibre() {
            self.unwind_if_killed();
            self.idle_polls += 1;
            let why = if self.is_foreign_fibre() { "in the code of another rank" } else { "after its end" };
            assert!(
                self.idle_polls < MAX_IDLE_POLLS,
                "rank {} polls forever {why}, where no event can arrive",
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
            let state = &world.ranks[self.rank as usize];
            let nothing_new = state.inbox.is_empty() && self.seen_life_changes.get() == Some(world.life_changes.len());
            (nothing_new, state.time + world.poll_cost)
        };
        if nothing_new {
            self.wait_for_arrival((round == 0).then_some(until));
        }
        self.kill_state() == KillState::Requested
    }

    fn begin_finalize(&mut self) {
        if !self.is_disconnected() && !self.is_foreign_fibre() {
            self.world.borrow_mut().set_life(self.rank, Liveness::Finalizing);
        }
    }

    fn is_finalized(&mut self) -> bool {
        true
    }

    fn announce_failure(&mut self, _: Option<&Error>) {
        if !self.is_disconnected() {
            self.world.borrow_mut().set_life(self.rank, Liveness::Failing);
        }
    }

    fn bulk_recv(&mut self, from: u32, _key: u64, slot: u32, span: Span) -> Result<Option<BulkDescriptor>, BulkError> {
        if std::thread::panicking() {
            self.sever();
        }
        if self.is_disconnected() || self.is_foreign_fibre() {
            return Err(BulkError::unsupported(span));
        }
        let mut world = self.world.borrow_mut();
        let ranks = world.ranks.len();
        if from as usize >= ranks || !span.is_writable() {
            let why = format!("invalid bulk receive from rank {from} of {ranks} into {} bytes", span.len());
            return Err(BulkError::invalid(span, why));
        }
        let gone =
            world.ranks[from as usize].ended.is_some() || world.ranks[from as usize].kill_state == KillState::Killed;
        if gone {
            world.push_inbox(self.rank, InboxEvent::BulkFailed { slot, span, sending: false });
            return Ok(None);
        }
        Ok(Some([world.bulk_transfers.post_recv(from, self.rank, slot, span), 0, 0, 0]))
    }

    fn bulk_send(&mut self, to: u32, slot: u32, descriptor: BulkDescriptor, span: Span) -> Result<(), BulkError> {
        if std::thread::panicking() {
            self.sever();
        }
        let is_disconnected = self.is_disconnected() || self.is_foreign_fibre();
        if !is_disconnected {
            self.sync_before_send();
        }
        let is_disconnected = is_disconnected || self.is_disconnected();
        let mut world = self.world.borrow_mut();
        if is_disconnected {
            world.push_inbox(self.rank, InboxEvent::BulkFailed { slot, span, sending: true });
        } else if world.bulk_transfers.is_plausible(descriptor[0], self.rank, to) {
            world.send_bulk(self.rank, to, descriptor[0], slot, span);
        } else {
            let why = format!("rank {to} has not posted bulk receive {} from rank {}", descriptor[0], self.rank);
            return Err(BulkError::invalid(span, why));
        }
        Ok(())
    }

    fn ack(&mut self, to: u32, slot: u32) -> bool {
        !self.is_disconnected() && !self.is_foreign_fibre() && self.world.borrow_mut().acknowledge(self.rank, to, slot)
    }

    fn report_unexpected_bytes(&mut self, bytes: u64) {
        let mut world = self.world.borrow_mut();
        world.rank(self.rank).unexpected_bytes = bytes;
        world.check_memory(self.rank);
    }

    fn capabilities(&self) -> Capabilities {
        // Messages in flight when all ranks have arrived may still be in flight when the barrier completes.
        let cells = if self.world.borrow().machine.barrier_time() > 0 { u32::MAX } else { 0 };
        Capabilities { barrier_cells: cells, ..Capabilities::default() }
    }

    fn arrive(&mut self, cell: u32, summary: u64) -> bool {
        let is_gone = self.is_disconnected()
            || self.is_foreign_fibre()
            || self.world.borrow().ranks[self.rank as usize].life != Liveness::Alive;
        !is_gone && self.world.borrow_mut().arrive_at_barrier(self.rank, cell, summary)
    }

    fn arrivals(&self, rank: u32, cell: u32) -> u64 {
        // A disconnected rank has no barriers any more.
        if rank != self.rank && self.is_disconnected() {
            return 0;
        }
        self.world.borrow().ranks[rank as usize].barrier_arrivals.get(&cell).copied().unwrap_or(0)
    }

    fn liveness_epoch(&self) -> u32 {
        let news = self.world.borrow().life_changes.len();
        self.seen_life_changes.set(Some(news));
        if self.is_disconnected() {
            // The caller may be unwound while it handles lost peers, so a disconnection is always news.
            self.disconnect_notices.set(self.disconnect_notices.get().wrapping_add(1));
        }
        (news as u32).wrapping_add(self.disconnect_notices.get())
    }

    fn liveness_since(&self, news: Option<u32>, notify: &mut dyn FnMut(u32, Liveness)) {
        if self.is_disconnected() {
            (0..self.size).filter(|rank| *rank != self.rank).for_each(|rank| notify(rank, Liveness::Failed));
            return;
        }
        // A rank that is connected always was.
        let world = self.world.borrow();
        let known = news.map_or(0, |news| news as usize);
        world.life_changes[known..].iter().for_each(|rank| notify(*rank, world.published_life(*rank)));
    }

    fn liveness(&self, rank: u32) -> Liveness {
        match rank {
            _ if rank == self.rank => Liveness::Alive,
            _ if self.is_disconnected() => Liveness::Failed,
            _ => self.world.borrow().published_life(rank),
        }
    }

    fn charge_time(&mut self, time: Duration) {
        self.world.borrow_mut().compute(self.rank, time.as_nanos() as f64 * 1000.0);
        self.check_deadlines();
    }

    fn charge_work(&mut self, units: u64) {
        let picoseconds = units as f64 * self.world.borrow().work_unit_time;
        if picoseconds > 0.0 {
            self.world.borrow_mut().compute(self.rank, picoseconds);
            self.check_deadlines();
        }
    }

    fn charge_reduction(&mut self, bytes: usize) {
        let mut world = self.world.borrow_mut();
        let time = world.ranks[self.rank as usize].time;
        world.rank(self.rank).time = world.machine.combine(self.rank, time, bytes as u64);
    }

    fn is_current_rank(&self) -> bool {
        !self.is_foreign_fibre()
    }

    fn report_wait(&mut self, what: &dyn fmt::Display) {
        if self.kill_state() == KillState::Requested {
            self.world.borrow_mut().rank(self.rank).waits_for = Some(what.to_string());
        }
    }

    fn set_settling(&mut self, is_settling: bool) {
        self.settling = is_settling;
    }
}

impl Drop for SimFabric {
    /// The rank has left the world, though its program may continue.
    fn drop(&mut self) {
        if !self.is_disconnected() {
            self.world.borrow_mut().on_fabric_drop(self.rank);
        }
    }
}
