//! Collective operations on borrowed slices, which return when this rank's part is done.

mod in_place;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Pod, Rank, Reduction, Result};
use treepie_schedule::Operation;

use super::{Call, Lengths, NO_FOLD};
use crate::comm::Comm;

/// Combines bytes that are elements of a type.
pub(crate) fn fold_bytes<T: Pod>(reduction: impl Reduction<T>) -> impl Fn(&mut [u8], &[u8], bool) + 'static {
    move |into, operand, left| reduction.fold(cast_slice_mut(into), cast_slice(operand), left)
}

impl<'a> Call<'a> {
    /// A call on elements of a type.
    pub(crate) fn of<T: Pod>(operation: Operation, lengths: Lengths<'a>) -> Self {
        let (element, align) = (size_of::<T>(), align_of::<T>());
        Self { operation, lengths, element, align, commutes: true, in_place: false, said_in_place: false }
    }

    pub(crate) fn reducing<T: Pod>(self, reduction: &impl Reduction<T>) -> Self {
        Self { commutes: reduction.commutes(), ..self }
    }

    pub(crate) fn in_place(self) -> Self {
        Self { in_place: true, said_in_place: true, ..self }
    }

    /// The same on a copy of the input that becomes the output, of which the program knows nothing.
    pub(crate) fn in_a_copy(self) -> Self {
        Self { in_place: true, ..self }
    }
}

impl Comm {
    /// The root's `data` comes to everybody's `data`.
    pub fn bcast<T: Pod>(&self, data: &mut [T], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Bcast { root }, Lengths::Vector(data.len()));
        self.run_call(&call, &[], cast_slice_mut(data), NO_FOLD)
    }

    /// Block r of the root's `data` comes to rank r's `into`. Others than the root give an empty `data`.
    pub fn scatter<T: Pod>(&self, data: &[T], into: &mut [T], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Scatter { root }, Lengths::Each(into.len()));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_FOLD)
    }

    /// The same with a block of `counts[r]` elements for rank r. All ranks give the same counts.
    pub fn scatterv<T: Pod>(&self, data: &[T], counts: &[usize], into: &mut [T], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let call = Call::of::<T>(Operation::Scatter { root }, Lengths::Private(counts, counts));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_FOLD)
    }

    /// Rank r's `data` becomes block r of the root's `into`. Others than the root give an empty `into`.
    pub fn gather<T: Pod>(&self, data: &[T], into: &mut [T], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Gather { root }, Lengths::Each(data.len()));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_FOLD)
    }

    /// The same with a block of `counts[r]` elements from rank r. All ranks give the same counts.
    pub fn gatherv<T: Pod>(&self, data: &[T], counts: &[usize], into: &mut [T], root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let call = Call::of::<T>(Operation::Gather { root }, Lengths::Private(counts, counts));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_FOLD)
    }

    /// Rank r's `data` becomes block r of everybody's `into`.
    pub fn all_gather_into<T: Pod>(&self, data: &[T], into: &mut [T]) -> Result<()> {
        let call = Call::of::<T>(Operation::Allgather, Lengths::Each(data.len()));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_FOLD)
    }

    /// Everybody's `data`, one after the other. All have the same length.
    pub fn all_gather<T: Pod>(&self, data: &[T]) -> Result<Vec<T>> {
        let mut into = vec![T::zeroed(); data.len() * self.size()];
        self.all_gather_into(data, &mut into)?;
        Ok(into)
    }

    /// Rank r's `data`, of `counts[r]` elements, becomes block r of everybody's `into`.
    pub fn all_gatherv<T: Pod>(&self, data: &[T], counts: &[usize], into: &mut [T]) -> Result<()> {
        self.check_counts(counts)?;
        let call = Call::of::<T>(Operation::Allgather, Lengths::Listed(counts));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_FOLD)
    }

    /// The combination of everybody's `data`, element by element, comes to the root's `into`. Others give an empty one.
    pub fn reduce<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>, root: Rank) -> Result<()> {
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Reduce { root }, Lengths::Vector(data.len())).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(fold_bytes(op)))
    }

    /// The combination of everybody's `data`, element by element, comes to everybody's `into`.
    pub fn all_reduce_into<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = Call::of::<T>(Operation::Allreduce, Lengths::Vector(data.len())).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(fold_bytes(op)))
    }

    /// The combination of everybody's `data`, element by element.
    pub fn all_reduce<T: Pod>(&self, data: &[T], op: impl Reduction<T>) -> Result<Vec<T>> {
        let mut into = data.to_vec();
        let call = Call::of::<T>(Operation::Allreduce, Lengths::Vector(data.len())).reducing(&op).in_a_copy();
        self.run_call(&call, &[], cast_slice_mut(&mut into), Some(fold_bytes(op)))?;
        Ok(into)
    }

    /// Block r of the combination of everybody's `data` comes to rank r's `into`. All blocks have the length of `into`.
    pub fn reduce_scatter<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Each(into.len())).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(fold_bytes(op)))
    }

    /// The same with a block of `counts[r]` elements for rank r.
    pub fn reduce_scatterv<T: Pod>(
        &self,
        data: &[T],
        counts: &[usize],
        into: &mut [T],
        op: impl Reduction<T>,
    ) -> Result<()> {
        self.check_counts(counts)?;
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Listed(counts)).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(fold_bytes(op)))
    }

    /// Block j of rank i's `data` becomes block i of rank j's `into`. All blocks have the same length.
    pub fn all_to_all<T: Pod>(&self, data: &[T], into: &mut [T]) -> Result<()> {
        let call = Call::of::<T>(Operation::Alltoall, Lengths::Each(data.len() / self.size()));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_FOLD)
    }

    /// The same with `to[j]` elements to rank j, and `from[i]` elements from rank i.
    pub fn all_to_allv<T: Pod>(&self, data: &[T], to: &[usize], into: &mut [T], from: &[usize]) -> Result<()> {
        self.check_counts(to)?;
        self.check_counts(from)?;
        if let Some(route) = self.asked_route().map_err(|error| self.refused(error))? {
            return self.run_blocks(route, (data, to), (into, from));
        }
        let call = Call::of::<T>(Operation::Alltoall, Lengths::Private(to, from));
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), NO_FOLD)
    }

    /// The combination of `data` of ranks 0 to r comes to rank r's `into`.
    pub fn scan<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = Call::of::<T>(Operation::Scan, Lengths::Vector(data.len())).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(fold_bytes(op)))
    }

    /// The combination of `data` of ranks 0 to r - 1 comes to rank r's `into`. Rank 0's is left as it is.
    pub fn exscan<T: Pod>(&self, data: &[T], into: &mut [T], op: impl Reduction<T>) -> Result<()> {
        let call = Call::of::<T>(Operation::Exscan, Lengths::Vector(data.len())).reducing(&op);
        self.run_call(&call, cast_slice(data), cast_slice_mut(into), Some(fold_bytes(op)))
    }

    /// Refuses a root that does not exist, also for others that compare their calls.
    pub(crate) fn check_root(&self, root: Rank) -> Result<u32> {
        self.check_rank(root).map_err(|error| self.refused(error))
    }

    /// Refuses a list of counts that does not fit, in the same way.
    pub(crate) fn check_counts(&self, counts: &[usize]) -> Result<()> {
        self.check_list(counts).map_err(|error| self.refused(error))
    }

    /// The same where no other rank is concerned.
    pub(crate) fn check_list(&self, counts: &[usize]) -> Result<()> {
        let (got, expected) = (counts.len(), self.size());
        if got == expected {
            return Ok(());
        }
        Err(treepie_base::Error::BadLength { what: "the list of counts", got, expected })
    }
}
