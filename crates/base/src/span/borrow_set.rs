//! The parts of memory that operations borrow, so that conflicting accesses are detected.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use super::BorrowScopeId;
use crate::Bytes;

/// A part that an operation borrows, by addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Borrow {
    start: usize,
    end: usize,
    writable: bool,
}

/// The borrowed parts. There are seldom more than a few; in an all-to-all exchange there are two for each rank, so they
/// are sorted by address and a lookup visits only those near it.
#[derive(Default)]
struct BorrowSet {
    sorted: Vec<Borrow>,
    /// The length of the longest part.
    longest: usize,
}

impl BorrowSet {
    /// Whether a borrowed part overlaps these addresses: one for writing, or any.
    fn overlap(&self, range: &Range<usize>, writable_only: bool) -> bool {
        if self.sorted.is_empty() || range.is_empty() {
            return false;
        }
        let behind = self.sorted.partition_point(|held| held.start < range.end);
        let before = self.sorted[..behind].iter().rev();
        let mut near = before.take_while(|held| held.start.saturating_add(self.longest) > range.start);
        near.any(|held| held.end > range.start && (held.writable || !writable_only))
    }

    fn insert(&mut self, part: Borrow) {
        let index = self.sorted.partition_point(|held| held.start < part.start);
        self.sorted.insert(index, part);
        self.longest = self.longest.max(part.end - part.start);
    }

    fn remove(&mut self, part: Borrow) {
        let first = self.sorted.partition_point(|held| held.start < part.start);
        let index = self.sorted[first..].iter().position(|held| *held == part);
        self.sorted.remove(first + index.expect("a borrowed part is listed"));
        if self.sorted.is_empty() {
            self.longest = 0;
        }
    }
}

/// Memory shared by spans and regions. It lives as long as any of them; a borrow scope waits for that.
pub(super) struct TrackedMemory {
    /// The memory, if it is not lent.
    pub(super) owned: Option<Bytes>,
    /// Whether a slice of a region of it exists.
    has_slice: Cell<bool>,
    borrows: RefCell<BorrowSet>,
}

impl TrackedMemory {
    /// Memory that is lent.
    pub(super) fn lent() -> Rc<Self> {
        Rc::new(Self { owned: None, has_slice: Cell::new(false), borrows: RefCell::default() })
    }

    /// Owned memory. Its list has capacity for a few parts from the start, so that reused memory allocates nothing
    /// later.
    pub(super) fn owned(bytes: Bytes) -> Rc<Self> {
        let parts = BorrowSet { sorted: Vec::with_capacity(4), longest: 0 };
        Rc::new(Self { owned: Some(bytes), has_slice: Cell::new(false), borrows: RefCell::new(parts) })
    }

    pub(super) fn scope_id(self: &Rc<Self>) -> Option<BorrowScopeId> {
        self.owned.is_none().then(|| BorrowScopeId(Rc::as_ptr(self).addr()))
    }

    /// Reserves space for a number of parts.
    pub(super) fn reserve(&self, parts: usize) {
        self.borrows.borrow_mut().sorted.reserve(parts);
    }

    /// Records that an operation borrows a part. Panics if it must not: several may read the same part, but nobody else
    /// accesses a part for writing, and no span is created while a slice exists.
    pub(super) fn acquire(&self, range: Range<usize>, writable: bool) {
        assert!(!self.has_slice.get(), "a span of a region is created while a slice of it exists");
        if range.is_empty() {
            return;
        }
        let mut parts = self.borrows.borrow_mut();
        let conflicts = parts.overlap(&range, !writable);
        assert!(!conflicts, "a span of a region overlaps one that is {}", if writable { "in use" } else { "written" });
        parts.insert(Borrow { start: range.start, end: range.end, writable });
    }

    /// Records that a part is no longer borrowed.
    pub(super) fn release(&self, range: Range<usize>, writable: bool) {
        if !range.is_empty() {
            self.borrows.borrow_mut().remove(Borrow { start: range.start, end: range.end, writable });
        }
    }

    /// Records that only the first `len` bytes of a part are still borrowed.
    pub(super) fn shrink(&self, range: Range<usize>, len: usize, writable: bool) {
        if len < range.len() {
            self.release(range.clone(), writable);
            if len > 0 {
                self.borrows.borrow_mut().insert(Borrow { start: range.start, end: range.start + len, writable });
            }
        }
    }

    /// Panics if an operation may write there.
    pub(super) fn assert_readable(&self, range: &Range<usize>) {
        assert!(!self.borrows.borrow().overlap(range, true), "a region is read where an operation writes");
    }

    /// Panics if an operation uses these addresses.
    pub(super) fn assert_writable(&self, range: &Range<usize>) {
        assert!(!self.borrows.borrow().overlap(range, false), "a region is changed where an operation uses it");
    }

    /// Prevents other slices and spans until the result is dropped.
    pub(super) fn lock_slices(&self) -> impl Drop + '_ {
        struct Free<'a>(&'a Cell<bool>);
        impl Drop for Free<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        assert!(!self.has_slice.replace(true), "a region is used while a slice of it exists");
        Free(&self.has_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with an unsorted list, on pseudorandom parts.
    #[test]
    fn overlaps_are_those_of_a_plain_list() {
        let (mut parts, mut plain) = (BorrowSet::default(), Vec::<Borrow>::new());
        let mut seed = 1u64;
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % n
        };
        for _ in 0..20_000 {
            let start = below(200);
            let part = Borrow { start, end: start + 1 + below([2, 10, 60][start % 3]), writable: below(3) == 0 };
            let range = part.start..part.end;
            let overlaps = |held: &&Borrow| held.start < part.end && part.start < held.end;
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
