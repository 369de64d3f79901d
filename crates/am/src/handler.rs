//! Handlers: closures of the program, wrapped as functions of a whole buffer.
//!
//! There is one dynamic call per buffer, or per chunk if messages are interleaved with the body; the closure is inlined
//! into the loop over the messages. Messages are read in place, in the engine's memory.

use std::marker::PhantomData;

use bytemuck::Pod;
use treepie_base::{Rank, prefetch};

use crate::context::{Context, split_u32};
use crate::interleaving::InterleavedBuffer;
use crate::prefetching::{Prefetching, WithPrefetch};
use crate::type_channel::Frame;

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

    /// Passes the messages, which have no source, as a slice.
    #[inline(always)]
    fn messages<M: Pod, R>(self, take: impl FnOnce(&[M]) -> R) -> R {
        match bytemuck::try_cast_slice(self.body) {
            Ok(messages) => take(messages),
            Err(_) => self.copied(take),
        }
    }

    /// Copies messages with an alignment above 8 bytes, which engines do not guarantee.
    #[cold]
    #[inline(never)]
    fn copied<M: Pod, R>(self, take: impl FnOnce(&[M]) -> R) -> R {
        take(&self.body.chunks_exact(size_of::<M>()).map(bytemuck::pod_read_unaligned).collect::<Vec<M>>())
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

/// A handler of one message.
pub(crate) fn message_handler<S, M, F>(mut handle: F) -> Handler<S>
where
    M: Pod,
    F: FnMut(&mut S, &mut Context<S>, M) + 'static,
{
    batch_handler(move |state, context, batch| {
        batch.messages(|messages: &[M]| {
            messages.iter().for_each(|message| handle(state, context, *message));
            messages.len() as u64
        })
    })
}

/// A handler of one message that prefetches.
pub(crate) fn prefetching_handler<S, M, A, T, F>(address: A, handle: F) -> Handler<S>
where
    M: Pod,
    T: ?Sized,
    A: for<'s> Fn(&'s S, &M) -> &'s T + 'static,
    F: FnMut(&mut S, &mut Context<S>, M) + 'static,
{
    let prefetch_message = move |state: &S, message: &M| prefetch(address(state, message));
    Box::new(WithPrefetch(PrefetchMessage { prefetch: prefetch_message, handle, message: PhantomData }))
}

struct PrefetchMessage<A, F, M> {
    prefetch: A,
    handle: F,
    message: PhantomData<M>,
}

impl<S, M, A, F> Prefetching<S> for PrefetchMessage<A, F, M>
where
    M: Pod,
    A: Fn(&S, &M),
    F: FnMut(&mut S, &mut Context<S>, M),
{
    const SIZE: usize = size_of::<M>();

    #[inline(always)]
    fn prefetch(&self, state: &S, message: &[u8]) {
        (self.prefetch)(state, &bytemuck::pod_read_unaligned(message));
    }

    #[inline(always)]
    fn handle(&mut self, state: &mut S, context: &mut Context<S>, _: Rank, message: &[u8]) {
        (self.handle)(state, context, bytemuck::pod_read_unaligned(message));
    }
}

/// A handler of all messages of a buffer.
pub(crate) fn slice_handler<S, M, F>(mut handle: F) -> Handler<S>
where
    M: Pod,
    F: FnMut(&mut S, &mut Context<S>, &[M]) + 'static,
{
    batch_handler(move |state, context, batch| {
        batch.messages(|messages: &[M]| {
            handle(state, context, messages);
            messages.len() as u64
        })
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
