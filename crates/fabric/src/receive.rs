//! Receiving and probing.

use std::cell::RefCell;

use treepie_base::{Bytes, Error, Result, copy_short, lending};

use crate::bins::Key;
use crate::call::Call;
use crate::core::{Core, Foreground, Outcome};
use crate::endpoint::{BATCH, Endpoint};
use crate::kind;
use crate::matching::{Answer, Arrived, Offer, Unexpected};
use crate::op::{Envelope, Op, Select, State, Target, Waiting, What};
use crate::slab::Id;
use crate::waiting::Patience;

/// A message that was found by a probe and taken out of the queue: only its holder can receive it.
#[derive(Debug)]
pub struct Found(Unexpected);

impl Found {
    /// What is known of it.
    pub fn envelope(&self) -> Envelope {
        envelope(&self.0)
    }
}

fn envelope(message: &Unexpected) -> Envelope {
    let Unexpected { key, call, .. } = message;
    Envelope { source: key.source, tag: key.tag, bytes: message.bytes(), call: *call }
}

/// Which receives look whether their message is already there.
#[derive(Default)]
pub(crate) struct Looking {
    /// How many have been begun.
    begun: u32,
    /// So many are not to look.
    skip: u32,
}

impl Looking {
    /// One more is begun. Returns whether everything else is to get on first: those who find their message at once
    /// might never come to it, and answers and other peers would wait for ever.
    #[inline]
    fn begin(&mut self) -> bool {
        self.begun = self.begun.wrapping_add(1);
        self.begun.is_multiple_of(64)
    }

    /// Whether this one is to look.
    #[inline]
    fn now(&mut self) -> bool {
        let looks = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        looks
    }

    /// A look takes the line that the sender is about to write away from it, so the next ones do not; by then there
    /// may be several messages at once. Between 4 and 16 it makes no difference; 0 costs a fifth of the rate.
    fn found_nothing(&mut self) {
        self.skip = 8;
    }
}

impl Endpoint {
    /// Receives into `into`.
    #[inline]
    pub fn recv(&mut self, select: Select, into: &mut [u8]) -> Result<Envelope> {
        let key = select.key();
        if !self.core.waiting.is_empty() && self.core.waiting.find(key).is_some() {
            return self.recv_waiting(select, into);
        }
        let mut patience = Patience::default();
        let mut foreground = Some(Foreground { key, call: select.call, into, outcome: None });
        loop {
            let any = self.progress_for(&mut foreground);
            let outcome = foreground.as_mut().and_then(|foreground| foreground.outcome.take());
            match outcome {
                Some(Outcome::Received(envelope)) => return Ok(envelope),
                Some(Outcome::TooLong { bytes }) => {
                    let room = foreground.expect("set above").into.len() as u64;
                    return Err(Error::Truncated { got: bytes, room });
                }
                Some(Outcome::Differs { source, call }) => return Err(self.differs(select.call, call, source)),
                Some(Outcome::Offered(envelope, offer)) => {
                    return self.recv_offered(envelope, offer, foreground.expect("set above").into);
                }
                None if any => {
                    patience.stir();
                    // A task may have waited for something; what came then must not be overtaken.
                    if std::mem::take(&mut self.came_past) && self.core.waiting.find(key).is_some() {
                        return self.recv_waiting(select, foreground.expect("set above").into);
                    }
                    self.fail_given_up(key)?;
                }
                None => {
                    self.refuse_self_wait(key)?;
                    self.core.differing.awaits(key, select.call);
                    self.pause(&mut patience, Waiting::Op(What::Receive, key));
                    let lost = self.hopeless(key);
                    if lost.is_some() {
                        // What it sent before it left counts.
                        while self.progress() {}
                    }
                    // While looking for losses, messages may have come past this receive.
                    if self.core.waiting.find(key).is_some() {
                        return self.recv_waiting(select, foreground.expect("set above").into);
                    }
                    self.fail_given_up(key)?;
                    self.fail_differing(key.context, key.tag, select.call)?;
                    if let Some(lost) = lost {
                        return Err(Error::PeerLost { rank: lost as usize });
                    }
                }
            }
        }
    }

    fn fail_given_up(&self, key: Key) -> Result<()> {
        self.core.given_up.will_not_come(key).map_or(Ok(()), Err)
    }

    /// Receives a message that is already there.
    #[cold]
    fn recv_waiting(&mut self, select: Select, into: &mut [u8]) -> Result<Envelope> {
        let id = self.core.waiting.find(select.key()).expect("the caller has seen it");
        let message = self.core.waiting.get(id);
        let (got, room) = (message.bytes(), into.len() as u64);
        if message.call != select.call {
            return Err(self.differs(select.call, message.call, message.key.source));
        }
        if got > room {
            return Err(Error::Truncated { got, room });
        }
        let message = self.core.waiting.take(id);
        self.tell_held();
        self.recv_found(Found(message), into).map_err(|refused| self.put_refused_back(refused))
    }

    fn differs(&self, expected: Call, call: Call, source: u32) -> Error {
        expected.differs(self.core.rank, call, source)
    }

    fn put_refused_back(&mut self, (error, found): (Error, Option<Found>)) -> Error {
        if let Some(found) = found {
            self.put_back(found);
        }
        error
    }

    /// Receives a message that a probe has taken. If it does not fit, or this is not the rank's own code, it comes back.
    pub fn recv_found(
        &mut self,
        found: Found,
        into: &mut [u8],
    ) -> std::result::Result<Envelope, (Error, Option<Found>)> {
        let envelope = found.envelope();
        let room = into.len() as u64;
        if envelope.bytes > room {
            return Err((Error::Truncated { got: envelope.bytes, room }, Some(found)));
        }
        if !self.fabric.is_here() {
            return Err((Error::PeerLost { rank: envelope.source as usize }, Some(found)));
        }
        match found.0.what {
            Arrived::Eager { data, answer } => {
                into[..data.len()].copy_from_slice(&data);
                self.core.received(envelope.source, data.len(), answer);
                self.core.use_again(data);
                self.act();
                Ok(envelope)
            }
            Arrived::Offered(offer) => self.recv_offered(envelope, offer, into).map_err(|error| (error, None)),
        }
    }

    /// Receives a message that a probe has taken into memory made for it.
    pub fn recv_found_fresh(&mut self, found: Found, align: usize) -> Result<(Envelope, Bytes)> {
        let envelope = found.envelope();
        let mut bytes = Bytes::zeroed(envelope.bytes as usize, align);
        self.recv_found(found, bytes.as_mut_slice()).map_err(|refused| self.put_refused_back(refused))?;
        Ok((envelope, bytes))
    }

    #[cold]
    fn recv_offered(&mut self, envelope: Envelope, offer: Offer, into: &mut [u8]) -> Result<Envelope> {
        let this = RefCell::new(self);
        lending(
            |lending, _| {
                let mut this = this.borrow_mut();
                let span = lending.lend_mut(&mut into[..offer.bytes as usize]);
                let id = this.start_moving(envelope, offer, Target::Into(span));
                this.wait(id).map(|completion| completion.envelope)
            },
            |panicked| this.borrow_mut().settle(panicked),
        )
    }

    fn new_receive(&mut self, key: Key, call: Call, target: Target) -> Id {
        let op = Op::receive(key, call, State::Queued, target);
        let op = self.owned(op);
        self.core.ops.insert(op)
    }

    fn start_moving(&mut self, envelope: Envelope, offer: Offer, target: Target) -> Id {
        let key = Key { context: 0, source: envelope.source, tag: envelope.tag };
        let id = self.new_receive(key, envelope.call, target);
        self.core.begin_move(id, key, envelope.call, offer);
        self.act();
        id
    }

    /// Receives a short message that is already there, if all older receives have theirs. Such a receive needs no
    /// operation, which makes a third of its price. Looks no further than at what somebody waits for: a message that
    /// nobody has asked for yet is better left where it is than kept as a copy.
    #[inline]
    pub fn recv_now(&mut self, select: Select, into: &mut [u8]) -> Option<Envelope> {
        if self.looking.begin() {
            self.progress();
        }
        if !self.looking.now() || !self.core.waiting.is_empty() || !self.tasks.is_empty() {
            return None;
        }
        let mut got = None;
        if self.core.posted.is_empty() || self.serve_older() {
            let wanted = select.key();
            self.fabric.poll_if(&mut |from, head, body| {
                let (key, call) = (head.key(from), head.call(head.slot));
                let is_asked_for = head.what() == kind::EAGER && wanted.takes(key) && call == select.call;
                let taken = is_asked_for && body.len() <= into.len();
                if taken {
                    copy_short(&mut into[..body.len()], body);
                    got = Some(Envelope { source: from, tag: key.tag, bytes: body.len() as u64, call });
                }
                taken
            });
        }
        let Some(envelope) = got else {
            self.looking.found_nothing();
            return None;
        };
        self.core.received(envelope.source, envelope.bytes as usize, Answer::Nobody);
        if !self.core.actions.is_empty() {
            self.act();
        }
        got
    }

    /// Gives posted receives short messages that are there. Returns whether none is left without.
    fn serve_older(&mut self) -> bool {
        for _ in 0..BATCH {
            let core = &mut self.core;
            let served = self.fabric.poll_if(&mut |from, head, body| {
                let call = head.call(head.slot);
                let taken = head.what() == kind::EAGER && core.eager_posted(head.key(from), call, body);
                if taken {
                    core.received(from, body.len(), Answer::Nobody);
                }
                taken
            });
            if !self.core.actions.is_empty() {
                self.act();
            }
            if !served || self.core.posted.is_empty() {
                return served;
            }
        }
        false
    }

    /// Begins to receive.
    pub fn start_recv(&mut self, select: Select, target: Target) -> Id {
        let key = select.key();
        if !self.core.waiting.is_empty()
            && let Some(found) = self.core.waiting.find(key)
        {
            return self.start_recv_found(key, select.call, target, found);
        }
        let Core { ops, posted, .. } = &mut self.core;
        let (in_task, task) = (self.in_task, self.task);
        let id = ops.insert_with(|index| {
            let op = Op::receive(key, select.call, State::Posted(posted.post(key, index)), target);
            if in_task { op.of_task(task) } else { op }
        });
        self.core.fail_if_given_up(id, key);
        self.fail_if_hopeless(id);
        if in_task && !self.fabric.is_here() && self.core.unpost(id) {
            // Nobody waits for this one itself.
            self.core.fail(id, Error::PeerLost { rank: self.lost_astray(key) as usize });
        }
        id
    }

    #[cold]
    fn start_recv_found(&mut self, key: Key, call: Call, target: Target, found: Id) -> Id {
        let id = self.new_receive(key, call, target);
        let message = self.core.waiting.get(found);
        let (got, room) = (message.bytes(), self.core.ops.get(id).expect("just made").room());
        if message.call != call {
            let error = self.differs(call, message.call, message.key.source);
            self.core.fail(id, error);
            return id;
        }
        if got > room {
            self.core.fail(id, Error::Truncated { got, room });
            return id;
        }
        if !self.fabric.is_here() {
            self.core.fail(id, Error::PeerLost { rank: self.lost_astray(key) as usize });
            return id;
        }
        let message = self.core.waiting.take(found);
        self.tell_held();
        match message.what {
            Arrived::Eager { data, answer } => {
                self.core.fill(id, message.key, call, &data);
                self.core.received(message.key.source, data.len(), answer);
                self.core.use_again(data);
            }
            Arrived::Offered(offer) => {
                self.core.begin_move(id, message.key, call, offer);
            }
        }
        self.act();
        id
    }

    /// Looks whether a message is there. An error if none will ever come, so that nobody looks for ever.
    pub fn iprobe(&mut self, select: Select) -> Result<Option<Envelope>> {
        Ok(self.look(select)?.map(|id| envelope(self.core.waiting.get(id))))
    }

    /// Takes a message out of the queue if one is there. An error if none will ever come.
    pub fn improbe(&mut self, select: Select) -> Result<Option<Found>> {
        let found = self.look(select)?.map(|id| Found(self.core.waiting.take(id)));
        self.tell_held();
        Ok(found)
    }

    fn look(&mut self, select: Select) -> Result<Option<Id>> {
        let key = select.key();
        if let Some(id) = self.core.waiting.find(key) {
            return Ok(Some(id));
        }
        self.try_progress();
        if let Some(lost) = self.hopeless(key) {
            while self.progress() {}
            return self.core.waiting.find(key).map(Some).ok_or(Error::PeerLost { rank: lost as usize });
        }
        Ok(self.core.waiting.find(key))
    }

    /// Waits until a message is there.
    pub fn probe(&mut self, select: Select) -> Result<Envelope> {
        let id = self.await_message(select)?;
        Ok(envelope(self.core.waiting.get(id)))
    }

    /// Waits until a message is there and takes it out of the queue.
    pub fn mprobe(&mut self, select: Select) -> Result<Found> {
        let id = self.await_message(select)?;
        let found = Found(self.core.waiting.take(id));
        self.tell_held();
        Ok(found)
    }

    fn await_message(&mut self, select: Select) -> Result<Id> {
        let key = select.key();
        let mut patience = Patience::default();
        loop {
            if let Some(id) = self.core.waiting.find(key) {
                return Ok(id);
            }
            if self.progress() {
                patience.stir();
                continue;
            }
            self.refuse_self_wait(key)?;
            self.pause(&mut patience, Waiting::Op(What::Receive, key));
            if let Some(lost) = self.hopeless(key) {
                while self.progress() {}
                return self.core.waiting.find(key).ok_or(Error::PeerLost { rank: lost as usize });
            }
        }
    }

    /// Looks at all messages of a context and tag that are there whole and wait for a receive: who sent them, and what.
    pub fn look_at_waiting(&self, context: u32, tag: u64, mut look: impl FnMut(u32, &[u8])) {
        let waiting = &self.core.waiting;
        for id in waiting.select(|message| message.key.context == context && message.key.tag == tag) {
            let message = waiting.get(id);
            if let Arrived::Eager { data, .. } = &message.what {
                look(message.key.source, data);
            }
        }
    }

    /// Puts a message that was taken and not received back to its place.
    pub fn put_back(&mut self, found: Found) {
        self.core.put_back(found.0);
        self.act();
    }
}
