//! Many requests of which some are waited for at a time.

use std::rc::Rc;

use treepie_base::Result;
use treepie_fabric::{CompletionQueue, Id};

use crate::comm::Inner;
use crate::request::Request;

/// A set of requests, each under a key. Waiting for any of them costs the same however many there are.
///
/// [`wait_any`](crate::wait_any) of a vector looks at all of its requests in a call if they end in no order; that is fine for some
/// thousands. In a set, an operation that ends is put into a completion queue.
///
/// ```
/// # use treepie_comm::RequestSet;
/// # fn example(comm: &treepie_comm::Comm) -> treepie_base::Result<()> {
/// let mut receives: RequestSet<_> = (0..comm.size()).map(|rank| comm.irecv_vec::<u64>(rank, 1)).collect::<Result<_, _>>()?;
/// while let Some((rank, result)) = receives.wait_any() {
///     let (data, _) = result?;
///     println!("rank {rank} sent {} numbers", data.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct RequestSet<'a, T> {
    slots: Vec<Option<Request<'a, T>>>,
    /// Keys that can be given out again.
    free: Vec<usize>,
    /// Keys of requests that were over when they came, the last first.
    ready: Vec<usize>,
    /// All keys in the set, xored: the key itself where there is one.
    keys: usize,
    completions: Option<Completions>,
}

struct Completions {
    comm: Rc<Inner>,
    queue: CompletionQueue,
}

const ONE_WORLD: &str = "requests of one world are waited for";

impl<'a, T> RequestSet<'a, T> {
    /// A set without requests.
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), ready: Vec::new(), keys: 0, completions: None }
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a request in and returns its key: the lowest number that was never used, or one whose request was taken out.
    pub fn insert(&mut self, request: Request<'a, T>) -> usize {
        let key = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        match request.watchable() {
            Some((comm, id)) => self.watch(comm, id, key),
            None => self.ready.push(key),
        }
        self.keys ^= key;
        self.slots[key] = Some(request);
        key
    }

    fn watch(&mut self, comm: &Rc<Inner>, id: Id, key: usize) {
        let Completions { comm: first, queue } = self.completions.get_or_insert_with(|| {
            let queue = comm.endpoint().make_completion_queue();
            Completions { comm: comm.clone(), queue }
        });
        assert!(first.same_world(comm), "{ONE_WORLD}");
        let token = u32::try_from(key).expect("no more requests than operations have numbers");
        first.endpoint().watch_operation(id, *queue, token);
    }

    /// Takes a request out that was not waited for. Nothing if there is none under this key.
    pub fn remove(&mut self, key: usize) -> Option<Request<'a, T>> {
        let request = self.take(key)?;
        if let Some((comm, id)) = request.watchable() {
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

    /// A request that was over when it came.
    fn take_ready(&mut self) -> Option<(usize, Request<'a, T>)> {
        while let Some(key) = self.ready.pop() {
            // It may have been taken out, and another one may have its key.
            if self.slots[key].as_ref().is_some_and(|request| request.watchable().is_none()) {
                return self.take(key).map(|request| (key, request));
            }
        }
        None
    }

    /// The request of an operation that has ended, unless it was taken out meanwhile.
    fn take_ended(&mut self, (id, token): (Id, u32)) -> Option<(usize, Request<'a, T>)> {
        let key = token as usize;
        let is_of = |request: &Request<'a, T>| request.watchable().is_some_and(|(_, own)| own == id);
        self.slots[key].as_ref().is_some_and(is_of).then_some(())?;
        self.take(key).map(|request| (key, request))
    }

    /// Waits until one of the requests is done, takes it out and returns its key and its result. Nothing if there are none.
    pub fn wait_any(&mut self) -> Option<(usize, Result<T>)> {
        self.next(|set, Completions { comm, queue }| {
            let alone = if set.len() == 1 { set.slots[set.keys].as_ref()?.watchable().map(|(_, id)| id) } else { None };
            let all = || set.slots.iter().flatten().filter_map(|request| Some(request.watchable()?.1)).collect();
            Some(comm.endpoint().wait_ended(*queue, alone, all))
        })
    }

    /// Takes out a request that is done and returns its key and its result. Nothing if none is; then progress was made once.
    pub fn test_any(&mut self) -> Option<(usize, Result<T>)> {
        self.next(|_, Completions { comm, queue }| comm.endpoint().test_ended(*queue))
    }

    fn next(&mut self, ended: impl Fn(&Self, &Completions) -> Option<(Id, u32)>) -> Option<(usize, Result<T>)> {
        if let Some((key, request)) = self.take_ready() {
            return Some((key, request.wait()));
        }
        while !self.is_empty() {
            let found = ended(self, self.completions.as_ref()?)?;
            if let Some((key, request)) = self.take_ended(found) {
                return Some((key, request.wait()));
            }
        }
        None
    }

    /// Waits until at least one of the requests is done, takes all that are out and returns their keys and results. Empty if there
    /// are none.
    pub fn wait_some(&mut self) -> Vec<(usize, Result<T>)> {
        let first = self.wait_any();
        let mut all = Vec::from_iter(first);
        self.take_all_done(&mut all);
        all
    }

    /// Takes out all requests that are done and returns their keys and results. Makes progress once if none is.
    pub fn test_some(&mut self) -> Vec<(usize, Result<T>)> {
        let first = self.test_any();
        let mut all = Vec::from_iter(first);
        self.take_all_done(&mut all);
        all
    }

    fn take_all_done(&mut self, all: &mut Vec<(usize, Result<T>)>) {
        if all.is_empty() {
            return;
        }
        let now = |_: &Self, Completions { comm, queue }: &Completions| comm.endpoint().next_ended(*queue);
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
    /// Keys are places in the order of the iterator.
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
