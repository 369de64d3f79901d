//! Runs a reactor on the endpoint: its messages become sends and receives under the tag of one collective operation.
//!
//! Receives get memory made for their message, since nobody knows how long it is. Everything in flight is owned by its
//! operation, so nothing of the caller's is in use when this ends, also by an error.

#[cfg(test)]
mod tests;

use treepie_base::{Bytes, Result, Span};
use treepie_fabric::{Address, Endpoint, Envelope, Expect, Id, Reactor, Select, Started, Target, Task, Transmit};

use crate::collective::job::{INSTANCE_MASK, instance_tag};

/// A reactor that goes on over the endpoint.
pub(crate) struct Running<R> {
    reactor: R,
    context: u32,
    instance: u32,
    sends: Vec<Id>,
    /// In the order in which they were begun.
    receives: Vec<Receive>,
}

/// A receive that goes on, or whose message waits for an earlier one.
struct Receive {
    id: Id,
    expect: Expect,
    got: Option<(Envelope, Bytes)>,
}

impl<R: Reactor> Running<R> {
    /// Under this number among the collectives of a context.
    pub(crate) fn new(reactor: R, context: u32, instance: u32) -> Self {
        Self { reactor, context, instance, sends: Vec::new(), receives: Vec::new() }
    }

    /// The reactor. Of use once it is done.
    pub(crate) fn reactor_mut(&mut self) -> &mut R {
        &mut self.reactor
    }

    fn tag(&self, tag: u32) -> u32 {
        debug_assert_eq!(tag & !OWN_MASK, 0, "the tag of a reactor does not fit");
        instance_tag(self.instance) | tag & OWN_MASK
    }

    fn receive(&mut self, expect: Expect, endpoint: &mut Endpoint) {
        let select = Select { context: self.context, source: expect.from, tag: Some(self.tag(expect.tag)) };
        let id = endpoint.start_recv(select, Target::Fresh { align: 1 });
        self.receives.push(Receive { id, expect, got: None });
    }

    fn send(&mut self, transmit: Transmit, endpoint: &mut Endpoint) -> Result<()> {
        let Transmit { to, tag, bytes } = transmit;
        let address = Address { context: self.context, to, tag: self.tag(tag), synchronous: false };
        if let Started::Pending(id) = endpoint.start_send(address, Span::from(bytes))? {
            self.sends.push(id);
        }
        Ok(())
    }

    /// Hands in what has come. Returns whether anything has.
    fn hand_in(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        let mut any = false;
        let mut i = 0;
        while i < self.receives.len() {
            let receive = &mut self.receives[i];
            if receive.got.is_none()
                && let Some(result) = endpoint.result(receive.id)
            {
                let completion = result?;
                let bytes = completion.span.and_then(Span::into_bytes).expect("memory was made for the message");
                receive.got = Some((completion.envelope, bytes));
            }
            if self.is_next(i)
                && let Some((envelope, bytes)) = self.receives.remove(i).got
            {
                let now = endpoint.fabric().now();
                self.reactor.on_message(now, envelope.source, envelope.tag & OWN_MASK, bytes)?;
                any = true;
            } else {
                i += 1;
            }
        }
        Ok(any)
    }

    /// Whether a receive has its message, and no earlier one is still getting one of the same pair and tag: a long message
    /// takes longer than a short one that was sent after it. An earlier receive that would take the message has got one of
    /// its own, or it would have got this one, so this waits for nothing that may never come.
    fn is_next(&self, place: usize) -> bool {
        let Receive { expect, got: Some((envelope, _)), .. } = &self.receives[place] else { return false };
        let same = |earlier: &Receive| {
            earlier.expect.tag == expect.tag && earlier.expect.from.is_none_or(|from| from == envelope.source)
        };
        !self.receives[..place].iter().any(same)
    }

    /// Looks which sends are over.
    fn end_sends(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let mut result = Ok(());
        self.sends.retain(|id| match endpoint.result_envelope(*id) {
            Some(ended) => {
                result = result.clone().and(ended.map(drop));
                false
            }
            None => true,
        });
        result
    }

    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        loop {
            // Receives first: a message that finds its receive is not copied twice.
            while let Some(expect) = self.reactor.poll_expect() {
                self.receive(expect, endpoint);
            }
            while let Some(transmit) = self.reactor.poll_transmit() {
                self.send(transmit, endpoint)?;
            }
            if !self.hand_in(endpoint)? {
                break;
            }
        }
        self.end_sends(endpoint)?;
        Ok(self.reactor.is_done() && self.sends.is_empty())
    }

    /// Gives up what goes on. Whoever still sends something for it is refused, whoever waits for something of it is told.
    #[cold]
    fn abandon(&mut self, endpoint: &mut Endpoint) {
        let bits = instance_tag(self.instance);
        endpoint.give_up_messages(self.context, INSTANCE_MASK, bits);
        let receives = self.receives.drain(..).map(|receive| receive.id);
        receives.chain(self.sends.drain(..)).for_each(|id| endpoint.abandon(id));
        endpoint.tell_gave_up(self.context, INSTANCE_MASK, bits, self.reactor.receivers().into_iter());
    }
}

/// Bits of a tag that are the reactor's.
const OWN_MASK: u32 = (1 << INSTANCE_MASK.trailing_zeros()) - 1;

impl<R: Reactor> Task for Running<R> {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        match self.advance(endpoint) {
            Ok(false) => None,
            Ok(true) => {
                // What was expected and not needed.
                self.receives.drain(..).for_each(|receive| endpoint.abandon(receive.id));
                Some(Ok(()))
            }
            Err(error) => {
                self.abandon(endpoint);
                Some(Err(error))
            }
        }
    }

    fn give_up(&mut self, endpoint: &mut Endpoint) {
        self.abandon(endpoint);
    }
}
