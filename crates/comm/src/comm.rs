//! A group of ranks with a message space of its own.

use std::any::Any;
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use treepie_base::{Error, MAX_TAG, Rank, Result, Source, Status, Tag, TagMatch};
use treepie_fabric::{Address, Call, Endpoint, Envelope, Fabric, Select};
use treepie_schedule::Operation;

use crate::checked;
use crate::collective::{Choice, Collectives};
use crate::members::{Leftovers, Members};

/// A group of ranks with a message space of its own: what is sent on one communicator is received on that one only.
///
/// A `Comm` is a handle; a clone of it is the same communicator. [`dup`](Comm::dup) makes another one with the same
/// ranks. It belongs to the thread that is its rank. When the last handle of the last communicator is dropped, the rank
/// leaves its world; requests that are left then only report an error.
#[derive(Clone)]
pub struct Comm {
    pub(crate) inner: Rc<Inner>,
    world: Rc<World>,
    pub(crate) collectives: Rc<Collectives>,
}

/// Ends the world with the last communicator. Requests do not hold it, so that forgetting one does not keep the rank
/// from leaving.
struct World {
    endpoint: Rc<RefCell<Endpoint>>,
    leftovers: Rc<Leftovers>,
}

impl Drop for World {
    fn drop(&mut self) {
        let mut endpoint = self.endpoint.borrow_mut();
        self.leftovers.clear(&mut endpoint, false);
        endpoint.end();
    }
}

/// Ends a rank's part in its world when it is dropped, whatever handles of it were forgotten or kept. Whoever runs the
/// rank's function holds one, so that peers hear of the end of a rank that never drops its world.
pub struct Finalizer {
    endpoint: Rc<RefCell<Endpoint>>,
    leftovers: Rc<Leftovers>,
}

impl Drop for Finalizer {
    fn drop(&mut self) {
        // A rank that was left in the middle of an operation has nobody who could go on with it.
        if let Ok(mut endpoint) = self.endpoint.try_borrow_mut() {
            self.leftovers.clear(&mut endpoint, false);
            endpoint.end();
        }
    }
}

pub(crate) struct Inner {
    endpoint: Rc<RefCell<Endpoint>>,
    /// Even for messages of the program; the odd one above is for the library's own.
    context: u32,
    rank: Rank,
    pub(crate) members: Rc<Members>,
    leftovers: Rc<Leftovers>,
    /// Collective operations begun so far.
    pub(crate) instances: Cell<u32>,
    /// A call goes on that was compared as a whole.
    pub(crate) compared: Cell<bool>,
    /// Whether all ranks can read each other's memory, once they have found out.
    pub(crate) shows: Cell<Option<bool>>,
    /// What crates above keep with a communicator.
    pub(crate) attachments: RefCell<Vec<Rc<dyn Any>>>,
    /// Protocols run alone so far.
    pub(crate) protocols: Cell<u32>,
    /// Where among requests one was over the last time.
    pub(crate) last_over: Cell<usize>,
}

impl Comm {
    /// The communicator of all ranks of an engine.
    pub fn world(fabric: Box<dyn Fabric>) -> Self {
        let endpoint = Endpoint::new(fabric);
        let (rank, ranks) = (endpoint.rank() as Rank, endpoint.size());
        let members = Rc::new(Members::All { ranks });
        let world = World { endpoint: Rc::new(RefCell::new(endpoint)), leftovers: Rc::default() };
        let world = Self::with_context(&Rc::new(world), 0, rank, members);
        if checked::is_asked_for() { world.checked() } else { world }
    }

    /// What ends this rank's part in the world, though handles are left.
    #[doc(hidden)]
    pub fn finalizer(&self) -> Finalizer {
        Finalizer { endpoint: self.world.endpoint.clone(), leftovers: self.world.leftovers.clone() }
    }

    fn with_context(world: &Rc<World>, context: u32, rank: Rank, members: Rc<Members>) -> Self {
        let mut endpoint = world.endpoint.borrow_mut();
        if !members.are_all(endpoint.size()) {
            endpoint.name_group(context, members.clone());
        }
        drop(endpoint);
        let inner = Inner {
            endpoint: world.endpoint.clone(),
            context,
            rank,
            members,
            leftovers: world.leftovers.clone(),
            instances: Cell::new(0),
            compared: Cell::new(false),
            shows: Cell::new(None),
            attachments: RefCell::default(),
            protocols: Cell::new(0),
            last_over: Cell::new(0),
        };
        Self { inner: Rc::new(inner), world: world.clone(), collectives: Rc::default() }
    }

    pub(crate) fn with_choice(&self, choice: Choice) -> Self {
        let collectives = Rc::new(Collectives::new(choice));
        Self { inner: self.inner.clone(), world: self.world.clone(), collectives }
    }

    /// This rank's number, from 0 to `size() - 1`.
    pub fn rank(&self) -> Rank {
        self.inner.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.inner.members.ranks() as usize
    }

    /// The engine that carries the messages: `shm`, `threads`, `mpi`, `sim`, `alone`.
    pub fn engine(&self) -> &'static str {
        self.endpoint().engine()
    }

    /// The longest message in bytes that is sent without asking its receiver.
    pub fn short_message(&self) -> usize {
        self.endpoint().eager_limit()
    }

    /// A communicator of the same ranks with a message space of its own. All ranks call it, in the same order.
    pub fn dup(&self) -> Result<Self> {
        let _compared = self.agree_on(&[Operation::Allgather], || "dup".to_owned())?;
        Ok(self.dup_with(self.agree_on_context()?))
    }

    /// The same where all ranks have agreed on the context.
    pub(crate) fn dup_with(&self, context: u32) -> Self {
        let new = Self::with_context(&self.world, context, self.rank(), self.inner.members.clone());
        new.with_choice(self.collectives.choice.clone())
    }

    /// A communicator of some ranks of this one, which this rank is one of. All ranks of this one agree on the context, so
    /// several such communicators may be made at once, if no rank is in two of them.
    pub(crate) fn part(&self, context: u32, members: Members) -> Self {
        let own = self.endpoint().rank();
        let rank = members.known_rank(own).flatten().expect("a rank makes communicators that it is in") as Rank;
        let new = Self::with_context(&self.world, context, rank, Rc::new(members));
        new.with_choice(self.collectives.choice.without_network())
    }

    /// A context that none of these ranks has used: the highest of what each of them would take. A rank never goes
    /// back to a lower one, so two communicators that share a rank never share a context.
    pub(crate) fn agree_on_context(&self) -> Result<u32> {
        let mine = u64::from(self.endpoint().next_context());
        self.take_context(self.all_gather(&[mine])?)
    }

    /// The highest of the contexts that ranks would take; now this rank has used it.
    pub(crate) fn take_context(&self, next: impl IntoIterator<Item = u64>) -> Result<u32> {
        self.take_contexts(next, 1)
    }

    /// The same with so many behind it: a table that ranks share has one of its own. All ranks know whether there are any left.
    pub(crate) fn take_contexts(&self, next: impl IntoIterator<Item = u64>, count: u32) -> Result<u32> {
        let highest = next.into_iter().max().expect("there is at least this rank");
        let context = u32::try_from(highest).ok().filter(|context| context.checked_add(2 * count).is_some());
        let context = context.ok_or_else(|| Error::Engine("no context is left for a communicator".to_owned()))?;
        let mut endpoint = self.endpoint();
        endpoint.use_contexts_below(context + 2 * count);
        self.world.leftovers.clear(&mut endpoint, true);
        Ok(context)
    }

    pub(crate) fn leftovers(&self) -> Rc<Leftovers> {
        self.world.leftovers.clone()
    }

    /// Handles what has come, without waiting. Operations of this rank get on whenever it is inside the library; call
    /// this in long computations so that peers need not wait for their end. Returns whether anything has come.
    pub fn progress(&self) -> bool {
        self.endpoint().progress()
    }

    /// States that this rank has computed for so long. Costs virtual time in a simulation and nothing elsewhere, where
    /// computing takes its time by itself.
    pub fn compute(&self, time: Duration) {
        self.endpoint().fabric().compute(time);
    }

    /// States that this rank has done so many units of work, as messages sent and handled, or arcs followed. A simulation says
    /// what a unit costs, which is nothing by default; elsewhere work takes its time by itself.
    pub fn worked(&self, units: u64) {
        self.endpoint().fabric().worked(units);
    }

    /// The time since some moment in the past; virtual in a simulation.
    pub fn now(&self) -> Duration {
        self.endpoint().fabric().now()
    }

    pub(crate) fn endpoint(&self) -> RefMut<'_, Endpoint> {
        self.inner.endpoint()
    }

    pub(crate) fn context(&self) -> u32 {
        self.inner.context
    }

    /// The context of the library's own messages.
    pub(crate) fn own_context(&self) -> u32 {
        self.inner.context + 1
    }

    pub(crate) fn check_rank(&self, rank: Rank) -> Result<u32> {
        if rank < self.size() { Ok(rank as u32) } else { Err(Error::BadRank { rank, size: self.size() }) }
    }

    /// Whether all ranks of the world are here.
    pub(crate) fn is_of_all(&self) -> bool {
        self.inner.members.are_all(self.endpoint().size())
    }

    /// The rank of the world that has a rank here.
    #[inline]
    pub(crate) fn world_rank(&self, rank: Rank) -> Result<u32> {
        let rank = self.check_rank(rank)?;
        match &*self.inner.members {
            members @ Members::Shared(_) => members.world(rank, &mut self.endpoint()),
            members => Ok(members.known_world(rank).expect("only tables that are shared do not know")),
        }
    }

    pub(crate) fn address(&self, to: Rank, tag: Tag, synchronous: bool) -> Result<Address> {
        let to = self.world_rank(to)?;
        check_tag(tag)?;
        Ok(Address { context: self.context(), to, tag: tag.into(), synchronous, call: Call::NONE })
    }

    pub(crate) fn select(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Select> {
        let source = match from.into() {
            Source::Any => None,
            Source::Rank(rank) => Some(self.world_rank(rank)?),
        };
        let tag = match tag.into() {
            TagMatch::Any => None,
            TagMatch::Tag(tag) => Some(check_tag(tag)?.into()),
        };
        Ok(Select { context: self.context(), source, tag, call: Call::NONE })
    }

    pub(crate) fn status(&self, envelope: Envelope) -> Result<Status> {
        self.inner.status(envelope)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A handle may be dropped in the middle of something.
        match self.endpoint.try_borrow_mut() {
            Ok(mut endpoint) => endpoint.forget_group(self.context),
            Err(_) => self.leftovers.forget_group_later(self.context),
        }
    }
}

impl Inner {
    pub(crate) fn same_world(&self, other: &Inner) -> bool {
        Rc::ptr_eq(&self.endpoint, &other.endpoint)
    }

    pub(crate) fn endpoint(&self) -> RefMut<'_, Endpoint> {
        let free = self.endpoint.try_borrow_mut();
        free.expect("a communicator is not used by handlers, nor by operators, of operations that go on in its world")
    }

    pub(crate) fn status(&self, envelope: Envelope) -> Result<Status> {
        let known = self.members.known_rank(envelope.source);
        let source = known.map_or_else(|| self.members.rank(envelope.source, &mut self.endpoint()), Ok)?;
        // Only members send on a communicator; but nobody may be left to say which one that is.
        let source = source.ok_or(Error::PeerLost { rank: envelope.source as Rank })? as Rank;
        Ok(Status { source, tag: tag_of(envelope), bytes: envelope.bytes })
    }
}

/// Tags of programs have no more bits than that.
pub(crate) fn tag_of(envelope: Envelope) -> Tag {
    envelope.tag as Tag
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_come_to_an_end() {
        let world = Comm::world(Box::new(treepie_fabric::Alone::new()));
        world.endpoint().use_contexts_below(u32::MAX - 3);
        let last = world.dup().expect("there is one left");
        assert_eq!(last.context(), u32::MAX - 3);
        last.barrier().expect("it is of use");
        let error = world.dup().expect_err("none is left");
        assert_eq!(error, Error::Engine("no context is left for a communicator".to_owned()));
    }
}
