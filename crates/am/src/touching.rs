//! Handlers that say which memory they will touch: it is asked for some messages ahead.

use treepie_base::Rank;

use crate::context::{Context, word};
use crate::handler::{Batch, Handling};
use crate::weaving::{PIECE, Woven};

/// So many messages ahead memory is asked for: about as many as the memory answers while one is waited for.
const AHEAD: usize = 32;

/// What is done with one message, and before.
pub(crate) trait Touching<S> {
    /// Bytes of a message.
    const SIZE: usize;

    /// Asks for the memory that a message will touch.
    fn touch(&self, state: &S, message: &[u8]);

    /// Handles one.
    fn handle(&mut self, state: &mut S, context: &mut Context<S>, from: Rank, message: &[u8]);
}

/// Such a handler.
pub(crate) struct Ahead<T>(pub(crate) T);

impl<S, T: Touching<S>> Handling<S> for Ahead<T> {
    fn run(&mut self, state: &mut S, context: &mut Context<S>, batch: Batch<'_>) -> u64 {
        self.begin(state, batch);
        // Two loops are compiled, so that the usual one has messages of a known length.
        if batch.has_origin {
            self.whole(state, context, batch, true)
        } else {
            self.whole(state, context, batch, false)
        }
    }

    fn weaves(&self) -> bool {
        true
    }

    fn begin(&mut self, state: &S, batch: Batch<'_>) {
        let first = batch.body.chunks_exact(frame::<S, T>(batch.has_origin)).take(AHEAD);
        first.for_each(|message| self.touch(state, batch.has_origin, message));
    }

    fn weave(&mut self, state: &mut S, context: &mut Context<S>, woven: &mut Woven) {
        // As above.
        if woven.has_origin {
            self.piece(state, context, woven, true);
        } else {
            self.piece(state, context, woven, false);
        }
    }
}

/// Bytes of a message and of who sent it, if that stands before it.
#[inline(always)]
fn frame<S, T: Touching<S>>(has_origin: bool) -> usize {
    T::SIZE + if has_origin { 4 } else { 0 }
}

impl<T> Ahead<T> {
    #[inline(always)]
    fn whole<S>(&mut self, state: &mut S, context: &mut Context<S>, batch: Batch<'_>, has_origin: bool) -> u64
    where
        T: Touching<S>,
    {
        let messages = batch.body.chunks_exact(frame::<S, T>(has_origin));
        let count = messages.len();
        let mut later = messages.clone().skip(AHEAD);
        for message in messages {
            if let Some(later) = later.next() {
                self.touch(state, has_origin, later);
            }
            self.handle(state, context, batch.from, has_origin, message);
        }
        count as u64
    }

    #[inline(always)]
    fn piece<S>(&mut self, state: &mut S, context: &mut Context<S>, woven: &mut Woven, has_origin: bool)
    where
        T: Touching<S>,
    {
        let (frame, at, from) = (frame::<S, T>(has_origin), woven.at, woven.from);
        let (piece, ahead) = (PIECE as usize * frame, AHEAD * frame);
        woven.at = at + piece;
        let body = &woven.room[..];
        if let Some(now) = body.get(at..at + piece)
            && let Some(later) = body.get(at + ahead..at + ahead + piece)
        {
            for (message, later) in now.chunks_exact(frame).zip(later.chunks_exact(frame)) {
                self.touch(state, has_origin, later);
                self.handle(state, context, from, has_origin, message);
            }
            return;
        }
        let rest = body.get(at..).unwrap_or_default();
        for message in rest.chunks_exact(frame).take(PIECE as usize) {
            self.handle(state, context, from, has_origin, message);
        }
    }

    #[inline(always)]
    fn touch<S>(&self, state: &S, has_origin: bool, message: &[u8])
    where
        T: Touching<S>,
    {
        self.0.touch(state, if has_origin { &message[4..] } else { message });
    }

    #[inline(always)]
    fn handle<S>(&mut self, state: &mut S, context: &mut Context<S>, from: u32, has_origin: bool, message: &[u8])
    where
        T: Touching<S>,
    {
        match word(message) {
            Some((origin, message)) if has_origin => self.0.handle(state, context, origin as Rank, message),
            _ => self.0.handle(state, context, from as Rank, message),
        }
    }
}
