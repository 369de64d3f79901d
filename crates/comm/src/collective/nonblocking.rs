//! Nonblocking collective operations that own their buffers.

use std::cell::RefCell;
use std::rc::Rc;

use treepie_base::{BorrowScopeId, Bytes, Pod, Rank, Reduction, Region, Result};
use treepie_fabric::{OpId, Task};
use treepie_schedule::Operation;

use super::call::{CallMode, CollectiveCall, Fold, ReduceBytes, TypedCall};
use super::executor::Execution;
use super::job::CollectiveBuffers;
use crate::checked::AnnouncedCall;
use crate::comm::Comm;
use crate::request::{Finish, Request};

/// A task that owns the output of its operation.
pub(crate) trait OutputTask: Task {
    /// Takes the output, which becomes empty.
    fn take_output(&mut self) -> Region;
}

impl Comm {
    /// Starts a call on `data`; the request returns the output.
    fn start<T: Pod, F: ReduceBytes>(
        &self,
        call: Result<TypedCall<'_, T, F>>,
        data: Vec<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        let call = self.accept(call)?;
        let (call, fold) = (call.call, call.into_fold());
        let (id, task) = self.start_call(&call, Bytes::from(data), fold)?;
        let take_output = move || {
            let output = task.borrow_mut().take_output();
            match output.into_bytes().map(Bytes::into_vec) {
                Some(Ok(elements)) => Ok(elements),
                _ => unreachable!("the output of a completed operation has one owner"),
            }
        };
        Ok(Request::new(self, id, Finish::Deferred(Box::new(take_output))))
    }

    fn start_call(
        &self,
        call: &CollectiveCall<'_>,
        data: Bytes,
        fold: Option<Fold<'static>>,
    ) -> Result<(OpId, Rc<RefCell<dyn OutputTask>>)> {
        let (_, output) = self.buffer_sizes(call);
        let data = Region::from(data);
        if let Some(forwarding) = self.forwarding(call)? {
            return self.start_forwarding(call, forwarding, &data, Region::from(Bytes::zeroed(output, call.align)));
        }
        let announced = self.announce(|| self.describe(call, CallMode::Nonblocking));
        // Taken first: a rank whose call is refused must not fall behind the others.
        let instance = self.next_instance();
        let is_output = matches!(call.operation, Operation::Bcast { .. });
        let input = if is_output { 0 } else { data.len() };
        let job = self.checked_job(instance, call, (input, output))?;
        let other = Region::from(Bytes::zeroed(if is_output { 0 } else { output }, call.align));
        let (input, output) = if is_output { (other, data) } else { (data, other) };
        let execution = Execution::new(job, fold, CollectiveBuffers::new(input, output), Vec::new());
        let execution = Rc::new(RefCell::new(execution));
        Ok((self.begin(announced, &execution, instance, None), execution))
    }

    /// Starts a barrier by messages.
    pub(crate) fn start_barrier(&self) -> Result<Request<'static, ()>> {
        let (id, _) = self.start_call(&self.barrier_call()?.call, Bytes::zeroed(0, 1), None)?;
        Ok(Request::new(self, id, Finish::Envelope(|_, _| Ok(()))))
    }

    pub(super) fn begin(
        &self,
        announced: AnnouncedCall,
        execution: &Rc<RefCell<Execution<'static>>>,
        instance: u32,
        lender: Option<BorrowScopeId>,
    ) -> OpId {
        execution.borrow_mut().start(instance);
        self.spawn(announced, execution.clone(), lender)
    }

    /// Starts a broadcast; the request returns the root's `data`. Non-root ranks pass a vector of the same length.
    pub fn ibcast<T: Pod>(&self, data: Vec<T>, root: Rank) -> Result<Request<'static, Vec<T>>> {
        self.start(self.bcast_call(data.len(), root), data)
    }

    /// Starts a scatter; the request of rank r returns block r of the root's `data`. All blocks have `count` elements.
    pub fn iscatter<T: Pod>(&self, data: Vec<T>, count: usize, root: Rank) -> Result<Request<'static, Vec<T>>> {
        self.start(self.scatter_call(count, root), data)
    }

    /// Like [`iscatter`](Self::iscatter), with `counts[r]` elements for rank r.
    pub fn iscatterv<T: Pod>(&self, data: Vec<T>, counts: &[usize], root: Rank) -> Result<Request<'static, Vec<T>>> {
        self.start(self.scatterv_call(counts, root), data)
    }

    /// Starts a gather of `data`, which has the same length on all ranks; the root's request returns all blocks, others
    /// return an empty vector.
    pub fn igather<T: Pod>(&self, data: Vec<T>, root: Rank) -> Result<Request<'static, Vec<T>>> {
        self.start(self.gather_call(data.len(), root), data)
    }

    /// Like [`igather`](Self::igather), with `counts[r]` elements from rank r.
    pub fn igatherv<T: Pod>(&self, data: Vec<T>, counts: &[usize], root: Rank) -> Result<Request<'static, Vec<T>>> {
        self.start(self.gatherv_call(counts, root), data)
    }

    /// Starts an allgather of `data`, which has the same length on all ranks.
    pub fn iallgather<T: Pod>(&self, data: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        self.start(self.allgather_call(data.len()), data)
    }

    /// Like [`iallgather`](Self::iallgather), with `counts[r]` elements from rank r.
    pub fn iallgatherv<T: Pod>(&self, data: Vec<T>, counts: &[usize]) -> Result<Request<'static, Vec<T>>> {
        self.start(self.allgatherv_call(counts), data)
    }

    /// Starts a reduce; the root's request returns the reduction, others return an empty vector.
    pub fn ireduce<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>, root: Rank) -> Result<Request<'static, Vec<T>>> {
        self.start(self.reduce_call(data.len(), op, root), data)
    }

    /// Starts an allreduce.
    pub fn iallreduce<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>) -> Result<Request<'static, Vec<T>>> {
        self.start(self.allreduce_call(data.len(), op), data)
    }

    /// Starts a reduce-scatter with blocks of one length; the request of rank r returns block r of the reduction.
    pub fn ireduce_scatter_block<T: Pod>(
        &self,
        data: Vec<T>,
        op: impl Reduction<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        self.start(self.reduce_scatter_block_call(self.block_len(data.len()), op), data)
    }

    /// Like [`ireduce_scatter_block`](Self::ireduce_scatter_block), with `counts[r]` elements for rank r.
    pub fn ireduce_scatter<T: Pod>(
        &self,
        data: Vec<T>,
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        self.start(self.reduce_scatter_call(counts, op), data)
    }

    /// Starts an all-to-all: block j of `data` of rank i becomes block i of the result of rank j. All blocks have the
    /// same length.
    pub fn ialltoall<T: Pod>(&self, data: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        self.start(self.alltoall_call(self.block_len(data.len())), data)
    }

    /// Like [`ialltoall`](Self::ialltoall), with `to[j]` elements to rank j and `from[i]` elements from rank i.
    pub fn ialltoallv<T: Pod>(&self, data: Vec<T>, to: &[usize], from: &[usize]) -> Result<Request<'static, Vec<T>>> {
        self.start(self.alltoallv_call(to, from), data)
    }

    /// Starts an inclusive scan: rank r gets the reduction of `data` of ranks 0 to r.
    pub fn iscan<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>) -> Result<Request<'static, Vec<T>>> {
        self.start(self.scan_call(data.len(), op), data)
    }

    /// Starts an exclusive scan: rank r gets the reduction of `data` of ranks 0 to r - 1. Rank 0 gets zeros.
    pub fn iexscan<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>) -> Result<Request<'static, Vec<T>>> {
        self.start(self.exscan_call(data.len(), op), data)
    }
}
