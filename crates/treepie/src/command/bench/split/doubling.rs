//! Doublings, emulated by two ranks: one runs the protocol and is measured, the other one plays all its partners.
//!
//! A partner sends as much as it gets, in the order in which it would have it, with keys of its own. It works while the first
//! rank waits, so neither takes anything from the other.

use anyhow::ensure;
use treepie::Comm;
use treepie_base::Bytes;
use treepie_comm::split::{Doubling, Entry, Joining, Part};
use treepie_sim::noise::Random;

use super::cost::Cost;
use super::tables;

/// A doubling of ranks with equally many entries each.
#[derive(Clone, Copy)]
pub(super) struct Emulated {
    pub(super) ranks: u32,
    /// Entries that each begins with.
    pub(super) each: u32,
    pub(super) joining: Joined,
    pub(super) seed: u64,
}

/// How tables are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    /// They are sorted, and merged.
    Merged,
    /// They are appended; entries have so many colours.
    Appended { colours: u32 },
}

const TAG: u32 = 1;

impl Emulated {
    /// What it costs a rank, and then what is done with the table.
    pub(super) fn run(self, then: impl Fn(Vec<Entry>) -> Vec<Entry> + Sync) -> anyhow::Result<[Cost; 2]> {
        let ends = treepie::launch(2, |comm| match comm.rank() {
            0 => self.run_measured(&comm, &then),
            _ => self.play_partners(&comm).map(|()| Default::default()),
        })?;
        let ends = ends.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        Ok(ends[0])
    }

    fn table(&self, random: &mut Random, from: u32, entries: u32) -> Vec<Entry> {
        match self.joining {
            Joined::Merged => tables::sorted(random, from..from + entries),
            Joined::Appended { colours } => tables::random(random, from..from + entries, colours),
        }
    }

    fn run_measured(self, comm: &Comm, then: impl Fn(Vec<Entry>) -> Vec<Entry>) -> anyhow::Result<[Cost; 2]> {
        let table = self.table(&mut Random::new(self.seed), 0, self.each);
        let joining = match self.joining {
            Joined::Merged => Joining::Merge { first: 0 },
            Joined::Appended { .. } => Joining::Append { counts: vec![self.each; self.ranks as usize] },
        };
        let mut cost = Cost::default();
        let mut doubling = cost.time(|| Doubling::new(0, self.ranks, joining, table, [0, 0]));
        while let Some((_, step, bytes)) = doubling.poll_transmit() {
            cost.sends(bytes.as_slice().len());
            comm.send(bytes.as_slice(), 1, TAG)?;
            drop(bytes);
            let (came, _) = comm.recv_vec::<Entry>(1, TAG)?;
            cost.time(|| doubling.on_message(1 << step, step, Bytes::from(came)))?;
        }
        let (table, _) = doubling.finish();
        ensure!(table.len() == (self.ranks * self.each) as usize, "entries were lost");
        let mut after = Cost::default();
        let table = after.time(|| then(table));
        ensure!(self.joining != Joined::Merged || table.is_sorted(), "what was merged is not sorted");
        Ok([cost, after])
    }

    fn play_partners(self, comm: &Comm) -> anyhow::Result<()> {
        let mut random = Random::new(!self.seed);
        for step in 0..self.ranks.ilog2() {
            let entries = self.each << step;
            let (came, _) = comm.recv_vec::<u8>(0, TAG)?;
            ensure!(came.len() == (entries as usize + 1) * size_of::<Entry>(), "another step was expected");
            drop(came);
            let mut table = self.table(&mut random, entries, entries);
            // Behind the entries is notes of nothing.
            table.push(Entry::default());
            comm.send(&table, 0, TAG)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_sent_and_joined_as_among_all_ranks() {
        for (joining, each) in [(Joined::Merged, 1), (Joined::Appended { colours: 3 }, 8)] {
            let emulated = Emulated { ranks: 64, each, joining, seed: 1 };
            let [cost, _] = emulated
                .run(|table| {
                    let mut ranks: Vec<u32> = table.iter().map(Entry::rank).collect();
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
