//! PEX, personalized exchange: an all-to-all of message sizes, then the data.
//!
//! The all-to-all is Bruck's algorithm: ceil(lg P) rounds of P/2 sizes each. A size is one word with the number of
//! messages and their total bytes; received data is checked against it.
//!
//! Cost: T_PE(P) + T_DT.   Memory: 8 bytes per rank.   Any P.   [NBX paper 3.1]

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeReactor, RingPosition};
use crate::tags::MessageKind;
use crate::traffic_summary::TrafficSummary;

/// Layout of a size: bytes modulo 2^32 in the lower half, number of messages in the upper.
const BYTE_BITS: u32 = 32;
const ONE: u64 = 1 << BYTE_BITS;

/// Adds bytes to a size or subtracts them, modulo 2^32: both sides must only agree in the end.
fn with_bytes(word: u64, bytes: u64, add: bool) -> u64 {
    let low = word as u32;
    let low = if add { low.wrapping_add(bytes as u32) } else { low.wrapping_sub(bytes as u32) };
    word & !(ONE - 1) | u64::from(low)
}

/// Adds a message to a size.
fn with_message(word: u64, bytes: u64) -> u64 {
    let counted = word.checked_add(ONE).expect("a rank sends at most 2^32 - 1 messages to another");
    with_bytes(counted, bytes, true)
}

/// The exchange on one rank.
pub(crate) struct Pex {
    position: RingPosition,
    buffers: ExchangeBuffers,
    /// First the sizes to the rank at each distance ahead; after the all-to-all those from the rank at each distance
    /// behind, from which received messages are subtracted.
    sizes: Vec<u64>,
    /// Messages of later rounds.
    early: Vec<(u32, Bytes)>,
    summary: TrafficSummary,
    /// The current round: its sizes are sent, those of earlier rounds received.
    round: u32,
    /// Size messages to send.
    pending_sizes: VecDeque<Transmit>,
    /// Data messages not received yet, once the sizes are known.
    missing: u64,
    /// Source and bytes of data received before the sizes.
    uncounted: Vec<(u32, u64)>,
}

impl Pex {
    pub(crate) fn new(position: RingPosition, buffers: ExchangeBuffers) -> Self {
        let mut sizes = vec![0; position.ranks as usize];
        for (to, bytes) in &buffers.outgoing {
            let size = &mut sizes[position.distance_to(*to) as usize];
            *size = with_message(*size, bytes.as_slice().len() as u64);
        }
        let mut this = Self {
            position,
            summary: buffers.summary,
            buffers,
            sizes,
            early: Vec::new(),
            round: 0,
            pending_sizes: VecDeque::new(),
            missing: 0,
            uncounted: Vec::new(),
        };
        this.send_sizes();
        this
    }

    fn has_sizes(&self) -> bool {
        self.round == self.position.rounds()
    }

    /// Ranges of distances whose bit `round` is set.
    fn distances(&self, round: u32) -> impl Iterator<Item = Range<usize>> + use<> {
        let (bit, ranks) = (1 << round, self.position.ranks as usize);
        (bit..ranks).step_by(2 * bit).map(move |first| first..ranks.min(first + bit))
    }

    fn send_sizes(&mut self) {
        if self.has_sizes() {
            return;
        }
        let count: usize = self.distances(self.round).map(|distances| distances.len()).sum();
        let mut words = Vec::with_capacity(1 + count);
        words.push(self.summary.bits());
        self.distances(self.round).for_each(|distances| words.extend_from_slice(&self.sizes[distances]));
        let to = self.position.ahead(1 << self.round);
        self.pending_sizes.push_back(Transmit::new(to, MessageKind::Meta.tag(self.round), words));
    }

    fn recv_sizes(&mut self, bytes: &[u8]) -> Result<()> {
        let (words, rest) = bytes.as_chunks::<8>();
        let expected = 1 + self.distances(self.round).map(|distances| distances.len()).sum::<usize>();
        if words.len() != expected || !rest.is_empty() {
            return Err(Error::LengthMismatch { got: bytes.len() as u64, expected: 8 * expected as u64 });
        }
        let (summary, mut words) = words.split_first().expect("there is at least one");
        self.summary.merge(u64::from_ne_bytes(*summary));
        for distances in self.distances(self.round) {
            let (here, rest) = words.split_at(distances.len());
            self.sizes[distances].iter_mut().zip(here).for_each(|(size, word)| *size = u64::from_ne_bytes(*word));
            words = rest;
        }
        self.round += 1;
        self.send_sizes();
        if self.has_sizes() {
            self.missing = self.sizes.iter().map(|size| size >> BYTE_BITS).sum();
            for (from, bytes) in std::mem::take(&mut self.uncounted) {
                self.count_received(from, bytes)?;
            }
        }
        Ok(())
    }

    /// Subtracts a received message from the expected size.
    fn count_received(&mut self, from: u32, bytes: u64) -> Result<()> {
        let size = &mut self.sizes[(self.position.ranks - self.position.distance_to(from)) as usize];
        let left = size.checked_sub(ONE).map(|left| with_bytes(left, bytes, false));
        let Some(left) = left.filter(|left| *left == 0 || *left >= ONE) else {
            return Err(Error::LengthMismatch { got: bytes, expected: *size % ONE });
        };
        *size = left;
        self.missing -= 1;
        Ok(())
    }

    /// Processes received size messages in round order.
    fn process_early(&mut self) -> Result<()> {
        while let Some(index) = self.early.iter().position(|(round, _)| *round == self.round) {
            let (_, bytes) = self.early.swap_remove(index);
            self.recv_sizes(bytes.as_slice())?;
        }
        Ok(())
    }
}

impl Reactor for Pex {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if !self.has_sizes() || !self.pending_sizes.is_empty() {
            return self.pending_sizes.pop_front();
        }
        let (to, bytes) = self.buffers.outgoing.pop_front()?;
        Some(Transmit::new(to, MessageKind::Data.tag(0), bytes))
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match MessageKind::decode(tag) {
            (MessageKind::Data, _) => {
                let len = bytes.as_slice().len() as u64;
                self.buffers.receive(from, bytes);
                if !self.has_sizes() {
                    self.uncounted.push((from, len));
                    return Ok(());
                }
                self.count_received(from, len)
            }
            (MessageKind::Meta, round) if (self.round..self.position.rounds()).contains(&round) => {
                self.early.push((round, bytes));
                self.process_early()
            }
            _ => Err(Error::CollectiveOrderMismatch { rank: from as usize }),
        }
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        let is_early = |round: u32| self.early.iter().any(|(early, _)| *early == round);
        let is_missing = |round: u32| !is_early(round) && self.position.behind(1 << round) == rank;
        if (self.round..self.position.rounds()).any(is_missing) {
            PeerDependency::Required
        } else if !self.has_sizes() {
            PeerDependency::Possible
        } else if rank != self.position.rank
            && self.sizes[(self.position.ranks - self.position.distance_to(rank)) as usize] != 0
        {
            PeerDependency::Required
        } else {
            PeerDependency::Nothing
        }
    }

    fn is_done(&self) -> bool {
        self.has_sizes() && self.pending_sizes.is_empty() && self.buffers.outgoing.is_empty() && self.missing == 0
    }
}

impl ExchangeReactor for Pex {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        &mut self.buffers
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.summary
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<ExchangeBuffers>() + self.sizes.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_up_to_the_bound() {
        let word = with_message(with_message(0, 5), u64::from(u32::MAX));
        assert_eq!(word, 2 * ONE + 4);
        let most = with_message(u64::MAX - ONE, 0);
        assert_eq!(most >> BYTE_BITS, (1 << 32) - 1);
        assert!(std::panic::catch_unwind(|| with_message(most, 0)).is_err());
    }
}
