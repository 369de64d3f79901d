//! The table of registered memory of a rank.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use treepie_base::Span;

use super::{MAX_REGISTRATIONS, MemoryRegion, NO_KEY, RegistrationCell};
use crate::arena::Arena;

/// The table of registered memory of this rank.
pub(crate) struct Registry {
    rank: u32,
    arena: Arc<Arena>,
    /// Indices of free cells; a dropped registration returns its own.
    free: Rc<RefCell<Vec<u32>>>,
}

impl Registry {
    pub(crate) fn new(arena: Arc<Arena>, rank: u32) -> Self {
        Self { rank, arena, free: Rc::new(RefCell::new((0..MAX_REGISTRATIONS as u32).rev().collect())) }
    }

    /// Lets a peer copy from the memory of a span and returns the key; [`NO_KEY`] if the table is full.
    pub(crate) fn register(&self, peer: u32, span: &mut Span) -> u64 {
        if span.is_registered() {
            return NO_KEY;
        }
        let Some(index) = self.free.borrow_mut().pop() else { return NO_KEY };
        let cell = &self.arena.registrations(self.rank)[index as usize];
        let base = span.address().as_ptr().expose_provenance() as u64;
        let generation = cell.open(MemoryRegion { base, len: span.len() as u64, peer });
        let (arena, free) = (self.arena.clone(), self.free.clone());
        span.register(Box::new(Registration { cell, index, free, arena }));
        u64::from(generation) << 32 | u64::from(index)
    }

    /// The cell, generation and region of a key of rank `of`, if this rank may read `len` bytes of it; else the
    /// reason.
    pub(crate) fn look_up(
        &self,
        of: u32,
        key: u64,
        len: usize,
    ) -> Result<(&'static RegistrationCell, u32, MemoryRegion), String> {
        let (generation, index) = ((key >> 32) as u32, key as u32 as usize);
        let ranks = self.arena.ranks();
        if of >= ranks {
            return Err(format!("rank {of} of {ranks} cannot have registered memory"));
        }
        let cell = self.arena.registrations(of).get(index);
        let entry = cell.and_then(|cell| cell.look_up(generation));
        match (cell, entry) {
            (Some(_), Some(entry)) if entry.peer != self.rank => {
                Err(format!("memory of rank {of} is registered for rank {}, not for rank {}", entry.peer, self.rank))
            }
            (Some(_), Some(entry)) if entry.len < len as u64 => {
                Err(format!("{len} bytes of rank {of} are requested, but only {} are registered", entry.len))
            }
            (Some(cell), Some(entry)) => Ok((cell, generation, entry)),
            _ => Err(format!("rank {of} has no memory registered under the key {key:#x}")),
        }
    }
}

/// Keeps a span's memory in the table until dropped.
struct Registration {
    cell: &'static RegistrationCell,
    index: u32,
    free: Rc<RefCell<Vec<u32>>>,
    /// Keeps `cell` mapped.
    arena: Arc<Arena>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.cell.close(self.arena.has_threads(), std::thread::yield_now);
        self.free.borrow_mut().push(self.index);
    }
}
