//! A quicksort of one entry on each rank: afterwards the i-th rank has the i-th entry.
//!
//! The ranks of a range find a pivot together, count who stands before it, and move their entries so that those up to the pivot
//! are in front; then both parts go on by themselves. O(lg n) levels of O(lg n) steps each; memory: a few words.
//! [Siebert and Wolf; thesis 2.3.3]
//!
//! A range is a tree in order: the root is its middle, and so on in both halves. Up go medians of three, so that the root has an
//! entry that is not far from the middle; down goes that pivot; up go counts of entries up to it; down goes for each rank how
//! many of these stand before it, from which it knows where its own entry belongs.

use std::collections::VecDeque;

use bytemuck::{Pod, Zeroable};
use treepie_base::{Bytes, Result};

use super::entry::Entry;
use super::letter::{read, refused, write};
use super::part::{Message, Part};

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Median,
    Pivot,
    Count,
    Before,
    Moved,
}

const KINDS: [Kind; 5] = [Kind::Median, Kind::Pivot, Kind::Count, Kind::Before, Kind::Moved];

/// Any message: an entry or counts.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct Letter {
    entry: Entry,
    /// Entries up to the pivot: of a subtree, or before it.
    count: u32,
    /// Of the whole range.
    all: u32,
}

/// A rank's place in the tree of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    parent: Option<u32>,
    left: Option<u32>,
    right: Option<u32>,
}

impl Node {
    /// Of a rank in a range.
    fn new(rank: u32, from: u32, to: u32) -> Self {
        let (mut from, mut to, mut parent) = (from, to, None);
        let middle = |from: u32, to: u32| (from < to).then(|| from + (to - from) / 2);
        loop {
            let here = middle(from, to).expect("the rank is in the range");
            match rank.cmp(&here) {
                std::cmp::Ordering::Less => to = here,
                std::cmp::Ordering::Greater => from = here + 1,
                std::cmp::Ordering::Equal => {
                    return Self { parent, left: middle(from, here), right: middle(here + 1, to) };
                }
            }
            parent = Some(here);
        }
    }

    fn children(self) -> impl Iterator<Item = u32> {
        self.left.into_iter().chain(self.right)
    }
}

/// What came on the current level.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    left: Option<Entry>,
    right: Option<Entry>,
    pivot: Option<Entry>,
    count_left: Option<u32>,
    count_right: Option<u32>,
    /// The own entry has been sent, or stays.
    has_moved: bool,
    moved: Option<Entry>,
}

/// The sort on one rank.
pub(super) struct Quick {
    rank: u32,
    from: u32,
    to: u32,
    node: Node,
    entry: Entry,
    number: u32,
    level: Level,
    early: Vec<(u32, u32, Letter)>,
    outgoing: VecDeque<Message>,
    work: u64,
}

const KIND_BITS: u32 = 3;

/// Levels have numbers below this in tags. Ranks of one range are never more than one level apart.
const LEVELS: u32 = 1 << 9;

impl Quick {
    /// Among so many ranks.
    pub(super) fn new(rank: u32, ranks: u32, entry: Entry) -> Self {
        let mut this = Self {
            rank,
            from: 0,
            to: ranks,
            node: Node::new(rank, 0, ranks),
            entry,
            number: 0,
            level: Level::default(),
            early: Vec::new(),
            outgoing: VecDeque::new(),
            work: 0,
        };
        this.rise();
        this
    }

    fn send(&mut self, to: u32, kind: Kind, letter: Letter) {
        let tag = (self.number % LEVELS) << KIND_BITS | kind as u32;
        self.outgoing.push_back((to, tag, write(&letter)));
    }

    fn handle(&mut self, from: u32, kind: u32, letter: Letter) -> Result<()> {
        self.work += 1;
        let is_left = Some(from) == self.node.left;
        let kind = KINDS.get(kind as usize).ok_or_else(|| refused(size_of::<Letter>(), 0))?;
        match kind {
            Kind::Median => {
                *(if is_left { &mut self.level.left } else { &mut self.level.right }) = Some(letter.entry);
                self.rise();
            }
            Kind::Pivot => self.hear_pivot(letter.entry),
            Kind::Count => {
                *(if is_left { &mut self.level.count_left } else { &mut self.level.count_right }) = Some(letter.count);
                self.count();
            }
            Kind::Before => self.place(letter),
            Kind::Moved => {
                self.level.moved = Some(letter.entry);
                self.descend();
            }
        }
        Ok(())
    }

    /// Sends the median of three up, if those of the children are here.
    fn rise(&mut self) {
        let Level { left, right, .. } = self.level;
        if self.is_sorted()
            || left.is_some() != self.node.left.is_some()
            || right.is_some() != self.node.right.is_some()
        {
            return;
        }
        let mut three: Vec<Entry> = [Some(self.entry), left, right].into_iter().flatten().collect();
        three.sort_unstable();
        // Of two it is the lower one: one entry is up to it and one behind it.
        let median = three[(three.len() - 1) / 2];
        match self.node.parent {
            Some(parent) => self.send(parent, Kind::Median, Letter { entry: median, ..Letter::default() }),
            None => self.hear_pivot(median),
        }
    }

    fn hear_pivot(&mut self, pivot: Entry) {
        self.level.pivot = Some(pivot);
        for child in self.node.children() {
            self.send(child, Kind::Pivot, Letter { entry: pivot, ..Letter::default() });
        }
        self.count();
    }

    fn is_up_to_pivot(&self) -> bool {
        self.level.pivot.is_some_and(|pivot| self.entry <= pivot)
    }

    /// Sends up how many entries of the subtree are up to the pivot, if the children have said theirs.
    fn count(&mut self) {
        let Level { count_left, count_right, pivot, .. } = self.level;
        let are_here =
            count_left.is_some() == self.node.left.is_some() && count_right.is_some() == self.node.right.is_some();
        if pivot.is_none() || !are_here {
            return;
        }
        let count = count_left.unwrap_or(0) + count_right.unwrap_or(0) + u32::from(self.is_up_to_pivot());
        match self.node.parent {
            Some(parent) => self.send(parent, Kind::Count, Letter { count, ..Letter::default() }),
            None => self.place(Letter { count: 0, all: count, ..Letter::default() }),
        }
    }

    /// `before.count` entries up to the pivot stand before this subtree, and there are `before.all` of them.
    fn place(&mut self, before: Letter) {
        let here = before.count + self.level.count_left.unwrap_or(0);
        let behind = here + u32::from(self.is_up_to_pivot());
        for (child, count) in [(self.node.left, before.count), (self.node.right, behind)] {
            if let Some(child) = child {
                self.send(child, Kind::Before, Letter { count, ..before });
            }
        }
        let to = if self.is_up_to_pivot() {
            self.from + here
        } else {
            self.from + before.all + (self.rank - self.from - here)
        };
        self.level.has_moved = true;
        // What comes next is for the part in which this rank will be.
        let middle = self.from + before.all;
        (self.from, self.to) = if self.rank < middle { (self.from, middle) } else { (middle, self.to) };
        if to == self.rank {
            self.level.moved = Some(self.entry);
        } else {
            self.send(to, Kind::Moved, Letter { entry: self.entry, ..Letter::default() });
        }
        self.descend();
    }

    /// Goes on with the part that this rank is in, once its entry is here.
    fn descend(&mut self) {
        let (true, Some(entry)) = (self.level.has_moved, self.level.moved) else { return };
        self.entry = entry;
        self.number += 1;
        self.level = Level::default();
        self.node = Node::new(self.rank, self.from, self.to);
        self.rise();
    }

    fn is_sorted(&self) -> bool {
        self.to - self.from <= 1
    }

    /// Whether the entry of the last level is here too.
    fn is_over(&self) -> bool {
        self.is_sorted() && !self.level.has_moved
    }

    /// That entry.
    pub(super) fn finish(self) -> Entry {
        self.entry
    }
}

impl Part for Quick {
    fn poll_transmit(&mut self) -> Option<Message> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        self.early.push((from, tag, read(&bytes)?));
        while let Some(place) = self.early.iter().position(|(_, tag, _)| tag >> KIND_BITS == self.number % LEVELS)
            && !self.is_over()
        {
            let (from, tag, letter) = self.early.swap_remove(place);
            self.handle(from, tag & ((1 << KIND_BITS) - 1), letter)?;
        }
        Ok(())
    }

    fn expects(&self, from: u32) -> bool {
        if self.is_over() || self.level.has_moved {
            return false;
        }
        let Level { left, right, count_left, count_right, .. } = self.level;
        let missing = |child: Option<u32>, is_here: bool| child == Some(from) && !is_here;
        missing(self.node.left, left.is_some() && count_left.is_some())
            || missing(self.node.right, right.is_some() && count_right.is_some())
            || self.node.parent == Some(from)
    }

    fn is_done(&self) -> bool {
        self.is_over()
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }
}
