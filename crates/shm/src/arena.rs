//! The shared memory of one world and its layout.
//!
//! ```text
//! ArenaHeader | RankControl of each rank | barrier cells | inboxes | ring headers | rings | registry | segments | heap
//! ```
//! One sparse memfd: untouched pages cost nothing, and it vanishes with the last process that has it open, so there is
//! never a name to clean up. Each rank maps everything but the heap, whose windows are mapped on use.

mod header;
mod rank_control;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use treepie_base::{Error, Result, environment};
use treepie_fabric::Liveness;

use crate::barrier_cell::BarrierCell;
use crate::layout::ArenaLayout;
use crate::registry::{MAX_REGISTRATIONS, RegistrationCell};
use crate::ring::RingHeader;
use crate::ring_memory::RingMemory;
use crate::segment::{MAX_MEMBERS, SegmentLayout, SegmentState};
pub(crate) use header::ArenaHeader;
pub(crate) use rank_control::{ACK_SLOTS, BARRIER_CELLS, MAX_CLAIMS, RankControl};

const MAGIC: u64 = u64::from_le_bytes(*b"treepie3");

/// A mapping of the shared memory of a world.
pub struct Arena {
    fd: OwnedFd,
    base: NonNull<u8>,
    layout: ArenaLayout,
    /// Whether this is the creator's mapping.
    is_creator: bool,
}

// SAFETY: the mapping is plain shared memory that is only accessed through atomics and the protocols of rings, inboxes,
// claims and the segment, which are made for several processes and therefore threads.
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
        // An invalid value is reported before.
        let most = environment::segment_members().unwrap_or(MAX_MEMBERS);
        Self::create_with("treepie", ArenaLayout::in_groups(ranks, most), most, 0, threads, 1 << 40)
    }

    /// Memory for nothing but the shared segment of these processes, which [open](Self::open_segment) it. They are all
    /// ranks of the world, or a group of them.
    pub(crate) fn create_segment(ranks: u32, is_world: bool, nonce: u64) -> io::Result<Self> {
        let layout = ArenaLayout::for_segment(ranks, is_world);
        Self::create_with(&segment_name(nonce), layout, ranks, nonce, false, layout.bytes() as u64)
    }

    fn create_with(
        name: &str,
        layout: ArenaLayout,
        segment_members: u32,
        nonce: u64,
        threads: bool,
        most: u64,
    ) -> io::Result<Self> {
        let ranks = layout.ranks;
        let fd = memfd_create(name, MemfdFlags::CLOEXEC)?;
        // Nothing is allocated before it is touched. A limit on file sizes leaves less memory for windows: exceeding it
        // would end the process by SIGXFSZ.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX);
        let size = limit.min(most);
        if layout.bytes() as u64 > size {
            let (needed, size) = (layout.bytes() as u64 >> 30, size >> 30);
            let why = format!(
                "{ranks} ranks need {needed} GiB of shared memory, but the limit is {size} GiB; use fewer ranks"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        ftruncate(&fd, size)?;
        let mut arena = Self::map(fd, layout)?;
        arena.is_creator = true;
        // SAFETY: the memory is mapped, big enough, aligned to a page, and nobody else has it yet.
        unsafe {
            let header = arena.base.cast::<ArenaHeader>().as_ptr();
            (&raw mut (*header).magic).write(MAGIC);
            (&raw mut (*header).nonce).write(nonce);
            (&raw mut (*header).ranks).write(ranks);
            (&raw mut (*header).segment_members).write(segment_members);
            (&raw mut (*header).has_threads).write(threads.into());
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
            (&raw mut (*header).cores).write(cores);
            // With more ranks than cores they park all the time, and fencing all others costs more than it saves.
            let asymmetric_fences = ranks <= cores && crate::membarrier::is_supported();
            (&raw mut (*header).asymmetric_fences).write(asymmetric_fences.into());
        }
        arena.header().heap_top.store(layout.bytes() as u64, Ordering::Release);
        Ok(arena)
    }

    /// Opens the shared memory of a world that another process created.
    pub(crate) fn open(fd: OwnedFd) -> io::Result<Self> {
        let (ranks, most) = {
            let first = Self::map(fd.try_clone()?, ArenaLayout::for_ranks(1))?;
            let header = first.header();
            if (header.magic, header.nonce) != (MAGIC, 0) {
                return Err(not_a_world());
            }
            (header.ranks, header.segment_members)
        };
        Self::map(fd, ArenaLayout::in_groups(ranks, most))
    }

    /// Opens the memory of a segment that another process [created](Self::create_segment), if it is that.
    pub(crate) fn open_segment(fd: OwnedFd, ranks: u32, is_world: bool, nonce: u64) -> io::Result<Self> {
        let arena = Self::map(fd, ArenaLayout::for_segment(ranks, is_world))?;
        let header = arena.header();
        if (header.magic, header.nonce, header.ranks) == (MAGIC, nonce, ranks) { Ok(arena) } else { Err(not_a_world()) }
    }

    fn map(fd: OwnedFd, layout: ArenaLayout) -> io::Result<Self> {
        if rustix::fs::fstat(&fd)?.st_size < layout.bytes() as i64 {
            return Err(not_a_world());
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let base = unsafe {
            mmap(std::ptr::null_mut(), layout.bytes(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &fd, 0)?
        };
        let base = NonNull::new(base.cast()).expect("mmap returned null");
        Ok(Self { fd, base, layout, is_creator: false })
    }

    /// The memfd, to be inherited by ranks.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The number of ranks in the world.
    pub fn ranks(&self) -> u32 {
        self.layout.ranks
    }

    /// Address and layout of the shared segment of a group.
    pub(crate) fn segment(&self, group: u32) -> (NonNull<u8>, SegmentLayout) {
        assert!(group < self.layout.groups.count());
        let (offset, layout) = self.layout.segment(group);
        // SAFETY: the segment lies inside the mapping.
        (unsafe { self.base.add(offset) }, layout)
    }

    /// The state of the shared segment of a group.
    pub(crate) fn segment_state(&self, group: u32) -> &'static SegmentState {
        assert!(group < self.layout.groups.count());
        // SAFETY: a segment begins with its state, which consists of atomics.
        unsafe { self.at(self.layout.segment(group).0) }
    }

    /// Publishes the liveness of a rank and notifies all ranks.
    pub fn report(&self, rank: u32, life: Liveness) {
        let word = match life {
            Liveness::Alive => return,
            Liveness::Finalizing => 1,
            Liveness::Failing => 2,
            Liveness::Finalized => 3,
            Liveness::Failed => 4,
        };
        // Finalized and Failed are final, whatever the process does later.
        let ended = |now: u32| now >= 3;
        let change = |now: u32| (now < word && !ended(now)).then_some(word);
        // The number is stored before the new liveness is visible: a rank that departs in consequence gets a later one.
        let departure_number = &self.control(rank).departure_number;
        if departure_number.load(Ordering::Acquire) == 0 {
            let number = self.header().departures.fetch_add(1, Ordering::AcqRel) + 1;
            let _ = departure_number.compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed);
        }
        if self.control(rank).life.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok() {
            self.header().liveness_epoch.fetch_add(1, Ordering::SeqCst);
            self.notify_all();
        }
    }

    /// Reports that the program of a rank has returned an error.
    pub(crate) fn report_error(&self, rank: u32) {
        self.control(rank).returned_error.store(1, Ordering::Release);
        self.report(rank, Liveness::Failing);
    }

    /// Whether the program of a rank has returned an error.
    pub(crate) fn has_returned_error(&self, rank: u32) -> bool {
        self.control(rank).returned_error.load(Ordering::Acquire) != 0
    }

    /// The position of a rank in the order of departures: smaller is earlier.
    pub(crate) fn departure_number(&self, rank: u32) -> u32 {
        self.control(rank).departure_number.load(Ordering::Acquire)
    }

    pub(crate) fn pid(&self, rank: u32) -> i32 {
        self.control(rank).pid.load(Ordering::Acquire) as i32
    }

    /// Whether a rank has ended and no longer touches memory.
    pub(crate) fn is_gone(&self, rank: u32) -> bool {
        matches!(self.control(rank).life(), Liveness::Finalized | Liveness::Failed)
    }

    /// Whether the ranks are threads of one process.
    pub(crate) fn has_threads(&self) -> bool {
        self.header().has_threads != 0
    }

    /// Claims `rank` for the caller, or returns why it cannot: each rank is joined once, as rings have one reader and
    /// one writer, and all ranks must access each other's memory by the same mechanism.
    pub(crate) fn claim_rank(&self, rank: u32) -> Result<()> {
        let refused = |why: String| Err(Error::Engine(why));
        if rank >= self.ranks() {
            return refused(format!("rank {rank} cannot join a world of {} ranks", self.ranks()));
        }
        if self.has_threads() != self.is_creator {
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

    /// Enters this process as a member of a segment, so that others can read the memory that it exposes there.
    pub(crate) fn enter_segment(&self, index: u32) {
        self.control(index).pid.store(std::process::id(), Ordering::Release);
    }

    /// Whether a rank is alive: neither finalizing nor reported as failed.
    pub(crate) fn is_here(&self, rank: u32) -> bool {
        self.control(rank).life() == Liveness::Alive
    }

    /// Whether a rank has announced its failure or has failed.
    pub(crate) fn has_failed(&self, rank: u32) -> bool {
        matches!(self.control(rank).life(), Liveness::Failing | Liveness::Failed)
    }

    pub(crate) fn notify_all(&self) {
        (0..self.layout.ranks).for_each(|rank| self.control(rank).doorbell.notify());
    }

    pub(crate) fn layout(&self) -> ArenaLayout {
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

    pub(crate) fn header(&self) -> &'static ArenaHeader {
        // SAFETY: the header lies at the beginning; it consists of integers and atomics.
        unsafe { self.at(0) }
    }

    pub(crate) fn control(&self, rank: u32) -> &'static RankControl {
        assert!(rank < self.layout.ranks);
        // SAFETY: the layout puts the control blocks there; they consist of integers and atomics.
        unsafe { self.at(self.layout.control(rank)) }
    }

    pub(crate) fn barrier_cell(&self, cell: u32) -> &'static BarrierCell {
        assert!(cell < BARRIER_CELLS);
        // SAFETY: the layout puts the cells there; each is an atomic.
        unsafe { self.at(self.layout.barrier_cell(cell)) }
    }

    pub(crate) fn inbox_memory(&self, rank: u32) -> RingMemory {
        assert!(rank < self.layout.ranks);
        // SAFETY: the layout sets these bytes aside for this inbox; see `at` for the lifetime.
        unsafe { RingMemory::new(self.base.add(self.layout.inbox(rank)), self.layout.inbox_bytes) }
    }

    /// The table of a rank's registered memory.
    pub(crate) fn registrations(&self, rank: u32) -> &'static [RegistrationCell; MAX_REGISTRATIONS] {
        assert!(rank < self.layout.ranks);
        // SAFETY: the layout puts the tables there; cells consist of integers and atomics.
        unsafe { self.at(self.layout.registrations(rank)) }
    }

    /// The `index`th ring to `rank`.
    pub(crate) fn ring(&self, rank: u32, index: u32) -> (&'static RingHeader, RingMemory) {
        assert!(rank < self.layout.ranks && index < self.layout.rings);
        // SAFETY: the layout sets these bytes aside for this ring; a ring header consists of atomics.
        unsafe {
            let memory = RingMemory::new(self.base.add(self.layout.ring(rank, index)), self.layout.ring_bytes);
            (self.at(self.layout.ring_header(rank, index)), memory)
        }
    }
}

/// The name of the memory of a segment, which only shows under `/proc`.
pub(crate) fn segment_name(nonce: u64) -> String {
    format!("treepie-segment-{nonce:016x}")
}

fn not_a_world() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not the memory of a treepie world")
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` and is unmapped once, here, after everything that refers to it.
        unsafe { munmap(self.base.as_ptr().cast(), self.layout.bytes()).expect("the mapping exists") }
    }
}
