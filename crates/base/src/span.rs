//! Memory that an operation in flight reads or writes: owned, or lent for the time of a [`lending`].
//!
//! A [`Span`] is valid as long as it exists. For owned memory that is plain ownership. For lent memory, [`lending`]
//! does not return, and does not let a panic pass, before every span that was lent in it is gone; until then it calls
//! `settle`, which is to bring the operations that hold them to an end. So a forgotten request can delay the end of a
//! lending, but no operation can touch memory that its owner has taken back.

mod parts;
mod region;

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::Bytes;
use parts::Kept;

pub use region::Region;

/// Bytes that a send reads or a receive writes.
///
/// Kept small, since operations are made of it: what owned memory needs beyond its address is boxed.
pub struct Span {
    ptr: NonNull<u8>,
    len: usize,
    hold: Hold,
}

enum Hold {
    /// All of it; nothing only when it was taken out, right before the end.
    Owned(Option<Box<Bytes>>),
    /// A slice that was lent for reading. Whoever lent it borrowed it, so nobody else writes it.
    Lent(Rc<Kept>),
    /// A slice that was lent for writing. Nobody else has any of it.
    LentMut(Rc<Kept>),
    /// Part of a region, for reading; listed among its parts.
    Part(Rc<Kept>),
    /// The same for writing.
    PartMut(Rc<Kept>),
    /// Any of these while others may read it; see [`Span::register`].
    Registered(Box<Registered>),
}

/// How the memory is held, and what ends the time in which others may read it.
struct Registered {
    hold: Hold,
    /// Dropped before anything of `hold` is.
    registration: Box<dyn Any>,
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
        // Nothing else writes it: it is owned, or the slice that was lent is borrowed, or its region lists it as held, and
        // makes neither a part nor a slice for writing that overlaps it. If this span can write it, it is borrowed here.
        // SAFETY: it lives and is initialised as long as the span does (module documentation), and is not written meanwhile.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, to be written. Panics on a span that was lent for reading, or is [registered](Self::register).
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(self.is_writable(), "a span that was lent for reading is written");
        // SAFETY: as in `as_slice`; the memory was lent or is owned for writing, its region neither makes parts nor slices
        // that overlap it, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// Whether it may be written.
    pub fn is_writable(&self) -> bool {
        matches!(self.hold, Hold::Owned(_) | Hold::LentMut(_) | Hold::PartMut(_))
    }

    /// Others may read the bytes from now on, until `registration` has been dropped. Engines call this whose peers copy
    /// from the memory of a send: dropping the registration is to return when no peer copies any more. The span drops it
    /// before its memory can be written, freed or taken back; if the span is leaked, the memory stays registered for ever.
    ///
    /// # Panics
    /// If it is registered already.
    pub fn register(&mut self, registration: Box<dyn Any>) {
        assert!(!self.is_registered(), "memory is registered twice");
        let hold = std::mem::replace(&mut self.hold, Hold::Owned(None));
        self.hold = Hold::Registered(Box::new(Registered { hold, registration }));
    }

    /// Ends the registration, if there is one.
    pub fn deregister(&mut self) {
        if let Hold::Registered(registered) = &mut self.hold {
            registered.registration = Box::new(());
            self.hold = std::mem::replace(&mut registered.hold, Hold::Owned(None));
        }
    }

    /// Whether others may read it.
    pub fn is_registered(&self) -> bool {
        matches!(self.hold, Hold::Registered(_))
    }

    /// The first `len` bytes only; the memory beyond is kept, untouched.
    pub fn narrowed(mut self, len: usize) -> Self {
        // What is beyond may be written by others after this.
        self.deregister();
        let len = self.len.min(len);
        if let Hold::Part(kept) | Hold::PartMut(kept) = &self.hold {
            kept.narrow(self.addresses(), len, self.is_writable());
        }
        self.len = len;
        self
    }

    fn addresses(&self) -> Range<usize> {
        let first = self.ptr.addr().get();
        first..first + self.len
    }

    /// Where the bytes lie, for engines that hand the address to a peer.
    pub fn address(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The owned memory again, or nothing for lent memory.
    pub fn into_bytes(mut self) -> Option<Bytes> {
        self.deregister();
        match &mut self.hold {
            Hold::Owned(bytes) => bytes.take().map(|bytes| *bytes),
            _ => None,
        }
    }

    /// Which lending it is of; nothing for owned memory.
    #[inline]
    pub fn lender(&self) -> Option<Lender> {
        self.hold.lender()
    }
}

impl Hold {
    #[inline]
    fn lender(&self) -> Option<Lender> {
        match self {
            Hold::Owned(_) => None,
            Hold::Lent(kept) | Hold::LentMut(kept) | Hold::Part(kept) | Hold::PartMut(kept) => kept.lender(),
            Hold::Registered(registered) => registered.hold.lender(),
        }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        self.deregister();
        if let Hold::Part(kept) | Hold::PartMut(kept) = &self.hold {
            kept.release(self.addresses(), self.is_writable());
        }
    }
}

impl From<Bytes> for Span {
    fn from(mut bytes: Bytes) -> Self {
        let slice = bytes.as_mut_slice();
        let (len, ptr) = (slice.len(), NonNull::from(slice).cast());
        Self { ptr, len, hold: Hold::Owned(Some(Box::new(bytes))) }
    }
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Span({})", self.len)
    }
}

/// Names a [`Lending`] that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lender(usize);

/// Why [`lending`] asks for what was lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settling {
    /// Whose memory is asked for; nothing if it is that of all.
    pub lender: Option<Lender>,
    /// Whether that is because of a panic.
    pub panicked: bool,
}

impl From<bool> for Settling {
    /// The memory of all.
    fn from(panicked: bool) -> Self {
        Self { lender: None, panicked }
    }
}

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
        Region::new(NonNull::from(bytes), false, self.spans.clone())
    }

    /// Lends bytes to be written in parts.
    pub fn region_mut(&self, bytes: &'scope mut [u8]) -> Region {
        Region::new(NonNull::from(bytes), true, self.spans.clone())
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
/// `settle` is told which lending it is and whether `body` panicked. A panic inside `settle` aborts: there is no way on from there.
pub fn lending<'env, R>(
    body: impl for<'scope> FnOnce(&'scope Lending<'scope>, PhantomData<&'scope &'env ()>) -> R,
    mut settle: impl FnMut(Settling),
) -> R {
    let lending = Lending { spans: Kept::lent(), scope: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| body(&lending, PhantomData)));
    let why = Settling { lender: Some(lending.lender()), panicked: result.is_err() };
    while !lending.all_returned() {
        if catch_unwind(AssertUnwindSafe(|| settle(why))).is_err() {
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
    fn a_span_is_small() {
        assert_eq!(size_of::<Span>(), 4 * size_of::<usize>());
    }

    #[test]
    fn owned_memory_comes_back() {
        let mut span = Span::from(Bytes::from(vec![1u8, 2, 3]));
        span.as_mut_slice()[0] = 7;
        assert_eq!(span.narrowed(2).into_bytes().unwrap().into_vec::<u8>().unwrap(), [7, 2, 3]);
    }

    /// Tells when it is dropped.
    struct Told(Rc<std::cell::Cell<bool>>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn registered_memory_is_not_written_and_ends_its_registration_first() {
        let ended = Rc::new(std::cell::Cell::new(false));
        let registered = || {
            let mut span = Span::from(Bytes::from(vec![1u8, 2, 3]));
            ended.set(false);
            span.register(Box::new(Told(ended.clone())));
            span
        };
        let mut span = registered();
        assert!(!span.is_writable() && span.as_slice() == [1, 2, 3] && !ended.get());
        assert!(catch_unwind(AssertUnwindSafe(|| span.as_mut_slice()[0] = 7)).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| span.register(Box::new(())))).is_err());
        span.deregister();
        assert!(ended.get() && span.is_writable());
        drop(registered());
        assert!(ended.get());
        assert!(registered().into_bytes().is_some() && ended.get());
        let span = registered().narrowed(2);
        assert!(ended.get() && span.len() == 2);
        let lent = vec![5u8; 4];
        lending(
            |lending, _| {
                let mut span = lending.lend(&lent);
                span.register(Box::new(Told(ended.clone())));
                assert_eq!(span.lender(), Some(lending.lender()));
            },
            |_| unreachable!("the span is gone"),
        );
    }
}
