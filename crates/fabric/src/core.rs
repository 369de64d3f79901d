//! The state of an endpoint apart from its engine, and what records do to it.
//!
//! A record's body lies in the engine's memory while it is handled, so nothing here calls the engine; what has to be
//! done there is noted as an [`Action`] and done right after.

use std::collections::{HashMap, VecDeque};

use treepie_base::{BuildNumberHasher, Error, Result, copy_short as copy};

use crate::bins::Key;
use crate::board::Met;
use crate::call::Call;
use crate::completions::{Due, Ended};
use crate::differing::Differing;
use crate::engine::{Head, Invite, Life, Refused};
use crate::gathering::Gatherings;
use crate::given_up::{GivenUp, Why};
use crate::heard::{Heard, is_of_protocol};
use crate::kind::{self, Accept, Body};
use crate::lives::Lives;
use crate::matching::{Answer, Arrived, Offer, Posted, Unexpected, Waiting};
use crate::op::{self, Completion, Envelope, Heed, Moving, Op, State};
use crate::outbox::{Item, Outbox};
use crate::slab::{Id, Slab};
use crate::window::Memories;

/// What the engine is to be asked for after a record has been handled.
#[derive(Debug)]
pub(crate) enum Action {
    Ack { to: u32, slot: u32 },
    Send { to: u32, head: Head, body: Body },
    SendLong { to: u32, head: Head, body: Vec<u8> },
    Move { op: Id, from: u32, offer: Offer },
    TakePart { to: u32, slot: u32, op: Id, invite: Invite },
    Arrive { cell: u32, census: u64 },
    Acked { slot: u32 },
    LookWhetherBoardIsClosed,
}

/// So many pieces of memory of kept messages are used again.
const SPARE: usize = 256;

/// What is known of the traffic with one rank.
#[derive(Clone, Copy, Default)]
pub(crate) struct Peer {
    /// Bytes of eager messages that it has not told to have received.
    pub(crate) unreceived: u32,
    /// Bytes of its eager messages that this rank has received and not told it.
    pub(crate) untold: u32,
    /// Messages whose data it has been asked for and that have not come.
    pub(crate) moving: u32,
}

/// So many messages of one peer move at a time, at most. Engines look at all that do; the others wait for their turn, and cost
/// nothing.
const MOVING: u32 = 64;

/// A blocking receive that goes on right now: it is younger than all posted ones, so it needs no queue.
pub(crate) struct Foreground<'a> {
    pub(crate) key: Key,
    /// What the message must belong to.
    pub(crate) call: Call,
    pub(crate) into: &'a mut [u8],
    pub(crate) outcome: Option<Outcome>,
}

pub(crate) enum Outcome {
    Received(Envelope),
    TooLong {
        bytes: u64,
    },
    /// It belongs to another call, and is where it was.
    Differs {
        source: u32,
        call: Call,
    },
    Offered(Envelope, Offer),
}

impl Foreground<'_> {
    /// Why it does not take a message that it asks for.
    #[cold]
    fn refuses(&self, message: Key, call: Call, bytes: u64) -> Outcome {
        if self.call == call { Outcome::TooLong { bytes } } else { Outcome::Differs { source: message.source, call } }
    }
}

#[inline]
fn envelope(key: Key, call: Call, bytes: u64) -> Envelope {
    Envelope { source: key.source, tag: key.tag, bytes, call }
}

/// What an eager message costs of the credit: its bytes, and something for its place in the queue.
#[inline]
pub(crate) fn cost(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(64)
}

pub(crate) struct Core {
    pub(crate) rank: u32,
    pub(crate) ops: Slab<Op>,
    /// Sends that wait for an answer, numbered for the peer.
    pub(crate) answers: Slab<Id>,
    pub(crate) posted: Posted,
    pub(crate) waiting: Waiting,
    pub(crate) peers: Vec<Peer>,
    /// Memory of messages that had to be kept until they were asked for.
    spare: Vec<Vec<u8>>,
    /// Bytes of eager messages that one peer may have unreceived at another.
    pub(crate) credit: u32,
    pub(crate) outbox: Outbox,
    pub(crate) actions: Vec<Action>,
    pub(crate) gatherings: Gatherings,
    pub(crate) memories: Memories,
    pub(crate) lives: Lives,
    /// A peer has said that it leaves.
    pub(crate) gone_said: bool,
    /// Nothing is received any more.
    pub(crate) leaving: bool,
    pub(crate) given_up: GivenUp,
    pub(crate) heard: Heard,
    /// By peer, receives whose data has not been asked for, as too many others move.
    moves: HashMap<u32, VecDeque<(Id, Offer)>, BuildNumberHasher>,
    pub(crate) completions: Slab<Ended>,
    /// Tasks that have something to do.
    pub(crate) due: Due,
    pub(crate) differing: Differing,
    pub(crate) met: Met,
}

impl Core {
    pub(crate) fn new(rank: u32, size: u32) -> Self {
        Self {
            rank,
            ops: Slab::new(),
            answers: Slab::new(),
            posted: Posted::new(),
            waiting: Waiting::new(),
            peers: vec![Peer::default(); size as usize],
            spare: Vec::with_capacity(SPARE),
            // All peers together can make a rank hold at most 64 MiB, or 64 KiB each if there are many.
            credit: ((64 << 20) / size.max(1)).clamp(64 << 10, 1 << 20),
            outbox: Outbox::default(),
            actions: Vec::with_capacity(16),
            gatherings: Gatherings::default(),
            memories: Memories::default(),
            lives: Lives::default(),
            gone_said: false,
            leaving: false,
            given_up: GivenUp::default(),
            heard: Heard::default(),
            moves: HashMap::default(),
            completions: Slab::new(),
            due: Due::default(),
            differing: Differing::default(),
            met: Met::default(),
        }
    }

    /// Handles a record.
    #[inline]
    pub(crate) fn record(&mut self, from: u32, head: Head, body: &[u8], foreground: Option<&mut Foreground<'_>>) {
        let key = head.key(from);
        match head.what() {
            kind::EAGER => self.eager(key, head.call(head.slot), body, Answer::Nobody, foreground),
            kind::EAGER_SYNC => self.eager(key, head.call(0), body, Answer::Peer(head.slot), foreground),
            _ => self.other(from, key, head, body, foreground),
        }
    }

    fn other(&mut self, from: u32, key: Key, head: Head, body: &[u8], foreground: Option<&mut Foreground<'_>>) {
        match head.what() {
            kind::OFFER => {
                let offer = Offer::from_body(head.slot, body);
                self.offered(key, head.call(offer.size), offer, foreground);
            }
            kind::ACCEPT => self.accepted(from, head.slot, Accept::from_body(body)),
            kind::DATA => self.data(head.slot, body),
            kind::ACK => self.actions.push(Action::Acked { slot: head.slot }),
            kind::REFUSE => self.refused(from, head),
            kind::CREDIT => {
                let peer = &mut self.peers[from as usize];
                peer.unreceived = peer.unreceived.saturating_sub(head.slot);
            }
            kind::ASK => {
                if self.leaving {
                    let head = Head { kind: kind::GONE, ..Head::default() };
                    self.actions.push(Action::Send { to: from, head, body: Body::EMPTY });
                }
            }
            kind::GAVE_UP => self.peer_gave_up(from, head, body),
            kind::GONE => {
                self.lives.set(from, Life::Leaving, self.peers.len() as u32);
                self.gone_said = true;
            }
            _ => self.window_record(from, head, body),
        }
    }

    /// A whole message has come.
    #[inline]
    fn eager(&mut self, key: Key, call: Call, body: &[u8], answer: Answer, foreground: Option<&mut Foreground<'_>>) {
        if !self.posted.is_empty() && self.eager_posted(key, call, body) {
            self.received(key.source, body.len(), answer);
            return;
        }
        if let Some(foreground) = foreground
            && foreground.outcome.is_none()
            && foreground.key.takes(key)
        {
            let differs = foreground.call != call;
            if !differs && let Some(into) = foreground.into.get_mut(..body.len()) {
                copy(into, body);
                foreground.outcome = Some(Outcome::Received(envelope(key, call, body.len() as u64)));
                self.received(key.source, body.len(), answer);
                return;
            }
            foreground.outcome = Some(foreground.refuses(key, call, body.len() as u64));
        }
        if is_of_protocol(key) {
            return self.hear_whole(key, call, body, answer);
        }
        let data = self.copy_to_keep(body);
        self.keep(key, call, Arrived::Eager { data, answer });
    }

    /// A copy of a message that nobody has asked for.
    pub(crate) fn copy_to_keep(&mut self, body: &[u8]) -> Vec<u8> {
        let mut data = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(body.len().max(256)));
        data.extend_from_slice(body);
        data
    }

    /// Puts a whole message into the oldest receive that has room for it; those before it fail. False if none has.
    #[inline]
    pub(crate) fn eager_posted(&mut self, key: Key, call: Call, body: &[u8]) -> bool {
        while let Some(index) = self.take_posted(key) {
            let op = self.ops.at_mut(index).expect("posted receives exist");
            // What nearly every message does, without looking anything up again.
            if op.heed == Heed::Kept
                && op.call == call
                && let Some(span) = &mut op.span
                && body.len() <= span.len()
            {
                copy(&mut span.as_mut_slice()[..body.len()], body);
                op.state = State::Done(envelope(key, call, body.len() as u64));
                return true;
            }
            let id = self.ops.id_at(index).expect("posted receives exist");
            if self.fill(id, key, call, body) {
                return true;
            }
        }
        false
    }

    /// The announcement of a message has come.
    fn offered(&mut self, key: Key, call: Call, offer: Offer, foreground: Option<&mut Foreground<'_>>) {
        while let Some(op) = self.take_posted_id(key) {
            if self.begin_move(op, key, call, offer) {
                return;
            }
        }
        if let Some(foreground) = foreground
            && foreground.outcome.is_none()
            && foreground.key.takes(key)
        {
            if foreground.call == call && offer.bytes <= foreground.into.len() as u64 {
                foreground.outcome = Some(Outcome::Offered(envelope(key, call, offer.bytes), offer));
                return;
            }
            foreground.outcome = Some(foreground.refuses(key, call, offer.bytes));
        }
        if is_of_protocol(key) {
            return self.hear_early(key, call, Arrived::Offered(offer));
        }
        self.keep(key, call, Arrived::Offered(offer));
    }

    /// Takes the oldest receive for a message out of the queue.
    #[inline]
    fn take_posted(&mut self, message: Key) -> Option<u32> {
        let ops = &self.ops;
        self.posted.take(message, |index| match ops.at(index).map(|op| (op.key, &op.state)) {
            Some((key, State::Posted(order))) => (key, *order),
            _ => unreachable!("posted receives are in that state"),
        })
    }

    /// Takes the oldest receive for a message out of the queue.
    pub(crate) fn take_posted_id(&mut self, message: Key) -> Option<Id> {
        let index = self.take_posted(message)?;
        let id = self.ops.id_at(index).expect("posted receives exist");
        self.ops.get_mut(id).expect("found").state = State::Queued;
        Some(id)
    }

    /// Whether a receive waits for this message.
    pub(crate) fn would_take(&self, message: Key) -> bool {
        self.posted.oldest(message, |_| 0).is_some()
    }

    /// Takes a receive that has no message out of the queue; false if it is none.
    #[inline]
    pub(crate) fn unpost(&mut self, id: Id) -> bool {
        let Some(op) = self.ops.get_mut(id) else { return false };
        let (State::Posted(_), key) = (&op.state, op.key) else { return false };
        op.state = State::Queued;
        self.posted.remove(key, id.index);
        true
    }

    /// Keeps the memory of a message that was kept, for the next one.
    pub(crate) fn use_again(&mut self, mut data: Vec<u8>) {
        if self.spare.len() < SPARE && data.capacity() <= 4 << 10 {
            data.clear();
            self.spare.push(data);
        }
    }

    /// Queues a message that nobody has asked for yet.
    fn keep(&mut self, key: Key, call: Call, what: Arrived) {
        if let Some(why) = self.unwanted(key) {
            return self.refuse(key.source, &what, why);
        }
        let order = self.waiting.next_order();
        self.waiting.put(Unexpected { key, call, order, what });
    }

    /// Why this rank does not want a message that has come, if that is so.
    pub(crate) fn unwanted(&self, key: Key) -> Option<Why> {
        if self.leaving { Some(Why::Unsaid) } else { self.given_up.unwanted(key) }
    }

    /// Tells a sender that waits for an answer that there will be none, and why.
    pub(crate) fn refuse(&mut self, from: u32, what: &Arrived, why: Why) {
        if let Arrived::Eager { data, .. } = what
            && !self.leaving
        {
            // It is out of the way: the sender may send as much again.
            self.received(from, data.len(), Answer::Nobody);
        }
        let why = if self.leaving { Why::Lost(self.rank) } else { why.by(self.rank) };
        let slot = match what {
            Arrived::Offered(offer) => offer.slot,
            Arrived::Eager { answer: Answer::Peer(slot), .. } => *slot,
            Arrived::Eager { answer: Answer::Own(op), .. } => return self.fail(*op, why.error(self.rank)),
            Arrived::Eager { answer: Answer::Nobody, .. } => return,
        };
        let (tag, context) = ((why.word() >> 32) as u32, why.word() as u32);
        let head = Head { kind: kind::REFUSE, context, tag, slot };
        self.actions.push(Action::Send { to: from, head, body: Body::EMPTY });
    }

    /// Puts a whole message into a receive; false, and the receive has failed, if it does not fit.
    pub(crate) fn fill(&mut self, op: Id, key: Key, call: Call, body: &[u8]) -> bool {
        if !self.fits(op, key, call, body.len() as u64) {
            return false;
        }
        let entry = self.ops.get_mut(op).expect("posted receives exist");
        entry.make_memory(body.len());
        let span = entry.span.as_mut().expect("a receive has memory");
        copy(&mut span.as_mut_slice()[..body.len()], body);
        self.complete(op, envelope(key, call, body.len() as u64));
        true
    }

    /// Whether a message is what a receive asks for, and short enough; if not, the receive has failed.
    fn fits(&mut self, op: Id, key: Key, call: Call, bytes: u64) -> bool {
        let receive = self.ops.get(op).expect("posted receives exist");
        let (expected, room) = (receive.call, receive.room());
        if expected != call {
            self.fail(op, expected.differs(self.rank, call, key.source));
        } else if bytes > room {
            self.fail(op, Error::Truncated { got: bytes, room });
        }
        expected == call && bytes <= room
    }

    /// Lets an offered message begin to move into a receive; false, and the receive has failed, if it does not fit.
    pub(crate) fn begin_move(&mut self, op: Id, key: Key, call: Call, offer: Offer) -> bool {
        if !self.fits(op, key, call, offer.bytes) {
            return false;
        }
        let entry = self.ops.get_mut(op).expect("posted receives exist");
        entry.make_memory(offer.bytes as usize);
        let envelope = envelope(key, call, offer.bytes);
        entry.state = State::Moving(Box::new(Moving { envelope, slot: offer.slot, got: 0, begun: false }));
        self.actions.push(Action::Move { op, from: key.source, offer });
        true
    }

    /// Whether the data of an announced message may be asked for now. If not, it is when those before it have come.
    pub(crate) fn may_move(&mut self, from: u32, op: Id, offer: Offer) -> bool {
        let may = self.peers[from as usize].moving < MOVING;
        if may {
            let Some(State::Moving(moving)) = self.ops.get_mut(op).map(|op| &mut op.state) else { return false };
            moving.begun = true;
            self.peers[from as usize].moving += 1;
        } else {
            self.moves.entry(from).or_default().push_back((op, offer));
        }
        may
    }

    /// The data of a message has come, or will not: another one of that peer may move.
    fn end_move(&mut self, from: u32) {
        self.peers[from as usize].moving -= 1;
        let Some(waiting) = self.moves.get_mut(&from) else { return };
        while let Some((op, offer)) = waiting.pop_front() {
            // It may have failed meanwhile.
            if self.ops.get(op).is_some_and(|op| matches!(op.state, State::Moving(_))) {
                self.actions.push(Action::Move { op, from, offer });
                return;
            }
        }
        self.moves.remove(&from);
    }

    /// A whole message has been received: gives credit back, and tells a sender that waits for this.
    #[inline]
    pub(crate) fn received(&mut self, from: u32, bytes: usize, answer: Answer) {
        let peer = &mut self.peers[from as usize];
        peer.untold = peer.untold.saturating_add(cost(bytes));
        // Seldom: a quarter of the credit at a time.
        if peer.untold >= self.credit / 4 {
            self.give_credit(from);
        }
        if answer != Answer::Nobody {
            self.answer(from, answer);
        }
    }

    #[cold]
    fn give_credit(&mut self, from: u32) {
        let amount = std::mem::take(&mut self.peers[from as usize].untold);
        if from != self.rank {
            let head = Head { kind: kind::CREDIT, slot: amount, ..Head::default() };
            self.actions.push(Action::Send { to: from, head, body: Body::EMPTY });
        }
    }

    /// Tells whoever waits for a message to be received that it is.
    fn answer(&mut self, from: u32, answer: Answer) {
        match answer {
            Answer::Nobody => {}
            Answer::Peer(slot) => self.actions.push(Action::Ack { to: from, slot }),
            Answer::Own(op) => self.complete(op, Envelope::default()),
        }
    }

    /// The receiver of an offered message is ready.
    fn accepted(&mut self, from: u32, slot: u32, accept: Accept) {
        let answer = Id { index: slot, generation: accept.generation };
        // Where the receiver needs no help it may be done, and the slot in use again, before this comes.
        let Some(&op) = self.answers.get(answer) else { return };
        match accept.invite {
            Some(invite) => self.actions.push(Action::TakePart { to: from, slot, op, invite }),
            None => {
                self.answers.remove(answer);
                let sending = self.ops.get_mut(op).expect("answered sends exist");
                sending.deregister();
                sending.state = State::Streaming;
                self.outbox.push(from, Item::Stream { op, receive: accept.receive, from: 0 });
            }
        }
    }

    /// More of an accepted message has come.
    fn data(&mut self, slot: u32, body: &[u8]) {
        let Some(id) = self.ops.id_at(slot) else { return };
        let op = self.ops.get_mut(id).expect("found");
        let State::Moving(moving) = &mut op.state else { return };
        let (first, end) = (moving.got, moving.got + body.len());
        moving.got = end;
        let envelope = moving.envelope;
        op.span.as_mut().expect("a receive has memory").as_mut_slice()[first..end].copy_from_slice(body);
        if end as u64 == envelope.bytes {
            self.complete(id, envelope);
        }
    }

    /// A send has its answer.
    pub(crate) fn answered(&mut self, slot: u32) {
        if let Some(op) = self.end_answer(slot) {
            self.complete(op, Envelope::default());
        }
    }

    /// A send will never have its answer.
    fn refused(&mut self, by: u32, head: Head) {
        if let Some(op) = self.end_answer(head.slot) {
            let why = Why::of_word(u64::from(head.tag) << 32 | u64::from(head.context));
            self.fail(op, why.error(by));
        }
    }

    pub(crate) fn end_answer(&mut self, slot: u32) -> Option<Id> {
        let answer = self.answers.id_at(slot)?;
        self.answers.take(answer)
    }

    /// An operation has succeeded.
    #[inline]
    pub(crate) fn complete(&mut self, id: Id, envelope: Envelope) {
        self.end(id, State::Done(envelope));
    }

    /// An operation has failed.
    pub(crate) fn fail(&mut self, id: Id, error: Error) {
        self.end(id, State::Failed(Box::new(error)));
    }

    /// The engine has refused a bulk transfer, and said why.
    #[cold]
    pub(crate) fn refuse_bulk(&mut self, id: Id, refused: Refused, peer: u32) {
        let Some(op) = self.ops.get_mut(id) else { return };
        op.span = Some(refused.span);
        self.fail(id, refused.error.unwrap_or(Error::PeerLost { rank: peer as usize }));
    }

    #[inline]
    fn end(&mut self, id: Id, state: State) {
        if let Some(op) = self.ops.get_mut(id) {
            let before = std::mem::replace(&mut op.state, state);
            if let State::Answering(_) = before {
                // Whoever asks for the result gets memory that nobody else reads.
                op.deregister();
            }
            if op.heed != Heed::Kept {
                self.tell_end(id);
            }
            if let State::Moving(moving) = before
                && moving.begun
            {
                self.end_move(moving.envelope.source);
            }
        }
    }

    /// Puts a message that was taken out for a receive back to its place, or into a receive that came meanwhile.
    pub(crate) fn put_back(&mut self, message: Unexpected) {
        let (key, call) = (message.key, message.call);
        while let Some(op) = self.take_posted_id(key) {
            let taken = match &message.what {
                Arrived::Eager { data, answer } => {
                    let taken = self.fill(op, key, call, data);
                    if taken {
                        self.received(key.source, data.len(), *answer);
                    }
                    taken
                }
                Arrived::Offered(offer) => self.begin_move(op, key, call, *offer),
            };
            if taken {
                return;
            }
        }
        self.waiting.put(message);
    }

    /// The result of an operation that is over.
    pub(crate) fn take_result(&mut self, id: Id) -> Option<Result<Completion>> {
        self.ops.take_with(id, |op| {
            let span = op.span.take();
            match op.outcome() {
                Some(result) => Some(result.map(|envelope| Completion { envelope, span })),
                None => {
                    op.span = span;
                    None
                }
            }
        })
    }

    /// The result of an operation that is over, without its memory.
    #[inline]
    pub(crate) fn take_envelope(&mut self, id: Id) -> Option<Result<Envelope>> {
        self.ops.take_with(id, |op| op.outcome())
    }

    pub(crate) fn describe(&self, id: Id) -> Option<op::Waiting> {
        self.ops.get(id).map(|op| op::Waiting::Op(op.what, op.key))
    }
}
