//! Nonblocking collective operations on slices that are borrowed until a scope ends.

mod in_place;

use std::cell::RefCell;
use std::rc::Rc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Pod, Rank, Reduction, Region, Result};
use treepie_schedule::Operation;

use crate::collective::blocking::reduce_bytes_fn;
use crate::collective::executor::Execution;
use crate::collective::job::{BufferAliasing, CollectiveBuffers, RcReduceFn};
use crate::collective::{BlockCounts, CallMode, CollectiveCall};
use crate::request::{Finish, Request};
use crate::scope::Scope;

impl<'scope> Scope<'scope, '_> {
    fn start_call<T: Pod>(
        &self,
        call: &CollectiveCall<'_>,
        input: &'scope [T],
        output: &'scope mut [T],
        fold: Option<RcReduceFn>,
    ) -> Result<Request<'scope, ()>> {
        self.start_with(call, self.lending().region(cast_slice(input)), output, fold)
    }

    /// Starts an operation that may own its input. In place, an input that is part of the output is empty here.
    fn start_with<T: Pod>(
        &self,
        call: &CollectiveCall<'_>,
        input: Region,
        output: &'scope mut [T],
        fold: Option<RcReduceFn>,
    ) -> Result<Request<'scope, ()>> {
        let comm = self.comm();
        let announced = comm.announce(|| comm.describe(call, CallMode::Nonblocking));
        // Taken first: a rank whose call is refused must not fall behind the others.
        let instance = comm.next_instance();
        let job = comm.checked_job(instance, call, fold, (input.len(), size_of_val(output)))?;
        let output = self.lending().region_mut(cast_slice_mut(output));
        let buffers = if call.in_place && job.aliasing() != BufferAliasing::Disjoint {
            CollectiveBuffers::aliased(&job, output)
        } else {
            CollectiveBuffers::new(input, output)
        };
        let execution = Rc::new(RefCell::new(Execution::new(job, buffers, Vec::new())));
        let id = comm.begin(announced, &execution, instance, Some(self.lending().id()));
        self.track(id);
        Ok(Request::new(comm, id, Finish::Envelope(|_, _| Ok(()))).detached())
    }

    /// Starts a broadcast of the root's `data` to `data` of every rank.
    pub fn ibcast<T: Pod>(&self, data: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Bcast { root }, BlockCounts::Vector(data.len()));
        self.start_call(&call, &[], data, None)
    }

    /// Starts a scatter: block r of the root's `data` is copied to `into` of rank r. Non-root ranks pass an empty
    /// `data`.
    pub fn iscatter<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::Uniform(into.len()));
        self.start_call(&call, data, into, None)
    }

    /// Like [`iscatter`](Self::iscatter), with `counts[r]` elements for rank r. All ranks pass the same counts.
    pub fn iscatterv<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        self.comm().check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::LocalOnly(counts, counts));
        self.start_call(&call, data, into, None)
    }

    /// Starts a gather: `data` of rank r becomes block r of the root's `into`. Non-root ranks pass an empty `into`.
    pub fn igather<T: Pod>(&self, data: &'scope [T], into: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::Uniform(data.len()));
        self.start_call(&call, data, into, None)
    }

    /// Like [`igather`](Self::igather), with `counts[r]` elements from rank r. All ranks pass the same counts.
    pub fn igatherv<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        self.comm().check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::LocalOnly(counts, counts));
        self.start_call(&call, data, into, None)
    }

    /// Starts an allgather: `data` of rank r becomes block r of `into` on every rank.
    pub fn iallgather<T: Pod>(&self, data: &'scope [T], into: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let call = CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::Uniform(data.len()));
        self.start_call(&call, data, into, None)
    }

    /// Like [`iallgather`](Self::iallgather), with `counts[r]` elements from rank r.
    pub fn iallgatherv<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
    ) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::PerRank(counts));
        self.start_call(&call, data, into, None)
    }

    /// Starts a reduce of `data` of all ranks into the root's `into`. Non-root ranks pass an empty `into`.
    pub fn ireduce<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Reduce { root }, BlockCounts::Vector(data.len())).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an allreduce of `data` of all ranks into `into` on every rank.
    pub fn iallreduce<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = CollectiveCall::of::<T>(Operation::Allreduce, BlockCounts::Vector(data.len())).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts a reduce-scatter: block r of the reduction of `data` is stored in `into` of rank r. All blocks have the
    /// length of `into`.
    pub fn ireduce_scatter_block<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::Uniform(into.len())).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Like [`ireduce_scatter_block`](Self::ireduce_scatter_block), with `counts[r]` elements for rank r.
    pub fn ireduce_scatter<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::PerRank(counts)).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an all-to-all: block j of `data` of rank i becomes block i of `into` of rank j.
    pub fn ialltoall<T: Pod>(&self, data: &'scope [T], into: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let call = CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::Uniform(data.len() / self.comm().size()));
        self.start_call(&call, data, into, None)
    }

    /// Like [`ialltoall`](Self::ialltoall), with `to[j]` elements to rank j and `from[i]` elements from rank i.
    /// Store-and-forward algorithms are refused here.
    pub fn ialltoallv<T: Pod>(
        &self,
        data: &'scope [T],
        to: &[usize],
        into: &'scope mut [T],
        from: &[usize],
    ) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(to)?;
        self.comm().check_counts(from)?;
        let call = CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::LocalOnly(to, from));
        self.start_call(&call, data, into, None)
    }

    /// Starts an inclusive scan: the reduction of `data` of ranks 0 to r is stored in `into` of rank r.
    pub fn iscan<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = CollectiveCall::of::<T>(Operation::Scan, BlockCounts::Vector(data.len())).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an exclusive scan: the reduction of `data` of ranks 0 to r - 1 is stored in `into` of rank r. Rank 0's is
    /// unchanged.
    pub fn iexscan<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = CollectiveCall::of::<T>(Operation::Exscan, BlockCounts::Vector(data.len())).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(reduce_bytes_fn(op))))
    }
}
