//! Parallel sort: p ranks, each with a sorted table, end with the parts of one sorted table.
//!
//! Finds the splitters, one for each rank but the first ([`splitter`](super::splitter)); then each rank sends to each
//! other the entries between its splitters; then each merges the p runs it received. Cost: O(p lg n + lg^2 n) for the
//! splitters, n/p for the exchange, n/p lg p for the merge. [Cheng et al.; thesis 2.3.1]
//!
//! Overlapped, splitters are approximate, so fewer rounds find them; runs are sent as soon as both of their ends are
//! known, and merged as they arrive. [Solomonik and Kale; thesis 2.3.3]

use std::collections::VecDeque;
use std::time::Duration;

use treepie_base::{Bytes, Pod, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use super::entry::SplitEntry;
use super::merge::{IncrementalMerge, merge_all};
use super::record::{read, read_all, refused, write};
use super::splitter::{PivotResult, Proposal, SplitterOwner, SplitterSearch};

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SortTag {
    /// To the owner of a splitter.
    Proposal,
    /// From the owner of a splitter.
    PivotResult,
    /// Entries between two splitters.
    Run,
}

const TAGS: [SortTag; 3] = [SortTag::Proposal, SortTag::PivotResult, SortTag::Run];

/// How splitters are found, and whether phases overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitterOptions {
    /// Maximum deviation of the start of a part, in entries.
    pub tolerance: u64,
    /// Whether runs are sent before all splitters are known, and merged before all have arrived.
    pub overlapped: bool,
}

impl SplitterOptions {
    /// One phase after the other, with exact splitters.
    pub const EXACT: Self = Self { tolerance: 0, overlapped: false };

    /// Parts that are up to a quarter too long: at most an eighth at each end.
    pub fn overlapped(entries: u64, ranks: u32) -> Self {
        Self { tolerance: entries / u64::from(ranks) / 8, overlapped: true }
    }
}

/// Phase of the sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SortProgress {
    /// Searching for splitters.
    Splitters,
    /// Runs are in flight.
    Exchange,
    /// All runs have arrived.
    Merge,
}

/// The sort on one rank, which is an index among the sorters.
pub struct ParallelSort {
    index: u32,
    table: Vec<SplitEntry>,
    options: SplitterOptions,
    /// The search for the splitter before each rank; that of the first is known.
    searches: Vec<SplitterSearch>,
    /// The state of the splitter that this rank owns.
    splitter_owner: SplitterOwner,
    /// Whether each rank has been sent its run.
    sent: Vec<bool>,
    /// The run of each rank; merged ones are empty.
    runs: Vec<Option<Vec<SplitEntry>>>,
    merging: IncrementalMerge,
    rows: Option<Vec<SplitEntry>>,
    outgoing: VecDeque<Transmit>,
    /// Messages of this rank to itself.
    self_messages: VecDeque<(SortTag, Bytes)>,
    work: u64,
}

impl ParallelSort {
    /// The tag of messages with entries; all others are of the splitter search.
    pub const RUN: u32 = SortTag::Run as u32;

    /// Starts with a sorted table. `starts` has the desired first row of each rank's part.
    pub fn new(index: u32, starts: &[u64], table: Vec<SplitEntry>, options: SplitterOptions) -> Self {
        let ranks = starts.len();
        let mut this = Self {
            index,
            options,
            searches: vec![SplitterSearch::new(table.len()); ranks],
            splitter_owner: SplitterOwner::new(starts[index as usize], options.tolerance, ranks as u32),
            sent: vec![false; ranks],
            runs: vec![None; ranks],
            merging: IncrementalMerge::default(),
            rows: None,
            outgoing: VecDeque::new(),
            self_messages: VecDeque::new(),
            work: 0,
            table,
        };
        for splitter in 1..ranks as u32 {
            let first = this.searches[splitter as usize].first_proposal(&this.table);
            this.send_value(splitter, SortTag::Proposal, first);
        }
        this.exchange();
        this.deliver_self_messages().expect("a rank accepts its own messages");
        this
    }

    fn ranks(&self) -> u32 {
        self.searches.len() as u32
    }

    fn send_value(&mut self, to: u32, tag: SortTag, value: impl Pod) {
        self.send(to, tag, write(&value));
    }

    fn send(&mut self, to: u32, tag: SortTag, bytes: Bytes) {
        if to == self.index {
            self.self_messages.push_back((tag, bytes));
        } else {
            self.outgoing.push_back(Transmit::new(to, tag as u32, bytes));
        }
    }

    fn deliver_self_messages(&mut self) -> Result<()> {
        while let Some((tag, bytes)) = self.self_messages.pop_front() {
            self.handle(self.index, tag, bytes)?;
        }
        Ok(())
    }

    fn handle(&mut self, from: u32, tag: SortTag, bytes: Bytes) -> Result<()> {
        match tag {
            SortTag::Proposal => {
                let proposal: Proposal = read(&bytes)?;
                self.work += 1;
                let Some((result, _)) = self.splitter_owner.on_proposal(from, proposal) else { return Ok(()) };
                (0..self.ranks()).for_each(|to| self.send_value(to, SortTag::PivotResult, result));
            }
            SortTag::PivotResult => {
                let result: PivotResult = read(&bytes)?;
                self.work += u64::from(self.table.len().max(1).ilog2());
                match self.searches[from as usize].on_pivot_result(result, &self.table) {
                    Some(proposal) => self.send_value(from, SortTag::Proposal, proposal),
                    None => self.exchange(),
                }
            }
            SortTag::Run => {
                let run = read_all(bytes)?;
                self.on_run(from, run);
            }
        }
        Ok(())
    }

    /// Index in the local table at which the entries for the rank's part begin, if it is known.
    fn splitter_index(&self, rank: u32) -> Option<usize> {
        match rank {
            0 => Some(0),
            rank if rank == self.ranks() => Some(self.table.len()),
            rank => self.searches[rank as usize].found().map(|index| index as usize),
        }
    }

    /// Sends the runs whose ends are known; all at once unless phases overlap.
    fn exchange(&mut self) {
        let all_are_known = (1..self.ranks()).all(|rank| self.splitter_index(rank).is_some());
        if !self.options.overlapped && !all_are_known {
            return;
        }
        // Each rank starts with the one after it, so that not all send to the same rank first.
        for i in 1..=self.ranks() {
            let to = (self.index + i) % self.ranks();
            let (Some(start), Some(end)) = (self.splitter_index(to), self.splitter_index(to + 1)) else { continue };
            if !std::mem::replace(&mut self.sent[to as usize], true) {
                let run = self.table[start..end].to_vec();
                self.work += run.len() as u64;
                self.send(to, SortTag::Run, Bytes::from(run));
            }
        }
        if all_are_known {
            self.table = Vec::new();
        }
    }

    fn on_run(&mut self, from: u32, run: Vec<SplitEntry>) {
        if self.options.overlapped {
            self.merging.push(run);
            self.runs[from as usize] = Some(Vec::new());
        } else {
            self.runs[from as usize] = Some(run);
        }
        if self.runs.iter().all(Option::is_some) {
            let (rows, work) = if self.options.overlapped {
                std::mem::take(&mut self.merging).finish()
            } else {
                merge_all(self.runs.iter_mut().filter_map(|run| run.replace(Vec::new())).collect())
            };
            self.work += work;
            self.rows = Some(rows);
        }
    }

    /// The current phase.
    pub fn progress(&self) -> SortProgress {
        match &self.rows {
            Some(_) => SortProgress::Merge,
            None if self.table.is_empty() => SortProgress::Exchange,
            None => SortProgress::Splitters,
        }
    }

    /// Number of pivots of the splitter that this rank owns.
    pub fn rounds(&self) -> u32 {
        self.splitter_owner.rounds()
    }

    /// This rank's part of the sorted table.
    pub fn finish(self) -> Vec<SplitEntry> {
        self.rows.expect("called only when it is done")
    }
}

impl Reactor for ParallelSort {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let tag = *TAGS.get(tag as usize).ok_or_else(|| refused(bytes.as_slice().len(), 0))?;
        self.handle(from, tag, bytes)?;
        self.deliver_self_messages()
    }

    fn dependency_on(&self, from: u32) -> PeerDependency {
        let is_missing = self.runs[from as usize].is_none() || self.splitter_index(from).is_none();
        if is_missing { PeerDependency::Required } else { PeerDependency::Nothing }
    }

    /// Others may need this rank for splitters until they have their runs.
    fn is_done(&self) -> bool {
        self.rows.is_some() && !self.sent.contains(&false)
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }
}
