//! Doubling: in each step a rank sends all that it has to another one, until all have everything.
//!
//! Cost: ceil(lg m) alpha + m beta among m ranks, any m: around a ring by powers of two, and in the last step only what is
//! missing. What came is appended, or merged into what is here, which keeps it sorted and needs no sort at the end.
//! [Bruck et al.; thesis 2.2, 2.3.1]
//!
//! Stopped early, that is among blocks of neighbours only, it gives each rank the rows of its block. [thesis 2.3.2]

use std::collections::VecDeque;

use treepie_base::{Bytes, Result};

use super::entry::{Entry, Notes, highest};
use super::letter::{read_all, refused};
use super::merge::merge;
use super::part::{Message, Part};

/// How what came is joined with what is here.
pub enum Joining {
    /// Both are sorted. Each entry was brought by the rank that it names; by the last one also those of ranks behind it.
    Merge {
        /// The rank with index 0.
        first: u32,
    },
    /// Behind it. So many are each rank's.
    Append {
        /// How many.
        counts: Vec<u32>,
    },
}

/// A doubling on one rank, which is an index among those that take part.
pub struct Doubling {
    index: u32,
    size: u32,
    joining: Joining,
    table: Vec<Entry>,
    /// The highest that any rank has brought.
    notes: Notes,
    step: u32,
    /// Messages of later steps.
    early: Vec<(u32, Vec<Entry>, Notes)>,
    outgoing: VecDeque<Message>,
    /// Entries moved.
    work: u64,
}

impl Doubling {
    /// Begins with what this rank has.
    pub fn new(index: u32, size: u32, joining: Joining, table: Vec<Entry>, notes: Notes) -> Self {
        let (early, outgoing) = (Vec::new(), VecDeque::new());
        let mut this = Self { index, size, joining, table, notes, step: 0, early, outgoing, work: 0 };
        this.send();
        this
    }

    fn distance(&self) -> u32 {
        1 << self.step
    }

    fn send(&mut self) {
        if self.is_done() {
            return self.settle();
        }
        let distance = self.distance();
        let to = (self.index + self.size - distance) % self.size;
        let others = distance.min(self.size - distance);
        self.work += self.table.len() as u64;
        // Notes go behind it, in memory that is there for it: tables are long.
        let mut part = Vec::with_capacity(self.table.len() + 1);
        if others == distance {
            part.extend_from_slice(&self.table);
        } else {
            self.first(others, &mut part);
        }
        part.push(Entry::of_notes(self.notes));
        self.outgoing.push_back((to, self.step, Bytes::from(part)));
    }

    /// What the first so many ranks from this one on have brought.
    fn first(&self, ranks: u32, into: &mut Vec<Entry>) {
        match &self.joining {
            Joining::Append { counts } => {
                let count = |i: u32| counts[((self.index + i) % self.size) as usize] as usize;
                into.extend_from_slice(&self.table[..(0..ranks).map(count).sum()]);
            }
            Joining::Merge { first } => {
                let is_among = |entry: &&Entry| {
                    let index = (entry.rank() - first).min(self.size - 1);
                    (index + self.size - self.index) % self.size < ranks
                };
                into.extend(self.table.iter().filter(is_among));
            }
        }
    }

    fn join(&mut self, mut entries: Vec<Entry>) {
        self.work += (self.table.len() + entries.len()) as u64;
        match self.joining {
            Joining::Merge { .. } => self.table = merge(&self.table, &entries),
            Joining::Append { .. } => self.table.append(&mut entries),
        }
    }

    /// Everything is here; what was appended begins with this rank's own.
    fn settle(&mut self) {
        if let Joining::Append { counts } = &self.joining {
            let before: u32 = counts[..self.index as usize].iter().sum();
            let len = self.table.len();
            self.table.rotate_right(before as usize % len.max(1));
        }
    }

    /// What all have brought, and the highest notes.
    pub fn finish(self) -> (Vec<Entry>, Notes) {
        (self.table, self.notes)
    }
}

impl Part for Doubling {
    fn poll_transmit(&mut self) -> Option<Message> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, from: u32, step: u32, bytes: Bytes) -> Result<()> {
        let mut entries: Vec<Entry> = read_all(bytes)?;
        let notes = entries.pop().ok_or_else(|| refused(0, size_of::<Entry>()))?.as_notes();
        let distance = 1u32.checked_shl(step).unwrap_or(0);
        let is_known = distance < self.size && (self.index + distance) % self.size == from && step >= self.step;
        if !is_known {
            return Err(refused(entries.len(), 0));
        }
        self.early.push((step, entries, notes));
        while let Some(place) = self.early.iter().position(|(step, ..)| *step == self.step) {
            let (_, entries, notes) = self.early.swap_remove(place);
            self.join(entries);
            self.notes = highest(self.notes, notes);
            self.step += 1;
            self.send();
        }
        Ok(())
    }

    fn expects(&self, from: u32) -> bool {
        let rounds = (self.step..u32::BITS).take_while(|step| 1 << step < self.size);
        let missing = |step: &u32| !self.early.iter().any(|(early, ..)| early == step);
        rounds.filter(missing).any(|step| (self.index + (1 << step)) % self.size == from)
    }

    fn is_done(&self) -> bool {
        self.distance() >= self.size
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }
}
