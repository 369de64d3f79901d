//! The same in one slice, which has the input before and the output after. All ranks call this form.

use std::rc::Rc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Pod, Rank, Reduction, Result};
use treepie_schedule::Operation;

use super::fold_bytes;
use crate::collective::{Call, Lengths, NO_FOLD};
use crate::comm::Comm;

impl Comm {
    /// A scatter without a block of the root to itself: the root gives all blocks in `data` and keeps its own where it is,
    /// others give room for their block.
    pub fn scatter_in_place<T: Pod>(&self, data: &mut [T], root: Rank) -> Result<()> {
        let each = if self.rank() == root { data.len() / self.size() } else { data.len() };
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Scatter { root }, Lengths::Each(each)).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), NO_FOLD)
    }

    /// The same with a block of `counts[r]` elements for rank r. All ranks give the same counts.
    pub fn scatterv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let call = Call::of::<T>(Operation::Scatter { root }, Lengths::Private(counts, counts)).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), NO_FOLD)
    }

    /// A gather into a `data` of the root that has its own block at its place already; others give their block.
    pub fn gather_in_place<T: Pod>(&self, data: &mut [T], root: Rank) -> Result<()> {
        let each = if self.rank() == root { data.len() / self.size() } else { data.len() };
        let is_root = self.rank() == root;
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Gather { root }, Lengths::Each(each)).in_place();
        if is_root {
            return self.run_call(&call, &[], cast_slice_mut(data), NO_FOLD);
        }
        self.run_call(&call, cast_slice(data), &mut [], NO_FOLD)
    }

    /// The same with a block of `counts[r]` elements from rank r. All ranks give the same counts.
    pub fn gatherv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        let is_root = self.rank() == root;
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let call = Call::of::<T>(Operation::Gather { root }, Lengths::Private(counts, counts)).in_place();
        if is_root {
            return self.run_call(&call, &[], cast_slice_mut(data), NO_FOLD);
        }
        self.run_call(&call, cast_slice(data), &mut [], NO_FOLD)
    }

    /// Block r of rank r's `data` becomes block r of everybody's `data`.
    pub fn all_gather_in_place<T: Pod>(&self, data: &mut [T]) -> Result<()> {
        let call = Call::of::<T>(Operation::Allgather, Lengths::Each(data.len() / self.size())).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), NO_FOLD)
    }

    /// The same with a block of `counts[r]` elements from rank r.
    pub fn all_gatherv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize]) -> Result<()> {
        self.check_counts(counts)?;
        let call = Call::of::<T>(Operation::Allgather, Lengths::Listed(counts)).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), NO_FOLD)
    }

    /// The root's `data` becomes the combination of everybody's; that of others is left as it is.
    pub fn reduce_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>, root: Rank) -> Result<()> {
        let is_root = self.rank() == root;
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Reduce { root }, Lengths::Vector(data.len())).reducing(&op).in_place();
        if is_root {
            return self.run_call(&call, &[], cast_slice_mut(data), Some(fold_bytes(op)));
        }
        self.run_call(&call, cast_slice(data), &mut [], Some(fold_bytes(op)))
    }

    /// Everybody's `data` becomes their combination, element by element.
    pub fn all_reduce_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = Call::of::<T>(Operation::Allreduce, Lengths::Vector(data.len())).reducing(&op).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), Some(fold_bytes(op)))
    }

    /// The front of rank r's `data` becomes block r of the combination of everybody's. All blocks have the same length;
    /// what lies behind the front is of no use afterwards.
    pub fn reduce_scatter_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let each = data.len() / self.size();
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Each(each)).reducing(&op).in_place();
        self.keep_own_block(&call, data, each, op)
    }

    /// The same with a block of `counts[r]` elements for rank r.
    pub fn reduce_scatterv_in_place<T: Pod>(
        &self,
        data: &mut [T],
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<()> {
        self.check_counts(counts)?;
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Listed(counts)).reducing(&op).in_place();
        self.keep_own_block(&call, data, counts[self.rank()], op)
    }

    /// Runs a reduce-scatter that may overwrite its input, and puts this rank's block to the front of it.
    fn keep_own_block<T: Pod>(
        &self,
        call: &Call<'_>,
        data: &mut [T],
        count: usize,
        op: impl Reduction<T>,
    ) -> Result<()> {
        // The front of the input is still needed when the block is made.
        let mut own = vec![T::zeroed(); count];
        self.run_overwriting(call, cast_slice_mut(data), cast_slice_mut(&mut own), Rc::new(fold_bytes(op)))?;
        data[..count].copy_from_slice(&own);
        Ok(())
    }

    /// Block j of rank i's `data` becomes block i of rank j's `data`. All blocks have the same length. The blocks are
    /// copied first.
    pub fn all_to_all_in_place<T: Pod>(&self, data: &mut [T]) -> Result<()> {
        let blocks = data.to_vec();
        self.all_to_all(&blocks, data)
    }

    /// The same with `counts[j]` elements to rank j, and as many from it: those that it has for this rank.
    pub fn all_to_allv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize]) -> Result<()> {
        let blocks = data.to_vec();
        self.all_to_allv(&blocks, counts, data, counts)
    }

    /// The `data` of rank r becomes the combination of that of ranks 0 to r.
    pub fn scan_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = Call::of::<T>(Operation::Scan, Lengths::Vector(data.len())).reducing(&op).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), Some(fold_bytes(op)))
    }

    /// The `data` of rank r becomes the combination of that of ranks 0 to r - 1. Rank 0's is left as it is.
    pub fn exscan_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = Call::of::<T>(Operation::Exscan, Lengths::Vector(data.len())).reducing(&op).in_place();
        self.run_call(&call, &[], cast_slice_mut(data), Some(fold_bytes(op)))
    }
}
