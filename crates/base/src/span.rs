//! Memory that an operation in flight reads or writes: owned, or lent for the duration of a [`borrow_scope`].
//!
//! A [`Span`] is valid as long as it exists. For owned memory that is plain ownership. For lent memory,
//! [`borrow_scope`] does not return, and does not propagate a panic, before every span that was lent in it is dropped;
//! until then it calls `settle`, which must complete the operations that hold them. So a forgotten request can delay
//! the end of a scope, but no operation can access memory whose borrow has ended.

mod borrow_set;
mod region;

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::Bytes;
use borrow_set::TrackedMemory;

pub use region::Region;

/// Bytes that a send reads or a receive writes.
///
/// Small, since operations contain it: what owned memory needs beyond its address is boxed.
pub struct Span {
    ptr: NonNull<u8>,
    len: usize,
    backing: Backing,
}

enum Backing {
    /// Owned memory; none only when it was taken out, right before the drop.
    Owned(Option<Box<Bytes>>),
    /// A slice that was lent for reading. It is borrowed, so nobody else writes it.
    Lent(Rc<TrackedMemory>),
    /// A slice that was lent for writing. It is borrowed mutably, so nobody else accesses it.
    LentMut(Rc<TrackedMemory>),
    /// Part of a region, for reading; listed in its borrow set.
    Part(Rc<TrackedMemory>),
    /// The same for writing.
    PartMut(Rc<TrackedMemory>),
    /// Any of these while peers may read it; see [`Span::register`].
    Registered(Box<Registered>),
}

/// The backing memory, and the registration by which peers may read it.
struct Registered {
    backing: Backing,
    /// Dropped before `backing`.
    registration: Box<dyn Any>,
}

impl Span {
    /// The length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // Nothing else writes it: it is owned, or the slice that was lent is borrowed, or its region lists it as
        // borrowed, and creates neither a span nor a slice for writing that overlaps it. If this span can write it, it
        // is borrowed here.
        // SAFETY: it lives and is initialized as long as the span does (module documentation), and is not written
        // meanwhile.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, to be written. Panics on a span that was lent for reading, or is [registered](Self::register).
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(self.is_writable(), "a span that was lent for reading is written");
        // SAFETY: as in `as_slice`; the memory was lent or is owned for writing, its region creates neither spans nor
        // slices that overlap it, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// Whether it may be written.
    pub fn is_writable(&self) -> bool {
        matches!(self.backing, Backing::Owned(_) | Backing::LentMut(_) | Backing::PartMut(_))
    }

    /// Lets peers read the bytes until `registration` is dropped. Engines call this whose peers copy from the memory of
    /// a send: dropping the registration must return only when no peer copies any more. The span drops it before its
    /// memory can be written, freed or returned; if the span is leaked, the memory stays registered for ever.
    ///
    /// # Panics
    /// If it is registered already.
    pub fn register(&mut self, registration: Box<dyn Any>) {
        assert!(!self.is_registered(), "memory is registered twice");
        let backing = std::mem::replace(&mut self.backing, Backing::Owned(None));
        self.backing = Backing::Registered(Box::new(Registered { backing, registration }));
    }

    /// Ends the registration, if there is one.
    pub fn deregister(&mut self) {
        if let Backing::Registered(registered) = &mut self.backing {
            registered.registration = Box::new(());
            self.backing = std::mem::replace(&mut registered.backing, Backing::Owned(None));
        }
    }

    /// Whether peers may read it.
    pub fn is_registered(&self) -> bool {
        matches!(self.backing, Backing::Registered(_))
    }

    /// Truncates it to the first `len` bytes; owned memory beyond stays allocated.
    pub fn truncated(mut self, len: usize) -> Self {
        // The rest may be written by others after this.
        self.deregister();
        let len = self.len.min(len);
        if let Backing::Part(tracked) | Backing::PartMut(tracked) = &self.backing {
            tracked.shrink(self.addresses(), len, self.is_writable());
        }
        self.len = len;
        self
    }

    fn addresses(&self) -> Range<usize> {
        let first = self.ptr.addr().get();
        first..first + self.len
    }

    /// The address of the bytes, for engines that pass it to a peer.
    pub fn address(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The owned memory, or none for lent memory.
    #[inline]
    pub fn into_bytes(mut self) -> Option<Bytes> {
        self.deregister();
        match &mut self.backing {
            Backing::Owned(bytes) => bytes.take().map(|bytes| *bytes),
            _ => None,
        }
    }

    /// The borrow scope that lent it; none for owned memory.
    #[inline]
    pub fn scope_id(&self) -> Option<BorrowScopeId> {
        self.backing.scope_id()
    }
}

impl Backing {
    #[inline]
    fn scope_id(&self) -> Option<BorrowScopeId> {
        match self {
            Backing::Owned(_) => None,
            Backing::Lent(tracked) | Backing::LentMut(tracked) | Backing::Part(tracked) | Backing::PartMut(tracked) => {
                tracked.scope_id()
            }
            Backing::Registered(registered) => registered.backing.scope_id(),
        }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        self.deregister();
        if let Backing::Part(tracked) | Backing::PartMut(tracked) = &self.backing {
            tracked.release(self.addresses(), self.is_writable());
        }
    }
}

impl From<Bytes> for Span {
    fn from(mut bytes: Bytes) -> Self {
        let slice = bytes.as_mut_slice();
        let (len, ptr) = (slice.len(), NonNull::from(slice).cast());
        Self { ptr, len, backing: Backing::Owned(Some(Box::new(bytes))) }
    }
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Span({})", self.len)
    }
}

/// Identifies an active [`BorrowScope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorrowScopeId(usize);

/// Why [`borrow_scope`] calls `settle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettleReason {
    /// The scope whose memory must be returned; none for all scopes.
    pub scope: Option<BorrowScopeId>,
    /// Whether its body panicked.
    pub panicked: bool,
}

impl From<bool> for SettleReason {
    /// The memory of all scopes.
    fn from(panicked: bool) -> Self {
        Self { scope: None, panicked }
    }
}

/// Lends borrowed slices as [`Span`]s; made by [`borrow_scope`].
pub struct BorrowScope<'scope> {
    tracked: Rc<TrackedMemory>,
    scope: PhantomData<&'scope mut &'scope ()>,
}

impl<'scope> BorrowScope<'scope> {
    /// Lends bytes to be read.
    pub fn lend(&self, bytes: &'scope [u8]) -> Span {
        let (len, ptr) = (bytes.len(), NonNull::from(bytes).cast());
        Span { ptr, len, backing: Backing::Lent(self.tracked.clone()) }
    }

    /// Lends bytes to be written.
    pub fn lend_mut(&self, bytes: &'scope mut [u8]) -> Span {
        let (len, ptr) = (bytes.len(), NonNull::from(bytes).cast());
        Span { ptr, len, backing: Backing::LentMut(self.tracked.clone()) }
    }

    /// Lends bytes to be read in parts.
    pub fn region(&self, bytes: &'scope [u8]) -> Region {
        Region::new(NonNull::from(bytes), false, self.tracked.clone())
    }

    /// Lends bytes to be written in parts.
    pub fn region_mut(&self, bytes: &'scope mut [u8]) -> Region {
        Region::new(NonNull::from(bytes), true, self.tracked.clone())
    }

    /// Its id, unique while it exists.
    pub fn id(&self) -> BorrowScopeId {
        BorrowScopeId(Rc::as_ptr(&self.tracked).addr())
    }

    /// Whether all spans that were lent have been dropped.
    pub fn all_returned(&self) -> bool {
        Rc::strong_count(&self.tracked) == 1
    }
}

/// Runs `body`, which may lend slices to operations that outlive it, and then calls `settle` until all spans are
/// dropped. `settle` gets the scope and whether `body` panicked. A panic inside `settle` aborts the process: the
/// borrows could not be ended.
pub fn borrow_scope<'env, R>(
    body: impl for<'scope> FnOnce(&'scope BorrowScope<'scope>, PhantomData<&'scope &'env ()>) -> R,
    mut settle: impl FnMut(SettleReason),
) -> R {
    let scope = BorrowScope { tracked: TrackedMemory::lent(), scope: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope, PhantomData)));
    let why = SettleReason { scope: Some(scope.id()), panicked: result.is_err() };
    while !scope.all_returned() {
        if catch_unwind(AssertUnwindSafe(|| settle(why))).is_err() {
            eprintln!("treepie: panic while waiting for borrowed buffers to be returned");
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
        assert_eq!(span.truncated(2).into_bytes().unwrap().into_vec::<u8>().unwrap(), [7, 2, 3]);
    }

    /// Sets a flag when it is dropped.
    struct DropFlag(Rc<std::cell::Cell<bool>>);

    impl Drop for DropFlag {
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
            span.register(Box::new(DropFlag(ended.clone())));
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
        let span = registered().truncated(2);
        assert!(ended.get() && span.len() == 2);
        let lent = vec![5u8; 4];
        borrow_scope(
            |scope, _| {
                let mut span = scope.lend(&lent);
                span.register(Box::new(DropFlag(ended.clone())));
                assert_eq!(span.scope_id(), Some(scope.id()));
            },
            |_| unreachable!("the span is gone"),
        );
    }
}
