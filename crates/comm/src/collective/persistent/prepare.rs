//! Preparing each operation.

use std::rc::Rc;

use treepie_base::{Pod, Rank, Reduction, Result};
use treepie_schedule::Operation;

use super::super::blocking::fold_bytes;
use super::super::{Call, Lengths};
use super::Persistent;
use crate::comm::Comm;

impl Comm {
    /// Prepares a broadcast of `count` elements.
    pub fn bcast_init<T: Pod>(&self, count: usize, root: Rank) -> Result<Persistent<T>> {
        let root = self.check_rank(root)?;
        Persistent::new(self, &Call::of::<T>(Operation::Bcast { root }, Lengths::Vector(count)), None)
    }

    /// Prepares a scatter of `count` elements to each rank.
    pub fn scatter_init<T: Pod>(&self, count: usize, root: Rank) -> Result<Persistent<T>> {
        let root = self.check_rank(root)?;
        Persistent::new(self, &Call::of::<T>(Operation::Scatter { root }, Lengths::Each(count)), None)
    }

    /// Prepares a gather of `count` elements from each rank.
    pub fn gather_init<T: Pod>(&self, count: usize, root: Rank) -> Result<Persistent<T>> {
        let root = self.check_rank(root)?;
        Persistent::new(self, &Call::of::<T>(Operation::Gather { root }, Lengths::Each(count)), None)
    }

    /// Prepares an allgather of `count` elements from each rank.
    pub fn all_gather_init<T: Pod>(&self, count: usize) -> Result<Persistent<T>> {
        Persistent::new(self, &Call::of::<T>(Operation::Allgather, Lengths::Each(count)), None)
    }

    /// Prepares an allgather of `counts[r]` elements from rank r.
    pub fn all_gatherv_init<T: Pod>(&self, counts: &[usize]) -> Result<Persistent<T>> {
        self.check_list(counts)?;
        Persistent::new(self, &Call::of::<T>(Operation::Allgather, Lengths::Listed(counts)), None)
    }

    /// Prepares a reduction of `count` elements to the root.
    pub fn reduce_init<T: Pod>(&self, count: usize, op: impl Reduction<T>, root: Rank) -> Result<Persistent<T>> {
        let root = self.check_rank(root)?;
        let call = Call::of::<T>(Operation::Reduce { root }, Lengths::Vector(count)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }

    /// Prepares a reduction of `count` elements for everybody.
    pub fn all_reduce_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<Persistent<T>> {
        let call = Call::of::<T>(Operation::Allreduce, Lengths::Vector(count)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }

    /// Prepares a reduction of blocks of `count` elements, one for each rank.
    pub fn reduce_scatter_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<Persistent<T>> {
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Each(count)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }

    /// Prepares an all-to-all of blocks of `count` elements.
    pub fn all_to_all_init<T: Pod>(&self, count: usize) -> Result<Persistent<T>> {
        Persistent::new(self, &Call::of::<T>(Operation::Alltoall, Lengths::Each(count)), None)
    }

    /// Prepares a scan of `count` elements.
    pub fn scan_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<Persistent<T>> {
        let call = Call::of::<T>(Operation::Scan, Lengths::Vector(count)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }

    /// Prepares a scan of the ranks before each rank, of `count` elements.
    pub fn exscan_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<Persistent<T>> {
        let call = Call::of::<T>(Operation::Exscan, Lengths::Vector(count)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }

    /// Prepares a scatter of `counts[r]` elements to rank r. All ranks give the same counts.
    pub fn scatterv_init<T: Pod>(&self, counts: &[usize], root: Rank) -> Result<Persistent<T>> {
        let root = self.check_rank(root)?;
        self.check_list(counts)?;
        Persistent::new(self, &Call::of::<T>(Operation::Scatter { root }, Lengths::Private(counts, counts)), None)
    }

    /// Prepares a gather of `counts[r]` elements from rank r. All ranks give the same counts.
    pub fn gatherv_init<T: Pod>(&self, counts: &[usize], root: Rank) -> Result<Persistent<T>> {
        let root = self.check_rank(root)?;
        self.check_list(counts)?;
        Persistent::new(self, &Call::of::<T>(Operation::Gather { root }, Lengths::Private(counts, counts)), None)
    }

    /// Prepares a reduction of blocks of `counts[r]` elements for rank r.
    pub fn reduce_scatterv_init<T: Pod>(&self, counts: &[usize], op: impl Reduction<T>) -> Result<Persistent<T>> {
        self.check_list(counts)?;
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Listed(counts)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }

    /// Prepares an all-to-all of `to[j]` elements to rank j and `from[i]` elements from rank i. Not by an algorithm that stores
    /// and forwards: what is on the way there depends on what others send.
    pub fn all_to_allv_init<T: Pod>(&self, to: &[usize], from: &[usize]) -> Result<Persistent<T>> {
        self.check_list(to)?;
        self.check_list(from)?;
        Persistent::new(self, &Call::of::<T>(Operation::Alltoall, Lengths::Private(to, from)), None)
    }

    /// Prepares a barrier.
    pub fn barrier_init(&self) -> Result<Persistent<u8>> {
        Persistent::new(self, &Call::of::<u8>(Operation::Barrier, Lengths::Vector(0)), None)
    }
}
