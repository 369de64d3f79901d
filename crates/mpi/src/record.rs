//! Records as they lie in MPI messages: the head, then the body. All carry the same MPI tag.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;

use treepie_fabric::Head;

/// The longest message that a record makes, both parts together.
///
/// It must pass by every transport's eager protocol, with MPI's own header: 4096 bytes in Open MPI's shared memory, the
/// smallest of those in common use. Then a record has arrived whole when it arrives at all. A longer one would wait in
/// the inbox for its sender to go on, which may be busy with other things, and with it all that came later.
pub(crate) const LONGEST: usize = 62 * 64;

/// The longest body.
pub(crate) const MAX_BODY: usize = LONGEST - size_of::<Head>();

/// The MPI tag of all records; those above belong to bulk transfers.
pub(crate) const TAG: i32 = 0;

/// Room for `count` records. It is never given back: MPI may hold on to it until the process ends, and a process has
/// one engine.
pub(crate) struct Buffers {
    first: NonNull<u8>,
    count: usize,
}

impl Buffers {
    pub(crate) fn new(count: usize) -> Self {
        let layout = Layout::from_size_align(count * LONGEST, 64).expect("a few records fit into memory");
        assert!(layout.size() != 0);
        // SAFETY: the size is not zero.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        Self { first, count }
    }

    /// Where buffer `index` begins; it is aligned to a cache line and has room for the longest record.
    pub(crate) fn at(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.count);
        // SAFETY: the buffer lies inside the allocation.
        unsafe { self.first.add(index * LONGEST) }
    }
}
