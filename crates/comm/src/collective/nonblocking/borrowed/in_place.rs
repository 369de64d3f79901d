//! In-place nonblocking collective operations: one slice has the input before and the output afterwards. All ranks must
//! call this form.

use std::rc::Rc;

use treepie_base::{Bytes, Pod, Rank, Reduction, Region, Result};
use treepie_schedule::Operation;

use crate::collective::blocking::reduce_bytes_fn;
use crate::collective::job::RcReduceFn;
use crate::collective::{BlockCounts, CollectiveCall};
use crate::request::Request;
use crate::scope::Scope;

impl<'scope> Scope<'scope, '_> {
    /// Starts an in-place scatter: the root passes all blocks and its own block stays there; other ranks pass a buffer
    /// for their block.
    pub fn iscatter_in_place<T: Pod>(&self, data: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        let each = if self.comm().rank() == root { data.len() / self.comm().size() } else { data.len() };
        let root = self.comm().check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::Uniform(each)).in_place();
        self.start_call(&call, &[], data, None)
    }

    /// Like [`iscatter_in_place`](Self::iscatter_in_place), with `counts[r]` elements for rank r. All ranks pass the
    /// same counts.
    pub fn iscatterv_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        self.comm().check_counts(counts)?;
        let call =
            CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::LocalOnly(counts, counts)).in_place();
        self.start_call(&call, &[], data, None)
    }

    /// Starts an in-place gather: the root's contribution must already be in its block of `data`; other ranks pass
    /// their block.
    pub fn igather_in_place<T: Pod>(&self, data: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        let each = if self.comm().rank() == root { data.len() / self.comm().size() } else { data.len() };
        let is_root = self.comm().rank() == root;
        let root = self.comm().check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::Uniform(each)).in_place();
        if is_root {
            return self.start_call(&call, &[], data, None);
        }
        self.start_call(&call, data, &mut [], None)
    }

    /// Like [`igather_in_place`](Self::igather_in_place), with `counts[r]` elements from rank r. All ranks pass the
    /// same counts.
    pub fn igatherv_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let is_root = self.comm().rank() == root;
        let root = self.comm().check_root(root)?;
        self.comm().check_counts(counts)?;
        let call =
            CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::LocalOnly(counts, counts)).in_place();
        if is_root {
            return self.start_call(&call, &[], data, None);
        }
        self.start_call(&call, data, &mut [], None)
    }

    /// Starts an in-place allgather: block r of `data` of rank r becomes block r of `data` on every rank.
    pub fn iallgather_in_place<T: Pod>(&self, data: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let call = CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::Uniform(data.len() / self.comm().size()))
            .in_place();
        self.start_call(&call, &[], data, None)
    }

    /// Like [`iallgather_in_place`](Self::iallgather_in_place), with `counts[r]` elements from rank r.
    pub fn iallgatherv_in_place<T: Pod>(&self, data: &'scope mut [T], counts: &[usize]) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::PerRank(counts)).in_place();
        self.start_call(&call, &[], data, None)
    }

    /// Starts an in-place reduce: the root's `data` becomes the reduction of `data` of all ranks; that of others is
    /// unchanged.
    pub fn ireduce_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let is_root = self.comm().rank() == root;
        let root = self.comm().check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Reduce { root }, BlockCounts::Vector(data.len()))
            .reducing(&op)
            .in_place();
        if is_root {
            return self.start_call(&call, &[], data, Some(Rc::new(reduce_bytes_fn(op))));
        }
        self.start_call(&call, data, &mut [], Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an in-place allreduce: `data` of every rank becomes the reduction of all of them.
    pub fn iallreduce_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call =
            CollectiveCall::of::<T>(Operation::Allreduce, BlockCounts::Vector(data.len())).reducing(&op).in_place();
        self.start_call(&call, &[], data, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an in-place reduce-scatter: the first block of `data` of rank r becomes block r of the reduction. All
    /// blocks have the same length; `data` is copied first. The rest of `data` is unspecified afterwards.
    pub fn ireduce_scatter_block_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let each = data.len() / self.comm().size();
        let call =
            CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::Uniform(each)).reducing(&op).in_place();
        self.start_call_on_copy(&call, data, each, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Like [`ireduce_scatter_block_in_place`](Self::ireduce_scatter_block_in_place), with `counts[r]` elements for
    /// rank r.
    pub fn ireduce_scatter_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(counts)?;
        let call =
            CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::PerRank(counts)).reducing(&op).in_place();
        self.start_call_on_copy(&call, data, counts[self.comm().rank()], Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an in-place all-to-all: block j of `data` of rank i becomes block i of `data` of rank j. All blocks have
    /// the same length; `data` is copied first.
    pub fn ialltoall_in_place<T: Pod>(&self, data: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let (all, each) = (data.len(), data.len() / self.comm().size());
        let call = CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::Uniform(each));
        self.start_call_on_copy(&call, data, all, None)
    }

    /// Like [`ialltoall_in_place`](Self::ialltoall_in_place), with `counts[j]` elements to rank j and `counts[j]` from
    /// it. Store-and-forward algorithms are refused here.
    pub fn ialltoallv_in_place<T: Pod>(&self, data: &'scope mut [T], counts: &[usize]) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::LocalOnly(counts, counts));
        let all = data.len();
        self.start_call_on_copy(&call, data, all, None)
    }

    /// Starts an in-place inclusive scan: `data` of rank r becomes the reduction of `data` of ranks 0 to r.
    pub fn iscan_in_place<T: Pod>(&self, data: &'scope mut [T], op: impl Reduction<T>) -> Result<Request<'scope, ()>> {
        let call = CollectiveCall::of::<T>(Operation::Scan, BlockCounts::Vector(data.len())).reducing(&op).in_place();
        self.start_call(&call, &[], data, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an in-place exclusive scan: `data` of rank r becomes the reduction of `data` of ranks 0 to r - 1. Rank
    /// 0's is unchanged.
    pub fn iexscan_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = CollectiveCall::of::<T>(Operation::Exscan, BlockCounts::Vector(data.len())).reducing(&op).in_place();
        self.start_call(&call, &[], data, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an operation on a copy of `data`, with its output in the first `output_len` elements of `data`.
    fn start_call_on_copy<T: Pod>(
        &self,
        call: &CollectiveCall<'_>,
        data: &'scope mut [T],
        output_len: usize,
        fold: Option<RcReduceFn>,
    ) -> Result<Request<'scope, ()>> {
        let input = Region::from(Bytes::from(data.to_vec()));
        // A `data` that is shorter than its output is refused as an input.
        let output_len = output_len.min(data.len());
        self.start_with(call, input, &mut data[..output_len], fold)
    }
}
