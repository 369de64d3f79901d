//! Barriers of all ranks on counters in shared memory.
//!
//! A [`BarrierCell`] counts arrivals of all ranks together, which one load compares with what is needed. It only tells who
//! has come because of what its users keep to: nobody arrives at barrier n + 1 before all have arrived at barrier n, so
//! nobody can make up for a rank that is missing by arriving twice. [`Arrivals`] tell for each rank how far it
//! got; they are read where a rank is lost, to know which barriers it is missing at. Models of both: `models.rs`.

use crate::primitive::{AtomicU64, Ordering};

/// A counter of those who have arrived at barriers, on a line of its own, and the bits that they have brought.
///
/// Barrier e takes word e mod 4. Whoever arrives at barrier e clears the word of e + 2: it is that of e - 2, which all have
/// read before they arrived at e - 1; and nobody writes it before all have arrived at e + 1, so after all have cleared it.
#[repr(C, align(64))]
pub(crate) struct BarrierCell {
    arrived: AtomicU64,
    census: [AtomicU64; 4],
}

impl BarrierCell {
    /// Arrives at a barrier, the next after one that has ended, with some bits. Returns how often anybody has arrived at any.
    pub(crate) fn arrive(&self, barrier: u64, census: u64) -> u64 {
        self.word(barrier + 2).store(0, Ordering::Relaxed);
        if census != 0 {
            self.word(barrier).fetch_or(census, Ordering::Relaxed);
        }
        self.arrived.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether all of so many ranks have arrived at a barrier.
    #[inline]
    pub(crate) fn is_complete(&self, barrier: u64, ranks: u32) -> bool {
        self.arrived.load(Ordering::Acquire) >= barrier * u64::from(ranks)
    }

    /// What all have brought to a barrier that is complete.
    pub(crate) fn census(&self, barrier: u64) -> u64 {
        self.word(barrier).load(Ordering::Relaxed)
    }

    fn word(&self, barrier: u64) -> &AtomicU64 {
        &self.census[barrier as usize % 4]
    }
}

/// How many barriers of each cell a rank has arrived at. Only that rank writes them.
#[repr(C, align(64))]
pub(crate) struct Arrivals<const CELLS: usize>([AtomicU64; CELLS]);

impl<const CELLS: usize> Arrivals<CELLS> {
    /// The rank has arrived at a barrier: noted after it was counted. A rank that is killed in between is missed at a barrier
    /// that may be complete: some then fail and some succeed, as with any rank that dies right after it has arrived. The
    /// other way round nobody would miss it at one that never ends.
    pub(crate) fn note(&self, cell: u32, barrier: u64) {
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
        Self { arrived: AtomicU64::new(0), census: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

#[cfg(loom)]
impl<const CELLS: usize> Arrivals<CELLS> {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}
