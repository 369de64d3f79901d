//! A split as one protocol: the phases of the selected algorithm, one after the other.
//!
//! | algorithm | phases |
//! |---|---|
//! | allgather_sort, merge | collect among all |
//! | distributed, overlapped | collect in blocks, sort in groups, find |
//! | parallel_sort | the same, then copy the parts to the whole group |
//! | quick | quicksort of all, gather in blocks, find |
//!
//! Cost: collect n/p, splitters O(p lg n + lg^2 n), exchange n/p, merge n/p lg p. Memory: the entries of n/p ranks, or
//! of all n where all get the full table. Any number of ranks and sorters. [thesis 2.3]

use std::collections::VecDeque;
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use super::algorithm::SplitAlgorithm;
use super::blocks::{SorterBlocks, SorterGroup};
use super::bruck_allgather::{BruckAllgather, CombineMode};
use super::entry::{Piggyback, SplitEntry, elementwise_max};
use super::parallel_sort::{ParallelSort, SortProgress, SplitterOptions};
use super::placement::{LookupResult, PlacementLookup, SplitPlacement};
use super::quicksort::Quicksort;
use super::record::{read_all, refused};
use super::split_result::{RankTable, SplitPhase, SplitPhaseCost, SplitResult};
use crate::dissemination::{Dissemination, RingPosition};

/// The stage of a rank.
enum SplitStage {
    /// Waits for the entry of its follower.
    Leading,
    Collecting(Dissemination<BruckAllgather>),
    Sorting(ParallelSort),
    Quicksort(Quicksort),
    Gathering(Dissemination<BruckAllgather>),
    Finding(PlacementLookup),
    Copying(Dissemination<BruckAllgather>),
    /// Waits for the table of its leader.
    Following,
    Done,
}

/// Tags of messages to leaders and to followers, which belong to no phase; the numbers between are those of phases.
const LEADING: u32 = 0;
const FOLLOWING: u32 = 7;

/// Bits of a tag: the algorithm, the stage, and the tag within the stage.
const STAGE_SHIFT: u32 = 12;
const ALGORITHM_SHIFT: u32 = 15;

impl SplitStage {
    /// Its number in tags.
    fn number(&self) -> u32 {
        match self {
            SplitStage::Leading => LEADING,
            SplitStage::Collecting(_) => 1,
            SplitStage::Sorting(_) => 2,
            SplitStage::Quicksort(_) => 3,
            SplitStage::Gathering(_) => 4,
            SplitStage::Finding(_) => 5,
            SplitStage::Copying(_) => 6,
            SplitStage::Following => FOLLOWING,
            SplitStage::Done => u32::MAX,
        }
    }

    /// The reactor of the current phase, if it is a phase of several ranks.
    fn phase_reactor(&self) -> Option<&dyn Reactor> {
        match self {
            SplitStage::Collecting(reactor) | SplitStage::Gathering(reactor) | SplitStage::Copying(reactor) => {
                Some(reactor)
            }
            SplitStage::Sorting(reactor) => Some(reactor),
            SplitStage::Quicksort(reactor) => Some(reactor),
            SplitStage::Finding(reactor) => Some(reactor),
            SplitStage::Leading | SplitStage::Following | SplitStage::Done => None,
        }
    }

    fn phase_reactor_mut(&mut self) -> Option<&mut dyn Reactor> {
        match self {
            SplitStage::Collecting(reactor) | SplitStage::Gathering(reactor) | SplitStage::Copying(reactor) => {
                Some(reactor)
            }
            SplitStage::Sorting(reactor) => Some(reactor),
            SplitStage::Quicksort(reactor) => Some(reactor),
            SplitStage::Finding(reactor) => Some(reactor),
            SplitStage::Leading | SplitStage::Following | SplitStage::Done => None,
        }
    }

    fn phase(&self) -> SplitPhase {
        match self {
            SplitStage::Leading | SplitStage::Collecting(_) => SplitPhase::Collect,
            SplitStage::Gathering(_) => SplitPhase::Merge,
            SplitStage::Quicksort(_) => SplitPhase::Splitters,
            SplitStage::Sorting(sort) => match sort.progress() {
                SortProgress::Splitters => SplitPhase::Splitters,
                SortProgress::Exchange => SplitPhase::Exchange,
                SortProgress::Merge => SplitPhase::Merge,
            },
            SplitStage::Finding(_) => SplitPhase::Find,
            SplitStage::Copying(_) | SplitStage::Following | SplitStage::Done => SplitPhase::Copy,
        }
    }
}

/// A split on one rank.
pub struct SplitProtocol {
    algorithm: SplitAlgorithm,
    rank: u32,
    ranks: u32,
    blocks: SorterBlocks,
    group: SorterGroup,
    index: u32,
    entry: SplitEntry,
    piggyback: Piggyback,
    stage: SplitStage,
    /// Messages for later stages.
    unexpected: Vec<(u32, u32, Bytes)>,
    outgoing: VecDeque<Transmit>,
    /// The placement of this rank, once it is known.
    placement: Option<SplitPlacement>,
    result: Option<SplitResult>,
    costs: [SplitPhaseCost; 6],
    now: Duration,
    work: u64,
    /// Maximum number of entries held.
    max_entries: usize,
}

impl SplitProtocol {
    /// Starts a split on one of `ranks` ranks, with its entry, and a piggyback of which all learn the elementwise
    /// maximum.
    pub fn new(algorithm: SplitAlgorithm, rank: u32, ranks: u32, entry: SplitEntry, piggyback: Piggyback) -> Self {
        let blocks = SorterBlocks::new(ranks, algorithm.sorters().unwrap_or(1));
        let (group, index) = blocks.group_of(rank);
        let mut this = Self {
            algorithm,
            rank,
            ranks,
            blocks,
            group,
            index,
            entry,
            piggyback,
            stage: SplitStage::Leading,
            unexpected: Vec::new(),
            outgoing: VecDeque::new(),
            placement: None,
            result: None,
            costs: Default::default(),
            now: Duration::ZERO,
            work: 0,
            max_entries: 1,
        };
        match algorithm {
            SplitAlgorithm::AllgatherSort | SplitAlgorithm::Merge => this.collect(vec![entry], ranks),
            SplitAlgorithm::Quick { .. } => this.stage = SplitStage::Quicksort(Quicksort::new(rank, ranks, entry)),
            _ if index >= group.holders() => this.follow(),
            _ if blocks.follower(rank).is_some() => {}
            _ => this.collect_in_block(vec![entry]),
        }
        this.settle().expect("no message has arrived yet");
        this
    }

    /// The rank with index 0 among those that collect with this one.
    fn first(&self) -> u32 {
        if self.algorithm.sorters().is_none() { 0 } else { self.blocks.block(self.blocks.block_of(self.rank)).start }
    }

    fn collect(&mut self, table: Vec<SplitEntry>, size: u32) {
        let first = self.first();
        let combine_mode = match self.algorithm {
            SplitAlgorithm::AllgatherSort => CombineMode::Append { counts: vec![1; size as usize] },
            _ => CombineMode::Merge { first },
        };
        let position = RingPosition { rank: self.rank - first, ranks: size };
        self.stage = SplitStage::Collecting(BruckAllgather::begin(position, combine_mode, table, self.piggyback));
    }

    /// The sorters of a block collect its entries.
    fn collect_in_block(&mut self, table: Vec<SplitEntry>) {
        let block = self.blocks.block(self.blocks.block_of(self.rank));
        let has_follower = self.blocks.leader(block.end - 1).is_some();
        self.collect(table, block.len() as u32 - u32::from(has_follower));
    }

    /// Sends the entry to the leader, which sorts it.
    fn follow(&mut self) {
        let leader = self.blocks.leader(self.rank).expect("a follower has a leader");
        let entries = vec![self.entry, SplitEntry::from_piggyback(self.piggyback)];
        self.send(leader, LEADING, 0, Bytes::from(entries));
        self.find(Vec::new());
    }

    fn sort(&mut self, table: Vec<SplitEntry>) {
        let starts: Vec<u64> =
            (0..self.blocks.sorters()).map(|block| u64::from(self.blocks.block(block).start)).collect();
        let options = match self.algorithm {
            SplitAlgorithm::Overlapped { .. } => SplitterOptions::overlapped(self.ranks.into(), self.blocks.sorters()),
            _ => SplitterOptions::EXACT,
        };
        self.stage = SplitStage::Sorting(ParallelSort::new(self.index, &starts, table, options));
    }

    fn gather(&mut self, row: SplitEntry) {
        let block = self.blocks.block(self.blocks.block_of(self.rank));
        let combine_mode = CombineMode::Append { counts: vec![1; block.len()] };
        let position = RingPosition { rank: self.rank - block.start, ranks: block.len() as u32 };
        self.stage = SplitStage::Gathering(BruckAllgather::begin(position, combine_mode, vec![row], self.piggyback));
    }

    fn find(&mut self, rows: Vec<SplitEntry>) {
        self.max_entries = self.max_entries.max(rows.len());
        let sizes = (self.group.holders(), self.group.readers());
        self.stage = SplitStage::Finding(PlacementLookup::new(self.index, sizes, self.entry, rows, self.piggyback));
    }

    /// The rank with an index in the current stage.
    fn rank_of(&self, index: u32) -> u32 {
        match self.stage {
            SplitStage::Quicksort(_) => index,
            SplitStage::Collecting(_) | SplitStage::Gathering(_) => self.first() + index,
            _ => self.group.rank(index),
        }
    }

    /// The index of a rank in the current stage, if it has one.
    fn index_of(&self, rank: u32) -> Option<u32> {
        match self.stage {
            SplitStage::Quicksort(_) => Some(rank),
            SplitStage::Collecting(_) | SplitStage::Gathering(_) => rank.checked_sub(self.first()),
            SplitStage::Finding(_) => self.group.index(rank),
            _ => self.group.index(rank).filter(|index| *index < self.group.holders()),
        }
    }

    fn send(&mut self, to: u32, stage: u32, tag: u32, bytes: Bytes) {
        debug_assert_eq!(tag >> STAGE_SHIFT, 0);
        let cost = &mut self.costs[self.stage.phase() as usize];
        cost.messages += 1;
        cost.bytes += bytes.as_slice().len() as u64;
        let tag = self.algorithm.number() << ALGORITHM_SHIFT | stage << STAGE_SHIFT | tag;
        self.outgoing.push_back(Transmit::new(to, tag, bytes));
    }

    /// Takes the messages and the work of the current phase.
    fn drain(&mut self) {
        while let Some(message) = self.stage.phase_reactor_mut().and_then(Reactor::poll_transmit) {
            self.send(self.rank_of(message.to), self.stage.number(), message.tag, message.bytes);
        }
        let work = self.stage.phase_reactor_mut().map_or(0, Reactor::take_work);
        let phase = self.stage.phase();
        self.count(phase, work);
        let is_complete = matches!(self.stage, SplitStage::Done);
        for cost in &mut self.costs[..phase as usize + usize::from(is_complete)] {
            cost.end_time.get_or_insert(self.now);
        }
    }

    fn count(&mut self, phase: SplitPhase, work: u64) {
        self.costs[phase as usize].work += work;
        self.work += work;
    }

    /// Advances through completed stages, and delivers the messages that arrived early for them.
    fn settle(&mut self) -> Result<()> {
        loop {
            self.drain();
            let number = self.stage.number();
            if self.stage.phase_reactor().is_some_and(Reactor::is_done) {
                self.advance();
            } else if let Some(index) = self.unexpected.iter().position(|(_, tag, _)| *tag >> STAGE_SHIFT == number) {
                let (from, tag, bytes) = self.unexpected.remove(index);
                self.deliver(from, tag & ((1 << STAGE_SHIFT) - 1), bytes)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Advances from a completed stage to the next one.
    fn advance(&mut self) {
        match std::mem::replace(&mut self.stage, SplitStage::Done) {
            SplitStage::Collecting(collect) => {
                let (table, piggyback) = collect.value.finish();
                self.piggyback = piggyback;
                self.max_entries = self.max_entries.max(table.len());
                if self.algorithm.sorters().is_some() { self.sort(table) } else { self.finish_whole(table) }
            }
            SplitStage::Sorting(sort) => self.find(sort.finish()),
            SplitStage::Quicksort(quicksort) => self.gather(quicksort.finish()),
            SplitStage::Gathering(gather) => {
                let (rows, piggyback) = gather.value.finish();
                self.piggyback = piggyback;
                // Followers hold no rows.
                self.find(if self.index < self.group.holders() { rows } else { Vec::new() });
            }
            SplitStage::Finding(lookup) => self.finish_finding(lookup.finish()),
            SplitStage::Copying(copy) => self.finish_copying(copy.value.finish().0),
            SplitStage::Leading | SplitStage::Following | SplitStage::Done => {
                unreachable!("these are not completed by a phase")
            }
        }
    }

    fn finish_finding(&mut self, result: LookupResult) {
        let LookupResult { placement, starts, piggyback, rows } = result;
        let (placement, affine) = placement.unzip();
        (self.piggyback, self.placement) = (piggyback, placement);
        let holders = self.group.holders();
        if !matches!(self.algorithm, SplitAlgorithm::ParallelSort { .. }) {
            let holders = (0..holders).map(|index| self.group.rank(index)).collect();
            let table = RankTable::Shared { rows: rows.iter().map(SplitEntry::world_rank).collect(), starts, holders };
            self.result = Some(SplitResult { piggyback, placement, affine, table });
        } else if self.index < holders {
            let counts = starts.windows(2).map(|two| two[1] - two[0]).collect();
            let combine_mode = CombineMode::Append { counts };
            let position = RingPosition { rank: self.index, ranks: holders };
            self.stage = SplitStage::Copying(BruckAllgather::begin(position, combine_mode, rows, piggyback));
        } else {
            self.stage = SplitStage::Following;
        }
    }

    /// The full table is here: keeps the rows of the own color, and sends all of it to a follower.
    fn finish_copying(&mut self, table: Vec<SplitEntry>) {
        self.max_entries = self.max_entries.max(table.len());
        if let Some(follower) = self.blocks.follower(self.rank) {
            self.send(follower, FOLLOWING, 0, Bytes::from(table.clone()));
        }
        self.keep(table);
    }

    /// All entries are here, sorted unless that is done now.
    fn finish_whole(&mut self, mut table: Vec<SplitEntry>) {
        let group = self.entry.group_key();
        if self.algorithm == SplitAlgorithm::AllgatherSort {
            table.retain(|entry| entry.group_key() == group);
            self.count(SplitPhase::Merge, table.len() as u64 * u64::from(table.len().max(1).ilog2()));
            table.sort_unstable();
        }
        let start = table.partition_point(|entry| entry.group_key() < group);
        let size = table[start..].partition_point(|entry| entry.group_key() == group);
        let rank = table[start..start + size].binary_search(&self.entry).unwrap_or(0) as u32;
        let placement = SplitPlacement { start: start as u32, size: size as u32, rank };
        self.placement = self.entry.has_color().then_some(placement);
        self.keep(table);
    }

    /// Keeps the rows of the own color.
    fn keep(&mut self, table: Vec<SplitEntry>) {
        let (piggyback, placement) = (self.piggyback, self.placement);
        let SplitPlacement { start, size, .. } = placement.unwrap_or_default();
        let own = table.get(start as usize..(start + size) as usize).unwrap_or_default();
        let table = RankTable::Full(own.iter().map(SplitEntry::world_rank).collect());
        self.result = Some(SplitResult { piggyback, placement, affine: None, table });
    }

    fn deliver(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let unknown = refused(bytes.as_slice().len(), 0);
        match self.stage {
            SplitStage::Leading => {
                let entries: Vec<SplitEntry> = read_all(bytes)?;
                let [other, piggyback] = entries[..] else { return Err(unknown) };
                self.piggyback = elementwise_max(self.piggyback, piggyback.to_piggyback());
                let both = if self.entry < other { [self.entry, other] } else { [other, self.entry] };
                self.collect_in_block(both.to_vec());
            }
            SplitStage::Following => {
                let table = read_all(bytes)?;
                self.stage = SplitStage::Done;
                self.keep(table);
            }
            _ => {
                let (now, index) = (self.now, self.index_of(from));
                let (Some(reactor), Some(index)) = (self.stage.phase_reactor_mut(), index) else { return Err(unknown) };
                reactor.on_message(now, index, tag, bytes)?;
            }
        }
        Ok(())
    }

    /// The result, once it is done.
    pub fn finish(self) -> SplitResult {
        self.result.expect("called only when it is done")
    }

    /// The costs of the phases.
    pub fn phase_costs(&self) -> &[SplitPhaseCost; 6] {
        &self.costs
    }

    /// Bytes of the maximum number of entries held at once, without messages.
    pub fn max_memory_bytes(&self) -> usize {
        self.max_entries * size_of::<SplitEntry>()
    }

    fn expects(&self, rank: u32) -> bool {
        match self.stage {
            SplitStage::Leading => self.blocks.follower(self.rank) == Some(rank),
            SplitStage::Following => self.blocks.leader(self.rank) == Some(rank),
            _ => self
                .stage
                .phase_reactor()
                .zip(self.index_of(rank))
                .is_some_and(|(reactor, index)| reactor.dependency_on(index) == PeerDependency::Required),
        }
    }
}

impl Reactor for SplitProtocol {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        self.now = now;
        if tag >> ALGORITHM_SHIFT != self.algorithm.number() {
            return Err(Error::CollectiveOrderMismatch { rank: from as usize });
        }
        self.unexpected.push((from, tag & ((1 << ALGORITHM_SHIFT) - 1), bytes));
        self.settle()
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        match self.stage {
            SplitStage::Done => PeerDependency::Nothing,
            _ if self.expects(rank) => PeerDependency::Required,
            _ => PeerDependency::Possible,
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.stage, SplitStage::Done) && self.outgoing.is_empty()
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    fn name(&self) -> &'static str {
        self.algorithm.name()
    }
}
