//! The same in one slice, which has the input before and the output after. All ranks call this form.

use std::rc::Rc;

use treepie_base::{Bytes, Pod, Rank, Reduction, Region, Result};
use treepie_schedule::Operation;

use crate::collective::blocking::fold_bytes;
use crate::collective::job::Fold;
use crate::collective::{Call, Lengths};
use crate::request::Request;
use crate::scope::Scope;

impl<'scope> Scope<'scope, '_> {
    /// Begins a scatter without a block of the root to itself: the root gives all blocks and keeps its own where it is, others
    /// give room for their block.
    pub fn iscatter_in_place<T: Pod>(&self, data: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        let each = if self.comm().rank() == root { data.len() / self.comm().size() } else { data.len() };
        let root = self.comm().check_root(root)?;
        let call = Call::of::<T>(Operation::Scatter { root }, Lengths::Each(each)).in_place();
        self.start_call(&call, &[], data, None)
    }

    /// The same with a block of `counts[r]` elements for rank r. All ranks give the same counts.
    pub fn iscatterv_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        self.comm().check_counts(counts)?;
        let call = Call::of::<T>(Operation::Scatter { root }, Lengths::Private(counts, counts)).in_place();
        self.start_call(&call, &[], data, None)
    }

    /// Begins a gather into a `data` of the root that has its own block at its place already; others give their block.
    pub fn igather_in_place<T: Pod>(&self, data: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        let each = if self.comm().rank() == root { data.len() / self.comm().size() } else { data.len() };
        let is_root = self.comm().rank() == root;
        let root = self.comm().check_root(root)?;
        let call = Call::of::<T>(Operation::Gather { root }, Lengths::Each(each)).in_place();
        if is_root {
            return self.start_call(&call, &[], data, None);
        }
        self.start_call(&call, data, &mut [], None)
    }

    /// The same with a block of `counts[r]` elements from rank r. All ranks give the same counts.
    pub fn igatherv_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let is_root = self.comm().rank() == root;
        let root = self.comm().check_root(root)?;
        self.comm().check_counts(counts)?;
        let call = Call::of::<T>(Operation::Gather { root }, Lengths::Private(counts, counts)).in_place();
        if is_root {
            return self.start_call(&call, &[], data, None);
        }
        self.start_call(&call, data, &mut [], None)
    }

    /// Begins to bring block r of rank r's `data` to everybody's.
    pub fn iall_gather_in_place<T: Pod>(&self, data: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let call = Call::of::<T>(Operation::Allgather, Lengths::Each(data.len() / self.comm().size())).in_place();
        self.start_call(&call, &[], data, None)
    }

    /// The same with a block of `counts[r]` elements from rank r.
    pub fn iall_gatherv_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
    ) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(counts)?;
        let call = Call::of::<T>(Operation::Allgather, Lengths::Listed(counts)).in_place();
        self.start_call(&call, &[], data, None)
    }

    /// Begins to make the root's `data` the combination of everybody's; that of others is left as it is.
    pub fn ireduce_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let is_root = self.comm().rank() == root;
        let root = self.comm().check_root(root)?;
        let call = Call::of::<T>(Operation::Reduce { root }, Lengths::Vector(data.len())).reducing(&op).in_place();
        if is_root {
            return self.start_call(&call, &[], data, Some(Rc::new(fold_bytes(op))));
        }
        self.start_call(&call, data, &mut [], Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to make everybody's `data` their combination.
    pub fn iall_reduce_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = Call::of::<T>(Operation::Allreduce, Lengths::Vector(data.len())).reducing(&op).in_place();
        self.start_call(&call, &[], data, Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to make the front of rank r's `data` block r of the combination of everybody's. All blocks have the same
    /// length, and are copied first. What lies behind the front is of no use afterwards.
    pub fn ireduce_scatter_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let each = data.len() / self.comm().size();
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Each(each)).reducing(&op).in_place();
        self.start_call_by_copy(&call, data, each, Some(Rc::new(fold_bytes(op))))
    }

    /// The same with a block of `counts[r]` elements for rank r.
    pub fn ireduce_scatterv_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(counts)?;
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Listed(counts)).reducing(&op).in_place();
        self.start_call_by_copy(&call, data, counts[self.comm().rank()], Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to bring block j of rank i's `data` to block i of rank j's. All blocks have the same length, and are copied
    /// first.
    pub fn iall_to_all_in_place<T: Pod>(&self, data: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let (all, each) = (data.len(), data.len() / self.comm().size());
        let call = Call::of::<T>(Operation::Alltoall, Lengths::Each(each));
        self.start_call_by_copy(&call, data, all, None)
    }

    /// The same with `counts[j]` elements to rank j, and as many from it: those that it has for this rank. Algorithms that
    /// store and forward are refused here.
    pub fn iall_to_allv_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
    ) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(counts)?;
        let call = Call::of::<T>(Operation::Alltoall, Lengths::Private(counts, counts));
        let all = data.len();
        self.start_call_by_copy(&call, data, all, None)
    }

    /// Begins to make the `data` of rank r the combination of that of ranks 0 to r.
    pub fn iscan_in_place<T: Pod>(&self, data: &'scope mut [T], op: impl Reduction<T>) -> Result<Request<'scope, ()>> {
        let call = Call::of::<T>(Operation::Scan, Lengths::Vector(data.len())).reducing(&op).in_place();
        self.start_call(&call, &[], data, Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to make the `data` of rank r the combination of that of ranks 0 to r - 1. Rank 0's is left as it is.
    pub fn iexscan_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = Call::of::<T>(Operation::Exscan, Lengths::Vector(data.len())).reducing(&op).in_place();
        self.start_call(&call, &[], data, Some(Rc::new(fold_bytes(op))))
    }

    /// Begins an operation on a copy of `data`, whose output becomes the front of it.
    fn start_call_by_copy<T: Pod>(
        &self,
        call: &Call<'_>,
        data: &'scope mut [T],
        front: usize,
        fold: Option<Fold>,
    ) -> Result<Request<'scope, ()>> {
        let input = Region::from(Bytes::from(data.to_vec()));
        // A `data` that is shorter than its own block is refused as an input.
        let front = front.min(data.len());
        self.start_with(call, input, &mut data[..front], fold)
    }
}
