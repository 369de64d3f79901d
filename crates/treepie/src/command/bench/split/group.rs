//! One group of a split that is too large to be simulated as a whole.
//!
//! Collecting, all ranks of a block do the same: in each step they send as much as they get. So those who sort together can be
//! simulated alone: each gets what its neighbour would have sent from the next rank of its group, at the same time and as long,
//! and reads there what the neighbour would have said. Afterwards all groups do the same, as they hold the same blocks; and
//! they send nothing to each other. What is left is the split itself, with all its data.

use std::rc::Rc;
use std::time::Duration;

use treepie::Result;
use treepie_base::Bytes;
use treepie_comm::split::{Entry, Splitting, Way};
use treepie_fabric::{Needs, Reactor, Transmit};

use super::watched::Watched;

/// A rank of the group.
pub(super) struct Member {
    pub(super) watched: Watched,
    index: u32,
    members: u32,
    /// Ranks between two of the group.
    stride: u32,
    /// Ranks that collect together, and the first of them here.
    block: u32,
    first: u32,
    entries: Rc<[Entry]>,
    is_merged: bool,
}

/// In tags, of messages that a neighbour would have sent.
const PLAYED: u32 = 1 << 31;

/// Where all collect everything there are no groups, and two ranks are enough.
const PAIR: u32 = 2;

/// The first group of ranks with these entries. Ranks and sorters are powers of two.
pub(super) fn group(way: Way, entries: &Rc<[Entry]>, entry: f64) -> Vec<Member> {
    let ranks = entries.len() as u32;
    let members = way.sorters().unwrap_or(PAIR);
    let stride = ranks / members;
    let member = |index: u32| {
        let rank = index * stride;
        let (block, first) = way.sorters().map_or((ranks, 0), |_| (stride, rank));
        let splitting = Splitting::new(way, rank, ranks, entries[rank as usize], [0, 0]);
        let is_merged = way != Way::AllgatherSort;
        let (watched, entries) = (Watched::new(splitting, entry), entries.clone());
        Member { watched, index, members, stride, block, first, entries, is_merged }
    };
    (0..members).map(member).collect()
}

impl Member {
    fn is_neighbour(&self, rank: u32) -> bool {
        (self.first..self.first + self.block).contains(&rank)
    }

    /// What the neighbour at a distance says when it has as many entries: its own and those behind it.
    fn played(&self, distance: u32) -> (u32, Bytes) {
        let own = self.index * self.stride - self.first;
        let rank = |i: u32| self.first + (own + distance + i) % self.block;
        let mut table: Vec<Entry> = (0..distance).map(|i| self.entries[rank(i) as usize]).collect();
        if self.is_merged {
            table.sort_unstable();
        }
        // Behind them is notes of nothing.
        table.push(Entry::default());
        (rank(0), Bytes::from(table))
    }
}

impl Reactor for Member {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.watched.poll_transmit()?;
        Some(if self.is_neighbour(transmit.to) {
            Transmit { to: (self.index + 1) % self.members, tag: transmit.tag | PLAYED, ..transmit }
        } else {
            Transmit { to: transmit.to / self.stride, ..transmit }
        })
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        if tag & PLAYED == 0 {
            return self.watched.on_message(now, from * self.stride, tag, bytes);
        }
        let entries = bytes.as_slice().len() / size_of::<Entry>() - 1;
        let (from, bytes) = self.played(entries as u32);
        self.watched.on_message(now, from, tag & !PLAYED, bytes)
    }

    fn needs(&self, _: u32) -> Needs {
        Needs::Perhaps
    }

    fn is_done(&self) -> bool {
        self.watched.is_done()
    }

    fn take_work(&mut self) -> u64 {
        self.watched.take_work()
    }
}
