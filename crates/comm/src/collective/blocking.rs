//! Blocking collective operations on borrowed slices.

mod in_place;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Pod, Rank, Reduction, Result};
use treepie_schedule::Operation;

use super::{BlockCounts, CollectiveCall, NO_REDUCE_FN};
use crate::comm::Comm;

/// A reduction on the bytes of elements of type `T`.
pub(crate) fn reduce_bytes_fn<T: Pod>(reduction: impl Reduction<T>) -> impl Fn(&mut [u8], &[u8], bool) + 'static {
    move |into, operand, left| reduction.reduce_local(cast_slice_mut(into), cast_slice(operand), left)
}

impl<'a> CollectiveCall<'a> {
    /// A call on elements of a type.
    pub(crate) fn of<T: Pod>(operation: Operation, counts: BlockCounts<'a>) -> Self {
        let (element, align) = (size_of::<T>(), align_of::<T>());
        Self { operation, counts, element, align, commutative: true, in_place: false, user_in_place: false }
    }

    pub(crate) fn reducing<T: Pod>(self, reduction: &impl Reduction<T>) -> Self {
        Self { commutative: reduction.is_commutative(), ..self }
    }

    pub(crate) fn in_place(self) -> Self {
        Self { in_place: true, user_in_place: true, ..self }
    }

    /// The same on a copy of the input that becomes the output; the program does not see that.
    pub(crate) fn on_copy_of_input(self) -> Self {
        Self { in_place: true, ..self }
    }
}

impl Comm {
    /// Broadcast: the root's `data` is copied to `data` of every rank.
    pub fn bcast<T: Pod>(&self, data: &mut [T], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Bcast { root }, BlockCounts::Vector(data.len()));
        self.run_call(&call, &[], cast_slice_mut(data), NO_REDUCE_FN)
    }

    /// Scatter: block r of the root's `data` is copied to `into` of rank r. Non-root ranks pass an empty `data`.
    pub fn scatter<T: Pod>(&self, data: &[T], into: &mut [T], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::Uniform(into.len()));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_REDUCE_FN)
    }

    /// Like [`scatter`](Self::scatter), with `counts[r]` elements for rank r. All ranks pass the same counts.
    pub fn scatterv<T: Pod>(&self, data: &[T], counts: &[usize], into: &mut [T], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::LocalOnly(counts, counts));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_REDUCE_FN)
    }

    /// Gather: `data` of rank r becomes block r of the root's `into`. Non-root ranks pass an empty `into`.
    pub fn gather<T: Pod>(&self, data: &[T], into: &mut [T], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::Uniform(data.len()));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_REDUCE_FN)
    }

    /// Like [`gather`](Self::gather), with `counts[r]` elements from rank r. All ranks pass the same counts.
    pub fn gatherv<T: Pod>(&self, data: &[T], counts: &[usize], into: &mut [T], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::LocalOnly(counts, counts));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_REDUCE_FN)
    }

    /// Allgather: `data` of rank r becomes block r of `into` on every rank.
    pub fn allgather_into<T: Pod>(&self, data: &[T], into: &mut [T]) -> Result<()> {
        let call = CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::Uniform(data.len()));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_REDUCE_FN)
    }

    /// Allgather: returns the concatenation of `data` of all ranks, which has the same length on all.
    pub fn allgather<T: Pod>(&self, data: &[T]) -> Result<Vec<T>> {
        let mut into = vec![T::zeroed(); data.len() * self.size()];
        self.allgather_into(data, &mut into)?;
        Ok(into)
    }

    /// Allgather of `counts[r]` elements from rank r, which become block r of `into` on every rank.
    pub fn allgatherv<T: Pod>(&self, data: &[T], counts: &[usize], into: &mut [T]) -> Result<()> {
        self.check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::PerRank(counts));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_REDUCE_FN)
    }

    /// Reduce: the elementwise reduction of `data` of all ranks is stored in the root's `into`. Non-root ranks pass an
    /// empty `into`.
    pub fn reduce<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>, root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Reduce { root }, BlockCounts::Vector(data.len())).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(reduce_bytes_fn(op)))
    }

    /// Allreduce: the elementwise reduction of `data` of all ranks is stored in `into` on every rank.
    pub fn allreduce_into<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = CollectiveCall::of::<T>(Operation::Allreduce, BlockCounts::Vector(data.len())).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(reduce_bytes_fn(op)))
    }

    /// Allreduce: returns the elementwise reduction of `data` of all ranks.
    pub fn allreduce<T: Pod>(&self, data: &[T], op: impl Reduction<T>) -> Result<Vec<T>> {
        let mut into = data.to_vec();
        let call = CollectiveCall::of::<T>(Operation::Allreduce, BlockCounts::Vector(data.len()))
            .reducing(&op)
            .on_copy_of_input();
        self.run_call(&call, &[], cast_slice_mut(&mut into), Some(reduce_bytes_fn(op)))?;
        Ok(into)
    }

    /// Reduce-scatter: block r of the elementwise reduction of `data` is stored in `into` of rank r. All blocks have
    /// the length of `into`.
    pub fn reduce_scatter_block<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::Uniform(into.len())).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(reduce_bytes_fn(op)))
    }

    /// Like [`reduce_scatter_block`](Self::reduce_scatter_block), with `counts[r]` elements for rank r.
    pub fn reduce_scatter<T: Pod>(
        &self,
        data: &[T],
        counts: &[usize],
        into: &mut [T],
        op: impl Reduction<T>,
    ) -> Result<()> {
        self.check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::PerRank(counts)).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(reduce_bytes_fn(op)))
    }

    /// All-to-all: block j of `data` of rank i becomes block i of `into` of rank j. All blocks have the same length.
    pub fn alltoall<T: Pod>(&self, data: &[T], into: &mut [T]) -> Result<()> {
        let call = CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::Uniform(data.len() / self.size()));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_REDUCE_FN)
    }

    /// Like [`alltoall`](Self::alltoall), with `to[j]` elements to rank j and `from[i]` elements from rank i.
    pub fn alltoallv<T: Pod>(&self, data: &[T], to: &[usize], into: &mut [T], from: &[usize]) -> Result<()> {
        self.check_counts(to)?;
        self.check_counts(from)?;
        if let Some(scheme) = self.forwarding_scheme().map_err(|error| self.refuse_call(error))? {
            return self.alltoallv_by_forwarding(scheme, (data, to), (into, from));
        }
        let call = CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::LocalOnly(to, from));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_REDUCE_FN)
    }

    /// Inclusive scan: the reduction of `data` of ranks 0 to r is stored in `into` of rank r.
    pub fn scan<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = CollectiveCall::of::<T>(Operation::Scan, BlockCounts::Vector(data.len())).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(reduce_bytes_fn(op)))
    }

    /// Exclusive scan: the reduction of `data` of ranks 0 to r - 1 is stored in `into` of rank r. Rank 0's `into` is
    /// unchanged.
    pub fn exscan<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = CollectiveCall::of::<T>(Operation::Exscan, BlockCounts::Vector(data.len())).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(reduce_bytes_fn(op)))
    }

    /// Refuses a root that does not exist. In checked mode other ranks learn of the refusal.
    pub(crate) fn check_root(&self, root: Rank) -> Result<u32> {
        self.check_rank(root).map_err(|error| self.refuse_call(error))
    }

    /// Refuses a list of counts of the wrong length, in the same way.
    pub(crate) fn check_counts(&self, counts: &[usize]) -> Result<()> {
        self.check_list(counts).map_err(|error| self.refuse_call(error))
    }

    /// The same without notifying other ranks.
    pub(crate) fn check_list(&self, counts: &[usize]) -> Result<()> {
        let (got, expected) = (counts.len(), self.size());
        if got == expected {
            return Ok(());
        }
        Err(treepie_base::Error::BadLength { what: "the list of counts", got, expected })
    }
}
