//! Bruck's allgather: in each step a rank sends all it has to a rank at twice the distance, until all ranks have
//! everything.
//!
//! Cost: ceil(lg m) alpha + m beta among m ranks, any m: around a ring by powers of two, with only the missing part in
//! the last step. Received entries are appended, or merged, which keeps the table sorted without a sort at the end.
//! [Bruck et al.; thesis 2.2, 2.3.1]
//!
//! Stopped early, that is among blocks of consecutive ranks only, it gives each rank the rows of its block. [thesis
//! 2.3.3]

use treepie_base::Bytes;

use super::entry::{Piggyback, SplitEntry, elementwise_max};
use super::merge::merge;
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

/// The allgather on one rank, which is an index among the participants: the entries of the last ranks up to this one,
/// and the elementwise maximum of their piggybacks.
pub struct BruckAllgather {
    position: RingPosition,
    combine_mode: CombineMode,
    table: Vec<SplitEntry>,
    piggyback: Piggyback,
    /// Number of entries moved.
    work: u64,
}

impl BruckAllgather {
    /// Starts with the entries of this rank.
    pub fn begin(
        position: RingPosition,
        combine_mode: CombineMode,
        table: Vec<SplitEntry>,
        piggyback: Piggyback,
    ) -> Dissemination<Self> {
        Dissemination::new(position, Self { position, combine_mode, table, piggyback, work: 0 }).begun()
    }

    /// The contributions of all ranks, and the maximum of the piggybacks, once all are here.
    pub fn finish(mut self) -> (Vec<SplitEntry>, Piggyback) {
        if let CombineMode::Append { counts } = self.combine_mode {
            // An appended table ends with this rank's own entries.
            let up_to_own: u32 = counts[..=self.position.rank as usize].iter().sum();
            self.table.rotate_right(up_to_own as usize);
        }
        (self.table, self.piggyback)
    }

    /// The distance of a round, and the number of ranks whose contributions are sent over it.
    fn step(&self, round: u32) -> (u32, u32) {
        let distance = 1 << round;
        (distance, distance.min(self.position.ranks - distance))
    }

    /// Whether these can be the entries that arrive in a round.
    fn is_valid(&self, round: u32, entries: &[SplitEntry]) -> bool {
        match &self.combine_mode {
            CombineMode::Append { counts } => {
                let (distance, others) = self.step(round);
                let count = |distance: u32| counts[self.position.behind(distance) as usize] as usize;
                (distance..distance + others).map(count).sum::<usize>() == entries.len()
            }
            // How many there are, only their ranks know.
            CombineMode::Merge { first } => entries.iter().all(|entry| entry.rank() >= *first),
        }
    }

    /// How far behind the rank is that contributed an entry.
    fn distance_behind(&self, first: u32, entry: &SplitEntry) -> u32 {
        let RingPosition { rank, ranks } = self.position;
        (rank + ranks - (entry.rank() - first).min(ranks - 1)) % ranks
    }

    /// The contributions of the `ranks` ranks up to this one.
    fn append_last(&self, ranks: u32, into: &mut Vec<SplitEntry>) {
        match &self.combine_mode {
            CombineMode::Append { counts } => {
                let count = |distance: u32| counts[self.position.behind(distance) as usize];
                let entries: u32 = (0..ranks).map(count).sum();
                into.extend_from_slice(&self.table[self.table.len() - entries as usize..]);
            }
            CombineMode::Merge { first } => {
                into.extend(self.table.iter().filter(|entry| self.distance_behind(*first, entry) < ranks));
            }
        }
    }
}

impl Disseminated for BruckAllgather {
    type Message = (Vec<SplitEntry>, Piggyback);

    fn encode(&mut self, round: u32) -> Bytes {
        let (distance, others) = self.step(round);
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

    fn decode(&self, round: u32, bytes: Bytes) -> Option<Self::Message> {
        let mut entries: Vec<SplitEntry> = read_all(bytes).ok()?;
        let piggyback = entries.pop()?.to_piggyback();
        self.is_valid(round, &entries).then_some((entries, piggyback))
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

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use treepie_base::Error;
    use treepie_fabric::Reactor;

    use super::*;

    /// What the rank behind would have sent in another operation.
    #[test]
    fn entries_that_no_round_can_bring_are_refused() {
        let entry = |rank| SplitEntry::new(Some(0), 0, rank, rank);
        let begin = |combine_mode| {
            BruckAllgather::begin(
                RingPosition { rank: 1, ranks: 3 },
                combine_mode,
                vec![entry(6)],
                Piggyback::default(),
            )
        };
        let message = |entries: &[SplitEntry]| {
            Bytes::from([entries, &[SplitEntry::from_piggyback(Piggyback::default())]].concat())
        };
        for (bad, good) in [(vec![], vec![entry(5)]), (vec![entry(5); 2], vec![entry(5)])] {
            let mut one = begin(CombineMode::Append { counts: vec![1; 3] });
            let refused = one.on_message(Duration::ZERO, 0, 0, message(&bad));
            assert!(matches!(refused, Err(Error::CollectiveOrderMismatch { rank: 0 })), "{bad:?}: {refused:?}");
            one.on_message(Duration::ZERO, 0, 0, message(&good)).unwrap();
        }
        let mut one = begin(CombineMode::Merge { first: 5 });
        assert!(one.on_message(Duration::ZERO, 0, 0, message(&[entry(4)])).is_err());
        one.on_message(Duration::ZERO, 0, 0, message(&[entry(5)])).unwrap();
    }
}
