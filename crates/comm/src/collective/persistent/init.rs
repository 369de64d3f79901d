//! Initialization of each persistent operation. It is local: a refused call concerns no other rank.

use treepie_base::{Pod, Rank, Reduction, Result};

use super::PersistentCollective;
use crate::comm::Comm;

impl Comm {
    /// Initializes a persistent barrier.
    pub fn barrier_init(&self) -> Result<PersistentCollective<u8>> {
        PersistentCollective::new(self, self.barrier_call()?)
    }

    /// Initializes a persistent broadcast of `count` elements.
    pub fn bcast_init<T: Pod>(&self, count: usize, root: Rank) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.bcast_call(count, root)?)
    }

    /// Initializes a persistent scatter of `count` elements to each rank.
    pub fn scatter_init<T: Pod>(&self, count: usize, root: Rank) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.scatter_call(count, root)?)
    }

    /// Initializes a persistent scatter of `counts[r]` elements to rank r. All ranks pass the same counts.
    pub fn scatterv_init<T: Pod>(&self, counts: &[usize], root: Rank) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.scatterv_call(counts, root)?)
    }

    /// Initializes a persistent gather of `count` elements from each rank.
    pub fn gather_init<T: Pod>(&self, count: usize, root: Rank) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.gather_call(count, root)?)
    }

    /// Initializes a persistent gather of `counts[r]` elements from rank r. All ranks pass the same counts.
    pub fn gatherv_init<T: Pod>(&self, counts: &[usize], root: Rank) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.gatherv_call(counts, root)?)
    }

    /// Initializes a persistent allgather of `count` elements from each rank.
    pub fn allgather_init<T: Pod>(&self, count: usize) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.allgather_call(count)?)
    }

    /// Initializes a persistent allgather of `counts[r]` elements from rank r.
    pub fn allgatherv_init<T: Pod>(&self, counts: &[usize]) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.allgatherv_call(counts)?)
    }

    /// Initializes a persistent reduce of `count` elements.
    pub fn reduce_init<T: Pod>(
        &self,
        count: usize,
        op: impl Reduction<T>,
        root: Rank,
    ) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.reduce_call(count, op, root)?)
    }

    /// Initializes a persistent allreduce of `count` elements.
    pub fn allreduce_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.allreduce_call(count, op)?)
    }

    /// Initializes a persistent reduce-scatter with `count` elements for each rank.
    pub fn reduce_scatter_block_init<T: Pod>(
        &self,
        count: usize,
        op: impl Reduction<T>,
    ) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.reduce_scatter_block_call(count, op)?)
    }

    /// Initializes a persistent reduce-scatter with `counts[r]` elements for rank r.
    pub fn reduce_scatter_init<T: Pod>(
        &self,
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.reduce_scatter_call(counts, op)?)
    }

    /// Initializes a persistent all-to-all of blocks of `count` elements.
    pub fn alltoall_init<T: Pod>(&self, count: usize) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.alltoall_call(count)?)
    }

    /// Initializes a persistent all-to-all of `to[j]` elements to rank j and `from[i]` elements from rank i.
    /// Store-and-forward algorithms are refused: the data that they forward depends on what other ranks send.
    pub fn alltoallv_init<T: Pod>(&self, to: &[usize], from: &[usize]) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.alltoallv_call(to, from)?)
    }

    /// Initializes a persistent inclusive scan of `count` elements.
    pub fn scan_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.scan_call(count, op)?)
    }

    /// Initializes a persistent exclusive scan of `count` elements.
    pub fn exscan_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<PersistentCollective<T>> {
        PersistentCollective::new(self, self.exscan_call(count, op)?)
    }
}
