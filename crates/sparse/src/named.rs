//! An exchange that tells others by which protocol it is, and refuses those of others.
//!
//! All ranks choose the same protocol, unless an exchange before has failed on some of them only. Then they must not take
//! each other's messages for something else.

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{Gathered, Needs, Reactor, Transmit};

use crate::census::Census;
use crate::protocol::{Exchange, Post, Protocol};
use crate::tags::{of_protocol, own};

/// An exchange with the name of its protocol.
pub(crate) struct Named<E> {
    protocol: Protocol,
    exchange: E,
}

impl<E> Named<E> {
    pub(crate) fn new(protocol: Protocol, exchange: E) -> Self {
        Self { protocol, exchange }
    }

    fn number(&self) -> u32 {
        self.protocol as u32
    }
}

impl<E: Exchange> Reactor for Named<E> {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.exchange.poll_transmit()?;
        Some(Transmit { tag: of_protocol(self.number(), transmit.tag), ..transmit })
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let tag = own(self.number(), from, tag)?;
        self.exchange.on_message(now, from, tag, bytes)
    }

    fn on_taken(&mut self, to: u32, tag: u32) {
        let tag = own(self.number(), to, tag).expect("this rank sent it");
        self.exchange.on_taken(to, tag);
    }

    fn poll_add(&mut self) -> Option<u32> {
        self.exchange.poll_add()
    }

    fn poll_arrive(&mut self) -> Option<u64> {
        self.exchange.poll_arrive().map(|census| census | Census::of_protocol(self.number()))
    }

    fn on_gathered(&mut self, gathered: Gathered) -> Result<()> {
        if !Census::are_all_of_protocol(gathered.census, self.number()) {
            return Err(Error::Algorithm(format!(
                "ranks came to the barrier of {} by different protocols",
                self.protocol
            )));
        }
        self.exchange.on_gathered(gathered)
    }

    fn name(&self) -> &'static str {
        self.protocol.id()
    }

    fn needs(&self, rank: u32) -> Needs {
        self.exchange.needs(rank)
    }

    fn is_done(&self) -> bool {
        self.exchange.is_done()
    }
}

impl<E: Exchange> Exchange for Named<E> {
    fn post(&mut self) -> &mut Post {
        self.exchange.post()
    }

    fn census(&self) -> Census {
        self.exchange.census()
    }

    fn memory(&self) -> usize {
        self.exchange.memory()
    }
}
