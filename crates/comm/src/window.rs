//! Windows: one-sided communication.

use std::marker::PhantomData;
use std::rc::Rc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Error, Pod, Rank, Result};
use treepie_fabric::SharedMemory;
use treepie_schedule::Operation;

use crate::comm::Comm;

/// Memory of elements `T` to which every rank contributes a part and that every rank can access; created by
/// [`Comm::window`].
///
/// A [`put`](Self::put) is visible to all ranks after the next [`fence`](Self::fence). Accesses of several ranks to the
/// same elements between two fences may take effect in any order, but [`fetch_add`](Self::fetch_add) is atomic. Where
/// ranks share memory, an access does not involve the target; otherwise the target responds whenever it is inside the
/// library.
pub struct Window<T> {
    comm: Comm,
    backend: WindowBackend,
    /// Number of elements of each rank.
    lens: Vec<u64>,
    element: PhantomData<T>,
}

enum WindowBackend {
    /// Memory that this rank has mapped: the parts one after the other, after a count of ranks that have released it.
    Mapped { memory: Rc<dyn SharedMemory>, at: u64, bytes: u64, starts: Vec<u64> },
    /// Messages to the targets.
    Remote { window: u32 },
}

/// Elements on which [`Window::fetch_add`] operates.
pub trait AtomicElement: Pod {
    /// Converts to the word that is added.
    fn to_word(self) -> u64;
    /// Converts from the word that was there.
    fn from_word(word: u64) -> Self;
}

impl AtomicElement for u64 {
    fn to_word(self) -> u64 {
        self
    }
    fn from_word(word: u64) -> Self {
        word
    }
}

impl AtomicElement for i64 {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(word: u64) -> Self {
        word as i64
    }
}

const WORD: u64 = 8;

/// The collective operations of a window creation.
const OPERATIONS: [Operation; 2] = [Operation::Allgather, Operation::Barrier];

impl Comm {
    /// Creates a window to which this rank contributes `len` elements, initially zero (`MPI_Win_allocate`). All ranks
    /// call it, each with its own `len`.
    pub fn window<T: Pod>(&self, len: usize) -> Result<Window<T>> {
        let _compared = self.compare_call(&OPERATIONS, || format!("window of elements of {} bytes", size_of::<T>()))?;
        // Its barriers must not match those of the communicator on which it was created.
        let comm = self.dup()?;
        let lens = comm.allgather(&[len as u64])?;
        let part = |len: &u64| len.saturating_mul(size_of::<T>() as u64).saturating_add(WORD - 1) / WORD * WORD;
        let shared = comm.endpoint().fabric().shared_heap().is_some();
        let backend = if shared {
            let mut bytes = WORD;
            let starts = lens.iter().map(|len| {
                let start = bytes;
                bytes = bytes.saturating_add(part(len));
                start
            });
            let starts = starts.collect();
            let at = comm.reserve(bytes)?;
            let mapped = comm.endpoint().fabric().shared_heap().expect("there is a shared heap").map(at, bytes);
            mapped.map(|memory| WindowBackend::Mapped { memory, at, bytes, starts })
        } else {
            let window = comm.context();
            let bytes = usize::try_from(part(&(len as u64))).unwrap_or(usize::MAX);
            comm.endpoint().window_create(window, bytes).map(|()| WindowBackend::Remote { window })
        };
        let backend = comm.unless_any_failed(backend)?;
        comm.barrier()?;
        Ok(Window { comm, backend, lens, element: PhantomData })
    }

    /// The backend of this rank, if all ranks have theirs. One may have less memory than the others.
    fn unless_any_failed(&self, backend: Result<WindowBackend>) -> Result<WindowBackend> {
        let failed = self.allgather(&[u8::from(backend.is_err())])?;
        match (failed.iter().position(|failed| *failed == 1), backend) {
            (None, backend) | (_, backend @ Err(_)) => backend,
            (Some(rank), Ok(backend)) => {
                if let WindowBackend::Remote { window } = backend {
                    self.endpoint().window_free(window);
                }
                Err(Error::Engine(format!("rank {rank} has no memory for its part of a window")))
            }
        }
    }

    /// Rank 0 reserves shared memory and broadcasts its offset.
    fn reserve(&self, bytes: u64) -> Result<u64> {
        let mut failure = None;
        let mut offset = 0;
        if self.rank() == 0 {
            match self.endpoint().fabric().shared_heap().expect("there is a shared heap").reserve(bytes) {
                Ok(at) => offset = at,
                Err(error) => failure = Some(error),
            }
        }
        let offset = self.allgather(&[offset])?[0];
        match (failure, offset) {
            (Some(error), _) => Err(error),
            (None, 0) => Err(Error::Engine(format!("rank 0 found no shared memory for a window of {bytes} bytes"))),
            (None, offset) => Ok(offset),
        }
    }
}

impl<T: Pod> Window<T> {
    /// Number of elements of a rank.
    pub fn len(&self, rank: Rank) -> Result<usize> {
        self.comm.check_rank(rank)?;
        Ok(self.lens[rank] as usize)
    }

    /// Offset of elements `first..first + count` in the part of a rank, in bytes.
    fn extent(&self, rank: Rank, first: usize, count: usize) -> Result<u64> {
        self.comm.check_rank(rank)?;
        let (first, len) = (first as u64, self.lens[rank]);
        let end = first.saturating_add(count as u64);
        if end > len {
            return Err(Error::OutsideWindow { rank, first, end, len });
        }
        Ok(first * size_of::<T>() as u64)
    }

    /// Writes `data` to the part of a rank, from element `first` on.
    pub fn put(&self, rank: Rank, first: usize, data: &[T]) -> Result<()> {
        let at = self.extent(rank, first, data.len())?;
        match &self.backend {
            WindowBackend::Mapped { memory, starts, .. } => memory.store(starts[rank] + at, cast_slice(data)),
            WindowBackend::Remote { window } => {
                let world = self.comm.world_rank(rank)?;
                self.comm.endpoint().window_put(*window, world, at, cast_slice(data))?;
            }
        }
        Ok(())
    }

    /// Reads from the part of a rank, from element `first` on.
    pub fn get(&self, rank: Rank, first: usize, into: &mut [T]) -> Result<()> {
        let at = self.extent(rank, first, into.len())?;
        match &self.backend {
            WindowBackend::Mapped { memory, starts, .. } => memory.load(starts[rank] + at, cast_slice_mut(into)),
            WindowBackend::Remote { window } => {
                let world = self.comm.world_rank(rank)?;
                self.comm.endpoint().window_get(*window, world, at, cast_slice_mut(into))?;
            }
        }
        Ok(())
    }

    /// Reads one element.
    pub fn get_one(&self, rank: Rank, index: usize) -> Result<T> {
        let mut value = T::zeroed();
        self.get(rank, index, std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Waits until all puts of this rank are complete at their targets.
    pub fn flush(&self) -> Result<()> {
        match self.backend {
            WindowBackend::Mapped { .. } => Ok(()),
            WindowBackend::Remote { .. } => self.comm.endpoint().window_flush(),
        }
    }

    /// Separates accesses before it from accesses after it, on all ranks (`MPI_Win_fence`). All ranks call it.
    pub fn fence(&self) -> Result<()> {
        self.flush_and_barrier("fence of a window")
    }

    fn flush_and_barrier(&self, call: &str) -> Result<()> {
        self.flush()?;
        let _compared = self.comm.compare_call(&[Operation::Barrier], || call.to_owned())?;
        self.comm.barrier()
    }

    /// Frees the window (`MPI_Win_free`). All ranks call it. A window that is only dropped keeps its memory until the
    /// world ends, where the engine has no shared memory.
    pub fn free(self) -> Result<()> {
        self.flush_and_barrier("end of a window")?;
        if let WindowBackend::Remote { window } = self.backend {
            self.comm.endpoint().window_free(window);
        }
        Ok(())
    }
}

impl<T: AtomicElement> Window<T> {
    /// Atomically adds to one element and returns its previous value (`MPI_Fetch_and_op`).
    pub fn fetch_add(&self, rank: Rank, index: usize, value: T) -> Result<T> {
        let at = self.extent(rank, index, 1)?;
        let value = value.to_word();
        let old = match &self.backend {
            WindowBackend::Mapped { memory, starts, .. } => memory.fetch_add(starts[rank] + at, value),
            WindowBackend::Remote { window } => {
                let world = self.comm.world_rank(rank)?;
                self.comm.endpoint().window_fetch_add(*window, world, at, value)?
            }
        };
        Ok(T::from_word(old))
    }
}

impl<T> Drop for Window<T> {
    /// The last rank releases the shared memory.
    fn drop(&mut self) {
        if let WindowBackend::Mapped { memory, at, bytes, .. } = &self.backend
            && memory.fetch_add(0, 1) + 1 == self.lens.len() as u64
        {
            let mut endpoint = self.comm.endpoint();
            if let Some(heap) = endpoint.fabric().shared_heap() {
                heap.release(*at, *bytes).expect("the window's memory was reserved");
            }
        }
    }
}
