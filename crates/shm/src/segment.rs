//! A segment of shared memory with slots for each rank: a rank writes its data into a slot of its own, publishes it,
//! and reads the slots of others once they have published the same round ([`slot_rounds`](crate::slot_rounds)).
//!
//! Small data lies beside the flag that publishes it. With two ranks, the flags and small data of two rounds share one
//! cache line. The line then moves once per round instead of twice: the later rank finds the data of the other in the
//! line that it has just fetched for writing. An exchange of a word takes 50 to 70 ns, against 140 ns with a line for
//! each rank.

mod groups;
mod layout;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use treepie_fabric::{AbortReason, EXPOSED_ADDRESS_BYTES, SlotClass};

use crate::arena::Arena;
use crate::doorbell::{Doorbell, ParkedCount};
use crate::peer_access::PeerAccess;
use crate::primitive::{FenceMode, prefetch_for_write};
use crate::slot_rounds::{LARGE_SLOTS, SlotFlags, SlotRounds};
pub use groups::segment_groups;
pub(crate) use groups::{MAX_MEMBERS, SegmentGroups};
pub(crate) use layout::SegmentLayout;

/// State of a segment that is read in each round, on a cache line of its own.
#[repr(C, align(64))]
pub(crate) struct SegmentState {
    pub(crate) parked: ParkedCount,
    /// Why the segment was closed: the encoded reason of the first rank that closed it; 0 while it is open.
    abort_reason: AtomicU64,
}

/// A rank's view of the segment.
pub(crate) struct ShmSegment {
    /// The index of this rank among the members.
    index: u32,
    /// The world ranks that share the segment.
    members: Vec<u32>,
    /// The number in the arena of the first of them.
    first: u32,
    state: &'static SegmentState,
    memory: SegmentMemory,
    rounds: SlotRounds,
    fence_mode: FenceMode,
    /// How to read the memory that peers expose.
    peer_access: PeerAccess,
    /// Bytes written to the page of the coming round.
    written_bytes: usize,
    has_dedicated_core: bool,
    /// The doorbells of the other members.
    peer_doorbells: Vec<&'static Doorbell>,
    /// Keeps `memory` and `state` mapped.
    arena: Arc<Arena>,
}

/// The memory of a segment.
struct SegmentMemory {
    base: NonNull<u8>,
    layout: SegmentLayout,
}

impl SlotFlags for SegmentMemory {
    #[inline]
    fn flag(&self, rank: u32, round: u64) -> &AtomicU64 {
        assert!(rank < self.layout.ranks, "rank {rank} of {}", self.layout.ranks);
        // SAFETY: a flag lies there, aligned to 16 bytes, inside the segment, and all ranks use it as an atomic.
        unsafe { self.base.add(self.layout.flag_offset(rank, round)).cast().as_ref() }
    }
}

impl SegmentMemory {
    /// The address of a rank's data in a round.
    #[inline]
    fn slot_data(&self, rank: u32, round: u64, class: SlotClass, offset: usize, len: usize) -> NonNull<u8> {
        let capacity = self.layout.capacity(class);
        let fits = rank < self.layout.ranks && offset.checked_add(len).is_some_and(|end| end <= capacity);
        assert!(fits, "{len} bytes at {offset} of {capacity} of rank {rank}");
        let start = match class {
            SlotClass::Line => self.layout.flag_offset(rank, round) + self.layout.header_bytes,
            SlotClass::Page => self.layout.page_offset(rank, round),
            SlotClass::Large => self.layout.large_slot_offset(rank, round % LARGE_SLOTS),
        };
        // SAFETY: inside the segment, as was tested.
        unsafe { self.base.add(start + offset) }
    }
}

impl ShmSegment {
    /// The view of a rank of an arena. Its group are `members` of the world: the ranks of the arena, if that is a world's.
    pub(crate) fn new(
        arena: Arc<Arena>,
        rank: u32,
        members: Vec<u32>,
        has_dedicated_core: bool,
        fence_mode: FenceMode,
        peer_access: PeerAccess,
    ) -> Self {
        let groups = arena.layout().groups;
        let group = groups.group_of(rank);
        let in_arena = groups.members(group);
        assert_eq!(members.len(), in_arena.len(), "a segment belongs to the members of a group");
        let index = rank - in_arena.start;
        let (base, layout) = arena.segment(group);
        let others = in_arena.clone().filter(|other| *other != rank);
        Self {
            index,
            members,
            first: in_arena.start,
            state: arena.segment_state(group),
            memory: SegmentMemory { base, layout },
            rounds: SlotRounds::new(index, layout.ranks, layout.depth),
            fence_mode,
            peer_access,
            written_bytes: 0,
            has_dedicated_core,
            peer_doorbells: others.map(|other| &arena.control(other).doorbell).collect(),
            arena,
        }
    }

    /// The members that are parked.
    pub(crate) fn parked(&self) -> &'static ParkedCount {
        &self.state.parked
    }

    /// Prefetches this rank's slot of the next round, which lies in the caches of its last readers, while it waits for
    /// others. With 1 KiB that saves a twentieth of an exchange of two ranks, with 8 KiB a quarter.
    #[inline]
    fn prefetch_next_slot(&mut self, class: SlotClass) {
        let next = self.rounds.last_round() + 1;
        if self.memory.layout.ranks > 2 {
            prefetch_for_write(std::ptr::from_ref(self.memory.flag(self.index, next)).cast());
        }
        let written = std::mem::take(&mut self.written_bytes);
        if class == SlotClass::Page && self.has_dedicated_core {
            let page = self.memory.slot_data(self.index, next, class, 0, written);
            // SAFETY: inside the page.
            (0..written).step_by(64).for_each(|at| prefetch_for_write(unsafe { page.add(at) }.as_ptr()));
        }
    }

    /// Whether the awaited rank has published, or the segment was closed.
    pub(crate) fn awaited_has_published(&mut self) -> bool {
        use treepie_fabric::SharedSegment as _;
        self.rounds.awaited_has_published(&self.memory) || self.awaited().is_some() && self.closed_reason().is_some()
    }
}

impl treepie_fabric::SharedSegment for ShmSegment {
    fn members(&self) -> &[u32] {
        &self.members
    }

    fn index(&self) -> u32 {
        self.index
    }

    fn capacity(&self, class: SlotClass) -> usize {
        self.memory.layout.capacity(class)
    }

    #[inline]
    fn try_write(&mut self, class: SlotClass, offset: usize, data: &[u8]) -> bool {
        if !self.rounds.can_publish(&self.memory, class == SlotClass::Large) {
            return false;
        }
        let to = self.memory.slot_data(self.index, self.rounds.last_round() + 1, class, offset, data.len());
        // SAFETY: inside the slot of this rank; all others have read the slot's last data, as they have published a
        // later round, and read it again only when this round is published.
        let to = unsafe { std::slice::from_raw_parts_mut(to.as_ptr(), data.len()) };
        treepie_base::copy_short(to, data);
        self.written_bytes = if class == SlotClass::Page { offset + data.len() } else { 0 };
        true
    }

    #[inline]
    fn try_publish(&mut self, class: SlotClass, tag: u64) -> bool {
        if !self.rounds.try_publish(&self.memory, class == SlotClass::Large, tag, self.fence_mode) {
            return false;
        }
        if self.state.parked.any() {
            self.peer_doorbells.iter().for_each(|doorbell| doorbell.notify_after_publish());
        }
        self.prefetch_next_slot(class);
        true
    }

    #[inline]
    fn published_tag(&mut self, member: u32) -> Option<u64> {
        self.rounds.published_tag(&self.memory, member)
    }

    #[inline]
    fn read(&mut self, member: u32, class: SlotClass, offset: usize, len: usize) -> &[u8] {
        assert!(self.rounds.has_seen(member), "a slot is read before it is published");
        let from = self.memory.slot_data(member, self.rounds.last_round(), class, offset, len);
        // SAFETY: inside a slot of this round, of whichever class its rank wrote. Its rank has published the round and
        // reuses the slot only for a later round, after this rank has published the next one, for which it must borrow
        // this segment mutably.
        unsafe { std::slice::from_raw_parts(from.as_ptr(), len) }
    }

    fn try_expose(&mut self, class: SlotClass, offset: usize, data: &[u8]) -> bool {
        let address = data.as_ptr().expose_provenance() as u64;
        let mut exposed = [0; EXPOSED_ADDRESS_BYTES];
        exposed[..8].copy_from_slice(&address.to_ne_bytes());
        exposed[8..].copy_from_slice(&(data.len() as u64).to_ne_bytes());
        self.try_write(class, offset, &exposed)
    }

    fn read_exposed(&mut self, member: u32, class: SlotClass, offset: usize, from: usize, into: &mut [u8]) -> bool {
        let exposed = self.read(member, class, offset, EXPOSED_ADDRESS_BYTES);
        let word = |at: usize| u64::from_ne_bytes(exposed[at..at + 8].try_into().expect("8 bytes"));
        let (address, exposed_bytes, from) = (word(0), word(8), from as u64);
        let fits = from.checked_add(into.len() as u64).is_some_and(|end| end <= exposed_bytes);
        match address.checked_add(from).filter(|_| fits) {
            Some(address) => self.peer_access.read_process(self.arena.pid(self.first + member), address, into),
            None => false,
        }
    }

    fn close(&mut self, why: AbortReason) {
        let _ = self.state.abort_reason.compare_exchange(0, why.encode(), Ordering::SeqCst, Ordering::Relaxed);
        self.peer_doorbells.iter().for_each(|doorbell| doorbell.notify());
    }

    #[inline]
    fn closed_reason(&self) -> Option<AbortReason> {
        let word = self.state.abort_reason.load(Ordering::Acquire);
        (word != 0).then(|| AbortReason::decode(word))
    }

    fn awaited(&self) -> Option<u32> {
        self.rounds.awaited().map(|member| self.members[member as usize])
    }

    fn clear_awaited(&mut self) {
        self.rounds.clear_awaited();
    }
}
