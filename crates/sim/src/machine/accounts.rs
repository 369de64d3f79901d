//! What ranks hold, what has gone over the network, and what the machine itself occupies.

use super::{Machine, Memory, Totals};
use crate::error::{Error, Result};
use crate::network::Net;
use crate::time::{Time, micros};

impl Machine {
    /// Whether there is a limit to what ranks hold.
    pub(crate) fn is_capped(&self) -> bool {
        self.memory_cap.is_some()
    }

    /// What a rank may hold at most.
    pub(crate) fn memory_cap(&self) -> Option<u64> {
        self.memory_cap
    }

    /// A rank keeps a message for which it has not asked yet.
    #[inline]
    pub fn hold(&mut self, rank: u32, bytes: u64) -> Result<()> {
        let Some(cap) = self.memory_cap else { return Ok(()) };
        let held = &mut self.held[rank as usize];
        *held += bytes;
        if *held > cap {
            return Err(Error::Memory { rank, micros: micros(self.queue.now()), held: *held, cap });
        }
        Ok(())
    }

    /// It has asked for it.
    #[inline]
    pub fn let_go(&mut self, rank: u32, bytes: u64) {
        if let Some(held) = self.held.get_mut(rank as usize) {
            *held -= bytes;
        }
    }

    /// What has gone over the network so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The link that carried most for what it can carry, and how many bytes. Links are numbered as in the network; those
    /// between clusters as from times the number of clusters plus to.
    pub fn busiest_link(&self) -> Option<(u32, u64)> {
        match &self.net {
            Net::LogGp(_) => None,
            Net::Links(net) => net.flows.busiest(),
            Net::Clusters(net) => net.busiest(),
        }
    }

    /// What it occupies.
    pub fn memory(&self) -> Memory {
        let Memory { ranks, links, in_flight } = self.net.memory();
        Memory {
            ranks: ranks + (self.cpu.capacity() + self.held.capacity()) * size_of::<Time>(),
            links,
            in_flight: in_flight + self.queue.memory() + self.flying.memory(),
        }
    }
}
