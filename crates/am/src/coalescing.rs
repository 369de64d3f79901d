//! Coalescing: messages to one neighbour are gathered in a buffer and sent together.
//!
//! A buffer is closed until something is put into it: then it has memory, and is on the list of those to be looked at when
//! there is nothing else to do. So what is not used costs nothing, and a rank with a thousand neighbours that talks to ten has
//! ten buffers.

use std::ops::{Index, IndexMut};

use treepie_base::copy_short;

use crate::config::Coalescing;

/// What is gathered for one neighbour. Sends touch nothing else, so this is small: a shift finds it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// All the room there is; none if it is closed.
    pub(crate) room: Vec<u8>,
    /// Bytes of it that are in use. There are never 2^32, so adding to them needs no check.
    used: u32,
}

/// No buffer is made larger, and no message is longer; with one more message it may be.
pub(crate) const MOST_ROOM: usize = 1 << 31;

/// What is gathered for all neighbours.
///
/// If messages go straight into the slot for their destination, that is where sends look, and else they find nothing there: one
/// look tells them both.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    straight: Vec<Slot>,
    others: Vec<Slot>,
}

impl Slots {
    pub(crate) fn new(neighbours: usize) -> Self {
        Self { straight: Vec::new(), others: (0..neighbours).map(|_| Slot::default()).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.straight.len() + self.others.len()
    }

    /// Whether sends look here.
    pub(crate) fn go_straight(&mut self, straight: bool) {
        if straight == self.straight.is_empty() {
            std::mem::swap(&mut self.straight, &mut self.others);
        }
    }

    /// The slot for a destination, if messages go straight there.
    #[inline(always)]
    pub(crate) fn straight(&mut self, to: usize) -> Option<&mut Slot> {
        self.straight.get_mut(to)
    }

    pub(crate) fn clear(&mut self) {
        self.straight.fill_with(Slot::default);
        self.others.fill_with(Slot::default);
    }
}

impl Index<usize> for Slots {
    type Output = Slot;

    fn index(&self, place: usize) -> &Slot {
        if self.straight.is_empty() { &self.others[place] } else { &self.straight[place] }
    }
}

impl IndexMut<usize> for Slots {
    fn index_mut(&mut self, place: usize) -> &mut Slot {
        if self.straight.is_empty() { &mut self.others[place] } else { &mut self.straight[place] }
    }
}

/// What else is known of a slot.
#[derive(Debug)]
pub(crate) struct Info {
    /// The room when it is opened.
    pub(crate) target: usize,
    /// The neighbour.
    pub(crate) to: u32,
    /// With each message goes its destination, as the neighbour may pass it on.
    pub(crate) mixed: bool,
    /// Messages in it, where they have no fixed length.
    pub(crate) parcels: u32,
}

impl Slot {
    /// Bytes of it that are in use.
    #[inline(always)]
    pub(crate) fn used(&self) -> usize {
        self.used as usize
    }

    /// Puts bytes in, if there is room.
    #[inline(always)]
    pub(crate) fn put(&mut self, bytes: &[u8]) -> bool {
        self.put_by(bytes.len(), |room| room.copy_from_slice(bytes))
    }

    /// Lets so many bytes be written, if there is room.
    #[inline(always)]
    pub(crate) fn put_by(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let end = self.used() + len;
        let Some(room) = self.room.get_mut(self.used as usize..end) else { return false };
        write(room);
        self.used = end as u32;
        true
    }

    /// The same for a length that is only known now: a call of `memcpy` for a few bytes costs more than the rest.
    #[inline]
    pub(crate) fn put_short(&mut self, bytes: &[u8]) -> bool {
        self.put_by(bytes.len(), |room| copy_short(room, bytes))
    }

    /// Takes what was put in, and closes it.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut data = std::mem::take(&mut self.room);
        data.truncate(std::mem::take(&mut self.used) as usize);
        data
    }
}

/// How big buffers are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    least: usize,
    most: usize,
    adaptive: bool,
}

/// Adaptive buffers of one type take at most so many bytes together, as far as their least size allows.
const ALL_OF_A_TYPE: usize = 16 << 20;

/// An adaptive buffer is never smaller: below, what a buffer costs is more than what its messages do.
const LEAST: usize = 256;

/// Nor larger: handlers find a buffer of this size in the cache, and neighbours wait no longer for it than needs be.
const MOST: usize = 16 << 10;

impl Sizes {
    /// For messages of so many bytes, to so many neighbours. `record` is what goes without asking the receiver.
    pub(crate) fn new(coalescing: Coalescing, frame: usize, neighbours: usize, record: usize) -> Self {
        let frame = frame.max(1);
        let whole = |bytes: usize| (bytes / frame).max(1) * frame;
        let fixed = |bytes: usize| Self { least: bytes, most: bytes, adaptive: false };
        match coalescing {
            Coalescing::Messages(count) => fixed(count.saturating_mul(frame)),
            Coalescing::Bytes(bytes) => fixed(whole(bytes)),
            Coalescing::Adaptive => {
                let share = ALL_OF_A_TYPE / neighbours.max(1);
                let most = whole(MOST.min(record).min(share.max(LEAST)));
                Self { least: whole(LEAST).min(most), most, adaptive: true }
            }
        }
    }

    /// How big buffers are at first.
    pub(crate) fn first(&self) -> usize {
        // Streams are more common than single messages, and shrinking is quick.
        self.most
    }

    /// The next size of a buffer that was full.
    #[inline]
    pub(crate) fn after_full(&self, target: usize) -> usize {
        if self.adaptive { (target * 2).min(self.most) } else { target }
    }

    /// The next size of a buffer that was sent with so many bytes, as there was nothing else to do.
    #[inline]
    pub(crate) fn after_idle(&self, target: usize, used: usize) -> usize {
        if self.adaptive && used < target / 2 { (target / 2).max(self.least) } else { target }
    }
}
