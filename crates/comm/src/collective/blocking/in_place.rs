//! In-place collective operations: one slice has the input before and the output afterwards. All ranks must call this
//! form.

use std::rc::Rc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Pod, Rank, Reduction, Result};
use treepie_schedule::Operation;

use super::reduce_bytes_fn;
use crate::collective::{BlockCounts, CollectiveCall, NO_REDUCE_FN};
use crate::comm::Comm;

impl Comm {
    /// In-place scatter: the root passes all blocks in `data` and its own block stays there; other ranks pass a buffer
    /// for their block.
    pub fn scatter_in_place<T: Pod>(&self, data: &mut [T], root: Rank) -> Result<()> {
        let each = if self.rank() == root { data.len() / self.size() } else { data.len() };
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::Uniform(each)).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), NO_REDUCE_FN)
    }

    /// Like [`scatter_in_place`](Self::scatter_in_place), with `counts[r]` elements for rank r. All ranks pass the same
    /// counts.
    pub fn scatterv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let call =
            CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::LocalOnly(counts, counts)).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), NO_REDUCE_FN)
    }

    /// In-place gather: the root's contribution must already be in its block of `data`; other ranks pass their block.
    pub fn gather_in_place<T: Pod>(&self, data: &mut [T], root: Rank) -> Result<()> {
        let each = if self.rank() == root { data.len() / self.size() } else { data.len() };
        let is_root = self.rank() == root;
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::Uniform(each)).in_place();
        if is_root {
            return self.run_call(&call, &[], cast_slice_mut(data), NO_REDUCE_FN);
        }
        self.run_call(&call, cast_slice(data), &mut [], NO_REDUCE_FN)
    }

    /// Like [`gather_in_place`](Self::gather_in_place), with `counts[r]` elements from rank r. All ranks pass the same
    /// counts.
    pub fn gatherv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        let is_root = self.rank() == root;
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let call =
            CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::LocalOnly(counts, counts)).in_place();
        if is_root {
            return self.run_call(&call, &[], cast_slice_mut(data), NO_REDUCE_FN);
        }
        self.run_call(&call, cast_slice(data), &mut [], NO_REDUCE_FN)
    }

    /// In-place allgather: block r of `data` of rank r becomes block r of `data` on every rank.
    pub fn allgather_in_place<T: Pod>(&self, data: &mut [T]) -> Result<()> {
        let call =
            CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::Uniform(data.len() / self.size())).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), NO_REDUCE_FN)
    }

    /// Like [`allgather_in_place`](Self::allgather_in_place), with `counts[r]` elements from rank r.
    pub fn allgatherv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize]) -> Result<()> {
        self.check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::PerRank(counts)).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), NO_REDUCE_FN)
    }

    /// In-place reduce: the root's `data` becomes the reduction of `data` of all ranks; `data` of other ranks is
    /// unchanged.
    pub fn reduce_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>, root: Rank) -> Result<()> {
        let is_root = self.rank() == root;
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Reduce { root }, BlockCounts::Vector(data.len()))
            .reducing(&op)
            .in_place();
        if is_root {
            return self.run_call(&call, &[], cast_slice_mut(data), Some(reduce_bytes_fn(op)));
        }
        self.run_call(&call, cast_slice(data), &mut [], Some(reduce_bytes_fn(op)))
    }

    /// In-place allreduce: `data` of every rank becomes the elementwise reduction of all of them.
    pub fn allreduce_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call =
            CollectiveCall::of::<T>(Operation::Allreduce, BlockCounts::Vector(data.len())).reducing(&op).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), Some(reduce_bytes_fn(op)))
    }

    /// In-place reduce-scatter: the first block of `data` of rank r becomes block r of the reduction. All blocks have
    /// the same length; the rest of `data` is unspecified afterwards.
    pub fn reduce_scatter_block_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let each = data.len() / self.size();
        let call =
            CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::Uniform(each)).reducing(&op).in_place();
        self.reduce_scatter_to_start(&call, data, each, op)
    }

    /// Like [`reduce_scatter_block_in_place`](Self::reduce_scatter_block_in_place), with `counts[r]` elements for rank
    /// r.
    pub fn reduce_scatter_in_place<T: Pod>(
        &self,
        data: &mut [T],
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<()> {
        self.check_counts(counts)?;
        let call =
            CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::PerRank(counts)).reducing(&op).in_place();
        self.reduce_scatter_to_start(&call, data, counts[self.rank()], op)
    }

    /// Runs a reduce-scatter that may overwrite its input, and copies this rank's block to the beginning of it.
    fn reduce_scatter_to_start<T: Pod>(
        &self,
        call: &CollectiveCall<'_>,
        data: &mut [T],
        count: usize,
        op: impl Reduction<T>,
    ) -> Result<()> {
        // The beginning of the input is still needed while the block is computed.
        let mut block = vec![T::zeroed(); count];
        self.run_overwriting(call, cast_slice_mut(data), cast_slice_mut(&mut block), Rc::new(reduce_bytes_fn(op)))?;
        data[..count].copy_from_slice(&block);
        Ok(())
    }

    /// In-place all-to-all: block j of `data` of rank i becomes block i of `data` of rank j. All blocks have the same
    /// length. `data` is copied first.
    pub fn alltoall_in_place<T: Pod>(&self, data: &mut [T]) -> Result<()> {
        let blocks = data.to_vec();
        self.alltoall(&blocks, data)
    }

    /// Like [`alltoall_in_place`](Self::alltoall_in_place), with `counts[j]` elements to rank j and `counts[j]` from
    /// it.
    pub fn alltoallv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize]) -> Result<()> {
        let blocks = data.to_vec();
        self.alltoallv(&blocks, counts, data, counts)
    }

    /// In-place inclusive scan: `data` of rank r becomes the reduction of `data` of ranks 0 to r.
    pub fn scan_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = CollectiveCall::of::<T>(Operation::Scan, BlockCounts::Vector(data.len())).reducing(&op).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), Some(reduce_bytes_fn(op)))
    }

    /// In-place exclusive scan: `data` of rank r becomes the reduction of `data` of ranks 0 to r - 1. Rank 0's is
    /// unchanged.
    pub fn exscan_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = CollectiveCall::of::<T>(Operation::Exscan, BlockCounts::Vector(data.len())).reducing(&op).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), Some(reduce_bytes_fn(op)))
    }
}
