//! Noncollective communicator creation: only the members of a group take part (`MPI_Comm_create_group`).
//!
//! The other ranks of the parent do not call. So nothing that all of them count can be used, such as instance numbers,
//! and members agree by matched messages: ceil(lg n) rounds for n members, in each a message to the member at distance
//! 1, 2, 4, ... (dissemination). After the last round every member has information of every other. A member gets at
//! most one message from another in a call, and messages of one rank arrive in order. So consecutive calls do not
//! interfere, whatever their members, even with the same tag.
//!
//! A rank that learns that a member has another list aborts and notifies all ranks of the parent, as ranks that list it
//! may not be in its own list. Members are ordered by world rank, so lists that differ only in their order are compared
//! in the first round. Other differences are detected by ranks that receive from an unexpected member: see
//! [`GroupCreation::check_peers`].

use std::cell::RefCell;

use treepie_base::{Bytes, Error, Rank, Result, Span};
use treepie_fabric::{
    AbortReason, Address, CallSignature, Endpoint, GROUP_TAG_BIT, OpId, ProtocolInstance, RecvTarget, Select, Started,
    Task,
};

use crate::comm::Comm;
use crate::split::group_digest;

/// The largest tag of a call; the bits above distinguish such messages from others.
const MAX_GROUP_TAG: u32 = (1 << 30) - 1;

/// Tags under which this rank has aborted. Messages under them are discarded, and other ranks know that none will be
/// sent.
#[derive(Default)]
struct AbortedTags(RefCell<Vec<u32>>);

impl Comm {
    /// A communicator of these ranks, in this order, created by its members only (`MPI_Comm_create_group`): all of them
    /// call it with the same list and tag, and the other ranks do not call. Calls with several lists must come in the
    /// same order on all ranks that they share; then the tag does not matter. It is at most 2^30 - 1; a larger one is
    /// refused before any rank is notified.
    ///
    /// # Errors
    /// If a rank does not exist or is listed twice, or the caller is not in the list. If lists differ, on every caller
    /// that receives from a member with another list, or that lists a rank on which the call failed. The call waits for
    /// a member that never calls, as every collective operation does; it may also wait for one that has called with
    /// another list, if that member has created more communicators than the ranks to which it sends.
    ///
    /// After an error the tag is unusable for groups that contain a rank on which the call failed, also for calls in
    /// progress elsewhere: use another tag.
    pub fn create_group(&self, group: &[Rank], tag: u32) -> Result<Comm> {
        if tag > MAX_GROUP_TAG {
            return Err(Error::Algorithm(format!("group tag {tag} exceeds the maximum of {MAX_GROUP_TAG}")));
        }
        let aborted = self.attribute::<AbortedTags>();
        if aborted.0.borrow().contains(&tag) {
            return Err(Error::Algorithm(format!("create_group failed under tag {tag} before; use another tag")));
        }
        let mut guard = AbortGuard { comm: Some(self), tag, why: AbortReason::Unspecified };
        let agreed = self.agree_in_group(group, u64::from(tag) | GROUP_TAG_BIT);
        let context = agreed.inspect_err(|error| guard.why = AbortReason::from_error(error))?;
        guard.comm = None;
        let context = self.take_context([context])?;
        Ok(self.subcomm(context, self.members_of(group)?))
    }

    /// The maximum of the next contexts of the members.
    fn agree_in_group(&self, group: &[Rank], tag: u64) -> Result<u64> {
        self.check_group(group)?;
        if !group.contains(&self.rank()) {
            let what = format!("rank {} calls create_group for a group that does not contain it", self.rank());
            return Err(Error::Algorithm(what));
        }
        let next = self.endpoint().next_context();
        let mut creation = GroupCreation::new(self, group, tag, next.into())?;
        self.endpoint().run_task(&mut creation)?;
        Ok(creation.highest)
    }

    #[cold]
    fn abort_group(&self, tag: u64, why: AbortReason) {
        let others: Vec<u32> = (0..self.size()).filter_map(|rank| self.world_rank(rank).ok()).collect();
        let mut endpoint = self.endpoint();
        endpoint.abort_messages(self.collective_context(), u64::MAX, tag, why);
        endpoint.announce_abort(self.collective_context(), u64::MAX, tag, why, others.into_iter());
    }
}

/// A call that has not created its communicator. If it fails, or an operator panics meanwhile, the tag becomes
/// unusable, and the other ranks are notified.
struct AbortGuard<'a> {
    comm: Option<&'a Comm>,
    tag: u32,
    why: AbortReason,
}

impl Drop for AbortGuard<'_> {
    fn drop(&mut self) {
        if let Some(comm) = self.comm {
            comm.attribute::<AbortedTags>().0.borrow_mut().push(self.tag);
            comm.abort_group(u64::from(self.tag) | GROUP_TAG_BIT, self.why);
        }
    }
}

/// The message between members: the highest context that the sender knows of, its own next context, and the digest of
/// its list.
#[derive(Clone, Copy)]
struct GroupMessage {
    highest: u64,
    next: u64,
    digest: u64,
}

impl GroupMessage {
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
            _ => Err(Error::LengthMismatch { got: bytes.len() as u64, expected: 24 }),
        }
    }
}

/// A call on one rank.
struct GroupCreation<'a> {
    comm: &'a Comm,
    tag: u64,
    /// World rank and rank in the parent, ordered by world rank.
    members: Vec<(u32, Rank)>,
    index: usize,
    digest: u64,
    /// The next context of this rank, and the highest that it knows of.
    next: u64,
    highest: u64,
    /// Distance to the partner of this round.
    distance: usize,
    receive: Option<OpId>,
    /// Completed only after all receives: waiting for them earlier could deadlock.
    sends: Vec<OpId>,
}

impl<'a> GroupCreation<'a> {
    fn new(comm: &'a Comm, group: &[Rank], tag: u64, next: u64) -> Result<Self> {
        let members: Result<Vec<_>> = group.iter().map(|rank| Ok((comm.world_rank(*rank)?, *rank))).collect();
        let mut members = members?;
        members.sort_unstable();
        let index = members.iter().position(|(_, rank)| *rank == comm.rank()).expect("the caller is in the list");
        let (digest, sends) = (group_digest(group), Vec::new());
        Ok(Self { comm, tag, members, index, digest, next, highest: next, distance: 1, receive: None, sends })
    }

    /// The member with this world rank.
    fn member(&self, world: u32) -> Option<Rank> {
        self.members.binary_search_by_key(&world, |(world, _)| *world).ok().map(|index| self.members[index].1)
    }

    fn begin_round(&mut self, endpoint: &mut Endpoint) -> Result<OpId> {
        let (context, tag, count) = (self.comm.collective_context(), self.tag, self.members.len());
        let to = self.members[(self.index + self.distance) % count].0;
        let from = self.members[(self.index + count - self.distance) % count].0;
        let Self { highest, next, digest, .. } = *self;
        let message = Span::from(GroupMessage { highest, next, digest }.bytes());
        let call = CallSignature::NONE;
        let address = Address { context, to, tag, synchronous: false, call };
        if let Started::Pending(id) = endpoint.isend(address, message)? {
            self.sends.push(id);
        }
        let select = Select { context, source: Some(from), tag: Some(tag), call };
        Ok(endpoint.irecv(select, RecvTarget::Allocate { align: align_of::<u64>() }))
    }

    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        while self.distance < self.members.len() {
            let receive = match self.receive.take() {
                Some(receive) => receive,
                None => self.begin_round(endpoint)?,
            };
            let Some(result) = endpoint.take_result(receive) else {
                self.receive = Some(receive);
                return self.check_peers(endpoint);
            };
            let completion = result?;
            let bytes = completion.span.and_then(Span::into_bytes).expect("the receive allocated memory");
            let message = GroupMessage::read(bytes.as_slice())?;
            if message.digest != self.digest {
                // A member in this call would have sent a message of this call first.
                return Err(self.group_mismatch(completion.envelope.source));
            }
            self.highest = self.highest.max(message.highest);
            self.distance *= 2;
        }
        while let Some(send) = self.sends.last() {
            let Some(result) = endpoint.take_envelope(*send) else { return self.check_peers(endpoint) };
            self.sends.pop();
            result?;
        }
        Ok(true)
    }

    /// Whether there is a reason to abort while this rank waits: a member that has aborted, or one that has sent a
    /// message about another list without having completed this call. The next context of one that has completed it is
    /// higher than this rank's. That of one that has not may be higher too, because of other communicators it has
    /// created; then nothing is known.
    fn check_peers(&self, endpoint: &mut Endpoint) -> Result<bool> {
        let is_member = |rank: u32| self.member(rank).is_some();
        let (context, tag) = (self.comm.collective_context(), self.tag);
        if let Some(error) = endpoint.abort_error(ProtocolInstance { context, tag }, is_member) {
            return Err(error);
        }
        let mut other = None;
        endpoint.for_each_unexpected(context, tag, |from, bytes| {
            let differs = |message: GroupMessage| message.digest != self.digest && message.next <= self.next;
            if is_member(from) && GroupMessage::read(bytes).is_ok_and(differs) {
                other = Some(from);
            }
        });
        other.map_or(Ok(false), |rank| Err(self.group_mismatch(rank)))
    }

    fn group_mismatch(&self, world: u32) -> Error {
        let rank = self.member(world).expect("only messages of members are considered");
        Error::Algorithm(format!("rank {rank} passes another group than rank {}", self.comm.rank()))
    }
}

impl Task for GroupCreation<'_> {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        match self.advance(endpoint) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    }

    fn abort(&mut self, endpoint: &mut Endpoint) {
        self.receive.take().into_iter().chain(self.sends.drain(..)).for_each(|id| endpoint.abandon(id));
    }
}

impl Drop for GroupCreation<'_> {
    fn drop(&mut self) {
        let comm = self.comm;
        self.abort(&mut comm.endpoint());
    }
}

#[cfg(test)]
mod tests {
    use treepie_sim::costs::{ClusterCosts, PLogP, WanLink};
    use treepie_sim::engine::{Options, run};
    use treepie_topology::Network;

    use super::*;

    /// Runs a body on four ranks in two clusters with a slow wide-area link.
    fn on_clusters<R>(body: impl Fn(Comm) -> R) -> Vec<R> {
        let network = Network::clusters(&[2, 2]).unwrap();
        let wide = WanLink { latency: 100_000.0, bandwidth: 1.0 };
        let settings = ClusterCosts::uniform(PLogP::from_latency_bandwidth(20.0, 50.0), wide, 2).into();
        let simulated = run(&network, &settings, &Options::default(), |fabric| body(Comm::world(fabric)));
        simulated.expect("it can be simulated").into_results()
    }

    #[test]
    fn a_member_that_is_in_the_next_call_already_is_no_mismatch() {
        // Rank 1 is complete when it has received one message over the wide-area link, and rank 0 needs two, one after
        // the other.
        let sizes = on_clusters(|world| {
            let all = world.create_group(&[0, 1, 2, 3], 0)?;
            let completed_at = world.now();
            let near = (world.rank() < 2).then(|| world.create_group(&[0, 1], 0)).transpose()?;
            world.barrier()?;
            Ok((all.size(), near.map(|near| near.size()), completed_at))
        });
        let sizes: Vec<_> = sizes.into_iter().collect::<Result<_>>().unwrap();
        assert!(sizes[0].2 > sizes[1].2 * 3 / 2, "rank 0 is later than rank 1: {sizes:?}");
        let sizes: Vec<_> = sizes.into_iter().map(|(all, near, _)| (all, near)).collect();
        assert_eq!(sizes, [(4, Some(2)), (4, Some(2)), (4, None), (4, None)]);
    }

    #[test]
    fn members_do_not_wait_for_one_that_has_finalized() {
        let errors = on_clusters(|world| {
            if world.rank() == 2 {
                return None;
            }
            world.create_group(&[0, 1, 2, 3], 0).err()
        });
        let is_notified = |rank: usize| matches!(errors[rank], Some(Error::PeerLost { .. } | Error::Aborted { .. }));
        assert!(is_notified(0) && is_notified(1) && is_notified(3), "{errors:?}");
    }
}
