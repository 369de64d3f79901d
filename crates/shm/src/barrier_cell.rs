//! Barriers of all ranks on counters in shared memory.
//!
//! A [`BarrierCell`] counts the arrivals of all ranks together, so that one load tests for completion. The count is
//! sufficient because no rank arrives at barrier n + 1 before all have arrived at barrier n: no rank can make up for a
//! missing one by arriving twice. [`ArrivalCounters`] count the arrivals of each rank; they are read when a rank is
//! lost, to determine which barriers it is missing at. Models of both: `models.rs`.

use crate::primitive::{AtomicU64, Ordering};

/// The arrival counter of barriers, on a cache line of its own, and the traffic summaries of the arrivals.
///
/// Barrier e uses word e mod 4. A rank that arrives at barrier e clears the word of e + 2: it is that of e - 2, which
/// all have read before they arrived at e - 1; and nobody writes it before all have arrived at e + 1, so after all have
/// cleared it.
#[repr(C, align(64))]
pub(crate) struct BarrierCell {
    arrived: AtomicU64,
    traffic_summaries: [AtomicU64; 4],
}

impl BarrierCell {
    /// Arrives at a barrier, the next after one that has completed, with a traffic summary. Returns the number of
    /// arrivals at all barriers.
    pub(crate) fn arrive(&self, barrier: u64, traffic_summary: u64) -> u64 {
        self.summary_word(barrier + 2).store(0, Ordering::Relaxed);
        if traffic_summary != 0 {
            self.summary_word(barrier).fetch_or(traffic_summary, Ordering::Relaxed);
        }
        self.arrived.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether all `ranks` have arrived at a barrier.
    #[inline]
    pub(crate) fn is_complete(&self, barrier: u64, ranks: u32) -> bool {
        self.arrived.load(Ordering::Acquire) >= barrier * u64::from(ranks)
    }

    /// The combined traffic summary of a complete barrier.
    pub(crate) fn traffic_summary(&self, barrier: u64) -> u64 {
        self.summary_word(barrier).load(Ordering::Relaxed)
    }

    fn summary_word(&self, barrier: u64) -> &AtomicU64 {
        &self.traffic_summaries[barrier as usize % 4]
    }
}

/// The number of barriers of each cell that a rank has arrived at. Only that rank writes it.
#[repr(C, align(64))]
pub(crate) struct ArrivalCounters<const CELLS: usize>([AtomicU64; CELLS]);

impl<const CELLS: usize> ArrivalCounters<CELLS> {
    /// Records that the rank has arrived at a barrier, after the arrival was counted. A rank killed in between is
    /// missed at a barrier that may be complete: some ranks then fail and some succeed, as with any rank that dies
    /// right after its arrival. In the opposite order nobody would miss it at a barrier that never completes.
    pub(crate) fn record(&self, cell: u32, barrier: u64) {
        self.0[cell as usize].store(barrier, Ordering::Release);
    }

    /// The last barrier of a cell that the rank has arrived at.
    pub(crate) fn last(&self, cell: u32) -> u64 {
        self.0[cell as usize].load(Ordering::Acquire)
    }
}

#[cfg(loom)]
impl BarrierCell {
    pub(crate) fn new() -> Self {
        Self { arrived: AtomicU64::new(0), traffic_summaries: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

#[cfg(loom)]
impl<const CELLS: usize> ArrivalCounters<CELLS> {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}
