//! Initialization of each persistent operation.

use std::rc::Rc;

use treepie_base::{Pod, Rank, Reduction, Result};
use treepie_schedule::Operation;

use super::super::blocking::reduce_bytes_fn;
use super::super::{BlockCounts, CollectiveCall};
use super::PersistentCollective;
use crate::comm::Comm;

impl Comm {
    /// Initializes a persistent broadcast of `count` elements.
    pub fn bcast_init<T: Pod>(&self, count: usize, root: Rank) -> Result<PersistentCollective<T>> {
        let root = self.check_rank(root)?;
        PersistentCollective::new(
            self,
            &CollectiveCall::of::<T>(Operation::Bcast { root }, BlockCounts::Vector(count)),
            None,
        )
    }

    /// Initializes a persistent scatter of `count` elements to each rank.
    pub fn scatter_init<T: Pod>(&self, count: usize, root: Rank) -> Result<PersistentCollective<T>> {
        let root = self.check_rank(root)?;
        PersistentCollective::new(
            self,
            &CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::Uniform(count)),
            None,
        )
    }

    /// Initializes a persistent gather of `count` elements from each rank.
    pub fn gather_init<T: Pod>(&self, count: usize, root: Rank) -> Result<PersistentCollective<T>> {
        let root = self.check_rank(root)?;
        PersistentCollective::new(
            self,
            &CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::Uniform(count)),
            None,
        )
    }

    /// Initializes a persistent allgather of `count` elements from each rank.
    pub fn allgather_init<T: Pod>(&self, count: usize) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(
            self,
            &CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::Uniform(count)),
            None,
        )
    }

    /// Initializes a persistent allgather of `counts[r]` elements from rank r.
    pub fn allgatherv_init<T: Pod>(&self, counts: &[usize]) -> Result<PersistentCollective<T>> {
        self.check_list(counts)?;
        PersistentCollective::new(
            self,
            &CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::PerRank(counts)),
            None,
        )
    }

    /// Initializes a persistent reduce of `count` elements.
    pub fn reduce_init<T: Pod>(
        &self,
        count: usize,
        op: impl Reduction<T>,
        root: Rank,
    ) -> Result<PersistentCollective<T>> {
        let root = self.check_rank(root)?;
        let call = CollectiveCall::of::<T>(Operation::Reduce { root }, BlockCounts::Vector(count)).reducing(&op);
        PersistentCollective::new(self, &call, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Initializes a persistent allreduce of `count` elements.
    pub fn allreduce_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<PersistentCollective<T>> {
        let call = CollectiveCall::of::<T>(Operation::Allreduce, BlockCounts::Vector(count)).reducing(&op);
        PersistentCollective::new(self, &call, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Initializes a persistent reduce-scatter with `count` elements for each rank.
    pub fn reduce_scatter_block_init<T: Pod>(
        &self,
        count: usize,
        op: impl Reduction<T>,
    ) -> Result<PersistentCollective<T>> {
        let call = CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::Uniform(count)).reducing(&op);
        PersistentCollective::new(self, &call, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Initializes a persistent all-to-all of blocks of `count` elements.
    pub fn alltoall_init<T: Pod>(&self, count: usize) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(
            self,
            &CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::Uniform(count)),
            None,
        )
    }

    /// Initializes a persistent inclusive scan of `count` elements.
    pub fn scan_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<PersistentCollective<T>> {
        let call = CollectiveCall::of::<T>(Operation::Scan, BlockCounts::Vector(count)).reducing(&op);
        PersistentCollective::new(self, &call, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Initializes a persistent exclusive scan of `count` elements.
    pub fn exscan_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<PersistentCollective<T>> {
        let call = CollectiveCall::of::<T>(Operation::Exscan, BlockCounts::Vector(count)).reducing(&op);
        PersistentCollective::new(self, &call, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Initializes a persistent scatter of `counts[r]` elements to rank r. All ranks pass the same counts.
    pub fn scatterv_init<T: Pod>(&self, counts: &[usize], root: Rank) -> Result<PersistentCollective<T>> {
        let root = self.check_rank(root)?;
        self.check_list(counts)?;
        PersistentCollective::new(
            self,
            &CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::LocalOnly(counts, counts)),
            None,
        )
    }

    /// Initializes a persistent gather of `counts[r]` elements from rank r. All ranks pass the same counts.
    pub fn gatherv_init<T: Pod>(&self, counts: &[usize], root: Rank) -> Result<PersistentCollective<T>> {
        let root = self.check_rank(root)?;
        self.check_list(counts)?;
        PersistentCollective::new(
            self,
            &CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::LocalOnly(counts, counts)),
            None,
        )
    }

    /// Initializes a persistent reduce-scatter with `counts[r]` elements for rank r.
    pub fn reduce_scatter_init<T: Pod>(
        &self,
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<PersistentCollective<T>> {
        self.check_list(counts)?;
        let call = CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::PerRank(counts)).reducing(&op);
        PersistentCollective::new(self, &call, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Initializes a persistent all-to-all of `to[j]` elements to rank j and `from[i]` elements from rank i.
    /// Store-and-forward algorithms are refused: the data that they forward depends on what other ranks send.
    pub fn alltoallv_init<T: Pod>(&self, to: &[usize], from: &[usize]) -> Result<PersistentCollective<T>> {
        self.check_list(to)?;
        self.check_list(from)?;
        PersistentCollective::new(
            self,
            &CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::LocalOnly(to, from)),
            None,
        )
    }

    /// Initializes a persistent barrier.
    pub fn barrier_init(&self) -> Result<PersistentCollective<u8>> {
        PersistentCollective::new(self, &CollectiveCall::of::<u8>(Operation::Barrier, BlockCounts::Vector(0)), None)
    }
}
