//! Recursive doubling emulated by two ranks: one runs the protocol and is measured, the other emulates all its
//! partners.
//!
//! A partner sends the same number of entries as it receives, in the correct order, with different keys. It computes
//! while the first rank waits, so neither disturbs the other.

use std::time::Duration;

use anyhow::ensure;
use treepie::Comm;
use treepie_base::Bytes;
use treepie_comm::protocol::RingPosition;
use treepie_comm::split::{BruckAllgather, CombineMode, SplitEntry};
use treepie_fabric::{Reactor, Transmit};
use treepie_sim::noise::SplitMix64;

use super::cost::Cost;
use super::tables;
use crate::harness::launch::on_threads;

/// An emulated doubling; all ranks have the same number of entries.
#[derive(Clone, Copy)]
pub(super) struct EmulatedDoubling {
    pub(super) ranks: u32,
    /// Initial entries of each rank.
    pub(super) entries_per_rank: u32,
    pub(super) join: TableJoin,
    pub(super) seed: u64,
}

/// How tables are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TableJoin {
    /// Sorted tables are merged.
    Merge,
    /// Tables are appended; `colors` is the number of colors of the entries.
    Append { colors: u32 },
}

const TAG: u32 = 1;

impl EmulatedDoubling {
    /// The cost on a rank, and that of `then` on the table.
    pub(super) fn run(self, then: impl Fn(Vec<SplitEntry>) -> Vec<SplitEntry> + Sync) -> anyhow::Result<[Cost; 2]> {
        let ends = on_threads(2, |comm| match comm.rank() {
            0 => self.run_measured(comm, &then),
            _ => self.emulate_partners(comm).map(|()| Default::default()),
        })?;
        Ok(ends[0])
    }

    fn table(&self, random: &mut SplitMix64, from: u32, entries: u32) -> Vec<SplitEntry> {
        match self.join {
            TableJoin::Merge => tables::sorted(random, from..from + entries),
            TableJoin::Append { colors } => tables::random(random, from..from + entries, colors),
        }
    }

    fn run_measured(self, comm: &Comm, then: impl Fn(Vec<SplitEntry>) -> Vec<SplitEntry>) -> anyhow::Result<[Cost; 2]> {
        let table = self.table(&mut SplitMix64::new(self.seed), 0, self.entries_per_rank);
        let mode = match self.join {
            TableJoin::Merge => CombineMode::Merge { first: 0 },
            TableJoin::Append { .. } => {
                CombineMode::Append { counts: vec![self.entries_per_rank; self.ranks as usize] }
            }
        };
        let mut cost = Cost::default();
        let position = RingPosition { rank: 0, ranks: self.ranks };
        let mut doubling = cost.time(|| BruckAllgather::begin(position, mode, table, [0, 0]));
        while let Some(Transmit { to, tag, bytes, .. }) = doubling.poll_transmit() {
            cost.add_message(bytes.as_slice().len());
            comm.send(bytes.as_slice(), 1, TAG)?;
            drop(bytes);
            let (received, _) = comm.recv_vec::<SplitEntry>(1, TAG)?;
            cost.time(|| doubling.on_message(Duration::ZERO, self.ranks - to, tag, Bytes::from(received)))?;
        }
        let (table, _) = doubling.value.finish();
        ensure!(table.len() == (self.ranks * self.entries_per_rank) as usize, "entries were lost");
        let mut after = Cost::default();
        let table = after.time(|| then(table));
        ensure!(self.join != TableJoin::Merge || table.is_sorted(), "the merged table is not sorted");
        Ok([cost, after])
    }

    fn emulate_partners(self, comm: &Comm) -> anyhow::Result<()> {
        let mut random = SplitMix64::new(!self.seed);
        for step in 0..self.ranks.ilog2() {
            let entries = self.entries_per_rank << step;
            let (received, _) = comm.recv_vec::<u8>(0, TAG)?;
            ensure!(received.len() == (entries as usize + 1) * size_of::<SplitEntry>(), "another step was expected");
            drop(received);
            let mut table = self.table(&mut random, entries, entries);
            // An empty trailer follows the entries.
            table.push(SplitEntry::default());
            comm.send(&table, 0, TAG)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_entries_are_those_of_a_real_doubling() {
        for (mode, each) in [(TableJoin::Merge, 1), (TableJoin::Append { colors: 3 }, 8)] {
            let emulated = EmulatedDoubling { ranks: 64, entries_per_rank: each, join: mode, seed: 1 };
            let [cost, _] = emulated
                .run(|table| {
                    let mut ranks: Vec<u32> = table.iter().map(SplitEntry::rank).collect();
                    ranks.sort_unstable();
                    assert!(ranks.into_iter().eq(0..64 * each));
                    table
                })
                .unwrap();
            let entries = 63 * each + 6;
            assert_eq!((cost.messages, cost.bytes), (6.0, f64::from(entries * 16)));
        }
    }
}
