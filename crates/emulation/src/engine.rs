//! The engine that wraps another one.

use std::collections::{HashMap, VecDeque};
use std::num::NonZero;
use std::time::Duration;

use treepie_base::{Error, Result, Span};
use treepie_fabric::{BulkDescriptor, BulkError, Fabric, FabricEvent, Liveness, ParkKind, RecordHeader};

use crate::bulk::{BulkTransfers, Ended};
use crate::delayed::{DelayedRecord, DelayedRecords, TRAILER, append_trailer};
use crate::gateway::{Admission, Gateways, Nanos, Passage, now};
use crate::liveness::DelayedLiveness;
use crate::text::Emulation;

/// An engine whose records pass emulated links.
pub struct EmulatedFabric<F> {
    inner: F,
    gateways: Gateways,
    records: DelayedRecords,
    bulk: BulkTransfers,
    liveness: DelayedLiveness,
    /// Records that a gateway has accepted, but the wrapped engine has not: by receiver and transfer, their length and
    /// their times.
    accepted: HashMap<(u32, Option<u32>), (usize, Passage)>,
    /// When a record that was refused may be accepted: the earliest.
    retry_at: Option<Nanos>,
    /// Transfers that have ended and were not reported.
    ended: VecDeque<Ended>,
    /// The record that `poll` returned last.
    current: Option<DelayedRecord>,
    /// A record with its trailer.
    scratch: Vec<u8>,
}

impl<F: Fabric> EmulatedFabric<F> {
    /// Wraps the engine of a rank. Fails if the number of ranks is another, or if they share no memory.
    pub fn new(mut inner: F, emulation: &Emulation) -> Result<Self> {
        let (rank, ranks) = (inner.rank(), inner.size());
        emulation.check_ranks(ranks).map_err(|refusal| Error::Engine(refusal.to_string()))?;
        let Some(heap) = inner.shared_heap() else {
            let name = inner.name();
            return Err(Error::Engine(format!("links are emulated between ranks of one machine, not on {name}")));
        };
        let words = heap.map_common(Gateways::shared_bytes(emulation))?;
        // Waits end when something is due, not up to 50 us later.
        let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
        Ok(Self {
            gateways: Gateways::new(emulation, rank, words),
            records: DelayedRecords::new(ranks),
            bulk: BulkTransfers::default(),
            liveness: DelayedLiveness::new(&inner),
            accepted: HashMap::new(),
            retry_at: None,
            ended: VecDeque::new(),
            current: None,
            scratch: Vec::new(),
            inner,
        })
    }

    /// Sends a record, or a part of a bulk transfer, unless it has to wait. Returns when the link has carried it.
    fn send(&mut self, to: u32, head: RecordHeader, body: &[u8], transfer: Option<u32>) -> Option<Nanos> {
        let key = (to, transfer);
        let passage = match self.accepted.get(&key) {
            Some((bytes, passage)) if *bytes == body.len() => *passage,
            _ => match self.gateways.admit(now(), to, body.len()) {
                Admission::Accepted(passage) => passage,
                Admission::Wait(until) => {
                    self.retry_at = Some(self.retry_at.map_or(until, |other| other.min(until)));
                    return None;
                }
            },
        };
        self.scratch.clear();
        self.scratch.extend_from_slice(body);
        append_trailer(&mut self.scratch, passage.due, transfer);
        let sent = self.inner.try_send(to, head, &self.scratch);
        if sent {
            self.accepted.remove(&key);
        } else {
            // The gateway has it already: when there is room at the receiver, it need not pass again.
            self.accepted.insert(key, (body.len(), passage));
        }
        sent.then_some(passage.carried)
    }

    /// Sends parts of bulk transfers while there is room.
    fn send_parts(&mut self) {
        if !self.bulk.has_outgoing() {
            return;
        }
        let (mut bulk, max) = (std::mem::take(&mut self.bulk), self.max_body());
        bulk.for_each_outgoing(|transfer| {
            loop {
                let part = transfer.next_part(max);
                let (to, id, bytes) = (transfer.to, transfer.id, part.len());
                if bytes == 0 {
                    return;
                }
                let Some(carried) = self.send(to, RecordHeader::default(), part, Some(id)) else { return };
                transfer.advance(bytes, carried);
            }
        });
        self.bulk = bulk;
    }

    /// Reads the wrapped engine.
    fn read(&mut self) {
        self.liveness.look(&self.inner);
        while let Some(event) = self.inner.poll() {
            // Nothing else was asked for.
            let FabricEvent::Record { from, head, body } = event else { continue };
            self.records.push(from, head, body);
        }
        if self.liveness.learn(&self.inner, &self.records) {
            let liveness = &self.liveness;
            let is_gone = |rank| matches!(liveness.of(rank), Liveness::Finalized | Liveness::Failed);
            self.ended.extend(self.bulk.fail(is_gone));
        }
    }

    /// Whether a rank is known to have ended.
    fn is_gone(&self, rank: u32) -> bool {
        matches!(self.liveness.of(rank), Liveness::Finalized | Liveness::Failed)
    }

    /// When this rank has something to do, if nothing arrives before.
    fn next_event_at(&self) -> Option<Nanos> {
        let events = [self.records.next_at(&self.gateways), self.bulk.next_carried(), self.retry_at];
        events.into_iter().flatten().min()
    }
}

impl<F: Fabric> Fabric for EmulatedFabric<F> {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.gateways.elapsed())
    }

    fn max_body(&self) -> usize {
        self.inner.max_body() - TRAILER
    }

    fn try_send(&mut self, to: u32, head: RecordHeader, body: &[u8]) -> bool {
        self.send(to, head, body, None).is_some()
    }

    fn poll(&mut self) -> Option<FabricEvent<'_>> {
        if let Some(record) = self.current.take() {
            self.records.recycle(record.body);
        }
        self.read();
        self.send_parts();
        if let Some(Ended { slot, span, sending }) = self.ended.pop_front() {
            return Some(FabricEvent::BulkFailed { slot, span, sending });
        }
        let now = now();
        if let Some((slot, span)) = self.bulk.take_carried(now) {
            return Some(FabricEvent::BulkSent { slot, span });
        }
        while let Some(record) = self.records.pop(now, &mut self.gateways) {
            let Some(transfer) = record.transfer else {
                let DelayedRecord { from, head, body, .. } = self.current.insert(record);
                return Some(FabricEvent::Record { from: *from, head: *head, body });
            };
            let ended = self.bulk.add_part(transfer, &record.body);
            self.records.recycle(record.body);
            if let Some(Ended { slot, span, .. }) = ended {
                return Some(FabricEvent::BulkReceived { slot, span, tell_sender: false });
            }
        }
        None
    }

    fn idle(&mut self, round: u32) -> bool {
        let next = self.next_event_at();
        self.retry_at = None;
        match next.map(|at| at.saturating_sub(now())) {
            None => self.inner.idle(round),
            Some(0) => false,
            Some(left) => self.inner.idle_for(round, Duration::from_nanos(left)),
        }
    }

    fn yield_now(&mut self) {
        self.inner.yield_now();
    }

    fn park_kind(&self, round: u32) -> ParkKind {
        self.inner.park_kind(round)
    }

    fn begin_finalize(&mut self) {
        self.inner.begin_finalize();
    }

    fn is_finalized(&mut self) -> bool {
        self.inner.is_finalized()
    }

    fn announce_failure(&mut self, error: Option<&Error>) {
        self.inner.announce_failure(error);
    }

    fn bulk_recv(
        &mut self,
        from: u32,
        _key: u64,
        slot: u32,
        span: Span,
    ) -> std::result::Result<Option<BulkDescriptor>, BulkError> {
        // Short messages that had no credit left are sent as records.
        if span.len() <= self.max_body() {
            return Err(BulkError::unsupported(span));
        }
        if self.is_gone(from) {
            // The loss is known already, and nothing else would end this transfer.
            self.ended.push_back(Ended { slot, span, sending: false });
            return Ok(None);
        }
        Ok(Some(self.bulk.receive(from, slot, span)))
    }

    fn bulk_send(
        &mut self,
        to: u32,
        slot: u32,
        descriptor: BulkDescriptor,
        span: Span,
    ) -> std::result::Result<(), BulkError> {
        if self.is_gone(to) {
            self.ended.push_back(Ended { slot, span, sending: true });
            return Ok(());
        }
        self.bulk.send(to, slot, descriptor, span)
    }

    fn liveness_epoch(&self) -> u32 {
        self.liveness.epoch()
    }

    fn liveness(&self, rank: u32) -> Liveness {
        self.liveness.of(rank)
    }

    fn is_current_rank(&self) -> bool {
        self.inner.is_current_rank()
    }

    fn rank_is_process(&self) -> bool {
        self.inner.rank_is_process()
    }

    fn detects_failures(&self) -> bool {
        self.inner.detects_failures()
    }

    fn report_wait(&mut self, what: &dyn std::fmt::Display) {
        self.inner.report_wait(what);
    }

    fn set_settling(&mut self, settling: bool) {
        self.inner.set_settling(settling);
    }
}
