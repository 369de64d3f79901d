//! Memory of which several operations use parts at once.

use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

use super::borrow_set::TrackedMemory;
use super::{Backing, Span};
use crate::Bytes;

/// Memory of which several operations use parts at once: a buffer of a collective operation.
///
/// Its parts are spans, and it can be read and written between their operations. The caller decides which operations
/// access what; unsound accesses panic: a span for writing that overlaps another one, reading what a span for writing
/// covers, changing what any span covers. Slices of it exist only during a call, in which no span can be created.
pub struct Region {
    ptr: NonNull<u8>,
    len: usize,
    writable: bool,
    tracked: Rc<TrackedMemory>,
}

impl Region {
    pub(super) fn new(memory: NonNull<[u8]>, writable: bool, tracked: Rc<TrackedMemory>) -> Self {
        Self { ptr: memory.cast(), len: memory.len(), writable, tracked }
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether its address is a multiple of `align`.
    pub fn is_aligned(&self, align: usize) -> bool {
        self.ptr.addr().get().is_multiple_of(align)
    }

    /// Whether no span and no other region shares its memory. Always false for lent memory.
    pub fn is_unique(&self) -> bool {
        Rc::strong_count(&self.tracked) == 1
    }

    /// A part of it as a region.
    pub fn subregion(&self, range: Range<usize>) -> Self {
        Self { ptr: self.ptr_at(&range), len: range.len(), writable: self.writable, tracked: self.tracked.clone() }
    }

    /// Another region of the same memory.
    pub fn share(&self) -> Self {
        Self { tracked: self.tracked.clone(), ..*self }
    }

    /// Reserves space for a number of spans that exist at once.
    pub fn reserve_spans(&self, spans: usize) {
        self.tracked.reserve(spans);
    }

    /// A span of it, for an operation that reads it. Panics if it overlaps a span for writing.
    pub fn span(&self, range: Range<usize>) -> Span {
        let ptr = self.ptr_at(&range);
        self.tracked.acquire(self.addresses(&range), false);
        Span { ptr, len: range.len(), backing: Backing::Part(self.tracked.clone()) }
    }

    /// A span of it, for an operation that writes it. Panics if it overlaps any other span, or if the memory was lent
    /// for reading.
    pub fn span_mut(&self, range: Range<usize>) -> Span {
        self.assert_writable();
        let ptr = self.ptr_at(&range);
        self.tracked.acquire(self.addresses(&range), true);
        Span { ptr, len: range.len(), backing: Backing::PartMut(self.tracked.clone()) }
    }

    fn ptr_at(&self, range: &Range<usize>) -> NonNull<u8> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        // SAFETY: in bounds of the memory, as was tested.
        unsafe { self.ptr.add(range.start) }
    }

    fn addresses(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.ptr.addr().get();
        first + range.start..first + range.end
    }

    fn assert_writable(&self) {
        assert!(self.writable, "a region that was lent for reading is written");
    }

    /// Reads a part. Panics where an operation may write.
    pub fn read<R>(&self, range: Range<usize>, read: impl FnOnce(&[u8]) -> R) -> R {
        let ptr = self.ptr_at(&range);
        self.tracked.assert_readable(&self.addresses(&range));
        let _busy = self.tracked.lock_slices();
        // SAFETY: the memory is initialized and lives as long as `tracked`. Nothing writes it meanwhile: no span for
        // writing overlaps it, as was tested, and `lock_slices` prevents other slices and spans.
        read(unsafe { std::slice::from_raw_parts(ptr.as_ptr(), range.len()) })
    }

    /// Changes a part. Panics on memory that was lent for reading, and where an operation uses it.
    pub fn write<R>(&self, range: Range<usize>, write: impl FnOnce(&mut [u8]) -> R) -> R {
        self.assert_writable();
        let ptr = self.ptr_at(&range);
        self.tracked.assert_writable(&self.addresses(&range));
        let _busy = self.tracked.lock_slices();
        // SAFETY: as in `read`; the memory may be written, and no span at all overlaps it.
        write(unsafe { std::slice::from_raw_parts_mut(ptr.as_ptr(), range.len()) })
    }

    /// Changes a part by the contents of another one, of this region or another. Panics if they overlap, and as `read`
    /// and `write` do.
    pub fn write_from<R>(
        &self,
        range: Range<usize>,
        other: &Region,
        from: Range<usize>,
        write: impl FnOnce(&mut [u8], &[u8]) -> R,
    ) -> R {
        if !Rc::ptr_eq(&self.tracked, &other.tracked) {
            return other.read(from, |from| self.write(range, |into| write(into, from)));
        }
        self.assert_writable();
        let (into, operand) = (self.ptr_at(&range), other.ptr_at(&from));
        let (first, second) = (self.addresses(&range), other.addresses(&from));
        let apart = first.end <= second.start || second.end <= first.start;
        assert!(apart || range.is_empty() || from.is_empty(), "parts of a region overlap");
        self.tracked.assert_writable(&first);
        self.tracked.assert_readable(&second);
        let _busy = self.tracked.lock_slices();
        // SAFETY: as in `write` and `read`; the two do not overlap.
        unsafe {
            let into = std::slice::from_raw_parts_mut(into.as_ptr(), range.len());
            write(into, std::slice::from_raw_parts(operand.as_ptr(), from.len()))
        }
    }

    /// Copies a part of another region, or of this one, here. Nothing is done if both are the same memory. Panics as
    /// `read` and `write` do.
    pub fn copy(&self, to: Range<usize>, other: &Region, from: Range<usize>) {
        assert!(to.len() == from.len(), "copies between ranges of one length");
        self.assert_writable();
        let (target, origin) = (self.ptr_at(&to), other.ptr_at(&from));
        if target != origin {
            self.tracked.assert_writable(&self.addresses(&to));
            other.tracked.assert_readable(&other.addresses(&from));
            let _busy = self.tracked.lock_slices();
            let _other = (!Rc::ptr_eq(&self.tracked, &other.tracked)).then(|| other.tracked.lock_slices());
            // SAFETY: both are in bounds, no slices of them exist, no span may write the one or uses the other, and
            // they may overlap.
            unsafe { origin.copy_to(target, from.len()) };
        }
    }

    /// The memory, if it was owned and no span of it is left.
    pub fn into_bytes(self) -> Option<Bytes> {
        Rc::into_inner(self.tracked)?.owned
    }
}

impl From<Bytes> for Region {
    fn from(mut bytes: Bytes) -> Self {
        let memory = NonNull::from(bytes.as_mut_slice());
        Self::new(memory, true, TrackedMemory::owned(bytes))
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({})", self.len)
    }
}

#[cfg(test)]
#[path = "region_tests.rs"]
mod tests;
