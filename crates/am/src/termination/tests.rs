//! Detectors alone: simulated ranks are counters, and messages are delivered in random order.

use std::result::Result;

use treepie_sim::noise::SplitMix64;

use super::*;
use crate::InjectedFault;

/// The detector under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DetectorKind {
    FourCounter,
    /// A fault: no second wave.
    SingleWave,
    Synchronous,
    /// A fault: ranks do not wait for acknowledgements.
    Unacknowledged,
    Barrier,
}

impl DetectorKind {
    fn begin(self, rank: u32, ranks: u32) -> TerminationDetector {
        match self {
            DetectorKind::FourCounter | DetectorKind::SingleWave => {
                let mut four_counter = FourCounterDetector::new(rank, ranks);
                four_counter.faults.fault = (self == DetectorKind::SingleWave).then_some(InjectedFault::SingleWave);
                TerminationDetector::FourCounter(four_counter)
            }
            DetectorKind::Synchronous | DetectorKind::Unacknowledged => {
                TerminationDetector::Consensus(ConsensusDetector::new(rank, ranks, false))
            }
            DetectorKind::Barrier => TerminationDetector::Consensus(ConsensusDetector::new(rank, ranks, true)),
        }
    }
}

/// A message of the program: nesting depth of the messages of its handler, and whether it is deferred to the next
/// round.
#[derive(Clone, Copy, Debug)]
struct Message {
    depth: u64,
    deferred: bool,
    round: u64,
}

#[derive(Debug)]
enum InFlight {
    Data {
        from: usize,
        message: Message,
        /// Barriers at which its sender had arrived.
        arrived: u64,
    },
    /// The acknowledgement of a message.
    Ack,
    Wave {
        from: u32,
        transmit: Transmit,
    },
}

struct Rank {
    detector: TerminationDetector,
    /// Messages that its body has not sent yet.
    body: u64,
    report: RankReport,
    unacknowledged: u64,
    deferred: Vec<Message>,
    /// Messages of the next round.
    early: Vec<Message>,
    round: u64,
    /// Barriers at which it has arrived, and those complete for it.
    arrived: u64,
    barriers_done: u64,
    waves: u64,
    over: Option<u64>,
}

struct World {
    kind: DetectorKind,
    random: SplitMix64,
    ranks: Vec<Rank>,
    /// By receiver, unordered.
    in_flight: Vec<Vec<InFlight>>,
    /// Bits and number of ranks that have arrived, by barrier.
    barriers: Vec<(u64, usize)>,
    /// Messages that may still be sent.
    budget: u64,
    sum: u64,
    /// Rounds that are over for some rank.
    rounds: u64,
    /// One of this number of messages is deferred.
    deferred: u64,
    /// Waves or barriers started before termination.
    waves_before_end: Option<u64>,
}

impl World {
    fn draw(kind: DetectorKind, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let ranks = 1 + random.below(12) as u32;
        let budget = [0, 10, 10, 100][random.below(4) as usize];
        let mut rank = |rank: u32| Rank {
            detector: kind.begin(rank, ranks),
            body: random.below(3),
            report: RankReport::default(),
            unacknowledged: 0,
            deferred: Vec::new(),
            early: Vec::new(),
            round: 0,
            arrived: 0,
            barriers_done: 0,
            waves: 0,
            over: None,
        };
        let all: Vec<Rank> = (0..ranks).map(&mut rank).collect();
        let in_flight = all.iter().map(|_| Vec::new()).collect();
        let deferred = [2, 20][random.below(2) as usize];
        let (barriers, waves_before_end) = (Vec::new(), None);
        Self { kind, random, ranks: all, in_flight, barriers, budget, sum: 0, rounds: 0, deferred, waves_before_end }
    }

    /// Whether no message of the program is in flight or will be sent in this round.
    fn is_quiet(&self) -> bool {
        let is_data = |message: &InFlight| matches!(message, InFlight::Data { .. });
        self.ranks.iter().all(|rank| rank.body == 0 && rank.early.is_empty())
            && !self.in_flight.iter().flatten().any(is_data)
    }

    fn send(&mut self, from: usize, depth: u64) {
        if self.budget == 0 {
            return;
        }
        self.budget -= 1;
        let to = self.random.below(self.ranks.len() as u64) as usize;
        let deferred = self.random.below(self.deferred) == 0;
        let rank = &mut self.ranks[from];
        let message = Message { depth, deferred, round: rank.round };
        rank.report.sent += 1;
        rank.unacknowledged += 1;
        let arrived = rank.arrived;
        self.in_flight[to].push(InFlight::Data { from, message, arrived });
    }

    fn handle(&mut self, at: usize, message: Message) {
        self.ranks[at].report.sum += 1;
        self.sum += 1;
        if message.depth > 0 {
            let count = [0, 1, 3][self.random.below(3) as usize];
            (0..count).for_each(|_| self.send(at, message.depth - 1));
        }
    }

    fn take(&mut self, at: usize, message: Message) {
        let rank = &mut self.ranks[at];
        if message.round != rank.round {
            return rank.early.push(message);
        }
        rank.report.received += 1;
        if message.deferred {
            rank.deferred.push(message);
            rank.report.deferred += 1;
        } else {
            self.handle(at, message);
        }
    }

    /// Delivers a random message in flight to a rank, if any.
    fn deliver(&mut self, at: usize) {
        if self.in_flight[at].is_empty() {
            return;
        }
        let index = self.random.below(self.in_flight[at].len() as u64) as usize;
        match self.in_flight[at].swap_remove(index) {
            InFlight::Data { from, message, .. } => {
                self.in_flight[from].push(InFlight::Ack);
                self.take(at, message);
            }
            InFlight::Ack => self.ranks[at].unacknowledged -= 1,
            InFlight::Wave { from, transmit: Transmit { tag, bytes, .. } } => {
                self.ranks[at].detector.on_message(from, tag, bytes).expect("it is a message of a wave");
            }
        }
    }

    /// Completes the barrier on a rank, if all ranks have arrived and their earlier messages are delivered.
    fn complete_barrier(&mut self, at: usize) {
        let next = self.ranks[at].barriers_done;
        let Some((bits, arrived)) = self.barriers.get(next as usize).copied() else { return };
        let is_later = |message: &InFlight| !matches!(message, InFlight::Data { arrived, .. } if *arrived <= next);
        if arrived == self.ranks.len() && self.in_flight[at].iter().all(is_later) {
            self.ranks[at].barriers_done += 1;
            let TerminationDetector::Consensus(consensus) = &mut self.ranks[at].detector else {
                panic!("only this detector uses barriers")
            };
            consensus.on_barrier(bits);
        }
    }

    fn arrive(&mut self, at: usize) {
        let TerminationDetector::Consensus(consensus) = &mut self.ranks[at].detector else { return };
        let Some(bits) = consensus.poll_barrier() else { return };
        let number = self.ranks[at].arrived as usize;
        self.ranks[at].arrived += 1;
        self.barriers.resize(self.barriers.len().max(number + 1), (0, 0));
        self.barriers[number].0 |= bits;
        self.barriers[number].1 += 1;
    }

    /// A random rank takes a random step.
    fn step(&mut self) -> Result<(), String> {
        let at = self.random.below(self.ranks.len() as u64) as usize;
        if self.ranks[at].over.is_some() {
            return Ok(());
        }
        match self.random.below(4) {
            0 if self.ranks[at].body > 0 => {
                self.ranks[at].body -= 1;
                self.send(at, 4);
            }
            0 | 1 => self.deliver(at),
            2 => self.complete_barrier(at),
            _ => {
                let rank = &mut self.ranks[at];
                let waits = self.kind == DetectorKind::Synchronous && rank.unacknowledged > 0;
                if rank.body == 0 && !waits {
                    rank.detector.report(rank.report);
                }
            }
        }
        while let Some(transmit) = self.ranks[at].detector.poll_transmit() {
            self.ranks[at].waves += 1;
            self.in_flight[transmit.to as usize].push(InFlight::Wave { from: at as u32, transmit });
        }
        self.arrive(at);
        self.check_outcome(at)
    }

    /// Checks and applies the outcome of the detector, if any.
    fn check_outcome(&mut self, at: usize) -> Result<(), String> {
        match self.ranks[at].detector.poll_outcome() {
            None => {}
            Some(WaveOutcome::Terminated(sum)) => {
                let deferred: usize = self.ranks.iter().map(|rank| rank.deferred.len()).sum();
                if !self.is_quiet() || deferred > 0 || sum != self.sum {
                    return Err(format!(
                        "over on rank {at}, {deferred} deferred, the sum is {sum} and not {}",
                        self.sum
                    ));
                }
                self.ranks[at].over = Some(sum);
            }
            Some(WaveOutcome::NextRound) => {
                // Other ranks may already be in the next round.
                if self.rounds == self.ranks[at].round && !self.is_quiet() {
                    return Err(format!("the next round begins at {at}"));
                }
                let rank = &mut self.ranks[at];
                rank.round += 1;
                rank.report.deferred = 0;
                self.rounds = self.rounds.max(rank.round);
                let (deferred, early) = (std::mem::take(&mut rank.deferred), std::mem::take(&mut rank.early));
                deferred.into_iter().for_each(|message| self.handle(at, message));
                early.into_iter().for_each(|message| self.take(at, message));
            }
        }
        Ok(())
    }

    fn run(mut self) -> Result<Self, String> {
        let nothing = self.budget == 0 || self.ranks.iter().all(|rank| rank.body == 0);
        for _ in 0..1_000_000 {
            self.step()?;
            if self.waves_before_end.is_none()
                && self.is_quiet()
                && self.ranks.iter().all(|rank| rank.deferred.is_empty())
            {
                self.waves_before_end = Some(self.started());
            }
            if self.ranks.iter().all(|rank| rank.over.is_some()) {
                return self.check_costs(nothing).map(|()| self);
            }
        }
        Err("no termination".to_owned())
    }

    /// Messages per rank and wave.
    fn messages_per_wave(&self) -> u64 {
        u64::from((self.ranks.len() as u32).next_power_of_two().ilog2())
    }

    /// Waves or barriers that some rank has started.
    fn started(&self) -> u64 {
        let started = |rank: &Rank| match self.kind {
            DetectorKind::Barrier => rank.arrived,
            _ => rank.waves.div_ceil(self.messages_per_wave().max(1)),
        };
        self.ranks.iter().map(started).max().unwrap_or(0)
    }

    /// A wave costs each rank ceil(log2 P) messages. If nothing was sent there is one wave or barrier. After
    /// termination there are two: the first finds the final counters, the second confirms them.
    fn check_costs(&self, nothing: bool) -> Result<(), String> {
        let each = self.messages_per_wave();
        let waves: Vec<u64> = self.ranks.iter().map(|rank| rank.waves).collect();
        let is_right = |count: u64| match (self.kind, nothing) {
            (DetectorKind::Barrier, _) => count == if self.sum > 0 { each } else { 0 },
            (_, true) => count == each,
            (_, false) => each == 0 || count.is_multiple_of(each),
        };
        let is_right = is_right(waves[0]) && waves.iter().all(|count| *count == waves[0]);
        let started = self.started();
        let most = if nothing { 1 } else { self.waves_before_end.unwrap_or(0) + 2 };
        if is_right && started <= most {
            return Ok(());
        }
        Err(format!("messages of waves: {waves:?}; {started} started, and not {most}"))
    }
}

const SEEDS: u64 = 3000;

fn first_failure(kind: DetectorKind) -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| World::draw(kind, seed).run().err().map(|wrong| (seed, wrong)))
}

#[test]
fn detectors_terminate_and_never_early() {
    for kind in [DetectorKind::FourCounter, DetectorKind::Synchronous, DetectorKind::Barrier] {
        assert_eq!(first_failure(kind), None, "{kind:?}");
    }
}

#[test]
fn faulty_detectors_are_found() {
    for kind in [DetectorKind::SingleWave, DetectorKind::Unacknowledged] {
        let found = first_failure(kind);
        println!("{kind:?}: {found:?}");
        assert!(found.is_some(), "{kind:?}");
    }
}

#[test]
fn some_worlds_have_rounds_and_many_waves() {
    let worlds: Vec<World> =
        (0..300).map(|seed| World::draw(DetectorKind::FourCounter, seed).run().ok().unwrap()).collect();
    assert!(worlds.iter().filter(|world| world.rounds > 1).count() > 30);
    assert!(worlds.iter().filter(|world| world.ranks[0].waves > 20).count() > 30);
    assert!(worlds.iter().filter(|world| world.sum == 0).count() > 30);
}
