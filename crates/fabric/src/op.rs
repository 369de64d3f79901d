//! An operation in flight, from its start until its request has taken the result.

use treepie_base::{Error, Span};

use crate::bins::{ANY, Key};
use crate::slab::Id;

/// Who sent a message, what it is called and how long it is. The source is a rank of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Envelope {
    /// Rank of the world that sent it.
    pub source: u32,
    /// Its tag.
    pub tag: u32,
    /// Its length.
    pub bytes: u64,
}

/// Which messages a receive or probe takes. The source is a rank of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Select {
    /// The communicator.
    pub context: u32,
    /// Only this rank's, or anybody's.
    pub source: Option<u32>,
    /// Only this tag, or any.
    pub tag: Option<u32>,
}

impl Select {
    pub(crate) fn key(self) -> Key {
        Key { context: self.context, source: self.source.unwrap_or(ANY), tag: self.tag.unwrap_or(ANY) }
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
    pub tag: u32,
    /// Whether the send is done only when its receive has begun.
    pub synchronous: bool,
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
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Send(Address),
    Receive(Key),
    Gather,
    Task(&'static str),
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
}

#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) what: What,
    pub(crate) state: State,
    pub(crate) span: Option<Span>,
    /// Alignment of the memory to be made, for a receive without memory of its own.
    pub(crate) fresh: Option<usize>,
    /// False once its request was dropped: it removes itself when it ends.
    pub(crate) wanted: bool,
}

impl Op {
    pub(crate) fn new(what: What, state: State, span: Option<Span>) -> Self {
        Self { what, state, span, fresh: None, wanted: true }
    }

    #[inline]
    pub(crate) fn receive(key: Key, state: State, target: Target) -> Self {
        let (span, fresh) = match target {
            Target::Into(span) => (Some(span), None),
            Target::Fresh { align } => (None, Some(align)),
        };
        Self { what: What::Receive(key), state, span, fresh, wanted: true }
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Done(_) | State::Failed(_))
    }

    /// Bytes that a received message may have.
    pub(crate) fn room(&self) -> u64 {
        match (&self.span, self.fresh) {
            (_, Some(_)) => u64::MAX,
            (Some(span), None) => span.len() as u64,
            (None, None) => 0,
        }
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Send(a) => {
                let call = if a.synchronous { "ssend" } else { "send" };
                write!(f, "{call} to rank {}, tag {}, context {}", a.to, a.tag, a.context)
            }
            What::Receive(key) => {
                match key.source {
                    ANY => write!(f, "recv from any rank")?,
                    source => write!(f, "recv from rank {source}")?,
                }
                match key.tag {
                    ANY => write!(f, ", any tag")?,
                    tag => write!(f, ", tag {tag}")?,
                }
                write!(f, ", context {}", key.context)
            }
            What::Gather => write!(f, "barrier"),
            What::Task(name) => write!(f, "{name}"),
        }
    }
}
