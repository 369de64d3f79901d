//! A pending operation, from its start until the caller has taken its result.

use treepie_base::{BorrowScopeId, Bytes, Error, Result, Span};

use crate::bins::{ANY_SOURCE, ANY_TAG, MatchKey};
use crate::call_signature::CallSignature;
use crate::slab::OpId;

/// The envelope of a message: source, tag and length. The source is a rank of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Envelope {
    /// The sender, as a rank of the world.
    pub source: u32,
    /// Its tag.
    pub tag: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The call that it belongs to.
    pub call: CallSignature,
}

/// Which messages a receive or probe matches. The source is a rank of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Select {
    /// The context of the communicator.
    pub context: u32,
    /// The source; none for any source.
    pub source: Option<u32>,
    /// The tag; none for any tag.
    pub tag: Option<u64>,
    /// The call that the message must belong to. A matching message of another call is an error.
    pub call: CallSignature,
}

impl Select {
    pub(crate) fn key(self) -> MatchKey {
        MatchKey { context: self.context, source: self.source.unwrap_or(ANY_SOURCE), tag: self.tag.unwrap_or(ANY_TAG) }
    }
}

/// The destination of a message, as a rank of the world, and its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The context of the communicator.
    pub context: u32,
    /// The receiver.
    pub to: u32,
    /// The tag.
    pub tag: u64,
    /// Whether the send completes only when a matching receive has started.
    pub synchronous: bool,
    /// The call that the message belongs to.
    pub call: CallSignature,
}

/// The receive buffer.
#[derive(Debug)]
pub enum RecvTarget {
    /// Memory of a given size; a longer message is an error.
    Into(Span),
    /// Memory allocated when the message is matched.
    Allocate {
        /// Alignment of the element.
        align: usize,
    },
}

/// A started send.
#[derive(Debug)]
pub enum Started {
    /// It has completed; its memory.
    Done(Span),
    /// It is pending under this id.
    Pending(OpId),
}

/// The result of a completed operation.
#[derive(Debug)]
pub struct Completion {
    /// The envelope of the received message; zeros for a send.
    pub envelope: Envelope,
    /// The operation's memory.
    pub span: Option<Span>,
}

/// The kind of an operation, for reports of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    Send,
    SynchronousSend,
    Receive,
    Barrier,
    Task,
}

#[derive(Debug)]
pub(crate) enum OpState {
    /// A posted receive; its position in posting order.
    Posted(u64),
    /// A send in the send queue.
    Queued,
    /// A receive whose rendezvous transfer is in progress.
    Transferring(Box<RendezvousTransfer>),
    /// A send that waits for an acknowledgement; its id among those.
    AwaitingAck(OpId),
    /// A send that streams its data in records.
    Streaming,
    /// Another operation in progress.
    Running,
    /// A task; its id among those.
    Task(OpId),
    Done(Envelope),
    Failed(Box<Error>),
}

/// A rendezvous transfer into a receive.
#[derive(Debug)]
pub(crate) struct RendezvousTransfer {
    pub(crate) envelope: Envelope,
    /// The sender's slot.
    pub(crate) slot: u32,
    /// Bytes that have arrived in data records.
    pub(crate) got: usize,
    /// Whether the transfer has started, and is not deferred.
    pub(crate) started: bool,
}

#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) state: OpState,
    pub(crate) span: Option<Span>,
    /// The scope that its memory is borrowed in, if any; also while the engine owns the span.
    pub(crate) scope: Option<BorrowScopeId>,
    /// The match key of a receive; for a send, its address with the receiver as source.
    pub(crate) key: MatchKey,
    /// The call that its message belongs to.
    pub(crate) call: CallSignature,
    pub(crate) kind: OpKind,
    /// For a receive that allocates its memory, the logarithm of the alignment plus one; 0 for others.
    pub(crate) log_align: u8,
    /// What its completion notifies.
    pub(crate) on_completion: OnCompletion,
}

/// What the completion of an operation notifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCompletion {
    /// Nothing; the result stays until the caller takes it.
    Keep,
    /// Nothing; the request was dropped, so the operation removes itself.
    Discard,
    /// A completion queue, with this token.
    Queue { queue: OpId, token: u32 },
    /// The task that started it.
    Task(u32),
    /// The instance of the protocol that the message belongs to.
    Protocol,
}

impl Op {
    /// An operation that is no message.
    pub(crate) fn local(kind: OpKind) -> Self {
        let (key, call) = (MatchKey { context: 0, source: ANY_SOURCE, tag: ANY_TAG }, CallSignature::NONE);
        Self {
            state: OpState::Running,
            span: None,
            scope: None,
            key,
            call,
            kind,
            log_align: 0,
            on_completion: OnCompletion::Keep,
        }
    }

    pub(crate) fn send(address: Address, span: Span) -> Self {
        let Address { context, to, tag, synchronous, call } = address;
        Self {
            state: OpState::Queued,
            scope: span.scope_id(),
            span: Some(span),
            key: MatchKey { context, source: to, tag },
            call,
            kind: if synchronous { OpKind::SynchronousSend } else { OpKind::Send },
            log_align: 0,
            on_completion: OnCompletion::Keep,
        }
    }

    #[inline]
    pub(crate) fn receive(key: MatchKey, call: CallSignature, state: OpState, target: RecvTarget) -> Self {
        let (span, scope, log_align) = match target {
            RecvTarget::Into(span) => {
                let scope = span.scope_id();
                (Some(span), scope, 0)
            }
            RecvTarget::Allocate { align } => (None, None, align.ilog2() as u8 + 1),
        };
        Self { state, span, scope, key, call, kind: OpKind::Receive, log_align, on_completion: OnCompletion::Keep }
    }

    /// Assigns the operation to a task; `number` is the spawned task that its completion marks as ready.
    #[inline]
    pub(crate) fn owned_by_task(self, number: Option<u32>) -> Self {
        Self { scope: None, on_completion: number.map_or(OnCompletion::Keep, OnCompletion::Task), ..self }
    }

    pub(crate) fn is_send(&self) -> bool {
        matches!(self.kind, OpKind::Send | OpKind::SynchronousSend)
    }

    pub(crate) fn address(&self) -> Address {
        let MatchKey { context, source, tag } = self.key;
        Address { context, to: source, tag, synchronous: self.kind == OpKind::SynchronousSend, call: self.call }
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.state, OpState::Done(_) | OpState::Failed(_))
    }

    /// Its result, if it has completed.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<Result<Envelope>> {
        match &self.state {
            OpState::Done(envelope) => Some(Ok(*envelope)),
            OpState::Failed(error) => Some(Err((**error).clone())),
            _ => None,
        }
    }

    /// Deregisters the send buffer: no peer copies from it any more.
    #[cold]
    pub(crate) fn deregister(&mut self) {
        if let Some(span) = &mut self.span {
            span.deregister();
        }
    }

    /// The longest message that the receive can hold.
    pub(crate) fn capacity(&self) -> u64 {
        match &self.span {
            Some(span) => span.len() as u64,
            None if self.log_align != 0 => u64::MAX,
            None => 0,
        }
    }

    /// Allocates the memory of a receive that has none; false if there is not enough.
    pub(crate) fn allocate(&mut self, bytes: u64) -> bool {
        if self.log_align != 0 {
            let align = 1 << (self.log_align - 1);
            let Some(memory) = usize::try_from(bytes).ok().and_then(|bytes| Bytes::try_zeroed(bytes, align)) else {
                return false;
            };
            (self.span, self.log_align) = (Some(Span::from(memory)), 0);
        }
        true
    }
}

/// What a rank waits for, for reports.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitReason {
    Op(OpKind, MatchKey),
    For(&'static str),
    /// A collective operation of the host, which any rank may keep waiting.
    HostCollective,
}

impl std::fmt::Display for WaitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, key) = match self {
            WaitReason::For(name) => return write!(f, "{name}"),
            WaitReason::HostCollective => return write!(f, "a collective operation of the MPI library"),
            WaitReason::Op(what, key) => (what, key),
        };
        match what {
            OpKind::Send => write!(f, "send to rank {}", key.source)?,
            OpKind::SynchronousSend => write!(f, "ssend to rank {}", key.source)?,
            OpKind::Receive if key.source == ANY_SOURCE => write!(f, "recv from any rank")?,
            OpKind::Receive => write!(f, "recv from rank {}", key.source)?,
            OpKind::Barrier => return write!(f, "barrier"),
            OpKind::Task => return write!(f, "a collective operation"),
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

    /// Also beyond what 16 bits can hold.
    #[test]
    fn memory_is_allocated_with_any_alignment() {
        for align in [1, 8, 1 << 15, 1 << 16, 1 << 20] {
            let key = MatchKey { context: 0, source: 0, tag: 0 };
            let mut op = Op::receive(key, CallSignature::NONE, OpState::Queued, RecvTarget::Allocate { align });
            assert_eq!(op.capacity(), u64::MAX, "aligned to {align}");
            assert!(!op.allocate(1 << 60) && op.allocate(64));
            let span = op.span.expect("allocated above");
            assert_eq!((span.as_slice().as_ptr().addr() % align, span.len()), (0, 64));
        }
    }
}
