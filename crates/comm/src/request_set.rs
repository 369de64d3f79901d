//! Sets of requests.

use std::rc::Rc;

use treepie_base::Result;
use treepie_fabric::{CompletionQueue, OpId};

use crate::comm::CommInner;
use crate::request::Request;

/// A set of requests, each with a key. Waiting for any of them costs the same for any number of requests.
///
/// [`wait_any`](crate::wait_any) on a vector polls all of its requests in a call if they complete in no particular
/// order; that is fine for some thousands. In a set, a completed operation is added to a completion queue.
///
/// ```
/// # use treepie_comm::RequestSet;
/// # fn example(comm: &treepie_comm::Comm) -> treepie_base::Result<()> {
/// let receives = (0..comm.size()).map(|rank| comm.irecv_vec::<u64>(rank, 1));
/// let mut receives: RequestSet<_> = receives.collect::<Result<_, _>>()?;
/// while let Some((rank, result)) = receives.wait_any() {
///     let (data, _) = result?;
///     println!("rank {rank} sent {} numbers", data.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct RequestSet<'a, T> {
    slots: Vec<Option<Request<'a, T>>>,
    /// Keys that can be reused.
    free: Vec<usize>,
    /// Keys of requests that were complete on insertion, the last first.
    ready: Vec<usize>,
    /// The xor of all keys in the set: the key itself if there is one.
    keys: usize,
    completions: Option<Completions>,
}

struct Completions {
    comm: Rc<CommInner>,
    queue: CompletionQueue,
}

const ONE_WORLD: &str = "the requests belong to one world";

impl<'a, T> RequestSet<'a, T> {
    /// An empty set.
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), ready: Vec::new(), keys: 0, completions: None }
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts a request and returns its key: the lowest number that was never used, or one whose request was removed.
    pub fn insert(&mut self, request: Request<'a, T>) -> usize {
        let key = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        match request.pending_op() {
            Some((comm, id)) => self.watch(comm, id, key),
            None => self.ready.push(key),
        }
        self.keys ^= key;
        self.slots[key] = Some(request);
        key
    }

    fn watch(&mut self, comm: &Rc<CommInner>, id: OpId, key: usize) {
        let Completions { comm: first, queue } = self.completions.get_or_insert_with(|| {
            let queue = comm.endpoint().create_completion_queue();
            Completions { comm: comm.clone(), queue }
        });
        assert!(first.same_world(comm), "{ONE_WORLD}");
        let token = u32::try_from(key).expect("there are fewer requests than operation numbers");
        first.endpoint().watch_operation(id, *queue, token);
    }

    /// Removes a request without waiting for it. `None` if there is none with this key.
    pub fn remove(&mut self, key: usize) -> Option<Request<'a, T>> {
        let request = self.take(key)?;
        if let Some((comm, id)) = request.pending_op() {
            comm.endpoint().unwatch_operation(id);
        }
        Some(request)
    }

    fn take(&mut self, key: usize) -> Option<Request<'a, T>> {
        let request = self.slots.get_mut(key)?.take()?;
        self.free.push(key);
        self.keys ^= key;
        Some(request)
    }

    /// A request that was complete on insertion.
    fn take_ready(&mut self) -> Option<(usize, Request<'a, T>)> {
        while let Some(key) = self.ready.pop() {
            // It may have been removed, and another one may have its key.
            if self.slots[key].as_ref().is_some_and(|request| request.pending_op().is_none()) {
                return self.take(key).map(|request| (key, request));
            }
        }
        None
    }

    /// The request of a completed operation, unless it was removed meanwhile.
    fn take_completed(&mut self, (id, token): (OpId, u32)) -> Option<(usize, Request<'a, T>)> {
        let key = token as usize;
        let is_of = |request: &Request<'a, T>| request.pending_op().is_some_and(|(_, own_id)| own_id == id);
        self.slots[key].as_ref().is_some_and(is_of).then_some(())?;
        self.take(key).map(|request| (key, request))
    }

    /// Waits until one of the requests is complete, removes it and returns its key and its result. `None` if the set is
    /// empty.
    pub fn wait_any(&mut self) -> Option<(usize, Result<T>)> {
        self.next(|set, Completions { comm, queue }| {
            let only = if set.len() == 1 { set.slots[set.keys].as_ref()?.pending_op().map(|(_, id)| id) } else { None };
            let all = || set.slots.iter().flatten().filter_map(|request| Some(request.pending_op()?.1)).collect();
            Some(comm.endpoint().wait_completion(*queue, only, all))
        })
    }

    /// Removes a completed request and returns its key and its result. `None` if none is complete; then it has made
    /// progress once.
    pub fn test_any(&mut self) -> Option<(usize, Result<T>)> {
        self.next(|_, Completions { comm, queue }| comm.endpoint().test_completion(*queue))
    }

    fn next(&mut self, completed: impl Fn(&Self, &Completions) -> Option<(OpId, u32)>) -> Option<(usize, Result<T>)> {
        if let Some((key, request)) = self.take_ready() {
            return Some((key, request.wait()));
        }
        while !self.is_empty() {
            let found = completed(self, self.completions.as_ref()?)?;
            if let Some((key, request)) = self.take_completed(found) {
                return Some((key, request.wait()));
            }
        }
        None
    }

    /// Waits until at least one of the requests is complete, removes all completed ones and returns their keys and
    /// results. Empty if the set is empty.
    pub fn wait_some(&mut self) -> Vec<(usize, Result<T>)> {
        let first = self.wait_any();
        let mut all = Vec::from_iter(first);
        self.take_all_completed(&mut all);
        all
    }

    /// Removes all completed requests and returns their keys and results. Makes progress once if none is complete.
    pub fn test_some(&mut self) -> Vec<(usize, Result<T>)> {
        let first = self.test_any();
        let mut all = Vec::from_iter(first);
        self.take_all_completed(&mut all);
        all
    }

    fn take_all_completed(&mut self, all: &mut Vec<(usize, Result<T>)>) {
        if all.is_empty() {
            return;
        }
        let now = |_: &Self, Completions { comm, queue }: &Completions| comm.endpoint().poll_completion(*queue);
        while let Some(done) = self.next(now) {
            all.push(done);
        }
    }
}

impl<T> Default for RequestSet<'_, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, T> Extend<Request<'a, T>> for RequestSet<'a, T> {
    fn extend<I: IntoIterator<Item = Request<'a, T>>>(&mut self, requests: I) {
        for request in requests {
            self.insert(request);
        }
    }
}

impl<'a, T> FromIterator<Request<'a, T>> for RequestSet<'a, T> {
    /// The keys are the positions in the iterator.
    fn from_iter<I: IntoIterator<Item = Request<'a, T>>>(requests: I) -> Self {
        let mut set = Self::new();
        set.extend(requests);
        set
    }
}

impl<T> std::fmt::Debug for RequestSet<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RequestSet({} requests)", self.len())
    }
}

impl<T> Drop for RequestSet<'_, T> {
    fn drop(&mut self) {
        if let Some(Completions { comm, queue }) = &self.completions {
            comm.endpoint().remove_completion_queue(*queue);
        }
    }
}
