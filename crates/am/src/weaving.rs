//! Weaving: a few messages are handled, then a few items of the body are done, and so on.
//!
//! Handlers that say which memory they will touch wait for it all the same if they are called for a whole buffer: a core asks for
//! about ten lines at a time, and handlers of random updates have nothing else to do than that. The body has, and does not wait
//! for memory. Woven together in small pieces, one goes on while the other waits.
//!
//! This pays as long as a piece costs little: what is done once a buffer is done where it begins or ends, not here.

use crate::context::Local;
use crate::handler::Batch;
use crate::runtime::{Machinery, Naming};

/// So many messages at a time. A core looks about five hundred instructions ahead: that must be enough to see what memory the next
/// piece asks for, while this one waits for its own. With eight it gains a fourth less.
pub(crate) const PIECE: u32 = 4;

/// From so many buffers on that wait, two pieces are handled at a time: messages come faster than they are handled.
pub(crate) const CATCH_UP: usize = 2;

/// From so many on, whole buffers are.
const BACKLOG: usize = 12;

/// A buffer that is handled between items of the body.
pub(crate) struct Woven {
    /// Its type.
    pub(crate) index: usize,
    /// Who sent it.
    pub(crate) from: u32,
    /// Before each message stands who sent that.
    pub(crate) has_origin: bool,
    pub(crate) room: Vec<u8>,
    /// Bytes of it that have been handled.
    pub(crate) at: usize,
}

impl<S> Machinery<S> {
    /// Takes the first buffer that waits here to be handled between items of the body, if it may and none is. Returns whether
    /// one is.
    pub(crate) fn begin_weaving(&mut self, state: &S) -> bool {
        let local = &mut self.context.local;
        if !self.may_weave || local.len() >= BACKLOG {
            return false;
        }
        if self.woven.is_none()
            && let Some(lane) = local.front().map(|first| &mut self.context.lanes[first.index])
            && lane.can_be_woven
            // Those that are timed are handled at once.
            && !lane.stopwatch.is_due()
            && let Some(Local { index, from, mut room, used, .. }) = local.pop_front()
        {
            lane.stopwatch.begin();
            room.truncate(used);
            let has_origin = lane.frame.has_origin();
            let naming = Naming { names: &self.names, index };
            self.handlers[index].begin(state, Batch { body: &room, from, has_origin });
            std::mem::forget(naming);
            self.woven = Some(Woven { index, from, has_origin, room, at: 0 });
        }
        self.woven.is_some()
    }

    /// Handles a few messages of the buffer that is woven.
    #[inline(always)]
    pub(crate) fn weave(&mut self, state: &mut S) {
        let Self { woven: Some(woven), context, handlers, names, .. } = self else { return };
        let naming = Naming { names, index: woven.index };
        handlers[woven.index].weave(state, context, woven);
        std::mem::forget(naming);
        if woven.at >= woven.room.len() {
            self.end_weaving(state);
        }
    }

    #[cold]
    fn end_weaving(&mut self, state: &S) {
        if let Some(Woven { index, room, .. }) = self.woven.take() {
            let lane = &mut self.context.lanes[index];
            lane.statistics.handled += lane.frame.messages_in(room.len(), false);
            self.context.outgoing.forget_local(room.len());
            self.context.recycle(room);
        }
        self.begin_weaving(state);
    }

    /// What is left of the buffer that was woven is to be handled as a whole.
    pub(crate) fn unweave(&mut self) -> Option<Local> {
        let Woven { index, from, room, at, .. } = self.woven.take()?;
        let used = room.len();
        Some(Local { index, from, room, used, handled: at })
    }
}
