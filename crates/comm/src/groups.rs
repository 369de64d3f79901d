//! Communicators that only their members make.
//!
//! The other ranks of the parent do not call. So nothing can be used that all of them count, as the numbers of collective
//! operations, and members agree by messages that are matched with receives: ceil(lg n) rounds for n members, in each a
//! message to the member that is 1, 2, 4, ... places further. After them everybody has heard of everybody. A member gets at
//! most one message from another in a call, and those of one rank come in order. So calls one after the other keep apart,
//! whoever is in them, also under the same tag.
//!
//! Whoever learns that a member has another list gives up and says so to all ranks of the parent, as some that have it in their
//! lists may not be in its own. Members are taken in the order of the world, so that lists which differ in their order
//! only are compared in the first round. Others are noticed by those who hear from a rank that they did not expect: see
//! [`Founding::doubt`].

use std::cell::RefCell;

use treepie_base::{Bytes, Error, Rank, Result, Span};
use treepie_fabric::{Address, Call, Endpoint, GROUPS, Id, Run, Select, Started, Target, Task, Why};

use crate::comm::Comm;
use crate::split::digest_of;

/// The largest tag that a call may have; bits above tell such messages from others.
const MAX_GROUP_TAG: u32 = (1 << 30) - 1;

/// Tags under which this rank gave up. What comes under them is thrown away, and others know that nothing goes out.
#[derive(Default)]
struct Spoilt(RefCell<Vec<u32>>);

impl Comm {
    /// A communicator of these ranks, in this order, which only they make: all of them call it with the same list and tag, and
    /// the others do not. Calls with several lists come in the same order on all ranks that they share; then the tag does
    /// not matter. It is at most 2^30 - 1; a larger one is refused before anybody is told.
    ///
    /// # Errors
    /// If a rank does not exist or is listed twice, or if the caller is not in the list. If lists differ, on every caller that
    /// hears from a member with another list or has one that failed. A member that never calls is waited for, as in
    /// every collective operation; so may be one that has called with another list, if it has made more communicators
    /// than those that it writes to.
    ///
    /// After an error a tag is of no use any more for groups with a rank that has failed, also for calls that are going
    /// on elsewhere: take another one.
    pub fn create_from_group(&self, group: &[Rank], tag: u32) -> Result<Comm> {
        if tag > MAX_GROUP_TAG {
            return Err(Error::Algorithm(format!("tag {tag} of a group is above the largest one, {MAX_GROUP_TAG}")));
        }
        let spoilt = self.attachment::<Spoilt>();
        if spoilt.0.borrow().contains(&tag) {
            return Err(Error::Algorithm(format!("no group could be made under tag {tag} before; take another tag")));
        }
        let mut unfinished = Unfinished { comm: Some(self), tag, why: Why::Unsaid };
        let agreed = self.agree_in_group(group, u64::from(tag) | GROUPS);
        let context = agreed.inspect_err(|error| unfinished.why = Why::of(error))?;
        unfinished.comm = None;
        let context = self.take_context([context])?;
        Ok(self.part(context, self.members_of(group)?))
    }

    /// The highest of the contexts that the members would take next.
    fn agree_in_group(&self, group: &[Rank], tag: u64) -> Result<u64> {
        self.check_group(group)?;
        if !group.contains(&self.rank()) {
            let what = format!("rank {} makes a communicator of a group that it is not in", self.rank());
            return Err(Error::Algorithm(what));
        }
        let next = self.endpoint().next_context();
        let mut founding = Founding::new(self, group, tag, next.into())?;
        self.endpoint().run(&mut founding)?;
        Ok(founding.highest)
    }

    #[cold]
    fn give_up_group(&self, tag: u64, why: Why) {
        let others: Vec<u32> = (0..self.size()).filter_map(|rank| self.world_rank(rank).ok()).collect();
        let mut endpoint = self.endpoint();
        endpoint.give_up_messages(self.own_context(), u64::MAX, tag, why);
        endpoint.tell_gave_up(self.own_context(), u64::MAX, tag, why, others.into_iter());
    }
}

/// A call that has not made its communicator. If it fails, or somebody's operator panics meanwhile, the tag is spent, and
/// others are told.
struct Unfinished<'a> {
    comm: Option<&'a Comm>,
    tag: u32,
    why: Why,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(comm) = self.comm {
            comm.attachment::<Spoilt>().0.borrow_mut().push(self.tag);
            comm.give_up_group(u64::from(self.tag) | GROUPS, self.why);
        }
    }
}

/// What members tell each other: the highest context that the sender has heard of, the one that it would take itself, and
/// what stands for its list.
#[derive(Clone, Copy)]
struct Said {
    highest: u64,
    next: u64,
    digest: u64,
}

impl Said {
    fn bytes(self) -> Bytes {
        Bytes::from(vec![self.highest, self.next, self.digest])
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let (numbers, _) = bytes.as_chunks::<8>();
        match numbers {
            [highest, next, digest] => {
                let [highest, next, digest] = [highest, next, digest].map(|number| u64::from_ne_bytes(*number));
                Ok(Self { highest, next, digest })
            }
            _ => Err(Error::Disagreement { got: bytes.len() as u64, expected: 24 }),
        }
    }
}

/// A call on one rank.
struct Founding<'a> {
    comm: &'a Comm,
    tag: u64,
    /// As ranks of the world, in its order, and as those of the parent.
    members: Vec<(u32, Rank)>,
    place: usize,
    digest: u64,
    /// The context that this rank would take itself, and the highest that it has heard of.
    next: u64,
    highest: u64,
    /// To the member of this round.
    distance: usize,
    receive: Option<Id>,
    /// Nobody waits for its sends before it has received everything, as then all might.
    sends: Vec<Id>,
}

impl<'a> Founding<'a> {
    fn new(comm: &'a Comm, group: &[Rank], tag: u64, next: u64) -> Result<Self> {
        let members: Result<Vec<_>> = group.iter().map(|rank| Ok((comm.world_rank(*rank)?, *rank))).collect();
        let mut members = members?;
        members.sort_unstable();
        let place = members.iter().position(|(_, rank)| *rank == comm.rank()).expect("the caller is in the list");
        let (digest, sends) = (digest_of(group), Vec::new());
        Ok(Self { comm, tag, members, place, digest, next, highest: next, distance: 1, receive: None, sends })
    }

    /// Which member that rank of the world is.
    fn member(&self, world: u32) -> Option<Rank> {
        self.members.binary_search_by_key(&world, |(world, _)| *world).ok().map(|place| self.members[place].1)
    }

    fn begin_round(&mut self, endpoint: &mut Endpoint) -> Result<Id> {
        let (context, tag, count) = (self.comm.own_context(), self.tag, self.members.len());
        let to = self.members[(self.place + self.distance) % count].0;
        let from = self.members[(self.place + count - self.distance) % count].0;
        let Self { highest, next, digest, .. } = *self;
        let message = Span::from(Said { highest, next, digest }.bytes());
        let call = Call::NONE;
        let address = Address { context, to, tag, synchronous: false, call };
        if let Started::Pending(id) = endpoint.start_send(address, message)? {
            self.sends.push(id);
        }
        let select = Select { context, source: Some(from), tag: Some(tag), call };
        Ok(endpoint.start_recv(select, Target::Fresh { align: align_of::<u64>() }))
    }

    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        while self.distance < self.members.len() {
            let receive = match self.receive.take() {
                Some(receive) => receive,
                None => self.begin_round(endpoint)?,
            };
            let Some(ended) = endpoint.result(receive) else {
                self.receive = Some(receive);
                return self.doubt(endpoint);
            };
            let completion = ended?;
            let bytes = completion.span.and_then(Span::into_bytes).expect("memory was made for it");
            let said = Said::read(bytes.as_slice())?;
            if said.digest != self.digest {
                // It would have spoken of this list first.
                return Err(self.disagrees(completion.envelope.source));
            }
            self.highest = self.highest.max(said.highest);
            self.distance *= 2;
        }
        while let Some(send) = self.sends.last() {
            let Some(ended) = endpoint.result_envelope(*send) else { return self.doubt(endpoint) };
            self.sends.pop();
            ended?;
        }
        Ok(true)
    }

    /// Whether there is a reason to give up while this rank waits: a member that has, or one that has sent something about
    /// another list without having been through this call. One that has been takes a higher context next than this
    /// rank would take now. One that has not may do so too, by other communicators that it has made; then nothing is known.
    fn doubt(&self, endpoint: &mut Endpoint) -> Result<bool> {
        let is_member = |rank: u32| self.member(rank).is_some();
        let (context, tag) = (self.comm.own_context(), self.tag);
        if let Some(error) = endpoint.given_up_by(Run { context, tag }, is_member) {
            return Err(error);
        }
        let mut other = None;
        endpoint.look_at_waiting(context, tag, |from, bytes| {
            let differs = |said: Said| said.digest != self.digest && said.next <= self.next;
            if is_member(from) && Said::read(bytes).is_ok_and(differs) {
                other = Some(from);
            }
        });
        other.map_or(Ok(false), |rank| Err(self.disagrees(rank)))
    }

    fn disagrees(&self, world: u32) -> Error {
        let rank = self.member(world).expect("only members are listened to");
        Error::Algorithm(format!("rank {rank} lists another group than rank {}", self.comm.rank()))
    }
}

impl Task for Founding<'_> {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        match self.advance(endpoint) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    }

    fn give_up(&mut self, endpoint: &mut Endpoint) {
        self.receive.take().into_iter().chain(self.sends.drain(..)).for_each(|id| endpoint.abandon(id));
    }
}

impl Drop for Founding<'_> {
    fn drop(&mut self) {
        let comm = self.comm;
        self.give_up(&mut comm.endpoint());
    }
}

#[cfg(test)]
mod tests {
    use treepie_sim::costs::{Clusters, PLogP, Wide};
    use treepie_sim::engine::{Options, run};
    use treepie_topology::Network;

    use super::*;

    /// Runs a body on four ranks in two clusters that are far from each other.
    fn on_clusters<R>(body: impl Fn(Comm) -> R) -> Vec<R> {
        let network = Network::clusters(&[2, 2]).unwrap();
        let wide = Wide { latency: 100_000.0, bandwidth: 1.0 };
        let settings = Clusters::uniform(PLogP::simple(20.0, 50.0), wide, 2).into();
        let simulated = run(&network, &settings, &Options::default(), |fabric| body(Comm::world(fabric)));
        simulated.expect("it can be simulated").into_results()
    }

    #[test]
    fn a_member_that_is_in_the_next_call_already_is_no_stranger() {
        // Rank 1 is through when it has heard from one far away, and rank 0 needs two of them one after the other.
        let sizes = on_clusters(|world| {
            let all = world.create_from_group(&[0, 1, 2, 3], 0)?;
            let came = world.now();
            let near = (world.rank() < 2).then(|| world.create_from_group(&[0, 1], 0)).transpose()?;
            world.barrier()?;
            Ok((all.size(), near.map(|near| near.size()), came))
        });
        let sizes: Vec<_> = sizes.into_iter().collect::<Result<_>>().unwrap();
        assert!(sizes[0].2 > sizes[1].2 * 3 / 2, "rank 0 is later than rank 1: {sizes:?}");
        let sizes: Vec<_> = sizes.into_iter().map(|(all, near, _)| (all, near)).collect();
        assert_eq!(sizes, [(4, Some(2)), (4, Some(2)), (4, None), (4, None)]);
    }

    #[test]
    fn members_do_not_wait_for_one_that_has_left() {
        let errors = on_clusters(|world| {
            if world.rank() == 2 {
                return None;
            }
            world.create_from_group(&[0, 1, 2, 3], 0).err()
        });
        let is_told = |rank: usize| matches!(errors[rank], Some(Error::PeerLost { .. } | Error::GaveUp { .. }));
        assert!(is_told(0) && is_told(1) && is_told(3), "{errors:?}");
    }
}
