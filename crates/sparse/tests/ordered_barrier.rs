//! NBX on an engine with an ordered barrier, which the simulator does not have: all ranks run in one thread, and a seed
//! selects the next event. There is no clock: all orders of events that are allowed occur.

use std::rc::Rc;
use std::time::Duration;

use crate::common::{Plan, begin_with, first_failure, make_reactors, seeds};
use treepie_base::Bytes;
use treepie_fabric::{BarrierResult, Reactor, Transmit};
use treepie_sim::noise::SplitMix64;
use treepie_sparse::{ExchangeProtocol, ExchangeRoutes, ExchangeSequence, ReactorCapabilities};

/// A message or acknowledgement in flight.
struct InFlight {
    from: u32,
    to: u32,
    tag: u32,
    /// Barriers at which its sender had arrived.
    barriers: u32,
    /// The payload and whether the send is synchronous; nothing for an acknowledgement.
    message: Option<(Bytes, bool)>,
}

/// The next event.
#[derive(Clone, Copy)]
enum Step {
    /// A rank transmits one message, or arrives at the barrier.
    Poll(usize),
    /// The message at this index of those in flight is delivered.
    Deliver(usize),
    /// The barrier completes on a rank.
    CompleteBarrier(usize),
}

/// Whether messages may overtake the barrier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Barrier {
    Ordered,
    Unordered,
}

struct Driver<R> {
    ranks: Vec<R>,
    /// Ranks that may have something to transmit.
    awake: Vec<bool>,
    /// Barriers at which each rank has arrived, and those that are complete for it.
    arrived: Vec<u32>,
    completed: Vec<u32>,
    /// The union of the bits of all ranks, by barrier.
    barrier_bits: Vec<u64>,
    in_flight: Vec<InFlight>,
    barrier: Barrier,
}

impl<R: Reactor> Driver<R> {
    fn new(ranks: Vec<R>, barrier: Barrier) -> Self {
        let all = ranks.len();
        let (awake, arrived, completed) = (vec![true; all], vec![0; all], vec![0; all]);
        Self { ranks, awake, arrived, completed, barrier_bits: Vec::new(), in_flight: Vec::new(), barrier }
    }

    /// Whether it is the first in flight of its pair and tag.
    fn is_first(&self, index: usize) -> bool {
        let channel = |it: &InFlight| (it.from, it.to, it.tag, it.message.is_some());
        self.in_flight[..index].iter().all(|before| channel(before) != channel(&self.in_flight[index]))
    }

    /// Whether all ranks have arrived at the barrier of this rank and, if it is ordered, their earlier messages are
    /// delivered.
    fn may_complete_barrier(&self, rank: usize) -> bool {
        let this = self.completed[rank];
        let is_before = |it: &InFlight| it.to as usize == rank && it.barriers <= this && it.message.is_some();
        self.arrived.iter().all(|arrived| *arrived > this)
            && (self.barrier == Barrier::Unordered || !self.in_flight.iter().any(is_before))
    }

    fn steps(&self) -> Vec<Step> {
        let all = 0..self.ranks.len();
        let polls = all.clone().filter(|rank| self.awake[*rank]).map(Step::Poll);
        let deliveries = (0..self.in_flight.len()).filter(|index| self.is_first(*index)).map(Step::Deliver);
        polls
            .chain(deliveries)
            .chain(all.filter(|rank| self.may_complete_barrier(*rank)).map(Step::CompleteBarrier))
            .collect()
    }

    fn take(&mut self, step: Step, random: &mut SplitMix64) -> Result<(), String> {
        match step {
            Step::Poll(rank) => self.poll(rank, random.below(2) == 0),
            Step::CompleteBarrier(rank) => {
                let bits = self.barrier_bits[self.completed[rank] as usize];
                self.completed[rank] += 1;
                self.ranks[rank].on_barrier(BarrierResult { bits, counter: 0 }).expect("all ranks run one protocol");
                self.awake[rank] = true;
            }
            Step::Deliver(index) => {
                let InFlight { from, to, tag, message, .. } = self.in_flight.remove(index);
                let reactor = &mut self.ranks[to as usize];
                self.awake[to as usize] = true;
                match message {
                    None => reactor.on_ack(from, tag),
                    // As drivers do.
                    Some(_) if reactor.is_done() => {}
                    Some((bytes, synchronous)) => {
                        let result = reactor.on_message(Duration::ZERO, from, tag, bytes);
                        result.map_err(|error| format!("rank {to}: {error}"))?;
                        if synchronous {
                            let barriers = self.arrived[to as usize];
                            self.in_flight.push(InFlight { from: to, to: from, tag, barriers, message: None });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// A driver may poll for either first. Polling a rank with nothing to send may start its next round, so the barrier
    /// is polled last.
    fn poll(&mut self, rank: usize, barrier_first: bool) {
        self.awake[rank] = barrier_first && self.arrive(rank) || self.transmit(rank) || self.arrive(rank);
    }

    fn transmit(&mut self, rank: usize) -> bool {
        let Some(Transmit { to, tag, bytes, synchronous }) = self.ranks[rank].poll_transmit() else { return false };
        let message = Some((bytes, synchronous));
        self.in_flight.push(InFlight { from: rank as u32, to, tag, barriers: self.arrived[rank], message });
        true
    }

    fn arrive(&mut self, rank: usize) -> bool {
        let Some(bits) = self.ranks[rank].poll_barrier() else { return false };
        let this = self.arrived[rank] as usize;
        self.arrived[rank] += 1;
        self.barrier_bits.resize(self.barrier_bits.len().max(this + 1), 0);
        self.barrier_bits[this] |= bits;
        true
    }

    /// Runs until there are no more events.
    fn run(mut self, random: &mut SplitMix64) -> Result<(), String> {
        for _ in 0..1_000_000 {
            let steps = self.steps();
            if steps.is_empty() {
                let waiting = self.ranks.iter().position(|rank| !rank.is_done());
                return waiting.map_or(Ok(()), |rank| Err(format!("rank {rank} never completes")));
            }
            self.take(steps[random.below(steps.len() as u64) as usize], random)?;
        }
        Err("it does not end".to_owned())
    }
}

fn check(protocol: ExchangeProtocol, barrier: Barrier, seed: u64) -> Result<(), String> {
    let mut random = SplitMix64::new(seed);
    let ranks = 2 + random.below(if protocol == ExchangeProtocol::NbxOrderedBarrier { 15 } else { 7 }) as u32;
    let plan = Rc::new(Plan::draw(&mut random, ranks));
    let has_barrier = protocol == ExchangeProtocol::NbxOrderedBarrier || random.below(2) == 0;
    let capabilities = ReactorCapabilities { barrier: has_barrier, barrier_flushes: has_barrier, counters: false };
    let (reactors, results) =
        make_reactors(&plan, begin_with(protocol, capabilities, ExchangeRoutes::default()), ExchangeSequence::new);
    Driver::new(reactors, barrier).run(&mut random).and_then(|()| plan.check(&results))
}

#[test]
fn nothing_is_lost_with_an_ordered_barrier() {
    let wrong = first_failure(seeds(), |seed| check(ExchangeProtocol::NbxOrderedBarrier, Barrier::Ordered, seed));
    assert_eq!(wrong, None);
}

#[test]
fn an_unordered_barrier_is_found() {
    let wrong = first_failure(1000, |seed| check(ExchangeProtocol::NbxOrderedBarrier, Barrier::Unordered, seed));
    let (seed, wrong) = wrong.expect("messages are lost");
    println!("found by seed {seed}: {wrong}");
}

#[test]
fn other_protocols_need_no_ordered_barrier() {
    for protocol in
        ExchangeProtocol::ALL.into_iter().filter(|protocol| *protocol != ExchangeProtocol::NbxOrderedBarrier)
    {
        let wrong = first_failure(seeds() / 10, |seed| check(protocol, Barrier::Unordered, seed));
        assert_eq!(wrong, None, "{protocol}");
    }
}
