//! Memory that an operation in flight reads or writes: owned, or lent for the time of a [`lending`].
//!
//! A [`Span`] is valid as long as it exists. For owned memory that is plain ownership. For lent memory, [`lending`]
//! does not return, and does not let a panic pass, before every span that was lent in it is gone; until then it calls
//! `settle`, which is to bring the operations that hold them to an end. So a forgotten request can delay the end of a
//! lending, but no operation can touch memory that its owner has taken back.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::Bytes;

/// Bytes that a send reads or a receive writes.
///
/// Kept small, since operations are made of it: what owned memory needs beyond its address is boxed.
pub struct Span {
    ptr: NonNull<u8>,
    len: usize,
    hold: Hold,
}

enum Hold {
    Owned(Box<Bytes>),
    /// Part of memory that is kept elsewhere, for reading.
    Lent(Rc<Kept>),
    /// The same for writing.
    LentMut(Rc<Kept>),
}

/// Memory that spans and regions are parts of. As long as one of them exists, so does this; what was lent is not taken
/// back before.
struct Kept {
    /// The memory, if it is not lent.
    owned: Option<Bytes>,
    /// Whether a slice of a region of it exists.
    busy: Cell<bool>,
}

impl Kept {
    fn new(owned: Option<Bytes>) -> Rc<Self> {
        Rc::new(Self { owned, busy: Cell::new(false) })
    }

    fn lender(self: &Rc<Self>) -> Option<Lender> {
        self.owned.is_none().then(|| Lender(Rc::as_ptr(self).addr()))
    }
}

impl Span {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: a span's memory lives and is initialised as long as the span does (module documentation); a writable
        // span is the only way to its memory, and it is borrowed here.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, to be written. Panics on a span that was lent for reading.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(!matches!(self.hold, Hold::Lent(_)), "a span that was lent for reading is written");
        // SAFETY: as in `as_slice`; the memory was lent or is owned for writing, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// The first `len` bytes only; the memory beyond is kept, untouched.
    pub fn narrowed(mut self, len: usize) -> Self {
        self.len = self.len.min(len);
        self
    }

    /// Where the bytes lie, for engines that hand the address to a peer.
    pub fn address(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The owned memory again, or nothing for lent memory.
    pub fn into_bytes(self) -> Option<Bytes> {
        match self.hold {
            Hold::Owned(bytes) => Some(*bytes),
            Hold::Lent(_) | Hold::LentMut(_) => None,
        }
    }

    /// Which lending it is of; nothing for owned memory.
    #[inline]
    pub fn lender(&self) -> Option<Lender> {
        match &self.hold {
            Hold::Owned(_) => None,
            Hold::Lent(kept) | Hold::LentMut(kept) => kept.lender(),
        }
    }
}

impl From<Bytes> for Span {
    fn from(mut bytes: Bytes) -> Self {
        let slice = bytes.as_mut_slice();
        let (len, ptr) = (slice.len(), NonNull::from(slice).cast());
        Self { ptr, len, hold: Hold::Owned(Box::new(bytes)) }
    }
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Span({})", self.len)
    }
}

/// Memory of which several operations use parts at once: a buffer of a collective operation.
///
/// Its parts are spans, and it can be read and written between their operations. Nothing here keeps two operations from
/// the same part; which of them touch what is up to whoever begins them. Slices of it exist only for the time of a call.
pub struct Region {
    ptr: NonNull<u8>,
    len: usize,
    writable: bool,
    kept: Rc<Kept>,
}

impl Region {
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

    /// A part of it as a region.
    pub fn sub(&self, range: Range<usize>) -> Self {
        Self { ptr: self.at(&range), len: range.len(), writable: self.writable, kept: self.kept.clone() }
    }

    /// The same memory once more.
    pub fn share(&self) -> Self {
        Self { kept: self.kept.clone(), ..*self }
    }

    /// A part of it, for an operation.
    pub fn part(&self, range: Range<usize>) -> Span {
        let ptr = self.at(&range);
        let kept = self.kept.clone();
        let hold = if self.writable { Hold::LentMut(kept) } else { Hold::Lent(kept) };
        Span { ptr, len: range.len(), hold }
    }

    fn at(&self, range: &Range<usize>) -> NonNull<u8> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        // SAFETY: in bounds of the memory, as was tested.
        unsafe { self.ptr.add(range.start) }
    }

    fn writable(&self) {
        assert!(self.writable, "a region that was lent for reading is written");
    }

    /// Reads a part.
    pub fn read<R>(&self, range: Range<usize>, read: impl FnOnce(&[u8]) -> R) -> R {
        let ptr = self.at(&range);
        let _busy = self.occupy();
        // SAFETY: the memory is initialised and lives as long as `kept`. Nothing writes it meanwhile: `occupy` keeps
        // other slices away, and operations on its parts do not go on during this call.
        read(unsafe { std::slice::from_raw_parts(ptr.as_ptr(), range.len()) })
    }

    /// Changes a part. Panics on memory that was lent for reading.
    pub fn write<R>(&self, range: Range<usize>, write: impl FnOnce(&mut [u8]) -> R) -> R {
        self.writable();
        let ptr = self.at(&range);
        let _busy = self.occupy();
        // SAFETY: as in `read`, and the memory may be written.
        write(unsafe { std::slice::from_raw_parts_mut(ptr.as_ptr(), range.len()) })
    }

    /// Changes a part by what another one holds, of this region or another one. Panics if they overlap.
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
        let (first, second) = (into.addr().get(), operand.addr().get());
        let apart = first + range.len() <= second || second + from.len() <= first;
        assert!(apart || range.is_empty() || from.is_empty(), "parts of a region overlap");
        let _busy = self.occupy();
        // SAFETY: as in `write` and `read`; the two do not overlap.
        unsafe {
            let into = std::slice::from_raw_parts_mut(into.as_ptr(), range.len());
            write(into, std::slice::from_raw_parts(operand.as_ptr(), from.len()))
        }
    }

    /// Copies a part of another region, or of this one, here. Nothing is done if both are the same memory.
    pub fn copy(&self, to: Range<usize>, other: &Region, from: Range<usize>) {
        assert!(to.len() == from.len(), "copies between ranges of one length");
        self.writable();
        let (to, from, len) = (self.at(&to), other.at(&from), from.len());
        if to != from {
            let _busy = self.occupy();
            let _other = (!Rc::ptr_eq(&self.kept, &other.kept)).then(|| other.occupy());
            // SAFETY: both are in bounds, no slices of them exist, and they may overlap.
            unsafe { from.copy_to(to, len) };
        }
    }

    /// The memory again, if it was owned and no part of it is left.
    pub fn into_bytes(self) -> Option<Bytes> {
        Rc::into_inner(self.kept)?.owned
    }

    fn occupy(&self) -> impl Drop + '_ {
        struct Free<'a>(&'a Cell<bool>);
        impl Drop for Free<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        assert!(!self.kept.busy.replace(true), "a region is used while a slice of it exists");
        Free(&self.kept.busy)
    }
}

impl From<Bytes> for Region {
    fn from(mut bytes: Bytes) -> Self {
        let slice = bytes.as_mut_slice();
        let (len, ptr) = (slice.len(), NonNull::from(slice).cast());
        Self { ptr, len, writable: true, kept: Kept::new(Some(bytes)) }
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({})", self.len)
    }
}

/// Names a [`Lending`] that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lender(usize);

/// Lends borrowed slices as [`Span`]s; made by [`lending`].
pub struct Lending<'scope> {
    spans: Rc<Kept>,
    scope: PhantomData<&'scope mut &'scope ()>,
}

impl<'scope> Lending<'scope> {
    /// Lends bytes to be read.
    pub fn lend(&self, bytes: &'scope [u8]) -> Span {
        let (len, ptr) = (bytes.len(), NonNull::from(bytes).cast());
        Span { ptr, len, hold: Hold::Lent(self.spans.clone()) }
    }

    /// Lends bytes to be written.
    pub fn lend_mut(&self, bytes: &'scope mut [u8]) -> Span {
        let (len, ptr) = (bytes.len(), NonNull::from(bytes).cast());
        Span { ptr, len, hold: Hold::LentMut(self.spans.clone()) }
    }

    /// Lends bytes to be read in parts.
    pub fn region(&self, bytes: &'scope [u8]) -> Region {
        let (len, ptr) = (bytes.len(), NonNull::from(bytes).cast());
        Region { ptr, len, writable: false, kept: self.spans.clone() }
    }

    /// Lends bytes to be written in parts.
    pub fn region_mut(&self, bytes: &'scope mut [u8]) -> Region {
        let (len, ptr) = (bytes.len(), NonNull::from(bytes).cast());
        Region { ptr, len, writable: true, kept: self.spans.clone() }
    }

    /// Its name, while it lasts.
    pub fn lender(&self) -> Lender {
        Lender(Rc::as_ptr(&self.spans).addr())
    }

    /// Whether no span that was lent exists any more.
    pub fn all_returned(&self) -> bool {
        Rc::strong_count(&self.spans) == 1
    }
}

/// Runs `body`, which may lend slices that outlive the call, and then `settle` until all that was lent is back.
/// `settle` is told whether `body` panicked. A panic inside `settle` aborts: there is no way on from there.
pub fn lending<'env, R>(
    body: impl for<'scope> FnOnce(&'scope Lending<'scope>, PhantomData<&'scope &'env ()>) -> R,
    mut settle: impl FnMut(bool),
) -> R {
    let lending = Lending { spans: Kept::new(None), scope: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| body(&lending, PhantomData)));
    while !lending.all_returned() {
        if catch_unwind(AssertUnwindSafe(|| settle(result.is_err()))).is_err() {
            eprintln!("treepie: panic while waiting for borrowed buffers to come back");
            std::process::abort();
        }
    }
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_region_are_read_written_and_returned() {
        let region = Region::from(Bytes::from(vec![1u8, 2, 3, 4]));
        let mut part = region.part(1..3);
        part.as_mut_slice()[0] = 9;
        assert_eq!(region.read(0..4, <[u8]>::to_vec), [1, 9, 3, 4]);
        region.copy(2..4, &region.share(), 0..2);
        region.write_by(0..2, &region.share(), 2..4, |into, from| into[0] += from[1]);
        assert_eq!(region.read(0..4, <[u8]>::to_vec), [10, 9, 1, 9]);
        drop(part);
        assert_eq!(region.into_bytes().unwrap().into_vec::<u8>().unwrap(), [10, 9, 1, 9]);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn a_part_is_not_changed_by_itself() {
        let region = Region::from(Bytes::from(vec![0u8; 4]));
        region.write_by(0..3, &region.share(), 2..4, |_, _| ());
    }

    #[test]
    #[should_panic(expected = "lent for reading")]
    fn a_region_lent_for_reading_is_not_written() {
        lending(|lending, _| lending.region(b"abc").write(0..1, |_| ()), |_| {});
    }

    #[test]
    fn a_lending_waits_for_its_regions() {
        let mut memory = [1u8; 4];
        let kept = std::cell::RefCell::new(Vec::new());
        lending(
            |lending, _| kept.borrow_mut().push(lending.region_mut(&mut memory).part(1..2)),
            |_| kept.borrow_mut().clear(),
        );
        assert_eq!(memory, [1; 4]);
    }
}
