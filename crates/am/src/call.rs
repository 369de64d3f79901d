//! Request and reply.
//!
//! A request is a message whose handler's result returns as a reply to a continuation. The request carries a note of
//! the caller, such as the index where the reply is to be stored, which returns with the reply. So the caller stores
//! nothing. With
//! [`Context::call_then`] the note is the number of a stored closure.

use bytemuck::{Pod, bytes_of, pod_read_unaligned};
use treepie_base::{Rank, prefetch};

use crate::context::{Context, ContinuationId};
use crate::handler::{Handler, batch_handler};
use crate::port::Call;
use crate::prefetching::{Prefetching, WithPrefetch};

/// Concatenates two plain-data values without padding.
fn concat_bytes<A: Pod, B: Pod, T>(a: &A, b: &B, then: impl FnOnce(&mut [u8]) -> T) -> T {
    let (first, second) = (size_of::<A>(), size_of::<B>());
    let mut short = [0_u8; 64];
    if first + second <= short.len() {
        let bytes = &mut short[..first + second];
        bytes[..first].copy_from_slice(bytes_of(a));
        bytes[first..].copy_from_slice(bytes_of(b));
        return then(bytes);
    }
    then(&mut [bytes_of(a), bytes_of(b)].concat())
}

fn split<A: Pod, B: Pod>(bytes: &[u8]) -> (A, B) {
    let (first, second) = bytes.split_at(size_of::<A>());
    (pod_read_unaligned(first), pod_read_unaligned(second))
}

impl<S> Context<S> {
    /// Sends a request. The continuation of the call type gets the note and the reply before the epoch ends.
    #[inline]
    pub fn call<Q: Pod, R: Pod, N: Pod>(&mut self, call: Call<Q, R, N>, to: Rank, note: N, request: Q) {
        self.send_pair(call.request, to, &note, &request);
    }

    /// Sends a request and calls a closure with the reply before the epoch ends. Each such request allocates its
    /// closure;
    /// [`call`](Self::call) does not.
    pub fn call_then<Q: Pod, R: Pod>(
        &mut self,
        call: Call<Q, R, ContinuationId>,
        to: Rank,
        request: Q,
        then: impl FnOnce(&mut S, &mut Context<S>, R) + 'static,
    ) {
        let then = move |state: &mut S, context: &mut Context<S>, bytes: &[u8]| {
            then(state, context, pod_read_unaligned(bytes));
        };
        let note = self.continuations.insert(Box::new(then));
        self.call(call, to, note, request);
    }

    /// Sends two values as one message, without a copy if the buffer has room.
    #[inline(always)]
    fn send_pair<A: Pod, B: Pod>(&mut self, index: usize, to: Rank, a: &A, b: &B) {
        let write = |space: &mut [u8]| {
            let (first, second) = space.split_at_mut(size_of::<A>());
            first.copy_from_slice(bytes_of(a));
            second.copy_from_slice(bytes_of(b));
        };
        if let Some(buffer) = self.sends.channels[index].buffers.fast_path(to)
            && buffer.try_push_with(size_of::<A>() + size_of::<B>(), write)
        {
            return;
        }
        concat_bytes(a, b, |bytes| self.sends.send_bytes(index, to, bytes));
    }
}

/// A handler of requests, which sends the reply to the source.
pub(crate) fn request_handler<S, Q, R, N, F>(call: Call<Q, R, N>, mut handler: F) -> Handler<S>
where
    Q: Pod,
    R: Pod,
    N: Pod,
    F: FnMut(&mut S, &mut Context<S>, Q) -> R + 'static,
{
    batch_handler(move |state, context, batch| {
        let mut count = 0;
        for (from, bytes) in batch.iter_with_source(size_of::<N>() + size_of::<Q>()) {
            let (note, request): (N, Q) = split(bytes);
            let reply = handler(state, context, request);
            context.send_pair(call.reply, from, &note, &reply);
            count += 1;
        }
        count
    })
}

/// A handler of requests that prefetches.
pub(crate) fn prefetching_request_handler<S, Q, R, N, A, T, F>(
    call: Call<Q, R, N>,
    address: A,
    handler: F,
) -> Handler<S>
where
    Q: Pod,
    R: Pod,
    N: Pod,
    T: ?Sized,
    A: for<'s> Fn(&'s S, &Q) -> &'s T + 'static,
    F: FnMut(&mut S, &mut Context<S>, Q) -> R + 'static,
{
    let prefetch_request = move |state: &S, request: &Q| prefetch(address(state, request));
    Box::new(WithPrefetch(PrefetchRequest { call, prefetch: prefetch_request, handler }))
}

struct PrefetchRequest<Q, R, N, A, F> {
    call: Call<Q, R, N>,
    prefetch: A,
    handler: F,
}

impl<S, Q, R, N, A, F> Prefetching<S> for PrefetchRequest<Q, R, N, A, F>
where
    Q: Pod,
    R: Pod,
    N: Pod,
    A: Fn(&S, &Q),
    F: FnMut(&mut S, &mut Context<S>, Q) -> R,
{
    const SIZE: usize = size_of::<N>() + size_of::<Q>();

    #[inline(always)]
    fn prefetch(&self, state: &S, message: &[u8]) {
        (self.prefetch)(state, &split::<N, Q>(message).1);
    }

    #[inline(always)]
    fn handle(&mut self, state: &mut S, context: &mut Context<S>, from: Rank, message: &[u8]) {
        let (note, request): (N, Q) = split(message);
        let reply = (self.handler)(state, context, request);
        context.send_pair(self.call.reply, from, &note, &reply);
    }
}

/// A handler of replies.
pub(crate) fn reply_handler<S, R, N, F>(mut then: F) -> Handler<S>
where
    R: Pod,
    N: Pod,
    F: FnMut(&mut S, &mut Context<S>, N, R) + 'static,
{
    batch_handler(move |state, context, batch| {
        let mut count = 0;
        for bytes in batch.body.chunks_exact(size_of::<N>() + size_of::<R>()) {
            let (note, reply) = split(bytes);
            then(state, context, note, reply);
            count += 1;
        }
        count
    })
}
