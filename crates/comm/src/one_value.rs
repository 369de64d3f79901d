//! Collective operations and messages of one value, without slices: `comm.allreduce_one(x, Sum)`.

use treepie_base::{Error, Pod, Rank, Reduction, Result, Source, Status, Tag, TagMatch};

use crate::comm::Comm;

impl Comm {
    /// Like [`send`](Self::send), of one value.
    pub fn send_one<T: Pod>(&self, value: T, to: Rank, tag: Tag) -> Result<()> {
        self.send(&[value], to, tag)
    }

    /// Like [`recv`](Self::recv), of one value.
    ///
    /// # Errors
    /// [`Error::Truncated`] for a longer message, which can still be received; [`Error::BadLength`] for a shorter one, which is
    /// consumed.
    pub fn recv_one<T: Pod>(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<(T, Status)> {
        let mut value = [T::zeroed()];
        let status = self.recv(&mut value, from, tag)?;
        if status.bytes != size_of::<T>() as u64 {
            return Err(Error::BadLength { what: "the message", got: status.count::<T>(), expected: 1 });
        }
        Ok((value[0], status))
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
        let mut value = [T::zeroed()];
        self.scatter(values, &mut value, root)?;
        Ok(value[0])
    }

    /// Like [`gather`](Self::gather), of one value of each rank: returns all values, by rank, on the root, and `None`
    /// elsewhere.
    pub fn gather_one<T: Pod>(&self, value: T, root: Rank) -> Result<Option<Vec<T>>> {
        let is_root = self.rank() == root;
        let mut all = vec![T::zeroed(); if is_root { self.size() } else { 0 }];
        self.gather(&[value], &mut all, root)?;
        Ok(is_root.then_some(all))
    }

    /// Like [`allgather`](Self::allgather), of one value of each rank: returns all values, by rank.
    pub fn allgather_one<T: Pod>(&self, value: T) -> Result<Vec<T>> {
        self.allgather(&[value])
    }

    /// Like [`alltoall`](Self::alltoall), of one value for each rank: returns what each rank has for this one.
    pub fn alltoall_one<T: Pod>(&self, values: &[T]) -> Result<Vec<T>> {
        let mut all = vec![T::zeroed(); self.size()];
        self.alltoall(values, &mut all)?;
        Ok(all)
    }

    /// Like [`reduce`](Self::reduce), of one value of each rank: returns the reduction on the root, and `None` elsewhere.
    pub fn reduce_one<T: Pod>(&self, value: T, op: impl Reduction<T>, root: Rank) -> Result<Option<T>> {
        let is_root = self.rank() == root;
        let mut into = [T::zeroed()];
        self.reduce(&[value], &mut into[..usize::from(is_root)], op, root)?;
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
        let mut into = [T::zeroed()];
        self.allreduce_into(&[value], &mut into, op)?;
        Ok(into[0])
    }

    /// Like [`scan`](Self::scan), of one value of each rank: returns the reduction over ranks up to this one.
    pub fn scan_one<T: Pod>(&self, value: T, op: impl Reduction<T>) -> Result<T> {
        let mut into = [T::zeroed()];
        self.scan(&[value], &mut into, op)?;
        Ok(into[0])
    }

    /// Like [`exscan`](Self::exscan), of one value of each rank: returns the reduction over the ranks before this one,
    /// and `None` on rank 0.
    pub fn exscan_one<T: Pod>(&self, value: T, op: impl Reduction<T>) -> Result<Option<T>> {
        let mut into = [T::zeroed()];
        self.exscan(&[value], &mut into, op)?;
        Ok((self.rank() > 0).then_some(into[0]))
    }
}
