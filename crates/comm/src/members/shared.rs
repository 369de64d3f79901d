//! A table that ranks share: each holds some rows of it, and looks others up where they are. [thesis 2.3.2]
//!
//! The table is that of the whole split: all communicators that it made lie in it one behind the other. The ranks of a group hold
//! it together, and every rank of the communicator that was split is in one, whether it is in a new one or not. What was looked up
//! last is kept ([`Cache`]).
//!
//! Where ranks share memory, a look-up reads a word there. Elsewhere it asks the holder by a record, which answers whenever it is
//! inside the library. The other way around, from a rank of the world to one here, each rank tells its own row.

use std::cell::RefCell;
use std::rc::Rc;

use treepie_base::Result;
use treepie_fabric::{Endpoint, SharedMemory};

use super::Members;
use super::cache::Cache;
use super::leftovers::{Leftover, Leftovers};
use crate::split::{Group, Place};

/// A rank's view of a shared table.
pub(crate) struct SharedTable {
    place: Place,
    /// This rank of the world.
    at: u32,
    /// The row with which the part of each holder begins, and the number of all.
    starts: Box<[u32]>,
    reach: Reach,
    /// Ranks of the world by those here.
    forth: Cache,
    /// Ranks here by those of the world.
    back: Cache,
    /// Which ranks here those are that were lost, as far as that was found out.
    lost: RefCell<Vec<(u32, Option<u32>)>>,
    leftovers: Rc<Leftovers>,
}

/// How parts of others are reached.
pub(crate) enum Reach {
    Memory(Piece),
    Records(Window),
}

/// Memory that all ranks of the split have mapped: a count of those that are done with it; a word for the row of each rank of the
/// world; the parts, two ranks in a word, each one more than it is. What is zero is not there yet.
pub(crate) struct Piece {
    pub(crate) memory: Rc<dyn SharedMemory>,
    pub(crate) layout: Layout,
    pub(crate) at: u64,
    pub(crate) group: Group,
    /// The ranks that were split.
    pub(crate) parent: Rc<Members>,
}

/// What a rank says of itself: its row, so many more than it is, or that it has none.
const FIRST: u64 = 2;
const OUT: u64 = 1;

pub(crate) fn row_to_tell(row: Option<u32>) -> u64 {
    row.map_or(OUT, |row| u64::from(row) + FIRST)
}

/// Where things lie in a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Ranks of the world.
    pub(crate) world: u32,
    /// Ranks of the communicator that was split.
    pub(crate) ranks: u32,
    /// The most rows of a part.
    pub(crate) rows: u32,
}

const WORD: u64 = 8;

impl Layout {
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

/// Records to the owners of parts. Each part begins with its owner's own row.
pub(crate) struct Window {
    pub(crate) window: u32,
    /// The holders, as ranks of the world.
    pub(crate) holders: Box<[u32]>,
    /// The ranks that were split, all of which must be done before a part can go.
    pub(crate) parent: Rc<Members>,
    pub(crate) rank: u32,
    /// Of the own part.
    pub(crate) bytes: usize,
}

const CELL: u64 = 4;

impl Piece {
    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.memory.load(at, &mut word);
        u64::from_ne_bytes(word)
    }

    /// Puts the part of a rank there.
    pub(crate) fn publish(&self, rank: u32, rows: &[u32], world: u32, row: Option<u32>) {
        let words: Vec<u64> = rows
            .chunks(2)
            .map(|two| u64::from(two[0] + 1) | two.get(1).map_or(0, |other| u64::from(other + 1) << 32))
            .collect();
        self.memory.store(self.layout.part(rank), bytemuck::cast_slice(&words));
        let row = row_to_tell(row);
        self.memory.store(self.layout.row_of(world), &row.to_ne_bytes());
    }

    /// A row of a holder, if that has put it there.
    fn row(&self, holder: u32, row: u32) -> Option<u32> {
        let at = self.layout.part(self.group.rank(holder)) + u64::from(row / 2) * WORD;
        let word = self.word(at);
        let half = if row.is_multiple_of(2) { word as u32 } else { (word >> 32) as u32 };
        half.checked_sub(1)
    }
}

impl SharedTable {
    pub(crate) fn new(place: Place, at: u32, starts: Vec<u32>, reach: Reach, leftovers: Rc<Leftovers>) -> Self {
        let (forth, back, lost) = (Cache::new(), Cache::new(), RefCell::default());
        Self { place, at, starts: starts.into(), reach, forth, back, lost, leftovers }
    }

    pub(super) fn ranks(&self) -> u32 {
        self.place.size
    }

    /// The rank of the world with this rank here, if that is known without asking anybody.
    #[inline]
    pub(super) fn known_world(&self, rank: u32) -> Option<u32> {
        if rank == self.place.rank { Some(self.at) } else { self.forth.get(rank) }
    }

    /// The rank of the world with this rank here: one access to the part that it is in.
    #[cold]
    pub(super) fn find_world(&self, rank: u32, endpoint: &mut Endpoint) -> Result<u32> {
        let row = self.place.start + rank;
        let holder = self.starts.partition_point(|start| *start <= row) as u32 - 1;
        let within = row - self.starts[holder as usize];
        let world = match &self.reach {
            Reach::Memory(piece) => {
                let read = || piece.row(holder, within);
                // Each puts its rows there as soon as it knows them.
                match read() {
                    Some(world) => world,
                    None => {
                        let at = piece.parent.world(piece.group.rank(holder), endpoint)?;
                        endpoint.wait_until(LOOK_UP, at, read)?
                    }
                }
            }
            Reach::Records(window) => {
                let mut cell = [0; CELL as usize];
                let at = (1 + u64::from(within)) * CELL;
                endpoint.window_get(window.window, window.holders[holder as usize], at, &mut cell)?;
                u32::from_ne_bytes(cell)
            }
        };
        self.forth.put(rank, world);
        self.back.put(world, rank);
        Ok(world)
    }

    /// The rank here of a rank of the world, if that is known without asking anybody; nothing inside if it is not here.
    pub(super) fn known_rank(&self, world: u32) -> Option<Option<u32>> {
        if world == self.at {
            return Some(Some(self.place.rank));
        }
        if let Some(rank) = self.back.get(world) {
            return Some(Some(rank));
        }
        let (known, parent) = match &self.reach {
            Reach::Memory(piece) => {
                let row = piece.word(piece.layout.row_of(world));
                let rank = self.rank_of_row(row);
                rank.inspect(|rank| self.back.put(world, *rank));
                ((row != 0).then_some(rank), &piece.parent)
            }
            Reach::Records(window) => (None, &window.parent),
        };
        // Whoever was not split is not here, and those that were lost have been looked for.
        let is_stranger = || parent.known_rank(world).filter(Option::is_none);
        let was_lost = || self.lost.borrow().iter().find(|(lost, _)| *lost == world).map(|(_, rank)| *rank);
        known.or_else(was_lost).or_else(is_stranger)
    }

    /// The rank here that says this of its row; none if it is in another communicator.
    fn rank_of_row(&self, row: u64) -> Option<u32> {
        let rank = row.checked_sub(FIRST)?.checked_sub(u64::from(self.place.start))?;
        (rank < u64::from(self.place.size)).then_some(rank as u32)
    }

    /// The rank here of a rank of the world, which is asked, or has still to say so.
    #[cold]
    pub(super) fn find_rank(&self, world: u32, endpoint: &mut Endpoint) -> Result<Option<u32>> {
        let (Reach::Memory(Piece { parent, .. }) | Reach::Records(Window { parent, .. })) = &self.reach;
        if parent.rank(world, endpoint)?.is_none() {
            return Ok(None);
        }
        let window = match &self.reach {
            Reach::Memory(_) => return endpoint.wait_until(LOOK_UP, world, || self.known_rank(world)),
            Reach::Records(window) => window,
        };
        let mut cell = [0; CELL as usize];
        if endpoint.window_get(window.window, world, 0, &mut cell).is_err() {
            // It may have sent something before it left.
            self.learn_lost(&[world], endpoint)?;
            return Ok(self.known_rank(world).flatten());
        }
        let rank = self.rank_of_row(u32::from_ne_bytes(cell).into());
        rank.inspect(|rank| self.back.put(world, *rank));
        Ok(rank)
    }

    /// Finds out which ranks here those of the world are that are lost and have not said so: from the rows.
    #[cold]
    pub(super) fn learn_lost(&self, lost: &[u32], endpoint: &mut Endpoint) -> Result<()> {
        let unknown: Vec<u32> = lost.iter().copied().filter(|world| self.known_rank(*world).is_none()).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let own = self.place.start..self.place.start + self.place.size;
        let mut found: Vec<(u32, Option<u32>)> = unknown.iter().map(|world| (*world, None)).collect();
        let parts = (0..).zip(self.starts.windows(2));
        for (holder, two) in parts.filter(|(_, two)| two[0] < own.end && own.start < two[1]) {
            // If this one is lost itself, nobody can say whether others are here; but then nobody can talk to them either.
            let rows = self.rows(holder, two[1] - two[0], endpoint)?;
            for (row, world) in (two[0]..).zip(rows) {
                if let Some((_, rank)) = found.iter_mut().find(|(lost, _)| *lost == world) {
                    *rank = self.rank_of_row(u64::from(row) + FIRST);
                }
            }
        }
        self.lost.borrow_mut().append(&mut found);
        Ok(())
    }

    /// All rows of a holder.
    fn rows(&self, holder: u32, count: u32, endpoint: &mut Endpoint) -> Result<Vec<u32>> {
        match &self.reach {
            Reach::Memory(piece) => {
                let at = piece.parent.world(piece.group.rank(holder), endpoint)?;
                let row = |row| endpoint.wait_until(LOOK_UP, at, || piece.row(holder, row));
                (0..count).map(row).collect()
            }
            Reach::Records(window) => {
                let mut rows = vec![0u32; count as usize];
                let into = bytemuck::cast_slice_mut(&mut rows);
                endpoint.window_get(window.window, window.holders[holder as usize], CELL, into)?;
                Ok(rows)
            }
        }
    }

    /// Bytes that it takes here, with the part that is here.
    pub(super) fn memory(&self) -> usize {
        let reach = match &self.reach {
            // All that were split have it together.
            Reach::Memory(piece) => piece.layout.bytes().div_ceil(piece.layout.ranks.into()) as usize,
            Reach::Records(window) => window.bytes + size_of_val(&*window.holders),
        };
        size_of_val(&*self.starts) + reach
    }

    /// Look-ups that the cache has answered, and others.
    pub(super) fn look_ups(&self) -> (u64, u64) {
        self.forth.counts()
    }
}

/// What a rank waits in.
const LOOK_UP: &str = "a look-up in a shared table";

impl Drop for SharedTable {
    /// Parts go when nobody needs them any more. The endpoint may be in use now, so that is seen to later.
    fn drop(&mut self) {
        match &mut self.reach {
            Reach::Memory(piece) => self.leftovers.done_with(piece),
            Reach::Records(window) => {
                let Window { window, parent, rank, .. } = window;
                self.leftovers.push(Leftover::Part { window: *window, parent: parent.clone(), rank: *rank });
            }
        }
    }
}

impl std::fmt::Debug for SharedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedTable({:?} of {:?})", self.place, self.starts.last())
    }
}
