//! Collective operations that go on while the program does something else.

mod borrowed;

use std::cell::RefCell;
use std::rc::Rc;

use treepie_base::{Bytes, Lender, Pod, Rank, Reduction, Region, Result};
use treepie_fabric::Id;
use treepie_schedule::Operation;

use super::blocking::fold_bytes;
use super::executor::Execution;
use super::job::{Buffers, Fold, Job};
use super::{Call, Form, Lengths};
use crate::checked::Announced;
use crate::comm::Comm;
use crate::request::{Finish, Request};

/// Fills a region with elements of the operation's output once it is over.
fn take_output<T: Pod>(execution: &Rc<RefCell<Execution>>) -> Vec<T> {
    let output = execution.borrow_mut().take_output();
    match output.into_bytes().map(Bytes::into_vec) {
        Some(Ok(elements)) => elements,
        _ => unreachable!("the output of an operation that is over is nobody else's"),
    }
}

impl Comm {
    fn begin(
        &self,
        announced: Announced,
        execution: &Rc<RefCell<Execution>>,
        instance: u32,
        lender: Option<Lender>,
    ) -> Id {
        execution.borrow_mut().start(instance);
        self.spawn(announced, execution.clone(), lender)
    }

    /// Begins an operation that owns its buffers.
    fn start_call<T: Pod>(
        &self,
        call: &Call<'_>,
        input: Vec<T>,
        output: Vec<T>,
        fold: Option<Fold>,
    ) -> Result<Request<'static, Vec<T>>> {
        let announced = self.announce(|| self.describe(call, Form::Nonblocking));
        // Taken first: a rank that is refused the call must not stay behind those that are not.
        let instance = self.next_instance();
        let job = self.checked_job(instance, call, fold, (size_of_val(&input[..]), size_of_val(&output[..])))?;
        let buffers = Buffers::new(Region::from(Bytes::from(input)), Region::from(Bytes::from(output)));
        let execution = Rc::new(RefCell::new(Execution::new(job, buffers, Vec::new())));
        let id = self.begin(announced, &execution, instance, None);
        Ok(Request::new(self, id, Finish::Kept(Box::new(move || Ok(take_output(&execution))))))
    }

    /// Begins an operation without data.
    pub(crate) fn start_without_data(&self, call: &Call<'_>) -> Result<Request<'static, ()>> {
        let announced = self.announce(|| self.describe(call, Form::Nonblocking));
        let instance = self.next_instance();
        let empty = || Region::from(Bytes::zeroed(0, 1));
        let job = self.unless_refused(instance, self.job(call, None))?;
        let execution = Execution::new(job, Buffers::new(empty(), empty()), Vec::new());
        let id = self.begin(announced, &Rc::new(RefCell::new(execution)), instance, None);
        Ok(Request::new(self, id, Finish::Envelope(|_, _| Ok(()))))
    }

    /// Begins to bring the root's `data` to everybody; the request gives it. Others give a vector of the same length.
    pub fn ibcast<T: Pod>(&self, data: Vec<T>, root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Bcast { root }, Lengths::Vector(data.len()));
        self.start_call(&call, Vec::new(), data, None)
    }

    /// Begins to bring block r of the root's `data` to rank r; the request gives it. All blocks have `count` elements.
    pub fn iscatter<T: Pod>(&self, data: Vec<T>, count: usize, root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Scatter { root }, Lengths::Each(count));
        self.start_call(&call, data, vec![T::zeroed(); count], None)
    }

    /// The same with a block of `counts[r]` elements for rank r.
    pub fn iscatterv<T: Pod>(&self, data: Vec<T>, counts: &[usize], root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let lengths = Lengths::Private(counts, counts);
        let call = Call::of::<T>(Operation::Scatter { root }, lengths);
        self.start_call(&call, data, vec![T::zeroed(); counts[self.rank()]], None)
    }

    /// Begins to bring everybody's `data`, all of one length, to the root; its request gives it, others give nothing.
    pub fn igather<T: Pod>(&self, data: Vec<T>, root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Gather { root }, Lengths::Each(data.len()));
        let room = if self.rank() == root as usize { data.len() * self.size() } else { 0 };
        self.start_call(&call, data, vec![T::zeroed(); room], None)
    }

    /// The same with `counts[r]` elements from rank r.
    pub fn igatherv<T: Pod>(&self, data: Vec<T>, counts: &[usize], root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        self.check_counts(counts)?;
        let lengths = Lengths::Private(counts, counts);
        let call = Call::of::<T>(Operation::Gather { root }, lengths);
        let room = if self.rank() == root as usize { counts.iter().sum() } else { 0 };
        self.start_call(&call, data, vec![T::zeroed(); room], None)
    }

    /// Begins to bring everybody's `data`, all of one length, to everybody.
    pub fn iall_gather<T: Pod>(&self, data: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        let call = Call::of::<T>(Operation::Allgather, Lengths::Each(data.len()));
        let room = data.len() * self.size();
        self.start_call(&call, data, vec![T::zeroed(); room], None)
    }

    /// The same with `counts[r]` elements from rank r.
    pub fn iall_gatherv<T: Pod>(&self, data: Vec<T>, counts: &[usize]) -> Result<Request<'static, Vec<T>>> {
        self.check_counts(counts)?;
        let call = Call::of::<T>(Operation::Allgather, Lengths::Listed(counts));
        self.start_call(&call, data, vec![T::zeroed(); counts.iter().sum()], None)
    }

    /// Begins to combine everybody's `data` for the root; its request gives the result, others give nothing.
    pub fn ireduce<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>, root: Rank) -> Result<Request<'static, Vec<T>>> {
        let root = self.check_root(root)?;
        let call = Call::of::<T>(Operation::Reduce { root }, Lengths::Vector(data.len())).reducing(&op);
        let room = if self.rank() == root as usize { data.len() } else { 0 };
        self.start_call(&call, data, vec![T::zeroed(); room], Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to combine everybody's `data` for everybody.
    pub fn iall_reduce<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>) -> Result<Request<'static, Vec<T>>> {
        let call = Call::of::<T>(Operation::Allreduce, Lengths::Vector(data.len())).reducing(&op);
        let room = data.len();
        self.start_call(&call, data, vec![T::zeroed(); room], Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to combine everybody's `data`, a block of one length for each rank; each rank's request gives its block.
    pub fn ireduce_scatter<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>) -> Result<Request<'static, Vec<T>>> {
        let each = data.len() / self.size();
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Each(each)).reducing(&op);
        self.start_call(&call, data, vec![T::zeroed(); each], Some(Rc::new(fold_bytes(op))))
    }

    /// The same with a block of `counts[r]` elements for rank r.
    pub fn ireduce_scatterv<T: Pod>(
        &self,
        data: Vec<T>,
        counts: &[usize],
        op: impl Reduction<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        self.check_counts(counts)?;
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Listed(counts)).reducing(&op);
        self.start_call(&call, data, vec![T::zeroed(); counts[self.rank()]], Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to bring block j of rank i's `data` to rank j, as its block i. All blocks have the same length.
    pub fn iall_to_all<T: Pod>(&self, data: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        let call = Call::of::<T>(Operation::Alltoall, Lengths::Each(data.len() / self.size()));
        let room = data.len();
        self.start_call(&call, data, vec![T::zeroed(); room], None)
    }

    /// The same with `to[j]` elements to rank j, and `from[i]` elements from rank i.
    pub fn iall_to_allv<T: Pod>(&self, data: Vec<T>, to: &[usize], from: &[usize]) -> Result<Request<'static, Vec<T>>> {
        self.check_counts(to)?;
        self.check_counts(from)?;
        if let Some(route) = self.asked_route().map_err(|error| self.refused(error))? {
            return self.start_blocks(route, (data, to), from);
        }
        let call = Call::of::<T>(Operation::Alltoall, Lengths::Private(to, from));
        self.start_call(&call, data, vec![T::zeroed(); from.iter().sum()], None)
    }

    /// Begins to combine the `data` of ranks 0 to r for rank r.
    pub fn iscan<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>) -> Result<Request<'static, Vec<T>>> {
        let call = Call::of::<T>(Operation::Scan, Lengths::Vector(data.len())).reducing(&op);
        let room = data.len();
        self.start_call(&call, data, vec![T::zeroed(); room], Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to combine the `data` of ranks 0 to r - 1 for rank r. Rank 0 gets zeros.
    pub fn iexscan<T: Pod>(&self, data: Vec<T>, op: impl Reduction<T>) -> Result<Request<'static, Vec<T>>> {
        let call = Call::of::<T>(Operation::Exscan, Lengths::Vector(data.len())).reducing(&op);
        let room = data.len();
        self.start_call(&call, data, vec![T::zeroed(); room], Some(Rc::new(fold_bytes(op))))
    }

    /// A prepared execution of a call.
    pub(super) fn prepare(&self, call: &Call<'_>, fold: Option<Fold>) -> Result<(Job, usize, usize)> {
        let job = self.job(call, fold)?;
        let places = job.places();
        let sizes = (places.size(treepie_schedule::Buf::In), places.size(treepie_schedule::Buf::Out));
        Ok((job, sizes.0, sizes.1))
    }

    /// `call` says in words what it is.
    pub(super) fn begin_again(&self, execution: &Rc<RefCell<Execution>>, call: &str) -> Id {
        let announced = self.announce(|| call.to_owned());
        self.begin(announced, execution, self.next_instance(), None)
    }
}
