//! The send path: from a message to the buffer for its next hop.
//!
//! A send appends the message to the buffer for its destination and never runs a handler. So there is no recursion, and
//! a body may borrow the state. Messages of a rank to itself are buffered too: running the handler in the send would be
//! half as fast, as the two loops would disturb each other.

use std::collections::VecDeque;

use bytemuck::{Pod, bytes_of};
use treepie_base::{Error, Rank};

use crate::cache_sampling::BodyClock;
use crate::coalescing::MAX_BUFFER_BYTES;
use crate::injected_fault::{FaultInjection, InjectedFault};
use crate::outgoing::{Outgoing, QueuedBuffer};
use crate::port::Port;
use crate::reduction::CacheOutcome;
use crate::tag::data_tag;
use crate::trace::Trace;
use crate::type_channel::{CacheMode, TypeChannel, split_u32};

/// What a rank sends in an epoch, whatever the state that handlers work on.
pub(crate) struct SendPath {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) channels: Vec<TypeChannel>,
    /// Channel and slot of open buffers.
    open_buffers: Vec<(u32, u32)>,
    pub(crate) outgoing: Outgoing,
    /// Buffers to be handled here, mostly of this rank for itself.
    pub(crate) local_queue: VecDeque<LocalBuffer>,
    /// Free memory of buffers.
    pool: Vec<Vec<u8>>,
    /// There are buffers for the engine or for handlers.
    pub(crate) needs_progress: bool,
    pub(crate) clock: BodyClock,
    pub(crate) sum: u64,
    /// The first error of a send or handler.
    pub(crate) error: Option<Error>,
    /// The parity of the current round.
    pub(crate) round: usize,
    pub(crate) trace: Option<Box<Trace>>,
    pub(crate) faults: FaultInjection,
    /// Work already charged to the simulation.
    charged_work: u64,
}

/// A buffer to be handled here.
pub(crate) struct LocalBuffer {
    /// Its message type.
    pub(crate) index: usize,
    /// Its source, mostly this rank.
    pub(crate) from: u32,
    pub(crate) storage: Vec<u8>,
    /// Bytes in use.
    pub(crate) used: usize,
    /// Bytes already handled.
    pub(crate) handled: usize,
}

/// Maximum number of pooled buffers.
const MAX_POOLED_BUFFERS: usize = 64;

/// Maximum capacity of a pooled buffer.
const MAX_POOLED_BYTES: usize = 1 << 20;

/// Bytes of a newly opened buffer if the pool is empty.
const INITIAL_BUFFER_BYTES: usize = 1 << 10;

impl SendPath {
    pub(crate) fn new(rank: u32, ranks: u32, channels: Vec<TypeChannel>) -> Self {
        Self {
            rank,
            ranks,
            channels,
            open_buffers: Vec::new(),
            outgoing: Outgoing::default(),
            local_queue: VecDeque::new(),
            pool: Vec::new(),
            needs_progress: false,
            clock: BodyClock::default(),
            sum: 0,
            error: None,
            round: 0,
            trace: None,
            faults: FaultInjection::default(),
            charged_work: 0,
        }
    }

    /// Adds to the sum that the epoch returns.
    #[inline]
    pub(crate) fn add_to_sum(&mut self, value: u64) {
        self.sum = self.sum.wrapping_add(value);
    }

    /// Sends a message.
    #[inline(always)]
    pub(crate) fn send<M: Pod>(&mut self, port: Port<M>, to: Rank, message: M) {
        if let Some(buffer) = self.channels[port.index].buffers.fast_path(to)
            && buffer.try_push(bytes_of(&message))
        {
            return;
        }
        let mut message = message;
        self.send_bytes(port.index, to, bytemuck::bytes_of_mut(&mut message));
    }

    /// Sends the bytes of a message; may overwrite them.
    #[inline(never)]
    pub(crate) fn send_bytes(&mut self, index: usize, to: Rank, bytes: &mut [u8]) {
        let size = self.ranks as usize;
        if to >= size {
            self.error.get_or_insert(Error::BadRank { rank: to, size });
            return;
        }
        self.route(index, to as u32, self.rank, bytes);
    }

    /// Routes a message of this rank or a forwarded one.
    fn route(&mut self, index: usize, to: u32, origin: u32, bytes: &mut [u8]) {
        if to == self.rank {
            return self.push(index, self.channels[index].self_index, to, origin, bytes);
        }
        let channel = &mut self.channels[index];
        let slot = channel.routes.next_hop_index(to);
        if !channel.uses_caches() {
            return self.push(index, slot, to, origin, bytes);
        }
        let outcome = channel.caches.as_mut().expect("it uses them").insert(slot, to, bytes);
        channel.statistics.cache_lookups += 1;
        channel.statistics.combined += u64::from(outcome == CacheOutcome::Combined);
        if outcome != CacheOutcome::Combined {
            channel.mark_dirty(slot);
        }
        let entries = channel.entries;
        let keeps_cache = match &mut channel.cache_mode {
            CacheMode::Adaptive(sampler) => sampler.on_lookup(outcome == CacheOutcome::Combined, entries, &self.clock),
            _ => true,
        };
        if let CacheOutcome::Evicted(before) = outcome {
            self.push(index, slot, before, origin, bytes);
        }
        if !keeps_cache {
            self.flush_caches(index);
            self.channels[index].free_caches();
            self.channels[index].update_fast_path();
        }
    }

    /// Appends a message to a buffer.
    fn push(&mut self, index: usize, slot: usize, to: u32, origin: u32, bytes: &[u8]) {
        let TypeChannel { frame, buffers, buffer_infos, max_parcels, .. } = &mut self.channels[index];
        if !frame.routed && frame.size.is_some() && buffers[slot].try_push_short(bytes) {
            return;
        }
        assert!(frame.size.is_none_or(|size| size == bytes.len()), "a port was used with another runtime");
        let (frame, has_destination) = (*frame, buffer_infos[slot].has_destination);
        let need = frame.header_len(has_destination) + bytes.len();
        assert!(need <= MAX_BUFFER_BYTES, "a message is longer than 2 GiB");
        let is_full = frame.size.is_none() && buffer_infos[slot].parcels >= *max_parcels;
        if is_full || buffers[slot].used() + need > buffers[slot].storage.len() {
            self.make_room(index, slot, need, is_full);
        }
        let TypeChannel { buffers, buffer_infos, .. } = &mut self.channels[index];
        let buffer = &mut buffers[slot];
        let mut push = |bytes: &[u8]| {
            let done = buffer.try_push_short(bytes);
            assert!(done, "room was made");
        };
        if has_destination {
            push(&to.to_ne_bytes());
        }
        if frame.has_origin() {
            push(&origin.to_ne_bytes());
        }
        if frame.size.is_none() {
            push(&(bytes.len() as u32).to_ne_bytes());
            buffer_infos[slot].parcels += 1;
        }
        push(bytes);
    }

    /// Makes room in a buffer: opens it, grows it up to its target size, or sends it.
    fn make_room(&mut self, index: usize, slot: usize, need: usize, is_full: bool) {
        let channel = &mut self.channels[index];
        let (self_index, target) = (channel.self_index, channel.buffer_infos[slot].target_size);
        let buffer = &mut channel.buffers[slot];
        let room = buffer.storage.len();
        if room == 0 {
            self.open_buffers.push((index as u32, slot as u32));
            channel.counts.open_buffers += usize::from(slot != self_index);
        } else if room < target && !is_full {
            buffer.storage.resize((4 * room).min(target).max(buffer.used() + need), 0);
            channel.counts.open_bytes += buffer.storage.len() - room;
            return channel.record_memory();
        } else if buffer.used() > 0 {
            self.send_buffer(index, slot, true);
        }
        let target = self.channels[index].buffer_infos[slot].target_size;
        let memory = self.memory(target, need);
        let channel = &mut self.channels[index];
        channel.counts.open_bytes += memory.len();
        channel.buffers[slot].storage = memory;
        channel.record_memory();
    }

    /// Memory for a buffer that may grow to `target`. New memory starts short, so that no more is zeroed than needed;
    /// pooled memory is used as it is.
    fn memory(&mut self, target: usize, need: usize) -> Vec<u8> {
        let mut memory = self.pool.pop().unwrap_or_default();
        let least = target.min(INITIAL_BUFFER_BYTES).max(need);
        let room = memory.len().min(target).max(least);
        memory.resize(room, 0);
        memory
    }

    /// Returns the memory of a buffer to the pool.
    pub(crate) fn recycle(&mut self, memory: Vec<u8>) {
        if self.pool.len() < MAX_POOLED_BUFFERS && memory.capacity() <= MAX_POOLED_BYTES {
            self.pool.push(memory);
        }
    }

    /// Queues a received buffer, to be handled between items of the body.
    pub(crate) fn enqueue_local(&mut self, index: usize, from: u32, body: &[u8]) {
        let mut storage = self.pool.pop().unwrap_or_default();
        storage.clear();
        storage.extend_from_slice(body);
        let used = storage.len();
        self.outgoing.add_local(used);
        self.local_queue.push_back(LocalBuffer { index, from, storage, used, handled: 0 });
    }

    /// Sends the contents of a buffer and takes its memory.
    fn send_buffer(&mut self, index: usize, slot: usize, is_full: bool) {
        self.needs_progress = true;
        let channel = &mut self.channels[index];
        channel.record_sent(slot, is_full, &self.clock);
        channel.counts.open_bytes -= channel.buffers[slot].storage.len();
        if slot == channel.self_index {
            let buffer = std::mem::take(&mut channel.buffers[slot]);
            let (used, storage) = (buffer.used(), buffer.storage);
            self.outgoing.add_local(used);
            self.local_queue.push_back(LocalBuffer { index, from: self.rank, storage, used, handled: 0 });
            return;
        }
        let data = channel.buffers[slot].take();
        let info = &channel.buffer_infos[slot];
        let (to, tag) = (info.to, data_tag(index, info.has_destination, self.round));
        if let Some(trace) = &mut self.trace {
            trace.record_sent(index, to, data.len());
        }
        self.outgoing.push(to, QueuedBuffer { tag, data });
    }

    /// Flushes the buffers of this rank to itself to the local queue.
    #[inline]
    pub(crate) fn flush_local(&mut self) {
        for index in 0..self.channels.len() {
            let self_index = self.channels[index].self_index;
            let buffer = &self.channels[index].buffers[self_index];
            if buffer.used() > 0 {
                let room = buffer.storage.len();
                self.send_buffer(index, self_index, false);
                let memory = self.memory(room, 0);
                self.channels[index].counts.open_bytes += memory.len();
                self.channels[index].buffers[self_index].storage = memory;
            }
        }
    }

    /// Flushes all caches and buffers. Returns whether there were any messages.
    #[inline]
    pub(crate) fn flush(&mut self) -> bool {
        for index in 0..self.channels.len() {
            if !self.channels[index].dirty_caches.is_empty() && !self.faults.is(InjectedFault::UnflushedCaches) {
                self.flush_caches(index);
            }
        }
        let mut any = false;
        let mut open_buffers = std::mem::take(&mut self.open_buffers);
        for (index, slot) in open_buffers.drain(..) {
            let (index, slot) = (index as usize, slot as usize);
            if self.channels[index].buffers[slot].used() > 0 {
                any = true;
                self.send_buffer(index, slot, false);
            } else {
                let memory = std::mem::take(&mut self.channels[index].buffers[slot].storage);
                self.channels[index].counts.open_bytes -= memory.len();
                self.recycle(memory);
            }
            let channel = &mut self.channels[index];
            channel.counts.open_buffers -= usize::from(slot != channel.self_index);
        }
        self.open_buffers = open_buffers;
        any
    }

    /// Moves the messages of all caches of a type into buffers.
    fn flush_caches(&mut self, index: usize) {
        let Some(mut caches) = self.channels[index].caches.take() else { return };
        for slot in self.channels[index].take_dirty() {
            let slot = slot as usize;
            // Combined types have no origin.
            caches.drain(slot, &mut |to, bytes| self.push(index, slot, to, 0, bytes));
        }
        self.channels[index].caches = Some(caches);
    }

    /// Forwards the messages of a buffer, some of which may be for this rank.
    pub(crate) fn forward(&mut self, index: usize, body: &[u8]) {
        let frame = self.channels[index].frame;
        let mut rest = body;
        let mut message = Vec::new();
        while let Some((to, after)) = split_u32(rest) {
            let (origin, after) = if frame.has_origin() { split_u32(after).unwrap_or((0, after)) } else { (0, after) };
            let (size, after) = match frame.size {
                Some(size) => (size, after),
                None => split_u32(after).map_or((0, after), |(size, after)| (size as usize, after)),
            };
            let (bytes, after) = after.split_at(size.min(after.len()));
            rest = after;
            self.channels[index].counts.received_routed += 1;
            self.channels[index].counts.received_routed_local += u64::from(to == self.rank);
            message.clear();
            message.extend_from_slice(bytes);
            self.route(index, to, origin, &mut message);
        }
    }

    /// Discards all pending messages after a failed epoch.
    pub(crate) fn clear(&mut self) {
        self.outgoing.clear();
        self.local_queue.clear();
        self.open_buffers.clear();
        (self.sum, self.error, self.round) = (0, None, 0);
        for channel in &mut self.channels {
            for slot in channel.take_dirty() {
                if let Some(caches) = &mut channel.caches {
                    caches.drain(slot as usize, &mut |_, _| ());
                }
            }
            channel.buffers.clear();
            channel.buffer_infos.iter_mut().for_each(|info| info.parcels = 0);
            (channel.counts.open_buffers, channel.counts.open_bytes, channel.counts.deferred_bytes) = (0, 0, 0);
            channel.deferred.clear();
        }
    }

    /// Messages pushed, looked up in caches or handled since the last call.
    #[inline]
    pub(crate) fn take_work(&mut self) -> u64 {
        let of_channel = |channel: &TypeChannel| {
            channel.counts.pushed + channel.statistics.cache_lookups + channel.statistics.handled
        };
        let all = self.channels.iter().map(of_channel).sum();
        all - std::mem::replace(&mut self.charged_work, all)
    }

    /// Whether this rank is passive without open buffers or errors.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_passive() && self.open_buffers.is_empty() && self.error.is_none()
    }

    /// Whether no buffer is queued, in flight, or waiting to be handled here.
    #[inline]
    pub(crate) fn is_passive(&self) -> bool {
        self.outgoing.pending_buffers == 0 && self.local_queue.is_empty()
    }
}
