//! Memory that all ranks of a communicator can read, write and add to.

use std::marker::PhantomData;
use std::rc::Rc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Error, Pod, Rank, Result};
use treepie_fabric::SharedMemory;
use treepie_schedule::Operation;

use crate::comm::Comm;

/// Memory of `T` that every rank contributes a part to and every rank can access; made by [`Comm::window`].
///
/// A [`put`](Self::put) is visible to everybody after the next [`fence`](Self::fence). Accesses of several ranks to the
/// same elements between two fences may be seen in any order, but counters ([`fetch_add`](Self::fetch_add)) are
/// atomic. Where ranks share memory an access needs no help of the owner; elsewhere the owner answers whenever it is
/// inside the library.
pub struct Window<T> {
    comm: Comm,
    reach: Reach,
    /// Elements that each rank contributed.
    lens: Vec<u64>,
    element: PhantomData<T>,
}

enum Reach {
    /// Memory that this rank has mapped: the parts one after the other, behind a count of ranks that are done.
    Memory { memory: Rc<dyn SharedMemory>, at: u64, bytes: u64, starts: Vec<u64> },
    /// Records to the owners.
    Records { window: u32 },
}

/// Elements that [`Window::fetch_add`] can count in.
pub trait Counter: Pod {
    /// As the word that is added.
    fn to_word(self) -> u64;
    /// From the word that was there.
    fn from_word(word: u64) -> Self;
}

impl Counter for u64 {
    fn to_word(self) -> u64 {
        self
    }
    fn from_word(word: u64) -> Self {
        word
    }
}

impl Counter for i64 {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(word: u64) -> Self {
        word as i64
    }
}

const WORD: u64 = 8;

/// What ranks do to make a window.
const MADE_OF: [Operation; 2] = [Operation::Allgather, Operation::Barrier];

impl Comm {
    /// Makes a window to which this rank contributes `len` elements, zero at first. All ranks call it, each with its
    /// own `len`.
    pub fn window<T: Pod>(&self, len: usize) -> Result<Window<T>> {
        let _compared = self.agree_on(&MADE_OF, || format!("window of elements of {} bytes", size_of::<T>()))?;
        // Its barriers must not meet those of the communicator it was made on.
        let comm = self.dup()?;
        let lens = comm.all_gather(&[len as u64])?;
        let part = |len: &u64| len.saturating_mul(size_of::<T>() as u64).saturating_add(WORD - 1) / WORD * WORD;
        let shared = comm.endpoint().fabric().shared().is_some();
        let reach = if shared {
            let mut bytes = WORD;
            let starts = lens.iter().map(|len| {
                let start = bytes;
                bytes = bytes.saturating_add(part(len));
                start
            });
            let starts = starts.collect();
            let at = comm.reserve(bytes)?;
            let mapped = comm.endpoint().fabric().shared().expect("asked above").map(at, bytes);
            mapped.map(|memory| Reach::Memory { memory, at, bytes, starts })
        } else {
            let window = comm.context();
            let bytes = usize::try_from(part(&(len as u64))).unwrap_or(usize::MAX);
            comm.endpoint().window_make(window, bytes).map(|()| Reach::Records { window })
        };
        let reach = comm.all_have(reach)?;
        comm.barrier()?;
        Ok(Window { comm, reach, lens, element: PhantomData })
    }

    /// What this rank has, if all ranks have theirs. One may have less memory than the others.
    fn all_have(&self, reach: Result<Reach>) -> Result<Reach> {
        let failed = self.all_gather(&[u8::from(reach.is_err())])?;
        match (failed.iter().position(|failed| *failed == 1), reach) {
            (None, reach) | (_, reach @ Err(_)) => reach,
            (Some(rank), Ok(reach)) => {
                if let Reach::Records { window } = reach {
                    self.endpoint().window_end(window);
                }
                Err(Error::Engine(format!("rank {rank} has no memory for its part of a window")))
            }
        }
    }

    /// Rank 0 sets shared memory aside and tells the others where.
    fn reserve(&self, bytes: u64) -> Result<u64> {
        let mut failure = None;
        let mut place = 0;
        if self.rank() == 0 {
            match self.endpoint().fabric().shared().expect("the caller asked").reserve(bytes) {
                Ok(at) => place = at,
                Err(error) => failure = Some(error),
            }
        }
        let place = self.all_gather(&[place])?[0];
        match (failure, place) {
            (Some(error), _) => Err(error),
            (None, 0) => Err(Error::Engine(format!("rank 0 found no shared memory for a window of {bytes} bytes"))),
            (None, place) => Ok(place),
        }
    }
}

impl<T: Pod> Window<T> {
    /// Elements that a rank contributed.
    pub fn len(&self, rank: Rank) -> Result<usize> {
        self.comm.check_rank(rank)?;
        Ok(self.lens[rank] as usize)
    }

    /// Where elements `first..first + count` of a rank lie, in bytes from the beginning of its part.
    fn extent(&self, rank: Rank, first: usize, count: usize) -> Result<u64> {
        self.comm.check_rank(rank)?;
        let (first, len) = (first as u64, self.lens[rank]);
        let end = first.saturating_add(count as u64);
        if end > len {
            return Err(Error::OutsideWindow { rank, first, end, len });
        }
        Ok(first * size_of::<T>() as u64)
    }

    /// Writes `data` to the elements from `first` on of a rank's part.
    pub fn put(&self, rank: Rank, first: usize, data: &[T]) -> Result<()> {
        let at = self.extent(rank, first, data.len())?;
        match &self.reach {
            Reach::Memory { memory, starts, .. } => memory.store(starts[rank] + at, cast_slice(data)),
            Reach::Records { window } => {
                let world = self.comm.world_rank(rank)?;
                self.comm.endpoint().window_put(*window, world, at, cast_slice(data))?;
            }
        }
        Ok(())
    }

    /// Reads the elements from `first` on of a rank's part.
    pub fn get(&self, rank: Rank, first: usize, into: &mut [T]) -> Result<()> {
        let at = self.extent(rank, first, into.len())?;
        match &self.reach {
            Reach::Memory { memory, starts, .. } => memory.load(starts[rank] + at, cast_slice_mut(into)),
            Reach::Records { window } => {
                let world = self.comm.world_rank(rank)?;
                self.comm.endpoint().window_get(*window, world, at, cast_slice_mut(into))?;
            }
        }
        Ok(())
    }

    /// Reads one element.
    pub fn get_one(&self, rank: Rank, slot: usize) -> Result<T> {
        let mut value = T::zeroed();
        self.get(rank, slot, std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Waits until everything that this rank has put is there.
    pub fn flush(&self) -> Result<()> {
        match self.reach {
            Reach::Memory { .. } => Ok(()),
            Reach::Records { .. } => self.comm.endpoint().window_flush(),
        }
    }

    /// Separates what was done before from what is done after it, on all ranks. All ranks call it.
    pub fn fence(&self) -> Result<()> {
        self.meet("fence of a window")
    }

    fn meet(&self, call: &str) -> Result<()> {
        self.flush()?;
        let _compared = self.comm.agree_on(&[Operation::Barrier], || call.to_owned())?;
        self.comm.barrier()
    }

    /// Ends the window. All ranks call it. A window that is just dropped keeps its memory until the world ends, where
    /// the engine has no shared memory.
    pub fn free(self) -> Result<()> {
        self.meet("end of a window")?;
        if let Reach::Records { window } = self.reach {
            self.comm.endpoint().window_end(window);
        }
        Ok(())
    }
}

impl<T: Counter> Window<T> {
    /// Adds to one element and returns what was there, in one step that no other access gets between.
    pub fn fetch_add(&self, rank: Rank, slot: usize, value: T) -> Result<T> {
        let at = self.extent(rank, slot, 1)?;
        let value = value.to_word();
        let old = match &self.reach {
            Reach::Memory { memory, starts, .. } => memory.fetch_add(starts[rank] + at, value),
            Reach::Records { window } => {
                let world = self.comm.world_rank(rank)?;
                self.comm.endpoint().window_fetch_add(*window, world, at, value)?
            }
        };
        Ok(T::from_word(old))
    }
}

impl<T> Drop for Window<T> {
    /// The last rank that is done gives shared memory back.
    fn drop(&mut self) {
        if let Reach::Memory { memory, at, bytes, .. } = &self.reach
            && memory.fetch_add(0, 1) + 1 == self.lens.len() as u64
        {
            let mut endpoint = self.comm.endpoint();
            if let Some(heap) = endpoint.fabric().shared() {
                heap.release(*at, *bytes).expect("the window's memory was reserved");
            }
        }
    }
}
