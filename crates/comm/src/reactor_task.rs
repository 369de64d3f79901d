//! Runs a reactor on the endpoint: a protocol instance with the instance number of one collective operation.
//!
//! Everything in flight is owned by its operation, so no memory of the caller is in use when this ends, even with an
//! error.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::rc::Rc;

use treepie_base::{Error, Result, Span};
use treepie_fabric::{
    AbortReason, Address, BarrierResult, CallSignature, CompletionQueue, Endpoint, OpId, PROTOCOL_TAG_BIT,
    PeerDependency, ProtocolInstance, Reactor, SUBTAG_BITS, Started, Task, Transmit, operation_tag,
};

use crate::collective::job::INSTANCE_MASK;
use crate::members::Members;

/// Engine services that a reactor may use besides messages: only one that runs exclusively on its communicator, as all
/// ranks must arrive at the barrier in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineServices {
    /// The barrier cell of the communicator.
    pub(crate) barrier_cell: u32,
    /// The counter of each rank to increment, and the run, where the communicator has counters.
    pub(crate) counter: Option<(u32, u32)>,
}

/// The abort bit of the barrier. Reactors must not set it.
const ABORTED: u64 = 1 << 63;

/// A reactor in progress on the endpoint.
pub(crate) struct ReactorTask<R> {
    reactor: R,
    run: ProtocolInstance,
    /// The signature that its messages carry.
    call: CallSignature,
    /// The ranks of the communicator, which the reactor uses; the endpoint uses world ranks. None: they are the same.
    pub(crate) members: Option<Rc<Members>>,
    /// Alignment of memory for messages.
    pub(crate) align: usize,
    /// What the engine does for the reactor.
    pub(crate) services: Option<EngineServices>,
    listening: bool,
    sends: PendingSends,
    /// Why the reactor rejected a message that was delivered in place.
    rejected: Option<Error>,
    barrier: BarrierState,
    /// It has arrived at the engine's barrier, as far as is known for the last time.
    has_arrived: bool,
    /// Complete or aborted.
    is_complete: bool,
}

/// A pending send.
#[derive(Clone, Copy)]
struct PendingSend {
    id: OpId,
    to: u32,
    tag: u32,
    synchronous: bool,
}

/// The pending sends. Completed ones are found by a completion queue, independently of the number of pending ones.
#[derive(Default)]
struct PendingSends {
    /// Indexed by token.
    all: Vec<Option<PendingSend>>,
    free: Vec<u32>,
    completions: Option<CompletionQueue>,
    /// Those that may not have been injected, where that matters; the oldest first.
    uninjected: VecDeque<OpId>,
}

impl PendingSends {
    fn is_empty(&self) -> bool {
        self.all.len() == self.free.len()
    }

    fn add(&mut self, send: PendingSend, endpoint: &mut Endpoint) {
        let queue = *self.completions.get_or_insert_with(|| endpoint.create_completion_queue());
        let token = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() as u32 - 1
        });
        self.all[token as usize] = Some(send);
        endpoint.watch_operation(send.id, queue, token);
    }

    /// The next completed send.
    #[inline]
    fn next_completed(&mut self, endpoint: &mut Endpoint) -> Option<(PendingSend, Result<()>)> {
        let (id, token) = endpoint.poll_completion(self.completions?)?;
        let send = self.all[token as usize].take().expect("the token is in use");
        self.free.push(token);
        Some((send, endpoint.take_envelope(id).expect("it is complete").map(drop)))
    }

    /// Whether all have been injected.
    fn all_injected(&mut self, endpoint: &Endpoint) -> bool {
        while let Some(first) = self.uninjected.front() {
            if !endpoint.is_dispatched(*first) {
                return false;
            }
            self.uninjected.pop_front();
        }
        true
    }

    /// Cancels the pending sends.
    fn cancel_all(&mut self, endpoint: &mut Endpoint) {
        let Self { all, completions, .. } = std::mem::take(self);
        all.into_iter().flatten().for_each(|send| endpoint.abandon(send.id));
        completions.into_iter().for_each(|queue| endpoint.remove_completion_queue(queue));
    }
}

/// State of this rank at the engine's barrier.
enum BarrierState {
    Idle,
    /// Arrives once all sends are injected.
    Arriving {
        traffic_summary: u64,
    },
    Arrived(OpId),
    /// All ranks have arrived; messages sent before that are delivered first.
    Complete {
        traffic_summary: u64,
    },
}

impl<R: Reactor> ReactorTask<R> {
    /// A reactor with this instance number among the collectives of a context.
    #[inline]
    pub(crate) fn new(reactor: R, context: u32, instance: u32) -> Self {
        Self {
            call: reactor.call(),
            reactor,
            run: ProtocolInstance { context, tag: operation_tag(instance) | PROTOCOL_TAG_BIT },
            members: None,
            align: 1,
            services: None,
            listening: false,
            sends: PendingSends::default(),
            rejected: None,
            barrier: BarrierState::Idle,
            has_arrived: false,
            is_complete: false,
        }
    }

    fn world_rank(&self, rank: u32, endpoint: &mut Endpoint) -> Result<u32> {
        self.members.as_ref().map_or(Ok(rank), |members| members.world_rank(rank, endpoint))
    }

    /// The dependency of the reactor on a world rank; `None` if it is not a member. If that is unknown, it may be one.
    fn needs(&self, world: u32) -> Option<PeerDependency> {
        match self.members.as_ref().map_or(Some(Some(world)), |members| members.known_rank(world)) {
            Some(rank) => rank.map(|rank| self.reactor.dependency_on(rank)),
            None => Some(PeerDependency::Possible),
        }
    }

    /// The reactor.
    pub(crate) fn reactor_mut(&mut self) -> &mut R {
        &mut self.reactor
    }

    /// The reactor.
    pub(crate) fn into_reactor(self) -> R {
        self.reactor
    }

    /// Sends messages that the reactor does not transmit itself. Ignores those that cannot be sent.
    pub(crate) fn send_all<I: Iterator<Item = Transmit>>(
        &mut self,
        messages: impl Fn(&R) -> I,
        endpoint: &mut Endpoint,
    ) {
        for message in messages(&self.reactor) {
            // A lost peer needs no message.
            let _ = self.send(message, endpoint);
        }
    }

    /// The same where it is complete before all messages have arrived: the others are discarded.
    pub(crate) fn finish_early<I: Iterator<Item = Transmit>>(
        &mut self,
        messages: impl Fn(&R) -> I,
        endpoint: &mut Endpoint,
    ) {
        self.send_all(messages, endpoint);
        self.sends.cancel_all(endpoint);
        endpoint.abort_messages(
            self.run.context,
            INSTANCE_MASK,
            self.run.tag & INSTANCE_MASK,
            AbortReason::Unspecified,
        );
    }

    fn send(&mut self, transmit: Transmit, endpoint: &mut Endpoint) -> Result<()> {
        let Transmit { to, tag, bytes, synchronous } = transmit;
        assert_eq!(tag >> SUBTAG_BITS, 0, "the tag of a reactor is too large");
        let Self { run, call, .. } = *self;
        let (world, full_tag) = (self.world_rank(to, endpoint)?, run.tag | u64::from(tag));
        let address = Address { context: run.context, to: world, tag: full_tag, synchronous, call };
        match endpoint.isend(address, Span::from(bytes))? {
            Started::Pending(id) => {
                self.sends.add(PendingSend { id, to, tag, synchronous }, endpoint);
                if self.services.is_some() {
                    self.sends.uninjected.push_back(id);
                }
            }
            Started::Done(span) => self.reactor.on_sent(to, tag, span.into_bytes()),
        }
        Ok(())
    }

    /// Increments counters of other ranks. Not while barriers are in progress at which this rank arrived only to abort,
    /// and not if the barrier of this run, like that of the one before, will fail: others may not have read the
    /// increments of two runs ago.
    fn add(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let Some(EngineServices { barrier_cell, counter: Some((counter, run)) }) = self.services else {
            return Ok(());
        };
        while !endpoint.has_barrier(barrier_cell)
            && let Some(to) = self.reactor.poll_increment()
        {
            if let Some(rank) = endpoint.missing_at_next_barrier(barrier_cell) {
                return Err(Error::PeerLost { rank: rank as usize });
            }
            // Only the communicator of all ranks has counters.
            endpoint.fabric().counter_add(to, counter, run);
        }
        Ok(())
    }

    /// Delivers what has arrived. Returns whether anything has.
    fn deliver(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        let mut any = false;
        // Reading the clock costs as much as delivering a short message.
        let mut now = None;
        while let Some(received) = endpoint.recv_protocol(self.run) {
            let (envelope, bytes) = received?;
            if envelope.call != self.call {
                return Err(self.call.mismatch_error(endpoint.rank(), envelope.call, envelope.source));
            }
            let now = *now.get_or_insert_with(|| endpoint.fabric().now());
            let source = match &self.members {
                Some(members) => {
                    let source = members.rank(envelope.source, endpoint)?;
                    source.ok_or(Error::PeerLost { rank: envelope.source as usize })?
                }
                None => envelope.source,
            };
            let result = self.reactor.on_message(now, source, reactor_tag(envelope.tag), bytes);
            result.map_err(|error| with_world_rank(error, envelope.source))?;
            any = true;
        }
        Ok(any)
    }

    /// Makes progress, and delivers messages of this run in place. Returns whether anything has arrived. Only for ranks
    /// that are fully known: no lookup is possible meanwhile.
    #[inline]
    pub(crate) fn recv_protocol_in_place(&mut self, endpoint: &mut Endpoint, max_records: usize) -> bool {
        let (own, call) = (endpoint.rank(), self.call);
        let Self { reactor, members, rejected, .. } = self;
        endpoint.recv_protocol_in_place(self.run, max_records, |envelope, body| {
            let source = members.as_ref().map_or(Some(Some(envelope.source)), |all| all.known_rank(envelope.source));
            let lost = Error::PeerLost { rank: envelope.source as usize };
            let result = match source.flatten() {
                _ if envelope.call != call => Err(call.mismatch_error(own, envelope.call, envelope.source)),
                Some(source) => reactor.on_message_in_place(source, reactor_tag(envelope.tag), body),
                None => Err(lost),
            };
            if let Err(error) = result {
                rejected.get_or_insert(with_world_rank(error, envelope.source));
            }
        })
    }

    /// Opens the protocol instance, so that messages can be received in place.
    pub(crate) fn listen(&mut self, endpoint: &mut Endpoint) {
        if !std::mem::replace(&mut self.listening, true) {
            endpoint.open_protocol(self.run, self.align);
        }
    }

    /// Polls for completed sends. Returns whether the reactor was notified of any.
    fn complete_sends(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        let Self { sends, reactor, .. } = self;
        let (mut notified, mut result) = (false, Ok(()));
        while let Some((send, outcome)) = sends.next_completed(endpoint) {
            if outcome.is_ok() {
                reactor.on_sent(send.to, send.tag, None);
                if send.synchronous {
                    reactor.on_ack(send.to, send.tag);
                }
                notified = true;
            }
            result = result.and(outcome);
        }
        result.map(|()| notified)
    }

    /// Advances the engine's barrier, as far as the reactor requests it. Returns whether the reactor was notified of
    /// its completion.
    fn advance_barrier(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        if matches!(self.barrier, BarrierState::Idle)
            && let Some(traffic_summary) = self.reactor.poll_barrier()
        {
            self.barrier = BarrierState::Arriving { traffic_summary };
        }
        let Some(services) = self.services else { return Ok(false) };
        if let BarrierState::Arriving { traffic_summary } = self.barrier
            && self.sends.all_injected(endpoint)
        {
            debug_assert_eq!(traffic_summary & ABORTED, 0);
            // A rank that is cut off cannot arrive.
            let own = endpoint.rank() as usize;
            let id = endpoint.ibarrier(services.barrier_cell, traffic_summary).ok_or(Error::PeerLost { rank: own })?;
            self.barrier = BarrierState::Arrived(id);
            self.has_arrived = true;
        }
        if let BarrierState::Arrived(id) = self.barrier
            && let Some(result) = endpoint.take_envelope(id)
        {
            self.barrier = BarrierState::Complete { traffic_summary: result?.bytes };
            endpoint.drain();
        }
        let BarrierState::Complete { traffic_summary } = self.barrier else { return Ok(false) };
        let any = self.deliver(endpoint)?;
        // A rank that has aborted arrives as well. Which rank it is follows by a message, which may be in flight.
        if endpoint.has_protocol_messages(self.run) || traffic_summary & ABORTED != 0 {
            return Ok(any);
        }
        self.barrier = BarrierState::Idle;
        let added = services.counter.map_or(0, |(counter, run)| endpoint.fabric().counter_value(counter, run));
        self.reactor.on_barrier(BarrierResult { bits: traffic_summary, counter: added })?;
        self.has_arrived = !self.reactor.expects_barrier();
        Ok(true)
    }

    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        self.listen(endpoint);
        self.rejected.take().map_or(Ok(()), Err)?;
        loop {
            self.add(endpoint)?;
            while let Some(transmit) = self.reactor.poll_transmit() {
                self.send(transmit, endpoint)?;
            }
            let notified = self.complete_sends(endpoint)?;
            if !(self.deliver(endpoint)? | self.advance_barrier(endpoint)? | notified) {
                break;
            }
        }
        if !self.reactor.is_done() {
            self.check_failures(endpoint)?;
        }
        Ok(self.reactor.is_done() && self.sends.is_empty() && !endpoint.has_protocol_messages(self.run))
    }

    /// A lost rank without which this cannot complete. A failed one may have failed in it.
    fn failed_peer(&self, endpoint: &Endpoint) -> Option<u32> {
        let is_missed =
            |rank, has_failed| self.needs(rank).is_some_and(|needs| has_failed || needs == PeerDependency::Required);
        endpoint.first_lost_drained(is_missed)
    }

    /// An error if some rank will never do what this waits for.
    fn check_failures(&self, endpoint: &mut Endpoint) -> Result<()> {
        self.members.as_ref().map_or(Ok(()), |members| members.resolve_failed(endpoint))?;
        if let Some(rank) = self.failed_peer(endpoint) {
            return Err(Error::PeerLost { rank: rank as usize });
        }
        endpoint.check_mismatch(self.run.context, self.run.tag, self.call)?;
        let waits = |rank| self.needs(rank).is_some_and(|needs| needs != PeerDependency::Nothing);
        endpoint.abort_error(self.run, waits).map_or(Ok(()), Err)
    }

    /// The error with which this ends. If several ranks are lost, all ranks name the lowest; ranks that only learned of
    /// an abort by a rank that noticed the loss before name the lost rank as well.
    #[cold]
    fn root_cause(&self, error: Error, endpoint: &mut Endpoint) -> Error {
        if !matches!(error, Error::Aborted { .. } | Error::PeerLost { .. }) {
            return error;
        }
        endpoint.check_failures();
        let lost = endpoint.first_lost(|rank, has_failed| match self.needs(rank) {
            Some(PeerDependency::Required) => true,
            Some(PeerDependency::Possible) => has_failed,
            Some(PeerDependency::Nothing) | None => false,
        });
        lost.map_or(error, |rank| Error::PeerLost { rank: rank as usize })
    }

    /// Aborts it unless it is complete: refuses messages that still arrive for it, and notifies ranks that wait for
    /// messages of it, with the reason.
    #[cold]
    pub(crate) fn abort_with(&mut self, endpoint: &mut Endpoint, why: AbortReason) {
        if std::mem::replace(&mut self.is_complete, true) {
            return;
        }
        // Matched messages as well: a rank that runs no protocol under this number is in another call.
        let ProtocolInstance { context, tag } = self.run;
        let (mask, tag) = (INSTANCE_MASK, tag & INSTANCE_MASK);
        endpoint.abort_messages(context, mask, tag, why);
        endpoint.close_protocol(self.run);
        self.sends.cancel_all(endpoint);
        // All ranks: one that waits for this rank may run another protocol.
        let others = match &self.members {
            Some(members) => members.world_ranks(endpoint),
            None => (0..endpoint.size()).collect(),
        };
        endpoint.announce_abort(context, mask, tag, why, others.into_iter());
        // A run that fails fails on all ranks, which may not even agree on the protocol. So each rank arrives at the
        // barrier once, even if its protocol has none: then all stay in step. Where a protocol has several barriers,
        // some ranks may be past the one at which others are, so ranks keep arriving until a barrier completes with the
        // abort bit set.
        let Some(EngineServices { barrier_cell, .. }) = self.services else { return };
        let expects_barrier = self.reactor.expects_barrier();
        let arrived = match self.barrier {
            BarrierState::Arrived(id) if expects_barrier => return endpoint.abort_barrier(barrier_cell, id, ABORTED),
            BarrierState::Arrived(id) => Some(id),
            BarrierState::Complete { traffic_summary } if expects_barrier && traffic_summary & ABORTED == 0 => {
                endpoint.ibarrier(barrier_cell, ABORTED)
            }
            _ if !self.has_arrived => endpoint.ibarrier(barrier_cell, ABORTED),
            _ => None,
        };
        arrived.into_iter().for_each(|id| endpoint.abandon(id));
    }
}

/// Errors name world ranks.
fn with_world_rank(error: Error, source: u32) -> Error {
    match error {
        Error::CollectiveOrderMismatch { .. } => Error::CollectiveOrderMismatch { rank: source as usize },
        error => error,
    }
}

/// The part of a tag that belongs to the reactor.
fn reactor_tag(tag: u64) -> u32 {
    (tag & ((1 << SUBTAG_BITS) - 1)) as u32
}

impl<R: Reactor> Task for ReactorTask<R> {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        match self.advance(endpoint) {
            Ok(false) => None,
            Ok(true) => {
                self.is_complete = true;
                self.sends.cancel_all(endpoint);
                endpoint.close_protocol(self.run);
                Some(Ok(()))
            }
            Err(error) => {
                let error = self.root_cause(error, endpoint);
                self.abort_with(endpoint, AbortReason::from_error(&error));
                Some(Err(error))
            }
        }
    }

    fn abort(&mut self, endpoint: &mut Endpoint) {
        self.abort_with(endpoint, AbortReason::Unspecified);
    }

    /// No rank may wait for a message that will not be sent, and peers assume that a finalized rank has sent all of its
    /// messages.
    fn on_finalize(&mut self, endpoint: &mut Endpoint) {
        let own = endpoint.rank();
        self.abort_with(endpoint, AbortReason::PeerLost(own));
    }
}
