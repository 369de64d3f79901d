//! Messages of protocols. Nobody asks for them one by one, so they are not matched with receives: each goes to the run of a
//! protocol that its tag names, whether that has begun here or not.
//!
//! A message is taken when its run is listened to: then a synchronous sender is told, and an announced message begins to
//! move. One that comes earlier waits like any unexpected message.
//!
//! Messages of one source are given out in order. So one whose data still moves holds up those of its source that came later,
//! and no others: these lie in a queue of their source, and go to the queue of those that can be given out when the data is
//! there. Nothing is searched for, however much waits.

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use treepie_base::{BuildNumberHasher, Bytes, Result, Span};

use crate::bins::Key;
use crate::call::Call;
use crate::core::Core;
use crate::effort;
use crate::endpoint::Endpoint;
use crate::engine::{Event, Head};
use crate::kind::{EAGER, EAGER_SYNC};
use crate::matching::{Answer, Arrived};
use crate::op::{Envelope, Heed, Op, State, Target};
use crate::slab::{Id, Slab};

/// Set in the tags of messages of protocols. The library's own contexts are odd.
pub const PROTOCOL: u64 = 1 << 50;

/// So many low bits of a tag are the protocol's own; those above name its run.
pub const OWN_BITS: u32 = 18;

/// Set in the tags of messages by which some ranks alone make a communicator; they belong to no collective operation.
pub const GROUPS: u64 = 1 << 51;

/// The bits of a tag that name a collective operation of a communicator, by its number.
pub const fn run_tag(number: u32) -> u64 {
    (number as u64) << OWN_BITS
}

/// The number of the collective operation that a tag names.
pub(crate) const fn number_of(tag: u64) -> u32 {
    (tag >> OWN_BITS) as u32
}

const _: () = assert!(OWN_BITS + u32::BITS == PROTOCOL.ilog2() && GROUPS.ilog2() + 1 == crate::kind::TAG_BITS);

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
    pub tag: u64,
}

impl Hash for Run {
    /// The low bits of its tag are the same in all runs.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.context);
        state.write_u64(self.tag >> OWN_BITS);
    }
}

impl Run {
    pub(crate) fn of(key: Key) -> Self {
        Self { context: key.context, tag: key.tag >> OWN_BITS << OWN_BITS }
    }
}

/// The runs for which messages have come, or which are listened to.
#[derive(Default)]
pub(crate) struct Heard {
    runs: Vec<Queue>,
    /// Where each run lies.
    places: HashMap<Run, usize, BuildNumberHasher>,
    /// The run that was used last: mostly it is the next one, too.
    last: usize,
    /// Bytes of messages that are there whole.
    held: u64,
}

struct Queue {
    run: Run,
    /// Of memory for messages; nothing before the run is listened to.
    align: Option<usize>,
    /// The task that listens.
    task: Option<u32>,
    /// What came before anybody listened.
    early: VecDeque<(Envelope, Arrived)>,
    /// What can be given out.
    there: VecDeque<Message>,
    /// By source, a message whose data moves and those after it. Queues that have become empty stay.
    behind: HashMap<u32, VecDeque<Message>, BuildNumberHasher>,
    /// How many there are of those.
    held_up: usize,
}

struct Message {
    envelope: Envelope,
    what: What,
}

enum What {
    Whole(Bytes),
    /// It comes into a receive.
    Moving(Id),
}

impl Message {
    /// Bytes of it that are here, and that no operation has.
    fn held(&self) -> u64 {
        match &self.what {
            What::Whole(bytes) => bytes.as_slice().len() as u64,
            What::Moving(_) => 0,
        }
    }

    /// Whether all of it is there, or it failed.
    fn is_there(&self, ops: &Slab<Op>) -> bool {
        match &self.what {
            What::Whole(_) => true,
            What::Moving(id) => ops.get(*id).is_none_or(Op::is_over),
        }
    }
}

impl Queue {
    fn new(run: Run) -> Self {
        let (early, there, behind) = (VecDeque::new(), VecDeque::new(), HashMap::default());
        Self { run, align: None, task: None, early, there, behind, held_up: 0 }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.there.is_empty() && self.held_up == 0 && self.early.is_empty()
    }

    /// Queues a message behind those of its source. Returns whether it can be given out.
    #[inline]
    fn push(&mut self, message: Message) -> bool {
        let is_whole = matches!(message.what, What::Whole(_));
        if is_whole && self.held_up == 0 {
            self.there.push_back(message);
            return true;
        }
        self.push_behind(message, is_whole)
    }

    #[cold]
    fn push_behind(&mut self, message: Message, is_whole: bool) -> bool {
        let behind = self.behind.entry(message.envelope.source).or_default();
        if is_whole && behind.is_empty() {
            self.there.push_back(message);
            return true;
        }
        behind.push_back(message);
        self.held_up += 1;
        false
    }

    /// The data of a message of this source has come: it, and those after it that are there, can be given out. Returns whether
    /// there are any.
    fn moved(&mut self, source: u32, ops: &Slab<Op>) -> bool {
        let Some(behind) = self.behind.get_mut(&source) else { return false };
        let mut any = false;
        while behind.front().is_some_and(|message| message.is_there(ops)) {
            effort::look();
            self.there.extend(behind.pop_front());
            self.held_up -= 1;
            any = true;
        }
        any
    }
}

impl Heard {
    #[inline]
    fn find(&self, run: Run) -> Option<usize> {
        effort::look();
        match self.runs.get(self.last) {
            Some(queue) if queue.run == run => Some(self.last),
            _ => self.places.get(&run).copied(),
        }
    }

    #[inline]
    fn find_mut(&mut self, run: Run) -> Option<&mut Queue> {
        self.last = self.find(run)?;
        Some(&mut self.runs[self.last])
    }

    fn find_or_begin(&mut self, run: Run) -> &mut Queue {
        self.last = self.find(run).unwrap_or_else(|| {
            self.places.insert(run, self.runs.len());
            self.runs.push(Queue::new(run));
            self.runs.len() - 1
        });
        &mut self.runs[self.last]
    }

    fn remove(&mut self, run: Run) -> Option<Queue> {
        let place = self.find(run)?;
        let queue = self.runs.swap_remove(place);
        self.places.remove(&run);
        if let Some(moved) = self.runs.get(place) {
            self.places.insert(moved.run, place);
        }
        Some(queue)
    }

    /// Bytes of messages that are there whole.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Whether messages have come for a run, or it is listened to.
    pub(crate) fn has(&self, run: Run) -> bool {
        self.places.contains_key(&run)
    }

    /// The task that listens to a run.
    pub(crate) fn task_of(&self, run: Run) -> Option<u32> {
        self.find(run).and_then(|place| self.runs[place].task)
    }

    /// Whether messages of a run have come, and nobody listens.
    pub(crate) fn is_unheard(&self, run: Run) -> bool {
        self.find(run).is_some_and(|place| self.runs[place].align.is_none())
    }

    /// The runs that are listened to.
    pub(crate) fn listened(&self) -> impl Iterator<Item = Run> {
        self.runs.iter().filter(|queue| queue.align.is_some()).map(|queue| queue.run)
    }

    /// The first message of each of those that are not: the run, who sent it, and what it belongs to.
    pub(crate) fn unheard(&self) -> impl Iterator<Item = (Run, u32, Call)> {
        let unheard = self.runs.iter().inspect(|_| effort::look()).filter(|queue| queue.align.is_none());
        unheard.filter_map(|queue| {
            let (envelope, _) = queue.early.front()?;
            Some((queue.run, envelope.source, envelope.call))
        })
    }

    /// How many runs there are.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
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
            for (envelope, arrived) in std::mem::take(&mut queue.early) {
                if which(envelope.source, &arrived) {
                    self.held -= arrived.held();
                    taken.push((envelope.source, arrived));
                } else {
                    queue.early.push_back((envelope, arrived));
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
        matches!(head.what(), EAGER | EAGER_SYNC)
            && head.context == run.context
            && head.whole_tag() >> OWN_BITS == run.tag >> OWN_BITS
            && self.heard.find(run).is_some_and(|place| self.heard.runs[place].is_empty())
    }

    /// A message of a protocol has come, whole.
    pub(crate) fn hear_whole(&mut self, key: Key, call: Call, body: &[u8], answer: Answer) {
        let listening = self.heard.find_mut(Run::of(key));
        let Some((queue, align)) = listening.and_then(|queue| queue.align.map(|align| (queue, align))) else {
            let data = self.copy_to_keep(body);
            return self.hear_early(key, call, Arrived::Eager { data, answer });
        };
        let envelope = Envelope { source: key.source, tag: key.tag, bytes: body.len() as u64, call };
        let is_there = queue.push(Message { envelope, what: What::Whole(Bytes::copy_of(body, align)) });
        if is_there && let Some(task) = queue.task {
            self.due.mark(task);
        }
        self.heard.held += body.len() as u64;
        self.received(key.source, body.len(), answer);
    }

    /// A message of a protocol has come, whole or as its announcement, and is put behind those before it.
    pub(crate) fn hear_early(&mut self, key: Key, call: Call, arrived: Arrived) {
        if let Some(why) = self.unwanted(key) {
            return self.refuse(key.source, &arrived, why);
        }
        let run = Run::of(key);
        let envelope = Envelope { source: key.source, tag: key.tag, bytes: arrived.bytes(), call };
        let queue = self.heard.find_or_begin(run);
        let Some(align) = queue.align else {
            let held = arrived.held();
            queue.early.push_back((envelope, arrived));
            self.heard.held += held;
            return;
        };
        self.hear_now(run, envelope, arrived, align);
    }

    /// Takes a message whose run is listened to.
    fn hear_now(&mut self, run: Run, envelope: Envelope, arrived: Arrived, align: usize) {
        let message = Message { envelope, what: self.take_heard(run, envelope, arrived, align) };
        self.heard.held += message.held();
        let queue = self.heard.find_or_begin(run);
        if queue.push(message)
            && let Some(task) = queue.task
        {
            self.due.mark(task);
        }
    }

    fn take_heard(&mut self, run: Run, envelope: Envelope, arrived: Arrived, align: usize) -> What {
        match arrived {
            Arrived::Eager { data, answer } => {
                self.received(envelope.source, data.len(), answer);
                let whole = Bytes::copy_of(&data, align);
                self.use_again(data);
                What::Whole(whole)
            }
            Arrived::Offered(offer) => {
                let key = Key { context: run.context, source: envelope.source, tag: envelope.tag };
                let op = Op::receive(key, envelope.call, State::Queued, Target::Fresh { align });
                let id = self.ops.insert(Op { heed: Heed::Run, ..op.of_task(None) });
                self.begin_move(id, key, envelope.call, offer);
                What::Moving(id)
            }
        }
    }

    /// The data of a message of this run and source has come, or will not.
    pub(crate) fn moved(&mut self, run: Run, source: u32) {
        let Core { heard, ops, due, .. } = self;
        let Some(queue) = heard.find_mut(run) else { return };
        if queue.moved(source, ops)
            && let Some(task) = queue.task
        {
            due.mark(task);
        }
    }
}

impl Endpoint {
    /// Begins to listen to a run: what has come for it is taken, and what comes is. Memory is aligned like this.
    pub fn listen(&mut self, run: Run, align: usize) {
        let task = self.task;
        let queue = self.core.heard.find_or_begin(run);
        (queue.align, queue.task) = (Some(align), task);
        for (envelope, arrived) in std::mem::take(&mut queue.early) {
            self.core.heard.held -= arrived.held();
            self.core.hear_now(run, envelope, arrived, align);
        }
        self.act();
    }

    /// The next message of a run that is there. Those of one rank come in order.
    pub fn heard(&mut self, run: Run) -> Option<Result<(Envelope, Bytes)>> {
        let message = self.core.heard.find_mut(run)?.there.pop_front()?;
        self.core.heard.held -= message.held();
        self.tell_held();
        let Message { envelope, what } = message;
        match what {
            What::Whole(bytes) => Some(Ok((envelope, bytes))),
            What::Moving(id) => {
                let completion = self.core.take_result(id).expect("it is over");
                let bytes = |span: Option<Span>| span.and_then(Span::into_bytes).expect("memory was made for it");
                Some(completion.map(|completion| (envelope, bytes(completion.span))))
            }
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
        let mut is_all = false;
        for _ in 0..most {
            let Some(event) = self.fabric.poll() else {
                is_all = true;
                break;
            };
            any = true;
            match event {
                Event::Record { from, head, body } if self.core.is_heard_in_place(run, head) => {
                    let (answer, call) = match head.what() {
                        EAGER => (Answer::Nobody, head.call(head.slot)),
                        _ => (Answer::Peer(head.slot), head.call(0)),
                    };
                    take(Envelope { source: from, tag: head.whole_tag(), bytes: body.len() as u64, call }, body);
                    self.core.received(from, body.len(), answer);
                }
                event => Self::handle(&mut self.core, event, None),
            }
            if !self.core.actions.is_empty() {
                self.act();
            }
        }
        self.end_progress(is_all);
        any
    }

    /// Whether a run has messages that have come, also in part, and were not given out.
    pub fn hears_more(&self, run: Run) -> bool {
        self.core.heard.find(run).is_some_and(|place| !self.core.heard.runs[place].is_empty())
    }

    /// Ends listening to a run. What has come for it is thrown away.
    pub fn stop_listening(&mut self, run: Run) {
        let Some(queue) = self.core.heard.remove(run) else { return };
        for message in queue.there.into_iter().chain(queue.behind.into_values().flatten()) {
            self.core.heard.held -= message.held();
            if let What::Moving(id) = message.what {
                self.abandon(id);
            }
        }
        for (envelope, arrived) in queue.early {
            self.core.heard.held -= arrived.held();
            let key = Key { context: run.context, source: envelope.source, tag: envelope.tag };
            let why = self.core.given_up.unwanted(key).unwrap_or_default();
            self.core.refuse(envelope.source, &arrived, why);
        }
        self.tell_held();
        self.act();
    }
}
