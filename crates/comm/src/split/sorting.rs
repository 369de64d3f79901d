//! The parallel sort: p ranks with a sorted table each, which afterwards hold the parts of one sorted table.
//!
//! Splitters, one for each rank but the first ([`splitter`](super::splitter)); then each rank sends each other one what lies
//! between that one's splitters; then each merges the p runs that it got. Cost: O(p lg n + lg^2 n) for the splitters, n/p for
//! the exchange, n/p lg p for the merging. [Cheng et al.; thesis 2.3.1]
//!
//! Overlapped, splitters need only be about right, so they are found after fewer rounds; runs are sent as soon as both their
//! ends are known, and merged as they come. [Solomonik and Kale; thesis 2.3.3]

use std::collections::VecDeque;

use treepie_base::{Bytes, Pod, Result};

use super::entry::Entry;
use super::letter::{read, read_all, refused, write};
use super::merge::{Merging, merge_all};
use super::part::{Message, Part};
use super::splitter::{Proposal, Responsible, Search, Verdict};

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// To whoever is responsible for a splitter.
    Proposal,
    /// Of whoever is responsible for a splitter.
    Verdict,
    /// Entries between two splitters.
    Run,
}

const KINDS: [Kind; 3] = [Kind::Proposal, Kind::Verdict, Kind::Run];

/// How splitters are found and what happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// By so many entries more or less than they should, parts may begin.
    pub tolerance: u64,
    /// Runs are sent before all splitters are known, and merged before all are here.
    pub overlapped: bool,
}

impl Manner {
    /// Each phase after the other, with exact splitters.
    pub const EXACT: Self = Self { tolerance: 0, overlapped: false };

    /// Parts that are up to a fourth too long, which is at most an eighth at each end.
    pub fn overlapped(entries: u64, ranks: u32) -> Self {
        Self { tolerance: entries / u64::from(ranks) / 8, overlapped: true }
    }
}

/// How far the sort is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// Splitters are looked for.
    Splitters,
    /// Runs are on their way.
    Exchange,
    /// Runs are here.
    Merge,
}

/// The sort on one rank, which is an index among those that sort.
pub struct Sorting {
    index: u32,
    table: Vec<Entry>,
    manner: Manner,
    /// For the splitter before each rank; that of the first is known.
    searches: Vec<Search>,
    /// For the own splitter.
    responsible: Responsible,
    /// Which ranks have been sent their run.
    sent: Vec<bool>,
    /// The run of each rank; those that were merged are empty.
    runs: Vec<Option<Vec<Entry>>>,
    merging: Merging,
    rows: Option<Vec<Entry>>,
    outgoing: VecDeque<Message>,
    /// What this rank says to itself.
    own: VecDeque<(Kind, Bytes)>,
    work: u64,
}

impl Sorting {
    /// The tag of messages that bring entries; all others look for splitters.
    pub const RUN: u32 = Kind::Run as u32;

    /// Begins with a sorted table. `starts` is the row with which each rank's part is to begin.
    pub fn new(index: u32, starts: &[u64], table: Vec<Entry>, manner: Manner) -> Self {
        let ranks = starts.len();
        let mut this = Self {
            index,
            manner,
            searches: vec![Search::new(table.len()); ranks],
            responsible: Responsible::new(starts[index as usize], manner.tolerance, ranks as u32),
            sent: vec![false; ranks],
            runs: vec![None; ranks],
            merging: Merging::default(),
            rows: None,
            outgoing: VecDeque::new(),
            own: VecDeque::new(),
            work: 0,
            table,
        };
        for splitter in 1..ranks as u32 {
            let first = this.searches[splitter as usize].first(&this.table);
            this.say(splitter, Kind::Proposal, first);
        }
        this.exchange();
        this.settle().expect("this rank understands itself");
        this
    }

    fn ranks(&self) -> u32 {
        self.searches.len() as u32
    }

    fn say(&mut self, to: u32, kind: Kind, what: impl Pod) {
        self.send(to, kind, write(&what));
    }

    fn send(&mut self, to: u32, kind: Kind, bytes: Bytes) {
        if to == self.index {
            self.own.push_back((kind, bytes));
        } else {
            self.outgoing.push_back((to, kind as u32, bytes));
        }
    }

    fn settle(&mut self) -> Result<()> {
        while let Some((kind, bytes)) = self.own.pop_front() {
            self.handle(self.index, kind, bytes)?;
        }
        Ok(())
    }

    fn handle(&mut self, from: u32, kind: Kind, bytes: Bytes) -> Result<()> {
        match kind {
            Kind::Proposal => {
                let proposal: Proposal = read(&bytes)?;
                self.work += 1;
                let Some((verdict, _)) = self.responsible.hear(from, proposal) else { return Ok(()) };
                (0..self.ranks()).for_each(|to| self.say(to, Kind::Verdict, verdict));
            }
            Kind::Verdict => {
                let verdict: Verdict = read(&bytes)?;
                self.work += u64::from(self.table.len().max(1).ilog2());
                match self.searches[from as usize].hear(verdict, &self.table) {
                    Some(proposal) => self.say(from, Kind::Proposal, proposal),
                    None => self.exchange(),
                }
            }
            Kind::Run => {
                let run = read_all(bytes)?;
                self.take(from, run);
            }
        }
        Ok(())
    }

    /// Where the own entries for the rank's part begin, if that is known.
    fn cut(&self, rank: u32) -> Option<usize> {
        match rank {
            0 => Some(0),
            rank if rank == self.ranks() => Some(self.table.len()),
            rank => self.searches[rank as usize].found().map(|cut| cut as usize),
        }
    }

    /// Sends the runs whose ends are known; all at once unless phases are overlapped.
    fn exchange(&mut self) {
        let all_are_known = (1..self.ranks()).all(|rank| self.cut(rank).is_some());
        if !self.manner.overlapped && !all_are_known {
            return;
        }
        // Each begins behind itself, so that not all send to the same rank first.
        for i in 1..=self.ranks() {
            let to = (self.index + i) % self.ranks();
            let (Some(from), Some(end)) = (self.cut(to), self.cut(to + 1)) else { continue };
            if !std::mem::replace(&mut self.sent[to as usize], true) {
                let run = self.table[from..end].to_vec();
                self.work += run.len() as u64;
                self.send(to, Kind::Run, Bytes::from(run));
            }
        }
        if all_are_known {
            self.table = Vec::new();
        }
    }

    fn take(&mut self, from: u32, run: Vec<Entry>) {
        if self.manner.overlapped {
            self.merging.push(run);
            self.runs[from as usize] = Some(Vec::new());
        } else {
            self.runs[from as usize] = Some(run);
        }
        if self.runs.iter().all(Option::is_some) {
            let (rows, work) = if self.manner.overlapped {
                std::mem::take(&mut self.merging).finish()
            } else {
                merge_all(self.runs.iter_mut().filter_map(|run| run.replace(Vec::new())).collect())
            };
            self.work += work;
            self.rows = Some(rows);
        }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        match &self.rows {
            Some(_) => Progress::Merge,
            None if self.table.is_empty() => Progress::Exchange,
            None => Progress::Splitters,
        }
    }

    /// How many pivots the own splitter took.
    pub fn rounds(&self) -> u32 {
        self.responsible.rounds()
    }

    /// The rank's part of the sorted table.
    pub fn finish(self) -> Vec<Entry> {
        self.rows.expect("asked for when it is done")
    }
}

impl Part for Sorting {
    fn poll_transmit(&mut self) -> Option<Message> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let kind = *KINDS.get(tag as usize).ok_or_else(|| refused(bytes.as_slice().len(), 0))?;
        self.handle(from, kind, bytes)?;
        self.settle()
    }

    fn expects(&self, from: u32) -> bool {
        self.runs[from as usize].is_none() || self.cut(from).is_none()
    }

    /// Others may need this rank for splitters until they have their runs.
    fn is_done(&self) -> bool {
        self.rows.is_some() && !self.sent.contains(&false)
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }
}
