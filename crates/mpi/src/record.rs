//! Records as MPI messages: the header, then the body. All have the same MPI tag.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;

use treepie_fabric::RecordHeader;

/// The longest record, header and body together.
///
/// It must be sent by every transport's eager protocol, with MPI's own header: 4096 bytes in Open MPI's shared memory,
/// the smallest of those in common use. Then a record arrives whole. A longer one would wait in the inbox for its
/// sender to progress, which may be busy elsewhere, and delay all later ones.
pub(crate) const MAX_RECORD: usize = 62 * 64;

/// The longest body.
pub(crate) const MAX_BODY: usize = MAX_RECORD - size_of::<RecordHeader>();

/// The MPI tag of all records; those above belong to bulk transfers.
pub(crate) const RECORD_TAG: i32 = 0;

/// Buffers for `count` records. They are never freed: MPI may use them until the process ends, and a process has one
/// engine.
pub(crate) struct RecordBuffers {
    first: NonNull<u8>,
    count: usize,
}

impl RecordBuffers {
    pub(crate) fn new(count: usize) -> Self {
        let layout = Layout::from_size_align(count * MAX_RECORD, 64).expect("a few records fit into memory");
        assert!(layout.size() != 0);
        // SAFETY: the size is not zero.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        Self { first, count }
    }

    /// The address of buffer `index`, aligned to a cache line and large enough for the longest record.
    pub(crate) fn buffer(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.count);
        // SAFETY: the buffer lies inside the allocation.
        unsafe { self.first.add(index * MAX_RECORD) }
    }
}
