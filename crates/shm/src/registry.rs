//! Registered memory: the memory that other ranks may copy from, and the keys that name it.
//!
//! To register the memory of a message, a rank writes its address, its length and the rank that may read it into a cell
//! of its table in the arena. The key is the index of the cell and a generation, which changes each time the cell is
//! used; so a forged key, or one of a closed entry, finds nothing. Peers that are threads count themselves in the cell
//! while they copy, and deregistration waits until none does. Peers that are processes copy through the kernel, which
//! checks the address, and check afterwards that the entry was still open: they may die at any time, so nobody waits
//! for them.

#[cfg(not(loom))]
mod table;

use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use table::Registry;

/// Registrations that a rank can have at a time. Further messages are sent as records.
#[cfg(not(loom))]
pub(crate) const MAX_REGISTRATIONS: usize = 1024;

/// The null key: the data is sent as records.
#[cfg(not(loom))]
pub(crate) const NO_KEY: u64 = 0;

/// Memory of a rank, and the one peer that may copy from it or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryRegion {
    pub(crate) base: u64,
    pub(crate) len: u64,
    pub(crate) peer: u32,
}

/// A [`MemoryRegion`] in shared memory. A reader validates after it has read the words, as they may have changed
/// meanwhile.
#[repr(C)]
pub(crate) struct AtomicMemoryRegion {
    base: AtomicU64,
    len: AtomicU64,
    peer: AtomicU32,
    unused: u32,
}

impl AtomicMemoryRegion {
    /// Writes the region. The caller must have invalidated the last one before, and must publish this one afterwards.
    pub(crate) fn set(&self, entry: MemoryRegion) {
        // A rank that reads any of these words also sees that the last region is invalid.
        fence(Ordering::Release);
        self.base.store(entry.base, Ordering::Relaxed);
        self.len.store(entry.len, Ordering::Relaxed);
        self.peer.store(entry.peer, Ordering::Relaxed);
    }

    fn get(&self) -> MemoryRegion {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        MemoryRegion { base: word(&self.base), len: word(&self.len), peer: self.peer.load(Ordering::Relaxed) }
    }

    /// Reads the region, if `is_valid` holds after that.
    pub(crate) fn get_if(&self, is_valid: impl FnOnce() -> bool) -> Option<MemoryRegion> {
        let entry = self.get();
        fence(Ordering::Acquire);
        is_valid().then_some(entry)
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { base: AtomicU64::new(0), len: AtomicU64::new(0), peer: AtomicU32::new(0), unused: 0 }
    }
}

/// A cell of the table.
#[repr(C)]
pub(crate) struct RegistrationCell {
    /// The generation, whether the entry is open, and the number of threads that copy from its memory.
    state: AtomicU64,
    entry: AtomicMemoryRegion,
}

const OPEN: u64 = 1 << 31;
const COPIERS_MASK: u64 = OPEN - 1;

/// The next generation. None is 0, so that zeroed memory holds no valid key.
pub(crate) fn next_generation(generation: u32) -> u32 {
    generation.wrapping_add(1).max(1)
}

impl RegistrationCell {
    /// Opens an entry and returns its generation. Only the owner calls this, after the last entry is closed and copied
    /// by nobody.
    pub(crate) fn open(&self, entry: MemoryRegion) -> u32 {
        let generation = next_generation((self.state.load(Ordering::Relaxed) >> 32) as u32);
        self.entry.set(entry);
        self.state.store(u64::from(generation) << 32 | OPEN, Ordering::Release);
        generation
    }

    /// Closes the entry: no new copy begins. Where peers are threads, waits for the copies in progress, which are of
    /// one chunk each.
    pub(crate) fn close(&self, has_threads: bool, mut pause: impl FnMut()) {
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        while has_threads && self.state.load(Ordering::Acquire) & COPIERS_MASK != 0 {
            pause();
        }
    }

    fn is_open_state(state: u64, generation: u32) -> bool {
        (state >> 32) as u32 == generation && state & OPEN != 0
    }

    /// Whether the entry of this generation is open.
    pub(crate) fn is_open(&self, generation: u32) -> bool {
        Self::is_open_state(self.state.load(Ordering::Acquire), generation)
    }

    /// The entry of this generation, if it is open.
    pub(crate) fn look_up(&self, generation: u32) -> Option<MemoryRegion> {
        if !self.is_open(generation) {
            return None;
        }
        self.entry.get_if(|| self.is_open(generation))
    }

    /// Begins a copy, if the entry of this generation is open. The owner keeps the memory until the guard is dropped.
    pub(crate) fn begin_copy(&self, generation: u32) -> Option<CopyGuard<'_>> {
        let one_more = |state: u64| Self::is_open_state(state, generation).then_some(state + 1);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(CopyGuard { cell: self, entry: self.entry.get() })
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { state: AtomicU64::new(0), entry: AtomicMemoryRegion::new() }
    }
}

/// A copy in progress by a thread: the entry's memory stays registered until this is dropped.
pub(crate) struct CopyGuard<'a> {
    cell: &'a RegistrationCell,
    pub(crate) entry: MemoryRegion,
}

impl Drop for CopyGuard<'_> {
    fn drop(&mut self) {
        self.cell.state.fetch_sub(1, Ordering::Release);
    }
}
