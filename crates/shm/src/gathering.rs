//! A barrier of all ranks that this rank has come to.

use crate::arena::Arena;
use crate::inbox::Inbox;

/// How far such a barrier is.
pub(crate) struct Gathering {
    pub(crate) cell: u32,
    /// How many barriers of that cell this rank has come to.
    barrier: u64,
    /// Once all have come: how far the inbox is to be read before this rank may know. A record in it that is reserved and
    /// not published hides those behind it, of ranks that have come.
    inbox: Option<u64>,
}

impl Gathering {
    pub(crate) fn new(cell: u32, barrier: u64) -> Self {
        Self { cell, barrier, inbox: None }
    }

    /// Whether all have come.
    pub(crate) fn is_complete(&self, arena: &Arena) -> bool {
        arena.barrier_cell(self.cell).is_complete(self.barrier, arena.ranks())
    }

    /// Whether all have come, and this rank has read what they had put into its inbox.
    pub(crate) fn is_over(&mut self, arena: &Arena, inbox: &Inbox) -> bool {
        self.is_complete(arena) && inbox.has_read(*self.inbox.get_or_insert_with(|| inbox.reserved()))
    }

    /// What all have brought.
    pub(crate) fn census(&self, arena: &Arena) -> u64 {
        arena.barrier_cell(self.cell).census(self.barrier)
    }
}
