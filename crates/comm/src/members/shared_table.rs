//! Distributed rank table: each rank holds some rows and looks up the others remotely. [thesis 2.3.2]
//!
//! The table is that of the whole split: the rows of all communicators that it created, one after the other. The ranks
//! of a sorter group hold one copy together, and every rank of the communicator that was split is in one group, whether
//! it is in a new communicator or not. Recent lookups are cached ([`Cache`]).
//!
//! Where ranks share memory, a lookup reads a word there. Otherwise it sends a request to the holder, which replies
//! whenever it is inside the library. For the inverse map, from world rank to rank, each rank publishes its own row.

use std::cell::RefCell;
use std::rc::Rc;

use treepie_base::Result;
use treepie_fabric::{Endpoint, SharedMemory};

use super::Members;
use super::cache::Cache;
use super::deferred_frees::{DeferredFree, DeferredFrees};
use crate::split::{SorterGroup, SplitPlacement};

/// A rank's view of a shared table.
pub(crate) struct SharedTable {
    placement: SplitPlacement,
    /// The world rank of this rank.
    own_world_rank: u32,
    /// The first row of the part of each holder, and the total number of rows.
    starts: Box<[u32]>,
    access: TableAccess,
    /// World ranks by rank.
    world_by_rank: Cache,
    /// Ranks by world rank.
    rank_by_world: Cache,
    /// The ranks of failed world ranks, as far as they were looked up.
    failed: RefCell<Vec<(u32, Option<u32>)>>,
    deferred_frees: Rc<DeferredFrees>,
}

/// How the parts of other ranks are accessed.
pub(crate) enum TableAccess {
    Mapped(MappedTable),
    Remote(RemoteTable),
}

/// A table in memory that all ranks of the split have mapped: a count of the ranks that have released it; a word for
/// the row of each world rank; the parts, two world ranks in a word, each plus 1. Zero means not yet published.
pub(crate) struct MappedTable {
    pub(crate) memory: Rc<dyn SharedMemory>,
    pub(crate) layout: MappedTableLayout,
    pub(crate) at: u64,
    pub(crate) group: SorterGroup,
    /// The ranks that were split.
    pub(crate) parent: Rc<Members>,
}

/// Encoding of the row that a rank publishes: the row plus a bias, or that it has none.
const ROW_BIAS: u64 = 2;
const NO_ROW: u64 = 1;

pub(crate) fn encode_row(row: Option<u32>) -> u64 {
    row.map_or(NO_ROW, |row| u64::from(row) + ROW_BIAS)
}

/// Offsets in a mapped table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedTableLayout {
    /// Number of world ranks.
    pub(crate) world: u32,
    /// Number of ranks of the communicator that was split.
    pub(crate) ranks: u32,
    /// Maximum number of rows of a part.
    pub(crate) rows: u32,
}

const WORD: u64 = 8;

impl MappedTableLayout {
    pub(crate) fn bytes(&self) -> u64 {
        self.part(self.ranks)
    }

    fn row_of(&self, world: u32) -> u64 {
        (1 + u64::from(world)) * WORD
    }

    fn part(&self, rank: u32) -> u64 {
        self.row_of(self.world) + u64::from(rank) * u64::from(self.rows.div_ceil(2)) * WORD
    }
}

/// A table accessed by messages to the holders of its parts. Each part begins with the row of its holder.
pub(crate) struct RemoteTable {
    pub(crate) window: u32,
    /// World ranks of the holders.
    pub(crate) holders: Box<[u32]>,
    /// The ranks that were split, all of which must have released the table before a part is freed.
    pub(crate) parent: Rc<Members>,
    pub(crate) rank: u32,
    /// Bytes of this rank's part.
    pub(crate) bytes: usize,
}

const CELL: u64 = 4;

impl MappedTable {
    /// Releases this rank's reference; the last one frees the memory.
    fn release(&self, deferred_frees: &DeferredFrees) {
        if self.memory.fetch_add(0, 1) + 1 == u64::from(self.layout.ranks) {
            deferred_frees.push(DeferredFree::Memory { at: self.at, bytes: self.layout.bytes() });
        }
    }

    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.memory.load(at, &mut word);
        u64::from_ne_bytes(word)
    }

    /// Publishes the part of a rank.
    pub(crate) fn publish(&self, rank: u32, rows: &[u32], world: u32, row: Option<u32>) {
        let words: Vec<u64> = rows
            .chunks(2)
            .map(|two| u64::from(two[0] + 1) | two.get(1).map_or(0, |other| u64::from(other + 1) << 32))
            .collect();
        self.memory.store(self.layout.part(rank), bytemuck::cast_slice(&words));
        let row = encode_row(row);
        self.memory.store(self.layout.row_of(world), &row.to_ne_bytes());
    }

    /// A row of a holder, if it was published.
    fn row(&self, holder: u32, row: u32) -> Option<u32> {
        let at = self.layout.part(self.group.rank(holder)) + u64::from(row / 2) * WORD;
        let word = self.word(at);
        let half = if row.is_multiple_of(2) { word as u32 } else { (word >> 32) as u32 };
        half.checked_sub(1)
    }
}

impl SharedTable {
    pub(crate) fn new(
        placement: SplitPlacement,
        own_world_rank: u32,
        starts: Vec<u32>,
        access: TableAccess,
        deferred_frees: Rc<DeferredFrees>,
    ) -> Self {
        let (world_by_rank, rank_by_world, failed) = (Cache::new(), Cache::new(), RefCell::default());
        Self {
            placement,
            own_world_rank,
            starts: starts.into(),
            access,
            world_by_rank,
            rank_by_world,
            failed,
            deferred_frees,
        }
    }

    pub(super) fn ranks(&self) -> u32 {
        self.placement.size
    }

    /// The world rank of a rank, if it is known without communication.
    #[inline]
    pub(super) fn known_world_rank(&self, rank: u32) -> Option<u32> {
        if rank == self.placement.rank { Some(self.own_world_rank) } else { self.world_by_rank.get(rank) }
    }

    /// The world rank of a rank: one access to the part that contains its row.
    #[cold]
    pub(super) fn lookup_world_rank(&self, rank: u32, endpoint: &mut Endpoint) -> Result<u32> {
        let row = self.placement.start + rank;
        let holder = self.starts.partition_point(|start| *start <= row) as u32 - 1;
        let within = row - self.starts[holder as usize];
        let world = match &self.access {
            TableAccess::Mapped(table) => {
                let read = || table.row(holder, within);
                // Each rank publishes its rows as soon as it knows them.
                match read() {
                    Some(world) => world,
                    None => {
                        let at = table.parent.world_rank(table.group.rank(holder), endpoint)?;
                        endpoint.wait_until(LOOKUP, at, read)?
                    }
                }
            }
            TableAccess::Remote(window) => {
                let mut cell = [0; CELL as usize];
                let at = (1 + u64::from(within)) * CELL;
                endpoint.window_get(window.window, window.holders[holder as usize], at, &mut cell)?;
                u32::from_ne_bytes(cell)
            }
        };
        self.world_by_rank.put(rank, world);
        self.rank_by_world.put(world, rank);
        Ok(world)
    }

    /// The rank of a world rank, if it is known without communication; `Some(None)` if it is not a member.
    pub(super) fn known_rank(&self, world: u32) -> Option<Option<u32>> {
        if world == self.own_world_rank {
            return Some(Some(self.placement.rank));
        }
        if let Some(rank) = self.rank_by_world.get(world) {
            return Some(Some(rank));
        }
        let (known, parent) = match &self.access {
            TableAccess::Mapped(table) => {
                let row = table.word(table.layout.row_of(world));
                let rank = self.rank_of_row(row);
                rank.inspect(|rank| self.rank_by_world.put(world, *rank));
                ((row != 0).then_some(rank), &table.parent)
            }
            TableAccess::Remote(window) => (None, &window.parent),
        };
        // World ranks that were not split are not members, and those that failed have been looked up.
        let is_not_member = || parent.known_rank(world).filter(Option::is_none);
        let has_failed = || self.failed.borrow().iter().find(|(failed, _)| *failed == world).map(|(_, rank)| *rank);
        known.or_else(has_failed).or_else(is_not_member)
    }

    /// The rank with this published row; none if it is in another communicator.
    fn rank_of_row(&self, row: u64) -> Option<u32> {
        let rank = row.checked_sub(ROW_BIAS)?.checked_sub(u64::from(self.placement.start))?;
        (rank < u64::from(self.placement.size)).then_some(rank as u32)
    }

    /// The rank of a world rank, by a lookup or once that rank has published it.
    #[cold]
    pub(super) fn lookup_rank(&self, world: u32, endpoint: &mut Endpoint) -> Result<Option<u32>> {
        let (TableAccess::Mapped(MappedTable { parent, .. }) | TableAccess::Remote(RemoteTable { parent, .. })) =
            &self.access;
        if parent.rank(world, endpoint)?.is_none() {
            return Ok(None);
        }
        let window = match &self.access {
            TableAccess::Mapped(_) => return endpoint.wait_until(LOOKUP, world, || self.known_rank(world)),
            TableAccess::Remote(window) => window,
        };
        let mut cell = [0; CELL as usize];
        if endpoint.window_get(window.window, world, 0, &mut cell).is_err() {
            // It may have sent a message before it finalized.
            self.resolve_failed(&[world], endpoint)?;
            return Ok(self.known_rank(world).flatten());
        }
        let rank = self.rank_of_row(u32::from_ne_bytes(cell).into());
        rank.inspect(|rank| self.rank_by_world.put(world, *rank));
        Ok(rank)
    }

    /// Looks up the ranks of failed world ranks that have not published theirs: searches the rows.
    #[cold]
    pub(super) fn resolve_failed(&self, failed: &[u32], endpoint: &mut Endpoint) -> Result<()> {
        let unknown: Vec<u32> = failed.iter().copied().filter(|world| self.known_rank(*world).is_none()).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let own_rows = self.placement.start..self.placement.start + self.placement.size;
        let mut found: Vec<(u32, Option<u32>)> = unknown.iter().map(|world| (*world, None)).collect();
        let parts = (0..).zip(self.starts.windows(2));
        for (holder, two) in parts.filter(|(_, two)| two[0] < own_rows.end && own_rows.start < two[1]) {
            // If the holder itself has failed, the members in its part are unknown; but then no rank can send to them
            // either.
            let rows = self.rows(holder, two[1] - two[0], endpoint)?;
            for (row, world) in (two[0]..).zip(rows) {
                if let Some((_, rank)) = found.iter_mut().find(|(failed, _)| *failed == world) {
                    *rank = self.rank_of_row(u64::from(row) + ROW_BIAS);
                }
            }
        }
        self.failed.borrow_mut().append(&mut found);
        Ok(())
    }

    /// All rows of a holder.
    fn rows(&self, holder: u32, count: u32, endpoint: &mut Endpoint) -> Result<Vec<u32>> {
        match &self.access {
            TableAccess::Mapped(table) => {
                let at = table.parent.world_rank(table.group.rank(holder), endpoint)?;
                let row = |row| endpoint.wait_until(LOOKUP, at, || table.row(holder, row));
                (0..count).map(row).collect()
            }
            TableAccess::Remote(window) => {
                let mut rows = vec![0u32; count as usize];
                let into = bytemuck::cast_slice_mut(&mut rows);
                endpoint.window_get(window.window, window.holders[holder as usize], CELL, into)?;
                Ok(rows)
            }
        }
    }

    /// Bytes of memory, including this rank's part.
    pub(super) fn memory(&self) -> usize {
        let access = match &self.access {
            // Shared by all ranks that were split.
            TableAccess::Mapped(table) => table.layout.bytes().div_ceil(table.layout.ranks.into()) as usize,
            TableAccess::Remote(window) => window.bytes + size_of_val(&*window.holders),
        };
        size_of_val(&*self.starts) + access
    }

    /// Lookups that hit the cache, and those that missed.
    pub(super) fn lookups(&self) -> (u64, u64) {
        self.world_by_rank.counts()
    }
}

/// What a rank waits for, in diagnostics.
const LOOKUP: &str = "a lookup in a shared table";

impl Drop for SharedTable {
    /// Releases the table. The endpoint may be in use now, so that is deferred.
    fn drop(&mut self) {
        match &mut self.access {
            TableAccess::Mapped(table) => table.release(&self.deferred_frees),
            TableAccess::Remote(window) => {
                let RemoteTable { window, parent, rank, .. } = window;
                self.deferred_frees.push(DeferredFree::TablePart {
                    window: *window,
                    parent: parent.clone(),
                    rank: *rank,
                });
            }
        }
    }
}

impl std::fmt::Debug for SharedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedTable({:?} of {:?})", self.placement, self.starts.last())
    }
}
