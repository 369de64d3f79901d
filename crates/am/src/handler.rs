//! Handlers: closures of the program, made into functions of a whole buffer.
//!
//! There is one dynamic call a buffer, or one for a few messages where they are woven into the body; the loop over its messages is compiled with the closure inside. The messages are read
//! where they lie, in the engine's memory.

use std::marker::PhantomData;

use bytemuck::Pod;
use treepie_base::{Rank, prefetch};

use crate::context::{Context, word};
use crate::lane::Frame;
use crate::touching::{Ahead, Touching};
use crate::weaving::Woven;

/// What is done with messages of one type.
pub(crate) trait Handling<S> {
    /// Handles a buffer. Returns how many messages there were.
    fn run(&mut self, state: &mut S, context: &mut Context<S>, batch: Batch<'_>) -> u64;

    /// Whether it can handle a few messages at a time.
    fn can_weave(&self) -> bool {
        false
    }

    /// Asks for the memory of the first messages of a buffer that is woven.
    fn begin(&mut self, _: &S, _: Batch<'_>) {}

    /// Handles a few messages of it.
    fn weave(&mut self, _: &mut S, _: &mut Context<S>, _: &mut Woven) {}
}

impl<S, F: FnMut(&mut S, &mut Context<S>, Batch<'_>) -> u64> Handling<S> for F {
    fn run(&mut self, state: &mut S, context: &mut Context<S>, batch: Batch<'_>) -> u64 {
        self(state, context, batch)
    }
}

pub(crate) type Handler<S> = Box<dyn Handling<S>>;

/// A handler of whole buffers.
pub(crate) fn whole<S>(run: impl FnMut(&mut S, &mut Context<S>, Batch<'_>) -> u64 + 'static) -> Handler<S> {
    Box::new(run)
}

/// A buffer of messages of one type, all for this rank.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) body: &'a [u8],
    /// Who sent the buffer.
    pub(crate) from: u32,
    /// Before each message stands who sent that; else it is who sent the buffer.
    pub(crate) has_origin: bool,
}

impl<'a> Batch<'a> {
    pub(crate) fn whole(body: &'a [u8], from: u32, frame: Frame) -> Self {
        Self { body, from, has_origin: frame.has_origin() }
    }

    /// Gives out the messages, where their handler does not ask who sent them.
    #[inline(always)]
    fn messages<M: Pod, R>(self, take: impl FnOnce(&[M]) -> R) -> R {
        match bytemuck::try_cast_slice(self.body) {
            Ok(messages) => take(messages),
            Err(_) => self.copied(take),
        }
    }

    /// The same for those that are aligned to more than 8 bytes, as engines do not align bodies to more.
    #[cold]
    #[inline(never)]
    fn copied<M: Pod, R>(self, take: impl FnOnce(&[M]) -> R) -> R {
        take(&self.body.chunks_exact(size_of::<M>()).map(bytemuck::pod_read_unaligned).collect::<Vec<M>>())
    }

    /// Messages of so many bytes, each with who sent it.
    pub(crate) fn each_with_origin(self, size: usize) -> impl Iterator<Item = (Rank, &'a [u8])> {
        let head = if self.has_origin { 4 } else { 0 };
        self.body.chunks_exact(head + size).map(move |frame| match word(frame) {
            Some((origin, message)) if self.has_origin => (origin as Rank, message),
            _ => (self.from as Rank, frame),
        })
    }
}

/// A handler of one message.
pub(crate) fn one<S, M, F>(mut handle: F) -> Handler<S>
where
    M: Pod,
    F: FnMut(&mut S, &mut Context<S>, M) + 'static,
{
    whole(move |state, context, batch| {
        batch.messages(|messages: &[M]| {
            messages.iter().for_each(|message| handle(state, context, *message));
            messages.len() as u64
        })
    })
}

/// A handler of one message that says which memory it will touch.
pub(crate) fn touching<S, M, A, T, F>(touch: A, handle: F) -> Handler<S>
where
    M: Pod,
    T: ?Sized,
    A: for<'s> Fn(&'s S, &M) -> &'s T + 'static,
    F: FnMut(&mut S, &mut Context<S>, M) + 'static,
{
    let touch = move |state: &S, message: &M| prefetch(touch(state, message));
    Box::new(Ahead(Message { touch, handle, of: PhantomData }))
}

struct Message<A, F, M> {
    touch: A,
    handle: F,
    of: PhantomData<M>,
}

impl<S, M, A, F> Touching<S> for Message<A, F, M>
where
    M: Pod,
    A: Fn(&S, &M),
    F: FnMut(&mut S, &mut Context<S>, M),
{
    const SIZE: usize = size_of::<M>();

    #[inline(always)]
    fn touch(&self, state: &S, message: &[u8]) {
        (self.touch)(state, &bytemuck::pod_read_unaligned(message));
    }

    #[inline(always)]
    fn handle(&mut self, state: &mut S, context: &mut Context<S>, _: Rank, message: &[u8]) {
        (self.handle)(state, context, bytemuck::pod_read_unaligned(message));
    }
}

/// A handler of all messages of a buffer.
pub(crate) fn batch<S, M, F>(mut handle: F) -> Handler<S>
where
    M: Pod,
    F: FnMut(&mut S, &mut Context<S>, &[M]) + 'static,
{
    whole(move |state, context, batch| {
        batch.messages(|messages: &[M]| {
            handle(state, context, messages);
            messages.len() as u64
        })
    })
}

/// A handler of one message that asks who sent it.
pub(crate) fn sourced<S, M, F>(mut handle: F) -> Handler<S>
where
    M: Pod,
    F: FnMut(&mut S, &mut Context<S>, Rank, M) + 'static,
{
    whole(move |state, context, batch| {
        let mut count = 0;
        for (from, bytes) in batch.each_with_origin(size_of::<M>()) {
            handle(state, context, from, bytemuck::pod_read_unaligned(bytes));
            count += 1;
        }
        count
    })
}
