//! Accounts: unexpected bytes of ranks, network totals, and the simulator's own memory.

use super::{Machine, MemoryUsage, Totals};
use crate::error::{Error, Result};
use crate::network::NetworkModel;
use crate::time::{Time, to_micros};

impl Machine {
    /// Whether ranks have a memory cap.
    pub(crate) fn has_memory_cap(&self) -> bool {
        self.memory_cap.is_some()
    }

    /// The memory cap of a rank in bytes.
    pub(crate) fn memory_cap(&self) -> Option<u64> {
        self.memory_cap
    }

    /// Accounts for an unexpected message that a rank buffers.
    #[inline]
    pub fn hold_unexpected(&mut self, rank: u32, bytes: u64) -> Result<()> {
        let Some(cap) = self.memory_cap else { return Ok(()) };
        let held = &mut self.unexpected_bytes[rank as usize];
        *held += bytes;
        if *held > cap {
            return Err(Error::OutOfMemory { rank, micros: to_micros(self.queue.now()), held: *held, cap });
        }
        Ok(())
    }

    /// Releases an unexpected message that was matched.
    #[inline]
    pub fn release_unexpected(&mut self, rank: u32, bytes: u64) {
        if let Some(held) = self.unexpected_bytes.get_mut(rank as usize) {
            *held -= bytes;
        }
    }

    /// Network totals so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The link with the most bytes relative to its capacity, and its bytes. Ids are those of the network; of WAN
    /// links those of [`wan_link_ends`](crate::costs::wan_link_ends).
    pub fn busiest_link(&self) -> Option<(u32, u64)> {
        match &self.net {
            NetworkModel::LogGp(_) => None,
            NetworkModel::Links(net) => net.flows.busiest(),
            NetworkModel::Clusters(net) => net.busiest(),
        }
    }

    /// Memory in use.
    pub fn memory(&self) -> MemoryUsage {
        let MemoryUsage { ranks, links, in_flight } = self.net.memory();
        MemoryUsage {
            ranks: ranks + (self.cpu.capacity() + self.unexpected_bytes.capacity()) * size_of::<Time>(),
            links,
            in_flight: in_flight + self.queue.memory() + self.in_flight.memory(),
        }
    }
}
