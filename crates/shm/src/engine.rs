//! The engine: records through inboxes and rings, acknowledgements through bitmaps, large messages in one copy.
//!
//! A pair starts in the receiver's inbox. After enough records, the sender claims one of the receiver's free rings,
//! announces it by its last record in the inbox, and continues in the ring. The receiver polls the ring only after it
//! has read that record, so the pair's records stay in order.

mod receive;
mod send;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use treepie_base::{Error, Result, Span};
use treepie_fabric::{
    BulkDescriptor, BulkError, Capabilities, Fabric, FabricEvent, Liveness, ParkKind, RecordHeader, SharedHeap,
};

use crate::arena::{ACK_SLOTS, Arena, BARRIER_CELLS};
use crate::backoff::SpinBackoff;
use crate::doorbell::Doorbell;
use crate::heap::Heap;
use crate::inbox::{Inbox, InboxWriter};
use crate::membarrier;
use crate::peer_access::PeerAccess;
use crate::pending_barrier::ShmBarrier;
use crate::primitive::FenceMode;
use crate::ring::{RingReader, RingWriter};
use crate::segment::ShmSegment;
use crate::single_copy::SingleCopy;

/// Bit in the sender field of the record that announces the switch to the ring `slot`. Record headers belong to the
/// endpoints: no kind of record may have a meaning to the engine.
const SWITCH_TO_RING: u32 = 1 << 31;

/// The channel of this rank's records to a peer.
#[derive(Clone, Copy)]
enum PeerChannel {
    /// The peer's inbox, with the number of records to send before claiming a ring pays off.
    Inbox(u32),
    /// None yet: a ring is claimed, this one of `writers`, but not yet announced to the receiver.
    Announcing { writer: u32, ring: u32 },
    /// This one of `writers`.
    Ring(u32),
}

/// Where the record lies that `poll` returned last.
enum HeldRecord {
    Nothing,
    Inbox,
    Ring(usize),
}

/// The first item of the inbox.
#[derive(PartialEq)]
enum InboxItem {
    Nothing,
    Record,
    /// A peer has switched to a ring, which is polled from now on; the item is consumed.
    NewRing,
}

/// The endpoint's engine of one rank of a world in shared memory.
pub struct Shm {
    name: &'static str,
    rank: u32,
    channels: Vec<PeerChannel>,
    /// Rings to peers, each with the doorbell of its reader.
    writers: Vec<(&'static Doorbell, RingWriter)>,
    inbox: Inbox,
    /// Rings to this rank, each with the doorbell of its writer.
    readers: Vec<(&'static Doorbell, RingReader)>,
    /// The ring to poll first: the one that had a record last.
    last_ready_ring: usize,
    held_record: HeldRecord,
    single_copy: SingleCopy,
    pending_barriers: Vec<ShmBarrier>,
    /// This rank has announced that it finalizes or has failed.
    is_departing: bool,
    /// Peers whose channel was full since the last park, and the shortest body that did not fit.
    blocked_sends: Vec<(u32, usize)>,
    backoff: SpinBackoff,
    polls: u32,
    /// Whether this rank's writers fence.
    fence_mode: FenceMode,
    /// Whether other ranks' writers may not, so that this rank fences them when it parks; and whether that has failed.
    asymmetric_fences: bool,
    membarrier_failed: bool,
    /// The liveness epoch when the last poll found nothing.
    seen_liveness_epoch: u32,
    start: Instant,
    segment: ShmSegment,
    /// The lowest rank of the segment's group of each rank; empty if there is one group.
    segment_groups: Vec<u32>,
    heap: Heap,
    /// Last, as everything above refers into it.
    arena: Arc<Arena>,
}

impl Shm {
    /// Joins a world as one of its ranks. Fails if there is no such rank, or if it has been joined before.
    pub fn join(arena: Arc<Arena>, rank: u32) -> Result<Self> {
        arena.claim_rank(rank)?;
        let (size, threads) = (arena.ranks(), arena.has_threads());
        let layout = arena.layout();
        let control = arena.control(rank);
        if !threads {
            crate::peer_access::permit_cma();
        }
        let asymmetric_fences = arena.header().asymmetric_fences != 0;
        let fence_mode =
            if asymmetric_fences && membarrier::register() { FenceMode::Asymmetric } else { FenceMode::Symmetric };
        let groups = layout.groups;
        let segment_groups = match groups.count() {
            // One for all, or none that is shared.
            1 => Vec::new(),
            count if count == size => Vec::new(),
            _ => (0..size).map(|rank| groups.members(groups.group_of(rank)).start).collect(),
        };
        let members = groups.members(groups.group_of(rank)).collect();
        let has_dedicated_core = size <= arena.header().cores;
        let access = PeerAccess::new(threads);
        let segment = ShmSegment::new(arena.clone(), rank, members, has_dedicated_core, fence_mode, access);
        // With a ring for every peer there is no reason to begin in the inbox.
        let first = if size - 1 <= layout.rings { 0 } else { 16 };
        Ok(Self {
            name: if threads { "threads" } else { "shm" },
            rank,
            channels: vec![PeerChannel::Inbox(first); size as usize],
            writers: Vec::new(),
            inbox: Inbox::new(&control.inbox, arena.inbox_memory(rank)),
            readers: Vec::new(),
            last_ready_ring: 0,
            held_record: HeldRecord::Nothing,
            single_copy: SingleCopy::new(&arena, rank),
            pending_barriers: Vec::new(),
            is_departing: false,
            blocked_sends: Vec::new(),
            backoff: SpinBackoff::for_ranks(size, arena.header().cores),
            polls: 0,
            fence_mode,
            asymmetric_fences,
            membarrier_failed: false,
            seen_liveness_epoch: 0,
            start: Instant::now(),
            segment,
            segment_groups,
            heap: Heap::new(arena.clone()),
            arena,
        })
    }

    /// Whether a poll, or a send that was blocked, would progress now. Evaluated after this rank has set its doorbell.
    fn has_pending_work(&mut self) -> bool {
        self.inbox.is_ready()
            || self.readers.iter_mut().any(|(_, reader)| reader.is_ready())
            || self.arena.control(self.rank).has_acks()
            || self.pending_barriers.iter().any(|barrier| barrier.is_complete(&self.arena))
            || self.single_copy.can_progress(&self.arena)
            || self.segment.awaited_has_published()
            || self.liveness_epoch() != self.seen_liveness_epoch
            || self.blocked_sends.iter().any(|&(to, body)| match self.channels[to as usize] {
                PeerChannel::Ring(i) => self.writers[i as usize].1.has_room(body),
                _ => {
                    InboxWriter::new(&self.arena.control(to).inbox, self.arena.inbox_memory(to)).has_room_or_block(body)
                }
            })
    }
}

#[cfg(test)]
impl Shm {
    /// Whether what this rank waits for in the segment has come.
    pub(crate) fn segment_has_pending_work(&mut self) -> bool {
        self.segment.awaited_has_published()
    }
}

impl Fabric for Shm {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.channels.len() as u32
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn max_body(&self) -> usize {
        self.arena.layout().max_body()
    }

    #[inline]
    fn try_send(&mut self, to: u32, head: RecordHeader, body: &[u8]) -> bool {
        match self.channels[to as usize] {
            PeerChannel::Ring(i) => {
                let (reader, ring) = &mut self.writers[i as usize];
                let sent = ring.push(self.rank, head, body, reader, self.fence_mode);
                if !sent {
                    self.record_blocked_send(to, body.len());
                }
                sent
            }
            _ => self.send_via_inbox(to, head, body),
        }
    }

    #[inline]
    fn poll(&mut self) -> Option<FabricEvent<'_>> {
        self.free_held_record();
        // Records first, as they are mostly what the caller waits for, and from the ring that had some last; but a
        // flood of them must starve neither the other rings, nor the inbox, nor the completions.
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(64) {
            self.last_ready_ring += 1;
            if self.peek_inbox() == InboxItem::Record {
                return self.recv_from_inbox();
            }
            if let Some(event) = self.poll_completions(false) {
                return Some(event);
            }
        }
        loop {
            if let Some(i) = self.ready_ring() {
                self.held_record = HeldRecord::Ring(i);
                let (prefix, body) = self.readers[i].1.next().expect("it is ready");
                return Some(FabricEvent::Record { from: prefix.from, head: prefix.head, body });
            }
            match self.peek_inbox() {
                InboxItem::Record => return self.recv_from_inbox(),
                // The new ring may have a record.
                InboxItem::NewRing => {}
                InboxItem::Nothing => break,
            }
        }
        self.seen_liveness_epoch = self.liveness_epoch();
        self.poll_completions(true)
    }

    #[inline]
    fn poll_if(&mut self, take: &mut dyn FnMut(u32, RecordHeader, &[u8]) -> bool) -> bool {
        self.free_held_record();
        match self.readers.get_mut(self.last_ready_ring) {
            Some((writer, reader)) => reader.next_if(writer, |prefix, body| take(prefix.from, prefix.head, body)),
            None => false,
        }
    }

    fn park_kind(&self, round: u32) -> ParkKind {
        if self.backoff.is_completed(round) { ParkKind::Timeout } else { ParkKind::Brief }
    }

    fn idle(&mut self, round: u32) -> bool {
        self.idle_for(round, Duration::MAX)
    }

    fn idle_for(&mut self, round: u32, limit: Duration) -> bool {
        self.free_held_record();
        if self.backoff.snooze(round) {
            return false;
        }
        let doorbell = &self.arena.control(self.rank).doorbell;
        // If the others cannot be fenced, a wake-up may be lost; then poll again soon.
        let limit = limit.min(Duration::from_millis(if self.membarrier_failed { 1 } else { 100 }));
        let (asymmetric, mut failed) = (self.asymmetric_fences, false);
        let fence = || failed = if asymmetric { !membarrier::fence_all() } else { full_fence() };
        let parked = self.segment.parked();
        parked.while_parked(|| doorbell.park(limit, fence, || self.has_pending_work()));
        self.membarrier_failed |= failed;
        self.blocked_sends.clear();
        true
    }

    fn yield_now(&mut self) {
        self.free_held_record();
        self.backoff.yield_now();
    }

    fn begin_finalize(&mut self) {
        self.is_departing = true;
        self.arena.report(self.rank, Liveness::Finalizing);
    }

    fn is_finalized(&mut self) -> bool {
        true
    }

    fn announce_failure(&mut self, error: Option<&Error>) {
        self.is_departing = true;
        match error {
            Some(_) => self.arena.report_error(self.rank),
            None => self.arena.report(self.rank, Liveness::Failing),
        }
    }

    fn ack(&mut self, to: u32, slot: u32) -> bool {
        if slot >= ACK_SLOTS {
            return false;
        }
        self.arena.control(to).ack(slot);
        true
    }

    fn register_bulk(&mut self, to: u32, span: &mut Span) -> u64 {
        self.single_copy.register_send(to, span)
    }

    fn bulk_recv(
        &mut self,
        from: u32,
        key: u64,
        slot: u32,
        span: Span,
    ) -> std::result::Result<Option<BulkDescriptor>, BulkError> {
        self.single_copy.pull(&self.arena, from, key, slot, span)
    }

    fn bulk_send(&mut self, to: u32, slot: u32, cts: BulkDescriptor, span: Span) -> std::result::Result<(), BulkError> {
        self.single_copy.push(&self.arena, to, slot, cts, span)
    }

    fn finish_bulk_send(&mut self, slot: u32) -> Option<Span> {
        self.single_copy.complete_push(slot)
    }

    fn arrive(&mut self, cell: u32, traffic_summary: u64) -> bool {
        if cell >= BARRIER_CELLS || self.is_departing {
            return false;
        }
        let arrivals = &self.arena.control(self.rank).arrivals;
        let barrier = arrivals.last(cell) + 1;
        self.pending_barriers.push(ShmBarrier::new(cell, barrier));
        let arrived = self.arena.barrier_cell(cell).arrive(barrier, traffic_summary);
        arrivals.record(cell, barrier);
        if arrived == barrier * self.channels.len() as u64 {
            self.arena.notify_all();
        }
        true
    }

    fn arrivals(&self, rank: u32, cell: u32) -> u64 {
        if cell < BARRIER_CELLS { self.arena.control(rank).arrivals.last(cell) } else { 0 }
    }

    fn capabilities(&self) -> Capabilities {
        // Records lie where their reader polls before `try_send` returns, and arriving orders them before the barrier.
        Capabilities {
            barrier_cells: BARRIER_CELLS,
            barrier_orders_messages: true,
            counters: true,
            host_collectives: false,
        }
    }

    fn counter_add(&mut self, to: u32, counter: u32, run: u32) {
        self.arena.control(to).counters[counter as usize % 2].increment(run);
    }

    fn counter_value(&mut self, counter: u32, run: u32) -> u64 {
        self.arena.control(self.rank).counters[counter as usize % 2].value(run).into()
    }

    #[inline]
    fn shared_segment(&mut self) -> Option<&mut dyn treepie_fabric::SharedSegment> {
        Some(&mut self.segment)
    }

    fn segment_groups(&self) -> &[u32] {
        &self.segment_groups
    }

    fn shared_heap(&mut self) -> Option<&mut dyn SharedHeap> {
        Some(&mut self.heap)
    }

    fn liveness_epoch(&self) -> u32 {
        self.arena.header().liveness_epoch.load(Ordering::Acquire)
    }

    fn inbound_tail(&self) -> u64 {
        self.inbox.reserved_tail()
    }

    fn has_drained_to(&self, tail: u64) -> bool {
        // A process killed between reserving and publishing hides all later records for ever. The launcher ends the
        // job.
        let is_dead = |rank| self.liveness(rank) == Liveness::Failed;
        self.inbox.has_read(tail) || (self.rank_is_process() && (0..self.arena.ranks()).any(is_dead))
    }

    fn cores(&self) -> Option<u32> {
        Some(self.arena.header().cores.max(1))
    }

    fn rank_is_process(&self) -> bool {
        self.name == "shm"
    }

    fn liveness(&self, rank: u32) -> Liveness {
        self.arena.control(rank).life()
    }
}

/// A full fence of this rank; cannot fail.
fn full_fence() -> bool {
    std::sync::atomic::fence(Ordering::SeqCst);
    false
}

impl Drop for Shm {
    fn drop(&mut self) {
        self.free_held_record();
        let failed = std::thread::panicking() || self.arena.has_failed(self.rank);
        let life = if failed { Liveness::Failed } else { Liveness::Finalized };
        self.arena.report(self.rank, life);
    }
}
