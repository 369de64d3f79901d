//! The sending side of one message type: its buffers, its routes and its caches.

use treepie_base::Result;

use crate::cache_sampling::{BodyClock, CacheSampler};
use crate::coalescing::{BufferInfo, BufferSizes, CoalescingBuffers, MAX_BUFFER_BYTES};
use crate::config::{Coalescing, Config, Reductions, Style};
use crate::reduction::ReductionCache;
use crate::routing::RoutingTable;
use crate::statistics::{Stopwatch, TypeStatistics};

/// Entries of an adaptive cache.
const ADAPTIVE_ENTRIES: usize = 1024;

/// Expected bytes of a variable-length message.
const EXPECTED_PARCEL_BYTES: usize = 64;

/// The layout of messages in buffers. The header of a message has, if needed, its destination, its origin and its
/// length (4 bytes each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Bytes of a message; nothing for variable length.
    pub(crate) size: Option<usize>,
    /// The handler takes the source of each message.
    pub(crate) needs_source: bool,
    /// Other ranks forward messages, so the source must be in the header.
    pub(crate) routed: bool,
}

impl Frame {
    /// Whether messages have their origin in the header. With one hop it is the source of the buffer.
    pub(crate) fn has_origin(self) -> bool {
        self.needs_source && self.routed
    }

    /// Bytes of the header of a message.
    pub(crate) fn header_len(self, has_destination: bool) -> usize {
        let word = |is_present: bool| if is_present { 4 } else { 0 };
        word(has_destination) + word(self.has_origin()) + word(self.size.is_none())
    }

    /// The number of fixed-length messages in this number of bytes.
    pub(crate) fn messages_in(self, bytes: usize, has_destination: bool) -> u64 {
        self.size.map_or(0, |size| bytes / (self.header_len(has_destination) + size)) as u64
    }
}

/// Splits off the first word.
pub(crate) fn split_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_ne_bytes(*word), rest))
}

/// The use of caches.
pub(crate) enum CacheMode {
    Off,
    On,
    Adaptive(CacheSampler),
}

/// The sending side of one message type.
pub(crate) struct TypeChannel {
    pub(crate) frame: Frame,
    pub(crate) style: Style,
    pub(crate) routes: RoutingTable,
    sizes: BufferSizes,
    /// Maximum messages of a buffer, for variable length.
    pub(crate) max_parcels: u32,
    /// By neighbor.
    pub(crate) buffers: CoalescingBuffers,
    pub(crate) buffer_infos: Vec<BufferInfo>,
    /// The slot of the buffer of this rank to itself.
    pub(crate) self_index: usize,
    /// Its buffers may be interleaved with the body.
    pub(crate) can_interleave: bool,
    pub(crate) caches: Option<Box<dyn ReductionCache>>,
    pub(crate) cache_mode: CacheMode,
    /// Entries of each cache.
    pub(crate) entries: usize,
    /// Slots whose caches are not empty.
    pub(crate) dirty_caches: Vec<u32>,
    is_dirty: Vec<bool>,
    /// Buffers to be handled after this round, with their sources.
    pub(crate) deferred: Vec<(u32, Vec<u8>)>,
    pub(crate) counts: Counts,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) statistics: TypeStatistics,
}

/// Message counts, updated when buffers are sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Appended to buffers.
    pub(crate) pushed: u64,
    /// Of them to the buffer of this rank to itself.
    pub(crate) pushed_local: u64,
    /// Received in buffers whose messages may be forwarded.
    pub(crate) received_routed: u64,
    /// Of them for this rank.
    pub(crate) received_routed_local: u64,
    /// Open buffers to other ranks, and bytes of all open buffers.
    pub(crate) open_buffers: usize,
    pub(crate) open_bytes: usize,
    /// Bytes deferred to the next round.
    pub(crate) deferred_bytes: usize,
}

impl TypeChannel {
    pub(crate) fn new(
        name: String,
        rank: u32,
        ranks: u32,
        (size, needs_source): (Option<usize>, bool),
        config: &Config,
        caches: Option<Box<dyn ReductionCache>>,
        eager_limit: usize,
    ) -> Result<Self> {
        let routes = RoutingTable::new(rank, ranks, &config.routing)?;
        let frame = Frame { size, needs_source, routed: !routes.is_direct() };
        let neighbors = routes.num_neighbors();
        let sizes =
            BufferSizes::new(config.coalescing, frame.header_len(false) + size.unwrap_or(1), neighbors, eager_limit);
        let target = |has_destination: bool| match config.coalescing {
            // The number of messages with headers. Variable-length messages are counted instead.
            Coalescing::Messages(count) => {
                count.saturating_mul(frame.header_len(has_destination) + size.unwrap_or(EXPECTED_PARCEL_BYTES))
            }
            _ => sizes.initial(),
        };
        let info = |to, has_destination| BufferInfo {
            target_size: target(has_destination).min(MAX_BUFFER_BYTES),
            to,
            has_destination,
            parcels: 0,
        };
        let to = |slot: usize| info(routes.neighbor(slot), routes.may_forward(slot));
        let mut buffer_infos: Vec<BufferInfo> = (0..neighbors).map(to).collect();
        let self_index = if routes.is_direct() { rank as usize } else { neighbors };
        if !routes.is_direct() {
            buffer_infos.push(info(rank, false));
        }
        let (cache_mode, entries) = match config.reductions {
            _ if caches.is_none() => (CacheMode::Off, 0),
            Reductions::Off => (CacheMode::Off, 0),
            Reductions::Entries(entries) => (CacheMode::On, entries.next_power_of_two()),
            Reductions::Adaptive => (CacheMode::Adaptive(CacheSampler::new()), ADAPTIVE_ENTRIES),
        };
        let mut channel = Self {
            frame,
            style: config.style,
            routes,
            sizes,
            max_parcels: match config.coalescing {
                Coalescing::Messages(count) => count.min(u32::MAX as usize) as u32,
                _ => u32::MAX,
            },
            self_index,
            can_interleave: false,
            caches,
            cache_mode,
            entries,
            dirty_caches: Vec::new(),
            is_dirty: vec![false; buffer_infos.len()],
            buffers: CoalescingBuffers::new(buffer_infos.len()),
            buffer_infos,
            deferred: Vec::new(),
            counts: Counts::default(),
            stopwatch: Stopwatch::default(),
            statistics: TypeStatistics { name, ..TypeStatistics::default() },
        };
        if let Some(caches) = &mut channel.caches {
            caches.resize(channel.buffers.len(), channel.entries.max(1));
        }
        channel.update_fast_path();
        Ok(channel)
    }

    /// Whether caches are in use now.
    #[inline]
    pub(crate) fn uses_caches(&self) -> bool {
        match &self.cache_mode {
            CacheMode::Off => false,
            CacheMode::On => true,
            CacheMode::Adaptive(sampler) => sampler.is_on(),
        }
    }

    /// Enables the fast path if messages go to the buffer of their destination without routing, header or cache.
    pub(crate) fn update_fast_path(&mut self) {
        self.buffers.set_fast_path(!self.frame.routed && self.frame.size.is_some() && !self.uses_caches());
    }

    /// Frees the memory of the caches, which must be empty.
    pub(crate) fn free_caches(&mut self) {
        let (neighbors, entries) = (self.buffers.len(), self.entries);
        if let Some(caches) = &mut self.caches {
            caches.resize(neighbors, entries);
        }
    }

    /// Marks the cache of a slot as not empty.
    pub(crate) fn mark_dirty(&mut self, slot: usize) {
        if !std::mem::replace(&mut self.is_dirty[slot], true) {
            self.dirty_caches.push(slot as u32);
            self.record_memory();
        }
    }

    /// Takes the list of slots whose caches are not empty.
    pub(crate) fn take_dirty(&mut self) -> Vec<u32> {
        let dirty = std::mem::take(&mut self.dirty_caches);
        dirty.iter().for_each(|slot| self.is_dirty[*slot as usize] = false);
        dirty
    }

    /// Defers a buffer to the next round.
    pub(crate) fn defer(&mut self, from: u32, body: Vec<u8>) {
        self.counts.deferred_bytes += body.len();
        self.statistics.peak_deferred_bytes = self.statistics.peak_deferred_bytes.max(self.counts.deferred_bytes);
        self.deferred.push((from, body));
    }

    /// Takes the deferred buffers.
    pub(crate) fn take_deferred(&mut self) -> Vec<(u32, Vec<u8>)> {
        self.counts.deferred_bytes = 0;
        std::mem::take(&mut self.deferred)
    }

    /// The number of messages in a buffer.
    pub(crate) fn messages_in(&self, slot: usize) -> u64 {
        let info = &self.buffer_infos[slot];
        match self.frame.size {
            Some(_) => self.frame.messages_in(self.buffers[slot].used(), info.has_destination),
            None => info.parcels.into(),
        }
    }

    /// Counts a buffer that is sent because it is full or the rank is idle, and sets the size of the next one.
    pub(crate) fn record_sent(&mut self, slot: usize, is_full: bool, clock: &BodyClock) {
        let messages = self.messages_in(slot);
        self.counts.pushed += messages;
        let (used, info) = (self.buffers[slot].used(), &mut self.buffer_infos[slot]);
        info.parcels = 0;
        if slot == self.self_index {
            self.counts.pushed_local += messages;
            return;
        }
        info.target_size = if is_full {
            self.sizes.after_full(info.target_size)
        } else {
            self.sizes.after_idle(info.target_size, used)
        };
        self.statistics.buffers += 1;
        self.statistics.bytes += used as u64;
        if let CacheMode::Adaptive(sampler) = &mut self.cache_mode
            && !sampler.is_on()
            && sampler.on_sent_uncached(messages, is_full, clock)
        {
            self.update_fast_path();
        }
    }

    pub(crate) fn record_memory(&mut self) {
        let statistics = &mut self.statistics;
        statistics.peak_open_buffers = statistics.peak_open_buffers.max(self.counts.open_buffers);
        let caches = self.caches.as_ref().map_or(0, |caches| caches.bytes_per_cache() * self.dirty_caches.len());
        statistics.peak_bytes = statistics.peak_bytes.max(self.counts.open_bytes + caches);
        statistics.peak_cache_bytes = statistics.peak_cache_bytes.max(caches);
    }

    /// Statistics of the messages so far.
    pub(crate) fn statistics(&self) -> TypeStatistics {
        let Counts { pushed, pushed_local, received_routed, received_routed_local, .. } = self.counts;
        let statistics = &self.statistics;
        // In a failed epoch messages may have been received and never pushed.
        TypeStatistics {
            sent: (pushed + statistics.combined).saturating_sub(received_routed),
            forwarded: received_routed - received_routed_local,
            local: pushed_local.saturating_sub(received_routed_local),
            handler_time: self.stopwatch.of(statistics.handled),
            ..statistics.clone()
        }
    }
}
