//! Dissemination: ceil(lg P) rounds, after which every rank has learned something of every other.
//!
//! In round k a rank sends to the rank 2^k ahead, after it has combined the message of round k - 1 with what it has.
//! What that is differs ([`Disseminated`]):
//!
//! | carried | message of round k | at the end |
//! |---|---|---|
//! | nothing, a union, a maximum | what is known so far | that of all ranks: a barrier, an agreement |
//! | sums | those of the last 2^k ranks, and of P mod 2^k ranks | the sum, each rank counted once |
//! | lists | those of the last 2^k ranks | all lists: Bruck's allgather |
//! | a value for each rank | those whose distance has bit k | all-to-all or reduce-scatter |
//!
//! Cost: ceil(lg P) messages for each rank, one after the other.   Any P.
//! [Hensgen, Finkel, Manber 1988; Bruck et al. 1997]

use std::collections::VecDeque;
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

/// A rank and the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPosition {
    /// This rank.
    pub rank: u32,
    /// P.
    pub ranks: u32,
}

impl RingPosition {
    /// The rank `distance` ahead on the ring of ranks.
    #[inline]
    pub fn ahead(self, distance: u32) -> u32 {
        (self.rank + distance) % self.ranks
    }

    /// The rank `distance` behind.
    #[inline]
    pub fn behind(self, distance: u32) -> u32 {
        (self.rank + self.ranks - distance) % self.ranks
    }

    /// The distance ahead to a rank.
    #[inline]
    pub fn distance_to(self, rank: u32) -> u32 {
        (rank + self.ranks - self.rank) % self.ranks
    }

    /// ceil(lg P).
    #[inline]
    pub fn rounds(self) -> u32 {
        self.ranks.next_power_of_two().ilog2()
    }
}

/// What a dissemination carries. Round k is encoded when all rounds before it are combined, and combined after that.
pub trait Disseminated {
    /// A decoded message.
    type Message;

    /// The message of a round.
    fn encode(&mut self, round: u32) -> Bytes;

    /// Decodes a message, maybe long before it is combined; `None` if it is not one of this round.
    fn decode(&self, round: u32, bytes: Bytes) -> Option<Self::Message>;

    /// Combines the message of a round, from the rank 2^round behind.
    fn combine(&mut self, round: u32, message: Self::Message);

    /// The work since the last call, as [`Reactor::take_work`].
    fn take_work(&mut self) -> u64 {
        0
    }
}

/// A dissemination on one rank. The tag of a message is its round.
#[derive(Debug)]
pub struct Dissemination<D: Disseminated> {
    /// This rank.
    pub position: RingPosition,
    /// What is known so far. What others learn of it must not change after [`begin`](Self::begin).
    pub value: D,
    has_begun: bool,
    /// Rounds that are combined; the next one is sent.
    combined: u32,
    /// Rounds whose message has arrived, as bits.
    received: u32,
    /// Messages that arrived before their turn, with their rounds.
    early: Vec<(u32, D::Message)>,
    outgoing: VecDeque<Transmit>,
}

impl<D: Disseminated> Dissemination<D> {
    /// A dissemination that receives, and sends nothing before it [begins](Self::begin).
    pub fn new(position: RingPosition, value: D) -> Self {
        let (early, outgoing) = (Vec::new(), VecDeque::new());
        Self { position, value, has_begun: false, combined: 0, received: 0, early, outgoing }
    }

    /// Begins with the present value, unless it has begun.
    pub fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.send();
            self.combine_early();
        }
    }

    /// The same, begun.
    pub fn begun(mut self) -> Self {
        self.begin();
        self
    }

    /// Back to the state before [`begin`](Self::begin), for another dissemination.
    pub fn reset(&mut self) {
        (self.has_begun, self.combined, self.received) = (false, 0, 0);
        self.early.clear();
        self.outgoing.clear();
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether all rounds are combined. Messages to others may be left.
    pub fn is_combined(&self) -> bool {
        self.has_begun && self.combined == self.position.rounds()
    }

    /// Whether all messages have been sent. Those of others may be missing.
    pub fn is_sent(&self) -> bool {
        self.has_begun && self.combined + 1 >= self.position.rounds() && self.outgoing.is_empty()
    }

    /// Whether a message of a rank is missing.
    pub fn expects(&self, rank: u32) -> bool {
        self.missing().any(|round| self.position.behind(1 << round) == rank)
    }

    /// The rounds whose message has not arrived.
    pub fn missing(&self) -> impl Iterator<Item = u32> {
        (0..self.position.rounds()).filter(|round| self.received >> round & 1 == 0)
    }

    fn send(&mut self) {
        let round = self.combined;
        if round < self.position.rounds() {
            let message = self.value.encode(round);
            self.outgoing.push_back(Transmit::new(self.position.ahead(1 << round), round, message));
        }
    }

    fn combine_early(&mut self) {
        while self.has_begun
            && let Some(index) = self.early.iter().position(|(round, _)| *round == self.combined)
        {
            let (round, message) = self.early.swap_remove(index);
            self.combine(round, message);
        }
    }

    fn combine(&mut self, round: u32, message: D::Message) {
        self.value.combine(round, message);
        self.combined += 1;
        self.send();
    }
}

impl<D: Disseminated> Reactor for Dissemination<D> {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outgoing.pop_front()
    }

    fn on_message(&mut self, _now: Duration, from: u32, round: u32, bytes: Bytes) -> Result<()> {
        let is_expected = self.missing().any(|missing| missing == round) && self.position.behind(1 << round) == from;
        let message = if is_expected { self.value.decode(round, bytes) } else { None };
        // The sender runs another operation.
        let message = message.ok_or(Error::CollectiveOrderMismatch { rank: from as usize })?;
        self.received |= 1 << round;
        if self.has_begun && round == self.combined {
            self.combine(round, message);
            self.combine_early();
        } else {
            self.early.push((round, message));
        }
        Ok(())
    }

    fn take_work(&mut self) -> u64 {
        self.value.take_work()
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        if self.expects(rank) { PeerDependency::Required } else { PeerDependency::Nothing }
    }

    fn is_done(&self) -> bool {
        self.is_combined() && self.outgoing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks from which something has arrived, in the order of the ring.
    struct Seen(Vec<u32>);

    impl Disseminated for Seen {
        type Message = Vec<u32>;

        fn encode(&mut self, _round: u32) -> Bytes {
            Bytes::from(self.0.clone())
        }

        fn decode(&self, round: u32, bytes: Bytes) -> Option<Vec<u32>> {
            bytes.into_vec().ok().filter(|ranks: &Vec<u32>| ranks.len() == 1 << round)
        }

        fn combine(&mut self, _round: u32, mut ranks: Vec<u32>) {
            ranks.append(&mut self.0);
            self.0 = ranks;
        }
    }

    fn all(ranks: u32) -> Vec<Dissemination<Seen>> {
        (0..ranks).map(|rank| Dissemination::new(RingPosition { rank, ranks }, Seen(vec![rank]))).collect()
    }

    /// Ranks begin one after the other, and the last message sent arrives first.
    #[test]
    fn rounds_are_combined_in_order_and_nobody_is_done_before_all_have_begun() {
        for ranks in 1..=33u32 {
            let (mut all, mut in_flight, mut sent) = (all(ranks), Vec::new(), 0);
            for first in 0..ranks {
                assert!(!all.iter().any(Reactor::is_done), "{ranks} ranks");
                all[first as usize].begin();
                let mut next = Some(first);
                while let Some(rank) = next {
                    while let Some(transmit) = all[rank as usize].poll_transmit() {
                        sent += 1;
                        in_flight.push((rank, transmit));
                    }
                    next = in_flight.pop().map(|(from, Transmit { to, tag, bytes, .. })| {
                        all[to as usize].on_message(Duration::ZERO, from, tag, bytes).unwrap();
                        to
                    });
                }
            }
            assert_eq!(sent, ranks * ranks.next_power_of_two().ilog2());
            for one in &all {
                let expected =
                    (0..ranks.next_power_of_two()).rev().map(|distance| one.position.behind(distance % ranks));
                assert!(one.is_done() && one.value.0.iter().copied().eq(expected), "{:?}", one.value.0);
            }
        }
    }

    #[test]
    fn what_is_no_message_of_a_missing_round_is_refused() {
        let mut one = all(4).swap_remove(0);
        let mut receive = |from, round, seen: Vec<u32>| one.on_message(Duration::ZERO, from, round, Bytes::from(seen));
        let refused = |rank| Err(Error::CollectiveOrderMismatch { rank });
        assert_eq!(receive(2, 0, vec![2]), refused(2), "another rank");
        assert_eq!(receive(2, 2, vec![2]), refused(2), "no such round");
        assert_eq!(receive(3, 0, vec![2, 3]), refused(3), "another message");
        assert_eq!(receive(3, 0, vec![3]), Ok(()));
        assert_eq!(receive(3, 0, vec![3]), refused(3), "a second time");
        assert!(!one.expects(3) && one.expects(2) && !one.expects(1));
    }
}
