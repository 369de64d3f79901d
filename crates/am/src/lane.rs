//! The sending side of one message type: its buffers, its routes and its caches.

use treepie_base::Result;

use crate::coalescing::{Info, MOST_ROOM, Sizes, Slots};
use crate::config::{Coalescing, Config, Reductions, Style};
use crate::reduction::Reducing;
use crate::routing::Routes;
use crate::sampling::{Clock, Sampling};
use crate::statistics::{Stopwatch, TypeStatistics};

/// Entries of an adaptive cache.
const ADAPTIVE_ENTRIES: usize = 1024;

/// Bytes that a message without a fixed length may be expected to have.
const PARCEL: usize = 64;

/// How messages of a type lie in buffers. Each stands behind what is needed of: its destination, its origin (4 bytes each), its
/// length (4 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Bytes of a message; nothing if they differ.
    pub(crate) size: Option<usize>,
    /// The handler asks who has sent it.
    pub(crate) sourced: bool,
    /// Other ranks pass it on, so who has sent it must be said.
    pub(crate) routed: bool,
}

impl Frame {
    /// Whether messages for their last hop say who has sent them. Where there is one hop, that is who has sent the buffer.
    pub(crate) fn has_origin(self) -> bool {
        self.sourced && self.routed
    }

    /// Bytes before a message.
    pub(crate) fn head(self, mixed: bool) -> usize {
        let word = |is_there: bool| if is_there { 4 } else { 0 };
        word(mixed) + word(self.has_origin()) + word(self.size.is_none())
    }

    /// How many messages of a fixed length so many bytes are.
    pub(crate) fn messages_in(self, bytes: usize, mixed: bool) -> u64 {
        self.size.map_or(0, |size| bytes / (self.head(mixed) + size)) as u64
    }
}

/// Use of caches.
pub(crate) enum Caching {
    Off,
    On,
    Adaptive(Sampling),
}

/// The sending side of one message type.
pub(crate) struct Lane {
    pub(crate) frame: Frame,
    pub(crate) style: Style,
    pub(crate) routes: Routes,
    sizes: Sizes,
    /// A buffer has no more messages than so many, if they have no fixed length.
    pub(crate) most_parcels: u32,
    /// By neighbour.
    pub(crate) slots: Slots,
    pub(crate) infos: Vec<Info>,
    /// The place of this rank's own among them.
    pub(crate) own: usize,
    /// Its buffers may be handled between items of the body.
    pub(crate) can_be_woven: bool,
    pub(crate) caches: Option<Box<dyn Reducing>>,
    pub(crate) caching: Caching,
    /// Entries of each cache.
    pub(crate) entries: usize,
    /// Neighbours whose caches have something in them.
    pub(crate) cached: Vec<u32>,
    is_cached: Vec<bool>,
    /// What is to be handled after this round: who sent it, and a buffer.
    pub(crate) kept: Vec<(u32, Vec<u8>)>,
    pub(crate) counts: Counts,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) statistics: TypeStatistics,
}

/// Messages, counted where buffers are sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Put into buffers.
    pub(crate) put: u64,
    /// Of them into the own one.
    pub(crate) put_own: u64,
    /// Came in buffers whose messages may be passed on.
    pub(crate) came_mixed: u64,
    /// Of them for this rank.
    pub(crate) came_own: u64,
    /// Open buffers, and bytes of them and of the own one.
    pub(crate) open: usize,
    pub(crate) open_bytes: usize,
    /// Bytes kept for the next round.
    pub(crate) kept: usize,
}

impl Lane {
    pub(crate) fn new(
        name: String,
        rank: u32,
        ranks: u32,
        (size, sourced): (Option<usize>, bool),
        config: &Config,
        caches: Option<Box<dyn Reducing>>,
        record: usize,
    ) -> Result<Self> {
        let routes = Routes::new(rank, ranks, &config.routing)?;
        let frame = Frame { size, sourced, routed: !routes.is_direct() };
        let neighbours = routes.neighbours();
        let sizes = Sizes::new(config.coalescing, frame.head(false) + size.unwrap_or(1), neighbours, record);
        let target = |mixed: bool| match config.coalescing {
            // So many with what stands before each. Those of any length are counted, whatever that comes to.
            Coalescing::Messages(count) => count.saturating_mul(frame.head(mixed) + size.unwrap_or(PARCEL)),
            _ => sizes.first(),
        };
        let info = |to, mixed| Info { target: target(mixed).min(MOST_ROOM), to, mixed, parcels: 0 };
        let to = |place: usize| info(routes.neighbour(place), routes.passes_on(place));
        let mut infos: Vec<Info> = (0..neighbours).map(to).collect();
        let own = if routes.is_direct() { rank as usize } else { neighbours };
        if !routes.is_direct() {
            infos.push(info(rank, false));
        }
        let (caching, entries) = match config.reductions {
            _ if caches.is_none() => (Caching::Off, 0),
            Reductions::Off => (Caching::Off, 0),
            Reductions::Entries(entries) => (Caching::On, entries.next_power_of_two()),
            Reductions::Adaptive => (Caching::Adaptive(Sampling::new()), ADAPTIVE_ENTRIES),
        };
        let mut lane = Self {
            frame,
            style: config.style,
            routes,
            sizes,
            most_parcels: match config.coalescing {
                Coalescing::Messages(count) => count.min(u32::MAX as usize) as u32,
                _ => u32::MAX,
            },
            own,
            can_be_woven: false,
            caches,
            caching,
            entries,
            cached: Vec::new(),
            is_cached: vec![false; infos.len()],
            slots: Slots::new(infos.len()),
            infos,
            kept: Vec::new(),
            counts: Counts::default(),
            stopwatch: Stopwatch::default(),
            statistics: TypeStatistics { name, ..TypeStatistics::default() },
        };
        if let Some(caches) = &mut lane.caches {
            caches.resize(lane.slots.len(), lane.entries.max(1));
        }
        lane.settle_straight();
        Ok(lane)
    }

    /// Whether caches are looked into now.
    #[inline]
    pub(crate) fn uses_caches(&self) -> bool {
        match &self.caching {
            Caching::Off => false,
            Caching::On => true,
            Caching::Adaptive(sampling) => sampling.is_on(),
        }
    }

    /// Says whether messages go straight into the buffer for their destination: nothing else is to be done with them.
    pub(crate) fn settle_straight(&mut self) {
        self.slots.go_straight(!self.frame.routed && self.frame.size.is_some() && !self.uses_caches());
    }

    /// Gives the memory of caches back, which are empty.
    pub(crate) fn free_caches(&mut self) {
        let (neighbours, entries) = (self.slots.len(), self.entries);
        if let Some(caches) = &mut self.caches {
            caches.resize(neighbours, entries);
        }
    }

    /// Something is kept in the cache for a neighbour.
    pub(crate) fn note_cached(&mut self, place: usize) {
        if !std::mem::replace(&mut self.is_cached[place], true) {
            self.cached.push(place as u32);
            self.note_memory();
        }
    }

    /// The neighbours whose caches are to be emptied.
    pub(crate) fn take_cached(&mut self) -> Vec<u32> {
        let cached = std::mem::take(&mut self.cached);
        cached.iter().for_each(|place| self.is_cached[*place as usize] = false);
        cached
    }

    /// Keeps a buffer for the next round.
    pub(crate) fn keep(&mut self, from: u32, body: Vec<u8>) {
        self.counts.kept += body.len();
        self.statistics.peak_kept = self.statistics.peak_kept.max(self.counts.kept);
        self.kept.push((from, body));
    }

    /// What was kept for the round that begins.
    pub(crate) fn take_kept(&mut self) -> Vec<(u32, Vec<u8>)> {
        self.counts.kept = 0;
        std::mem::take(&mut self.kept)
    }

    /// How many messages a slot has.
    pub(crate) fn messages_in(&self, place: usize) -> u64 {
        let info = &self.infos[place];
        match self.frame.size {
            Some(_) => self.frame.messages_in(self.slots[place].used(), info.mixed),
            None => info.parcels.into(),
        }
    }

    /// A buffer is about to be sent, because it is full or because there is nothing else to do: counts it, and says how big the
    /// next one is to be.
    pub(crate) fn note_sent(&mut self, place: usize, is_full: bool, clock: &Clock) {
        let messages = self.messages_in(place);
        self.counts.put += messages;
        let (used, info) = (self.slots[place].used(), &mut self.infos[place]);
        info.parcels = 0;
        if place == self.own {
            self.counts.put_own += messages;
            return;
        }
        info.target =
            if is_full { self.sizes.after_full(info.target) } else { self.sizes.after_idle(info.target, used) };
        self.statistics.buffers += 1;
        self.statistics.bytes += used as u64;
        if let Caching::Adaptive(sampling) = &mut self.caching
            && !sampling.is_on()
            && sampling.sent_without(messages, is_full, clock)
        {
            self.settle_straight();
        }
    }

    pub(crate) fn note_memory(&mut self) {
        let statistics = &mut self.statistics;
        statistics.open = statistics.open.max(self.counts.open);
        let caches = self.caches.as_ref().map_or(0, |caches| caches.bytes_of_one() * self.cached.len());
        statistics.peak_bytes = statistics.peak_bytes.max(self.counts.open_bytes + caches);
        statistics.peak_caches = statistics.peak_caches.max(caches);
    }

    /// What has become of its messages so far.
    pub(crate) fn statistics(&self) -> TypeStatistics {
        let Counts { put, put_own, came_mixed, came_own, .. } = self.counts;
        let known = &self.statistics;
        // Of an epoch that failed, some may have come and never been put.
        TypeStatistics {
            sent: (put + known.combined).saturating_sub(came_mixed),
            forwarded: came_mixed - came_own,
            local: put_own.saturating_sub(came_own),
            handler_time: self.stopwatch.of(known.handled),
            ..known.clone()
        }
    }
}
