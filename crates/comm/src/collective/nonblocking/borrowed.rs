//! The same on slices that are borrowed until a scope ends.

mod in_place;

use std::cell::RefCell;
use std::rc::Rc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Pod, Rank, Reduction, Region, Result};
use treepie_schedule::Operation;

use crate::collective::blocking::fold_bytes;
use crate::collective::executor::Execution;
use crate::collective::job::{Buffers, Fold, Shared};
use crate::collective::{Call, Form, Lengths};
use crate::request::{Finish, Request};
use crate::scope::Scope;

impl<'scope> Scope<'scope, '_> {
    fn start_call<T: Pod>(
        &self,
        call: &Call<'_>,
        input: &'scope [T],
        output: &'scope mut [T],
        fold: Option<Fold>,
    ) -> Result<Request<'scope, ()>> {
        self.start_with(call, self.lending().region(cast_slice(input)), output, fold)
    }

    /// Begins an operation whose input may be its own. Where it is done in place, an input that is part of the output is
    /// empty here.
    fn start_with<T: Pod>(
        &self,
        call: &Call<'_>,
        input: Region,
        output: &'scope mut [T],
        fold: Option<Fold>,
    ) -> Result<Request<'scope, ()>> {
        let comm = self.comm();
        let announced = comm.announce(|| comm.describe(call, Form::Nonblocking));
        // Taken first: a rank that is refused the call must not stay behind those that are not.
        let instance = comm.next_instance();
        let job = comm.checked_job(instance, call, fold, (input.len(), size_of_val(output)))?;
        let output = self.lending().region_mut(cast_slice_mut(output));
        let buffers = if call.in_place && job.shared() != Shared::Nothing {
            Buffers::shared(&job, output)
        } else {
            Buffers::new(input, output)
        };
        let execution = Rc::new(RefCell::new(Execution::new(job, buffers, Vec::new())));
        let id = comm.begin(announced, &execution, instance, Some(self.lending().lender()));
        self.note(id);
        Ok(Request::new(comm, id, Finish::Envelope(|_, _| Ok(()))).kept())
    }

    /// Begins to bring the root's `data` to everybody's.
    pub fn ibcast<T: Pod>(&self, data: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        let call = Call::of::<T>(Operation::Bcast { root }, Lengths::Vector(data.len()));
        self.start_call(&call, &[], data, None)
    }

    /// Begins to bring block r of the root's `data` into rank r's `into`. Others than the root give an empty `data`.
    pub fn iscatter<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        let call = Call::of::<T>(Operation::Scatter { root }, Lengths::Each(into.len()));
        self.start_call(&call, data, into, None)
    }

    /// The same with a block of `counts[r]` elements for rank r. All ranks give the same counts.
    pub fn iscatterv<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        self.comm().check_counts(counts)?;
        let call = Call::of::<T>(Operation::Scatter { root }, Lengths::Private(counts, counts));
        self.start_call(&call, data, into, None)
    }

    /// Begins to bring rank r's `data` into block r of the root's `into`. Others than the root give an empty `into`.
    pub fn igather<T: Pod>(&self, data: &'scope [T], into: &'scope mut [T], root: Rank) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        let call = Call::of::<T>(Operation::Gather { root }, Lengths::Each(data.len()));
        self.start_call(&call, data, into, None)
    }

    /// The same with a block of `counts[r]` elements from rank r. All ranks give the same counts.
    pub fn igatherv<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        self.comm().check_counts(counts)?;
        let call = Call::of::<T>(Operation::Gather { root }, Lengths::Private(counts, counts));
        self.start_call(&call, data, into, None)
    }

    /// Begins to bring everybody's `data` into everybody's `into`.
    pub fn iall_gather<T: Pod>(&self, data: &'scope [T], into: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let call = Call::of::<T>(Operation::Allgather, Lengths::Each(data.len()));
        self.start_call(&call, data, into, None)
    }

    /// The same with `counts[r]` elements from rank r.
    pub fn iall_gatherv<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
    ) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(counts)?;
        let call = Call::of::<T>(Operation::Allgather, Lengths::Listed(counts));
        self.start_call(&call, data, into, None)
    }

    /// Begins to combine everybody's `data` into the root's `into`. Others give an empty one.
    pub fn ireduce<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
        root: Rank,
    ) -> Result<Request<'scope, ()>> {
        let root = self.comm().check_root(root)?;
        let call = Call::of::<T>(Operation::Reduce { root }, Lengths::Vector(data.len())).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to combine everybody's `data` into everybody's `into`.
    pub fn iall_reduce<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = Call::of::<T>(Operation::Allreduce, Lengths::Vector(data.len())).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to combine everybody's `data`, and to bring block r of it into rank r's `into`.
    pub fn ireduce_scatter<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Each(into.len())).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(fold_bytes(op))))
    }

    /// The same with a block of `counts[r]` elements for rank r.
    pub fn ireduce_scatterv<T: Pod>(
        &self,
        data: &'scope [T],
        counts: &[usize],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(counts)?;
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Listed(counts)).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to bring block j of rank i's `data` into block i of rank j's `into`.
    pub fn iall_to_all<T: Pod>(&self, data: &'scope [T], into: &'scope mut [T]) -> Result<Request<'scope, ()>> {
        let call = Call::of::<T>(Operation::Alltoall, Lengths::Each(data.len() / self.comm().size()));
        self.start_call(&call, data, into, None)
    }

    /// The same with `to[j]` elements to rank j, and `from[i]` elements from rank i. Algorithms that store and forward
    /// are refused here.
    pub fn iall_to_allv<T: Pod>(
        &self,
        data: &'scope [T],
        to: &[usize],
        into: &'scope mut [T],
        from: &[usize],
    ) -> Result<Request<'scope, ()>> {
        self.comm().check_counts(to)?;
        self.comm().check_counts(from)?;
        let call = Call::of::<T>(Operation::Alltoall, Lengths::Private(to, from));
        self.start_call(&call, data, into, None)
    }

    /// Begins to combine the `data` of ranks 0 to r into rank r's `into`.
    pub fn iscan<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = Call::of::<T>(Operation::Scan, Lengths::Vector(data.len())).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(fold_bytes(op))))
    }

    /// Begins to combine the `data` of ranks 0 to r - 1 into rank r's `into`. Rank 0's is left as it is.
    pub fn iexscan<T: Pod>(
        &self,
        data: &'scope [T],
        into: &'scope mut [T],
        op: impl Reduction<T>,
    ) -> Result<Request<'scope, ()>> {
        let call = Call::of::<T>(Operation::Exscan, Lengths::Vector(data.len())).reducing(&op);
        self.start_call(&call, data, into, Some(Rc::new(fold_bytes(op))))
    }
}
