//! Each rank of a group that shares a sorted table learns where its own entry is: in which communicator, as which rank of how
//! many.
//!
//! All say hello to those that hold a part of the table: which entry they look for, and holders also how many rows they have and
//! how long the first and the last run of one colour are. Whoever holds the entry answers. Colours that go over several parts
//! are put together from the hellos. Two steps, p messages of a rank in each at most.

use std::collections::VecDeque;

use bytemuck::{Pod, Zeroable};
use treepie_base::{Bytes, Result};

use super::entry::{Entry, Notes, highest};
use super::letter::{read, refused, write};

/// Rows of one colour at an end of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Edge {
    /// Their [`Entry::group`].
    group: u64,
    rows: u64,
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
        let edge = |of: Option<&Entry>, count: &dyn Fn(u64) -> usize| {
            of.map_or(Edge::default(), |of| Edge { group: of.group(), rows: count(of.group()) as u64 })
        };
        let first = edge(rows.first(), &|group| rows.partition_point(|row| row.group() <= group));
        let last = edge(rows.last(), &|group| rows.len() - rows.partition_point(|row| row.group() < group));
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
    place: Option<Place>,
    has_answered: bool,
    outgoing: VecDeque<(u32, u32, Bytes)>,
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
            Self { index, holders, entry, rows, hellos, place: None, has_answered: false, outgoing: VecDeque::new() };
        let told = if is_holder { readers } else { holders };
        for i in 1..=told {
            let to = (index + i) % told;
            if to != index {
                this.outgoing.push_back((to, HELLO, write(&hello)));
            }
        }
        this.answer();
        this
    }

    /// The next message: to which index, with which tag, what.
    pub(super) fn poll_transmit(&mut self) -> Option<(u32, u32, Bytes)> {
        self.outgoing.pop_front()
    }

    /// Takes a message in.
    pub(super) fn on_message(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match tag {
            HELLO => self.hellos[from as usize] = Some(read(&bytes)?),
            ANSWER => self.place = Some(read(&bytes)?),
            _ => return Err(refused(bytes.as_slice().len(), 0)),
        }
        self.answer();
        Ok(())
    }

    /// Answers those whose entries are here, once all have said hello.
    fn answer(&mut self) {
        if self.has_answered || self.hellos.contains(&None) {
            return;
        }
        self.has_answered = true;
        for index in 0..self.hellos.len() as u32 {
            let asked = self.hello(index).entry;
            if self.index >= self.holders || !asked.takes_part() {
                continue;
            }
            if let Ok(row) = self.rows.binary_search(&asked) {
                let place = self.place_of(row, asked.group());
                if index == self.index {
                    self.place = Some(place);
                } else {
                    self.outgoing.push_back((index, ANSWER, write(&place)));
                }
            }
        }
    }

    fn hello(&self, index: u32) -> Hello {
        self.hellos[index as usize].unwrap_or_default()
    }

    /// The place of one of the own rows, which has that colour.
    fn place_of(&self, row: usize, group: u64) -> Place {
        let before: u64 = (0..self.index).map(|index| self.hello(index).rows).sum();
        let mut from = self.rows.partition_point(|row| row.group() < group) as u64;
        let mut to = self.rows.partition_point(|row| row.group() <= group) as u64;
        (from, to) = (before + from, before + to);
        if from == before {
            for index in (0..self.index).rev() {
                let Hello { rows, last, .. } = self.hello(index);
                let more = if rows > 0 && last.group == group { last.rows } else { 0 };
                from -= more;
                if more < rows {
                    break;
                }
            }
        }
        if to == before + self.rows.len() as u64 {
            for index in self.index + 1..self.holders {
                let Hello { rows, first, .. } = self.hello(index);
                let more = if rows > 0 && first.group == group { first.rows } else { 0 };
                to += more;
                if more < rows {
                    break;
                }
            }
        }
        Place { start: from as u32, size: (to - from) as u32, rank: (before + row as u64 - from) as u32 }
    }

    /// Whether a message of that index is still to come, for sure.
    pub(super) fn expects(&self, from: u32) -> bool {
        self.hellos[from as usize].is_none()
    }

    /// Whether the rank knows its place, and others theirs of it.
    pub(super) fn is_done(&self) -> bool {
        self.has_answered && (self.place.is_some() || !self.entry.takes_part())
    }

    /// The own place, if the rank has one; the row with which the part of each holder begins, and behind the last; the highest
    /// notes; the own rows.
    pub(super) fn finish(self) -> (Option<Place>, Vec<u32>, Notes, Vec<Entry>) {
        let mut starts = vec![0];
        let rows = (0..self.holders).map(|index| self.hello(index).rows as u32);
        starts.extend(rows.scan(0, |before, rows| {
            *before += rows;
            Some(*before)
        }));
        let notes = (0..self.holders).fold(Notes::default(), |notes, index| highest(notes, self.hello(index).notes));
        (self.place, starts, notes, self.rows)
    }
}
