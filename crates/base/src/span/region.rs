//! Memory of which several operations use parts at once.

use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

use super::parts::Kept;
use super::{Hold, Span};
use crate::Bytes;

/// Memory of which several operations use parts at once: a buffer of a collective operation.
///
/// Its parts are spans, and it can be read and written between their operations. Which operations touch what is up to
/// whoever begins them; what would not be sound panics: a part that is to be written and overlaps another one, reading
/// what is in a part that is to be written, changing what is in any part. Slices of it exist only for the time of a
/// call, in which no part can be made.
pub struct Region {
    ptr: NonNull<u8>,
    len: usize,
    writable: bool,
    kept: Rc<Kept>,
}

impl Region {
    pub(super) fn new(memory: NonNull<[u8]>, writable: bool, kept: Rc<Kept>) -> Self {
        Self { ptr: memory.cast(), len: memory.len(), writable, kept }
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it begins at a multiple of this.
    pub fn is_aligned(&self, align: usize) -> bool {
        self.ptr.addr().get().is_multiple_of(align)
    }

    /// Whether nobody else holds any of its memory: no part, no other region. Never so for memory that was lent.
    pub fn is_alone(&self) -> bool {
        Rc::strong_count(&self.kept) == 1
    }

    /// A part of it as a region.
    pub fn sub(&self, range: Range<usize>) -> Self {
        Self { ptr: self.at(&range), len: range.len(), writable: self.writable, kept: self.kept.clone() }
    }

    /// The same memory once more.
    pub fn share(&self) -> Self {
        Self { kept: self.kept.clone(), ..*self }
    }

    /// Makes room for a list of so many parts at once.
    pub fn reserve_parts(&self, parts: usize) {
        self.kept.reserve(parts);
    }

    /// A part of it, for an operation that reads it. Panics if it overlaps a part that is to be written.
    pub fn part(&self, range: Range<usize>) -> Span {
        let ptr = self.at(&range);
        self.kept.hold(self.addresses(&range), false);
        Span { ptr, len: range.len(), hold: Hold::Part(self.kept.clone()) }
    }

    /// A part of it, for an operation that writes it. Panics if it overlaps any other part, or if the memory was lent for
    /// reading.
    pub fn part_mut(&self, range: Range<usize>) -> Span {
        self.writable();
        let ptr = self.at(&range);
        self.kept.hold(self.addresses(&range), true);
        Span { ptr, len: range.len(), hold: Hold::PartMut(self.kept.clone()) }
    }

    fn at(&self, range: &Range<usize>) -> NonNull<u8> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        // SAFETY: in bounds of the memory, as was tested.
        unsafe { self.ptr.add(range.start) }
    }

    fn addresses(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.ptr.addr().get();
        first + range.start..first + range.end
    }

    fn writable(&self) {
        assert!(self.writable, "a region that was lent for reading is written");
    }

    /// Reads a part. Panics where an operation may write.
    pub fn read<R>(&self, range: Range<usize>, read: impl FnOnce(&[u8]) -> R) -> R {
        let ptr = self.at(&range);
        self.kept.may_be_read(&self.addresses(&range));
        let _busy = self.kept.occupy();
        // SAFETY: the memory is initialised and lives as long as `kept`. Nothing writes it meanwhile: no span that may
        // overlaps it, as was tested, and `occupy` keeps other slices from being made, and spans.
        read(unsafe { std::slice::from_raw_parts(ptr.as_ptr(), range.len()) })
    }

    /// Changes a part. Panics on memory that was lent for reading, and where an operation uses it.
    pub fn write<R>(&self, range: Range<usize>, write: impl FnOnce(&mut [u8]) -> R) -> R {
        self.writable();
        let ptr = self.at(&range);
        self.kept.may_be_written(&self.addresses(&range));
        let _busy = self.kept.occupy();
        // SAFETY: as in `read`; the memory may be written, and no span at all overlaps it.
        write(unsafe { std::slice::from_raw_parts_mut(ptr.as_ptr(), range.len()) })
    }

    /// Changes a part by what another one holds, of this region or another one. Panics if they overlap, and as `read` and
    /// `write` do.
    pub fn write_by<R>(
        &self,
        range: Range<usize>,
        other: &Region,
        from: Range<usize>,
        write: impl FnOnce(&mut [u8], &[u8]) -> R,
    ) -> R {
        if !Rc::ptr_eq(&self.kept, &other.kept) {
            return other.read(from, |from| self.write(range, |into| write(into, from)));
        }
        self.writable();
        let (into, operand) = (self.at(&range), other.at(&from));
        let (first, second) = (self.addresses(&range), other.addresses(&from));
        let apart = first.end <= second.start || second.end <= first.start;
        assert!(apart || range.is_empty() || from.is_empty(), "parts of a region overlap");
        self.kept.may_be_written(&first);
        self.kept.may_be_read(&second);
        let _busy = self.kept.occupy();
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
        self.writable();
        let (target, origin) = (self.at(&to), other.at(&from));
        if target != origin {
            self.kept.may_be_written(&self.addresses(&to));
            other.kept.may_be_read(&other.addresses(&from));
            let _busy = self.kept.occupy();
            let _other = (!Rc::ptr_eq(&self.kept, &other.kept)).then(|| other.kept.occupy());
            // SAFETY: both are in bounds, no slices of them exist, no span may write the one or uses the other, and they
            // may overlap.
            unsafe { origin.copy_to(target, from.len()) };
        }
    }

    /// The memory again, if it was owned and no part of it is left.
    pub fn into_bytes(self) -> Option<Bytes> {
        Rc::into_inner(self.kept)?.owned
    }
}

impl From<Bytes> for Region {
    fn from(mut bytes: Bytes) -> Self {
        let memory = NonNull::from(bytes.as_mut_slice());
        Self::new(memory, true, Kept::owned(bytes))
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
