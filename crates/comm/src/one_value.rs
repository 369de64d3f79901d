//! Collective operations and messages of one value, without slices: `comm.allreduce_one(x, Sum)`.

use treepie_base::{Error, Pod, Rank, Reduction, Result, Source, Status, Tag, TagMatch};

use crate::collective::{ReduceBytes, TypedCall};
use crate::comm::Comm;

impl Comm {
    /// Like [`send`](Self::send), of one value.
    pub fn send_one<T: Pod>(&self, value: T, to: Rank, tag: Tag) -> Result<()> {
        self.send(&[value], to, tag)
    }

    /// Like [`recv`](Self::recv), of one value.
    ///
    /// # Errors
    /// [`Error::Truncated`] for a longer message, which can still be received; [`Error::BadLength`] for a shorter one,
    /// which is consumed.
    pub fn recv_one<T: Pod>(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<(T, Status)> {
        let mut value = [T::zeroed()];
        let status = self.recv(&mut value, from, tag)?;
        if status.bytes != size_of::<T>() as u64 {
            return Err(Error::BadLength { what: "the message", got: status.count::<T>(), expected: 1 });
        }
        Ok((value[0], status))
    }

    /// Runs a call whose output is one value.
    fn run_to_one<T: Pod, F: ReduceBytes>(&self, call: Result<TypedCall<'_, T, F>>, input: &[T]) -> Result<T> {
        let mut value = [T::zeroed()];
        self.run(call, input, &mut value)?;
        Ok(value[0])
    }

    /// Like [`bcast`](Self::bcast), of one value: returns the root's. The values of other ranks do not matter.
    pub fn bcast_one<T: Pod>(&self, value: T, root: Rank) -> Result<T> {
        let mut value = [value];
        self.bcast(&mut value, root)?;
        Ok(value[0])
    }

    /// Like [`scatter`](Self::scatter), of one value for each rank: returns `values[rank]` of the root. Non-root ranks
    /// pass an empty slice.
    pub fn scatter_one<T: Pod>(&self, values: &[T], root: Rank) -> Result<T> {
        self.run_to_one(self.scatter_call(1, root), values)
    }

    /// Like [`gather`](Self::gather), of one value of each rank: returns all values, by rank, on the root, and `None`
    /// elsewhere.
    pub fn gather_one<T: Pod>(&self, value: T, root: Rank) -> Result<Option<Vec<T>>> {
        let all = self.run_to_vec(self.gather_call(1, root), &[value])?;
        Ok((self.rank() == root).then_some(all))
    }

    /// Like [`allgather`](Self::allgather), of one value of each rank: returns all values, by rank.
    pub fn allgather_one<T: Pod>(&self, value: T) -> Result<Vec<T>> {
        self.run_to_vec(self.allgather_call(1), &[value])
    }

    /// Like [`alltoall`](Self::alltoall), of one value for each rank: returns what each rank has for this one.
    pub fn alltoall_one<T: Pod>(&self, values: &[T]) -> Result<Vec<T>> {
        self.run_to_vec(self.alltoall_call(1), values)
    }

    /// Like [`reduce`](Self::reduce), of one value of each rank: returns the reduction on the root, and `None`
    /// elsewhere.
    pub fn reduce_one<T: Pod>(&self, value: T, op: impl Reduction<T>, root: Rank) -> Result<Option<T>> {
        let is_root = self.rank() == root;
        let mut into = [T::zeroed()];
        self.run(self.reduce_call(1, op, root), &[value], &mut into[..usize::from(is_root)])?;
        Ok(is_root.then_some(into[0]))
    }

    /// Like [`allreduce`](Self::allreduce), of one value of each rank.
    ///
    /// ```
    /// # use treepie_comm::{Comm, Sum};
    /// # let world = Comm::world(Box::new(treepie_fabric::Singleton::new()));
    /// assert_eq!(world.allreduce_one(3, Sum)?, 3 * world.size() as i32);
    /// # treepie_comm::Result::Ok(())
    /// ```
    pub fn allreduce_one<T: Pod>(&self, value: T, op: impl Reduction<T>) -> Result<T> {
        self.run_to_one(self.allreduce_call(1, op), &[value])
    }

    /// Like [`scan`](Self::scan), of one value of each rank: returns the reduction over ranks up to this one.
    pub fn scan_one<T: Pod>(&self, value: T, op: impl Reduction<T>) -> Result<T> {
        self.run_to_one(self.scan_call(1, op), &[value])
    }

    /// Like [`exscan`](Self::exscan), of one value of each rank: returns the reduction over the ranks before this one,
    /// and `None` on rank 0.
    pub fn exscan_one<T: Pod>(&self, value: T, op: impl Reduction<T>) -> Result<Option<T>> {
        let before = self.run_to_one(self.exscan_call(1, op), &[value])?;
        Ok((self.rank() > 0).then_some(before))
    }
}
