//! Handlers that say which memory they will touch: it is asked for some messages ahead.

use treepie_base::Rank;

use crate::context::{Context, word};
use crate::handler::{Batch, Handling};
use crate::weaving::{PIECE, Woven};

/// So many messages ahead memory is asked for: about as many as the memory answers while one is waited for. With 32 a rank alone
/// does a fifth less.
const AHEAD: usize = 64;

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

    fn can_weave(&self) -> bool {
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
        let later = body.get(at + ahead..).unwrap_or_default();
        later.chunks_exact(frame).for_each(|message| self.touch(state, has_origin, message));
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Messages of three bytes: notes which were asked for, and which were handled from whom.
    #[derive(Default)]
    struct Noting {
        touched: RefCell<Vec<u8>>,
    }

    impl Touching<Vec<(Rank, u8)>> for Noting {
        const SIZE: usize = 3;

        fn touch(&self, _: &Vec<(Rank, u8)>, message: &[u8]) {
            self.touched.borrow_mut().push(message[0]);
        }

        fn handle(
            &mut self,
            state: &mut Vec<(Rank, u8)>,
            _: &mut Context<Vec<(Rank, u8)>>,
            from: Rank,
            message: &[u8],
        ) {
            assert!(self.touched.borrow().contains(&message[0]), "{message:?} was not asked for");
            state.push((from, message[0]));
        }
    }

    /// A buffer of so many messages of rank 9; if they say who sent them, their number is added to that.
    fn buffer(messages: u8, has_origin: bool) -> (Woven, Vec<(Rank, u8)>) {
        let mut room = Vec::new();
        for number in 0..messages {
            if has_origin {
                room.extend_from_slice(&(9 + u32::from(number)).to_ne_bytes());
            }
            room.extend_from_slice(&[number, 0, 0]);
        }
        let from = |number: u8| 9 + if has_origin { Rank::from(number) } else { 0 };
        let right = (0..messages).map(|number| (from(number), number)).collect();
        (Woven { index: 0, from: 9, has_origin, room, at: 0 }, right)
    }

    #[test]
    fn each_message_is_asked_for_and_handled_once() {
        for messages in (0..10).chain(60..77).chain([200]) {
            for has_origin in [false, true] {
                for woven_pieces in 0..=usize::from(messages).div_ceil(PIECE as usize) {
                    let (mut woven, right) = buffer(messages, has_origin);
                    let (mut handler, mut context, mut state) =
                        (Ahead(Noting::default()), Context::new(0, 1, vec![]), vec![]);
                    let batch = Batch { body: &woven.room, from: 9, has_origin };
                    handler.begin(&state, batch);
                    (0..woven_pieces).for_each(|_| handler.weave(&mut state, &mut context, &mut woven));
                    let touched = handler.0.touched.borrow().len();
                    let ahead = (woven_pieces * PIECE as usize + AHEAD).min(messages.into());
                    assert!(touched >= ahead && touched <= messages.into(), "{touched} of {messages} asked for");
                    if let Some(body) = woven.room.get(woven.at..) {
                        handler.run(&mut state, &mut context, Batch { body, from: 9, has_origin });
                    }
                    assert_eq!(state, right, "{messages} messages, {woven_pieces} pieces woven");
                }
            }
        }
    }
}
