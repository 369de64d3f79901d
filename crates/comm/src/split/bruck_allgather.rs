//! Bruck's allgather: in each step a rank sends all it has to a rank at twice the distance, until all ranks have
//! everything.
//!
//! Cost: ceil(lg m) alpha + m beta among m ranks, any m: around a ring by powers of two, with only the missing part in
//! the last step. Received entries are appended, or merged, which keeps the table sorted without a sort at the end.
//! [Bruck et al.; thesis 2.2, 2.3.1]
//!
//! Stopped early, that is among blocks of consecutive ranks only, it gives each rank the rows of its block. [thesis
//! 2.3.3]

use std::collections::VecDeque;

use treepie_base::{Bytes, Result};

use super::entry::{Piggyback, SplitEntry, elementwise_max};
use super::merge::merge;
use super::phase_reactor::{PhaseMessage, PhaseReactor};
use super::record::{read_all, refused};

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
pub struct BruckAllgather {
    index: u32,
    size: u32,
    combine_mode: CombineMode,
    table: Vec<SplitEntry>,
    /// The elementwise maximum over the ranks so far.
    piggyback: Piggyback,
    step: u32,
    /// Messages of later steps.
    unexpected: Vec<(u32, Vec<SplitEntry>, Piggyback)>,
    outgoing: VecDeque<PhaseMessage>,
    /// Number of entries moved.
    work: u64,
}

impl BruckAllgather {
    /// Starts with the entries of this rank.
    pub fn new(index: u32, size: u32, combine_mode: CombineMode, table: Vec<SplitEntry>, piggyback: Piggyback) -> Self {
        let (unexpected, outgoing) = (Vec::new(), VecDeque::new());
        let mut this = Self { index, size, combine_mode, table, piggyback, step: 0, unexpected, outgoing, work: 0 };
        this.send();
        this
    }

    fn distance(&self) -> u32 {
        1 << self.step
    }

    fn send(&mut self) {
        if self.is_done() {
            return self.rotate_into_order();
        }
        let distance = self.distance();
        let to = (self.index + self.size - distance) % self.size;
        let others = distance.min(self.size - distance);
        self.work += self.table.len() as u64;
        // The piggyback goes last, in memory reserved for it: tables are long.
        let mut part = Vec::with_capacity(self.table.len() + 1);
        if others == distance {
            part.extend_from_slice(&self.table);
        } else {
            self.append_first(others, &mut part);
        }
        part.push(SplitEntry::from_piggyback(self.piggyback));
        self.outgoing.push_back((to, self.step, Bytes::from(part)));
    }

    /// The contributions of the `ranks` ranks from this one on.
    fn append_first(&self, ranks: u32, into: &mut Vec<SplitEntry>) {
        match &self.combine_mode {
            CombineMode::Append { counts } => {
                let count = |i: u32| counts[((self.index + i) % self.size) as usize] as usize;
                into.extend_from_slice(&self.table[..(0..ranks).map(count).sum()]);
            }
            CombineMode::Merge { first } => {
                let is_among = |entry: &&SplitEntry| {
                    let index = (entry.rank() - first).min(self.size - 1);
                    (index + self.size - self.index) % self.size < ranks
                };
                into.extend(self.table.iter().filter(is_among));
            }
        }
    }

    fn combine(&mut self, mut entries: Vec<SplitEntry>) {
        self.work += (self.table.len() + entries.len()) as u64;
        match self.combine_mode {
            CombineMode::Merge { .. } => self.table = merge(&self.table, &entries),
            CombineMode::Append { .. } => self.table.append(&mut entries),
        }
    }

    /// All entries are here; an appended table begins with this rank's own.
    fn rotate_into_order(&mut self) {
        if let CombineMode::Append { counts } = &self.combine_mode {
            let before: u32 = counts[..self.index as usize].iter().sum();
            let len = self.table.len();
            self.table.rotate_right(before as usize % len.max(1));
        }
    }

    /// The contributions of all ranks, and the maximum of the piggybacks.
    pub fn finish(self) -> (Vec<SplitEntry>, Piggyback) {
        (self.table, self.piggyback)
    }
}

impl PhaseReactor for BruckAllgather {
    fn poll_transmit(&mut self) -> Option<PhaseMessage> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, from: u32, step: u32, bytes: Bytes) -> Result<()> {
        let mut entries: Vec<SplitEntry> = read_all(bytes)?;
        let piggyback = entries.pop().ok_or_else(|| refused(0, size_of::<SplitEntry>()))?.to_piggyback();
        let distance = 1u32.checked_shl(step).unwrap_or(0);
        let is_expected = distance < self.size && (self.index + distance) % self.size == from && step >= self.step;
        if !is_expected {
            return Err(refused(entries.len(), 0));
        }
        self.unexpected.push((step, entries, piggyback));
        while let Some(index) = self.unexpected.iter().position(|(step, ..)| *step == self.step) {
            let (_, entries, piggyback) = self.unexpected.swap_remove(index);
            self.combine(entries);
            self.piggyback = elementwise_max(self.piggyback, piggyback);
            self.step += 1;
            self.send();
        }
        Ok(())
    }

    fn expects(&self, from: u32) -> bool {
        let rounds = (self.step..u32::BITS).take_while(|step| 1 << step < self.size);
        let missing = |step: &u32| !self.unexpected.iter().any(|(received, ..)| received == step);
        rounds.filter(missing).any(|step| (self.index + (1 << step)) % self.size == from)
    }

    fn is_done(&self) -> bool {
        self.distance() >= self.size
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }
}
