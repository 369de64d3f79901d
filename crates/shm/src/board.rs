//! A board that all ranks see: each writes what it has to say into a place of its own, publishes it, and reads what
//! others have written for the same meeting once they have published theirs.
//!
//! Each rank has two places and uses them in turn. In a place lie the number of the meeting, a word that says what the
//! meeting is about, and the data, so that a few bytes travel in one cache line with the number that says they are there.
//! A place is written again two meetings later. By then everybody must have published the meeting between, and so have
//! read what was there before: whoever writes waits for that, mostly for nothing.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::arena::Arena;
use crate::primitive::{Fencing, fetch_for_write};

/// Bytes before the data of a place.
pub(crate) const HEAD: usize = 16;

/// A place, as it begins.
#[repr(C, align(64))]
struct Place {
    /// The last meeting that it was published for.
    meeting: AtomicU64,
    /// What that was about.
    about: AtomicU64,
}

/// A rank's end of the board.
pub(crate) struct Board {
    rank: u32,
    ranks: u32,
    /// Bytes of data in a place.
    capacity: usize,
    /// The last meeting that this rank has published.
    meeting: u64,
    /// Somebody who is waited for, and the meeting that it has not published.
    awaited: Option<(u32, u64)>,
    /// All up to this rank are known to have published the last meeting.
    seen: u32,
}

impl Board {
    pub(crate) fn new(rank: u32, ranks: u32, place_bytes: usize) -> Self {
        let capacity = place_bytes.saturating_sub(HEAD);
        Self { rank, ranks, capacity, meeting: 0, awaited: None, seen: 0 }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    fn place(arena: &Arena, rank: u32, meeting: u64) -> &'static Place {
        // SAFETY: a place lies there, and its words are valid for any bits; it stays as long as the arena, which the
        // engine that has this board drops last.
        unsafe { arena.board_place(rank, meeting % 2).cast::<Place>().as_ref() }
    }

    fn data(&self, arena: &Arena, rank: u32, meeting: u64, offset: usize, len: usize) -> NonNull<u8> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.capacity);
        assert!(fits, "{len} bytes at {offset} in a place of {}", self.capacity);
        // SAFETY: in bounds of the place, as was tested.
        unsafe { arena.board_place(rank, meeting % 2).add(HEAD + offset) }
    }

    fn has_published(arena: &Arena, rank: u32, meeting: u64) -> bool {
        meeting == 0 || Self::place(arena, rank, meeting).meeting.load(Ordering::Acquire) >= meeting
    }

    /// Whether the place for the coming meeting can be written: all have published the last one.
    pub(crate) fn is_free(&mut self, arena: &Arena) -> bool {
        while self.seen < self.ranks {
            if !Self::has_published(arena, self.seen, self.meeting) {
                self.awaited = Some((self.seen, self.meeting));
                return false;
            }
            self.seen += 1;
        }
        self.awaited = None;
        true
    }

    /// Writes into this rank's place for the coming meeting. Only if that [is free](Self::is_free).
    pub(crate) fn write(&mut self, arena: &Arena, offset: usize, data: &[u8]) {
        assert!(self.seen == self.ranks, "a place is written that others may be reading");
        let to = self.data(arena, self.rank, self.meeting + 1, offset, data.len());
        // SAFETY: in bounds; the place is this rank's, and all others have read what was there, as they have published
        // the meeting after it. They read again only when this one is published.
        unsafe {
            let to = std::slice::from_raw_parts_mut(to.as_ptr(), data.len());
            treepie_base::copy_short(to, data);
        }
    }

    /// Publishes the coming meeting. The caller then looks whether others sleep; the order of both is kept.
    pub(crate) fn publish(&mut self, arena: &Arena, about: u64, fencing: Fencing) {
        self.meeting += 1;
        self.seen = 0;
        let place = Self::place(arena, self.rank, self.meeting);
        place.about.store(about, Ordering::Relaxed);
        if fencing == Fencing::Sleeper {
            place.meeting.store(self.meeting, Ordering::Release);
            compiler_fence(Ordering::SeqCst);
        } else {
            place.meeting.swap(self.meeting, Ordering::SeqCst);
        }
        // The place of the next meeting lies in the caches of those who read it last; it comes while others are waited for.
        fetch_for_write(arena.board_place(self.rank, (self.meeting + 1) % 2).as_ptr());
    }

    /// What a rank says the last meeting is about, if it has published it.
    pub(crate) fn about(&mut self, arena: &Arena, rank: u32) -> Option<u64> {
        if !Self::has_published(arena, rank, self.meeting) {
            self.awaited = Some((rank, self.meeting));
            return None;
        }
        self.awaited = None;
        Some(Self::place(arena, rank, self.meeting).about.load(Ordering::Relaxed))
    }

    /// Reads what a rank has written for the last meeting. Only if it has published it.
    pub(crate) fn read(&self, arena: &Arena, rank: u32, offset: usize, len: usize, read: &mut dyn FnMut(&[u8])) {
        assert!(Self::has_published(arena, rank, self.meeting), "a place is read before it is published");
        let from = self.data(arena, rank, self.meeting, offset, len);
        // SAFETY: in bounds; its rank has published it and writes it again only when this rank has published the next
        // meeting, which cannot happen during this call.
        read(unsafe { std::slice::from_raw_parts(from.as_ptr(), len) });
    }

    /// Whether whoever was waited for has come.
    pub(crate) fn has_news(&self, arena: &Arena) -> bool {
        self.awaited.is_some_and(|(rank, meeting)| Self::has_published(arena, rank, meeting))
    }

    /// Who is waited for.
    pub(crate) fn awaited(&self) -> Option<u32> {
        self.awaited.map(|(rank, _)| rank)
    }
}
