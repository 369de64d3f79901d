//! Nonblocking operations on borrowed slices.

use std::cell::RefCell;
use std::marker::PhantomData;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{BorrowScope, Pod, Rank, Result, Source, Status, Tag, TagMatch, borrow_scope};
use treepie_fabric::{OpId, RecvTarget, Started};

use crate::comm::Comm;
use crate::message::check_whole_elements;
use crate::request::{Finish, Request};

/// Starts operations on slices that are borrowed until the scope ends; created by [`Comm::scope`].
pub struct Scope<'scope, 'env> {
    comm: Comm,
    lending: &'scope BorrowScope<'scope>,
    env: PhantomData<&'scope &'env ()>,
    /// The operations started in it, except those whose results had been taken when the vector was last full.
    started: RefCell<Vec<OpId>>,
}

impl Comm {
    /// Runs `body`, in which nonblocking operations can borrow slices instead of owning vectors. When it returns `Ok`,
    /// waits for every operation that was started in it and not waited for; when it returns an error or panics,
    /// unmatched receives are cancelled first.
    pub fn scope<'env, R>(&self, body: impl for<'s, 'scope> FnOnce(&'s Scope<'scope, 'env>) -> Result<R>) -> Result<R> {
        let settle = |panicked| self.endpoint().settle(panicked);
        borrow_scope(
            |lending, env| {
                let scope = Scope { comm: self.clone(), lending, env, started: RefCell::default() };
                let result = body(&scope);
                scope.finish(result)
            },
            settle,
        )
    }
}

impl<'scope> Scope<'scope, '_> {
    pub(crate) fn comm(&self) -> &Comm {
        &self.comm
    }

    pub(crate) fn lending(&self) -> &'scope BorrowScope<'scope> {
        self.lending
    }

    /// Records a started operation, so that `finish` need not inspect all operations of the endpoint.
    pub(crate) fn track(&self, id: OpId) {
        let mut started = self.started.borrow_mut();
        if started.len() == started.capacity() {
            let endpoint = self.comm.endpoint();
            started.retain(|id| endpoint.exists(*id));
            // At least as many operations can be recorded before this is repeated.
            let additional = started.len().max(64);
            started.reserve(additional);
        }
        started.push(id);
    }

    /// Starts a send of `data`.
    pub fn isend<T: Pod>(&self, data: &'scope [T], to: Rank, tag: Tag) -> Result<Request<'scope, ()>> {
        self.start_send(data, to, tag, false)
    }

    /// Starts a synchronous send of `data`; the request completes when the matching receive has started.
    pub fn issend<T: Pod>(&self, data: &'scope [T], to: Rank, tag: Tag) -> Result<Request<'scope, ()>> {
        self.start_send(data, to, tag, true)
    }

    fn start_send<T: Pod>(
        &self,
        data: &'scope [T],
        to: Rank,
        tag: Tag,
        synchronous: bool,
    ) -> Result<Request<'scope, ()>> {
        let address = self.comm.address(to, tag, synchronous)?;
        let data = cast_slice(data);
        let mut endpoint = self.comm.endpoint();
        if endpoint.try_send(address, data) {
            return Ok(Request::ready(Ok(())));
        }
        let started = endpoint.isend(address, self.lending.lend(data))?;
        drop(endpoint);
        Ok(match started {
            Started::Done(_) => Request::ready(Ok(())),
            Started::Pending(id) => {
                self.track(id);
                Request::new(&self.comm, id, Finish::Envelope(|_, _| Ok(()))).detached()
            }
        })
    }

    /// Starts a receive into the beginning of `into`.
    pub fn irecv<T: Pod>(
        &self,
        into: &'scope mut [T],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope, Status>> {
        let select = self.comm.select(from, tag)?;
        let into = cast_slice_mut(into);
        let now = self.comm.endpoint().try_recv(select, into);
        if let Some(envelope) = now {
            return Ok(Request::ready(self.comm.status(envelope).and_then(check_whole_elements::<T>)));
        }
        let span = self.lending.lend_mut(into);
        let id = self.comm.endpoint().irecv(select, RecvTarget::Into(span));
        self.track(id);
        let finish = Finish::Envelope(|comm, envelope| comm.status(envelope).and_then(check_whole_elements::<T>));
        Ok(Request::new(&self.comm, id, finish).detached())
    }

    /// Completes or aborts the operations that were not waited for.
    fn finish<R>(&self, result: Result<R>) -> Result<R> {
        if self.lending.all_returned() {
            return result;
        }
        let mut first_error = None;
        let mut endpoint = self.comm.endpoint();
        for id in self.started.take() {
            if !endpoint.exists(id) {
                continue;
            }
            if result.is_err() {
                if !endpoint.abort_task(id) {
                    endpoint.abandon(id);
                }
            } else if let Err(error) = endpoint.wait_envelope(id) {
                first_error.get_or_insert(error);
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => result,
        }
    }
}
