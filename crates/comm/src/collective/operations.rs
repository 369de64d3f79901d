//! The collective operations, each described once: the arguments that are checked, the operation, the block lengths and
//! the operator. Blocking, nonblocking, persistent and in-place forms run these descriptions, and decide whom a refused
//! one concerns.

use treepie_base::{Error, Pod, Rank, Reduction, Result};
use treepie_schedule::Operation;

use super::call::{BlockCounts, ReduceBytes, TypedCall};
use crate::comm::Comm;

impl Comm {
    /// No rank leaves before all have entered.
    pub(crate) fn barrier_call(&self) -> Result<TypedCall<'static, u8>> {
        Ok(TypedCall::new(Operation::Barrier, BlockCounts::Vector(0)))
    }

    /// The root's `count` elements, to every rank. They are the output on all ranks; there is no input.
    pub(crate) fn bcast_call<T: Pod>(&self, count: usize, root: Rank) -> Result<TypedCall<'static, T>> {
        let root = self.check_rank(root)?;
        Ok(TypedCall::new(Operation::Bcast { root }, BlockCounts::Vector(count)))
    }

    /// Block r of the root, of `count` elements, to rank r.
    pub(crate) fn scatter_call<T: Pod>(&self, count: usize, root: Rank) -> Result<TypedCall<'static, T>> {
        let root = self.check_rank(root)?;
        Ok(TypedCall::new(Operation::Scatter { root }, BlockCounts::Uniform(count)))
    }

    /// Block r of the root, of `counts[r]` elements, to rank r.
    pub(crate) fn scatterv_call<'a, T: Pod>(&self, counts: &'a [usize], root: Rank) -> Result<TypedCall<'a, T>> {
        let root = self.check_rank(root)?;
        let counts = self.check_counts(counts)?;
        Ok(TypedCall::new(Operation::Scatter { root }, BlockCounts::LocalOnly(counts, counts)))
    }

    /// `count` elements of rank r, to block r of the root.
    pub(crate) fn gather_call<T: Pod>(&self, count: usize, root: Rank) -> Result<TypedCall<'static, T>> {
        let root = self.check_rank(root)?;
        Ok(TypedCall::new(Operation::Gather { root }, BlockCounts::Uniform(count)))
    }

    /// `counts[r]` elements of rank r, to block r of the root.
    pub(crate) fn gatherv_call<'a, T: Pod>(&self, counts: &'a [usize], root: Rank) -> Result<TypedCall<'a, T>> {
        let root = self.check_rank(root)?;
        let counts = self.check_counts(counts)?;
        Ok(TypedCall::new(Operation::Gather { root }, BlockCounts::LocalOnly(counts, counts)))
    }

    /// `count` elements of rank r, to block r of every rank.
    pub(crate) fn allgather_call<T: Pod>(&self, count: usize) -> Result<TypedCall<'static, T>> {
        Ok(TypedCall::new(Operation::Allgather, BlockCounts::Uniform(count)))
    }

    /// `counts[r]` elements of rank r, to block r of every rank.
    pub(crate) fn allgatherv_call<'a, T: Pod>(&self, counts: &'a [usize]) -> Result<TypedCall<'a, T>> {
        Ok(TypedCall::new(Operation::Allgather, BlockCounts::PerRank(self.check_counts(counts)?)))
    }

    /// The elementwise reduction of `count` elements of all ranks, to the root.
    pub(crate) fn reduce_call<T: Pod>(
        &self,
        count: usize,
        op: impl Reduction<T>,
        root: Rank,
    ) -> Result<TypedCall<'static, T, impl ReduceBytes>> {
        let root = self.check_rank(root)?;
        Ok(TypedCall::new(Operation::Reduce { root }, BlockCounts::Vector(count)).reducing(op))
    }

    /// The elementwise reduction of `count` elements of all ranks, to every rank.
    pub(crate) fn allreduce_call<T: Pod>(
        &self,
        count: usize,
        op: impl Reduction<T>,
    ) -> Result<TypedCall<'static, T, impl ReduceBytes>> {
        Ok(TypedCall::new(Operation::Allreduce, BlockCounts::Vector(count)).reducing(op))
    }

    /// Block r, of `count` elements, of the elementwise reduction, to rank r.
    pub(crate) fn reduce_scatter_block_call<T: Pod>(
        &self,
        count: usize,
        op: impl Reduction<T>,
    ) -> Result<TypedCall<'static, T, impl ReduceBytes>> {
        Ok(TypedCall::new(Operation::ReduceScatter, BlockCounts::Uniform(count)).reducing(op))
    }

    /// Block r, of `counts[r]` elements, of the elementwise reduction, to rank r.
    pub(crate) fn reduce_scatter_call<'a, T: Pod>(
        &self,
        counts: &'a [usize],
        op: impl Reduction<T>,
    ) -> Result<TypedCall<'a, T, impl ReduceBytes>> {
        Ok(TypedCall::new(Operation::ReduceScatter, BlockCounts::PerRank(self.check_counts(counts)?)).reducing(op))
    }

    /// Block j of rank i, of `count` elements, to block i of rank j.
    pub(crate) fn alltoall_call<T: Pod>(&self, count: usize) -> Result<TypedCall<'static, T>> {
        Ok(TypedCall::new(Operation::Alltoall, BlockCounts::Uniform(count)))
    }

    /// The same with `to[j]` elements to rank j and `from[i]` elements from rank i.
    pub(crate) fn alltoallv_call<'a, T: Pod>(&self, to: &'a [usize], from: &'a [usize]) -> Result<TypedCall<'a, T>> {
        let counts = BlockCounts::LocalOnly(self.check_counts(to)?, self.check_counts(from)?);
        Ok(TypedCall::new(Operation::Alltoall, counts))
    }

    /// The elementwise reduction of `count` elements of ranks 0 to r, to rank r.
    pub(crate) fn scan_call<T: Pod>(
        &self,
        count: usize,
        op: impl Reduction<T>,
    ) -> Result<TypedCall<'static, T, impl ReduceBytes>> {
        Ok(TypedCall::new(Operation::Scan, BlockCounts::Vector(count)).reducing(op))
    }

    /// The elementwise reduction of `count` elements of ranks 0 to r - 1, to rank r.
    pub(crate) fn exscan_call<T: Pod>(
        &self,
        count: usize,
        op: impl Reduction<T>,
    ) -> Result<TypedCall<'static, T, impl ReduceBytes>> {
        Ok(TypedCall::new(Operation::Exscan, BlockCounts::Vector(count)).reducing(op))
    }

    /// The length of one of equal blocks, if these are all of them.
    pub(crate) fn block_len(&self, all: usize) -> usize {
        all / self.size()
    }

    /// The length of a block in an in-place call to or from a root, which passes all blocks; others pass theirs.
    pub(crate) fn block_len_at_root(&self, len: usize, root: Rank) -> usize {
        if self.rank() == root { self.block_len(len) } else { len }
    }

    /// Refuses a list of counts of the wrong length.
    fn check_counts<'a>(&self, counts: &'a [usize]) -> Result<&'a [usize]> {
        let (got, expected) = (counts.len(), self.size());
        if got == expected { Ok(counts) } else { Err(Error::BadLength { what: "the list of counts", got, expected }) }
    }
}
