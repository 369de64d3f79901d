//! Which parts of memory operations hold right now, so that nothing else touches them in a way that it must not.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use super::Lender;
use crate::Bytes;

/// A part that an operation holds, by addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    start: usize,
    end: usize,
    writable: bool,
}

/// The parts that are held. There are seldom more than a few; in an exchange of all with all there are two for each
/// rank, so they are sorted by where they begin and a look touches only those near it.
#[derive(Default)]
struct Parts {
    held: Vec<Held>,
    /// No part is longer.
    longest: usize,
}

impl Parts {
    /// Whether a part is held that overlaps these addresses; only those that may be written, or all.
    fn overlap(&self, range: &Range<usize>, writable_only: bool) -> bool {
        if self.held.is_empty() || range.is_empty() {
            return false;
        }
        let behind = self.held.partition_point(|held| held.start < range.end);
        let before = self.held[..behind].iter().rev();
        let mut near = before.take_while(|held| held.start.saturating_add(self.longest) > range.start);
        near.any(|held| held.end > range.start && (held.writable || !writable_only))
    }

    fn insert(&mut self, part: Held) {
        let place = self.held.partition_point(|held| held.start < part.start);
        self.held.insert(place, part);
        self.longest = self.longest.max(part.end - part.start);
    }

    fn remove(&mut self, part: Held) {
        let first = self.held.partition_point(|held| held.start < part.start);
        let place = self.held[first..].iter().position(|held| *held == part);
        self.held.remove(first + place.expect("a part that is held is listed"));
        if self.held.is_empty() {
            self.longest = 0;
        }
    }
}

/// Memory that spans and regions are parts of. As long as one of them exists, so does this; what was lent is not taken
/// back before.
pub(super) struct Kept {
    /// The memory, if it is not lent.
    pub(super) owned: Option<Bytes>,
    /// Whether a slice of a region of it exists.
    busy: Cell<bool>,
    parts: RefCell<Parts>,
}

impl Kept {
    /// Memory that is lent.
    pub(super) fn lent() -> Rc<Self> {
        Rc::new(Self { owned: None, busy: Cell::new(false), parts: RefCell::default() })
    }

    /// Memory of its own. Its list has room for a few parts from the start, so that memory which is used again and again
    /// allocates nothing later.
    pub(super) fn owned(bytes: Bytes) -> Rc<Self> {
        let parts = Parts { held: Vec::with_capacity(4), longest: 0 };
        Rc::new(Self { owned: Some(bytes), busy: Cell::new(false), parts: RefCell::new(parts) })
    }

    pub(super) fn lender(self: &Rc<Self>) -> Option<Lender> {
        self.owned.is_none().then(|| Lender(Rc::as_ptr(self).addr()))
    }

    /// Makes room for so many parts at once.
    pub(super) fn reserve(&self, parts: usize) {
        self.parts.borrow_mut().held.reserve(parts);
    }

    /// Notes that an operation holds a part. Panics if it must not: two may read the same, but nobody else touches what
    /// one may write, and no part is made while a slice exists.
    pub(super) fn hold(&self, range: Range<usize>, writable: bool) {
        assert!(!self.busy.get(), "a part of a region is made while a slice of it exists");
        if range.is_empty() {
            return;
        }
        let mut parts = self.parts.borrow_mut();
        let taken = parts.overlap(&range, !writable);
        assert!(!taken, "a part of a region overlaps one that is {}", if writable { "in use" } else { "written" });
        parts.insert(Held { start: range.start, end: range.end, writable });
    }

    /// Notes that a part which was held is so no more.
    pub(super) fn release(&self, range: Range<usize>, writable: bool) {
        if !range.is_empty() {
            self.parts.borrow_mut().remove(Held { start: range.start, end: range.end, writable });
        }
    }

    /// Notes that only the first `len` bytes of a part are held any more.
    pub(super) fn narrow(&self, range: Range<usize>, len: usize, writable: bool) {
        if len < range.len() {
            self.release(range.clone(), writable);
            if len > 0 {
                self.parts.borrow_mut().insert(Held { start: range.start, end: range.start + len, writable });
            }
        }
    }

    /// Panics if an operation may write there.
    pub(super) fn may_be_read(&self, range: &Range<usize>) {
        assert!(!self.parts.borrow().overlap(range, true), "a region is read where an operation writes");
    }

    /// Panics if an operation uses what is there.
    pub(super) fn may_be_written(&self, range: &Range<usize>) {
        assert!(!self.parts.borrow().overlap(range, false), "a region is changed where an operation uses it");
    }

    /// Keeps everybody else from making slices and parts until what is returned is dropped.
    pub(super) fn occupy(&self) -> impl Drop + '_ {
        struct Free<'a>(&'a Cell<bool>);
        impl Drop for Free<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        assert!(!self.busy.replace(true), "a region is used while a slice of it exists");
        Free(&self.busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a list without any order, with parts as a generator of numbers makes them.
    #[test]
    fn overlaps_are_those_of_a_plain_list() {
        let (mut parts, mut plain) = (Parts::default(), Vec::<Held>::new());
        let mut seed = 1u64;
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % n
        };
        for _ in 0..20_000 {
            let start = below(200);
            let part = Held { start, end: start + 1 + below([2, 10, 60][start % 3]), writable: below(3) == 0 };
            let range = part.start..part.end;
            let overlaps = |held: &&Held| held.start < part.end && part.start < held.end;
            assert_eq!(parts.overlap(&range, false), plain.iter().any(|held| overlaps(&held)));
            assert_eq!(parts.overlap(&range, true), plain.iter().any(|held| overlaps(&held) && held.writable));
            if plain.len() > below(40) {
                parts.remove(plain.swap_remove(below(plain.len())));
            } else {
                parts.insert(part);
                plain.push(part);
            }
        }
    }
}
