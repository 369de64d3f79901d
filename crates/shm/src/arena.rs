//! The shared memory of one world, and what lies where in it.
//!
//! ```text
//! Header | Control of each rank | barrier cells | inboxes | ring headers | rings | registered memory | board | heap ...
//! ```
//! One memfd, sparse: what nobody touches costs nothing, and it vanishes with the last process that holds it, so there
//! is never a name to clean up. Each rank maps everything but the heap, whose pieces are mapped when they are used.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use treepie_base::{Error, Result};
use treepie_fabric::Life;

use crate::area::Area;
use crate::bell::{Bell, Sleepers};
use crate::board::Shape;
use crate::cell::{Arrivals, BarrierCell};
use crate::claim::Claim;
use crate::inbox::InboxHeader;
use crate::layout::Layout;
use crate::registry::{Cell, ENTRIES};
use crate::ring::RingHeader;

/// Slots that a sender can be acknowledged on without a record.
pub(crate) const ACK_SLOTS: u32 = 512;

/// Transfers into one rank that their senders can help with at a time.
pub(crate) const CLAIMS: usize = 16;

/// Counters for barriers over the whole world.
pub(crate) const BARRIER_CELLS: u32 = 64;

/// Facts about the world, written once by its creator, and the few words that concern everybody.
#[repr(C, align(64))]
pub(crate) struct Header {
    magic: u64,
    pub(crate) ranks: u32,
    /// Cores that the creator could use; its ranks may be pinned to one each.
    pub(crate) cores: u32,
    /// Whether ranks that go to sleep fence the others; see `barrier`.
    pub(crate) sleeper_fences: u32,
    /// Whether its ranks are threads of its creator, or else processes that opened it.
    has_threads: u32,
    /// Changes when the life of any rank changes.
    pub(crate) news: AtomicU32,
    /// How many ranks have begun to leave or were lost.
    departures: AtomicU32,
    /// Where the next piece of the heap begins.
    pub(crate) heap: AtomicU64,
    pub(crate) common: Common,
}

/// What is looked at with each meeting at the board, on a line of its own.
#[repr(C, align(64))]
pub(crate) struct Common {
    pub(crate) sleepers: Sleepers,
    /// The word of why the board was closed, as the first says who leaves it; 0 if nobody has.
    pub(crate) left: AtomicU64,
}

/// What a rank shows to the others.
#[repr(C, align(64))]
pub(crate) struct Control {
    pub(crate) bell: Bell,
    life: AtomicU32,
    /// The how manieth news it was that this rank was not there as before; 0 while it is.
    left: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// Rings to this rank that writers have taken.
    pub(crate) rings_taken: AtomicU32,
    acks: AckBoard,
    /// What others count here; see `Fabric::add`.
    pub(crate) added: [Added; 2],
    /// The barriers that this rank has arrived at.
    pub(crate) arrivals: Arrivals<{ BARRIER_CELLS as usize }>,
    pub(crate) claims: [Claim; CLAIMS],
    pub(crate) inbox: InboxHeader,
}

/// A counter, and the run that it counts for: one that was given up may leave something behind that nobody takes.
#[repr(C, align(64))]
pub(crate) struct Added(AtomicU64);

impl Added {
    /// One more for a run.
    pub(crate) fn add(&self, run: u32) {
        let more = |word: u64| if (word >> 32) as u32 == run { word + 1 } else { u64::from(run) << 32 | 1 };
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| Some(more(word)));
    }

    /// What was added for a run.
    pub(crate) fn of(&self, run: u32) -> u32 {
        let word = self.0.load(Ordering::Acquire);
        if (word >> 32) as u32 == run { word as u32 } else { 0 }
    }
}

/// One bit per outstanding operation: receivers set it, the sender that owns the board takes it. So an acknowledgement
/// needs no room anywhere.
#[repr(C, align(64))]
struct AckBoard([AtomicU64; ACK_SLOTS as usize / 64]);

impl Control {
    /// Acknowledges this rank's operation `slot`.
    pub(crate) fn ack(&self, slot: u32) {
        self.acks.0[slot as usize / 64].fetch_or(1 << (slot % 64), Ordering::AcqRel);
        self.bell.ring();
    }

    pub(crate) fn any_acks(&self) -> bool {
        self.acks.0.iter().any(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Takes one acknowledgement.
    pub(crate) fn take_ack(&self) -> Option<u32> {
        for (i, word) in self.acks.0.iter().enumerate() {
            let bits = word.load(Ordering::Acquire);
            if bits != 0 {
                let lowest = bits.trailing_zeros();
                word.fetch_and(!(1 << lowest), Ordering::AcqRel);
                return Some(i as u32 * 64 + lowest);
            }
        }
        None
    }

    pub(crate) fn life(&self) -> Life {
        match self.life.load(Ordering::Acquire) {
            0 => Life::Here,
            1 => Life::Leaving,
            2 => Life::Failing,
            3 => Life::Left,
            _ => Life::Dead,
        }
    }
}

const MAGIC: u64 = u64::from_le_bytes(*b"treepie2");

/// A mapping of the shared memory of a world.
pub struct Arena {
    fd: OwnedFd,
    base: NonNull<u8>,
    layout: Layout,
    /// Whether this is its creator's own mapping.
    is_created: bool,
}

// SAFETY: the mapping is plain shared memory that is only accessed through atomics and the protocols of rings, inboxes,
// claims and the board, which are made for several processes and therefore threads.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Shared memory for a new world whose ranks are threads of this process.
    pub fn create(ranks: u32) -> io::Result<Self> {
        Self::create_for(ranks, true)
    }

    /// Shared memory for a new world whose ranks are processes that [open](Self::open) it.
    pub(crate) fn create_for_processes(ranks: u32) -> io::Result<Self> {
        Self::create_for(ranks, false)
    }

    fn create_for(ranks: u32, threads: bool) -> io::Result<Self> {
        let layout = Layout::of(ranks);
        let fd = memfd_create("treepie", MemfdFlags::CLOEXEC)?;
        // Nothing is allocated before it is touched. Where a limit on file sizes forbids so much, windows get less: to
        // try beyond the limit would end the process by SIGXFSZ.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX);
        let size = limit.min(1 << 40);
        if layout.bytes() as u64 > size {
            let (needed, size) = (layout.bytes() as u64 >> 30, size >> 30);
            let why = format!(
                "{ranks} ranks need {needed} GiB of shared memory, and {size} GiB is the most; use fewer ranks"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        ftruncate(&fd, size)?;
        let mut arena = Self::map(fd, layout)?;
        arena.is_created = true;
        // SAFETY: the memory is mapped, big enough, aligned to a page, and nobody else has it yet.
        unsafe {
            let header = arena.base.cast::<Header>().as_ptr();
            (&raw mut (*header).magic).write(MAGIC);
            (&raw mut (*header).ranks).write(ranks);
            (&raw mut (*header).has_threads).write(threads.into());
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
            (&raw mut (*header).cores).write(cores);
            // With more ranks than cores they sleep all the time, and fencing all others costs more than it saves.
            let sleeper_fences = ranks <= cores && crate::barrier::is_supported();
            (&raw mut (*header).sleeper_fences).write(sleeper_fences.into());
        }
        arena.header().heap.store(layout.bytes() as u64, Ordering::Release);
        Ok(arena)
    }

    /// The shared memory of a world that somebody else created.
    pub(crate) fn open(fd: OwnedFd) -> io::Result<Self> {
        let ranks = {
            let first = Self::map(fd.try_clone()?, Layout::of(1))?;
            let header = first.header();
            if header.magic != MAGIC {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not the memory of a treepie world"));
            }
            header.ranks
        };
        Self::map(fd, Layout::of(ranks))
    }

    fn map(fd: OwnedFd, layout: Layout) -> io::Result<Self> {
        if rustix::fs::fstat(&fd)?.st_size < layout.bytes() as i64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not the memory of a treepie world"));
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let base = unsafe {
            mmap(std::ptr::null_mut(), layout.bytes(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &fd, 0)?
        };
        let base = NonNull::new(base.cast()).expect("mmap returned null");
        Ok(Self { fd, base, layout, is_created: false })
    }

    /// The file behind it, to be inherited by ranks.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// How many ranks the world has.
    pub fn ranks(&self) -> u32 {
        self.layout.ranks
    }

    /// Where the board lies, and how, if there is one.
    pub(crate) fn board(&self) -> Option<(NonNull<u8>, Shape)> {
        let shape = self.layout.board?;
        // SAFETY: the board lies inside the mapping.
        Some((unsafe { self.base.add(self.layout.board()) }, shape))
    }

    /// Makes known what has become of a rank, and wakes everybody.
    pub fn report(&self, rank: u32, life: Life) {
        let word = match life {
            Life::Here => return,
            Life::Leaving => 1,
            Life::Failing => 2,
            Life::Left => 3,
            Life::Dead => 4,
        };
        // A rank that has ended stays as it was, whatever its process does after that.
        let ended = |now: u32| now >= 3;
        let change = |now: u32| (now < word && !ended(now)).then_some(word);
        // Its number is there before anybody can know: whoever leaves because of it gets a later one.
        let left = &self.control(rank).left;
        if left.load(Ordering::Acquire) == 0 {
            let number = self.header().departures.fetch_add(1, Ordering::AcqRel) + 1;
            let _ = left.compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed);
        }
        if self.control(rank).life.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok() {
            self.header().news.fetch_add(1, Ordering::SeqCst);
            self.wake_all();
        }
    }

    /// A number for a rank that has begun to leave or was lost: the earlier, the smaller.
    pub(crate) fn left(&self, rank: u32) -> u32 {
        self.control(rank).left.load(Ordering::Acquire)
    }

    pub(crate) fn pid(&self, rank: u32) -> i32 {
        self.control(rank).pid.load(Ordering::Acquire) as i32
    }

    /// Whether a rank has ended and touches no memory any more.
    pub(crate) fn is_gone(&self, rank: u32) -> bool {
        matches!(self.control(rank).life(), Life::Left | Life::Dead)
    }

    /// Whether its ranks are threads of one process.
    pub(crate) fn has_threads(&self) -> bool {
        self.header().has_threads != 0
    }

    /// Makes the caller the one that is `rank`, or tells why it cannot be: each rank is joined once, as rings have one
    /// reader and one writer, and all ranks must reach each other's memory in the same way.
    pub(crate) fn claim_rank(&self, rank: u32) -> Result<()> {
        let refused = |why: String| Err(Error::Engine(why));
        if rank >= self.ranks() {
            return refused(format!("rank {rank} cannot join a world of {} ranks", self.ranks()));
        }
        if self.has_threads() != self.is_created {
            let (ranks, this) =
                if self.has_threads() { ("threads", "another process") } else { ("processes", "the launcher") };
            return refused(format!("the ranks of this world are {ranks}; {this} cannot join it"));
        }
        let pid = &self.control(rank).pid;
        if pid.compare_exchange(0, std::process::id(), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return refused(format!("rank {rank} has been joined before: each rank is joined once"));
        }
        Ok(())
    }

    /// Whether a rank has neither left nor been reported to be lost.
    pub(crate) fn is_here(&self, rank: u32) -> bool {
        self.control(rank).life() == Life::Here
    }

    /// Whether a rank has said itself that it failed.
    pub(crate) fn has_failed(&self, rank: u32) -> bool {
        matches!(self.control(rank).life(), Life::Failing | Life::Dead)
    }

    pub(crate) fn wake_all(&self) {
        (0..self.layout.ranks).for_each(|rank| self.control(rank).bell.ring());
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// # Safety
    /// A `T` must lie at `offset`, inside the mapping, and be valid for any bytes that the protocol can leave there.
    unsafe fn at<T>(&self, offset: usize) -> &'static T {
        debug_assert!(offset + size_of::<T>() <= self.layout.bytes() && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: in bounds and aligned. The lifetime is that of the mapping; within this crate an engine keeps the
        // arena alive and drops it last.
        unsafe { self.base.add(offset).cast::<T>().as_ref() }
    }

    pub(crate) fn header(&self) -> &'static Header {
        // SAFETY: the header lies at the beginning; it consists of integers and atomics.
        unsafe { self.at(0) }
    }

    pub(crate) fn control(&self, rank: u32) -> &'static Control {
        assert!(rank < self.layout.ranks);
        // SAFETY: the layout puts the control blocks there; they consist of integers and atomics.
        unsafe { self.at(self.layout.control(rank)) }
    }

    pub(crate) fn barrier_cell(&self, cell: u32) -> &'static BarrierCell {
        assert!(cell < BARRIER_CELLS);
        // SAFETY: the layout puts the cells there; each is an atomic.
        unsafe { self.at(self.layout.barrier_cell(cell)) }
    }

    pub(crate) fn inbox_area(&self, rank: u32) -> Area {
        assert!(rank < self.layout.ranks);
        // SAFETY: the layout sets these bytes aside for this inbox; see `at` for the lifetime.
        unsafe { Area::new(self.base.add(self.layout.inbox(rank)), self.layout.inbox_bytes) }
    }

    /// The table of a rank's registered memory.
    pub(crate) fn registered(&self, rank: u32) -> &'static [Cell; ENTRIES] {
        assert!(rank < self.layout.ranks);
        // SAFETY: the layout puts the tables there; cells consist of integers and atomics.
        unsafe { self.at(self.layout.registered(rank)) }
    }

    /// The `index`th ring to `rank`.
    pub(crate) fn ring(&self, rank: u32, index: u32) -> (&'static RingHeader, Area) {
        assert!(rank < self.layout.ranks && index < self.layout.rings);
        // SAFETY: the layout sets these bytes aside for this ring; a ring header consists of atomics.
        unsafe {
            let area = Area::new(self.base.add(self.layout.ring(rank, index)), self.layout.ring_bytes);
            (self.at(self.layout.ring_header(rank, index)), area)
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` and is unmapped once, here, after everything that refers to it.
        unsafe { munmap(self.base.as_ptr().cast(), self.layout.bytes()).expect("the mapping exists") }
    }
}
