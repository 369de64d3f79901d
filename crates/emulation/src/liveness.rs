//! News of lost ranks travels no faster than their messages: a rank learns of a loss when it has received everything
//! that was in flight to it before.

use treepie_fabric::{Fabric, Liveness};

use crate::delayed::DelayedRecords;

/// What this rank knows of the others.
pub(crate) struct DelayedLiveness {
    known: Snapshot,
    /// News, the position up to which the wrapped engine is to be read first, and the count of records before them.
    news: Option<(Snapshot, u64, Option<u64>)>,
}

#[derive(Clone, Debug)]
struct Snapshot {
    epoch: u32,
    ranks: Vec<Liveness>,
}

impl Snapshot {
    fn new(fabric: &dyn Fabric) -> Self {
        // The epoch first: a change that is missed here is news again.
        let epoch = fabric.liveness_epoch();
        Self { epoch, ranks: (0..fabric.size()).map(|rank| fabric.liveness(rank)).collect() }
    }
}

impl DelayedLiveness {
    pub(crate) fn new(fabric: &dyn Fabric) -> Self {
        let ranks = vec![Liveness::Alive; fabric.size() as usize];
        // Another epoch than any of the engine's, so that ranks that are lost already are news.
        Self { known: Snapshot { epoch: fabric.liveness_epoch().wrapping_sub(1), ranks }, news: None }
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.known.epoch
    }

    pub(crate) fn of(&self, rank: u32) -> Liveness {
        self.known.ranks[rank as usize]
    }

    /// Looks for news; call it before the wrapped engine is read. Afterwards, [`learn`](Self::learn).
    pub(crate) fn look(&mut self, fabric: &dyn Fabric) {
        if self.news.is_none() && fabric.liveness_epoch() != self.known.epoch {
            self.news = Some((Snapshot::new(fabric), fabric.inbound_tail(), None));
        }
    }

    /// Takes the news in, if all records before them have been taken. Returns whether something changed.
    pub(crate) fn learn(&mut self, fabric: &dyn Fabric, records: &DelayedRecords) -> bool {
        let Some((_, tail, count)) = &mut self.news else { return false };
        if count.is_none() && fabric.has_drained_to(*tail) {
            *count = Some(records.count());
        }
        if !count.is_some_and(|count| records.has_taken(count)) {
            return false;
        }
        let (snapshot, ..) = self.news.take().expect("there are news");
        self.known = snapshot;
        true
    }
}
