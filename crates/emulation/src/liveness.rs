//! A rank learns of a loss no sooner than of the messages before it: when it has received everything that was in flight
//! to it at that time.

use treepie_fabric::{Fabric, Liveness};

use crate::delayed::DelayedRecords;

/// What this rank knows of the others.
pub(crate) struct DelayedLiveness {
    known: Snapshot,
    /// A change that is not known yet.
    pending: Option<Pending>,
    /// Whether a change became known since the last [`must_poll`](Self::must_poll).
    has_learned: bool,
}

#[derive(Clone, Debug)]
struct Snapshot {
    epoch: u32,
    ranks: Vec<Liveness>,
}

/// A snapshot, and the records that are to be received first.
struct Pending {
    snapshot: Snapshot,
    /// The position up to which the wrapped engine is to be read.
    tail: u64,
    /// The number of records up to that position, when they have been read.
    count: Option<u64>,
}

impl Snapshot {
    fn new(fabric: &dyn Fabric) -> Self {
        // The epoch first: a change that is missed here has another one.
        let epoch = fabric.liveness_epoch();
        Self { epoch, ranks: (0..fabric.size()).map(|rank| fabric.liveness(rank)).collect() }
    }
}

impl Pending {
    fn can_be_learned(&self, records: &DelayedRecords) -> bool {
        self.count.is_some_and(|count| records.has_taken(count))
    }
}

impl DelayedLiveness {
    pub(crate) fn new(fabric: &dyn Fabric) -> Self {
        let ranks = vec![Liveness::Alive; fabric.size() as usize];
        // Another epoch than any of the engine's, so that the first snapshot has the ranks that are lost already.
        let known = Snapshot { epoch: fabric.liveness_epoch().wrapping_sub(1), ranks };
        Self { known, pending: None, has_learned: false }
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.known.epoch
    }

    pub(crate) fn of(&self, rank: u32) -> Liveness {
        self.known.ranks[rank as usize]
    }

    /// Whether a rank is known to access no memory any more.
    pub(crate) fn is_gone(&self, rank: u32) -> bool {
        matches!(self.of(rank), Liveness::Finalized | Liveness::Failed)
    }

    /// Looks for a change; call it before the wrapped engine is read. Afterwards, [`learn`](Self::learn).
    pub(crate) fn look(&mut self, fabric: &dyn Fabric) {
        if self.pending.is_none() && fabric.liveness_epoch() != self.known.epoch {
            let snapshot = Snapshot::new(fabric);
            self.pending = Some(Pending { snapshot, tail: fabric.inbound_tail(), count: None });
        }
    }

    /// Takes the pending change in, if all records before it have been taken. Returns whether something changed: then
    /// [`look`](Self::look) again, as another change may have come meanwhile.
    pub(crate) fn learn(&mut self, fabric: &dyn Fabric, records: &DelayedRecords) -> bool {
        let Some(pending) = &mut self.pending else { return false };
        if pending.count.is_none() && fabric.has_drained_to(pending.tail) {
            pending.count = Some(records.count());
        }
        let Some(learned) = self.pending.take_if(|pending| pending.can_be_learned(records)) else { return false };
        self.known = learned.snapshot;
        self.has_learned = true;
        true
    }

    /// Whether the rank has to look at failures, or to poll, before it may sleep. The wrapped engine would not wake it:
    /// for it, a change is seen as soon as it has been read to the end.
    pub(crate) fn must_poll(&mut self, fabric: &dyn Fabric, records: &DelayedRecords) -> bool {
        let has_learned = std::mem::take(&mut self.has_learned);
        has_learned
            || match &self.pending {
                None => fabric.liveness_epoch() != self.known.epoch,
                Some(pending) => pending.can_be_learned(records),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delayed::append_trailer;
    use crate::testing::MockFabric;

    #[test]
    fn a_loss_is_known_when_the_records_before_it_have_been_taken() {
        let (fabric, mut records) = (MockFabric::new(2), DelayedRecords::new(2));
        let mut liveness = DelayedLiveness::new(&fabric);
        liveness.look(&fabric);
        assert!(liveness.learn(&fabric, &records), "the first look");
        let mut body = Vec::new();
        append_trailer(&mut body, 0, None);
        records.push(1, Default::default(), &body);
        fabric.state.lose(1);
        liveness.look(&fabric);
        assert!(!liveness.learn(&fabric, &records));
        assert_eq!(liveness.of(1), Liveness::Alive);
        assert!(liveness.must_poll(&fabric, &records), "of the first look");
        assert!(!liveness.must_poll(&fabric, &records));
        let epoch = liveness.epoch();
        let none_left = DelayedRecords::new(2);
        assert!(liveness.must_poll(&fabric, &none_left));
        assert!(liveness.learn(&fabric, &none_left));
        assert!(liveness.is_gone(1) && liveness.epoch() != epoch);
    }
}
