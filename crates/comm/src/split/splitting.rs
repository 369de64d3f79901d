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
use super::line::Line;
use super::quick::Quick;
use super::sorting::{Manner, Progress, Sorting};
use super::ways::Way;

/// What a split consists of, as the thesis counts, and what comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Until those who sort have their entries.
    Collect,
    /// Until they know which entries are whose. Of a quicksort all of it.
    Splitters,
    /// Until they have those.
    Exchange,
    /// Until those are in order.
    Merge,
    /// Until all know their places.
    Find,
    /// Until all have the whole table.
    Copy,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [Self::Collect, Self::Splitters, Self::Exchange, Self::Merge, Self::Find, Self::Copy];
}

/// What a phase has cost a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Messages sent.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries moved or looked at.
    pub work: u64,
    /// When it ended, if it is over.
    pub until: Option<Duration>,
}

/// What a rank knows after a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The highest notes that any rank has brought.
    pub notes: Notes,
    /// Where the rank belongs, unless it stays out.
    pub place: Option<Place>,
    /// Whether the ranks of the communicator follow a formula, where tables are shared.
    pub line: Option<Line>,
    /// Which ranks are where.
    pub table: Table,
}

/// Which ranks are where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Table {
    /// Those of the own communicator, as ranks of the world.
    Whole(Vec<u32>),
    /// Those of all communicators, one behind the other, in parts.
    Shared {
        /// The part that is here.
        rows: Vec<u32>,
        /// The row with which each part begins, and the number of all.
        starts: Vec<u32>,
        /// The ranks, of the communicator that was split, who hold the parts.
        holders: Vec<u32>,
    },
}

enum Stage {
    /// Waits for the entry of a follower.
    Leading,
    Collecting(Doubling),
    Sorting(Sorting),
    Quick(Quick),
    Gathering(Doubling),
    Finding(Finding),
    Copying(Doubling),
    /// Waits for the table of the leader.
    Following,
    Done,
}

/// What a message belongs to; in its tag.
const LEADING: u32 = 0;
const COLLECTING: u32 = 1;
const SORTING: u32 = 2;
const QUICK: u32 = 3;
const GATHERING: u32 = 4;
const FINDING: u32 = 5;
const COPYING: u32 = 6;
const FOLLOWING: u32 = 7;

/// Bits of a tag for the way, the stage, and what the stage has.
const STAGE_AT: u32 = 12;
const WAY_AT: u32 = 15;

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
    /// Of the group's table: where the rank belongs, where parts begin, the rows here.
    found: Option<(Option<Place>, Vec<u32>, Vec<Entry>)>,
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
            found: None,
            outcome: None,
            spent: Default::default(),
            now: Duration::ZERO,
            work: 0,
            most: 1,
        };
        match way {
            Way::AllgatherSort | Way::Merge => this.collect(vec![entry], rank, 0, ranks),
            Way::Quick { .. } => this.stage = Stage::Quick(Quick::new(rank, ranks, entry)),
            _ if index >= group.holders() => this.follow(),
            _ if blocks.follower(rank).is_some() => {}
            _ => this.collect_in_block(vec![entry]),
        }
        this.settle().expect("nothing has come yet");
        this
    }

    fn collect(&mut self, table: Vec<Entry>, index: u32, first: u32, size: u32) {
        let joining = match self.way {
            Way::AllgatherSort => Joining::Append { counts: vec![1; size as usize] },
            _ => Joining::Merge { first },
        };
        self.stage = Stage::Collecting(Doubling::new(index, size, joining, table, self.notes));
    }

    /// Those of a block who sort collect its entries.
    fn collect_in_block(&mut self, table: Vec<Entry>) {
        let block = self.blocks.block(self.blocks.block_of(self.rank));
        let last = block.end - 1;
        let size = block.len() as u32 - u32::from(self.blocks.leader(last).is_some());
        self.collect(table, self.rank - block.start, block.start, size);
    }

    /// Has the leader sort the entry.
    fn follow(&mut self) {
        let leader = self.blocks.leader(self.rank).expect("only followers follow");
        let entries = vec![self.entry, Entry::of_notes(self.notes)];
        self.send(leader, LEADING, 0, Bytes::from(entries));
        self.find(Vec::new());
    }

    fn find(&mut self, rows: Vec<Entry>) {
        self.most = self.most.max(rows.len());
        let sizes = (self.group.holders(), self.group.readers());
        self.stage = Stage::Finding(Finding::new(self.index, sizes, self.entry, rows, self.notes));
    }

    fn send(&mut self, to: u32, stage: u32, tag: u32, bytes: Bytes) {
        debug_assert_eq!(tag >> STAGE_AT, 0);
        let spent = &mut self.spent[self.phase() as usize];
        spent.messages += 1;
        spent.bytes += bytes.as_slice().len() as u64;
        let tag = self.way.number() << WAY_AT | stage << STAGE_AT | tag;
        self.outgoing.push_back(Transmit::new(to, tag, bytes));
    }

    /// Takes what the stage has to send and what it has done.
    fn drain(&mut self) {
        let block = self.blocks.block(self.blocks.block_of(self.rank)).start;
        loop {
            let first = if self.way.sorters().is_none() { 0 } else { block };
            let (stage, message) = match &mut self.stage {
                Stage::Collecting(stage) => (COLLECTING, stage.poll_transmit().map(|(to, t, m)| (first + to, t, m))),
                Stage::Gathering(stage) => (GATHERING, stage.poll_transmit().map(|(to, t, m)| (first + to, t, m))),
                Stage::Quick(stage) => (QUICK, stage.poll_transmit()),
                Stage::Sorting(stage) => (SORTING, stage.poll_transmit().map(|(to, t, m)| (self.group.rank(to), t, m))),
                Stage::Finding(stage) => (FINDING, stage.poll_transmit().map(|(to, t, m)| (self.group.rank(to), t, m))),
                Stage::Copying(stage) => (COPYING, stage.poll_transmit().map(|(to, t, m)| (self.group.rank(to), t, m))),
                Stage::Leading | Stage::Following | Stage::Done => break,
            };
            let Some((to, tag, bytes)) = message else { break };
            self.send(to, stage, tag, bytes);
        }
        let work = match &mut self.stage {
            Stage::Collecting(stage) | Stage::Gathering(stage) | Stage::Copying(stage) => stage.take_work(),
            Stage::Quick(stage) => stage.take_work(),
            Stage::Sorting(stage) => stage.take_work(),
            Stage::Leading | Stage::Finding(_) | Stage::Following | Stage::Done => 0,
        };
        let phase = self.phase();
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

    fn phase(&self) -> Phase {
        match &self.stage {
            Stage::Leading | Stage::Collecting(_) => Phase::Collect,
            Stage::Gathering(_) => Phase::Merge,
            Stage::Quick(_) => Phase::Splitters,
            Stage::Sorting(stage) => match stage.progress() {
                Progress::Splitters => Phase::Splitters,
                Progress::Exchange => Phase::Exchange,
                Progress::Merge => Phase::Merge,
            },
            Stage::Finding(_) => Phase::Find,
            Stage::Copying(_) | Stage::Following | Stage::Done => Phase::Copy,
        }
    }

    /// Goes through stages as long as they are done, and hands in what came early for them.
    fn settle(&mut self) -> Result<()> {
        loop {
            self.drain();
            if self.stage_is_done() {
                self.advance();
            } else if let Some(place) = self.early.iter().position(|(_, tag, _)| *tag >> STAGE_AT == self.number()) {
                let (from, tag, bytes) = self.early.remove(place);
                self.hand_in(from, tag & ((1 << STAGE_AT) - 1), bytes)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Of the stage, in tags.
    fn number(&self) -> u32 {
        match self.stage {
            Stage::Leading => LEADING,
            Stage::Collecting(_) => COLLECTING,
            Stage::Sorting(_) => SORTING,
            Stage::Quick(_) => QUICK,
            Stage::Gathering(_) => GATHERING,
            Stage::Finding(_) => FINDING,
            Stage::Copying(_) => COPYING,
            Stage::Following => FOLLOWING,
            Stage::Done => u32::MAX,
        }
    }

    fn stage_is_done(&self) -> bool {
        match &self.stage {
            Stage::Collecting(stage) | Stage::Gathering(stage) | Stage::Copying(stage) => stage.is_done(),
            Stage::Sorting(stage) => stage.is_done(),
            Stage::Quick(stage) => stage.is_done(),
            Stage::Finding(stage) => stage.is_done(),
            Stage::Leading | Stage::Following | Stage::Done => false,
        }
    }

    /// From a stage that is done to the next one.
    fn advance(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Collecting(stage) => {
                let (table, notes) = stage.finish();
                self.notes = notes;
                self.most = self.most.max(table.len());
                match self.way.sorters() {
                    None => self.finish_whole(table),
                    Some(_) => self.sort(table),
                }
            }
            Stage::Sorting(stage) => self.find(stage.finish()),
            Stage::Quick(stage) => {
                let block = self.blocks.block(self.blocks.block_of(self.rank));
                let joining = Joining::Append { counts: vec![1; block.len()] };
                let (index, size) = (self.rank - block.start, block.len() as u32);
                self.stage = Stage::Gathering(Doubling::new(index, size, joining, vec![stage.finish()], self.notes));
            }
            Stage::Gathering(stage) => {
                let (rows, notes) = stage.finish();
                self.notes = notes;
                // Those who follow hold nothing.
                self.find(if self.index < self.group.holders() { rows } else { Vec::new() });
            }
            Stage::Finding(stage) => self.finish_finding(stage),
            Stage::Copying(stage) => self.finish_copying(stage.finish().0),
            Stage::Leading | Stage::Following | Stage::Done => unreachable!("none of these is done by itself"),
        }
    }

    fn sort(&mut self, table: Vec<Entry>) {
        let starts: Vec<u64> =
            (0..self.blocks.sorters()).map(|block| u64::from(self.blocks.block(block).start)).collect();
        let manner = match self.way {
            Way::Overlapped { sorters } => Manner::overlapped(self.ranks.into(), sorters.min(self.ranks)),
            _ => Manner::EXACT,
        };
        self.stage = Stage::Sorting(Sorting::new(self.index, &starts, table, manner));
    }

    fn finish_finding(&mut self, stage: Finding) {
        let Found { place, starts, notes, rows } = stage.finish();
        let (place, line) = place.unzip();
        self.notes = notes;
        if matches!(self.way, Way::ParallelSort { .. }) {
            let counts = starts.windows(2).map(|two| two[1] - two[0]).collect();
            self.stage = match self.index < self.group.holders() {
                true => Stage::Copying(Doubling::new(
                    self.index,
                    self.group.holders(),
                    Joining::Append { counts },
                    rows,
                    notes,
                )),
                false => Stage::Following,
            };
            self.found = Some((place, starts, Vec::new()));
            return;
        }
        let holders = (0..self.group.holders()).map(|index| self.group.rank(index)).collect();
        let rows = rows.iter().map(Entry::at).collect();
        self.outcome = Some(Outcome { notes, place, line, table: Table::Shared { rows, starts, holders } });
    }

    /// The whole table is here: what is of the own colour is kept, and that of a follower sent on.
    fn finish_copying(&mut self, table: Vec<Entry>) {
        self.most = self.most.max(table.len());
        if let Some(follower) = self.blocks.follower(self.rank) {
            self.send(follower, FOLLOWING, 0, Bytes::from(table.clone()));
        }
        let place = self.found.take().and_then(|(place, ..)| place);
        self.keep(place, table);
    }

    fn keep(&mut self, place: Option<Place>, table: Vec<Entry>) {
        let Place { start, size, .. } = place.unwrap_or_default();
        let own = table.get(start as usize..(start + size) as usize).unwrap_or_default();
        let table = Table::Whole(own.iter().map(Entry::at).collect());
        self.outcome = Some(Outcome { notes: self.notes, place, line: None, table });
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
        self.keep(self.entry.takes_part().then_some(place), table);
    }

    fn hand_in(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let len = bytes.as_slice().len();
        let unknown = || refused(len, 0);
        let in_block = || match self.way.sorters() {
            None => Some(from),
            Some(_) => from.checked_sub(self.blocks.block(self.blocks.block_of(self.rank)).start),
        };
        let in_group = || self.group.index(from);
        match &mut self.stage {
            Stage::Leading => {
                let entries: Vec<Entry> = read_all(bytes)?;
                let [other, notes] = entries[..] else { return Err(unknown()) };
                self.notes = highest(self.notes, notes.as_notes());
                self.collect_in_block(if self.entry < other {
                    vec![self.entry, other]
                } else {
                    vec![other, self.entry]
                });
                Ok(())
            }
            Stage::Collecting(stage) | Stage::Gathering(stage) => {
                stage.on_message(in_block().ok_or_else(unknown)?, tag, bytes)
            }
            Stage::Quick(stage) => stage.on_message(from, tag, bytes),
            Stage::Sorting(stage) => stage.on_message(in_group().ok_or_else(unknown)?, tag, bytes),
            Stage::Finding(stage) => stage.on_message(in_group().ok_or_else(unknown)?, tag, bytes),
            Stage::Copying(stage) => stage.on_message(in_group().ok_or_else(unknown)?, tag, bytes),
            Stage::Following => {
                let table = read_all(bytes)?;
                let place = self.found.take().and_then(|(place, ..)| place);
                self.stage = Stage::Done;
                self.keep(place, table);
                Ok(())
            }
            Stage::Done => Err(unknown()),
        }
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
        let in_group = self.group.index(rank);
        let first =
            if self.way.sorters().is_none() { 0 } else { self.blocks.block(self.blocks.block_of(self.rank)).start };
        let in_block = rank.checked_sub(first);
        match &self.stage {
            Stage::Leading => self.blocks.follower(self.rank) == Some(rank),
            Stage::Collecting(stage) | Stage::Gathering(stage) => in_block.is_some_and(|index| stage.expects(index)),
            Stage::Quick(stage) => stage.expects(rank),
            Stage::Sorting(stage) => in_group.is_some_and(|index| index < self.group.holders() && stage.expects(index)),
            Stage::Finding(stage) => in_group.is_some_and(|index| stage.expects(index)),
            Stage::Copying(stage) => in_group.is_some_and(|index| stage.expects(index)),
            Stage::Following => self.blocks.leader(self.rank) == Some(rank),
            Stage::Done => false,
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
}
