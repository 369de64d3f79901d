//! A board that all ranks see: each writes what it has to say into a place of its own, publishes it, and reads what
//! others have written for the same meeting once they have published theirs ([`meetings`](crate::meetings)).
//!
//! A few bytes lie beside the word by which they are published. Two ranks have the words and such bytes of two meetings
//! in one cache line. The line then moves once for a meeting instead of twice: whoever comes last finds what the other has
//! written in the line it has just got for writing. An exchange of a word takes 50 to 70 ns that way, and 140 ns with a
//! line for each.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use treepie_fabric::{Room, SHOWN, Why};

use crate::arena::Arena;
use crate::bell::Bell;
use crate::meetings::{HALLS, Meetings, Words};
use crate::primitive::{Fencing, fetch_for_write};
use crate::reach::Reach;

/// Where the parts of a board lie, from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    ranks: u32,
    /// Meetings whose words and pages lie beside each other.
    depth: u64,
    /// Bytes from one word to the next, and before the data that lies between.
    stride: usize,
    head: usize,
    page: usize,
    hall: usize,
}

impl Shape {
    /// Of a board for so many ranks; none for too many.
    pub(crate) fn of(ranks: u32) -> Option<Self> {
        let shape = |depth, stride, head| Self { ranks, depth, stride, head, page: 4 << 10, hall: 64 << 10 };
        match ranks {
            2 => Some(shape(2, 16, 8)),
            // A line for each rank: with four to a line, so that fewer would move, eight ranks on two cores took 5 to 10%
            // longer for most operations.
            1..=64 => Some(shape(16, 64, 16)),
            _ => None,
        }
    }

    /// Which of the meetings whose words lie beside each other. The depth is a power of two: a division would cost as much
    /// as all else that is done to read a word.
    #[inline]
    fn turn(&self, meeting: u64) -> usize {
        (meeting & (self.depth - 1)) as usize
    }

    #[inline]
    fn word(&self, rank: u32, meeting: u64) -> usize {
        (self.turn(meeting) * self.ranks as usize + rank as usize) * self.stride
    }

    fn page(&self, rank: u32, meeting: u64) -> usize {
        let words = (self.depth as usize * self.ranks as usize * self.stride).next_multiple_of(4096);
        words + (rank as usize * self.depth as usize + self.turn(meeting)) * self.page
    }

    fn hall(&self, rank: u32, hall: u64) -> usize {
        self.page(self.ranks, 0) + (rank as usize * HALLS as usize + hall as usize) * self.hall
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.hall(self.ranks, 0)
    }

    #[inline]
    fn capacity(&self, room: Room) -> usize {
        match room {
            Room::Line => self.stride - self.head,
            Room::Page => self.page,
            Room::Hall => self.hall,
        }
    }
}

/// A rank's end of the board.
pub(crate) struct Board {
    rank: u32,
    memory: Memory,
    meetings: Meetings,
    fencing: Fencing,
    /// How to read what others show where it lies.
    reach: Reach,
    /// Bytes up to which the page for the coming meeting was written.
    written: usize,
    has_own_core: bool,
    /// The bells of the other ranks.
    others: Vec<&'static Bell>,
    /// What `memory` points into.
    arena: Arc<Arena>,
}

/// The memory of a board.
struct Memory {
    base: NonNull<u8>,
    shape: Shape,
}

impl Words for Memory {
    #[inline]
    fn word(&self, rank: u32, meeting: u64) -> &AtomicU64 {
        assert!(rank < self.shape.ranks, "rank {rank} of {}", self.shape.ranks);
        // SAFETY: a word lies there, aligned to 16 bytes, inside the board, and all use it as an atomic.
        unsafe { self.base.add(self.shape.word(rank, meeting)).cast().as_ref() }
    }
}

impl Memory {
    /// Where a rank's data of a meeting lies.
    #[inline]
    fn data(&self, rank: u32, meeting: u64, room: Room, offset: usize, len: usize) -> NonNull<u8> {
        let capacity = self.shape.capacity(room);
        let fits = rank < self.shape.ranks && offset.checked_add(len).is_some_and(|end| end <= capacity);
        assert!(fits, "{len} bytes at {offset} of {capacity} of rank {rank}");
        let place = match room {
            Room::Line => self.shape.word(rank, meeting) + self.shape.head,
            Room::Page => self.shape.page(rank, meeting),
            Room::Hall => self.shape.hall(rank, meeting % HALLS),
        };
        // SAFETY: inside the board, as was tested.
        unsafe { self.base.add(place + offset) }
    }
}

impl Board {
    /// If there is a board.
    pub(crate) fn new(arena: Arc<Arena>, rank: u32, fencing: Fencing, reach: Reach) -> Option<Self> {
        let (base, shape) = arena.board()?;
        let meetings = Meetings::new(rank, shape.ranks, shape.depth);
        let has_own_core = shape.ranks <= arena.header().cores;
        let others = (0..shape.ranks).filter(|other| *other != rank).map(|other| &arena.control(other).bell).collect();
        let memory = Memory { base, shape };
        Some(Self { rank, memory, meetings, fencing, reach, written: 0, has_own_core, others, arena })
    }

    /// What is written for the next meeting lies in the caches of those who read it last; it comes while others are waited
    /// for. With 1 KiB that takes a twentieth off an exchange of two, with 8 KiB a quarter.
    #[inline]
    fn fetch_next(&mut self, room: Room) {
        let next = self.meetings.last() + 1;
        if self.memory.shape.ranks > 2 {
            fetch_for_write(std::ptr::from_ref(self.memory.word(self.rank, next)).cast());
        }
        let written = std::mem::take(&mut self.written);
        if room == Room::Page && self.has_own_core {
            let page = self.memory.data(self.rank, next, room, 0, written);
            // SAFETY: inside the page.
            (0..written).step_by(64).for_each(|at| fetch_for_write(unsafe { page.add(at) }.as_ptr()));
        }
    }

    /// Whether whoever was waited for has come.
    pub(crate) fn has_news(&mut self) -> bool {
        use treepie_fabric::Board as _;
        self.meetings.has_news(&self.memory) || self.awaited().is_some() && self.left().is_some()
    }
}

impl treepie_fabric::Board for Board {
    fn capacity(&self, room: Room) -> usize {
        self.memory.shape.capacity(room)
    }

    #[inline]
    fn try_write(&mut self, room: Room, offset: usize, data: &[u8]) -> bool {
        if !self.meetings.is_free(&self.memory, room == Room::Hall) {
            return false;
        }
        let to = self.memory.data(self.rank, self.meetings.last() + 1, room, offset, data.len());
        // SAFETY: inside the place of this rank; all others have read what was there, as they have published a meeting
        // after it, and read again only when this one is published.
        let to = unsafe { std::slice::from_raw_parts_mut(to.as_ptr(), data.len()) };
        treepie_base::copy_short(to, data);
        self.written = if room == Room::Page { offset + data.len() } else { 0 };
        true
    }

    #[inline]
    fn try_publish(&mut self, room: Room, about: u64) -> bool {
        if !self.meetings.try_publish(&self.memory, room == Room::Hall, about, self.fencing) {
            return false;
        }
        if self.arena.header().common.sleepers.any() {
            self.others.iter().for_each(|bell| bell.ring_after_publish());
        }
        self.fetch_next(room);
        true
    }

    #[inline]
    fn about(&mut self, rank: u32) -> Option<u64> {
        self.meetings.about(&self.memory, rank)
    }

    #[inline]
    fn read(&mut self, rank: u32, room: Room, offset: usize, len: usize) -> &[u8] {
        assert!(self.meetings.has_seen(rank), "a place is read before it is published");
        let from = self.memory.data(rank, self.meetings.last(), room, offset, len);
        // SAFETY: inside a place of this meeting, in whichever room its rank wrote. Its rank has published the meeting, and
        // writes there again only for a later one that has the same place, after this rank has published the next meeting,
        // for which it must borrow this board alone.
        unsafe { std::slice::from_raw_parts(from.as_ptr(), len) }
    }

    fn try_show(&mut self, room: Room, offset: usize, data: &[u8]) -> bool {
        let address = data.as_ptr().expose_provenance() as u64;
        let mut place = [0; SHOWN];
        place[..8].copy_from_slice(&address.to_ne_bytes());
        place[8..].copy_from_slice(&(data.len() as u64).to_ne_bytes());
        self.try_write(room, offset, &place)
    }

    fn fetch(&mut self, rank: u32, room: Room, offset: usize, from: usize, into: &mut [u8]) -> bool {
        let place = self.read(rank, room, offset, SHOWN);
        let word = |at: usize| u64::from_ne_bytes(place[at..at + 8].try_into().expect("8 bytes"));
        let (address, shown, from) = (word(0), word(8), from as u64);
        let fits = from.checked_add(into.len() as u64).is_some_and(|end| end <= shown);
        match address.checked_add(from).filter(|_| fits) {
            Some(address) => self.reach.read_process(self.arena.pid(rank), address, into),
            None => false,
        }
    }

    fn leave(&mut self, why: Why) {
        let left = &self.arena.header().common.left;
        let _ = left.compare_exchange(0, why.word(), Ordering::SeqCst, Ordering::Relaxed);
        self.arena.wake_all();
    }

    #[inline]
    fn left(&self) -> Option<Why> {
        let word = self.arena.header().common.left.load(Ordering::Acquire);
        (word != 0).then(|| Why::of_word(word))
    }

    fn awaited(&self) -> Option<u32> {
        self.meetings.awaited()
    }

    fn forget_awaited(&mut self) {
        self.meetings.forget_awaited();
    }
}
