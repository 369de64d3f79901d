//! Parallel quicksort with one entry on each rank: afterwards the i-th rank has the i-th entry.
//!
//! The ranks of a range select a pivot, compute a prefix sum of the entries up to the pivot, and permute their entries
//! so that those up to the pivot come first; then both parts recurse independently. O(lg n) levels of O(lg n) steps
//! each; memory: a few words. [Siebert and Wolf; thesis 2.3.3]
//!
//! Each range is a binary search tree: the root is its middle, and so on in both halves. Medians of three go up, so
//! that the root gets an entry near the median; that pivot goes down; counts of entries up to it go up; the prefix of
//! each subtree goes down, from which each rank knows the destination of its entry.

use std::collections::VecDeque;
use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use treepie_base::{Bytes, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use super::entry::SplitEntry;
use super::record::{read, refused, write};

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuicksortTag {
    Median,
    Pivot,
    Count,
    Prefix,
    Element,
}

const TAGS: [QuicksortTag; 5] =
    [QuicksortTag::Median, QuicksortTag::Pivot, QuicksortTag::Count, QuicksortTag::Prefix, QuicksortTag::Element];

/// Any message: an entry or counts.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct QuicksortRecord {
    entry: SplitEntry,
    /// Number of entries up to the pivot: in a subtree, or before it.
    count: u32,
    /// In the whole range.
    all: u32,
}

/// The position of a rank in the tree of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    parent: Option<u32>,
    left: Option<u32>,
    right: Option<u32>,
}

impl Node {
    /// The node of a rank in a range.
    fn new(rank: u32, from: u32, to: u32) -> Self {
        let (mut from, mut to, mut parent) = (from, to, None);
        let middle = |from: u32, to: u32| (from < to).then(|| from + (to - from) / 2);
        loop {
            let root = middle(from, to).expect("the rank is in the range");
            match rank.cmp(&root) {
                std::cmp::Ordering::Less => to = root,
                std::cmp::Ordering::Greater => from = root + 1,
                std::cmp::Ordering::Equal => {
                    return Self { parent, left: middle(from, root), right: middle(root + 1, to) };
                }
            }
            parent = Some(root);
        }
    }

    fn children(self) -> impl Iterator<Item = u32> {
        self.left.into_iter().chain(self.right)
    }
}

/// What has arrived on the current level.
#[derive(Clone, Copy, Debug, Default)]
struct LevelState {
    left: Option<SplitEntry>,
    right: Option<SplitEntry>,
    pivot: Option<SplitEntry>,
    count_left: Option<u32>,
    count_right: Option<u32>,
    /// Whether this rank's entry was sent, or stays.
    has_sent: bool,
    received: Option<SplitEntry>,
}

/// The sort on one rank.
pub(super) struct Quicksort {
    rank: u32,
    from: u32,
    to: u32,
    node: Node,
    entry: SplitEntry,
    number: u32,
    level: LevelState,
    unexpected: Vec<(u32, u32, QuicksortRecord)>,
    outgoing: VecDeque<Transmit>,
    work: u64,
}

const TAG_BITS: u32 = 3;

/// Level numbers in tags are modulo this. Ranks of one range are never more than one level apart.
const LEVELS: u32 = 1 << 9;

impl Quicksort {
    /// A sort among `ranks` ranks.
    pub(super) fn new(rank: u32, ranks: u32, entry: SplitEntry) -> Self {
        let mut this = Self {
            rank,
            from: 0,
            to: ranks,
            node: Node::new(rank, 0, ranks),
            entry,
            number: 0,
            level: LevelState::default(),
            unexpected: Vec::new(),
            outgoing: VecDeque::new(),
            work: 0,
        };
        this.send_median_up();
        this
    }

    fn send(&mut self, to: u32, tag: QuicksortTag, record: QuicksortRecord) {
        let tag = (self.number % LEVELS) << TAG_BITS | tag as u32;
        self.outgoing.push_back(Transmit::new(to, tag, write(&record)));
    }

    fn handle(&mut self, from: u32, tag: u32, record: QuicksortRecord) -> Result<()> {
        self.work += 1;
        let is_left = Some(from) == self.node.left;
        let tag = TAGS.get(tag as usize).ok_or_else(|| refused(size_of::<QuicksortRecord>(), 0))?;
        match tag {
            QuicksortTag::Median => {
                *(if is_left { &mut self.level.left } else { &mut self.level.right }) = Some(record.entry);
                self.send_median_up();
            }
            QuicksortTag::Pivot => self.on_pivot(record.entry),
            QuicksortTag::Count => {
                *(if is_left { &mut self.level.count_left } else { &mut self.level.count_right }) = Some(record.count);
                self.send_count_up();
            }
            QuicksortTag::Prefix => self.partition(record),
            QuicksortTag::Element => {
                self.level.received = Some(record.entry);
                self.next_level();
            }
        }
        Ok(())
    }

    /// Sends the median of three to the parent, once those of the children have arrived.
    fn send_median_up(&mut self) {
        let LevelState { left, right, .. } = self.level;
        if self.is_sorted()
            || left.is_some() != self.node.left.is_some()
            || right.is_some() != self.node.right.is_some()
        {
            return;
        }
        let mut three: Vec<SplitEntry> = [Some(self.entry), left, right].into_iter().flatten().collect();
        three.sort_unstable();
        // Of two it is the lower one: one entry is up to it and one after it.
        let median = three[(three.len() - 1) / 2];
        match self.node.parent {
            Some(parent) => {
                self.send(parent, QuicksortTag::Median, QuicksortRecord { entry: median, ..QuicksortRecord::default() })
            }
            None => self.on_pivot(median),
        }
    }

    fn on_pivot(&mut self, pivot: SplitEntry) {
        self.level.pivot = Some(pivot);
        for child in self.node.children() {
            self.send(child, QuicksortTag::Pivot, QuicksortRecord { entry: pivot, ..QuicksortRecord::default() });
        }
        self.send_count_up();
    }

    fn is_up_to_pivot(&self) -> bool {
        self.level.pivot.is_some_and(|pivot| self.entry <= pivot)
    }

    /// Sends the number of entries of the subtree up to the pivot to the parent, once those of the children have
    /// arrived.
    fn send_count_up(&mut self) {
        let LevelState { count_left, count_right, pivot, .. } = self.level;
        let have_arrived =
            count_left.is_some() == self.node.left.is_some() && count_right.is_some() == self.node.right.is_some();
        if pivot.is_none() || !have_arrived {
            return;
        }
        let count = count_left.unwrap_or(0) + count_right.unwrap_or(0) + u32::from(self.is_up_to_pivot());
        match self.node.parent {
            Some(parent) => {
                self.send(parent, QuicksortTag::Count, QuicksortRecord { count, ..QuicksortRecord::default() })
            }
            None => self.partition(QuicksortRecord { count: 0, all: count, ..QuicksortRecord::default() }),
        }
    }

    /// `before.count` entries up to the pivot come before this subtree, `before.all` are in the range.
    fn partition(&mut self, before: QuicksortRecord) {
        let prefix = before.count + self.level.count_left.unwrap_or(0);
        let after = prefix + u32::from(self.is_up_to_pivot());
        for (child, count) in [(self.node.left, before.count), (self.node.right, after)] {
            if let Some(child) = child {
                self.send(child, QuicksortTag::Prefix, QuicksortRecord { count, ..before });
            }
        }
        let to = if self.is_up_to_pivot() {
            self.from + prefix
        } else {
            self.from + before.all + (self.rank - self.from - prefix)
        };
        self.level.has_sent = true;
        // Later messages are for the part to which this rank now belongs.
        let middle = self.from + before.all;
        (self.from, self.to) = if self.rank < middle { (self.from, middle) } else { (middle, self.to) };
        if to == self.rank {
            self.level.received = Some(self.entry);
        } else {
            self.send(to, QuicksortTag::Element, QuicksortRecord { entry: self.entry, ..QuicksortRecord::default() });
        }
        self.next_level();
    }

    /// Recurses into the part of this rank, once its entry has arrived.
    fn next_level(&mut self) {
        let (true, Some(entry)) = (self.level.has_sent, self.level.received) else { return };
        self.entry = entry;
        self.number += 1;
        self.level = LevelState::default();
        self.node = Node::new(self.rank, self.from, self.to);
        self.send_median_up();
    }

    fn is_sorted(&self) -> bool {
        self.to - self.from <= 1
    }

    /// Whether the entry of the last level has arrived as well.
    fn is_complete(&self) -> bool {
        self.is_sorted() && !self.level.has_sent
    }

    /// The entry of this rank.
    pub(super) fn finish(self) -> SplitEntry {
        self.entry
    }
}

impl Reactor for Quicksort {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        self.unexpected.push((from, tag, read(&bytes)?));
        while let Some(index) = self.unexpected.iter().position(|(_, tag, _)| tag >> TAG_BITS == self.number % LEVELS)
            && !self.is_complete()
        {
            let (from, tag, record) = self.unexpected.swap_remove(index);
            self.handle(from, tag & ((1 << TAG_BITS) - 1), record)?;
        }
        Ok(())
    }

    fn dependency_on(&self, from: u32) -> PeerDependency {
        let LevelState { left, right, count_left, count_right, .. } = self.level;
        let missing = |child: Option<u32>, has_arrived: bool| child == Some(from) && !has_arrived;
        let is_missing = missing(self.node.left, left.is_some() && count_left.is_some())
            || missing(self.node.right, right.is_some() && count_right.is_some())
            || self.node.parent == Some(from);
        let waits = !self.is_complete() && !self.level.has_sent && is_missing;
        if waits { PeerDependency::Required } else { PeerDependency::Nothing }
    }

    fn is_done(&self) -> bool {
        self.is_complete()
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }
}
