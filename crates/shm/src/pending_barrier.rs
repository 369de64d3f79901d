//! A barrier of all ranks at which this rank has arrived.

use crate::arena::Arena;
use crate::inbox::Inbox;

/// A pending barrier.
pub(crate) struct ShmBarrier {
    pub(crate) cell: u32,
    /// The number of this barrier among those of the cell.
    barrier: u64,
    /// The inbox tail when all ranks had arrived: this rank must read up to it before the barrier completes. A record
    /// that is reserved and not published hides those after it, of ranks that have arrived.
    inbox_tail: Option<u64>,
}

impl ShmBarrier {
    pub(crate) fn new(cell: u32, barrier: u64) -> Self {
        Self { cell, barrier, inbox_tail: None }
    }

    /// Whether all ranks have arrived.
    pub(crate) fn is_complete(&self, arena: &Arena) -> bool {
        arena.barrier_cell(self.cell).is_complete(self.barrier, arena.ranks())
    }

    /// Whether all ranks have arrived and this rank has read what they had put into its inbox.
    pub(crate) fn is_drained(&mut self, arena: &Arena, inbox: &Inbox) -> bool {
        self.is_complete(arena) && inbox.has_read(*self.inbox_tail.get_or_insert_with(|| inbox.reserved_tail()))
    }

    /// The traffic summary of all ranks.
    pub(crate) fn traffic_summary(&self, arena: &Arena) -> u64 {
        arena.barrier_cell(self.cell).traffic_summary(self.barrier)
    }
}
