//! A rank's end of everything: the engine, and matching and protocols above it.
//!
//! The way of a message: [`send`](Endpoint::send) hands short ones to the engine as they are, as long as the receiver
//! has not too many unreceived (credit); others, and those that are over the credit, are announced (an offer) and their
//! data waits here. The receiver's [`progress`](Endpoint::progress) polls its engine and matches what comes. A message
//! that was announced moves once it is matched: by the engine, memory to memory, or else in records.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use treepie_base::{Error, Lender, Result};

use crate::core::{Action, Core, Foreground};
use crate::engine::{Event, Fabric, Head};
use crate::kind::{self, Accept, Body};
use crate::matching::Offer;
use crate::op::{Completion, Envelope, Op, State, Waiting, What};
use crate::outbox::Item;
use crate::receive::Looking;
use crate::slab::Id;

/// Events handled before whoever waits looks at its own matter again.
pub(crate) const BATCH: usize = 64;

const EXISTS: &str = "an operation that is waited for exists";

/// Something that goes on beside the caller: stepped when something has happened, until it returns its result.
pub trait Task {
    /// Does what can be done now. Must not wait.
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>>;

    /// Ends it before it is done: gives up the operations that it has begun.
    fn give_up(&mut self, endpoint: &mut Endpoint) {
        let _ = endpoint;
    }
}

/// One rank's end: the engine, and matching and protocols above it.
pub struct Endpoint {
    pub(crate) fabric: Box<dyn Fabric>,
    pub(crate) core: Core,
    pub(crate) eager_limit: usize,
    pub(crate) news: u32,
    pub(crate) tasks: Vec<(Id, Rc<RefCell<dyn Task>>)>,
    stall: Option<Duration>,
    pub(crate) settling: Patience,
    /// This rank has left, and there is no engine any more.
    pub(crate) ended: bool,
    next_context: u32,
    pub(crate) looking: Looking,
    /// A task is being stepped.
    pub(crate) in_task: bool,
}

/// How long somebody has waited.
#[derive(Default)]
pub(crate) struct Patience {
    round: u32,
    since: Option<Duration>,
    told: u32,
    asked: u32,
}

impl Patience {
    /// Something has come: stay awake again. What is waited for has not, so the time goes on.
    #[inline]
    pub(crate) fn stir(&mut self) {
        self.round = 0;
    }

    pub(crate) fn waited(&self, now: Duration) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now - since)
    }
}

impl Endpoint {
    /// An endpoint on this engine.
    pub fn new(fabric: Box<dyn Fabric>) -> Self {
        let (rank, size) = (fabric.rank(), fabric.size());
        let stall = std::env::var("TREEPIE_STALL_SECS").ok().and_then(|s| s.parse::<f64>().ok());
        Self {
            core: Core::new(rank, size),
            eager_limit: fabric.max_body(),
            // A rank may have ended before this one began.
            news: fabric.news().wrapping_sub(1),
            fabric,
            tasks: Vec::new(),
            stall: stall.filter(|s| *s > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok()),
            settling: Patience::default(),
            ended: false,
            next_context: 2,
            looking: Looking::default(),
            in_task: false,
        }
    }

    /// This rank of the world.
    pub fn rank(&self) -> u32 {
        self.core.rank
    }

    /// Ranks of the world.
    pub fn size(&self) -> u32 {
        self.core.peers.len() as u32
    }

    /// The engine.
    pub fn fabric(&mut self) -> &mut dyn Fabric {
        &mut *self.fabric
    }

    /// The engine's name.
    pub fn engine(&self) -> &'static str {
        self.fabric.name()
    }

    /// How many cores all ranks share, if they are on one machine.
    pub fn cores(&self) -> Option<u32> {
        self.fabric.cores()
    }

    /// Bytes that each rank can write on a board that all ranks see; 0 if there is none.
    pub fn board(&self) -> usize {
        self.fabric.board()
    }

    /// The longest message that is sent without asking the receiver.
    pub fn eager_limit(&self) -> usize {
        self.eager_limit
    }

    /// The lowest context that this rank has never used.
    pub fn next_context(&self) -> u32 {
        self.next_context
    }

    /// Marks all contexts below `context` as used.
    pub fn use_contexts_below(&mut self, context: u32) {
        self.next_context = self.next_context.max(context);
    }

    /// Handles what has come. Returns whether anything has.
    #[inline]
    pub fn progress(&mut self) -> bool {
        self.progress_for(&mut None)
    }

    #[inline]
    pub(crate) fn progress_for(&mut self, foreground: &mut Option<Foreground<'_>>) -> bool {
        // A send that ends by this is what a task may wait for.
        let mut any = !self.core.outbox.is_empty() && self.flush();
        for _ in 0..BATCH {
            let Some(event) = self.fabric.poll() else { break };
            any = true;
            if let Event::Record { from, head, body } = event {
                self.core.record(from, head, body, foreground.as_mut());
            } else {
                Self::other_event(&mut self.core, event);
            }
            if !self.core.actions.is_empty() {
                self.act();
            }
            if foreground.as_ref().is_some_and(|foreground| foreground.outcome.is_some()) {
                break;
            }
        }
        if any && !self.tasks.is_empty() {
            self.step_tasks();
        }
        any
    }

    fn other_event(core: &mut Core, event: Event<'_>) {
        match event {
            Event::Record { .. } => unreachable!("handled by the caller"),
            Event::Acked { slot } => core.answered(slot),
            Event::BulkReceived { slot, span, tell_sender } => {
                let Some(id) = core.ops.id_at(slot) else { return };
                let op = core.ops.get_mut(id).expect("found");
                op.span = Some(span);
                let State::Moving(moving) = &op.state else { return };
                let (envelope, slot) = (moving.envelope, moving.slot);
                if tell_sender {
                    core.actions.push(Action::Ack { to: envelope.source, slot });
                }
                core.complete(id, envelope);
            }
            Event::BulkSent { slot, span } => {
                if let Some(op) = core.end_answer(slot) {
                    core.ops.get_mut(op).expect("answered sends exist").span = Some(span);
                    core.complete(op, Envelope::default());
                }
            }
            Event::BulkFailed { slot, span, sending } => {
                let id = if sending { core.end_answer(slot) } else { core.ops.id_at(slot) };
                let Some(id) = id else { return };
                let op = core.ops.get_mut(id).expect("found");
                op.span = Some(span);
                let rank = match &op.state {
                    _ if sending => op.key.source,
                    State::Moving(moving) => moving.envelope.source,
                    _ => return,
                };
                core.fail(id, Error::PeerLost { rank: rank as usize });
            }
            Event::Gathered { cell } => {
                if core.gathered(cell) {
                    core.actions.push(Action::Arrive { cell });
                }
            }
        }
    }

    /// Does what handling a record has asked for.
    #[cold]
    pub(crate) fn act(&mut self) {
        while let Some(action) = self.core.actions.pop() {
            match action {
                Action::Ack { to, slot } => {
                    if !self.fabric.ack(to, slot) {
                        self.send_short(to, Head { kind: kind::ACK, slot, ..Head::default() }, Body::EMPTY);
                    }
                }
                Action::Send { to, head, body } => self.send_short(to, head, body),
                Action::SendLong { to, head, body } => {
                    if self.core.outbox.holds_for(to) || !self.fabric.try_send(to, head, &body) {
                        self.core.outbox.push(to, Item::Long(head, body));
                    }
                }
                Action::Move { op, from, offer } => self.begin_move(op, from, offer),
                Action::TakePart { to, slot, op, invite } => {
                    let span = self.core.ops.get_mut(op).and_then(|op| op.span.take());
                    if let Some(span) = span {
                        self.fabric.bulk_send(to, slot, invite, span);
                    }
                }
                Action::Acked { slot } => {
                    let op = self.core.answers.at(slot).and_then(|op| self.core.ops.get_mut(*op));
                    if let Some(op) = op
                        && op.span.is_none()
                    {
                        op.span = self.fabric.bulk_ended(slot);
                    }
                    self.core.answered(slot);
                }
                Action::Arrive { cell } => {
                    self.fabric.arrive(cell);
                }
            }
        }
    }

    /// Sends a record of the protocol, now or when there is room.
    pub(crate) fn send_short(&mut self, to: u32, head: Head, body: Body) {
        if self.core.outbox.holds_for(to) || !self.fabric.try_send(to, head, body.as_slice()) {
            self.core.outbox.push(to, Item::Short(head, body));
        }
    }

    /// Lets the data of an offered message come: by the engine if it can, in records otherwise.
    fn begin_move(&mut self, id: Id, from: u32, offer: Offer) {
        let Some(op) = self.core.ops.get_mut(id) else { return };
        let span = op.span.take().expect("a receive has memory").narrowed(offer.bytes as usize);
        let invite = match self.fabric.bulk_recv(from, offer.place, id.index, span) {
            Ok(None) => return,
            Ok(invite) => invite,
            Err(span) => {
                self.core.ops.get_mut(id).expect("found above").span = Some(span);
                None
            }
        };
        let accept = Accept { generation: offer.generation, receive: id.index, invite };
        self.send_short(from, Head { kind: kind::ACCEPT, slot: offer.slot, ..Head::default() }, accept.to_body());
    }

    /// Sends what has waited for room, as far as there is room now. Returns whether anything got through.
    #[cold]
    fn flush(&mut self) -> bool {
        let mut any = false;
        for to in self.core.outbox.destinations() {
            let mut queue = self.core.outbox.take(to);
            while let Some(item) = queue.pop_front() {
                let left = match item {
                    Item::Short(head, body) => {
                        (!self.fabric.try_send(to, head, body.as_slice())).then_some(Item::Short(head, body))
                    }
                    Item::Long(head, body) => {
                        (!self.fabric.try_send(to, head, &body)).then_some(Item::Long(head, body))
                    }
                    Item::Message(op) => (!self.dispatch(op)).then_some(Item::Message(op)),
                    Item::Stream { op, receive, from } => match self.stream(to, op, receive, from) {
                        Some((item, true)) => {
                            // Nothing waits for the order of data: let others pass between two pieces.
                            queue.push_back(item);
                            any = true;
                            None
                        }
                        left => left.map(|(item, _)| item),
                    },
                };
                if let Some(item) = left {
                    queue.push_front(item);
                    break;
                }
                any = true;
            }
            self.core.outbox.put_back(to, queue);
        }
        any
    }

    /// Sends the next piece of an accepted message. Returns the rest, and whether this piece got through.
    fn stream(&mut self, to: u32, id: Id, receive: u32, from: usize) -> Option<(Item, bool)> {
        let data = self.core.ops.get(id)?.span.as_ref()?.as_slice();
        let end = data.len().min(from + self.fabric.max_body());
        let head = Head { kind: kind::DATA, slot: receive, ..Head::default() };
        if !self.fabric.try_send(to, head, &data[from..end]) {
            return Some((Item::Stream { op: id, receive, from }, false));
        }
        if end == data.len() {
            self.core.complete(id, Envelope::default());
            return None;
        }
        Some((Item::Stream { op: id, receive, from: end }, true))
    }

    /// Lets a task run beside the caller until it ends.
    /// `lender` is whose memory it uses, if that is lent; the operations that it begins are its own matter.
    pub fn spawn(&mut self, task: Rc<RefCell<dyn Task>>, lender: Option<Lender>) -> Id {
        let id = self.core.ops.insert(Op { lender, ..Op::other(What::Task) });
        let first = self.step(&mut *task.borrow_mut());
        match first {
            Some(result) => self.end_task(id, result),
            None => self.tasks.push((id, task)),
        }
        id
    }

    /// Waits for something at the board that all ranks see. An error if a rank is lost.
    #[inline]
    pub fn wait_at_board<R>(&mut self, mut look: impl FnMut(&mut dyn Fabric) -> Option<R>) -> Result<R> {
        if let Some(found) = look(&mut *self.fabric) {
            return Ok(found);
        }
        // With a core of its own, whoever is waited for is mostly less than a microsecond away.
        if self.fabric.cores().is_some_and(|cores| self.size() <= cores) {
            for _ in 0..32 {
                std::hint::spin_loop();
                if let Some(found) = look(&mut *self.fabric) {
                    return Ok(found);
                }
            }
        }
        let mut patience = Patience::default();
        loop {
            if self.progress() {
                patience.stir();
            } else {
                self.pause(&mut patience, Waiting::For("a collective operation"));
            }
            if let Some(found) = look(&mut *self.fabric) {
                return Ok(found);
            }
            // It was known to be lost before the board was looked at, so what it did before counts.
            if let Some(rank) = self.fabric.board_awaited().filter(|rank| self.core.lives.contains_key(rank)) {
                return Err(Error::PeerLost { rank: rank as usize });
            }
        }
    }

    /// Steps a task. What it begins meanwhile is its own: nobody who looks for operations on lent memory sees it.
    fn step(&mut self, task: &mut dyn Task) -> Option<Result<()>> {
        let before = std::mem::replace(&mut self.in_task, true);
        let result = task.step(self);
        self.in_task = before;
        result
    }

    /// Ends a task that goes on. False if it is none.
    pub fn give_up(&mut self, id: Id) -> bool {
        let Some(place) = self.tasks.iter().position(|(task, _)| *task == id) else { return false };
        let (_, task) = self.tasks.swap_remove(place);
        task.borrow_mut().give_up(self);
        self.core.ops.remove(id);
        true
    }

    /// Lets a task run until it ends.
    pub fn run(&mut self, task: &mut dyn Task) -> Result<()> {
        let mut patience = Patience::default();
        loop {
            if let Some(result) = self.step(task) {
                return result;
            }
            if self.progress() {
                patience.stir();
            } else {
                self.pause(&mut patience, Waiting::For("a collective operation"));
            }
        }
    }

    fn end_task(&mut self, id: Id, result: Result<()>) {
        match result {
            Ok(()) => self.core.complete(id, Envelope::default()),
            Err(error) => self.core.fail(id, error),
        }
    }

    pub(crate) fn drop_tasks(&mut self) {
        for (id, _) in std::mem::take(&mut self.tasks) {
            self.core.fail(id, Error::Cancelled);
        }
    }

    #[cold]
    pub(crate) fn step_tasks(&mut self) {
        // Taken out while they run, as they use the endpoint; none of them steps the others.
        let mut running = std::mem::take(&mut self.tasks);
        running.retain(|(id, task)| match self.step(&mut *task.borrow_mut()) {
            Some(result) => {
                self.end_task(*id, result);
                false
            }
            None => true,
        });
        running.append(&mut self.tasks);
        self.tasks = running;
    }

    /// Begins a barrier over all ranks of the world on a counter that they share, if the engine has such.
    pub fn gather(&mut self, cell: u32) -> Option<Id> {
        // A rank arrives once at a time; the next barrier begins when this one has ended.
        let first = self.core.gatherings.get(&cell).is_none_or(VecDeque::is_empty);
        if first && !self.fabric.arrive(cell) {
            return None;
        }
        let id = self.core.ops.insert(Op::other(What::Gather));
        self.core.gatherings.entry(cell).or_default().push_back(id);
        self.fail_if_hopeless(id);
        Some(id)
    }

    /// The result of an operation, if it is over; makes progress once if not.
    pub fn test(&mut self, id: Id) -> Option<Result<Completion>> {
        if let Some(result) = self.core.take_result(id) {
            return Some(result);
        }
        self.try_progress();
        self.core.take_result(id)
    }

    /// Makes progress for somebody who only looks; if there was none, looks after what those who wait do, and lets
    /// others run where ranks outnumber cores, as a loop of fruitless looks would keep them from it.
    pub(crate) fn try_progress(&mut self) {
        if !self.progress() {
            self.look_for_losses();
            self.fabric.idle(0);
        }
    }

    /// The result of an operation, if it is over; makes no progress.
    pub fn result(&mut self, id: Id) -> Option<Result<Completion>> {
        self.core.take_result(id)
    }

    /// The same for an operation whose memory nobody asks for.
    #[inline]
    pub fn result_envelope(&mut self, id: Id) -> Option<Result<Envelope>> {
        self.core.take_envelope(id)
    }

    /// Waits for an operation to end.
    pub fn wait(&mut self, id: Id) -> Result<Completion> {
        self.wait_any(&[id]);
        self.core.take_result(id).expect(EXISTS)
    }

    /// Waits for an operation to end whose memory nobody asks for.
    #[inline]
    pub fn wait_envelope(&mut self, id: Id) -> Result<Envelope> {
        if let Some(result) = self.core.take_envelope(id) {
            return result;
        }
        self.wait_any(&[id]);
        self.core.take_envelope(id).expect(EXISTS)
    }

    /// Waits until one of these is over and returns its place.
    pub fn wait_any(&mut self, ids: &[Id]) -> usize {
        let mut patience = Patience::default();
        loop {
            if let Some(i) = ids.iter().position(|id| self.is_over(*id)) {
                return i;
            }
            if self.progress() {
                patience.stir();
            } else if !self.fail_if_circular(ids) {
                let what = self.core.describe(ids[0]).expect(EXISTS);
                self.pause(&mut patience, what);
            }
        }
    }

    /// Whether an operation is over.
    #[inline]
    pub fn is_over(&self, id: Id) -> bool {
        self.core.ops.get(id).is_none_or(Op::is_over)
    }

    /// The operations on memory of this lending whose result has not been taken.
    pub fn lent_by(&self, lender: Lender) -> Vec<Id> {
        self.core.ops.iter().filter(|(_, op)| op.lender == Some(lender)).map(|(id, _)| id).collect()
    }

    /// Takes back a receive that has no message yet. False if it has, or if it is no receive.
    pub fn cancel(&mut self, id: Id) -> bool {
        let cancelled = self.core.unpost(id);
        if cancelled {
            self.core.ops.remove(id);
        }
        cancelled
    }

    /// Gives up an operation: a receive without message is cancelled, anything else goes on unheeded.
    pub fn abandon(&mut self, id: Id) {
        if self.cancel(id) {
            return;
        }
        match self.core.ops.get_mut(id) {
            Some(op) if op.is_over() => self.core.ops.remove(id),
            Some(op) => op.wanted = false,
            None => {}
        }
    }

    /// Waits a little after nothing has come, and looks after what only those who wait have time for.
    #[cold]
    pub(crate) fn pause(&mut self, patience: &mut Patience, what: Waiting) {
        let slept = self.fabric.idle(patience.round);
        patience.round += 1;
        self.look_for_losses();
        if slept || patience.round.is_multiple_of(256) {
            self.watch(patience, what);
        }
    }

    /// After a long time: says what is waited for, if asked to, and asks a silent peer whether it is still there.
    fn watch(&mut self, patience: &mut Patience, what: Waiting) {
        let now = self.fabric.now();
        let waited = now - *patience.since.get_or_insert(now);
        if let Some(stall) = self.stall
            && waited >= stall * (patience.told + 1)
        {
            patience.told += 1;
            eprintln!("treepie: rank {} has waited {:.1} s in {what}", self.core.rank, waited.as_secs_f64());
        }
        if !self.fabric.knows_life() && waited >= Duration::from_millis(500) * (patience.asked + 1) {
            patience.asked += 1;
            self.ask_whether_they_are_there(what);
        }
    }
}
