//! A split as one protocol: its phases one after the other, by the way that was chosen.
//!
//! | way | phases |
//! |---|---|
//! | allgather_sort, merge | collect among all |
//! | distributed, overlapped | collect in blocks, sort in groups, find |
//! | parallel_sort | the same, and copy the parts to all of the group |
//! | quick | quicksort of all, gather in blocks, find |
//!
//! Cost: collect n/p, splitters O(p lg n + lg^2 n), exchange n/p, merge n/p lg p. Memory: entries of n/p ranks, or of all n where
//! all get the whole table. Any number of ranks and sorters. [thesis 2.3]

use std::collections::VecDeque;
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{Needs, Reactor, Transmit};

use super::blocks::{Blocks, Group};
use super::doubling::{Doubling, Joining};
use super::entry::{Entry, Notes, highest};
use super::finding::{Finding, Found, Place};
use super::letter::{read_all, refused};
use super::outcome::{Outcome, Phase, Spent, Table};
use super::part::Part;
use super::quick::Quick;
use super::sorting::{Manner, Progress, Sorting};
use super::ways::Way;

/// How far a rank is.
enum Stage {
    /// It waits for the entry of a follower.
    Leading,
    Collecting(Doubling),
    Sorting(Sorting),
    Quick(Quick),
    Gathering(Doubling),
    Finding(Finding),
    Copying(Doubling),
    /// It waits for the table of its leader.
    Following,
    Done,
}

/// Of messages to leaders and to followers, which belong to no phase; those of phases have their place among these.
const LEADING: u32 = 0;
const FOLLOWING: u32 = 7;

/// Bits of a tag for the way, the stage, and what the stage has.
const STAGE_AT: u32 = 12;
const WAY_AT: u32 = 15;

impl Stage {
    /// In tags.
    fn number(&self) -> u32 {
        match self {
            Stage::Leading => LEADING,
            Stage::Collecting(_) => 1,
            Stage::Sorting(_) => 2,
            Stage::Quick(_) => 3,
            Stage::Gathering(_) => 4,
            Stage::Finding(_) => 5,
            Stage::Copying(_) => 6,
            Stage::Following => FOLLOWING,
            Stage::Done => u32::MAX,
        }
    }

    /// What goes on, if it is a phase of several ranks.
    fn part(&self) -> Option<&dyn Part> {
        match self {
            Stage::Collecting(part) | Stage::Gathering(part) | Stage::Copying(part) => Some(part),
            Stage::Sorting(part) => Some(part),
            Stage::Quick(part) => Some(part),
            Stage::Finding(part) => Some(part),
            Stage::Leading | Stage::Following | Stage::Done => None,
        }
    }

    fn part_mut(&mut self) -> Option<&mut dyn Part> {
        match self {
            Stage::Collecting(part) | Stage::Gathering(part) | Stage::Copying(part) => Some(part),
            Stage::Sorting(part) => Some(part),
            Stage::Quick(part) => Some(part),
            Stage::Finding(part) => Some(part),
            Stage::Leading | Stage::Following | Stage::Done => None,
        }
    }

    fn phase(&self) -> Phase {
        match self {
            Stage::Leading | Stage::Collecting(_) => Phase::Collect,
            Stage::Gathering(_) => Phase::Merge,
            Stage::Quick(_) => Phase::Splitters,
            Stage::Sorting(sorting) => match sorting.progress() {
                Progress::Splitters => Phase::Splitters,
                Progress::Exchange => Phase::Exchange,
                Progress::Merge => Phase::Merge,
            },
            Stage::Finding(_) => Phase::Find,
            Stage::Copying(_) | Stage::Following | Stage::Done => Phase::Copy,
        }
    }
}

/// A split on one rank.
pub struct Splitting {
    way: Way,
    rank: u32,
    ranks: u32,
    blocks: Blocks,
    group: Group,
    index: u32,
    entry: Entry,
    notes: Notes,
    stage: Stage,
    /// Messages for later stages.
    early: Vec<(u32, u32, Bytes)>,
    outgoing: VecDeque<Transmit>,
    /// Where the rank belongs, once that is known.
    place: Option<Place>,
    outcome: Option<Outcome>,
    spent: [Spent; 6],
    now: Duration,
    work: u64,
    /// The most entries that were held.
    most: usize,
}

impl Splitting {
    /// Begins on a rank of so many, with its entry, and notes of which all get to know the highest.
    pub fn new(way: Way, rank: u32, ranks: u32, entry: Entry, notes: Notes) -> Self {
        let blocks = Blocks::new(ranks, way.sorters().unwrap_or(1));
        let (group, index) = blocks.group_of(rank);
        let mut this = Self {
            way,
            rank,
            ranks,
            blocks,
            group,
            index,
            entry,
            notes,
            stage: Stage::Leading,
            early: Vec::new(),
            outgoing: VecDeque::new(),
            place: None,
            outcome: None,
            spent: Default::default(),
            now: Duration::ZERO,
            work: 0,
            most: 1,
        };
        match way {
            Way::AllgatherSort | Way::Merge => this.collect(vec![entry], ranks),
            Way::Quick { .. } => this.stage = Stage::Quick(Quick::new(rank, ranks, entry)),
            _ if index >= group.holders() => this.follow(),
            _ if blocks.follower(rank).is_some() => {}
            _ => this.collect_in_block(vec![entry]),
        }
        this.settle().expect("nothing has come yet");
        this
    }

    /// The rank with index 0 among those who collect with this one.
    fn first(&self) -> u32 {
        if self.way.sorters().is_none() { 0 } else { self.blocks.block(self.blocks.block_of(self.rank)).start }
    }

    fn collect(&mut self, table: Vec<Entry>, size: u32) {
        let first = self.first();
        let joining = match self.way {
            Way::AllgatherSort => Joining::Append { counts: vec![1; size as usize] },
            _ => Joining::Merge { first },
        };
        self.stage = Stage::Collecting(Doubling::new(self.rank - first, size, joining, table, self.notes));
    }

    /// Those of a block who sort collect its entries.
    fn collect_in_block(&mut self, table: Vec<Entry>) {
        let block = self.blocks.block(self.blocks.block_of(self.rank));
        let has_follower = self.blocks.leader(block.end - 1).is_some();
        self.collect(table, block.len() as u32 - u32::from(has_follower));
    }

    /// Has the leader sort the entry.
    fn follow(&mut self) {
        let leader = self.blocks.leader(self.rank).expect("only followers follow");
        let entries = vec![self.entry, Entry::of_notes(self.notes)];
        self.send(leader, LEADING, 0, Bytes::from(entries));
        self.find(Vec::new());
    }

    fn sort(&mut self, table: Vec<Entry>) {
        let starts: Vec<u64> =
            (0..self.blocks.sorters()).map(|block| u64::from(self.blocks.block(block).start)).collect();
        let manner = match self.way {
            Way::Overlapped { .. } => Manner::overlapped(self.ranks.into(), self.blocks.sorters()),
            _ => Manner::EXACT,
        };
        self.stage = Stage::Sorting(Sorting::new(self.index, &starts, table, manner));
    }

    fn gather(&mut self, row: Entry) {
        let block = self.blocks.block(self.blocks.block_of(self.rank));
        let joining = Joining::Append { counts: vec![1; block.len()] };
        let doubling = Doubling::new(self.rank - block.start, block.len() as u32, joining, vec![row], self.notes);
        self.stage = Stage::Gathering(doubling);
    }

    fn find(&mut self, rows: Vec<Entry>) {
        self.most = self.most.max(rows.len());
        let sizes = (self.group.holders(), self.group.readers());
        self.stage = Stage::Finding(Finding::new(self.index, sizes, self.entry, rows, self.notes));
    }

    /// The rank with an index in the stage that goes on.
    fn rank_of(&self, index: u32) -> u32 {
        match self.stage {
            Stage::Quick(_) => index,
            Stage::Collecting(_) | Stage::Gathering(_) => self.first() + index,
            _ => self.group.rank(index),
        }
    }

    /// The index of a rank there, if it has one.
    fn index_of(&self, rank: u32) -> Option<u32> {
        match self.stage {
            Stage::Quick(_) => Some(rank),
            Stage::Collecting(_) | Stage::Gathering(_) => rank.checked_sub(self.first()),
            Stage::Finding(_) => self.group.index(rank),
            _ => self.group.index(rank).filter(|index| *index < self.group.holders()),
        }
    }

    fn send(&mut self, to: u32, stage: u32, tag: u32, bytes: Bytes) {
        debug_assert_eq!(tag >> STAGE_AT, 0);
        let spent = &mut self.spent[self.stage.phase() as usize];
        spent.messages += 1;
        spent.bytes += bytes.as_slice().len() as u64;
        let tag = self.way.number() << WAY_AT | stage << STAGE_AT | tag;
        self.outgoing.push_back(Transmit::new(to, tag, bytes));
    }

    /// Takes what the stage has to send, and what it has done.
    fn drain(&mut self) {
        while let Some((to, tag, bytes)) = self.stage.part_mut().and_then(Part::poll_transmit) {
            self.send(self.rank_of(to), self.stage.number(), tag, bytes);
        }
        let work = self.stage.part_mut().map_or(0, Part::take_work);
        let phase = self.stage.phase();
        self.count(phase, work);
        let is_over = matches!(self.stage, Stage::Done);
        for spent in &mut self.spent[..phase as usize + usize::from(is_over)] {
            spent.until.get_or_insert(self.now);
        }
    }

    fn count(&mut self, phase: Phase, work: u64) {
        self.spent[phase as usize].work += work;
        self.work += work;
    }

    /// Goes through stages as long as they are done, and hands in what came early for them.
    fn settle(&mut self) -> Result<()> {
        loop {
            self.drain();
            let number = self.stage.number();
            if self.stage.part().is_some_and(Part::is_done) {
                self.advance();
            } else if let Some(place) = self.early.iter().position(|(_, tag, _)| *tag >> STAGE_AT == number) {
                let (from, tag, bytes) = self.early.remove(place);
                self.hand_in(from, tag & ((1 << STAGE_AT) - 1), bytes)?;
            } else {
                return Ok(());
            }
        }
    }

    /// From a stage that is done to the next one.
    fn advance(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Collecting(collecting) => {
                let (table, notes) = collecting.finish();
                self.notes = notes;
                self.most = self.most.max(table.len());
                if self.way.sorters().is_some() { self.sort(table) } else { self.finish_whole(table) }
            }
            Stage::Sorting(sorting) => self.find(sorting.finish()),
            Stage::Quick(quick) => self.gather(quick.finish()),
            Stage::Gathering(gathering) => {
                let (rows, notes) = gathering.finish();
                self.notes = notes;
                // Those who follow hold nothing.
                self.find(if self.index < self.group.holders() { rows } else { Vec::new() });
            }
            Stage::Finding(finding) => self.finish_finding(finding.finish()),
            Stage::Copying(copying) => self.finish_copying(copying.finish().0),
            Stage::Leading | Stage::Following | Stage::Done => unreachable!("none of these is done by itself"),
        }
    }

    fn finish_finding(&mut self, found: Found) {
        let Found { place, starts, notes, rows } = found;
        let (place, line) = place.unzip();
        (self.notes, self.place) = (notes, place);
        let holders = self.group.holders();
        if !matches!(self.way, Way::ParallelSort { .. }) {
            let holders = (0..holders).map(|index| self.group.rank(index)).collect();
            let table = Table::Shared { rows: rows.iter().map(Entry::at).collect(), starts, holders };
            self.outcome = Some(Outcome { notes, place, line, table });
        } else if self.index < holders {
            let counts = starts.windows(2).map(|two| two[1] - two[0]).collect();
            let joining = Joining::Append { counts };
            self.stage = Stage::Copying(Doubling::new(self.index, holders, joining, rows, notes));
        } else {
            self.stage = Stage::Following;
        }
    }

    /// The whole table is here: what is of the own colour is kept, and a follower gets all of it.
    fn finish_copying(&mut self, table: Vec<Entry>) {
        self.most = self.most.max(table.len());
        if let Some(follower) = self.blocks.follower(self.rank) {
            self.send(follower, FOLLOWING, 0, Bytes::from(table.clone()));
        }
        self.keep(table);
    }

    /// All entries are here, sorted unless that is done now.
    fn finish_whole(&mut self, mut table: Vec<Entry>) {
        let group = self.entry.group();
        if self.way == Way::AllgatherSort {
            table.retain(|entry| entry.group() == group);
            self.count(Phase::Merge, table.len() as u64 * u64::from(table.len().max(1).ilog2()));
            table.sort_unstable();
        }
        let start = table.partition_point(|entry| entry.group() < group);
        let size = table[start..].partition_point(|entry| entry.group() == group);
        let rank = table[start..start + size].binary_search(&self.entry).unwrap_or(0) as u32;
        let place = Place { start: start as u32, size: size as u32, rank };
        self.place = self.entry.takes_part().then_some(place);
        self.keep(table);
    }

    /// Keeps those of the own colour.
    fn keep(&mut self, table: Vec<Entry>) {
        let (notes, place) = (self.notes, self.place);
        let Place { start, size, .. } = place.unwrap_or_default();
        let own = table.get(start as usize..(start + size) as usize).unwrap_or_default();
        let table = Table::Whole(own.iter().map(Entry::at).collect());
        self.outcome = Some(Outcome { notes, place, line: None, table });
    }

    fn hand_in(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let unknown = refused(bytes.as_slice().len(), 0);
        match self.stage {
            Stage::Leading => {
                let entries: Vec<Entry> = read_all(bytes)?;
                let [other, notes] = entries[..] else { return Err(unknown) };
                self.notes = highest(self.notes, notes.as_notes());
                let both = if self.entry < other { [self.entry, other] } else { [other, self.entry] };
                self.collect_in_block(both.to_vec());
            }
            Stage::Following => {
                let table = read_all(bytes)?;
                self.stage = Stage::Done;
                self.keep(table);
            }
            _ => {
                let index = self.index_of(from);
                let (Some(part), Some(index)) = (self.stage.part_mut(), index) else { return Err(unknown) };
                part.on_message(index, tag, bytes)?;
            }
        }
        Ok(())
    }

    /// What the rank knows, once it is done.
    pub fn finish(self) -> Outcome {
        self.outcome.expect("asked for when it is done")
    }

    /// What the phases have cost.
    pub fn spent(&self) -> &[Spent; 6] {
        &self.spent
    }

    /// Bytes of the most entries that were held at once, beside messages.
    pub fn most_memory(&self) -> usize {
        self.most * size_of::<Entry>()
    }

    fn expects(&self, rank: u32) -> bool {
        match self.stage {
            Stage::Leading => self.blocks.follower(self.rank) == Some(rank),
            Stage::Following => self.blocks.leader(self.rank) == Some(rank),
            _ => self.stage.part().zip(self.index_of(rank)).is_some_and(|(part, index)| part.expects(index)),
        }
    }
}

impl Reactor for Splitting {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        self.now = now;
        if tag >> WAY_AT != self.way.number() {
            return Err(Error::OtherOperation { rank: from as usize });
        }
        self.early.push((from, tag & ((1 << WAY_AT) - 1), bytes));
        self.settle()
    }

    fn needs(&self, rank: u32) -> Needs {
        match self.stage {
            Stage::Done => Needs::Nothing,
            _ if self.expects(rank) => Needs::Message,
            _ => Needs::Perhaps,
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done) && self.outgoing.is_empty()
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    fn name(&self) -> &'static str {
        self.way.name()
    }
}
