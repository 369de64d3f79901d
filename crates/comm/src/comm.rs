//! Communicators: a group of ranks with its own communication context.

use std::any::Any;
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use treepie_base::{Error, MAX_TAG, Max, Rank, Result, Source, Status, Tag, TagMatch};
use treepie_fabric::{Address, CallSignature, Endpoint, Envelope, Fabric, Select};
use treepie_schedule::Operation;

use crate::collective::{AlgorithmChoice, Collectives};
use crate::members::{DeferredFrees, Members};
use crate::protocol::PROTOCOLS;

/// A communicator: a group of ranks with its own context. A message sent on one communicator is received on that one
/// only.
///
/// A `Comm` is a handle; a clone of it is the same communicator. [`dup`](Comm::dup) creates another one with the same
/// ranks. It belongs to the thread of its rank. The rank finalizes when the function of its world returns or, without
/// one, when the last handle of the last communicator is dropped; the remaining requests then only report an error.
#[derive(Clone)]
pub struct Comm {
    pub(crate) inner: Rc<CommInner>,
    world: Rc<World>,
    pub(crate) collectives: Rc<Collectives>,
}

/// Finalizes the rank with its last communicator. Requests hold no reference, so a leaked request does not keep the
/// rank from finalizing.
struct World {
    endpoint: Rc<RefCell<Endpoint>>,
    deferred_frees: Rc<DeferredFrees>,
}

impl Drop for World {
    fn drop(&mut self) {
        let mut endpoint = self.endpoint.borrow_mut();
        self.deferred_frees.run_frees(&mut endpoint, false);
        endpoint.finalize();
    }
}

/// Keeps the rank from finalizing, and finalizes it when dropped, even if handles of its communicators are leaked or
/// still in use. The caller of the rank's function holds one: whether the rank has failed is known when that returns.
pub struct Finalizer {
    world: Rc<World>,
}

impl Finalizer {
    /// Finalizes this rank as one that has failed: its program returned an error.
    pub fn fail(self, error: &Error) {
        self.end(|endpoint| endpoint.fail(error));
    }

    fn end(&self, end: impl FnOnce(&mut Endpoint)) {
        // A rank that unwound in the middle of an operation cannot continue it.
        if let Ok(mut endpoint) = self.world.endpoint.try_borrow_mut() {
            self.world.deferred_frees.run_frees(&mut endpoint, false);
            end(&mut endpoint);
        }
    }
}

impl Drop for Finalizer {
    fn drop(&mut self) {
        self.end(Endpoint::finalize);
    }
}

pub(crate) struct CommInner {
    endpoint: Rc<RefCell<Endpoint>>,
    /// Even, for messages of the program; the odd one above is for the library.
    context: u32,
    rank: Rank,
    pub(crate) members: Rc<Members>,
    deferred_frees: Rc<DeferredFrees>,
    /// Number of collective operations started so far.
    pub(crate) instances: Cell<u32>,
    /// Whether a call that was compared as a whole is in progress.
    pub(crate) in_checked_call: Cell<bool>,
    /// Whether all ranks can read each other's memory, once they have agreed on it.
    pub(crate) single_copy: Cell<Option<bool>>,
    /// Attributes that other crates cache on a communicator.
    pub(crate) attributes: RefCell<Vec<Rc<dyn Any>>>,
    /// Number of protocol instances started so far.
    pub(crate) protocol_runs: Cell<u32>,
    /// Index in a list of requests at which one was complete the last time.
    pub(crate) last_completed: Cell<usize>,
}

impl Comm {
    /// The communicator of all ranks of an engine.
    pub fn world(fabric: Box<dyn Fabric>) -> Self {
        PROTOCOLS.register();
        let endpoint = Endpoint::new(fabric);
        let (rank, ranks) = (endpoint.rank() as Rank, endpoint.size());
        let members = Rc::new(Members::All { ranks });
        let world = World { endpoint: Rc::new(RefCell::new(endpoint)), deferred_frees: Rc::default() };
        let world = Self::with_context(&Rc::new(world), 0, rank, members);
        if is_checked_by_environment() { world.checked() } else { world }
    }

    /// Finalizes this rank when dropped, and not before.
    #[doc(hidden)]
    pub fn finalizer(&self) -> Finalizer {
        Finalizer { world: self.world.clone() }
    }

    fn with_context(world: &Rc<World>, context: u32, rank: Rank, members: Rc<Members>) -> Self {
        let mut endpoint = world.endpoint.borrow_mut();
        if !members.is_whole_world(endpoint.size()) {
            endpoint.register_group(context, members.clone());
        }
        drop(endpoint);
        let inner = CommInner {
            endpoint: world.endpoint.clone(),
            context,
            rank,
            members,
            deferred_frees: world.deferred_frees.clone(),
            instances: Cell::new(0),
            in_checked_call: Cell::new(false),
            single_copy: Cell::new(None),
            attributes: RefCell::default(),
            protocol_runs: Cell::new(0),
            last_completed: Cell::new(0),
        };
        Self { inner: Rc::new(inner), world: world.clone(), collectives: Rc::default() }
    }

    pub(crate) fn with_choice(&self, choice: AlgorithmChoice) -> Self {
        self.with_collectives(Collectives::new(choice))
    }

    pub(crate) fn with_collectives(&self, collectives: Collectives) -> Self {
        Self { inner: self.inner.clone(), world: self.world.clone(), collectives: Rc::new(collectives) }
    }

    /// This rank, from 0 to `size() - 1`.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.inner.rank
    }

    /// Number of ranks.
    #[inline]
    pub fn size(&self) -> usize {
        self.inner.members.ranks() as usize
    }

    /// The engine that transports messages: `shm`, `threads`, `mpi`, `sim`, `alone`.
    pub fn engine(&self) -> &'static str {
        self.endpoint().engine_name()
    }

    /// The eager limit in bytes: longer messages use a rendezvous with the receiver.
    pub fn eager_limit(&self) -> usize {
        self.endpoint().eager_limit()
    }

    /// A communicator of the same ranks with a new context (`MPI_Comm_dup`). All ranks call it, in the same order.
    pub fn dup(&self) -> Result<Self> {
        let _compared = self.compare_call(&[Operation::Allreduce], || "dup".to_owned())?;
        Ok(self.dup_with(self.agree_on_context()?))
    }

    /// The same with a context on which all ranks have agreed.
    pub(crate) fn dup_with(&self, context: u32) -> Self {
        let new = Self::with_context(&self.world, context, self.rank(), self.inner.members.clone());
        new.with_choice(self.collectives.choice.clone())
    }

    /// A communicator of some ranks of this one, including this rank. All ranks of this one have agreed on the context,
    /// so several disjoint communicators may be created at once.
    pub(crate) fn subcomm(&self, context: u32, members: Members) -> Self {
        let world_rank = self.endpoint().rank();
        let rank = members.known_rank(world_rank).flatten().expect("a rank creates only communicators that contain it")
            as Rank;
        let new = Self::with_context(&self.world, context, rank, Rc::new(members));
        new.with_choice(self.collectives.choice.inherited(&self.inner.members)).with_links_of(self)
    }

    /// Agrees on a context that none of these ranks has used: the maximum of the next contexts of all of them. The next
    /// context of a rank never decreases, so two communicators that share a rank never share a context.
    pub(crate) fn agree_on_context(&self) -> Result<u32> {
        let next = u64::from(self.endpoint().next_context());
        self.take_context([self.allreduce_one(next, Max)?])
    }

    /// The maximum of the next contexts of the ranks; marks it as used on this rank.
    pub(crate) fn take_context(&self, next: impl IntoIterator<Item = u64>) -> Result<u32> {
        self.take_contexts(next, 1)
    }

    /// The same for `count` consecutive contexts: a shared table needs one of its own. All ranks learn whether any are
    /// left.
    pub(crate) fn take_contexts(&self, next: impl IntoIterator<Item = u64>, count: u32) -> Result<u32> {
        let highest = next.into_iter().max().expect("at least this rank has one");
        let context = u32::try_from(highest).ok().filter(|context| context.checked_add(2 * count).is_some());
        let context = context.ok_or_else(|| Error::Engine("no context is left for a communicator".to_owned()))?;
        let mut endpoint = self.endpoint();
        endpoint.reserve_contexts_below(context + 2 * count);
        self.world.deferred_frees.run_frees(&mut endpoint, true);
        Ok(context)
    }

    pub(crate) fn deferred_frees(&self) -> Rc<DeferredFrees> {
        self.world.deferred_frees.clone()
    }

    /// Makes progress without waiting: handles what has arrived. Operations of this rank progress whenever it is inside
    /// the library; call this in long computations so that peers need not wait for their end. Returns whether anything
    /// has arrived.
    pub fn progress(&self) -> bool {
        self.endpoint().progress()
    }

    /// Accounts for a computation of this duration. It takes virtual time in a simulation, and has no effect elsewhere.
    pub fn compute(&self, time: Duration) {
        self.endpoint().fabric().charge_time(time);
    }

    /// Accounts for `units` units of work, such as messages handled or arcs traversed. A simulation sets the cost of a
    /// unit, which is 0 by default; there is no effect elsewhere.
    pub fn account_work(&self, units: u64) {
        self.endpoint().fabric().charge_work(units);
    }

    /// Time since an arbitrary moment in the past; virtual in a simulation.
    pub fn now(&self) -> Duration {
        self.endpoint().fabric().now()
    }

    #[inline]
    pub(crate) fn endpoint(&self) -> RefMut<'_, Endpoint> {
        self.inner.endpoint()
    }

    #[inline]
    pub(crate) fn context(&self) -> u32 {
        self.inner.context
    }

    /// The context of the library's messages.
    pub(crate) fn collective_context(&self) -> u32 {
        self.inner.context + 1
    }

    #[inline]
    pub(crate) fn check_rank(&self, rank: Rank) -> Result<u32> {
        if rank < self.size() { Ok(rank as u32) } else { Err(Error::BadRank { rank, size: self.size() }) }
    }

    /// Whether it contains all ranks of the world.
    pub(crate) fn is_whole_world(&self) -> bool {
        self.inner.members.is_whole_world(self.endpoint().size())
    }

    /// The world rank of a rank of this communicator.
    #[inline]
    pub(crate) fn world_rank(&self, rank: Rank) -> Result<u32> {
        // Short enough to be inlined into every send and receive, which `find_world_rank` is not.
        match *self.inner.members {
            Members::All { ranks } if rank < ranks as Rank => Ok(rank as u32),
            _ => self.find_world_rank(rank),
        }
    }

    #[inline(never)]
    fn find_world_rank(&self, rank: Rank) -> Result<u32> {
        let rank = self.check_rank(rank)?;
        match &*self.inner.members {
            members @ Members::Shared(_) => members.world_rank(rank, &mut self.endpoint()),
            members => Ok(members.known_world_rank(rank).expect("only shared tables need a lookup")),
        }
    }

    #[inline]
    pub(crate) fn address(&self, to: Rank, tag: Tag, synchronous: bool) -> Result<Address> {
        let to = self.world_rank(to)?;
        check_tag(tag)?;
        Ok(Address { context: self.context(), to, tag: tag.into(), synchronous, call: CallSignature::NONE })
    }

    #[inline]
    pub(crate) fn select(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Select> {
        let source = match from.into() {
            Source::Any => None,
            Source::Rank(rank) => Some(self.world_rank(rank)?),
        };
        let tag = match tag.into() {
            TagMatch::Any => None,
            TagMatch::Tag(tag) => Some(check_tag(tag)?.into()),
        };
        Ok(Select { context: self.context(), source, tag, call: CallSignature::NONE })
    }

    #[inline]
    pub(crate) fn status(&self, envelope: Envelope) -> Result<Status> {
        self.inner.status(envelope)
    }
}

impl Drop for CommInner {
    fn drop(&mut self) {
        // A handle may be dropped while the endpoint is in use.
        match self.endpoint.try_borrow_mut() {
            Ok(mut endpoint) => endpoint.deregister_group(self.context),
            Err(_) => self.deferred_frees.defer_group_removal(self.context),
        }
    }
}

impl CommInner {
    pub(crate) fn same_world(&self, other: &CommInner) -> bool {
        Rc::ptr_eq(&self.endpoint, &other.endpoint)
    }

    #[inline]
    pub(crate) fn endpoint(&self) -> RefMut<'_, Endpoint> {
        let free = self.endpoint.try_borrow_mut();
        free.expect("handlers and operators must not use a communicator of a world whose operations call them")
    }

    #[inline]
    pub(crate) fn status(&self, envelope: Envelope) -> Result<Status> {
        let source = match *self.members {
            Members::All { .. } => envelope.source as Rank,
            _ => self.find_rank(envelope.source)?,
        };
        Ok(Status { source, tag: tag_of(envelope), bytes: envelope.bytes })
    }

    #[inline(never)]
    fn find_rank(&self, world: u32) -> Result<Rank> {
        let known = self.members.known_rank(world);
        let rank = known.map_or_else(|| self.members.rank(world, &mut self.endpoint()), Ok)?;
        // Only members send on a communicator; but the ranks that hold the table entry may all have failed.
        rank.map(|rank| rank as Rank).ok_or(Error::PeerLost { rank: world as Rank })
    }
}

/// Tags of programs fit into these bits.
#[inline]
pub(crate) fn tag_of(envelope: Envelope) -> Tag {
    envelope.tag as Tag
}

#[inline]
fn check_tag(tag: Tag) -> Result<Tag> {
    if tag <= MAX_TAG { Ok(tag) } else { Err(Error::BadTag { tag }) }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Comm(")?;
        if let Some(name) = self.name() {
            write!(f, "{name:?}, ")?;
        }
        write!(f, "rank {} of {}, context {})", self.rank(), self.size(), self.context())
    }
}

/// Whether `TREEPIE_CHECKED` enables checked mode.
fn is_checked_by_environment() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| treepie_base::environment::checked().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_come_to_an_end() {
        let world = Comm::world(Box::new(treepie_fabric::Singleton::new()));
        world.endpoint().reserve_contexts_below(u32::MAX - 3);
        let last = world.dup().expect("one context is left");
        assert_eq!(last.context(), u32::MAX - 3);
        last.barrier().expect("it is usable");
        let error = world.dup().expect_err("none is left");
        assert_eq!(error, Error::Engine("no context is left for a communicator".to_owned()));
    }
}
