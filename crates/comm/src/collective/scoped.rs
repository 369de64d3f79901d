//! Nonblocking collective operations on slices that are borrowed until a scope ends.
//!
//! In place, one slice has the input before and the output afterwards. All ranks must call that form.

use std::cell::RefCell;
use std::rc::Rc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Bytes, Pod, Rank, Reduction, Region, Result};

use super::call::{CallMode, CollectiveCall, Fold, InPlaceBuffer, ReduceBytes, TypedCall};
use super::executor::Execution;
use super::job::{BufferAliasing, CollectiveBuffers};
use crate::request::{Finish, Request};
use crate::scope::Scope;

impl<'scope> Scope<'scope, '_> {
    /// Starts a call. If its arguments are refused, other ranks learn of it.
    fn start<T: Pod, F: ReduceBytes>(
        &self,
        call: Result<TypedCall<'_, T, F>>,
        input: &'scope [T],
        output: &'scope mut [T],
    ) -> Result<Request<'scope, ()>> {
        let call = self.comm().accept(call)?;
        let (call, fold) = (call.call, call.into_fold());
        self.start_call(&call, self.lending().region(cast_slice(input)), cast_slice_mut(output), fold)
    }

    /// Starts a call in place.
    fn start_in_place<T: Pod, F: ReduceBytes>(
        &self,
        call: Result<TypedCall<'_, T, F>>,
        data: &'scope mut [T],
    ) -> Result<Request<'scope, ()>> {
        let call = self.comm().accept(call)?;
        let (call, fold) = (call.call.in_place(), call.into_fold());
        self.start_call_in_place(&call, cast_slice_mut(data), fold)
    }

    fn start_call_in_place(
        &self,
        call: &CollectiveCall<'_>,
        data: &'scope mut [u8],
        fold: Option<Fold<'static>>,
    ) -> Result<Request<'scope, ()>> {
        match call.in_place_buffer(self.comm().rank() as u32) {
            InPlaceBuffer::Output => self.start_call(call, self.lending().region(&[]), data, fold),
            InPlaceBuffer::Input => self.start_call(call, self.lending().region(data), &mut [], fold),
            InPlaceBuffer::Separate => {
                let input = Region::from(Bytes::copy_of(data, call.align));
                // A `data` that is shorter than its output is refused as an input.
                let len = self.comm().buffer_sizes(call).1.min(data.len());
                self.start_call(call, input, &mut data[..len], fold)
            }
        }
    }

    fn start_call(
        &self,
        call: &CollectiveCall<'_>,
        input: Region,
        output: &'scope mut [u8],
        fold: Option<Fold<'static>>,
    ) -> Result<Request<'scope, ()>> {
        let comm = self.comm();
        let announced = comm.announce(|| comm.describe(call, CallMode::Nonblocking));
        // Taken first: a rank whose call is refused must not fall behind the others.
        let instance = comm.next_instance();
        let job = comm.checked_job(instance, call, (input.len(), output.len()))?;
        let output = self.lending().region_mut(output);
        let buffers = if call.in_place && job.aliasing() != BufferAliasing::Disjoint {
            CollectiveBuffers::aliased(&job, output)
        } else {
            CollectiveBuffers::new(input, output)
        };
        let execution = Rc::new(RefCell::new(Execution::new(job, fold, buffers, Vec::new())));
        let id = comm.begin(announced, &execution, instance, Some(self.lending().id()));
        self.track(id);
        Ok(Request::new(comm, id, Finish::Envelope(|_, _| Ok(()))).detached())
    }

    /// Starts a broadcast of the root's `data` to `data` of every rank.
    pub fn ibcast<T: Pod>(&self, data: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        self.start(self.comm().bcast_call(data.len(), root), &[], data)
    }

    /// Starts a scatter: block r of the root's `data` is copied to `into` of rank r. Non-root ranks pass an empty
    /// `data`.
    pub fn iscatter<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        self.start(self.comm().scatter_call(into.len(), root), data, into)
    }

    /// Like [`iscatter`](Self::iscatter), with `counts[r]` elements for rank r. All ranks pass the same counts.
    pub fn iscatterv<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        self.start(self.comm().scatterv_call(counts, root), data, into)
    }

    /// Starts a gather: `data` of rank r becomes block r of the root's `into`. Non-root ranks pass an empty `into`.
    pub fn igather<T: Pod>(&self, data: &'scope [T], into: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        self.start(self.comm().gather_call(data.len(), root), data, into)
    }

    /// Like [`igather`](Self::igather), with `counts[r]` elements from rank r. All ranks pass the same counts.
    pub fn igatherv<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        self.start(self.comm().gatherv_call(counts, root), data, into)
    }

    /// Starts an allgather: `data` of rank r becomes block r of `into` on every rank.
    pub fn iallgather<T: Pod>(&self, data: &'scope [T], into: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        self.start(self.comm().allgather_call(data.len()), data, into)
    }

    /// Like [`iallgather`](Self::iallgather), with `counts[r]` elements from rank r.
    pub fn iallgatherv<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
    ) -> Result<Request<'scope, ()>> {
        self.start(self.comm().allgatherv_call(counts), data, into)
    }

    /// Starts a reduce of `data` of all ranks into the root's `into`. Non-root ranks pass an empty `into`.
    pub fn ireduce<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        self.start(self.comm().reduce_call(data.len(), op, root), data, into)
    }

    /// Starts an allreduce of `data` of all ranks into `into` on every rank.
    pub fn iallreduce<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.start(self.comm().allreduce_call(data.len(), op), data, into)
    }

    /// Starts a reduce-scatter: block r of the reduction of `data` is stored in `into` of rank r. All blocks have the
    /// length of `into`.
    pub fn ireduce_scatter_block<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.start(self.comm().reduce_scatter_block_call(into.len(), op), data, into)
    }

    /// Like [`ireduce_scatter_block`](Self::ireduce_scatter_block), with `counts[r]` elements for rank r.
    pub fn ireduce_scatter<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.start(self.comm().reduce_scatter_call(counts, op), data, into)
    }

    /// Starts an all-to-all: block j of `data` of rank i becomes block i of `into` of rank j.
    pub fn ialltoall<T: Pod>(&self, data: &'scope [T], into: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let comm = self.comm();
        self.start(comm.alltoall_call(comm.block_len(data.len())), data, into)
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
        self.start(self.comm().alltoallv_call(to, from), data, into)
    }

    /// Starts an inclusive scan: the reduction of `data` of ranks 0 to r is stored in `into` of rank r.
    pub fn iscan<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.start(self.comm().scan_call(data.len(), op), data, into)
    }

    /// Starts an exclusive scan: the reduction of `data` of ranks 0 to r - 1 is stored in `into` of rank r. Rank 0's is
    /// unchanged.
    pub fn iexscan<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.start(self.comm().exscan_call(data.len(), op), data, into)
    }

    /// Starts an in-place scatter: the root passes all blocks and its own block stays there; other ranks pass a buffer
    /// for their block.
    pub fn iscatter_in_place<T: Pod>(&self, data: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        let comm = self.comm();
        self.start_in_place(comm.scatter_call(comm.block_len_at_root(data.len(), root), root), data)
    }

    /// Like [`iscatter_in_place`](Self::iscatter_in_place), with `counts[r]` elements for rank r. All ranks pass the
    /// same counts.
    pub fn iscatterv_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        self.start_in_place(self.comm().scatterv_call(counts, root), data)
    }

    /// Starts an in-place gather: the root's contribution must already be in its block of `data`; other ranks pass
    /// their block.
    pub fn igather_in_place<T: Pod>(&self, data: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        let comm = self.comm();
        self.start_in_place(comm.gather_call(comm.block_len_at_root(data.len(), root), root), data)
    }

    /// Like [`igather_in_place`](Self::igather_in_place), with `counts[r]` elements from rank r. All ranks pass the
    /// same counts.
    pub fn igatherv_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        self.start_in_place(self.comm().gatherv_call(counts, root), data)
    }

    /// Starts an in-place allgather: block r of `data` of rank r becomes block r of `data` on every rank.
    pub fn iallgather_in_place<T: Pod>(&self, data: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let comm = self.comm();
        self.start_in_place(comm.allgather_call(comm.block_len(data.len())), data)
    }

    /// Like [`iallgather_in_place`](Self::iallgather_in_place), with `counts[r]` elements from rank r.
    pub fn iallgatherv_in_place<T: Pod>(&self, data: &'scope mut [T], counts: &[usize]) -> Result<Request<'scope, ()>> {
        self.start_in_place(self.comm().allgatherv_call(counts), data)
    }

    /// Starts an in-place reduce: the root's `data` becomes the reduction of `data` of all ranks; that of others is
    /// unchanged.
    pub fn ireduce_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        self.start_in_place(self.comm().reduce_call(data.len(), op, root), data)
    }

    /// Starts an in-place allreduce: `data` of every rank becomes the reduction of all of them.
    pub fn iallreduce_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.start_in_place(self.comm().allreduce_call(data.len(), op), data)
    }

    /// Starts an in-place reduce-scatter: the first block of `data` of rank r becomes block r of the reduction. All
    /// blocks have the same length; `data` is copied first. The rest of `data` is unspecified afterwards.
    pub fn ireduce_scatter_block_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let comm = self.comm();
        self.start_in_place(comm.reduce_scatter_block_call(comm.block_len(data.len()), op), data)
    }

    /// Like [`ireduce_scatter_block_in_place`](Self::ireduce_scatter_block_in_place), with `counts[r]` elements for
    /// rank r.
    pub fn ireduce_scatter_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.start_in_place(self.comm().reduce_scatter_call(counts, op), data)
    }

    /// Starts an in-place all-to-all: block j of `data` of rank i becomes block i of `data` of rank j. All blocks have
    /// the same length; `data` is copied first.
    pub fn ialltoall_in_place<T: Pod>(&self, data: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let comm = self.comm();
        self.start_in_place(comm.alltoall_call(comm.block_len(data.len())), data)
    }

    /// Like [`ialltoall_in_place`](Self::ialltoall_in_place), with `counts[j]` elements to rank j and `counts[j]` from
    /// it. Store-and-forward algorithms are refused here.
    pub fn ialltoallv_in_place<T: Pod>(&self, data: &'scope mut [T], counts: &[usize]) -> Result<Request<'scope, ()>> {
        self.start_in_place(self.comm().alltoallv_call(counts, counts), data)
    }

    /// Starts an in-place inclusive scan: `data` of rank r becomes the reduction of `data` of ranks 0 to r.
    pub fn iscan_in_place<T: Pod>(&self, data: &'scope mut [T], op: impl Reduction<T>) -> Result<Request<'scope, ()>> {
        self.start_in_place(self.comm().scan_call(data.len(), op), data)
    }

    /// Starts an in-place exclusive scan: `data` of rank r becomes the reduction of `data` of ranks 0 to r - 1. Rank
    /// 0's is unchanged.
    pub fn iexscan_in_place<T: Pod>(
        &self,
        data: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.start_in_place(self.comm().exscan_call(data.len(), op), data)
    }
}
