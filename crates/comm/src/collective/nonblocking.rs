//! Nonblocking collective operations.

mod borrowed;

use std::cell::RefCell;
use std::rc::Rc;

use treepie_base::{BorrowScopeId, Bytes, Pod, Rank, Reduction, Region, Result};
use treepie_fabric::OpId;
use treepie_schedule::Operation;

use super::blocking::reduce_bytes_fn;
use super::executor::Execution;
use super::job::{CollectiveBuffers, CollectiveJob, RcReduceFn};
use super::{BlockCounts, CallMode, CollectiveCall};
use crate::checked::AnnouncedCall;
use crate::comm::Comm;
use crate::request::{Finish, Request};

/// The output of a completed operation as a vector.
fn take_output<T: Pod>(execution: &Rc<RefCell<Execution>>) -> Vec<T> {
    let output = execution.borrow_mut().take_output();
    match output.into_bytes().map(Bytes::into_vec) {
        Some(Ok(elements)) => elements,
        _ => unreachable!("the output of a completed operation has one owner"),
    }
}

impl Comm {
    fn begin(
        &self,
        announced: AnnouncedCall,
        execution: &Rc<RefCell<Execution>>,
        instance: u32,
        lender: Option<BorrowScopeId>,
    ) -> OpId {
        execution.borrow_mut().start(instance);
        self.spawn(announced, execution.clone(), lender)
    }

    /// Starts an operation that owns its buffers.
    fn start_call<T: Pod>(
        &self,
        call: &CollectiveCall<'_>,
        input: Vec<T>,
        output: Vec<T>,
        fold: Option<RcReduceFn>,
    ) -> Result<Request<'static, Vec<T>>> {
        let announced = self.announce(|| self.describe(call, CallMode::Nonblocking));
        // Taken first: a rank whose call is refused must not fall behind the others.
        let instance = self.next_instance();
        let job = self.checked_job(instance, call, fold, (size_of_val(&input[..]), size_of_val(&output[..])))?;
        let buffers = CollectiveBuffers::new(Region::from(Bytes::from(input)), Region::from(Bytes::from(output)));
        let execution = Rc::new(RefCell::new(Execution::new(job, buffers, Vec::new())));
        let id = self.begin(announced, &execution, instance, None);
        Ok(Request::new(self, id, Finish::Deferred(Box::new(move || Ok(take_output(&execution))))))
    }

    /// Starts an operation without data.
    pub(crate) fn start_without_data(&self, call: &CollectiveCall<'_>) -> Result<Request<'static, ()>> {
        let announced = self.announce(|| self.describe(call, CallMode::Nonblocking));
        let instance = self.next_instance();
        let empty = || Region::from(Bytes::zeroed(0, 1));
        let job = self.abort_if_refused(instance, self.job(call, None))?;
        let execution = Execution::new(job, CollectiveBuffers::new(empty(), empty()), Vec::new());
        let id = self.begin(announced, &Rc::new(RefCell::new(execution)), instance, None);
        Ok(Request::new(self, id, Finish::Envelope(|_, _| Ok(()))))
    }

    /// Starts a broadcast; the request returns the root's `data`. Non-root ranks pass a vector of the same length.
    pub fn ibcast<T: Pod>(&self, data: Vec<T>, root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Bcast { root }, BlockCounts::Vector(data.len()));
        self.start_call(&call, Vec::new(), data, None)
    }

    /// Starts a scatter; the request of rank r returns block r of the root's `data`. All blocks have `count` elements.
    pub fn iscatter<T: Pod>(&self, data: Vec<T>, count: usize, root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Scatter { root }, BlockCounts::Uniform(count));
        self.start_call(&call, data, vec![T::zeroed(); count], None)
    }

    /// Like [`iscatter`](Self::iscatter), with `counts[r]` elements for rank r.
    pub fn iscatterv<T: Pod>(&self, data: Vec<T>, counts: &[usize], root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let block_counts = BlockCounts::LocalOnly(counts, counts);
        let call = CollectiveCall::of::<T>(Operation::Scatter { root }, block_counts);
        self.start_call(&call, data, vec![T::zeroed(); counts[self.rank()]], None)
    }

    /// Starts a gather of `data`, which has the same length on all ranks; the root's request returns all blocks, others
    /// return an empty vector.
    pub fn igather<T: Pod>(&self, data: Vec<T>, root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Gather { root }, BlockCounts::Uniform(data.len()));
        let len = if self.rank() == root as usize { data.len() * self.size() } else { 0 };
        self.start_call(&call, data, vec![T::zeroed(); len], None)
    }

    /// Like [`igather`](Self::igather), with `counts[r]` elements from rank r.
    pub fn igatherv<T: Pod>(&self, data: Vec<T>, counts: &[usize], root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let block_counts = BlockCounts::LocalOnly(counts, counts);
        let call = CollectiveCall::of::<T>(Operation::Gather { root }, block_counts);
        let len = if self.rank() == root as usize { counts.iter().sum() } else { 0 };
        self.start_call(&call, data, vec![T::zeroed(); len], None)
    }

    /// Starts an allgather of `data`, which has the same length on all ranks.
    pub fn iallgather<T: Pod>(&self, data: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        let call = CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::Uniform(data.len()));
        let len = data.len() * self.size();
        self.start_call(&call, data, vec![T::zeroed(); len], None)
    }

    /// Like [`iallgather`](Self::iallgather), with `counts[r]` elements from rank r.
    pub fn iallgatherv<T: Pod>(&self, data: Vec<T>, counts: &[usize]) -> Result<Request<'static, Vec<T>>> {
        self.check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::Allgather, BlockCounts::PerRank(counts));
        self.start_call(&call, data, vec![T::zeroed(); counts.iter().sum()], None)
    }

    /// Starts a reduce; the root's request returns the reduction, others return an empty vector.
    pub fn ireduce<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>, root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        let call = CollectiveCall::of::<T>(Operation::Reduce { root }, BlockCounts::Vector(data.len())).reducing(&op);
        let len = if self.rank() == root as usize { data.len() } else { 0 };
        self.start_call(&call, data, vec![T::zeroed(); len], Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an allreduce.
    pub fn iallreduce<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>) -> Result<Request<'static, Vec<T>>> {
        let call = CollectiveCall::of::<T>(Operation::Allreduce, BlockCounts::Vector(data.len())).reducing(&op);
        let len = data.len();
        self.start_call(&call, data, vec![T::zeroed(); len], Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts a reduce-scatter with blocks of one length; the request of rank r returns block r of the reduction.
    pub fn ireduce_scatter_block<T: Pod>(
        &self,
        data: Vec<T>,
        op: impl Reduction<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        let each = data.len() / self.size();
        let call = CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::Uniform(each)).reducing(&op);
        self.start_call(&call, data, vec![T::zeroed(); each], Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Like [`ireduce_scatter_block`](Self::ireduce_scatter_block), with `counts[r]` elements for rank r.
    pub fn ireduce_scatter<T: Pod>(
        &self,
        data: Vec<T>,
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        self.check_counts(counts)?;
        let call = CollectiveCall::of::<T>(Operation::ReduceScatter, BlockCounts::PerRank(counts)).reducing(&op);
        self.start_call(&call, data, vec![T::zeroed(); counts[self.rank()]], Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an all-to-all: block j of `data` of rank i becomes block i of the result of rank j. All blocks have the
    /// same length.
    pub fn ialltoall<T: Pod>(&self, data: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        let call = CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::Uniform(data.len() / self.size()));
        let len = data.len();
        self.start_call(&call, data, vec![T::zeroed(); len], None)
    }

    /// Like [`ialltoall`](Self::ialltoall), with `to[j]` elements to rank j and `from[i]` elements from rank i.
    pub fn ialltoallv<T: Pod>(&self, data: Vec<T>, to: &[usize], from: &[usize]) -> Result<Request<'static, Vec<T>>> {
        self.check_counts(to)?;
        self.check_counts(from)?;
        if let Some(scheme) = self.forwarding_scheme().map_err(|error| self.refuse_call(error))? {
            return self.ialltoallv_by_forwarding(scheme, (data, to), from);
        }
        let call = CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::LocalOnly(to, from));
        self.start_call(&call, data, vec![T::zeroed(); from.iter().sum()], None)
    }

    /// Starts an inclusive scan: rank r gets the reduction of `data` of ranks 0 to r.
    pub fn iscan<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>) -> Result<Request<'static, Vec<T>>> {
        let call = CollectiveCall::of::<T>(Operation::Scan, BlockCounts::Vector(data.len())).reducing(&op);
        let len = data.len();
        self.start_call(&call, data, vec![T::zeroed(); len], Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// Starts an exclusive scan: rank r gets the reduction of `data` of ranks 0 to r - 1. Rank 0 gets zeros.
    pub fn iexscan<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>) -> Result<Request<'static, Vec<T>>> {
        let call = CollectiveCall::of::<T>(Operation::Exscan, BlockCounts::Vector(data.len())).reducing(&op);
        let len = data.len();
        self.start_call(&call, data, vec![T::zeroed(); len], Some(Rc::new(reduce_bytes_fn(op))))
    }

    /// The job of a persistent operation, and the elements of its input and output.
    pub(super) fn persistent_job(
        &self,
        call: &CollectiveCall<'_>,
        fold: Option<RcReduceFn>,
    ) -> Result<(CollectiveJob, usize, usize)> {
        let job = self.job(call, fold)?;
        let buffer_map = job.buffer_map();
        let sizes =
            (buffer_map.buffer_len(treepie_schedule::Buf::In), buffer_map.buffer_len(treepie_schedule::Buf::Out));
        Ok((job, sizes.0, sizes.1))
    }

    /// Starts a persistent operation; `call` is its description.
    pub(super) fn start_persistent(&self, execution: &Rc<RefCell<Execution>>, call: &str) -> OpId {
        let announced = self.announce(|| call.to_owned());
        self.begin(announced, execution, self.next_instance(), None)
    }
}
