//! Questions and answers.
//!
//! A question is a message to the rank that knows; its handler's result goes back as another message, to a continuation. With
//! the question goes a note of the program's, as the place where the answer is to be put, which comes back with the answer:
//! so nothing is kept at the one who asks. Where a closure is more convenient ([`Context::ask`]), the note is the number of a
//! closure that is kept.

use bytemuck::{Pod, bytes_of, pod_read_unaligned};
use treepie_base::{Rank, prefetch};

use crate::context::Context;
use crate::handler::{Handler, whole};
use crate::port::Call;
use crate::touching::{Ahead, Touching};

/// Two pieces of plain data, one behind the other, without the gap that alignment would leave.
fn joined<A: Pod, B: Pod, T>(a: &A, b: &B, then: impl FnOnce(&mut [u8]) -> T) -> T {
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

fn parted<A: Pod, B: Pod>(bytes: &[u8]) -> (A, B) {
    let (first, second) = bytes.split_at(size_of::<A>());
    (pod_read_unaligned(first), pod_read_unaligned(second))
}

impl<S> Context<S> {
    /// Asks a rank. The continuation of the call's type gets the note and the answer before the epoch ends.
    #[inline]
    pub fn call<Q: Pod, R: Pod, N: Pod>(&mut self, call: Call<Q, R, N>, to: Rank, note: N, question: Q) {
        self.send_pair(call.question, to, &note, &question);
    }

    /// Asks a rank, and has a closure called with the answer before the epoch ends. Each such question takes memory for its
    /// closure; [`call`](Self::call) does not.
    pub fn ask<Q: Pod, R: Pod>(
        &mut self,
        call: Call<Q, R, Later>,
        to: Rank,
        question: Q,
        then: impl FnOnce(&mut S, &mut Context<S>, R) + 'static,
    ) {
        let then = move |state: &mut S, context: &mut Context<S>, bytes: &[u8]| {
            then(state, context, pod_read_unaligned(bytes));
        };
        let note = self.continuations.keep(Box::new(then));
        self.call(call, to, note, question);
    }

    /// The same as a send of both, without a copy where the buffer has room.
    #[inline(always)]
    fn send_pair<A: Pod, B: Pod>(&mut self, index: usize, to: Rank, a: &A, b: &B) {
        let write = |room: &mut [u8]| {
            let (first, second) = room.split_at_mut(size_of::<A>());
            first.copy_from_slice(bytes_of(a));
            second.copy_from_slice(bytes_of(b));
        };
        if let Some(slot) = self.lanes[index].slots.straight(to)
            && slot.put_by(size_of::<A>() + size_of::<B>(), write)
        {
            return;
        }
        joined(a, b, |bytes| self.send_bytes(index, to, bytes));
    }
}

/// The number of a closure that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Later(u32);

type Continuation<S> = Box<dyn FnOnce(&mut S, &mut Context<S>, &[u8])>;

/// Closures that wait for answers.
pub(crate) struct Continuations<S> {
    waiting: Vec<Option<Continuation<S>>>,
    free: Vec<u32>,
}

impl<S> Default for Continuations<S> {
    fn default() -> Self {
        Self { waiting: Vec::new(), free: Vec::new() }
    }
}

impl<S> Continuations<S> {
    fn keep(&mut self, then: Continuation<S>) -> Later {
        let place = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() as u32 - 1
        });
        self.waiting[place as usize] = Some(then);
        Later(place)
    }

    pub(crate) fn take(&mut self, Later(place): Later) -> Option<Continuation<S>> {
        let then = self.waiting.get_mut(place as usize)?.take();
        self.free.push(place);
        then
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What answers questions: a handler that sends to whom it has a message of.
pub(crate) fn answering<S, Q, R, N, F>(call: Call<Q, R, N>, mut answer: F) -> Handler<S>
where
    Q: Pod,
    R: Pod,
    N: Pod,
    F: FnMut(&mut S, &mut Context<S>, Q) -> R + 'static,
{
    whole(move |state, context, batch| {
        let mut count = 0;
        for (from, bytes) in batch.each_with_origin(size_of::<N>() + size_of::<Q>()) {
            let (note, question): (N, Q) = parted(bytes);
            let result = answer(state, context, question);
            context.send_pair(call.answer, from, &note, &result);
            count += 1;
        }
        count
    })
}

/// The same for answers that say which memory they will touch.
pub(crate) fn answering_touching<S, Q, R, N, A, T, F>(call: Call<Q, R, N>, touch: A, answer: F) -> Handler<S>
where
    Q: Pod,
    R: Pod,
    N: Pod,
    T: ?Sized,
    A: for<'s> Fn(&'s S, &Q) -> &'s T + 'static,
    F: FnMut(&mut S, &mut Context<S>, Q) -> R + 'static,
{
    let touch = move |state: &S, question: &Q| prefetch(touch(state, question));
    Box::new(Ahead(Question { call, touch, answer }))
}

struct Question<Q, R, N, A, F> {
    call: Call<Q, R, N>,
    touch: A,
    answer: F,
}

impl<S, Q, R, N, A, F> Touching<S> for Question<Q, R, N, A, F>
where
    Q: Pod,
    R: Pod,
    N: Pod,
    A: Fn(&S, &Q),
    F: FnMut(&mut S, &mut Context<S>, Q) -> R,
{
    const SIZE: usize = size_of::<N>() + size_of::<Q>();

    #[inline(always)]
    fn touch(&self, state: &S, message: &[u8]) {
        (self.touch)(state, &parted::<N, Q>(message).1);
    }

    #[inline(always)]
    fn handle(&mut self, state: &mut S, context: &mut Context<S>, from: Rank, message: &[u8]) {
        let (note, question): (N, Q) = parted(message);
        let result = (self.answer)(state, context, question);
        context.send_pair(self.call.answer, from, &note, &result);
    }
}

/// What takes answers.
pub(crate) fn continuing<S, R, N, F>(mut then: F) -> Handler<S>
where
    R: Pod,
    N: Pod,
    F: FnMut(&mut S, &mut Context<S>, N, R) + 'static,
{
    whole(move |state, context, batch| {
        let mut count = 0;
        for bytes in batch.body.chunks_exact(size_of::<N>() + size_of::<R>()) {
            let (note, result) = parted(bytes);
            then(state, context, note, result);
            count += 1;
        }
        count
    })
}
