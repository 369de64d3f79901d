//! Handlers: closures of the program, made into functions of a whole buffer.
//!
//! There is one dynamic call a buffer; the loop over its messages is compiled with the closure inside. The messages are read
//! where they lie, in the engine's memory.

use std::borrow::Cow;
use std::rc::Rc;

use bytemuck::Pod;
use treepie_base::{Rank, prefetch};

use crate::context::{Context, word};

/// What handles a buffer of messages of one type. Returns how many there were.
type Run<S> = Box<dyn FnMut(&mut S, &mut Context<S>, Batch<'_>) -> u64>;

/// Asks for the memory that messages of a buffer will touch.
type Touch<S> = Box<dyn Fn(&S, Batch<'_>)>;

/// What is done with messages of one type.
pub(crate) struct Handler<S> {
    pub(crate) run: Run<S>,
    pub(crate) touch: Option<Touch<S>>,
}

impl<S> Handler<S> {
    pub(crate) fn new(run: impl FnMut(&mut S, &mut Context<S>, Batch<'_>) -> u64 + 'static) -> Self {
        Self { run: Box::new(run), touch: None }
    }

    /// The same, and buffers can be touched some time before they are handled.
    pub(crate) fn touching(self, touch: impl Fn(&S, Batch<'_>) + 'static) -> Self {
        Self { touch: Some(Box::new(touch)), ..self }
    }
}

/// A buffer of messages of one type, all for this rank.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) body: &'a [u8],
    /// Who sent the buffer.
    pub(crate) from: u32,
    /// Before each message stands who sent that; else it is who sent the buffer.
    pub(crate) has_origin: bool,
    /// The memory that its messages touch has been asked for.
    pub(crate) touched: bool,
}

impl<'a> Batch<'a> {
    /// The messages, where their handler does not ask who sent them.
    #[inline]
    fn messages<M: Pod>(self) -> Cow<'a, [M]> {
        match bytemuck::try_cast_slice(self.body) {
            Ok(messages) => Cow::Borrowed(messages),
            // Engines align bodies to 8 bytes, not to more.
            Err(_) => Cow::Owned(self.body.chunks_exact(size_of::<M>()).map(bytemuck::pod_read_unaligned).collect()),
        }
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
    Handler::new(move |state, context, batch| {
        let messages = batch.messages::<M>();
        messages.iter().for_each(|message| handle(state, context, *message));
        messages.len() as u64
    })
}

/// So many messages ahead the memory that a handler will touch is asked for: about as many as the memory answers while one
/// is waited for.
pub(crate) const AHEAD: usize = 24;

/// A handler of one message that says which memory it will touch.
pub(crate) fn touching<S, M, A, T, F>(touch: A, mut handle: F) -> Handler<S>
where
    M: Pod,
    T: ?Sized,
    A: for<'s> Fn(&'s S, &M) -> &'s T + 'static,
    F: FnMut(&mut S, &mut Context<S>, M) + 'static,
{
    let touch = Rc::new(touch);
    let before = touch.clone();
    let run = move |state: &mut S, context: &mut Context<S>, batch: Batch<'_>| {
        let messages = batch.messages::<M>();
        if batch.touched {
            messages.iter().for_each(|message| handle(state, context, *message));
            return messages.len() as u64;
        }
        let ahead = messages.len().min(AHEAD);
        messages[..ahead].iter().for_each(|message| prefetch(touch(state, message)));
        for (message, later) in messages.iter().zip(&messages[ahead..]) {
            prefetch(touch(state, later));
            handle(state, context, *message);
        }
        let last = messages.len() - ahead;
        messages[last..].iter().for_each(|message| handle(state, context, *message));
        messages.len() as u64
    };
    Handler::new(run).touching(move |state, batch| {
        batch.messages::<M>().iter().for_each(|message| prefetch(before(state, message)));
    })
}

/// A handler of all messages of a buffer.
pub(crate) fn batch<S, M, F>(mut handle: F) -> Handler<S>
where
    M: Pod,
    F: FnMut(&mut S, &mut Context<S>, &[M]) + 'static,
{
    Handler::new(move |state, context, batch| {
        let messages = batch.messages::<M>();
        handle(state, context, &messages);
        messages.len() as u64
    })
}

/// A handler of one message that asks who sent it.
pub(crate) fn sourced<S, M, F>(mut handle: F) -> Handler<S>
where
    M: Pod,
    F: FnMut(&mut S, &mut Context<S>, Rank, M) + 'static,
{
    Handler::new(move |state, context, batch| {
        let mut count = 0;
        for (from, bytes) in batch.each_with_origin(size_of::<M>()) {
            handle(state, context, from, bytemuck::pod_read_unaligned(bytes));
            count += 1;
        }
        count
    })
}
