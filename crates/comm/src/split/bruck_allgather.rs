//! Bruck's allgather: in each step a rank sends all it has to a rank at twice the distance, until all ranks have
//! everything.
//!
//! Cost: ceil(lg m) alpha + m beta among m ranks, any m: around a ring by powers of two, with only the missing part in
//! the last step. Received entries are appended, or merged, which keeps the table sorted without a sort at the end.
//! [Bruck et al.; thesis 2.2, 2.3.1]
//!
//! Stopped early, that is among blocks of consecutive ranks only, it gives each rank the rows of its block. [thesis
//! 2.3.3]

use std::time::Duration;

use treepie_base::{Bytes, Result};
use treepie_fabric::Reactor;

use super::entry::{Piggyback, SplitEntry, elementwise_max};
use super::merge::merge;
use super::phase_reactor::{PhaseMessage, PhaseReactor};
use super::record::read_all;
use crate::dissemination::{Disseminated, Dissemination, RingPosition};

/// How received entries are combined with those on this rank.
pub enum CombineMode {
    /// Merge: both are sorted. Each entry was contributed by its rank; the last rank also contributes those of its
    /// followers.
    Merge {
        /// The rank with index 0.
        first: u32,
    },
    /// Append, with known counts.
    Append {
        /// Number of entries of each rank.
        counts: Vec<u32>,
    },
}

/// The allgather on one rank, which is an index among the participants.
pub struct BruckAllgather(Dissemination<GatheredEntries>);

impl BruckAllgather {
    /// Starts with the entries of this rank.
    pub fn new(index: u32, size: u32, combine_mode: CombineMode, table: Vec<SplitEntry>, piggyback: Piggyback) -> Self {
        let entries = GatheredEntries { index, size, combine_mode, table, piggyback, work: 0 };
        Self(Dissemination::new(RingPosition { rank: index, ranks: size }, entries).begun())
    }

    /// The contributions of all ranks, and the maximum of the piggybacks.
    pub fn finish(self) -> (Vec<SplitEntry>, Piggyback) {
        let GatheredEntries { index, combine_mode, mut table, piggyback, .. } = self.0.into_value();
        if let CombineMode::Append { counts } = combine_mode {
            // An appended table ends with this rank's own entries.
            let up_to_own: u32 = counts[..=index as usize].iter().sum();
            table.rotate_right(up_to_own as usize);
        }
        (table, piggyback)
    }
}

/// The entries of the last ranks up to this one, and the elementwise maximum of their piggybacks.
struct GatheredEntries {
    index: u32,
    size: u32,
    combine_mode: CombineMode,
    table: Vec<SplitEntry>,
    piggyback: Piggyback,
    /// Number of entries moved.
    work: u64,
}

impl GatheredEntries {
    /// The contributions of the `ranks` ranks up to this one.
    fn append_last(&self, ranks: u32, into: &mut Vec<SplitEntry>) {
        match &self.combine_mode {
            CombineMode::Append { counts } => {
                let count = |distance: u32| counts[((self.index + self.size - distance) % self.size) as usize];
                let entries: u32 = (0..ranks).map(count).sum();
                into.extend_from_slice(&self.table[self.table.len() - entries as usize..]);
            }
            CombineMode::Merge { first } => {
                let is_among = |entry: &&SplitEntry| {
                    let index = (entry.rank() - first).min(self.size - 1);
                    (self.index + self.size - index) % self.size < ranks
                };
                into.extend(self.table.iter().filter(is_among));
            }
        }
    }
}

impl Disseminated for GatheredEntries {
    type Message = (Vec<SplitEntry>, Piggyback);

    fn encode(&mut self, round: u32) -> Bytes {
        let distance = 1 << round;
        let others = distance.min(self.size - distance);
        self.work += self.table.len() as u64;
        // The piggyback goes last, in memory reserved for it: tables are long.
        let mut part = Vec::with_capacity(self.table.len() + 1);
        if others == distance {
            part.extend_from_slice(&self.table);
        } else {
            self.append_last(others, &mut part);
        }
        part.push(SplitEntry::from_piggyback(self.piggyback));
        Bytes::from(part)
    }

    fn decode(&self, _round: u32, bytes: Bytes) -> Option<Self::Message> {
        let mut entries: Vec<SplitEntry> = read_all(bytes).ok()?;
        let piggyback = entries.pop()?.to_piggyback();
        Some((entries, piggyback))
    }

    fn combine(&mut self, _round: u32, (mut entries, piggyback): Self::Message) {
        self.work += (self.table.len() + entries.len()) as u64;
        match self.combine_mode {
            CombineMode::Merge { .. } => self.table = merge(&self.table, &entries),
            CombineMode::Append { .. } => {
                entries.append(&mut self.table);
                self.table = entries;
            }
        }
        self.piggyback = elementwise_max(self.piggyback, piggyback);
    }
}

impl PhaseReactor for BruckAllgather {
    fn poll_transmit(&mut self) -> Option<PhaseMessage> {
        self.0.poll_transmit().map(|transmit| (transmit.to, transmit.tag, transmit.bytes))
    }

    fn on_message(&mut self, from: u32, step: u32, bytes: Bytes) -> Result<()> {
        self.0.on_message(Duration::ZERO, from, step, bytes)
    }

    fn expects(&self, from: u32) -> bool {
        self.0.expects(from)
    }

    fn is_done(&self) -> bool {
        self.0.is_combined()
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.0.value_mut().work)
    }
}
