//! One rank of an MPI job as an engine.
//!
//! It never blocks inside MPI: a waiting rank polls, and pauses in between ([`PollBackoff`]). An MPI that blocks spins,
//! which costs milliseconds a message when ranks outnumber processors.
//!
//! MPI bounds neither the number nor the memory of unexpected messages. The engine throttles only as MPI itself does;
//! the endpoint's credits bound a flood of records.

use std::time::{Duration, Instant};

use treepie_base::{Error, Span};
use treepie_fabric::{
    BulkDescriptor, BulkError, Capabilities, Fabric, FabricEvent, HostCollective, RecordHeader, SharedSegment,
};

use crate::bulk::Bulk;
use crate::exit;
use crate::host_collective::HostCollectives;
use crate::host_segment::HostSegment;
use crate::inbox::Inbox;
use crate::poll_backoff::PollBackoff;
use crate::record::MAX_BODY;
use crate::send_queue::MpiSendQueue;
use crate::shim::{MpiRequest, Shim, WorldInfo};

/// The exit status of a job in which a rank failed; that of a Rust program that panics.
const EXIT_PANIC: i32 = 101;
/// That of a Rust program whose `main` returns an error.
const EXIT_ERROR: i32 = 1;

/// The fabric of one rank, an MPI process.
pub(crate) struct MpiFabric {
    shim: Shim,
    world: WorldInfo,
    /// The host of each rank; empty if there is one.
    hosts: Vec<u32>,
    host_segment: HostSegment,
    start: Instant,
    inbox: Inbox,
    send_queue: MpiSendQueue,
    bulk: Bulk,
    host_collectives: HostCollectives,
    /// Polls since transfers were last polled before records.
    polls_since_bulk: u32,
    backoff: PollBackoff,
    stage: DepartureStage,
}

/// One of this many polls tests transfers before records.
const BULK_POLL_INTERVAL: u32 = 16;

/// The progress of this rank's departure.
enum DepartureStage {
    Active,
    /// Its last records and transfers are in flight.
    Draining,
    /// It waits for the others in a barrier.
    Barrier(MpiRequest),
    /// No rank sends any more.
    Departed,
}

impl MpiFabric {
    pub(crate) fn new(shim: Shim, world: WorldInfo) -> Self {
        if world.size > 1 {
            exit::arm(world.rank, shim.abort_handle());
        }
        let hosts = shim.nodes(&world);
        Self {
            host_segment: HostSegment::share(&shim, &world, &hosts),
            inbox: Inbox::new(&shim),
            send_queue: MpiSendQueue::new(world.size as u32),
            bulk: Bulk::new(world.tag_ub),
            host_collectives: HostCollectives::default(),
            polls_since_bulk: 0,
            backoff: PollBackoff::new(&world),
            start: Instant::now(),
            stage: DepartureStage::Active,
            hosts,
            shim,
            world,
        }
    }

    /// Returns the span if the peer exists, else an error.
    fn check_peer(&self, peer: u32, span: Span) -> Result<Span, BulkError> {
        let ranks = self.world.size as u32;
        if peer < ranks {
            return Ok(span);
        }
        Err(BulkError::invalid(
            span,
            format!("a bulk transfer with rank {peer} is impossible in a world of {ranks} ranks"),
        ))
    }

    fn abort(&self, why: &str, code: i32) -> ! {
        let line = format!("treepie: rank {} {why}: the job is aborted\n", self.world.rank);
        exit::abort(self.shim.abort_handle(), &line, code)
    }
}

impl Fabric for MpiFabric {
    fn rank(&self) -> u32 {
        self.world.rank as u32
    }

    fn size(&self) -> u32 {
        self.world.size as u32
    }

    fn name(&self) -> &'static str {
        "mpi"
    }

    fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn max_body(&self) -> usize {
        MAX_BODY
    }

    #[inline]
    fn try_send(&mut self, to: u32, head: RecordHeader, body: &[u8]) -> bool {
        self.send_queue.try_send(&self.shim, to, head, body)
    }

    #[inline]
    fn poll(&mut self) -> Option<FabricEvent<'_>> {
        self.send_queue.reap(&self.shim);
        self.host_collectives.poll(&self.shim);
        // A test of incomplete transfers makes MPI progress all of them, and everything else; where ranks outnumber
        // processors it also yields. So records come first, but they must not starve transfers.
        self.polls_since_bulk = (self.polls_since_bulk + 1) % BULK_POLL_INTERVAL;
        if self.polls_since_bulk == 0
            && let Some(event) = self.bulk.poll(&self.shim)
        {
            return Some(event);
        }
        match self.inbox.poll(&self.shim) {
            Some((from, head, body)) => Some(FabricEvent::Record { from, head, body }),
            None => self.bulk.poll(&self.shim),
        }
    }

    fn idle(&mut self, round: u32) -> bool {
        self.backoff.pause(round, !self.bulk.is_empty() || !self.host_collectives.is_complete())
    }

    fn begin_finalize(&mut self) {
        if let DepartureStage::Active = self.stage {
            self.stage = DepartureStage::Draining;
        }
    }

    fn is_finalized(&mut self) -> bool {
        match &self.stage {
            DepartureStage::Active => {}
            DepartureStage::Draining => {
                // Only after its own sends: then the completion of the barrier means that no rank has any left.
                self.send_queue.reap(&self.shim);
                if self.send_queue.is_empty() && self.bulk.is_empty() {
                    self.stage = DepartureStage::Barrier(self.shim.ibarrier());
                }
            }
            DepartureStage::Barrier(barrier) => {
                if self.shim.test(barrier).is_some() {
                    self.stage = DepartureStage::Departed;
                }
            }
            DepartureStage::Departed => return true,
        }
        matches!(self.stage, DepartureStage::Departed)
    }

    fn announce_failure(&mut self, error: Option<&Error>) {
        match error {
            None => self.abort("panicked", EXIT_PANIC),
            // MPI ends this process at once: `main` does not print the error any more.
            Some(error) => {
                eprintln!("Error: {error:?}");
                self.abort("returned an error", EXIT_ERROR)
            }
        }
    }

    fn bulk_recv(&mut self, from: u32, _key: u64, slot: u32, span: Span) -> Result<Option<BulkDescriptor>, BulkError> {
        let span = self.check_peer(from, span)?;
        // MPI matches a transfer against all unexpected records, and there may be many when short messages use
        // rendezvous: these had no credit left. Sent as records they need no such matching.
        if span.len() <= MAX_BODY {
            return Err(BulkError::unsupported(span));
        }
        self.bulk.receive(&self.shim, from, slot, span).map(Some)
    }

    fn bulk_send(&mut self, to: u32, slot: u32, cts: BulkDescriptor, span: Span) -> Result<(), BulkError> {
        let span = self.check_peer(to, span)?;
        self.bulk.send(&self.shim, to, slot, cts, span)
    }

    fn shared_segment(&mut self) -> Option<&mut dyn SharedSegment> {
        Some(&mut **self.host_segment.segment.as_mut()?)
    }

    fn segment_groups(&self) -> &[u32] {
        &self.host_segment.groups
    }

    fn ranks_per_host_core(&self) -> u32 {
        self.host_segment.ranks_per_core
    }

    /// Of one host whose ranks share a segment: their costs are those of a machine.
    fn cores(&self) -> Option<u32> {
        let shares_memory = self.host_segment.segment.is_some() && self.hosts.is_empty();
        shares_memory.then_some(self.world.node_cpus.max(1) as u32)
    }

    fn has_dedicated_core(&self) -> bool {
        self.world.has_dedicated_cores()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { host_collectives: true, ..Capabilities::default() }
    }

    fn start_host_collective(&mut self, collective: HostCollective, input: Span, output: Span) {
        let place = (self.rank(), self.size());
        self.host_collectives.start(&self.shim, place, collective, input, output);
    }

    fn host_collective_is_complete(&self) -> bool {
        self.host_collectives.is_complete()
    }

    fn detects_failures(&self) -> bool {
        false
    }
}

impl Drop for MpiFabric {
    /// Finalizes MPI if all ranks have departed. Otherwise the others may wait for this one, and MPI may still write
    /// into memory that is about to be freed: the job is aborted.
    fn drop(&mut self) {
        let in_order = matches!(self.stage, DepartureStage::Departed) || self.world.size == 1;
        if !in_order || !self.bulk.is_empty() || !self.host_collectives.is_complete() {
            self.abort("finalized before the other ranks", exit::EXIT_WITHOUT_FINALIZE);
        }
        exit::disarm();
        self.inbox.close(&self.shim);
        self.shim.finalize();
    }
}
