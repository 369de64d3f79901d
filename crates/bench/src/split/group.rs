//! One group of sorters of a split that is too large to simulate as a whole.
//!
//! In the collect phase all ranks of a block behave alike: in each step they send as much as they receive. So a group
//! of sorters can be simulated alone: each receives the message of its neighbor from the next rank of its group
//! instead, at the same time and of the same size, and substitutes the neighbor's data. Afterwards all groups behave
//! alike, as they hold the same blocks, and do not communicate with each other. The rest is the real split, with all
//! its data.

use std::rc::Rc;
use std::time::Duration;

use treepie::Result;
use treepie_base::Bytes;
use treepie_comm::split::{SplitAlgorithm, SplitEntry, SplitProtocol};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use super::timed_split::TimedSplit;

/// A rank of the group.
pub(super) struct GroupMember {
    pub(super) split: TimedSplit,
    index: u32,
    members: u32,
    /// Ranks between two of the group.
    stride: u32,
    /// Ranks of the collecting block, and the first of them.
    block: u32,
    first: u32,
    entries: Rc<[SplitEntry]>,
    is_merged: bool,
}

/// Tag bit of messages that emulate a neighbor's.
const EMULATED_TAG: u32 = 1 << 31;

/// Members where all ranks collect the full table: there are no groups, and two ranks are enough.
const PAIR: u32 = 2;

/// The first group of ranks with these entries. Ranks and sorters are powers of two.
pub(super) fn group(algorithm: SplitAlgorithm, entries: &Rc<[SplitEntry]>, micros_per_entry: f64) -> Vec<GroupMember> {
    let ranks = entries.len() as u32;
    let members = algorithm.sorters().unwrap_or(PAIR);
    let stride = ranks / members;
    let member = |index: u32| {
        let rank = index * stride;
        let (block, first) = algorithm.sorters().map_or((ranks, 0), |_| (stride, rank));
        let splitting = SplitProtocol::new(algorithm, rank, ranks, entries[rank as usize], [0, 0]);
        let is_merged = algorithm != SplitAlgorithm::AllgatherSort;
        let (split, entries) = (TimedSplit::new(splitting, micros_per_entry), entries.clone());
        GroupMember { split, index, members, stride, block, first, entries, is_merged }
    };
    (0..members).map(member).collect()
}

impl GroupMember {
    fn is_neighbor(&self, rank: u32) -> bool {
        (self.first..self.first + self.block).contains(&rank)
    }

    /// The message of the neighbor at a distance, when it has `distance` entries: those of the ranks before it, and its
    /// own.
    fn emulated_message(&self, distance: u32) -> (u32, Bytes) {
        let offset = self.index * self.stride - self.first;
        let rank = |i: u32| self.first + (offset + self.block + 1 + i - 2 * distance) % self.block;
        let mut table: Vec<SplitEntry> = (0..distance).map(|i| self.entries[rank(i) as usize]).collect();
        if self.is_merged {
            table.sort_unstable();
        }
        // An empty trailer follows the entries.
        table.push(SplitEntry::default());
        (rank(distance - 1), Bytes::from(table))
    }
}

impl Reactor for GroupMember {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.split.poll_transmit()?;
        Some(if self.is_neighbor(transmit.to) {
            Transmit { to: (self.index + 1) % self.members, tag: transmit.tag | EMULATED_TAG, ..transmit }
        } else {
            Transmit { to: transmit.to / self.stride, ..transmit }
        })
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        if tag & EMULATED_TAG == 0 {
            return self.split.on_message(now, from * self.stride, tag, bytes);
        }
        let entries = bytes.as_slice().len() / size_of::<SplitEntry>() - 1;
        let (from, bytes) = self.emulated_message(entries as u32);
        self.split.on_message(now, from, tag & !EMULATED_TAG, bytes)
    }

    fn dependency_on(&self, _: u32) -> PeerDependency {
        PeerDependency::Possible
    }

    fn is_done(&self) -> bool {
        self.split.is_done()
    }

    fn take_work(&mut self) -> u64 {
        self.split.take_work()
    }
}
