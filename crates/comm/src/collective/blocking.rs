//! Blocking collective operations on borrowed slices.
//!
//! In place, one slice has the input before and the output afterwards. All ranks must call that form.

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Bytes, Pod, Rank, Reduction, Result};
use treepie_schedule::Operation;

use super::call::{CollectiveCall, InPlaceBuffer, ReduceBytes, ReduceFn, TypedCall};
use crate::comm::Comm;

impl Comm {
    /// Runs a call. If its arguments are refused, other ranks learn of it.
    pub(crate) fn run<T: Pod, F: ReduceBytes>(
        &self,
        call: Result<TypedCall<'_, T, F>>,
        input: &[T],
        output: &mut [T],
    ) -> Result<()> {
        let call = self.accept_blocking(call)?;
        self.run_call(&call.call, cast_slice(input), cast_slice_mut(output), call.fold())
    }

    /// Runs a call with a new vector for its output.
    pub(crate) fn run_to_vec<T: Pod, F: ReduceBytes>(
        &self,
        call: Result<TypedCall<'_, T, F>>,
        input: &[T],
    ) -> Result<Vec<T>> {
        let call = self.accept_blocking(call)?;
        let (_, len) = call.call.lengths(self.rank() as u32, self.size() as u32);
        let mut output = vec![T::zeroed(); len];
        self.run_call(&call.call, cast_slice(input), cast_slice_mut(&mut output), call.fold())?;
        Ok(output)
    }

    /// Runs a call in place.
    fn run_in_place<T: Pod, F: ReduceBytes>(&self, call: Result<TypedCall<'_, T, F>>, data: &mut [T]) -> Result<()> {
        let call = self.accept_blocking(call)?;
        self.run_call_in_place(&call.call.in_place(), cast_slice_mut(data), call.fold())
    }

    fn run_call_in_place(&self, call: &CollectiveCall<'_>, data: &mut [u8], fold: Option<&ReduceFn>) -> Result<()> {
        match call.in_place_buffer(self.rank() as u32) {
            InPlaceBuffer::Output => self.run_call(call, &[], data, fold),
            InPlaceBuffer::Input => self.run_call(call, data, &mut [], fold),
            InPlaceBuffer::Separate if call.operation == Operation::ReduceScatter => {
                self.run_overwriting(call, data, fold)
            }
            InPlaceBuffer::Separate => {
                let input = Bytes::copy_of(data, call.align);
                self.run_call(call, input.as_slice(), data, fold)
            }
        }
    }

    /// The call, unless its arguments are refused; then other ranks learn of it.
    #[inline]
    pub(crate) fn accept<C>(&self, call: Result<C>) -> Result<C> {
        call.map_err(|error| self.refuse_call(error))
    }

    /// Broadcast: the root's `data` is copied to `data` of every rank.
    pub fn bcast<T: Pod>(&self, data: &mut [T], root: Rank) -> Result<()> {
        self.run(self.bcast_call(data.len(), root), &[], data)
    }

    /// Scatter: block r of the root's `data` is copied to `into` of rank r. Non-root ranks pass an empty `data`.
    pub fn scatter<T: Pod>(&self, data: &[T], into: &mut [T], root: Rank) -> Result<()> {
        self.run(self.scatter_call(into.len(), root), data, into)
    }

    /// Like [`scatter`](Self::scatter), with `counts[r]` elements for rank r. All ranks pass the same counts.
    pub fn scatterv<T: Pod>(&self, data: &[T], counts: &[usize], into: &mut [T], root: Rank) -> Result<()> {
        self.run(self.scatterv_call(counts, root), data, into)
    }

    /// Gather: `data` of rank r becomes block r of the root's `into`. Non-root ranks pass an empty `into`.
    pub fn gather<T: Pod>(&self, data: &[T], into: &mut [T], root: Rank) -> Result<()> {
        self.run(self.gather_call(data.len(), root), data, into)
    }

    /// Like [`gather`](Self::gather), with `counts[r]` elements from rank r. All ranks pass the same counts.
    pub fn gatherv<T: Pod>(&self, data: &[T], counts: &[usize], into: &mut [T], root: Rank) -> Result<()> {
        self.run(self.gatherv_call(counts, root), data, into)
    }

    /// Allgather: `data` of rank r becomes block r of `into` on every rank.
    pub fn allgather_into<T: Pod>(&self, data: &[T], into: &mut [T]) -> Result<()> {
        self.run(self.allgather_call(data.len()), data, into)
    }

    /// Allgather: returns the concatenation of `data` of all ranks, which has the same length on all.
    pub fn allgather<T: Pod>(&self, data: &[T]) -> Result<Vec<T>> {
        self.run_to_vec(self.allgather_call(data.len()), data)
    }

    /// Allgather of `counts[r]` elements from rank r, which become block r of `into` on every rank.
    pub fn allgatherv<T: Pod>(&self, data: &[T], counts: &[usize], into: &mut [T]) -> Result<()> {
        self.run(self.allgatherv_call(counts), data, into)
    }

    /// Reduce: the elementwise reduction of `data` of all ranks is stored in the root's `into`. Non-root ranks pass an
    /// empty `into`.
    pub fn reduce<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>, root: Rank) -> Result<()> {
        self.run(self.reduce_call(data.len(), op, root), data, into)
    }

    /// Allreduce: the elementwise reduction of `data` of all ranks is stored in `into` on every rank.
    pub fn allreduce_into<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        self.run(self.allreduce_call(data.len(), op), data, into)
    }

    /// Allreduce: returns the elementwise reduction of `data` of all ranks.
    pub fn allreduce<T: Pod>(&self, data: &[T], op: impl Reduction<T>) -> Result<Vec<T>> {
        let call = self.accept_blocking(self.allreduce_call(data.len(), op))?;
        let mut into = data.to_vec();
        self.run_call(&call.call.on_copy_of_input(), &[], cast_slice_mut(&mut into), call.fold())?;
        Ok(into)
    }

    /// Reduce-scatter: block r of the elementwise reduction of `data` is stored in `into` of rank r. All blocks have
    /// the length of `into`.
    pub fn reduce_scatter_block<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        self.run(self.reduce_scatter_block_call(into.len(), op), data, into)
    }

    /// Like [`reduce_scatter_block`](Self::reduce_scatter_block), with `counts[r]` elements for rank r.
    pub fn reduce_scatter<T: Pod>(
        &self,
        data: &[T],
        counts: &[usize],
        into: &mut [T],
        op: impl Reduction<T>,
    ) -> Result<()> {
        self.run(self.reduce_scatter_call(counts, op), data, into)
    }

    /// All-to-all: block j of `data` of rank i becomes block i of `into` of rank j. All blocks have the same length.
    pub fn alltoall<T: Pod>(&self, data: &[T], into: &mut [T]) -> Result<()> {
        self.run(self.alltoall_call(self.block_len(data.len())), data, into)
    }

    /// Like [`alltoall`](Self::alltoall), with `to[j]` elements to rank j and `from[i]` elements from rank i.
    pub fn alltoallv<T: Pod>(&self, data: &[T], to: &[usize], into: &mut [T], from: &[usize]) -> Result<()> {
        self.run(self.alltoallv_call(to, from), data, into)
    }

    /// Inclusive scan: the reduction of `data` of ranks 0 to r is stored in `into` of rank r.
    pub fn scan<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        self.run(self.scan_call(data.len(), op), data, into)
    }

    /// Exclusive scan: the reduction of `data` of ranks 0 to r - 1 is stored in `into` of rank r. Rank 0's `into` is
    /// unchanged.
    pub fn exscan<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        self.run(self.exscan_call(data.len(), op), data, into)
    }

    /// In-place scatter: the root passes all blocks in `data` and its own block stays there; other ranks pass a buffer
    /// for their block.
    pub fn scatter_in_place<T: Pod>(&self, data: &mut [T], root: Rank) -> Result<()> {
        self.run_in_place(self.scatter_call(self.block_len_at_root(data.len(), root), root), data)
    }

    /// Like [`scatter_in_place`](Self::scatter_in_place), with `counts[r]` elements for rank r. All ranks pass the same
    /// counts.
    pub fn scatterv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        self.run_in_place(self.scatterv_call(counts, root), data)
    }

    /// In-place gather: the root's contribution must already be in its block of `data`; other ranks pass their block.
    pub fn gather_in_place<T: Pod>(&self, data: &mut [T], root: Rank) -> Result<()> {
        self.run_in_place(self.gather_call(self.block_len_at_root(data.len(), root), root), data)
    }

    /// Like [`gather_in_place`](Self::gather_in_place), with `counts[r]` elements from rank r. All ranks pass the same
    /// counts.
    pub fn gatherv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        self.run_in_place(self.gatherv_call(counts, root), data)
    }

    /// In-place allgather: block r of `data` of rank r becomes block r of `data` on every rank.
    pub fn allgather_in_place<T: Pod>(&self, data: &mut [T]) -> Result<()> {
        self.run_in_place(self.allgather_call(self.block_len(data.len())), data)
    }

    /// Like [`allgather_in_place`](Self::allgather_in_place), with `counts[r]` elements from rank r.
    pub fn allgatherv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize]) -> Result<()> {
        self.run_in_place(self.allgatherv_call(counts), data)
    }

    /// In-place reduce: the root's `data` becomes the reduction of `data` of all ranks; `data` of other ranks is
    /// unchanged.
    pub fn reduce_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>, root: Rank) -> Result<()> {
        self.run_in_place(self.reduce_call(data.len(), op, root), data)
    }

    /// In-place allreduce: `data` of every rank becomes the elementwise reduction of all of them.
    pub fn allreduce_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        self.run_in_place(self.allreduce_call(data.len(), op), data)
    }

    /// In-place reduce-scatter: the first block of `data` of rank r becomes block r of the reduction. All blocks have
    /// the same length; the rest of `data` is unspecified afterwards.
    pub fn reduce_scatter_block_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        self.run_in_place(self.reduce_scatter_block_call(self.block_len(data.len()), op), data)
    }

    /// Like [`reduce_scatter_block_in_place`](Self::reduce_scatter_block_in_place), with `counts[r]` elements for rank
    /// r.
    pub fn reduce_scatter_in_place<T: Pod>(
        &self,
        data: &mut [T],
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<()> {
        self.run_in_place(self.reduce_scatter_call(counts, op), data)
    }

    /// In-place all-to-all: block j of `data` of rank i becomes block i of `data` of rank j. All blocks have the same
    /// length. `data` is copied first.
    pub fn alltoall_in_place<T: Pod>(&self, data: &mut [T]) -> Result<()> {
        self.run_in_place(self.alltoall_call(self.block_len(data.len())), data)
    }

    /// Like [`alltoall_in_place`](Self::alltoall_in_place), with `counts[j]` elements to rank j and `counts[j]` from
    /// it.
    pub fn alltoallv_in_place<T: Pod>(&self, data: &mut [T], counts: &[usize]) -> Result<()> {
        self.run_in_place(self.alltoallv_call(counts, counts), data)
    }

    /// In-place inclusive scan: `data` of rank r becomes the reduction of `data` of ranks 0 to r.
    pub fn scan_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        self.run_in_place(self.scan_call(data.len(), op), data)
    }

    /// In-place exclusive scan: `data` of rank r becomes the reduction of `data` of ranks 0 to r - 1. Rank 0's is
    /// unchanged.
    pub fn exscan_in_place<T: Pod>(&self, data: &mut [T], op: impl Reduction<T>) -> Result<()> {
        self.run_in_place(self.exscan_call(data.len(), op), data)
    }
}
