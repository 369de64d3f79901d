//! When a rank may write a slot for a round, and when it may read one: the flags of a [`segment`](crate::segment),
//! apart from the memory that they guard.
//!
//! A rank publishes a round by one flag, which holds the round number and a tag. A rank has flags for `depth` rounds,
//! so a rank that has nothing to read can run ahead of the others. A flag and its slot are reused when all ranks have
//! published a later round than their last one: by then they have read the slot. A writer waits for that, mostly for no
//! time.

use crate::primitive::{AtomicU64, FenceMode, Ordering, publish_u64};

/// The flags of all ranks.
pub(crate) trait SlotFlags {
    fn flag(&self, rank: u32, round: u64) -> &AtomicU64;
}

/// Large slots of a rank, used in turn: some are read while others are written. They are fewer than flags, so a round
/// in large slots waits for more. With two slots of four times the size, ranks that share a core would wait for each
/// other as often, but the data would not stay in the cache until it is read.
pub(crate) const LARGE_SLOTS: u64 = 4;

/// Bits of a flag that hold the round number. No two ranks are more than the depth apart.
const ROUND_BITS: u32 = u16::BITS;

/// A rank's state of the rounds.
pub(crate) struct SlotRounds {
    rank: u32,
    depth: u64,
    /// The last round that this rank has published.
    last_round: u64,
    /// The round that all ranks are known to have published, and that of each rank.
    all_published: u64,
    published_by_rank: Vec<u64>,
    /// Bit masks of the ranks seen to have published the last round, and of all ranks.
    seen_ranks: u64,
    all_ranks: u64,
    /// The rank that this rank waits for, and the round that it has not published.
    awaited: Option<(u32, u64)>,
}

impl SlotRounds {
    /// The rounds of `rank` in a world of at most 64 ranks.
    pub(crate) fn new(rank: u32, ranks: u32, depth: u64) -> Self {
        assert!(rank < ranks && ranks <= u64::BITS, "rank {rank} of {ranks}");
        Self {
            rank,
            depth,
            last_round: 0,
            all_published: 0,
            published_by_rank: vec![0; ranks as usize],
            seen_ranks: 0,
            all_ranks: u64::MAX >> (u64::BITS - ranks),
            awaited: None,
        }
    }

    /// The last round that this rank has published.
    pub(crate) fn last_round(&self) -> u64 {
        self.last_round
    }

    fn has_published(flags: &impl SlotFlags, rank: u32, round: u64) -> bool {
        let flag = flags.flag(rank, round).load(Ordering::Acquire);
        round == 0 || (flag as u16).wrapping_sub(round as u16).cast_signed() >= 0
    }

    /// Whether this rank can write its slot of the coming round and publish it.
    #[inline]
    pub(crate) fn can_publish(&mut self, flags: &impl SlotFlags, in_large_slot: bool) -> bool {
        let depth = if in_large_slot { self.depth.min(LARGE_SLOTS) } else { self.depth };
        let needed = (self.last_round + 2).saturating_sub(depth);
        self.all_published >= needed || self.all_have_published(flags, needed)
    }

    /// Reads the flags of ranks that are not known to have published `round`. A rank that is further ahead need not be
    /// read again for some rounds: each read may take a line from the core of that rank.
    fn all_have_published(&mut self, flags: &impl SlotFlags, round: u64) -> bool {
        let further = self.last_round.min(round + self.depth / 2);
        for (rank, reached) in (0..).zip(&mut self.published_by_rank) {
            if *reached >= round {
                continue;
            }
            if Self::has_published(flags, rank, further) {
                *reached = further;
            } else if Self::has_published(flags, rank, round) {
                *reached = round;
            } else {
                self.awaited = Some((rank, round));
                return false;
            }
        }
        self.awaited = None;
        self.all_published = self.published_by_rank.iter().copied().min().unwrap_or(round);
        true
    }

    /// Publishes the coming round, if its slot is free.
    #[inline]
    pub(crate) fn try_publish(
        &mut self,
        flags: &impl SlotFlags,
        in_large_slot: bool,
        tag: u64,
        fence_mode: FenceMode,
    ) -> bool {
        if !self.can_publish(flags, in_large_slot) {
            return false;
        }
        assert!(tag >> (u64::BITS - ROUND_BITS) == 0, "tag {tag:#x} does not fit");
        self.last_round += 1;
        self.seen_ranks = 1 << self.rank;
        publish_u64(
            flags.flag(self.rank, self.last_round),
            tag << ROUND_BITS | u64::from(self.last_round as u16),
            fence_mode,
        );
        true
    }

    /// Whether a rank was seen to have published the last round.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn has_seen(&self, rank: u32) -> bool {
        self.seen_ranks & 1 << rank != 0
    }

    /// The tag that another rank has published for this rank's last round, if it has published it.
    #[inline]
    pub(crate) fn published_tag(&mut self, flags: &impl SlotFlags, rank: u32) -> Option<u64> {
        let flag = flags.flag(rank, self.last_round).load(Ordering::Acquire);
        // Nobody is `depth` rounds ahead, so a flag with another round number is of an earlier round.
        if flag as u16 != self.last_round as u16 {
            self.awaited = Some((rank, self.last_round));
            return None;
        }
        self.awaited = None;
        // A rank that has seen all others need not read the flags again before it writes: with two ranks that would
        // fetch the line once more, for reading, right before it is fetched for writing.
        self.seen_ranks |= 1 << rank;
        if self.seen_ranks == self.all_ranks {
            self.all_published = self.last_round;
        }
        Some(flag >> ROUND_BITS)
    }

    /// Forgets the awaited rank.
    #[cfg(not(loom))]
    pub(crate) fn clear_awaited(&mut self) {
        self.awaited = None;
    }

    /// The rank that had not published at the last test.
    #[cfg(not(loom))]
    pub(crate) fn awaited(&self) -> Option<u32> {
        self.awaited.map(|(rank, _)| rank)
    }

    /// Whether the awaited rank has published; it is no longer awaited then.
    pub(crate) fn awaited_has_published(&mut self, flags: &impl SlotFlags) -> bool {
        let has_published = self.awaited.is_some_and(|(rank, round)| Self::has_published(flags, rank, round));
        if has_published {
            self.awaited = None;
        }
        has_published
    }
}
