//! Communicators of some of the ranks of another one.
//!
//! A split sorts what ranks have asked for, by one of several [ways](Way); each is a protocol ([`Splitting`]) of its phases,
//! which lie in files of their own.

mod blocks;
mod choose;
mod doubling;
mod entry;
mod finding;
mod letter;
mod line;
mod merge;
mod outcome;
mod part;
mod quick;
mod share;
mod sorting;
mod splitter;
mod splitting;
mod ways;

pub use blocks::{Blocks, Group};
pub use choose::{choose, price, sorters};
pub use doubling::{Doubling, Joining};
pub use entry::{Entry, Notes};
pub use finding::Place;
pub use line::Line;
pub use merge::{merge, merge_all};
pub use outcome::{Outcome, Phase, Spent, Table};
pub use part::{Message, Part};
pub use sorting::{Manner, Progress, Sorting};
pub use splitting::Splitting;
pub use ways::Way;

use share::Own;
use treepie_base::{Error, Rank, Result};
use treepie_model::LogGP;
use treepie_schedule::Operation;

use crate::checked::Compared;
use crate::comm::Comm;
use crate::digest::digest;
use crate::members::{Members, SharedTable};
use crate::protocol::log_choice;

impl Comm {
    /// A communicator for each colour, of the ranks that have named it, in the order of their keys, and for equal keys in
    /// that of their ranks here. All ranks call it; those without a colour get nothing.
    ///
    /// `using("split/distributed")` on a handle, or `TREEPIE_ALGORITHM`, says by which way; else it is the one that takes least.
    /// All give the same communicators; some share their tables, see [`representation`](Self::representation).
    pub fn split(&self, color: impl Into<Option<u32>>, key: i32) -> Result<Option<Comm>> {
        let _compared = self.agree_on_split(|| "split".to_owned())?;
        let way = self.way_to_split()?;
        log_choice(self, format_args!("{way} for {} ranks", self.size()));
        let entry = Entry::new(color.into(), key, self.rank() as u32, self.endpoint().rank());
        if way == Way::AllgatherSort { self.split_by_gathering(entry) } else { self.split_by_protocol(way, entry) }
    }

    /// Compares a call that is made of a split.
    pub(crate) fn agree_on_split(&self, call: impl FnOnce() -> String) -> Result<Compared<'_>> {
        if self.compares()
            && let Err(error) = self.way_to_split()
        {
            return Err(self.refused(error));
        }
        self.agree_on(&[Operation::Allgather], || match self.asked_protocol("split") {
            Ok(Some(id)) if id != AUTO => call() + " by " + id,
            _ => call(),
        })
    }

    /// The way that was asked for, or else the cheapest.
    fn way_to_split(&self) -> Result<Way> {
        let ranks = self.size() as u32;
        Ok(match self.asked_protocol("split")?.filter(|id| *id != AUTO) {
            Some(id) => Way::parse(id, sorters(ranks, &NETWORK))?,
            // On one machine nothing is faster than the allgather there, and tables are short.
            None if self.ranks_per_core().is_some() => Way::AllgatherSort,
            None => choose(ranks, &NETWORK),
        })
    }

    /// All get all entries, by the collective operation that is fastest here, and sort their own.
    fn split_by_gathering(&self, entry: Entry) -> Result<Option<Comm>> {
        let context = u64::from(self.endpoint().next_context());
        let all = self.all_gather(&[entry, Entry::of_notes([context, 0])])?;
        let (all, _) = all.as_chunks::<2>();
        let context = self.take_context(all.iter().map(|[_, notes]| notes.as_notes()[0]))?;
        if !entry.takes_part() {
            return Ok(None);
        }
        let all = all.iter().map(|[entry, _]| *entry);
        let mut mine: Vec<Entry> = all.filter(|other| other.group() == entry.group()).collect();
        mine.sort_unstable();
        let world = mine.iter().map(Entry::at).collect();
        Ok(Some(self.part(context, self.members(world))))
    }

    fn split_by_protocol(&self, way: Way, entry: Entry) -> Result<Option<Comm>> {
        let (rank, ranks) = (self.rank() as u32, self.size() as u32);
        let layout = self.layout_to_share(way);
        let context = u64::from(self.endpoint().next_context());
        let begin = |place| Splitting::new(way, rank, ranks, entry, [context, place]);
        // One sets memory aside for all, and its place is found out with the context.
        let place = match layout.filter(|_| rank == 0).map(|layout| self.set_aside(layout)) {
            None => 0,
            Some(Ok(place)) => place,
            Some(Err(error)) => {
                self.give_up_protocol(begin(0), true);
                return Err(error);
            }
        };
        let Outcome { notes: [context, memory], place, line, table } =
            self.run_protocol(begin(place), align_of::<Entry>(), |_| {})?.finish();
        let context = self.take_contexts([context], 1 + u32::from(way.shares()))?;
        let members = match table {
            Table::Whole(world) => place.map(|_| self.members(world)),
            Table::Shared { rows, starts, holders } => {
                let part =
                    Own { group: Blocks::new(ranks, way.sorters().unwrap_or(1)).group_of(rank).0, rows, holders };
                let reach = match layout {
                    Some(layout) => self.share_in_memory(layout, memory, part, place)?,
                    None => self.share_by_records(context, part, place)?,
                };
                let (at, own) = (self.endpoint().rank(), place.unwrap_or_default());
                let table = SharedTable::new(own, at, starts, reach, self.leftovers());
                // Whoever needs no table has a part of it all the same, for others.
                let of = self.endpoint().size();
                place.map(|Place { size, .. }| match line.and_then(|line| line.formula()) {
                    Some((first, step)) => Members::following(first, step, size, of),
                    None => Members::Shared(Box::new(table)),
                })
            }
        };
        Ok(members.map(|members| self.part(context, members)))
    }

    /// A communicator of these ranks, in this order. All ranks of this one call it with the same list; those that are not in
    /// it get nothing.
    ///
    /// # Errors
    /// If a rank does not exist or is listed twice, or if the lists differ; on every caller.
    pub fn create(&self, group: &[Rank]) -> Result<Option<Comm>> {
        let _compared = self.agree_on(&[Operation::Allgather], || "create".to_owned())?;
        // A rank with a bad list takes part, so that all others learn of it.
        let good = self.check_group(group);
        let mine = [u64::from(self.endpoint().next_context()), u64::from(good.is_ok()), digest_of(group)];
        let all = self.all_gather(&mine)?;
        good?;
        let (all, _) = all.as_chunks::<3>();
        if let Some(rank) = all.iter().position(|[_, good, _]| *good == 0) {
            return Err(Error::Algorithm(format!("rank {rank} lists a group that is refused there")));
        }
        if let Some(rank) = all.iter().position(|[.., other]| *other != mine[2]) {
            return Err(Error::Algorithm(format!("rank {rank} lists another group than rank {}", self.rank())));
        }
        let context = self.take_context(all.iter().map(|[context, ..]| *context))?;
        if !group.contains(&self.rank()) {
            return Ok(None);
        }
        Ok(Some(self.part(context, self.members_of(group)?)))
    }

    /// The rank that one of this communicator's has in another one, if it is there too.
    pub fn translate(&self, rank: Rank, other: &Comm) -> Result<Option<Rank>> {
        let world = self.world_rank(rank)?;
        if !self.inner.same_world(&other.inner) {
            return Ok(None);
        }
        let members = &other.inner.members;
        let rank = members.known_rank(world).map_or_else(|| members.rank(world, &mut self.endpoint()), Ok)?;
        Ok(rank.map(|rank| rank as Rank))
    }

    /// Bytes that this rank holds to know which ranks are here.
    pub fn memory(&self) -> usize {
        self.inner.members.memory()
    }

    /// How that is held: `all ranks` for those of the world in its order, `formula` where every so many are here, and elsewhere a
    /// `table`, or a `shared table` of which each of some ranks has a part.
    pub fn representation(&self) -> &'static str {
        self.inner.members.representation()
    }

    /// How often a rank here was looked up in a shared table to find out who that is in the world: answered by the cache, and
    /// read from a part of the table, this rank's own or another one's.
    pub fn look_ups(&self) -> (u64, u64) {
        self.inner.members.look_ups()
    }

    pub(crate) fn check_group(&self, group: &[Rank]) -> Result<()> {
        let mut sorted = group.to_vec();
        sorted.sort_unstable();
        sorted.iter().try_for_each(|rank| self.check_rank(*rank).map(drop))?;
        match sorted.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(Error::Algorithm(format!("rank {} is listed twice in a group", two[0]))),
            None => Ok(()),
        }
    }

    pub(crate) fn members_of(&self, group: &[Rank]) -> Result<Members> {
        let world: Result<Vec<u32>> = group.iter().map(|rank| self.world_rank(*rank)).collect();
        Ok(self.members(world?))
    }

    fn members(&self, world: Vec<u32>) -> Members {
        Members::new(world, self.endpoint().size())
    }
}

const AUTO: &str = "split/auto";

/// Of a usual cluster; only how parameters compare matters.
const NETWORK: LogGP = LogGP { latency: 1.5, overhead: 0.4, gap: 0.4, per_byte: 0.0001 };

/// Stands for a list of ranks.
pub(crate) fn digest_of(group: &[Rank]) -> u64 {
    digest(group.iter().map(|rank| *rank as u64))
}
