//! Handlers: closures of the program, wrapped as functions of a whole buffer.
//!
//! There is one dynamic call per buffer, or per chunk if messages are interleaved with the body; the closure is inlined
//! into the loop over the messages. Messages are read in place, in the engine's memory.

use std::borrow::Cow;

use bytemuck::Pod;
use treepie_base::Rank;

use crate::context::Context;
use crate::type_channel::{Frame, split_u32};

/// The handler of one message type.
pub(crate) trait HandleBatch<S> {
    /// Handles a buffer. Returns the number of messages.
    fn run(&mut self, state: &mut S, context: &mut Context<S>, batch: Batch<'_>) -> u64;

    /// Whether it can handle a buffer in chunks.
    fn can_interleave(&self) -> bool {
        false
    }

    /// Prefetches for the first messages of a buffer that is interleaved.
    fn begin_prefetch(&mut self, _: &S, _: Batch<'_>) {}

    /// Handles the next chunk of an interleaved buffer.
    fn interleave(&mut self, _: &mut S, _: &mut Context<S>, _: &mut InterleavedBuffer) {}
}

impl<S, F: FnMut(&mut S, &mut Context<S>, Batch<'_>) -> u64> HandleBatch<S> for F {
    fn run(&mut self, state: &mut S, context: &mut Context<S>, batch: Batch<'_>) -> u64 {
        self(state, context, batch)
    }
}

pub(crate) type Handler<S> = Box<dyn HandleBatch<S>>;

/// A handler of whole buffers.
pub(crate) fn batch_handler<S>(run: impl FnMut(&mut S, &mut Context<S>, Batch<'_>) -> u64 + 'static) -> Handler<S> {
    Box::new(run)
}

/// A buffer of messages of one type, all for this rank.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) body: &'a [u8],
    /// The source of the buffer.
    pub(crate) from: u32,
    /// Each message is preceded by its source; else it is that of the buffer.
    pub(crate) has_origin: bool,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(body: &'a [u8], from: u32, frame: Frame) -> Self {
        Self { body, from, has_origin: frame.has_origin() }
    }

    /// The messages, which have no source.
    #[inline(always)]
    fn messages<M: Pod>(self) -> Cow<'a, [M]> {
        bytemuck::try_cast_slice(self.body).map_or_else(|_| Cow::Owned(self.copied()), Cow::Borrowed)
    }

    /// Copies messages with an alignment above 8 bytes, which engines do not guarantee.
    #[cold]
    #[inline(never)]
    fn copied<M: Pod>(self) -> Vec<M> {
        self.body.chunks_exact(size_of::<M>()).map(bytemuck::pod_read_unaligned).collect()
    }

    /// Messages of `size` bytes with their sources.
    pub(crate) fn iter_with_source(self, size: usize) -> impl Iterator<Item = (Rank, &'a [u8])> {
        let header_len = if self.has_origin { 4 } else { 0 };
        self.body.chunks_exact(header_len + size).map(move |frame| match split_u32(frame) {
            Some((origin, message)) if self.has_origin => (origin as Rank, message),
            _ => (self.from as Rank, frame),
        })
    }
}

/// A buffer that is handled between items of the body.
pub(crate) struct InterleavedBuffer {
    /// Its message type.
    pub(crate) index: usize,
    /// Its source.
    pub(crate) from: u32,
    /// Each message is preceded by its source.
    pub(crate) has_origin: bool,
    pub(crate) storage: Vec<u8>,
    /// Bytes already handled.
    pub(crate) handled: usize,
}

/// The handlers of all message types, by index.
pub(crate) struct Handlers<S> {
    handlers: Vec<Handler<S>>,
    rank: Rank,
    /// The names of the message types.
    pub(crate) names: Vec<String>,
}

impl<S> Handlers<S> {
    pub(crate) fn new(handlers: Vec<Handler<S>>, context: &Context<S>) -> Self {
        let names = context.sends.channels.iter().map(|channel| channel.statistics.name.clone()).collect();
        Self { handlers, rank: context.rank(), names }
    }

    pub(crate) fn len(&self) -> usize {
        self.handlers.len()
    }

    /// Calls a handler. If it panics, prints which one it was.
    #[inline(always)]
    pub(crate) fn call<R>(&mut self, index: usize, call: impl FnOnce(&mut dyn HandleBatch<S>) -> R) -> R {
        let reporter = PanicReporter { rank: self.rank, names: &self.names, index };
        let result = call(&mut *self.handlers[index]);
        std::mem::forget(reporter);
        result
    }
}

/// Prints which handler panicked, when dropped during unwinding. Forgotten otherwise.
struct PanicReporter<'a> {
    rank: Rank,
    names: &'a [String],
    index: usize,
}

impl Drop for PanicReporter<'_> {
    fn drop(&mut self) {
        eprintln!("treepie: rank {}: the handler of `{}` panicked", self.rank, self.names[self.index]);
    }
}

/// A handler of one message.
pub(crate) fn message_handler<S, M, F>(mut handle: F) -> Handler<S>
where
    M: Pod,
    F: FnMut(&mut S, &mut Context<S>, M) + 'static,
{
    // No closure captures `state`: the compiler would forget that nothing else refers to it, and load what the handler
    // reads of it again for every message, which costs a fifth of the rate of random updates.
    batch_handler(move |state, context, batch| {
        let messages = batch.messages::<M>();
        for message in &*messages {
            handle(state, context, *message);
        }
        messages.len() as u64
    })
}

/// A handler of all messages of a buffer.
pub(crate) fn slice_handler<S, M, F>(mut handle: F) -> Handler<S>
where
    M: Pod,
    F: FnMut(&mut S, &mut Context<S>, &[M]) + 'static,
{
    batch_handler(move |state, context, batch| {
        let messages = batch.messages::<M>();
        handle(state, context, &messages);
        messages.len() as u64
    })
}

/// A handler of one message with its source.
pub(crate) fn source_handler<S, M, F>(mut handle: F) -> Handler<S>
where
    M: Pod,
    F: FnMut(&mut S, &mut Context<S>, Rank, M) + 'static,
{
    batch_handler(move |state, context, batch| {
        let mut count = 0;
        for (from, bytes) in batch.iter_with_source(size_of::<M>()) {
            handle(state, context, from, bytemuck::pod_read_unaligned(bytes));
            count += 1;
        }
        count
    })
}
