//! The engine that wraps another one.

use std::collections::{HashMap, VecDeque};
use std::num::NonZero;
use std::time::Duration;

use treepie_base::{Error, Result, Span, monotonic_nanos as now};
use treepie_fabric::{BulkDescriptor, BulkError, Fabric, FabricEvent, Liveness, ParkKind, RecordHeader};

use crate::bulk::{BulkTransfers, FailedTransfer};
use crate::delayed::{DelayedRecord, DelayedRecords, TRAILER, append_trailer};
use crate::gateway::{Admission, Gateways, Nanos, Passage};
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
    /// Transfers that have failed and were not reported.
    failed: VecDeque<FailedTransfer>,
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
            failed: VecDeque::new(),
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
        bulk.send_in_turn(|transfer| {
            let part = transfer.next_part(max);
            let (to, id, bytes) = (transfer.to, transfer.id, part.len());
            let carried = self.send(to, RecordHeader::default(), part, Some(id));
            if let Some(carried) = carried {
                transfer.advance(bytes, carried);
            }
            carried.is_some()
        });
        self.bulk = bulk;
    }

    /// Reads the wrapped engine.
    fn read(&mut self) {
        loop {
            self.liveness.look(&self.inner);
            while let Some(event) = self.inner.poll() {
                // Nothing else was asked for.
                let FabricEvent::Record { from, head, body } = event else { continue };
                self.records.push(from, head, body);
            }
            if !self.liveness.learn(&self.inner, &self.records) {
                return;
            }
            self.failed.extend(self.bulk.fail(|rank| self.liveness.is_gone(rank)));
        }
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
        if let Some(FailedTransfer { slot, span, sending }) = self.failed.pop_front() {
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
            let completed = self.bulk.add_part(transfer, &record.body);
            self.records.recycle(record.body);
            if let Some((slot, span)) = completed {
                return Some(FabricEvent::BulkReceived { slot, span, tell_sender: false });
            }
        }
        None
    }

    fn idle(&mut self, round: u32) -> bool {
        if self.liveness.must_poll(&self.inner, &self.records) {
            return false;
        }
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
        if self.liveness.is_gone(from) {
            // The loss is known already, and nothing else would end this transfer.
            self.failed.push_back(FailedTransfer { slot, span, sending: false });
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
        if self.liveness.is_gone(to) {
            self.failed.push_back(FailedTransfer { slot, span, sending: true });
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::testing::{MockFabric, MockState, span};

    /// A day, during which records of the far future do not arrive.
    const LATER: Nanos = 86_400_000_000_000;

    /// Rank 0 of two clusters of one rank, which has looked for failures once.
    fn emulated() -> (EmulatedFabric<MockFabric>, Rc<MockState>) {
        let inner = MockFabric::new(3);
        let state = inner.state.clone();
        let emulation = "clusters:3x1,wan=0us/1GBps,lan=0us/1GBps".parse().unwrap();
        let mut fabric = EmulatedFabric::new(inner, &emulation).unwrap();
        assert!(fabric.poll().is_none());
        assert!(!fabric.idle(0) && fabric.idle(1), "it looks once");
        state.idles.set(0);
        (fabric, state)
    }

    fn arrive(state: &MockState, from: u32, due: Nanos, transfer: Option<u32>) {
        let mut body = b"abc".to_vec();
        append_trailer(&mut body, due, transfer);
        state.inbox.borrow_mut().push_back((from, body));
    }

    #[test]
    fn a_rank_does_not_sleep_before_it_has_looked_at_a_failure() {
        let (mut fabric, state) = emulated();
        state.lose(1);
        assert!(!fabric.idle(0), "the failure is to be read");
        assert!(fabric.poll().is_none());
        assert_eq!(fabric.liveness(1), Liveness::Failed);
        assert!(!fabric.idle(1), "the failure is to be looked at");
        assert_eq!(state.idles.get(), 0);
        assert!(fabric.idle(2));
        assert_eq!(state.idles.get(), 1);
    }

    #[test]
    fn a_second_failure_while_the_first_waits_for_a_record_is_known_with_it() {
        let (mut fabric, state) = emulated();
        arrive(&state, 1, now() + LATER, None);
        state.lose(1);
        assert!(fabric.poll().is_none());
        state.lose(2);
        assert!(fabric.poll().is_none());
        assert_eq!((fabric.liveness(1), fabric.liveness(2)), (Liveness::Alive, Liveness::Alive));
        assert!(fabric.idle(0), "the record ends the wait");
        fabric.records = DelayedRecords::new(3);
        assert!(!fabric.idle(1), "the record has been taken");
        assert!(fabric.poll().is_none());
        assert_eq!((fabric.liveness(1), fabric.liveness(2)), (Liveness::Failed, Liveness::Failed));
    }

    #[test]
    fn a_failure_ends_the_transfer_whose_last_part_never_comes() {
        let (mut fabric, state) = emulated();
        let memory = span(&[0; 2000]);
        let [_, id, ..] = fabric.bulk_recv(1, 0, 7, memory).unwrap().expect("the sender sends it in records");
        arrive(&state, 1, 0, u32::try_from(id).ok());
        state.lose(1);
        let mut polls = 0;
        let failed = loop {
            match fabric.poll() {
                Some(FabricEvent::BulkFailed { slot, sending, .. }) => break (slot, sending),
                Some(event) => panic!("{event:?}"),
                // The port may still be receiving the part.
                None => assert!(!fabric.idle(polls) || fabric.next_event_at().is_some(), "it sleeps"),
            }
            polls += 1;
        };
        assert_eq!(failed, (7, false));
    }

    #[test]
    fn transfers_with_a_lost_rank_fail_at_once() {
        let (mut fabric, state) = emulated();
        state.lose(1);
        assert!(fabric.poll().is_none());
        assert!(fabric.bulk_recv(1, 0, 3, span(&[0; 2000])).unwrap().is_none());
        fabric.bulk_send(1, 4, [0; 4], span(&[0; 2000])).unwrap();
        let mut failed = Vec::new();
        while let Some(FabricEvent::BulkFailed { slot, sending, .. }) = fabric.poll() {
            failed.push((slot, sending));
        }
        assert_eq!(failed, [(3, false), (4, true)]);
    }

    #[test]
    fn a_record_for_which_there_was_no_room_passes_its_gateway_once() {
        let (mut fabric, state) = emulated();
        state.is_full.set(true);
        assert!(!fabric.try_send(1, RecordHeader::default(), b"abc"));
        let (bytes, passage) = fabric.accepted[&(1, None)];
        assert_eq!(bytes, 3);
        assert!(!fabric.try_send(1, RecordHeader::default(), b"abc"));
        state.is_full.set(false);
        assert!(fabric.try_send(1, RecordHeader::default(), b"abc"));
        assert!(fabric.accepted.is_empty());
        let sent = state.sent.borrow();
        let mut expected = b"abc".to_vec();
        append_trailer(&mut expected, passage.due, None);
        assert_eq!(*sent, [(1, expected)]);
    }
}
