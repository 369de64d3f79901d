//! Messages of protocols. Nobody asks for them one by one, so they are not matched with receives: each goes to the run of a
//! protocol that its tag names, whether that has begun here or not.
//!
//! A message is taken when its run is listened to: then a synchronous sender is told, and an announced message begins to
//! move. One that comes earlier waits like any unexpected message.

use std::collections::VecDeque;

use treepie_base::{Bytes, Result, Span};

use crate::bins::Key;
use crate::core::Core;
use crate::endpoint::Endpoint;
use crate::engine::{Event, Head};
use crate::kind::{EAGER, EAGER_SYNC};
use crate::matching::{Answer, Arrived};
use crate::op::{Envelope, Op, State, Target};
use crate::slab::Id;

/// Set in the tags of messages of protocols. The library's own contexts are odd; a program's tags may have any bits.
pub const PROTOCOL: u32 = 1 << 30;

/// So many low bits of a tag are the protocol's own; those above name its run.
pub const OWN_BITS: u32 = 18;

#[inline]
pub(crate) fn is_of_protocol(key: Key) -> bool {
    key.tag & PROTOCOL != 0 && key.context & 1 == 1
}

/// One execution of a protocol, on all ranks of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The communicator.
    pub context: u32,
    /// The tag of its messages without the protocol's own bits.
    pub tag: u32,
}

impl Run {
    fn of(key: Key) -> Self {
        Self { context: key.context, tag: key.tag >> OWN_BITS << OWN_BITS }
    }
}

/// The runs for which messages have come, or which are listened to.
#[derive(Default)]
pub(crate) struct Heard {
    /// Few at a time, and the latest is the one that messages come for.
    runs: Vec<Queue>,
    /// Bytes of messages that are there whole.
    held: u64,
}

struct Queue {
    run: Run,
    /// Of memory for messages; nothing before the run is listened to.
    align: Option<usize>,
    messages: VecDeque<Message>,
}

struct Message {
    envelope: Envelope,
    what: What,
}

enum What {
    Whole(Bytes),
    /// It comes into a receive.
    Moving(Id),
    /// It waits for somebody to listen.
    Early(Arrived),
}

impl What {
    /// Bytes of it that are here, and that no operation has.
    fn held(&self) -> u64 {
        match self {
            What::Whole(bytes) => bytes.as_slice().len() as u64,
            What::Moving(_) => 0,
            What::Early(arrived) => arrived.held(),
        }
    }
}

impl Heard {
    fn find(&self, run: Run) -> Option<usize> {
        self.runs.iter().rposition(|queue| queue.run == run)
    }

    fn find_or_begin(&mut self, run: Run) -> usize {
        self.find(run).unwrap_or_else(|| {
            self.runs.push(Queue { run, align: None, messages: VecDeque::new() });
            self.runs.len() - 1
        })
    }

    /// Bytes of messages that are there whole.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Whether anybody listens.
    pub(crate) fn listens(&self) -> bool {
        self.runs.iter().any(|queue| queue.align.is_some())
    }

    /// Nobody listens any more.
    pub(crate) fn close(&mut self) {
        self.runs.iter_mut().for_each(|queue| queue.align = None);
    }

    /// Takes out what waits for somebody to listen, if `which` picks it: who sent it, and what there is of it.
    pub(crate) fn take_early(&mut self, which: impl Fn(u32, &Arrived) -> bool) -> Vec<(u32, Arrived)> {
        let mut taken = Vec::new();
        for queue in &mut self.runs {
            let picked = |message: &Message| match &message.what {
                What::Early(arrived) => which(message.envelope.source, arrived),
                _ => false,
            };
            for message in std::mem::take(&mut queue.messages) {
                if picked(&message)
                    && let What::Early(arrived) = message.what
                {
                    self.held -= arrived.held();
                    taken.push((message.envelope.source, arrived));
                } else {
                    queue.messages.push_back(message);
                }
            }
        }
        taken
    }
}

impl Core {
    /// Whether a record is a whole message of a run of which no earlier one waits. No receive asks for such messages.
    #[inline]
    fn is_heard_in_place(&self, run: Run, head: Head) -> bool {
        matches!(head.kind, EAGER | EAGER_SYNC)
            && head.context == run.context
            && head.tag >> OWN_BITS == run.tag >> OWN_BITS
            && self.heard.find(run).is_some_and(|place| self.heard.runs[place].messages.is_empty())
    }

    /// A message of a protocol has come, whole.
    pub(crate) fn hear_whole(&mut self, key: Key, body: &[u8], answer: Answer) {
        let listening = self.heard.find(Run::of(key)).map(|place| &mut self.heard.runs[place]);
        let Some((queue, align)) = listening.and_then(|queue| queue.align.map(|align| (queue, align))) else {
            let data = self.copy_to_keep(body);
            return self.hear_early(key, Arrived::Eager { data, answer });
        };
        let envelope = Envelope { source: key.source, tag: key.tag, bytes: body.len() as u64 };
        queue.messages.push_back(Message { envelope, what: What::Whole(Bytes::copy_of(body, align)) });
        self.heard.held += body.len() as u64;
        self.received(key.source, body.len(), answer);
    }

    /// A message of a protocol has come, whole or as its announcement, and is put behind those before it.
    pub(crate) fn hear_early(&mut self, key: Key, arrived: Arrived) {
        if self.leaving || self.given_up.is_unwanted(key) {
            self.refuse(key.source, &arrived);
            return;
        }
        let bytes = arrived.bytes();
        let place = self.heard.find_or_begin(Run::of(key));
        let envelope = Envelope { source: key.source, tag: key.tag, bytes };
        let what = match self.heard.runs[place].align {
            Some(align) => self.take_heard(envelope, arrived, align),
            None => What::Early(arrived),
        };
        self.heard.held += what.held();
        self.heard.runs[place].messages.push_back(Message { envelope, what });
    }

    /// Takes a message whose run is listened to.
    fn take_heard(&mut self, envelope: Envelope, arrived: Arrived, align: usize) -> What {
        match arrived {
            Arrived::Eager { data, answer } => {
                self.received(envelope.source, data.len(), answer);
                let whole = Bytes::copy_of(&data, align);
                self.use_again(data);
                What::Whole(whole)
            }
            Arrived::Offered(offer) => {
                let key = Key { context: 0, source: envelope.source, tag: envelope.tag };
                let op = Op::receive(key, State::Queued, Target::Fresh { align });
                let id = self.ops.insert(op.of_task());
                self.begin_move(id, key, offer);
                What::Moving(id)
            }
        }
    }
}

impl Endpoint {
    /// Begins to listen to a run: what has come for it is taken, and what comes is. Memory is aligned like this.
    pub fn listen(&mut self, run: Run, align: usize) {
        let place = self.core.heard.find_or_begin(run);
        self.core.heard.runs[place].align = Some(align);
        for mut message in std::mem::take(&mut self.core.heard.runs[place].messages) {
            if let What::Early(arrived) = message.what {
                message.what = self.core.take_heard(message.envelope, arrived, align);
            }
            self.core.heard.runs[place].messages.push_back(message);
        }
        self.act();
    }

    /// The next message of a run that is there. Those of one rank come in order.
    pub fn heard(&mut self, run: Run) -> Option<Result<(Envelope, Bytes)>> {
        let Core { heard, ops, .. } = &mut self.core;
        let place = heard.find(run)?;
        let messages = &mut heard.runs[place].messages;
        let is_there = |message: &Message| match &message.what {
            What::Whole(_) => true,
            What::Moving(id) => ops.get(*id).is_none_or(Op::is_over),
            What::Early(_) => false,
        };
        let is_first = |place: usize| {
            let source = messages[place].envelope.source;
            !messages.iter().take(place).any(|earlier| earlier.envelope.source == source)
        };
        let place = (0..messages.len()).find(|place| is_there(&messages[*place]) && is_first(*place))?;
        let Message { envelope, what } = messages.remove(place)?;
        heard.held -= what.held();
        self.tell_held();
        match what {
            What::Whole(bytes) => Some(Ok((envelope, bytes))),
            What::Moving(id) => {
                let completion = self.core.take_result(id).expect("it is over");
                let bytes = |span: Option<Span>| span.and_then(Span::into_bytes).expect("memory was made for it");
                Some(completion.map(|completion| (envelope, bytes(completion.span))))
            }
            What::Early(_) => unreachable!("a run that is listened to has none"),
        }
    }

    /// Handles what has come, at most so many records. Messages of a run that come whole are shown where they lie, without a
    /// copy; those that must not overtake others are queued. Returns whether anything has come.
    ///
    /// What is shown must be done with the engine's memory before anything can be sent, so whoever takes it only notes what it
    /// wants to send.
    #[inline]
    pub fn hear_in_place(&mut self, run: Run, most: usize, mut take: impl FnMut(Envelope, &[u8])) -> bool {
        let mut any = self.begin_progress();
        for _ in 0..most {
            let Some(event) = self.fabric.poll() else { break };
            any = true;
            match event {
                Event::Record { from, head, body } if self.core.is_heard_in_place(run, head) => {
                    take(Envelope { source: from, tag: head.tag, bytes: body.len() as u64 }, body);
                    let answer = if head.kind == EAGER { Answer::Nobody } else { Answer::Peer(head.slot) };
                    self.core.received(from, body.len(), answer);
                }
                event => Self::handle(&mut self.core, event, None),
            }
            if !self.core.actions.is_empty() {
                self.act();
            }
        }
        self.end_progress(any);
        any
    }

    /// Whether a run has messages that have come, also in part, and were not given out.
    pub fn hears_more(&self, run: Run) -> bool {
        self.core.heard.find(run).is_some_and(|place| !self.core.heard.runs[place].messages.is_empty())
    }

    /// Ends listening to a run. What has come for it is thrown away.
    pub fn stop_listening(&mut self, run: Run) {
        let Some(place) = self.core.heard.find(run) else { return };
        for message in self.core.heard.runs.swap_remove(place).messages {
            self.core.heard.held -= message.what.held();
            match message.what {
                What::Whole(_) => {}
                What::Moving(id) => self.abandon(id),
                What::Early(arrived) => self.core.refuse(message.envelope.source, &arrived),
            }
        }
        self.tell_held();
        self.act();
    }
}
