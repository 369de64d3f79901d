//! Splitting communicators.
//!
//! A split sorts the colors and keys of the ranks, by one of several [algorithms](SplitAlgorithm); each is a protocol
//! ([`SplitProtocol`]) of phases with one file each.

mod affine_ranks;
mod algorithm;
mod blocks;
mod bruck_allgather;
mod entry;
mod merge;
mod parallel_sort;
mod placement;
mod quicksort;
mod record;
mod selection;
mod split_protocol;
mod split_result;
mod splitter;
mod table_partition;

pub use affine_ranks::AffineRanks;
pub use algorithm::SplitAlgorithm;
pub use blocks::{SorterBlocks, SorterGroup};
pub use bruck_allgather::{BruckAllgather, CombineMode};
pub use entry::{Piggyback, SplitEntry};
pub use merge::{merge, merge_all};
pub use parallel_sort::{ParallelSort, SortProgress, SplitterOptions};
pub use placement::SplitPlacement;
pub use selection::{SplitMachine, algorithm_cost, choose_algorithm, choose_sorters};
pub use split_protocol::SplitProtocol;
pub use split_result::{RankTable, SplitPhase, SplitPhaseCost, SplitResult};

use table_partition::TablePartition;
use treepie_base::{Error, Rank, Result};
use treepie_schedule::Operation;

use crate::checked::ComparedGuard;
use crate::comm::Comm;
use crate::digest::digest;
use crate::members::{Members, SharedTable};
use crate::protocol::log_choice;

impl Comm {
    /// A communicator for each color, with the ranks that passed it, ordered by key and then by rank
    /// (`MPI_Comm_split`). All ranks call it; ranks without a color get `None`.
    ///
    /// `with_algorithm("split/distributed")` on a handle, or `TREEPIE_ALGORITHM`, sets the algorithm; otherwise the
    /// cheapest one is selected. All create the same communicators; some distribute the rank table, see
    /// [`rank_table_kind`](Self::rank_table_kind).
    pub fn split(&self, color: impl Into<Option<u32>>, key: i32) -> Result<Option<Comm>> {
        let _compared = self.compare_split_call(|| "split".to_owned())?;
        let algorithm = self.split_algorithm()?;
        log_choice(self, format_args!("{algorithm} for {} ranks", self.size()));
        let entry = SplitEntry::new(color.into(), key, self.rank() as u32, self.endpoint().rank());
        if algorithm == SplitAlgorithm::AllgatherSort {
            self.split_by_allgather(entry)
        } else {
            self.split_by_protocol(algorithm, entry)
        }
    }

    /// Compares a call that consists of a split.
    pub(crate) fn compare_split_call(&self, call: impl FnOnce() -> String) -> Result<ComparedGuard<'_>> {
        if self.needs_comparison()
            && let Err(error) = self.split_algorithm()
        {
            return Err(self.refuse_call(error));
        }
        self.compare_call(&[Operation::Allgather], || match self.requested_protocol("split") {
            Ok(Some(id)) if id != AUTO => call() + " by " + id,
            _ => call(),
        })
    }

    /// The algorithm with which a split would be done.
    #[doc(hidden)]
    pub fn chosen_split_algorithm(&self) -> Result<SplitAlgorithm> {
        self.split_algorithm()
    }

    /// The algorithm that was set, otherwise the cheapest.
    fn split_algorithm(&self) -> Result<SplitAlgorithm> {
        let ranks = self.size() as u32;
        Ok(match self.requested_protocol("split")?.filter(|id| *id != AUTO) {
            Some(id) => SplitAlgorithm::parse(id, choose_sorters(ranks, &self.split_machine()))?,
            // On one machine this allgather takes the shared segment, which no message of a split does. It is not
            // predicted: a segment that is closed is so on some ranks before others, and they would choose differently.
            None if self.ranks_per_core().is_some() => SplitAlgorithm::AllgatherSort,
            None => choose_algorithm(ranks, &self.split_machine().with_allgathers(self)),
        })
    }

    /// Allgather of all entries, by the fastest algorithm here, then a local sort.
    fn split_by_allgather(&self, entry: SplitEntry) -> Result<Option<Comm>> {
        let context = u64::from(self.endpoint().next_context());
        let all = self.allgather(&[entry, SplitEntry::from_piggyback([context, 0])])?;
        let (all, _) = all.as_chunks::<2>();
        let context = self.take_context(all.iter().map(|[_, piggyback]| piggyback.to_piggyback()[0]))?;
        if !entry.has_color() {
            return Ok(None);
        }
        let all = all.iter().map(|[entry, _]| *entry);
        let mut members: Vec<SplitEntry> = all.filter(|other| other.group_key() == entry.group_key()).collect();
        members.sort_unstable();
        let world_ranks = members.iter().map(SplitEntry::world_rank).collect();
        Ok(Some(self.subcomm(context, self.members(world_ranks))))
    }

    fn split_by_protocol(&self, algorithm: SplitAlgorithm, entry: SplitEntry) -> Result<Option<Comm>> {
        let (rank, ranks) = (self.rank() as u32, self.size() as u32);
        let layout = self.mapped_table_layout(algorithm);
        let context = u64::from(self.endpoint().next_context());
        let protocol = |offset| SplitProtocol::new(algorithm, rank, ranks, entry, [context, offset]);
        // One rank reserves memory for all, and its offset is distributed with the context.
        let offset = match layout.filter(|_| rank == 0).map(|layout| self.reserve_mapped_table(layout)) {
            None => 0,
            Some(Ok(offset)) => offset,
            Some(Err(error)) => {
                self.abort_protocol(protocol(0), true);
                return Err(error);
            }
        };
        let SplitResult { piggyback: [context, memory], placement, affine, table } =
            self.run_protocol(protocol(offset), align_of::<SplitEntry>(), |_| {})?.finish();
        let context = self.take_contexts([context], 1 + u32::from(algorithm.shares_table()))?;
        let members = match table {
            RankTable::Full(world_ranks) => placement.map(|_| self.members(world_ranks)),
            RankTable::Shared { rows, starts, holders } => {
                let partition = TablePartition {
                    group: SorterBlocks::new(ranks, algorithm.sorters().unwrap_or(1)).group_of(rank).0,
                    rows,
                    holders,
                };
                let access = match layout {
                    Some(layout) => self.publish_mapped(layout, memory, partition, placement)?,
                    None => self.publish_remote(context, partition, placement)?,
                };
                let (world_rank, own) = (self.endpoint().rank(), placement.unwrap_or_default());
                let table = SharedTable::new(own, world_rank, starts, access, self.deferred_frees());
                // A rank that needs no table still holds a part of it, for others.
                let world_size = self.endpoint().size();
                placement.map(|SplitPlacement { size, .. }| match affine.and_then(|affine| affine.formula()) {
                    Some((first, step)) => Members::affine(first, step, size, world_size),
                    None => Members::Shared(Box::new(table)),
                })
            }
        };
        Ok(members.map(|members| self.subcomm(context, members)))
    }

    /// A communicator of these ranks, in this order (`MPI_Comm_create`). All ranks of this one call it with the same
    /// list; ranks that are not in it get `None`.
    ///
    /// # Errors
    /// If a rank does not exist or is listed twice, or the lists differ; on every caller.
    pub fn create(&self, group: &[Rank]) -> Result<Option<Comm>> {
        let _compared = self.compare_call(&[Operation::Allgather], || "create".to_owned())?;
        // A rank with an invalid list takes part, so that all others learn of it.
        let valid = self.check_group(group);
        let own = [u64::from(self.endpoint().next_context()), u64::from(valid.is_ok()), group_digest(group)];
        let all = self.allgather(&own)?;
        valid?;
        let (all, _) = all.as_chunks::<3>();
        if let Some(rank) = all.iter().position(|[_, valid, _]| *valid == 0) {
            return Err(Error::Algorithm(format!("the group of rank {rank} is refused there")));
        }
        if let Some(rank) = all.iter().position(|[.., other]| *other != own[2]) {
            return Err(Error::Algorithm(format!("rank {rank} passes another group than rank {}", self.rank())));
        }
        let context = self.take_context(all.iter().map(|[context, ..]| *context))?;
        if !group.contains(&self.rank()) {
            return Ok(None);
        }
        Ok(Some(self.subcomm(context, self.members_of(group)?)))
    }

    /// The rank in another communicator of a rank of this one, if it is a member (`MPI_Group_translate_ranks`).
    pub fn translate_rank(&self, rank: Rank, other: &Comm) -> Result<Option<Rank>> {
        let world = self.world_rank(rank)?;
        if !self.inner.same_world(&other.inner) {
            return Ok(None);
        }
        let members = &other.inner.members;
        let rank = members.known_rank(world).map_or_else(|| members.rank(world, &mut self.endpoint()), Ok)?;
        Ok(rank.map(|rank| rank as Rank))
    }

    /// Bytes of this rank's map from ranks to world ranks.
    pub fn rank_table_bytes(&self) -> usize {
        self.inner.members.memory()
    }

    /// The representation of that map: `all ranks` for the ranks of the world in its order, `formula` for an affine
    /// sequence, otherwise a `table`, or a `shared table` that is distributed over a group of ranks.
    pub fn rank_table_kind(&self) -> &'static str {
        self.inner.members.representation()
    }

    /// Lookups of world ranks in a shared table: those that hit the cache, and those that read a part of the table,
    /// this rank's or another one's.
    pub fn rank_table_lookups(&self) -> (u64, u64) {
        self.inner.members.lookups()
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
        let world_ranks: Result<Vec<u32>> = group.iter().map(|rank| self.world_rank(*rank)).collect();
        Ok(self.members(world_ranks?))
    }

    fn members(&self, world_ranks: Vec<u32>) -> Members {
        Members::new(world_ranks, self.endpoint().size())
    }
}

const AUTO: &str = "split/auto";

/// The digest of a list of ranks.
pub(crate) fn group_digest(group: &[Rank]) -> u64 {
    digest(group.iter().map(|rank| *rank as u64))
}
