//! Handlers that prefetch the memory they access, some messages ahead.

use std::marker::PhantomData;

use bytemuck::Pod;
use treepie_base::{Rank, prefetch};

use crate::context::Context;
use crate::handler::{Batch, HandleBatch, Handler, InterleavedBuffer};
use crate::interleaving::CHUNK;
use crate::type_channel::split_u32;

/// Prefetch distance in messages: about the number of accesses that memory serves within its latency. With 32 a single
/// rank handles a fifth less.
const PREFETCH_DISTANCE: usize = 64;

/// A handler of one message with a prefetch.
pub(crate) trait Prefetching<S> {
    /// Bytes of a message.
    const SIZE: usize;

    /// Prefetches the memory that a message will access.
    fn prefetch(&self, state: &S, message: &[u8]);

    /// Handles a message.
    fn handle(&mut self, state: &mut S, context: &mut Context<S>, from: Rank, message: &[u8]);
}

/// A batch handler that prefetches ahead.
pub(crate) struct WithPrefetch<T>(pub(crate) T);

impl<S, T: Prefetching<S>> HandleBatch<S> for WithPrefetch<T> {
    fn run(&mut self, state: &mut S, context: &mut Context<S>, batch: Batch<'_>) -> u64 {
        self.begin_prefetch(state, batch);
        // Two loops are compiled, so that the common one has messages of a constant length.
        if batch.has_origin {
            self.handle_all(state, context, batch, true)
        } else {
            self.handle_all(state, context, batch, false)
        }
    }

    fn can_interleave(&self) -> bool {
        true
    }

    fn begin_prefetch(&mut self, state: &S, batch: Batch<'_>) {
        let first = batch.body.chunks_exact(frame::<S, T>(batch.has_origin)).take(PREFETCH_DISTANCE);
        first.for_each(|message| self.prefetch(state, batch.has_origin, message));
    }

    fn interleave(&mut self, state: &mut S, context: &mut Context<S>, buffer: &mut InterleavedBuffer) {
        // Two loops, as above.
        if buffer.has_origin {
            self.handle_chunk(state, context, buffer, true);
        } else {
            self.handle_chunk(state, context, buffer, false);
        }
    }
}

/// Bytes of a message with its source, if it has one.
#[inline(always)]
fn frame<S, T: Prefetching<S>>(has_origin: bool) -> usize {
    T::SIZE + if has_origin { 4 } else { 0 }
}

impl<T> WithPrefetch<T> {
    #[inline(always)]
    fn handle_all<S>(&mut self, state: &mut S, context: &mut Context<S>, batch: Batch<'_>, has_origin: bool) -> u64
    where
        T: Prefetching<S>,
    {
        let messages = batch.body.chunks_exact(frame::<S, T>(has_origin));
        let count = messages.len();
        let mut later = messages.clone().skip(PREFETCH_DISTANCE);
        for message in messages {
            if let Some(later) = later.next() {
                self.prefetch(state, has_origin, later);
            }
            self.handle(state, context, batch.from, has_origin, message);
        }
        count as u64
    }

    #[inline(always)]
    fn handle_chunk<S>(
        &mut self,
        state: &mut S,
        context: &mut Context<S>,
        buffer: &mut InterleavedBuffer,
        has_origin: bool,
    ) where
        T: Prefetching<S>,
    {
        let (frame, at, from) = (frame::<S, T>(has_origin), buffer.handled, buffer.from);
        let (chunk, ahead) = (CHUNK as usize * frame, PREFETCH_DISTANCE * frame);
        buffer.handled = at + chunk;
        let body = &buffer.storage[..];
        if let Some(now) = body.get(at..at + chunk)
            && let Some(later) = body.get(at + ahead..at + ahead + chunk)
        {
            for (message, later) in now.chunks_exact(frame).zip(later.chunks_exact(frame)) {
                self.prefetch(state, has_origin, later);
                self.handle(state, context, from, has_origin, message);
            }
            return;
        }
        let later = body.get(at + ahead..).unwrap_or_default();
        later.chunks_exact(frame).for_each(|message| self.prefetch(state, has_origin, message));
        let rest = body.get(at..).unwrap_or_default();
        for message in rest.chunks_exact(frame).take(CHUNK as usize) {
            self.handle(state, context, from, has_origin, message);
        }
    }

    #[inline(always)]
    fn prefetch<S>(&self, state: &S, has_origin: bool, message: &[u8])
    where
        T: Prefetching<S>,
    {
        self.0.prefetch(state, if has_origin { &message[4..] } else { message });
    }

    #[inline(always)]
    fn handle<S>(&mut self, state: &mut S, context: &mut Context<S>, from: u32, has_origin: bool, message: &[u8])
    where
        T: Prefetching<S>,
    {
        match split_u32(message) {
            Some((origin, message)) if has_origin => self.0.handle(state, context, origin as Rank, message),
            _ => self.0.handle(state, context, from as Rank, message),
        }
    }
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A handler of messages of three bytes that records prefetches; the state records handled messages and their
    /// sources.
    #[derive(Default)]
    struct Recorder {
        prefetched: RefCell<Vec<u8>>,
    }

    impl Prefetching<Vec<(Rank, u8)>> for Recorder {
        const SIZE: usize = 3;

        fn prefetch(&self, _: &Vec<(Rank, u8)>, message: &[u8]) {
            self.prefetched.borrow_mut().push(message[0]);
        }

        fn handle(
            &mut self,
            state: &mut Vec<(Rank, u8)>,
            _: &mut Context<Vec<(Rank, u8)>>,
            from: Rank,
            message: &[u8],
        ) {
            assert!(self.prefetched.borrow().contains(&message[0]), "{message:?} was not prefetched");
            state.push((from, message[0]));
        }
    }

    /// A buffer of messages from rank 9, or from rank 9 + i for message i if they have an origin.
    fn make_buffer(messages: u8, has_origin: bool) -> (InterleavedBuffer, Vec<(Rank, u8)>) {
        let mut storage = Vec::new();
        for number in 0..messages {
            if has_origin {
                storage.extend_from_slice(&(9 + u32::from(number)).to_ne_bytes());
            }
            storage.extend_from_slice(&[number, 0, 0]);
        }
        let from = |number: u8| 9 + if has_origin { Rank::from(number) } else { 0 };
        let expected = (0..messages).map(|number| (from(number), number)).collect();
        (InterleavedBuffer { index: 0, from: 9, has_origin, storage, handled: 0 }, expected)
    }

    #[test]
    fn each_message_is_prefetched_and_handled_once() {
        for messages in (0..10).chain(60..77).chain([200]) {
            for has_origin in [false, true] {
                for chunks in 0..=usize::from(messages).div_ceil(CHUNK as usize) {
                    let (mut buffer, expected) = make_buffer(messages, has_origin);
                    let (mut handler, mut context, mut state) =
                        (WithPrefetch(Recorder::default()), Context::new(0, 1, vec![]), vec![]);
                    let batch = Batch { body: &buffer.storage, from: 9, has_origin };
                    handler.begin_prefetch(&state, batch);
                    (0..chunks).for_each(|_| handler.interleave(&mut state, &mut context, &mut buffer));
                    let prefetched = handler.0.prefetched.borrow().len();
                    let ahead = (chunks * CHUNK as usize + PREFETCH_DISTANCE).min(messages.into());
                    assert!(
                        prefetched >= ahead && prefetched <= messages.into(),
                        "{prefetched} of {messages} prefetched"
                    );
                    if let Some(body) = buffer.storage.get(buffer.handled..) {
                        handler.run(&mut state, &mut context, Batch { body, from: 9, has_origin });
                    }
                    assert_eq!(state, expected, "{messages} messages, {chunks} chunks interleaved");
                }
            }
        }
    }
}
