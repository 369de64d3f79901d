//! Registered memory: what other ranks may copy from, and the keys by which they name it.
//!
//! A rank enters the memory of a message that it offers into a cell of a table of its own, which lies in the arena: where
//! it begins, how long it is, and who may read it. The key is the number of the cell and a generation, which is another
//! one each time the cell is used; so a key that was made up, or whose entry has been closed, finds nothing. Peers that
//! are threads count themselves in the cell while they copy, and the owner takes its memory back when none does. Peers
//! that are processes copy by the kernel, which checks the address, and look afterwards whether the entry was still open:
//! they may die at any time, so nobody waits for them.

use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence};

/// Entries that a rank can have at a time. Messages beyond go in records.
#[cfg(not(loom))]
pub(crate) const ENTRIES: usize = 1024;

/// The key of no entry: the data is to go in records.
#[cfg(not(loom))]
pub(crate) const NONE: u64 = 0;

/// Memory of a rank, and the one rank that may copy from it, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) base: u64,
    pub(crate) len: u64,
    pub(crate) peer: u32,
}

/// An entry in shared memory. Its words are read again when it may have changed meanwhile.
#[repr(C)]
pub(crate) struct SharedEntry {
    base: AtomicU64,
    len: AtomicU64,
    peer: AtomicU32,
    unused: u32,
}

impl SharedEntry {
    /// Writes it. What said that the last one is valid must have been taken back before, and what says that this one is
    /// must be published after.
    pub(crate) fn set(&self, entry: Entry) {
        // Whoever reads anything of this also sees that the last one is no longer valid.
        fence(Ordering::Release);
        self.base.store(entry.base, Ordering::Relaxed);
        self.len.store(entry.len, Ordering::Relaxed);
        self.peer.store(entry.peer, Ordering::Relaxed);
    }

    fn get(&self) -> Entry {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Entry { base: word(&self.base), len: word(&self.len), peer: self.peer.load(Ordering::Relaxed) }
    }

    /// Reads it, if `is_valid` after that.
    pub(crate) fn get_if(&self, is_valid: impl FnOnce() -> bool) -> Option<Entry> {
        let entry = self.get();
        fence(Ordering::Acquire);
        is_valid().then_some(entry)
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { base: AtomicU64::new(0), len: AtomicU64::new(0), peer: AtomicU32::new(0), unused: 0 }
    }
}

/// One place of the table.
#[repr(C)]
pub(crate) struct Cell {
    /// The generation, whether the entry is open, and how many threads copy from its memory.
    state: AtomicU64,
    entry: SharedEntry,
}

const OPEN: u64 = 1 << 31;
const COPYING: u64 = OPEN - 1;

/// The generation after one. None is 0, so that memory that was never written names nothing.
pub(crate) fn next_generation(generation: u32) -> u32 {
    generation.wrapping_add(1).max(1)
}

impl Cell {
    /// Opens an entry and returns its generation. Only the owner does this, when the last one is closed and nobody copies.
    pub(crate) fn open(&self, entry: Entry) -> u32 {
        let generation = next_generation((self.state.load(Ordering::Relaxed) >> 32) as u32);
        self.entry.set(entry);
        self.state.store(u64::from(generation) << 32 | OPEN, Ordering::Release);
        generation
    }

    /// Closes the entry: nobody begins to copy any more. Where peers are threads, returns when none copies; each is in the
    /// middle of one chunk then, and does nothing else before it is done.
    pub(crate) fn close(&self, has_threads: bool, mut pause: impl FnMut()) {
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        while has_threads && self.state.load(Ordering::Acquire) & COPYING != 0 {
            pause();
        }
    }

    fn is(state: u64, generation: u32) -> bool {
        (state >> 32) as u32 == generation && state & OPEN != 0
    }

    /// Whether the entry of this generation is open.
    pub(crate) fn is_open(&self, generation: u32) -> bool {
        Self::is(self.state.load(Ordering::Acquire), generation)
    }

    /// The entry of this generation, if it is open.
    pub(crate) fn look_up(&self, generation: u32) -> Option<Entry> {
        if !self.is_open(generation) {
            return None;
        }
        self.entry.get_if(|| self.is_open(generation))
    }

    /// Begins to copy, if the entry of this generation is open. It does not end before that.
    pub(crate) fn begin_copy(&self, generation: u32) -> Option<Copying<'_>> {
        let one_more = |state: u64| Self::is(state, generation).then_some(state + 1);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Copying { cell: self, entry: self.entry.get() })
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { state: AtomicU64::new(0), entry: SharedEntry::new() }
    }
}

/// A thread that copies: the memory of the entry stays until this is dropped.
pub(crate) struct Copying<'a> {
    cell: &'a Cell,
    pub(crate) entry: Entry,
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.cell.state.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(not(loom))]
pub(crate) use table::Registry;

#[cfg(not(loom))]
mod table {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;

    use treepie_base::Span;

    use super::{Cell, ENTRIES, Entry, NONE};
    use crate::arena::Arena;

    /// The table of this rank.
    pub(crate) struct Registry {
        rank: u32,
        arena: Arc<Arena>,
        /// Registrations give theirs back.
        free: Rc<RefCell<Vec<u32>>>,
    }

    impl Registry {
        pub(crate) fn new(arena: Arc<Arena>, rank: u32) -> Self {
            Self { rank, arena, free: Rc::new(RefCell::new((0..ENTRIES as u32).rev().collect())) }
        }

        /// Lets a peer copy from the memory of a span, and returns the key; [`NONE`] if the table is full.
        pub(crate) fn register(&self, peer: u32, span: &mut Span) -> u64 {
            if span.is_registered() {
                return NONE;
            }
            let Some(index) = self.free.borrow_mut().pop() else { return NONE };
            let cell = &self.arena.registered(self.rank)[index as usize];
            let base = span.address().as_ptr().expose_provenance() as u64;
            let generation = cell.open(Entry { base, len: span.len() as u64, peer });
            let (arena, free) = (self.arena.clone(), self.free.clone());
            span.register(Box::new(Registration { cell, index, free, arena }));
            u64::from(generation) << 32 | u64::from(index)
        }

        /// The entry of a rank's that a key names, with its cell and generation, if this rank may read so many bytes of
        /// it; else what is wrong.
        pub(crate) fn look_up(&self, of: u32, key: u64, len: usize) -> Result<(&'static Cell, u32, Entry), String> {
            let (generation, index) = ((key >> 32) as u32, key as u32 as usize);
            let ranks = self.arena.ranks();
            if of >= ranks {
                return Err(format!("rank {of} of {ranks} cannot have offered memory"));
            }
            let cell = self.arena.registered(of).get(index);
            let entry = cell.and_then(|cell| cell.look_up(generation));
            match (cell, entry) {
                (Some(_), Some(entry)) if entry.peer != self.rank => {
                    Err(format!("memory of rank {of} was offered to rank {}, not to rank {}", entry.peer, self.rank))
                }
                (Some(_), Some(entry)) if entry.len < len as u64 => {
                    Err(format!("{len} bytes of rank {of} are wanted where it has offered {}", entry.len))
                }
                (Some(cell), Some(entry)) => Ok((cell, generation, entry)),
                _ => Err(format!("rank {of} offers no memory under the key {key:#x}, or no longer")),
            }
        }
    }

    /// The time in which a span's memory is in the table.
    struct Registration {
        cell: &'static Cell,
        index: u32,
        free: Rc<RefCell<Vec<u32>>>,
        /// What `cell` lies in.
        arena: Arc<Arena>,
    }

    impl Drop for Registration {
        fn drop(&mut self) {
            self.cell.close(self.arena.has_threads(), std::thread::yield_now);
            self.free.borrow_mut().push(self.index);
        }
    }
}
