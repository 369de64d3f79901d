//! Interleaving: chunks of messages are handled between chunks of items of the body.
//!
//! Handlers that prefetch still stall if they run for a whole buffer: a core has about ten outstanding cache misses,
//! and handlers of random updates do nothing but miss. The body computes without misses. Interleaved in small chunks,
//! one runs while the other waits for memory.
//!
//! This pays only if a chunk has little overhead: work per buffer is done where a buffer begins or ends.

use crate::context::LocalBuffer;
use crate::handler::Batch;
use crate::runtime::{PanicReporter, RuntimeState};

/// Messages per chunk. The out-of-order window of a core is about five hundred instructions: it must reach the
/// prefetches of the next chunk while this one waits for memory. With eight the gain is a fourth less.
pub(crate) const CHUNK: u32 = 4;

/// Queued buffers from which on two chunks are handled at a time: messages arrive faster than they are handled.
pub(crate) const CATCH_UP: usize = 2;

/// Queued buffers from which on whole buffers are handled.
const MAX_INTERLEAVED_BACKLOG: usize = 12;

/// A buffer that is handled between items of the body.
pub(crate) struct InterleavedBuffer {
    /// Its message type.
    pub(crate) index: usize,
    /// Its source.
    pub(crate) from: u32,
    /// Each message is preceded by its source.
    pub(crate) has_origin: bool,
    pub(crate) storage: Vec<u8>,
    /// Bytes already handled.
    pub(crate) handled: usize,
}

impl<S> RuntimeState<S> {
    /// Starts to interleave the first buffer of the local queue, if allowed and none is interleaved. Returns whether
    /// one is.
    pub(crate) fn begin_interleaving(&mut self, state: &S) -> bool {
        let local_queue = &mut self.context.local_queue;
        if !self.may_interleave || local_queue.len() >= MAX_INTERLEAVED_BACKLOG {
            return false;
        }
        if self.interleaved.is_none()
            && let Some(channel) = local_queue.front().map(|first| &mut self.context.channels[first.index])
            && channel.can_interleave
            // A timed buffer is handled as a whole.
            && !channel.stopwatch.is_due()
            && let Some(LocalBuffer { index, from, mut storage, used, .. }) = local_queue.pop_front()
        {
            channel.stopwatch.begin();
            storage.truncate(used);
            let has_origin = channel.frame.has_origin();
            let reporter = PanicReporter { names: &self.names, index };
            self.handlers[index].begin_prefetch(state, Batch { body: &storage, from, has_origin });
            std::mem::forget(reporter);
            self.interleaved = Some(InterleavedBuffer { index, from, has_origin, storage, handled: 0 });
        }
        self.interleaved.is_some()
    }

    /// Handles a chunk of the interleaved buffer.
    #[inline(always)]
    pub(crate) fn interleave(&mut self, state: &mut S) {
        let Self { interleaved: Some(buffer), context, handlers, names, .. } = self else { return };
        let reporter = PanicReporter { names, index: buffer.index };
        handlers[buffer.index].interleave(state, context, buffer);
        std::mem::forget(reporter);
        if buffer.handled >= buffer.storage.len() {
            self.end_interleaving(state);
        }
    }

    #[cold]
    fn end_interleaving(&mut self, state: &S) {
        if let Some(InterleavedBuffer { index, storage, .. }) = self.interleaved.take() {
            let channel = &mut self.context.channels[index];
            channel.statistics.handled += channel.frame.messages_in(storage.len(), false);
            self.context.outgoing.remove_local(storage.len());
            self.context.recycle(storage);
        }
        self.begin_interleaving(state);
    }

    /// Stops interleaving. Returns the rest of the buffer, to be handled as a whole.
    pub(crate) fn stop_interleaving(&mut self) -> Option<LocalBuffer> {
        let InterleavedBuffer { index, from, storage, handled, .. } = self.interleaved.take()?;
        let used = storage.len();
        Some(LocalBuffer { index, from, storage, used, handled })
    }
}
