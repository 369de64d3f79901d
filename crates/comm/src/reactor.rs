//! Runs a reactor on the endpoint: a run of a protocol under the number of one collective operation.
//!
//! Everything in flight is owned by its operation, so nothing of the caller's is in use when this ends, also by an error.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::rc::Rc;

use treepie_base::{Error, Result, Span};
use treepie_fabric::{
    Address, Call, CompletionQueue, Endpoint, Gathered, Id, Needs, OWN_BITS, PROTOCOL, Reactor, Run, Started, Task,
    Transmit, Why, run_tag,
};

use crate::collective::job::INSTANCE_MASK;
use crate::members::Members;

/// What of the engine a reactor may use beside messages: only one that runs alone on its communicator, as all ranks must
/// come to the barrier in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortcuts {
    /// Where the communicator's barriers gather.
    pub(crate) cell: u32,
    /// Which counter of each rank is added to, and for which run, where the communicator has counters.
    pub(crate) counter: Option<(u32, u32)>,
}

/// What a rank brings to the barrier that has given up. No reactor may bring it.
const GAVE_UP: u64 = 1 << 63;

/// A reactor that goes on over the endpoint.
pub(crate) struct Running<R> {
    reactor: R,
    run: Run,
    /// What its messages say that they belong to.
    call: Call,
    /// Reactors know ranks of their communicator, and the endpoint those of the world.
    members: Option<Rc<Members>>,
    /// Of memory for messages.
    align: usize,
    shortcuts: Option<Shortcuts>,
    listening: bool,
    sends: Sends,
    /// Why the reactor did not take something that it was shown in place.
    refused: Option<Error>,
    barrier: Barrier,
    /// It has come to the engine's barrier, for the last time as far as is known.
    has_come: bool,
    /// It is done, or given up.
    is_over: bool,
}

/// A send that goes on.
#[derive(Clone, Copy)]
struct Sending {
    id: Id,
    to: u32,
    tag: u32,
    synchronous: bool,
}

/// The sends that go on. Those that end are found in a completion queue, however many do not.
#[derive(Default)]
struct Sends {
    /// By token.
    all: Vec<Option<Sending>>,
    free: Vec<u32>,
    completions: Option<CompletionQueue>,
    /// Those that may not have been put on their way, where that matters; the oldest first.
    departing: VecDeque<Id>,
}

impl Sends {
    fn is_empty(&self) -> bool {
        self.all.len() == self.free.len()
    }

    fn add(&mut self, sending: Sending, endpoint: &mut Endpoint) {
        let queue = *self.completions.get_or_insert_with(|| endpoint.make_completion_queue());
        let token = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() as u32 - 1
        });
        self.all[token as usize] = Some(sending);
        endpoint.watch_operation(sending.id, queue, token);
    }

    /// The next one that is over.
    #[inline]
    fn next_ended(&mut self, endpoint: &mut Endpoint) -> Option<(Sending, Result<()>)> {
        let (id, token) = endpoint.next_ended(self.completions?)?;
        let sending = self.all[token as usize].take().expect("it was added");
        self.free.push(token);
        Some((sending, endpoint.result_envelope(id).expect("it is over").map(drop)))
    }

    /// Whether all have been put on their way.
    fn all_have_departed(&mut self, endpoint: &Endpoint) -> bool {
        while let Some(first) = self.departing.front() {
            if !endpoint.is_on_its_way(*first) {
                return false;
            }
            self.departing.pop_front();
        }
        true
    }

    /// Gives up those that go on.
    fn end(&mut self, endpoint: &mut Endpoint) {
        let Self { all, completions, .. } = std::mem::take(self);
        all.into_iter().flatten().for_each(|sending| endpoint.abandon(sending.id));
        completions.into_iter().for_each(|queue| endpoint.remove_completion_queue(queue));
    }
}

/// How far this rank is with the engine's barrier.
enum Barrier {
    Away,
    /// It comes there once everything is on its way.
    Coming {
        census: u64,
    },
    There(Id),
    /// All are, and what they had sent before is handed in first.
    All {
        census: u64,
    },
}

impl<R: Reactor> Running<R> {
    /// Under this number among the collectives of a context.
    pub(crate) fn new(reactor: R, context: u32, instance: u32) -> Self {
        Self {
            call: Call::named(reactor.name()),
            reactor,
            run: Run { context, tag: run_tag(instance) | PROTOCOL },
            members: None,
            align: 1,
            shortcuts: None,
            listening: false,
            sends: Sends::default(),
            refused: None,
            barrier: Barrier::Away,
            has_come: false,
            is_over: false,
        }
    }

    /// The same among these ranks instead of all.
    pub(crate) fn among(self, members: Rc<Members>) -> Self {
        Self { members: Some(members), ..self }
    }

    fn world(&self, rank: u32, endpoint: &mut Endpoint) -> Result<u32> {
        self.members.as_ref().map_or(Ok(rank), |members| members.world(rank, endpoint))
    }

    /// What the reactor needs of a rank of the world; nothing if it is not among them. If nobody knows, it may be.
    fn needs(&self, world: u32) -> Option<Needs> {
        match self.members.as_ref().map_or(Some(Some(world)), |members| members.known_rank(world)) {
            Some(rank) => rank.map(|rank| self.reactor.needs(rank)),
            None => Some(Needs::Perhaps),
        }
    }

    /// The same with memory for messages that is aligned like this.
    pub(crate) fn aligned(self, align: usize) -> Self {
        Self { align, ..self }
    }

    /// The same, and the reactor may use these.
    pub(crate) fn with_shortcuts(self, shortcuts: Option<Shortcuts>) -> Self {
        Self { shortcuts, ..self }
    }

    /// The reactor.
    pub(crate) fn reactor_mut(&mut self) -> &mut R {
        &mut self.reactor
    }

    /// The reactor alone.
    pub(crate) fn into_reactor(self) -> R {
        self.reactor
    }

    /// Sends messages that the reactor does not give out by itself. Nobody hears of those that cannot be sent.
    pub(crate) fn say<I: Iterator<Item = Transmit>>(&mut self, words: impl Fn(&R) -> I, endpoint: &mut Endpoint) {
        for word in words(&self.reactor) {
            // A peer that is lost needs no words.
            let _ = self.send(word, endpoint);
        }
    }

    /// The same where it is over before all messages have come: the others are thrown away.
    pub(crate) fn end_with<I: Iterator<Item = Transmit>>(&mut self, words: impl Fn(&R) -> I, endpoint: &mut Endpoint) {
        self.say(words, endpoint);
        self.sends.end(endpoint);
        endpoint.give_up_messages(self.run.context, INSTANCE_MASK, self.run.tag & INSTANCE_MASK, Why::Unsaid);
    }

    fn send(&mut self, transmit: Transmit, endpoint: &mut Endpoint) -> Result<()> {
        let Transmit { to, tag, bytes, synchronous } = transmit;
        assert_eq!(tag >> OWN_BITS, 0, "the tag of a reactor does not fit");
        let Self { run, call, .. } = *self;
        let (world, tag_in_run) = (self.world(to, endpoint)?, run.tag | u64::from(tag));
        let address = Address { context: run.context, to: world, tag: tag_in_run, synchronous, call };
        match endpoint.start_send(address, Span::from(bytes))? {
            Started::Pending(id) => {
                self.sends.add(Sending { id, to, tag, synchronous }, endpoint);
                if self.shortcuts.is_some() {
                    self.sends.departing.push_back(id);
                }
            }
            Started::Done(span) => self.reactor.on_sent(to, tag, span.into_bytes()),
        }
        Ok(())
    }

    /// Adds to counters of others. Not while barriers go on to which this rank came only to give up, and not if the barrier of
    /// this run, like that of the one before, will fail: others may not have read what was added two runs ago.
    fn add(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let Some(Shortcuts { cell, counter: Some((counter, run)) }) = self.shortcuts else { return Ok(()) };
        while !endpoint.is_gathering(cell)
            && let Some(to) = self.reactor.poll_add()
        {
            if let Some(rank) = endpoint.misses_next(cell) {
                return Err(Error::PeerLost { rank: rank as usize });
            }
            // Only the communicator of all ranks has counters.
            endpoint.fabric().add(to, counter, run);
        }
        Ok(())
    }

    /// Hands in what has come. Returns whether anything has.
    fn hand_in(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        let mut any = false;
        // Asking for the time costs as much as handing a short message in.
        let mut now = None;
        while let Some(heard) = endpoint.heard(self.run) {
            let (envelope, bytes) = heard?;
            if envelope.call != self.call {
                return Err(self.call.differs(endpoint.rank(), envelope.call, envelope.source));
            }
            let now = *now.get_or_insert_with(|| endpoint.fabric().now());
            let source = match &self.members {
                Some(members) => {
                    let source = members.rank(envelope.source, endpoint)?;
                    source.ok_or(Error::PeerLost { rank: envelope.source as usize })?
                }
                None => envelope.source,
            };
            let taken = self.reactor.on_message(now, source, own_tag(envelope.tag), bytes);
            taken.map_err(|error| of_world(error, envelope.source))?;
            any = true;
        }
        Ok(any)
    }

    /// Handles what has come, and hands in where it lies what is for this run. Returns whether anything has come. Only for ranks
    /// that know each other: nobody can be asked meanwhile.
    #[inline]
    pub(crate) fn hear(&mut self, endpoint: &mut Endpoint, most: usize) -> bool {
        let (own, call) = (endpoint.rank(), self.call);
        let Self { reactor, members, refused, .. } = self;
        endpoint.hear_in_place(self.run, most, |envelope, body| {
            let source = members.as_ref().map_or(Some(Some(envelope.source)), |all| all.known_rank(envelope.source));
            let lost = Error::PeerLost { rank: envelope.source as usize };
            let taken = match source.flatten() {
                _ if envelope.call != call => Err(call.differs(own, envelope.call, envelope.source)),
                Some(source) => reactor.on_body(source, own_tag(envelope.tag), body),
                None => Err(lost),
            };
            if let Err(error) = taken {
                refused.get_or_insert(of_world(error, envelope.source));
            }
        })
    }

    /// Begins to listen, so that messages can be heard in place.
    pub(crate) fn listen(&mut self, endpoint: &mut Endpoint) {
        if !std::mem::replace(&mut self.listening, true) {
            endpoint.listen(self.run, self.align);
        }
    }

    /// Looks which sends are over. Returns whether the reactor was told of any.
    fn end_sends(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        let Self { sends, reactor, .. } = self;
        let (mut told, mut result) = (false, Ok(()));
        while let Some((sending, ended)) = sends.next_ended(endpoint) {
            if ended.is_ok() {
                reactor.on_sent(sending.to, sending.tag, None);
                if sending.synchronous {
                    reactor.on_taken(sending.to, sending.tag);
                }
                told = true;
            }
            result = result.and(ended);
        }
        result.map(|()| told)
    }

    /// Gets on with the engine's barrier, as far as that is asked for. Returns whether the reactor was told of its end.
    fn meet(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        if matches!(self.barrier, Barrier::Away)
            && let Some(census) = self.reactor.poll_arrive()
        {
            self.barrier = Barrier::Coming { census };
        }
        let Some(shortcuts) = self.shortcuts else { return Ok(false) };
        if let Barrier::Coming { census } = self.barrier
            && self.sends.all_have_departed(endpoint)
        {
            debug_assert_eq!(census & GAVE_UP, 0);
            // A rank that is cut off cannot come there.
            let own = endpoint.rank() as usize;
            let id = endpoint.gather(shortcuts.cell, census).ok_or(Error::PeerLost { rank: own })?;
            self.barrier = Barrier::There(id);
            self.has_come = true;
        }
        if let Barrier::There(id) = self.barrier
            && let Some(ended) = endpoint.result_envelope(id)
        {
            self.barrier = Barrier::All { census: ended?.bytes };
            endpoint.drain();
        }
        let Barrier::All { census } = self.barrier else { return Ok(false) };
        let any = self.hand_in(endpoint)?;
        // One that has given up came there too. Who it is it says by a message, which may be on its way.
        if endpoint.hears_more(self.run) || census & GAVE_UP != 0 {
            return Ok(any);
        }
        self.barrier = Barrier::Away;
        let added = shortcuts.counter.map_or(0, |(counter, run)| endpoint.fabric().added(counter, run));
        self.reactor.on_gathered(Gathered { census, added })?;
        self.has_come = !self.reactor.meets_again();
        Ok(true)
    }

    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        self.listen(endpoint);
        self.refused.take().map_or(Ok(()), Err)?;
        loop {
            self.add(endpoint)?;
            while let Some(transmit) = self.reactor.poll_transmit() {
                self.send(transmit, endpoint)?;
            }
            let told = self.end_sends(endpoint)?;
            if !(self.hand_in(endpoint)? | self.meet(endpoint)? | told) {
                break;
            }
        }
        if !self.reactor.is_done() {
            self.look_for_losses(endpoint)?;
        }
        Ok(self.reactor.is_done() && self.sends.is_empty() && !endpoint.hears_more(self.run))
    }

    /// A rank that is lost without which this cannot end. One that has failed may have failed in it.
    fn lost(&self, endpoint: &Endpoint) -> Option<u32> {
        let is_missed = |rank, has_failed| self.needs(rank).is_some_and(|needs| has_failed || needs == Needs::Message);
        endpoint.lost_for(is_missed)
    }

    /// An error if somebody will not do any more what this waits for.
    fn look_for_losses(&self, endpoint: &mut Endpoint) -> Result<()> {
        self.members.as_ref().map_or(Ok(()), |members| members.learn_lost(endpoint))?;
        if let Some(rank) = self.lost(endpoint) {
            return Err(Error::PeerLost { rank: rank as usize });
        }
        endpoint.fail_differing(self.run.context, self.run.tag, self.call)?;
        let waits = |rank| self.needs(rank).is_some_and(|needs| needs != Needs::Nothing);
        endpoint.given_up_by(self.run, waits).map_or(Ok(()), Err)
    }

    /// The error with which this ends. Of several ranks that are lost all name the lowest; and those that have only heard of
    /// one that gave up, which noticed the loss before, name the lost one as well.
    #[cold]
    fn named(&self, error: Error, endpoint: &mut Endpoint) -> Error {
        if !matches!(error, Error::GaveUp { .. } | Error::PeerLost { .. }) {
            return error;
        }
        endpoint.look_for_losses();
        let lost = endpoint.first_lost(|rank, has_failed| match self.needs(rank) {
            Some(Needs::Message) => true,
            Some(Needs::Perhaps) => has_failed,
            Some(Needs::Nothing) | None => false,
        });
        lost.map_or(error, |rank| Error::PeerLost { rank: rank as usize })
    }

    /// Gives up what goes on, if anything does. Whoever still sends something for it is refused, whoever waits for something of
    /// it is told, and why.
    #[cold]
    pub(crate) fn abandon(&mut self, endpoint: &mut Endpoint, why: Why) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        // Also messages that are matched: who runs no protocol under this number is in another call.
        let Run { context, tag } = self.run;
        let (mask, tag) = (INSTANCE_MASK, tag & INSTANCE_MASK);
        endpoint.give_up_messages(context, mask, tag, why);
        endpoint.stop_listening(self.run);
        self.sends.end(endpoint);
        // All of them: who waits for this one may follow another protocol.
        let others = match &self.members {
            Some(members) => members.all_in_world(endpoint),
            None => (0..endpoint.size()).collect(),
        };
        endpoint.tell_gave_up(context, mask, tag, why, others.into_iter());
        // A run that fails fails on all ranks, which may not even agree about the protocol. So each comes to the barrier once,
        // also by one that has none: then all stay in step there. Where there are several, some may be past the one that
        // others are still at, so all come until one to which somebody has brought that it gave up.
        let Some(Shortcuts { cell, .. }) = self.shortcuts else { return };
        let meets_again = self.reactor.meets_again();
        let arrived = match self.barrier {
            Barrier::There(id) if meets_again => return endpoint.give_up_gathering(cell, id, GAVE_UP),
            Barrier::There(id) => Some(id),
            Barrier::All { census } if meets_again && census & GAVE_UP == 0 => endpoint.gather(cell, GAVE_UP),
            _ if !self.has_come => endpoint.gather(cell, GAVE_UP),
            _ => None,
        };
        arrived.into_iter().for_each(|id| endpoint.abandon(id));
    }
}

/// Errors name ranks of the world.
fn of_world(error: Error, source: u32) -> Error {
    match error {
        Error::OtherOperation { .. } => Error::OtherOperation { rank: source as usize },
        error => error,
    }
}

/// The part of a tag that is the reactor's.
fn own_tag(tag: u64) -> u32 {
    (tag & ((1 << OWN_BITS) - 1)) as u32
}

impl<R: Reactor> Task for Running<R> {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        match self.advance(endpoint) {
            Ok(false) => None,
            Ok(true) => {
                self.is_over = true;
                self.sends.end(endpoint);
                endpoint.stop_listening(self.run);
                Some(Ok(()))
            }
            Err(error) => {
                let error = self.named(error, endpoint);
                self.abandon(endpoint, Why::of(&error));
                Some(Err(error))
            }
        }
    }

    fn give_up(&mut self, endpoint: &mut Endpoint) {
        self.abandon(endpoint, Why::Unsaid);
    }

    /// Nobody may wait for a message that will not come, and peers take a rank that leaves to have sent all of them.
    fn leave(&mut self, endpoint: &mut Endpoint) {
        let own = endpoint.rank();
        self.abandon(endpoint, Why::Lost(own));
    }
}
