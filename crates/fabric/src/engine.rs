//! The engine interface: an engine transfers records of bytes, in order, between pairs of ranks. Nothing else is
//! required.
//!
//! [`Endpoint`](crate::Endpoint) implements matching, contexts, eager and rendezvous protocols, synchronous sends,
//! credit and windows once, above all engines. An engine belongs to one rank, which alone drives it; it never calls
//! back.
//!
//! | required | |
//! |---|---|
//! | [`rank`](Fabric::rank), [`size`](Fabric::size), [`name`](Fabric::name) | properties |
//! | [`now`](Fabric::now), [`max_body`](Fabric::max_body) | clock, record size |
//! | [`try_send`](Fabric::try_send), [`poll`](Fabric::poll) | the channel |
//! | [`idle`](Fabric::idle) | waiting |
//! | [`begin_finalize`](Fabric::begin_finalize), [`is_finalized`](Fabric::is_finalized) | finalization |
//! | [`announce_failure`](Fabric::announce_failure) | failure |
//!
//! The other methods default to "unsupported", and the endpoint uses records instead. Override them where the engine
//! has a faster mechanism: `ack` (a cell of the sender), `bulk_*` (memory to memory), `arrive`, `counter_*`,
//! `capabilities` (shared counters), `shared_segment` (slots of all ranks or of a group), `shared_heap` (memory that all
//! ranks map), `liveness*` (failure detection). Engines with virtual time override `charge_*` (computation),
//! `report_unexpected_bytes` (memory), `report_wait` and `set_settling` (why a rank waits). Where ranks share a thread, a
//! handle may be used on the wrong rank (`is_current_rank`).

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use treepie_base::{Error, Result, Span};

use crate::host_collective::HostCollective;
use crate::shared_segment::SharedSegment;

/// The header of a record, opaque to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RecordHeader {
    /// The record kind in the low bits; above them the operation that a message belongs to and the high bits of its
    /// tag. See the `wire` module.
    pub kind: u32,
    /// The context of the communicator.
    pub context: u32,
    /// The low bits of the message tag.
    pub tag: u32,
    /// A number whose meaning depends on `kind`: mostly the operation that a reply refers to.
    pub slot: u32,
}

/// An event that an engine reports.
#[derive(Debug)]
pub enum FabricEvent<'a> {
    /// A record arrived. `body` is in the engine's memory, which the next call of the engine releases.
    Record {
        /// The sender.
        from: u32,
        /// Its header.
        head: RecordHeader,
        /// Its body.
        body: &'a [u8],
    },
    /// A peer called [`Fabric::ack`] on this slot.
    Acked {
        /// The slot.
        slot: u32,
    },
    /// A bulk transfer into `span` is done.
    BulkReceived {
        /// As given to [`Fabric::bulk_recv`].
        slot: u32,
        /// The memory, filled.
        span: Span,
        /// Whether the endpoint must acknowledge the transfer to the sender.
        tell_sender: bool,
    },
    /// A bulk transfer out of `span` is done, or the peer has acknowledged it.
    BulkSent {
        /// As given to [`Fabric::bulk_send`].
        slot: u32,
        /// The memory, free again.
        span: Span,
    },
    /// A bulk transfer failed because the peer terminated, or withdrew its memory.
    BulkFailed {
        /// As given at the start.
        slot: u32,
        /// The memory.
        span: Span,
        /// Whether this rank was the sender.
        sending: bool,
    },
    /// Every rank has arrived at the barrier of this cell.
    BarrierCompleted {
        /// As given to [`Fabric::arrive`].
        cell: u32,
        /// The OR of the bits of all ranks.
        bits: u64,
    },
}

/// The liveness of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It runs, as far as the engine knows.
    Alive,
    /// It starts nothing new, and has sent its last message. It may still access memory.
    Finalizing,
    /// It has failed and only releases its memory.
    Failing,
    /// It has finalized and accesses no memory any more.
    Finalized,
    /// It crashed, panicked or was killed, and accesses no memory any more.
    Failed,
}

/// How long an idle rank sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkKind {
    /// Not at all, or too briefly to matter.
    Brief,
    /// Until an event arrives, or a timeout.
    Timeout,
    /// Until an event arrives.
    Indefinite,
}

/// The descriptor of a bulk transfer that the receiver sends to the sender. Opaque above the engine. The sender's
/// engine validates it against the tables of the receiver's engine.
pub type BulkDescriptor = [u64; 4];

/// A bulk transfer that was not started.
#[derive(Debug)]
pub struct BulkError {
    /// The memory, untouched.
    pub span: Span,
    /// The error; none if the engine does not support the transfer, so that the endpoint streams records.
    pub error: Option<Error>,
}

impl BulkError {
    /// The engine does not support this transfer.
    pub fn unsupported(span: Span) -> Self {
        Self { span, error: None }
    }

    /// A key or descriptor is invalid.
    pub fn invalid(span: Span, message: String) -> Self {
        Self { span, error: Some(Error::Engine(message)) }
    }
}

/// An engine: transfers records between ranks. See the [module](self) for the required methods.
pub trait Fabric {
    /// This rank.
    fn rank(&self) -> u32;

    /// The number of ranks.
    fn size(&self) -> u32;

    /// The engine's name, such as `shm`.
    fn name(&self) -> &'static str;

    /// Time since some moment in the past; virtual in a simulation.
    fn now(&self) -> Duration;

    /// The maximum body length of a record; at least 1024.
    fn max_body(&self) -> usize;

    /// Sends a record to another rank, unless there is no room now. Records from one rank to another arrive in order.
    /// The endpoint never sends to its own rank.
    fn try_send(&mut self, to: u32, head: RecordHeader, body: &[u8]) -> bool;

    /// Makes progress and reports one event.
    fn poll(&mut self) -> Option<FabricEvent<'_>>;

    /// Shows an arrived record to `take`, if that costs nothing; `take` returns whether it consumes the record. Returns
    /// whether it did. No substitute for [`poll`](Self::poll): it may skip records, and reports no other events.
    fn poll_if(&mut self, take: &mut dyn FnMut(u32, RecordHeader, &[u8]) -> bool) -> bool {
        let _ = take;
        false
    }

    /// Backs off after `round` (0, 1, 2, ...) consecutive polls without an event: spin, yield, then sleep. Must return
    /// at once if an event has arrived since, or there is room after a failed `try_send`; must return after about 100
    /// ms in any case. Returns whether it slept.
    fn idle(&mut self, round: u32) -> bool;

    /// As [`idle`](Self::idle), but returns after `limit` at the latest. For an engine that wraps this one and has
    /// events of its own, at times that it knows.
    fn idle_for(&mut self, round: u32, limit: Duration) -> bool {
        let _ = limit;
        self.idle(round)
    }

    /// Yields the core after a nonblocking test or probe that found nothing. Must not sleep until an event arrives.
    fn yield_now(&mut self) {
        self.idle(0);
    }

    /// How long [`idle`](Self::idle) would sleep. The endpoint runs its periodic checks before a long sleep.
    fn park_kind(&self, round: u32) -> ParkKind {
        let _ = round;
        ParkKind::Brief
    }

    /// Announces that this rank starts nothing new. Polling continues until [`is_finalized`](Self::is_finalized).
    fn begin_finalize(&mut self);

    /// Whether the engine may be dropped, after [`begin_finalize`](Self::begin_finalize).
    fn is_finalized(&mut self) -> bool;

    /// Announces that this rank has failed and does nothing more; an engine that cannot announce it aborts the job.
    /// The program returned `error`; without one, it panicked.
    fn announce_failure(&mut self, error: Option<&Error>);

    /// Acknowledges operation `slot` of rank `to`, even when the channel to it is full. Returns false if the engine
    /// does not support this slot; the endpoint then sends a record.
    fn ack(&mut self, to: u32, slot: u32) -> bool {
        let _ = (to, slot);
        false
    }

    /// Registers a send buffer and returns the key by which rank `to` finds it. An engine whose ranks copy from each
    /// other's memory enters it into a table and [registers](Span::register) the span, so that the entry ends before
    /// the memory does. [`bulk_recv`](Self::bulk_recv) fails on a key without an entry.
    fn register_bulk(&mut self, to: u32, span: &mut Span) -> u64 {
        let _ = (to, span);
        0
    }

    /// Starts to receive `span.len()` bytes that `from` registered under a key. `Ok(Some(descriptor))`: the endpoint
    /// sends the descriptor to the sender, which passes it to [`bulk_send`](Self::bulk_send). `Ok(None)`: the sender
    /// has nothing to do. An error is a failure, or tells the endpoint to stream the data in records.
    fn bulk_recv(
        &mut self,
        from: u32,
        key: u64,
        slot: u32,
        span: Span,
    ) -> std::result::Result<Option<BulkDescriptor>, BulkError> {
        let _ = (from, key, slot);
        Err(BulkError::unsupported(span))
    }

    /// Performs the sender's part of a bulk transfer, given the descriptor of the peer's `bulk_recv`. A descriptor that
    /// no peer has created is an error; one whose transfer has completed meanwhile has no effect.
    fn bulk_send(
        &mut self,
        to: u32,
        slot: u32,
        descriptor: BulkDescriptor,
        span: Span,
    ) -> std::result::Result<(), BulkError> {
        let _ = (slot, descriptor);
        Err(BulkError::invalid(
            span,
            format!("rank {to} sent a descriptor of a bulk transfer, which this engine does not support"),
        ))
    }

    /// Returns the memory of a [`bulk_send`](Self::bulk_send) that the peer has acknowledged by a record, because
    /// [`ack`](Self::ack) does not support that slot.
    fn finish_bulk_send(&mut self, slot: u32) -> Option<Span> {
        let _ = slot;
        None
    }

    /// Arrives at the barrier of a cell, a counter that all ranks share, and contributes `bits`.
    /// [`FabricEvent::BarrierCompleted`] reports the OR of all bits when all ranks have arrived; the caller arrives
    /// again only after that event. Returns false if there is no such cell, or if this rank has announced that it
    /// finalizes or has failed: a lost rank never arrives again.
    fn arrive(&mut self, cell: u32, bits: u64) -> bool {
        let _ = (cell, bits);
        false
    }

    /// The number of barriers of a cell that a rank has arrived at. Final once the rank is lost
    /// ([`liveness`](Self::liveness)).
    fn arrivals(&self, rank: u32, cell: u32) -> u64 {
        let _ = (rank, cell);
        0
    }

    /// The optional capabilities for protocols.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Increments counter 0 or 1 of a rank for a protocol run. Increments of other runs are discarded. Only where
    /// [`Capabilities::counters`] is set.
    fn counter_add(&mut self, to: u32, counter: u32, run: u32) {
        let _ = (to, counter, run);
        unreachable!("this engine has no counters");
    }

    /// The value of a counter of this rank for a protocol run.
    fn counter_value(&mut self, counter: u32, run: u32) -> u64 {
        let _ = (counter, run);
        0
    }

    /// The shared segment of this rank, if there is one: that of all ranks or, where there are
    /// [`segment_groups`](Self::segment_groups), that of its group.
    fn shared_segment(&mut self) -> Option<&mut dyn SharedSegment> {
        None
    }

    /// For each rank of the world the lowest rank of the group that shares its segment, where segments belong to groups.
    /// Then each rank has a segment, even if it is the only one of its group. Empty where there is no segment or where
    /// it belongs to all ranks. The same on all ranks.
    fn segment_groups(&self) -> &[u32] {
        &[]
    }

    /// The most ranks for each core of a host, rounded up, where ranks are on several hosts. The same on all ranks.
    fn ranks_per_host_core(&self) -> u32 {
        1
    }

    /// Starts a collective operation of the host, which all ranks start. It keeps the spans until it is complete, and
    /// there is at most one. Only where [`Capabilities::host_collectives`] is set;
    /// [`announce_failure`](Self::announce_failure) then ends the job, since the operation cannot be ended.
    fn start_host_collective(&mut self, collective: HostCollective, input: Span, output: Span) {
        let _ = (collective, input, output);
        unreachable!("this engine has no collective operations of its own");
    }

    /// Whether the collective operation of the host is complete, after [`poll`](Self::poll).
    fn host_collective_is_complete(&self) -> bool {
        true
    }

    /// The heap of shared memory that every rank can map, if there is one.
    fn shared_heap(&mut self) -> Option<&mut dyn SharedHeap> {
        None
    }

    /// A number that changes when the [`liveness`](Self::liveness) of any rank changes.
    fn liveness_epoch(&self) -> u32 {
        0
    }

    /// The liveness of a rank. An engine without failure detection returns `Alive`, and the endpoint pings the rank
    /// when it has waited for a while.
    fn liveness(&self, rank: u32) -> Liveness {
        let _ = rank;
        Liveness::Alive
    }

    /// Reports the ranks whose liveness has changed since an [epoch](Self::liveness_epoch), or ever. May report others,
    /// too; only ranks that are no longer `Alive` matter.
    fn liveness_since(&self, epoch: Option<u32>, report: &mut dyn FnMut(u32, Liveness)) {
        let _ = epoch;
        (0..self.size()).for_each(|rank| report(rank, self.liveness(rank)));
    }

    /// The position up to which peers have started to send to this rank; for [`has_drained_to`](Self::has_drained_to).
    fn inbound_tail(&self) -> u64 {
        0
    }

    /// Whether this rank has read all records before an [`inbound_tail`](Self::inbound_tail). If not, a peer is still
    /// writing, and its record hides later ones of other peers, which may have terminated since.
    fn has_drained_to(&self, tail: u64) -> bool {
        let _ = tail;
        true
    }

    /// Whether the caller is this rank. Where ranks share a thread, a handle may have reached the code of another rank,
    /// which can neither send nor wait by it: operations that start there fail, and nothing else changes.
    fn is_current_rank(&self) -> bool {
        true
    }

    /// Whether each rank is a separate process, which can exit without affecting others.
    fn rank_is_process(&self) -> bool {
        false
    }

    /// The number of cores that all ranks share, if they are on one machine. The same on all ranks.
    fn cores(&self) -> Option<u32> {
        None
    }

    /// Whether each rank of this rank's host has a core.
    fn has_dedicated_core(&self) -> bool {
        self.cores().is_some_and(|cores| self.size() <= cores)
    }

    /// The lowest rank on the host of each rank, where ranks are on several hosts and the engine knows on which. The same
    /// on all ranks.
    fn hosts(&self) -> &[u32] {
        &[]
    }

    /// Whether the engine detects failures, so that [`liveness`](Self::liveness) is accurate.
    fn detects_failures(&self) -> bool {
        true
    }

    /// Charges computation time, where time is virtual.
    fn charge_time(&mut self, time: Duration) {
        let _ = time;
    }

    /// Charges units of work, such as messages sent and handled, where time is virtual. The simulation defines the cost
    /// of a unit.
    fn charge_work(&mut self, units: u64) {
        let _ = units;
    }

    /// Charges the reduction of a number of bytes, where time is virtual.
    fn charge_reduction(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Reports the number of buffered bytes of unexpected messages, after it has changed.
    fn report_unexpected_bytes(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Reports what a rank waits for, each time [`idle`](Self::idle) has slept, and now and then if it never does. The
    /// rank continues to wait.
    fn report_wait(&mut self, what: &dyn fmt::Display) {
        let _ = what;
    }

    /// Sets whether this rank waits for borrowed memory at the end of a scope. Meanwhile an engine that ends ranks by
    /// unwinding must fail the pending operations instead.
    fn set_settling(&mut self, settling: bool) {
        let _ = settling;
    }
}

/// Optional capabilities of an engine for protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Number of cells for [`Fabric::arrive`].
    pub barrier_cells: u32,
    /// When a barrier has completed, each rank can poll everything that others sent before they arrived.
    pub barrier_orders_messages: bool,
    /// Each rank has two counters for [`Fabric::counter_add`].
    pub counters: bool,
    /// There are collective operations of the host: [`Fabric::start_host_collective`].
    pub host_collectives: bool,
}

/// A heap of shared memory: allocates pieces that every rank can map.
pub trait SharedHeap {
    /// Reserves a piece and returns its offset. One rank does this for all that use it.
    fn reserve(&mut self, bytes: u64) -> Result<u64>;

    /// Maps the piece that all ranks have in common, initially zero. The first rank that asks reserves it; all ask for
    /// the same length.
    fn map_common(&mut self, bytes: u64) -> Result<Rc<dyn SharedMemory>>;

    /// Maps a piece, initially zero. Dropping the last handle of a rank unmaps it there. An error outside reserved
    /// memory.
    fn map(&mut self, at: u64, bytes: u64) -> Result<Rc<dyn SharedMemory>>;

    /// Releases the memory. One rank does this when no rank uses the piece any more: remaining mappings see zeros. An
    /// error outside reserved memory.
    fn release(&mut self, at: u64, bytes: u64) -> Result<()>;
}

/// A mapped piece of shared memory. Other ranks may change it at any time; 8-byte words never tear.
pub trait SharedMemory {
    /// Copies out. Panics outside the piece.
    fn load(&self, at: u64, into: &mut [u8]);
    /// Copies in. Panics outside the piece.
    fn store(&self, at: u64, from: &[u8]);
    /// Adds to the word at `at`, a multiple of 8, and returns its previous value.
    fn fetch_add(&self, at: u64, value: u64) -> u64;
    /// Replaces the word at `at`, a multiple of 8, by `new` if it is `current`. Returns its previous value.
    fn compare_exchange(&self, at: u64, current: u64, new: u64) -> u64;
}
