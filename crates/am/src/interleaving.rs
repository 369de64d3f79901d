//! Interleaving: chunks of messages are handled between chunks of items of the body.
//!
//! Handlers that prefetch still stall if they run for a whole buffer: a core has about ten outstanding cache misses,
//! and handlers of random updates do nothing but miss. The body computes without misses. Interleaved in small chunks,
//! one runs while the other waits for memory.
//!
//! This pays only if a chunk has little overhead: work per buffer is done where a buffer begins or ends.

use crate::context::Context;
use crate::handler::{Batch, Handlers, InterleavedBuffer};
use crate::send_path::{LocalBuffer, SendPath};

/// Messages per chunk. The out-of-order window of a core is about five hundred instructions: it must reach the
/// prefetches of the next chunk while this one waits for memory. With eight the gain is a fourth less.
pub(crate) const CHUNK: u32 = 4;

/// Queued buffers from which on two chunks are handled at a time: messages arrive faster than they are handled.
pub(crate) const CATCH_UP: usize = 2;

/// Queued buffers from which on whole buffers are handled.
const MAX_INTERLEAVED_BACKLOG: usize = 12;

/// The buffer that is handled between items of the body, if any.
#[derive(Default)]
pub(crate) struct Interleaving {
    /// Buffers may be interleaved: there are enough items, and they are short.
    pub(crate) is_allowed: bool,
    buffer: Option<InterleavedBuffer>,
}

impl Interleaving {
    /// Whether a buffer is being interleaved.
    pub(crate) fn is_active(&self) -> bool {
        self.buffer.is_some()
    }

    /// Starts to interleave the first buffer of the local queue, if allowed and none is interleaved. Returns whether
    /// one is.
    pub(crate) fn begin<S>(&mut self, handlers: &mut Handlers<S>, sends: &mut SendPath, state: &S) -> bool {
        let local_queue = &mut sends.local_queue;
        if !self.is_allowed || local_queue.len() >= MAX_INTERLEAVED_BACKLOG {
            return false;
        }
        if self.buffer.is_none()
            && let Some(channel) = local_queue.front().map(|first| &mut sends.channels[first.index])
            && channel.can_interleave
            // A timed buffer is handled as a whole.
            && !channel.stopwatch.is_due()
            && let Some(LocalBuffer { index, from, mut storage, used, .. }) = local_queue.pop_front()
        {
            channel.stopwatch.begin();
            storage.truncate(used);
            let has_origin = channel.frame.has_origin();
            let batch = Batch { body: &storage, from, has_origin };
            handlers.call(index, |handler| handler.begin_prefetch(state, batch));
            self.buffer = Some(InterleavedBuffer { index, from, has_origin, storage, handled: 0 });
        }
        self.buffer.is_some()
    }

    /// Handles a chunk of the buffer.
    #[inline(always)]
    pub(crate) fn step<S>(&mut self, handlers: &mut Handlers<S>, context: &mut Context<S>, state: &mut S) {
        let Some(buffer) = &mut self.buffer else { return };
        handlers.call(buffer.index, |handler| handler.interleave(state, context, buffer));
        if buffer.handled >= buffer.storage.len() {
            self.end(handlers, &mut context.sends, state);
        }
    }

    #[cold]
    fn end<S>(&mut self, handlers: &mut Handlers<S>, sends: &mut SendPath, state: &S) {
        if let Some(InterleavedBuffer { index, storage, .. }) = self.buffer.take() {
            let channel = &mut sends.channels[index];
            channel.statistics.handled += channel.frame.messages_in(storage.len(), false);
            sends.outgoing.remove_local(storage.len());
            sends.recycle(storage);
        }
        self.begin(handlers, sends, state);
    }

    /// Stops interleaving. Returns the rest of the buffer, to be handled as a whole.
    pub(crate) fn stop(&mut self) -> Option<LocalBuffer> {
        let InterleavedBuffer { index, from, storage, handled, .. } = self.buffer.take()?;
        let used = storage.len();
        Some(LocalBuffer { index, from, storage, used, handled })
    }
}
