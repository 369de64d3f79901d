//! PEX, personalized exchange: an all-to-all of message sizes, then the data.
//!
//! The all-to-all is Bruck's algorithm, a dissemination of ceil(lg P) rounds of P/2 sizes each. A size is one word with
//! the number of messages and their total bytes; received data is checked against it.
//!
//! Cost: T_PE(P) + T_DT.   Memory: 8 bytes per rank.   Any P.   [NBX paper 3.1]

use std::ops::Range;
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_comm::protocol::{Disseminated, Dissemination, RingPosition};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeReactor};
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
    buffers: ExchangeBuffers,
    sizes: Dissemination<SizeTable>,
    /// Data messages not received yet, once the sizes are known.
    missing: u64,
    /// Source and bytes of data received before the sizes.
    uncounted: Vec<(u32, u64)>,
}

/// The all-to-all.
struct SizeTable {
    /// First the sizes to the rank at each distance ahead; after the all-to-all those from the rank at each distance
    /// behind, from which received messages are subtracted.
    sizes: Vec<u64>,
    summary: TrafficSummary,
}

impl SizeTable {
    /// Ranges of distances whose bit `round` is set.
    fn distances(&self, round: u32) -> impl Iterator<Item = Range<usize>> + use<> {
        let (bit, ranks) = (1 << round, self.sizes.len());
        (bit..ranks).step_by(2 * bit).map(move |first| first..ranks.min(first + bit))
    }

    /// Words of a message: the summary and the sizes.
    fn words(&self, round: u32) -> usize {
        1 + self.distances(round).map(|distances| distances.len()).sum::<usize>()
    }
}

impl Disseminated for SizeTable {
    type Message = Bytes;

    fn encode(&mut self, round: u32) -> Bytes {
        let mut words = Vec::with_capacity(self.words(round));
        words.push(self.summary.bits());
        self.distances(round).for_each(|distances| words.extend_from_slice(&self.sizes[distances]));
        Bytes::from(words)
    }

    fn decode(&self, round: u32, bytes: Bytes) -> Option<Bytes> {
        (bytes.as_slice().len() == 8 * self.words(round)).then_some(bytes)
    }

    fn combine(&mut self, round: u32, bytes: Bytes) {
        let mut words = bytes.as_slice().as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        self.summary.merge(words.next().expect("its length was checked"));
        for distances in self.distances(round) {
            self.sizes[distances].iter_mut().zip(&mut words).for_each(|(size, word)| *size = word);
        }
    }
}

impl Pex {
    pub(crate) fn new(position: RingPosition, buffers: ExchangeBuffers) -> Self {
        let mut sizes = vec![0; position.ranks as usize];
        for (to, bytes) in &buffers.outgoing {
            let size = &mut sizes[position.distance_to(*to) as usize];
            *size = with_message(*size, bytes.as_slice().len() as u64);
        }
        let sizes = Dissemination::new(position, SizeTable { sizes, summary: buffers.summary }).begun();
        Self { buffers, sizes, missing: 0, uncounted: Vec::new() }
    }

    /// The index of the size of a rank, once the sizes are known.
    fn index_of(&self, rank: u32) -> usize {
        let position = self.sizes.position;
        (position.ranks - position.distance_to(rank)) as usize
    }

    /// The sizes are known: subtracts the messages received before.
    fn count_early(&mut self) -> Result<()> {
        self.missing = self.sizes.value.sizes.iter().map(|size| size >> BYTE_BITS).sum();
        std::mem::take(&mut self.uncounted).into_iter().try_for_each(|(from, bytes)| self.count_received(from, bytes))
    }

    /// Subtracts a received message from the expected size.
    fn count_received(&mut self, from: u32, bytes: u64) -> Result<()> {
        let index = self.index_of(from);
        let size = &mut self.sizes.value.sizes[index];
        let left = size.checked_sub(ONE).map(|left| with_bytes(left, bytes, false));
        let Some(left) = left.filter(|left| *left == 0 || *left >= ONE) else {
            return Err(Error::LengthMismatch { got: bytes, expected: *size % ONE });
        };
        *size = left;
        self.missing -= 1;
        Ok(())
    }
}

impl Reactor for Pex {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some(transmit) = self.sizes.poll_transmit() {
            return Some(Transmit { tag: MessageKind::Meta.tag(transmit.tag), ..transmit });
        }
        let (to, bytes) = if self.sizes.is_done() { self.buffers.outgoing.pop_front()? } else { return None };
        Some(Transmit::new(to, MessageKind::Data.tag(0), bytes))
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match MessageKind::decode(tag) {
            (MessageKind::Data, _) => {
                let len = bytes.as_slice().len() as u64;
                self.buffers.receive(from, bytes);
                if self.sizes.is_combined() {
                    return self.count_received(from, len);
                }
                self.uncounted.push((from, len));
                Ok(())
            }
            (MessageKind::Meta, round) => {
                self.sizes.on_message(now, from, round, bytes)?;
                if self.sizes.is_combined() { self.count_early() } else { Ok(()) }
            }
            _ => Err(Error::CollectiveOrderMismatch { rank: from as usize }),
        }
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        match self.sizes.dependency_on(rank) {
            PeerDependency::Required => PeerDependency::Required,
            _ if !self.sizes.is_combined() => PeerDependency::Possible,
            _ if rank == self.sizes.position.rank => PeerDependency::Nothing,
            _ if self.sizes.value.sizes[self.index_of(rank)] != 0 => PeerDependency::Required,
            _ => PeerDependency::Nothing,
        }
    }

    fn is_done(&self) -> bool {
        self.sizes.is_done() && self.buffers.outgoing.is_empty() && self.missing == 0
    }
}

impl ExchangeReactor for Pex {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        &mut self.buffers
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.sizes.value.summary
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<ExchangeBuffers>() + self.sizes.value.sizes.capacity() * size_of::<u64>()
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
