//! An operation in flight, from its start until its request has taken the result.

use treepie_base::{Bytes, Error, Lender, Result, Span};

use crate::bins::{ANY, ANY_TAG, Key};
use crate::call::Call;
use crate::slab::Id;

/// Who sent a message, what it is called and how long it is. The source is a rank of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Envelope {
    /// Rank of the world that sent it.
    pub source: u32,
    /// Its tag.
    pub tag: u64,
    /// Its length.
    pub bytes: u64,
    /// What it belongs to.
    pub call: Call,
}

/// Which messages a receive or probe takes. The source is a rank of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Select {
    /// The communicator.
    pub context: u32,
    /// Only this rank's, or anybody's.
    pub source: Option<u32>,
    /// Only this tag, or any.
    pub tag: Option<u64>,
    /// What the message must belong to. One that does not, and that this would take otherwise, is an error.
    pub call: Call,
}

impl Select {
    pub(crate) fn key(self) -> Key {
        Key { context: self.context, source: self.source.unwrap_or(ANY), tag: self.tag.unwrap_or(ANY_TAG) }
    }
}

/// Where a message is to go. The destination is a rank of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The communicator.
    pub context: u32,
    /// The receiver.
    pub to: u32,
    /// The tag.
    pub tag: u64,
    /// Whether the send is done only when its receive has begun.
    pub synchronous: bool,
    /// What the message belongs to.
    pub call: Call,
}

/// Where a received message is put.
#[derive(Debug)]
pub enum Target {
    /// Into memory of a given size; a longer message is an error.
    Into(Span),
    /// Into memory made for it, aligned like this.
    Fresh {
        /// Alignment of the element.
        align: usize,
    },
}

/// A send that was begun.
#[derive(Debug)]
pub enum Started {
    /// It is over: its memory.
    Done(Span),
    /// It goes on under this number.
    Pending(Id),
}

/// What is left when an operation is done.
#[derive(Debug)]
pub struct Completion {
    /// Of the message that was received; zeros for a send.
    pub envelope: Envelope,
    /// The operation's memory.
    pub span: Option<Span>,
}

/// What an operation does, for those who wait for it and ask why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Send,
    SynchronousSend,
    Receive,
    Gather,
    Task,
}

#[derive(Debug)]
pub(crate) enum State {
    /// A receive without a message; its place in the order of receives.
    Posted(u64),
    /// A send that waits for its turn or for room.
    Queued,
    /// A receive whose message is coming.
    Moving(Box<Moving>),
    /// A send that waits for an answer; its number among those.
    Answering(Id),
    /// A send whose data goes out in records.
    Streaming,
    /// Something else that ends by itself.
    Running,
    /// A task, by its number among those.
    Task(Id),
    Done(Envelope),
    Failed(Box<Error>),
}

/// A message on its way into a receive.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) envelope: Envelope,
    /// The sender's name for it.
    pub(crate) slot: u32,
    /// Bytes that have come as records.
    pub(crate) got: usize,
    /// Whether the engine, or the sender, has been asked for the data.
    pub(crate) begun: bool,
}

#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) state: State,
    pub(crate) span: Option<Span>,
    /// Whose memory it is, if it was lent; also while the engine has it.
    pub(crate) lender: Option<Lender>,
    /// What a receive takes; for a send, the address, with the receiver as source.
    pub(crate) key: Key,
    /// What its message belongs to.
    pub(crate) call: Call,
    pub(crate) what: What,
    /// For a receive without memory of its own, the alignment of what is to be made: one more than its logarithm; 0 for others.
    pub(crate) fresh: u8,
    /// Who is told when it ends.
    pub(crate) heed: Heed,
}

/// Who is told when an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heed {
    /// Nobody; its result is kept until somebody asks.
    Kept,
    /// Nobody ever will ask, as its request was dropped: it removes itself.
    Nobody,
    /// A completion queue gets it, with this token.
    Queue { queue: Id, token: u32 },
    /// The task that has begun it is stepped.
    Task(u32),
    /// It is a message of a protocol, whose run has it.
    Run,
}

impl Op {
    /// Something of this rank that is no message.
    pub(crate) fn other(what: What) -> Self {
        let (key, call) = (Key { context: 0, source: ANY, tag: ANY_TAG }, Call::NONE);
        Self { state: State::Running, span: None, lender: None, key, call, what, fresh: 0, heed: Heed::Kept }
    }

    pub(crate) fn send(address: Address, span: Span) -> Self {
        let Address { context, to, tag, synchronous, call } = address;
        Self {
            state: State::Queued,
            lender: span.lender(),
            span: Some(span),
            key: Key { context, source: to, tag },
            call,
            what: if synchronous { What::SynchronousSend } else { What::Send },
            fresh: 0,
            heed: Heed::Kept,
        }
    }

    #[inline]
    pub(crate) fn receive(key: Key, call: Call, state: State, target: Target) -> Self {
        let (span, lender, fresh) = match target {
            Target::Into(span) => {
                let lender = span.lender();
                (Some(span), lender, 0)
            }
            Target::Fresh { align } => (None, None, align.ilog2() as u8 + 1),
        };
        Self { state, span, lender, key, call, what: What::Receive, fresh, heed: Heed::Kept }
    }

    /// The same as a task's own matter; `number` is that of a task which is stepped when this ends.
    #[inline]
    pub(crate) fn of_task(self, number: Option<u32>) -> Self {
        Self { lender: None, heed: number.map_or(Heed::Kept, Heed::Task), ..self }
    }

    pub(crate) fn is_send(&self) -> bool {
        matches!(self.what, What::Send | What::SynchronousSend)
    }

    pub(crate) fn address(&self) -> Address {
        let Key { context, source, tag } = self.key;
        Address { context, to: source, tag, synchronous: self.what == What::SynchronousSend, call: self.call }
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Done(_) | State::Failed(_))
    }

    /// How it ended, if it has.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<Result<Envelope>> {
        match &self.state {
            State::Done(envelope) => Some(Ok(*envelope)),
            State::Failed(error) => Some(Err((**error).clone())),
            _ => None,
        }
    }

    /// From now on no peer copies from the memory of a send.
    #[cold]
    pub(crate) fn deregister(&mut self) {
        if let Some(span) = &mut self.span {
            span.deregister();
        }
    }

    /// Bytes that a received message may have.
    pub(crate) fn room(&self) -> u64 {
        match &self.span {
            Some(span) => span.len() as u64,
            None if self.fresh != 0 => u64::MAX,
            None => 0,
        }
    }

    /// The memory that a receive asked to be made for a message.
    pub(crate) fn make_memory(&mut self, bytes: usize) {
        if self.fresh != 0 {
            self.span = Some(Span::from(Bytes::zeroed(bytes, 1 << (self.fresh - 1))));
            self.fresh = 0;
        }
    }
}

/// Something that is waited for, in words.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    Op(What, Key),
    For(&'static str),
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, key) = match self {
            Waiting::For(name) => return write!(f, "{name}"),
            Waiting::Op(what, key) => (what, key),
        };
        match what {
            What::Send => write!(f, "send to rank {}", key.source)?,
            What::SynchronousSend => write!(f, "ssend to rank {}", key.source)?,
            What::Receive if key.source == ANY => write!(f, "recv from any rank")?,
            What::Receive => write!(f, "recv from rank {}", key.source)?,
            What::Gather => return write!(f, "barrier"),
            What::Task => return write!(f, "a collective operation"),
        }
        match key.tag {
            ANY_TAG => write!(f, ", any tag")?,
            tag => write!(f, ", tag {tag}")?,
        }
        write!(f, ", context {}", key.context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also beyond what 16 bits hold.
    #[test]
    fn memory_is_made_with_any_alignment() {
        for align in [1, 8, 1 << 15, 1 << 16, 1 << 20] {
            let key = Key { context: 0, source: 0, tag: 0 };
            let mut op = Op::receive(key, Call::NONE, State::Queued, Target::Fresh { align });
            assert_eq!(op.room(), u64::MAX, "aligned to {align}");
            op.make_memory(64);
            let span = op.span.expect("it was made");
            assert_eq!((span.as_slice().as_ptr().addr() % align, span.len()), (0, 64));
        }
    }
}
