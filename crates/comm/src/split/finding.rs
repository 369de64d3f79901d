//! Each rank of a group that shares a sorted table learns where its own entry is: in which communicator, as which rank of how
//! many.
//!
//! All say hello to those that hold a part of the table: which entry they look for, and holders also how many rows they have and
//! how long the first and the last run of one colour are. Whoever holds the entry answers. Colours that go over several parts
//! are put together from the hellos. Two steps, p messages of a rank in each at most.

use std::collections::VecDeque;
use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use treepie_base::{Bytes, Result};

use super::entry::{Entry, Notes, highest};
use super::letter::{read, refused, write};
use super::line::Line;
use super::part::{Message, Part};

/// Rows of one colour at an end of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Edge {
    /// Their [`Entry::group`].
    group: u64,
    line: Line,
}

/// What each says to all that hold something, and holders to all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Hello {
    /// What it looks for.
    entry: Entry,
    /// The highest are to be known to all.
    notes: Notes,
    /// How many rows it holds.
    rows: u64,
    first: Edge,
    last: Edge,
}

impl Hello {
    fn new(entry: Entry, notes: Notes, rows: &[Entry]) -> Self {
        let edge = |of: Option<&Entry>| {
            let of = of.map(Entry::group);
            of.map_or(Edge::default(), |group| Edge { group, line: Line::of(&rows[run(rows, group)]) })
        };
        let (first, last) = (edge(rows.first()), edge(rows.last()));
        Self { entry, notes, rows: rows.len() as u64, first, last }
    }
}

/// Where a rank belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Place {
    /// The row of its communicator's first rank.
    pub start: u32,
    /// How many ranks the communicator has.
    pub size: u32,
    /// Which of them this is.
    pub rank: u32,
}

/// What a holder answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Answer {
    /// All ranks of the communicator.
    line: Line,
    place: Place,
    unused: u32,
}

/// The rows of one colour.
fn run(rows: &[Entry], group: u64) -> Range<usize> {
    let from = rows.partition_point(|row| row.group() < group);
    from..from + rows[from..].partition_point(|row| row.group() == group)
}

/// What a rank knows when it is done.
pub(super) struct Found {
    /// Its place, and the ranks that it is among, if it is among any.
    pub(super) place: Option<(Place, Line)>,
    /// The row with which the part of each holder begins, and the number of all.
    pub(super) starts: Vec<u32>,
    /// The highest notes.
    pub(super) notes: Notes,
    /// The own rows.
    pub(super) rows: Vec<Entry>,
}

/// Tags.
const HELLO: u32 = 0;
const ANSWER: u32 = 1;

/// The search on one rank, which is an index in its group. Those below `holders` hold parts of the table.
pub(super) struct Finding {
    index: u32,
    holders: u32,
    entry: Entry,
    rows: Vec<Entry>,
    hellos: Vec<Option<Hello>>,
    answer: Option<Answer>,
    has_answered: bool,
    outgoing: VecDeque<Message>,
}

impl Finding {
    /// Begins. Whoever holds nothing has no rows.
    pub(super) fn new(
        index: u32,
        (holders, readers): (u32, u32),
        entry: Entry,
        rows: Vec<Entry>,
        notes: Notes,
    ) -> Self {
        let hello = Hello::new(entry, notes, &rows);
        let is_holder = index < holders;
        // Those who only read say nothing to each other.
        let mut hellos = vec![None; readers as usize];
        if !is_holder {
            hellos[holders as usize..].fill(Some(Hello::default()));
        }
        hellos[index as usize] = Some(hello);
        let mut this =
            Self { index, holders, entry, rows, hellos, answer: None, has_answered: false, outgoing: VecDeque::new() };
        let told = if is_holder { readers } else { holders };
        for i in 1..=told {
            let to = (index + i) % told;
            if to != index {
                this.outgoing.push_back((to, HELLO, write(&hello)));
            }
        }
        this.give_answers();
        this
    }

    /// Answers those whose entries are here, once all have said hello.
    fn give_answers(&mut self) {
        if self.has_answered || self.hellos.contains(&None) {
            return;
        }
        self.has_answered = true;
        // Many ask for the same.
        let mut known: Vec<(u64, Answer)> = Vec::new();
        for index in 0..self.hellos.len() as u32 {
            let asked = self.hello(index).entry;
            if self.index >= self.holders || !asked.takes_part() {
                continue;
            }
            if let Ok(row) = self.rows.binary_search(&asked) {
                let group = asked.group();
                let first = match known.iter().find(|(known, _)| *known == group) {
                    Some((_, answer)) => *answer,
                    None => {
                        known.push((group, self.first_of(group)));
                        known[known.len() - 1].1
                    }
                };
                let rank = (self.before() + row as u64) as u32 - first.place.start;
                let answer = Answer { place: Place { rank, ..first.place }, ..first };
                if index == self.index {
                    self.answer = Some(answer);
                } else {
                    self.outgoing.push_back((index, ANSWER, write(&answer)));
                }
            }
        }
    }

    /// Rows before the own ones.
    fn before(&self) -> u64 {
        (0..self.index).map(|index| self.hello(index).rows).sum()
    }

    fn hello(&self, index: u32) -> Hello {
        self.hellos[index as usize].unwrap_or_default()
    }

    /// What the first rank of a colour is answered, some ranks of which are among the own rows.
    fn first_of(&self, group: u64) -> Answer {
        let run = run(&self.rows, group);
        let mut line = Line::of(&self.rows[run.clone()]);
        let mut start = self.before() + run.start as u64;
        // It may begin in parts before this one, and go on in those behind it.
        if run.start == 0 {
            for Hello { rows, last, .. } in (0..self.index).rev().map(|index| self.hello(index)) {
                if rows > 0 && last.group != group {
                    break;
                }
                start -= u64::from(last.line.ranks());
                line = last.line.then(line);
                if u64::from(last.line.ranks()) < rows {
                    break;
                }
            }
        }
        if run.end == self.rows.len() {
            for Hello { rows, first, .. } in (self.index + 1..self.holders).map(|index| self.hello(index)) {
                if rows > 0 && first.group != group {
                    break;
                }
                line = line.then(first.line);
                if u64::from(first.line.ranks()) < rows {
                    break;
                }
            }
        }
        let place = Place { start: start as u32, size: line.ranks(), rank: 0 };
        Answer { line, place, ..Answer::default() }
    }

    /// What was found.
    pub(super) fn finish(self) -> Found {
        let mut starts = vec![0];
        let rows = (0..self.holders).map(|index| self.hello(index).rows as u32);
        starts.extend(rows.scan(0, |before, rows| {
            *before += rows;
            Some(*before)
        }));
        let notes = (0..self.holders).fold(Notes::default(), |notes, index| highest(notes, self.hello(index).notes));
        let place = self.answer.map(|answer| (answer.place, answer.line));
        Found { place, starts, notes, rows: self.rows }
    }
}

impl Part for Finding {
    fn poll_transmit(&mut self) -> Option<Message> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match tag {
            HELLO => self.hellos[from as usize] = Some(read(&bytes)?),
            ANSWER => self.answer = Some(read(&bytes)?),
            _ => return Err(refused(bytes.as_slice().len(), 0)),
        }
        self.give_answers();
        Ok(())
    }

    fn expects(&self, from: u32) -> bool {
        self.hellos[from as usize].is_none()
    }

    fn is_done(&self) -> bool {
        self.has_answered && (self.answer.is_some() || !self.entry.takes_part())
    }
}
