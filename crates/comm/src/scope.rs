//! Nonblocking operations on borrowed slices.

use std::cell::RefCell;
use std::marker::PhantomData;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Lending, Pod, Rank, Result, Source, Status, Tag, TagMatch, lending};
use treepie_fabric::{Id, Started, Target};

use crate::comm::Comm;
use crate::point::whole;
use crate::request::{Finish, Request};

/// Begins operations on slices that are borrowed until the scope ends; made by [`Comm::scope`].
pub struct Scope<'scope, 'env> {
    comm: Comm,
    lending: &'scope Lending<'scope>,
    begun: RefCell<Vec<Id>>,
    env: PhantomData<&'scope &'env ()>,
}

impl Comm {
    /// Runs `body`, in which nonblocking operations can borrow slices instead of owning vectors. When it returns `Ok`,
    /// everything that was begun in it and not waited for is waited for; when it returns an error or panics, receives
    /// without message are cancelled first.
    pub fn scope<'env, R>(&self, body: impl for<'s, 'scope> FnOnce(&'s Scope<'scope, 'env>) -> Result<R>) -> Result<R> {
        let settle = |panicked| self.endpoint().settle(panicked);
        lending(
            |lending, env| {
                let scope = Scope { comm: self.clone(), lending, begun: RefCell::new(Vec::new()), env };
                let result = body(&scope);
                scope.end(result)
            },
            settle,
        )
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Begins to send `data`.
    pub fn isend<T: Pod>(&self, data: &'scope [T], to: Rank, tag: Tag) -> Result<Request<'scope, ()>> {
        self.start_send(data, to, tag, false)
    }

    /// Begins to send `data`; the request is done when the receive has begun.
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
        if endpoint.send_now(address, data) {
            return Ok(Request::ready(()));
        }
        let started = endpoint.start_send(address, self.lending.lend(data))?;
        drop(endpoint);
        Ok(match started {
            Started::Done(_) => Request::ready(()),
            Started::Pending(id) => self.begin(Request::new(&self.comm, id, Finish::Envelope(|_, _| Ok(()))), id),
        })
    }

    /// Begins to receive into the front of `into`.
    pub fn irecv<T: Pod>(
        &self,
        into: &'scope mut [T],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope, Status>> {
        let select = self.comm.select(from, tag)?;
        let span = self.lending.lend_mut(cast_slice_mut(into));
        let id = self.comm.endpoint().start_recv(select, Target::Into(span));
        let finish = Finish::Envelope(|comm, envelope| whole::<T>(comm.status(envelope)));
        Ok(self.begin(Request::new(&self.comm, id, finish), id))
    }

    /// Remembers an operation so that the scope can end it.
    fn begin<T>(&self, request: Request<'scope, T>, id: Id) -> Request<'scope, T> {
        let mut begun = self.begun.borrow_mut();
        if begun.len() == begun.capacity() {
            // Before it grows: forget those that have ended.
            let endpoint = self.comm.endpoint();
            begun.retain(|id| endpoint.exists(*id));
        }
        begun.push(id);
        request.kept()
    }

    fn end<R>(&self, result: Result<R>) -> Result<R> {
        let mut first_error = None;
        for id in self.begun.take() {
            let mut endpoint = self.comm.endpoint();
            if result.is_err() {
                endpoint.abandon(id);
            } else if endpoint.exists(id)
                && let Err(error) = endpoint.wait(id)
            {
                first_error.get_or_insert(error);
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => result,
        }
    }
}
