//! What an arena holds for each rank.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use treepie_fabric::Liveness;

use crate::barrier_cell::ArrivalCounters;
use crate::claim::Claim;
use crate::doorbell::Doorbell;
use crate::inbox::InboxHeader;

/// Send slots that a receiver can acknowledge without a record.
pub(crate) const ACK_SLOTS: u32 = 512;

/// Transfers into one rank that senders can push to at a time.
pub(crate) const MAX_CLAIMS: usize = 16;

/// Counters for barriers over the whole world.
pub(crate) const BARRIER_CELLS: u32 = 64;

/// State of a rank that the others read.
#[repr(C, align(64))]
pub(crate) struct RankControl {
    pub(crate) doorbell: Doorbell,
    pub(super) life: AtomicU32,
    /// The position of this rank in the order of departures; 0 while it is alive.
    pub(super) departure_number: AtomicU32,
    /// Not 0 if its program has returned an error, maybe in consequence of another rank's failure.
    pub(super) returned_error: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// The number of rings to this rank that writers have claimed.
    pub(crate) claimed_rings: AtomicU32,
    acks: AckBitmap,
    /// Counters that peers increment; see `Fabric::counter_add`.
    pub(crate) counters: [RunCounter; 2],
    /// The barriers at which this rank has arrived.
    pub(crate) arrivals: ArrivalCounters<{ BARRIER_CELLS as usize }>,
    pub(crate) claims: [Claim; MAX_CLAIMS],
    pub(crate) inbox: InboxHeader,
}

/// A counter and the run that it counts for: an aborted run may leave increments behind that nobody reads.
#[repr(C, align(64))]
pub(crate) struct RunCounter(AtomicU64);

impl RunCounter {
    /// Increments the counter of a run.
    pub(crate) fn increment(&self, run: u32) {
        let more = |word: u64| if (word >> 32) as u32 == run { word + 1 } else { u64::from(run) << 32 | 1 };
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| Some(more(word)));
    }

    /// The increments of a run.
    pub(crate) fn value(&self, run: u32) -> u32 {
        let word = self.0.load(Ordering::Acquire);
        if (word >> 32) as u32 == run { word as u32 } else { 0 }
    }
}

/// One bit per outstanding operation: receivers set it, the sender that owns the bitmap clears it. An acknowledgement
/// thus needs no buffer space.
#[repr(C, align(64))]
struct AckBitmap([AtomicU64; ACK_SLOTS as usize / 64]);

impl RankControl {
    /// Acknowledges this rank's operation `slot`.
    pub(crate) fn ack(&self, slot: u32) {
        self.acks.0[slot as usize / 64].fetch_or(1 << (slot % 64), Ordering::AcqRel);
        self.doorbell.notify();
    }

    pub(crate) fn has_acks(&self) -> bool {
        self.acks.0.iter().any(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Takes one acknowledgement.
    pub(crate) fn take_ack(&self) -> Option<u32> {
        for (i, word) in self.acks.0.iter().enumerate() {
            let bits = word.load(Ordering::Acquire);
            if bits != 0 {
                let lowest = bits.trailing_zeros();
                word.fetch_and(!(1 << lowest), Ordering::AcqRel);
                return Some(i as u32 * 64 + lowest);
            }
        }
        None
    }

    pub(crate) fn life(&self) -> Liveness {
        match self.life.load(Ordering::Acquire) {
            0 => Liveness::Alive,
            1 => Liveness::Finalizing,
            2 => Liveness::Failing,
            3 => Liveness::Finalized,
            _ => Liveness::Failed,
        }
    }
}
