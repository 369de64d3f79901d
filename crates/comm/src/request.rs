//! Operations that go on while the program does something else.

use std::marker::PhantomData;

use treepie_base::Result;
use treepie_fabric::{Completion, Id};

use crate::comm::Comm;

/// An operation that was begun, and its result of type `T` when it is done.
///
/// A request that is dropped gives its operation up: a receive without message is cancelled, anything else ends
/// unheeded. No memory of the program is touched after that, as the operation owns its buffer, or the
/// [`Scope`](crate::Scope) that it borrows in waits for it.
#[must_use = "a receive whose request is dropped is cancelled"]
pub struct Request<'a, T> {
    comm: Comm,
    id: Option<Id>,
    finish: fn(&Comm, Completion) -> Result<T>,
    /// Whether dropping the request leaves the operation alone.
    kept: bool,
    memory: PhantomData<&'a mut [u8]>,
}

impl<T> Request<'_, T> {
    pub(crate) fn new(comm: &Comm, id: Id, finish: fn(&Comm, Completion) -> Result<T>) -> Self {
        Self { comm: comm.clone(), id: Some(id), finish, kept: false, memory: PhantomData }
    }

    /// A request whose operation goes on when it is dropped.
    pub(crate) fn kept(mut self) -> Self {
        self.kept = true;
        self
    }

    fn id(&self) -> Id {
        self.id.expect("the result of this request was taken before")
    }

    /// Waits until it is done.
    pub fn wait(mut self) -> Result<T> {
        let id = self.id();
        let completion = self.comm.endpoint().wait(id);
        self.id = None;
        (self.finish)(&self.comm, completion?)
    }

    /// The result if it is done, or nothing yet. The result is given once; then the request is spent, and only good to
    /// be dropped.
    pub fn test(&mut self) -> Option<Result<T>> {
        let id = self.id();
        let completion = self.comm.endpoint().test(id)?;
        self.id = None;
        Some(completion.and_then(|completion| (self.finish)(&self.comm, completion)))
    }

    /// Takes a receive back that has no message yet. Gives the request again if it has one, or is no receive: then it
    /// will be done.
    pub fn cancel(mut self) -> Result<(), Self> {
        let id = self.id();
        let cancelled = self.comm.endpoint().cancel(id);
        if cancelled {
            self.id = None;
            Ok(())
        } else {
            Err(self)
        }
    }
}

impl<T> Drop for Request<'_, T> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take()
            && !self.kept
        {
            self.comm.endpoint().abandon(id);
        }
    }
}

impl<T> std::fmt::Debug for Request<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request({:?})", self.id)
    }
}

/// Waits for all requests and returns their results in order. If some fail, all are still waited for, and the first
/// error is returned.
pub fn wait_all<'a, T>(requests: impl IntoIterator<Item = Request<'a, T>>) -> Result<Vec<T>> {
    let results: Vec<Result<T>> = requests.into_iter().map(Request::wait).collect();
    results.into_iter().collect()
}

/// Waits until one of the requests is done, takes it out of the vector (the others keep their order) and returns its
/// place there and its result. Nothing if there are none.
pub fn wait_any<T>(requests: &mut Vec<Request<'_, T>>) -> Option<(usize, Result<T>)> {
    let comm = requests.first()?.comm.clone();
    let ids: Vec<Id> = requests.iter().map(Request::id).collect();
    let place = comm.endpoint().wait_any(&ids);
    Some((place, requests.remove(place).wait()))
}

/// Waits until at least one of the requests is done, takes all that are out of the vector (the others keep their
/// order) and returns the places they had there and their results. Empty if there are none.
pub fn wait_some<T>(requests: &mut Vec<Request<'_, T>>) -> Vec<(usize, Result<T>)> {
    let Some(comm) = requests.first().map(|request| request.comm.clone()) else { return Vec::new() };
    let ids: Vec<Id> = requests.iter().map(Request::id).collect();
    comm.endpoint().wait_any(&ids);
    let done: Vec<bool> = ids.iter().map(|id| comm.endpoint().is_over(*id)).collect();
    let mut results = Vec::new();
    let mut rest = Vec::with_capacity(requests.len());
    for (place, (request, done)) in std::mem::take(requests).into_iter().zip(done).enumerate() {
        if done { results.push((place, request.wait())) } else { rest.push(request) }
    }
    *requests = rest;
    results
}
