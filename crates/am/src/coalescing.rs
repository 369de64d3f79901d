//! Coalescing: messages to one neighbour are gathered in a buffer and sent together.
//!
//! A buffer is closed until something is put into it: then it has memory, and is on the list of those to be looked at when
//! there is nothing else to do. So what is not used costs nothing, and a rank with a thousand neighbours that talks to ten has
//! ten buffers.

use treepie_base::copy_short;

use crate::config::Coalescing;

/// What is gathered for one neighbour. Sends touch nothing else, so this is small: a shift finds it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// All the room there is; none if it is closed.
    pub(crate) room: Vec<u8>,
    /// Bytes of it that are in use.
    pub(crate) used: usize,
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
    /// Puts bytes in, if there is room.
    #[inline(always)]
    pub(crate) fn put(&mut self, bytes: &[u8]) -> bool {
        let end = self.used + bytes.len();
        let Some(room) = self.room.get_mut(self.used..end) else { return false };
        room.copy_from_slice(bytes);
        self.used = end;
        true
    }

    /// The same for a length that is only known now: a call of `memcpy` for a few bytes costs more than the rest.
    #[inline]
    pub(crate) fn put_short(&mut self, bytes: &[u8]) -> bool {
        let end = self.used + bytes.len();
        let Some(room) = self.room.get_mut(self.used..end) else { return false };
        copy_short(room, bytes);
        self.used = end;
        true
    }

    /// Takes what was put in, and closes it.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut data = std::mem::take(&mut self.room);
        data.truncate(std::mem::take(&mut self.used));
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
