//! When a rank may write for a meeting, and when it may read: the words of a [`board`](crate::board), apart from the
//! memory that they guard.
//!
//! A rank publishes a meeting by one word, which holds the number of the meeting and what it is about. The words of
//! `depth` meetings lie beside each other, so a rank that has nothing to read can go ahead of the others. A word, and the
//! place beside it, is written again when everybody has published a later meeting than the one it was last used for: by
//! then they have read what was there. Whoever writes waits for that, mostly for nothing.

use crate::primitive::{AtomicU64, Fencing, Ordering, publish_word};

/// Where the words lie.
pub(crate) trait Words {
    fn word(&self, rank: u32, meeting: u64) -> &AtomicU64;
}

/// Places of a rank for much data, used in turn: some to be read while others are written. They are fewer than words, so a
/// meeting that has halls waits for more. With two of four times the size, ranks that share a core would wait for each
/// other as often, but what is written would not stay in the cache until it is read.
pub(crate) const HALLS: u64 = 4;

/// Bits of a word that are the number of the meeting. No two ranks are further apart than the depth.
const NUMBER: u32 = u16::BITS;

/// What a rank knows of the meetings.
pub(crate) struct Meetings {
    rank: u32,
    depth: u64,
    /// The last meeting that this rank has published.
    last: u64,
    /// All are known to have published this one, and each this one.
    known: u64,
    reached: Vec<u64>,
    /// Who has been seen to have published the last meeting, and all ranks, as bits.
    seen: u64,
    all: u64,
    /// Somebody who is waited for, and the meeting that it has not published.
    awaited: Option<(u32, u64)>,
}

impl Meetings {
    /// Of a rank of at most 64.
    pub(crate) fn new(rank: u32, ranks: u32, depth: u64) -> Self {
        assert!(rank < ranks && ranks <= u64::BITS, "rank {rank} of {ranks}");
        Self {
            rank,
            depth,
            last: 0,
            known: 0,
            reached: vec![0; ranks as usize],
            seen: 0,
            all: u64::MAX >> (u64::BITS - ranks),
            awaited: None,
        }
    }

    /// The last meeting that this rank has published.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    fn has_published(words: &impl Words, rank: u32, meeting: u64) -> bool {
        let word = words.word(rank, meeting).load(Ordering::Acquire);
        meeting == 0 || (word as u16).wrapping_sub(meeting as u16).cast_signed() >= 0
    }

    /// Whether this rank can write for the coming meeting, and publish it.
    #[inline]
    pub(crate) fn is_free(&mut self, words: &impl Words, in_hall: bool) -> bool {
        let depth = if in_hall { self.depth.min(HALLS) } else { self.depth };
        let needed = (self.last + 2).saturating_sub(depth);
        self.known >= needed || self.all_have_published(words, needed)
    }

    /// Looks at those of whom it is not known. A rank that has come further than it must need not be looked at again for
    /// some meetings: each look may take a line from the core of that rank.
    fn all_have_published(&mut self, words: &impl Words, meeting: u64) -> bool {
        let further = self.last.min(meeting + self.depth / 2);
        for (rank, reached) in (0..).zip(&mut self.reached) {
            if *reached >= meeting {
                continue;
            }
            if Self::has_published(words, rank, further) {
                *reached = further;
            } else if Self::has_published(words, rank, meeting) {
                *reached = meeting;
            } else {
                self.awaited = Some((rank, meeting));
                return false;
            }
        }
        self.awaited = None;
        self.known = self.reached.iter().copied().min().unwrap_or(meeting);
        true
    }

    /// Publishes the coming meeting, if it is free.
    #[inline]
    pub(crate) fn try_publish(&mut self, words: &impl Words, in_hall: bool, about: u64, fencing: Fencing) -> bool {
        if !self.is_free(words, in_hall) {
            return false;
        }
        assert!(about >> (u64::BITS - NUMBER) == 0, "{about:#x} is too much to say");
        self.last += 1;
        self.seen = 1 << self.rank;
        publish_word(words.word(self.rank, self.last), about << NUMBER | u64::from(self.last as u16), fencing);
        true
    }

    /// Whether a rank has been seen to have published the last meeting.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn has_seen(&self, rank: u32) -> bool {
        self.seen & 1 << rank != 0
    }

    /// What the meeting that this rank has published last is about for another rank, if that has published it.
    #[inline]
    pub(crate) fn about(&mut self, words: &impl Words, rank: u32) -> Option<u64> {
        let word = words.word(rank, self.last).load(Ordering::Acquire);
        // Nobody is a whole depth ahead, so a word that is another meeting's is an earlier one's.
        if word as u16 != self.last as u16 {
            self.awaited = Some((rank, self.last));
            return None;
        }
        self.awaited = None;
        // Who has seen all others need not look again before it writes: with two ranks that would fetch the line once
        // more, for reading, right before it is fetched for writing.
        self.seen |= 1 << rank;
        if self.seen == self.all {
            self.known = self.last;
        }
        Some(word >> NUMBER)
    }

    /// Nobody is waited for any more.
    #[cfg(not(loom))]
    pub(crate) fn forget_awaited(&mut self) {
        self.awaited = None;
    }

    /// Who was missing when it was last looked.
    #[cfg(not(loom))]
    pub(crate) fn awaited(&self) -> Option<u32> {
        self.awaited.map(|(rank, _)| rank)
    }

    /// Whether whoever was missing has come; it is not missing after that.
    pub(crate) fn has_news(&mut self, words: &impl Words) -> bool {
        let has_come = self.awaited.is_some_and(|(rank, meeting)| Self::has_published(words, rank, meeting));
        if has_come {
            self.awaited = None;
        }
        has_come
    }
}
