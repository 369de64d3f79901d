//! NBX on an engine whose barrier is behind all messages, which the simulator has not: all ranks in one thread, and a seed
//! says what happens next. There is no clock: everything that may happen in some order happens in any.

mod common;

use std::rc::Rc;
use std::time::Duration;

use common::{Plan, by, first_wrong, seeds, world};
use treepie_base::Bytes;
use treepie_fabric::{Gathered, Reactor, Transmit};
use treepie_sim::noise::Random;
use treepie_sparse::{Means, Protocol, Rounds};

/// Something on its way.
struct Flying {
    from: u32,
    to: u32,
    tag: u32,
    /// How many barriers its sender had come to.
    barriers: u32,
    /// What the message says and whether it is answered; nothing if it is the answer.
    message: Option<(Bytes, bool)>,
}

/// What may happen next.
#[derive(Clone, Copy)]
enum Step {
    /// A rank gives out one message, or comes to the barrier.
    Poll(usize),
    /// What is at this place of all that flies is handed in.
    Deliver(usize),
    /// A rank hears that all have come to the barrier.
    Gather(usize),
}

/// Whether the barrier is behind messages as it should be, or only a barrier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Barrier {
    Behind,
    Early,
}

struct Driver<R> {
    ranks: Vec<R>,
    /// Those that may have something to give out.
    awake: Vec<bool>,
    /// How many barriers each has come to, and how many it has heard the end of.
    came: Vec<u32>,
    heard: Vec<u32>,
    /// What ranks have brought to each barrier.
    brought: Vec<u64>,
    flying: Vec<Flying>,
    barrier: Barrier,
}

impl<R: Reactor> Driver<R> {
    fn new(ranks: Vec<R>, barrier: Barrier) -> Self {
        let all = ranks.len();
        let (awake, came, heard) = (vec![true; all], vec![0; all], vec![0; all]);
        Self { ranks, awake, came, heard, brought: Vec::new(), flying: Vec::new(), barrier }
    }

    /// Whether nothing flies before it of the same pair and tag.
    fn is_first(&self, place: usize) -> bool {
        let name = |it: &Flying| (it.from, it.to, it.tag, it.message.is_some());
        self.flying[..place].iter().all(|before| name(before) != name(&self.flying[place]))
    }

    /// Whether all have come to the barrier that a rank waits at, and what they had sent to it before is there.
    fn may_gather(&self, rank: usize) -> bool {
        let this = self.heard[rank];
        let is_before = |it: &Flying| it.to as usize == rank && it.barriers <= this && it.message.is_some();
        self.came.iter().all(|came| *came > this)
            && (self.barrier == Barrier::Early || !self.flying.iter().any(is_before))
    }

    fn steps(&self) -> Vec<Step> {
        let all = 0..self.ranks.len();
        let polls = all.clone().filter(|rank| self.awake[*rank]).map(Step::Poll);
        let deliveries = (0..self.flying.len()).filter(|place| self.is_first(*place)).map(Step::Deliver);
        polls.chain(deliveries).chain(all.filter(|rank| self.may_gather(*rank)).map(Step::Gather)).collect()
    }

    fn take(&mut self, step: Step, random: &mut Random) -> Result<(), String> {
        match step {
            Step::Poll(rank) => self.poll(rank, random.below(2) == 0),
            Step::Gather(rank) => {
                let census = self.brought[self.heard[rank] as usize];
                self.heard[rank] += 1;
                self.ranks[rank].on_gathered(Gathered { census, added: 0 }).expect("all come by one protocol");
                self.awake[rank] = true;
            }
            Step::Deliver(place) => {
                let Flying { from, to, tag, message, .. } = self.flying.remove(place);
                let reactor = &mut self.ranks[to as usize];
                self.awake[to as usize] = true;
                match message {
                    None => reactor.on_taken(from, tag),
                    // As drivers do.
                    Some(_) if reactor.is_done() => {}
                    Some((bytes, answered)) => {
                        let heard = reactor.on_message(Duration::ZERO, from, tag, bytes);
                        heard.map_err(|error| format!("rank {to}: {error}"))?;
                        if answered {
                            let barriers = self.came[to as usize];
                            self.flying.push(Flying { from: to, to: from, tag, barriers, message: None });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// A driver may ask for either first. A rank that has nothing to send may thereby have gone on to its next round, so it
    /// is asked for the barrier last.
    fn poll(&mut self, rank: usize, barrier_first: bool) {
        self.awake[rank] = barrier_first && self.arrive(rank) || self.transmit(rank) || self.arrive(rank);
    }

    fn transmit(&mut self, rank: usize) -> bool {
        let Some(Transmit { to, tag, bytes, synchronous }) = self.ranks[rank].poll_transmit() else { return false };
        let message = Some((bytes, synchronous));
        self.flying.push(Flying { from: rank as u32, to, tag, barriers: self.came[rank], message });
        true
    }

    fn arrive(&mut self, rank: usize) -> bool {
        let Some(census) = self.ranks[rank].poll_arrive() else { return false };
        let this = self.came[rank] as usize;
        self.came[rank] += 1;
        self.brought.resize(self.brought.len().max(this + 1), 0);
        self.brought[this] |= census;
        true
    }

    /// Until nothing can happen any more.
    fn run(mut self, random: &mut Random) -> Result<(), String> {
        for _ in 0..1_000_000 {
            let steps = self.steps();
            if steps.is_empty() {
                let waiting = self.ranks.iter().position(|rank| !rank.is_done());
                return waiting.map_or(Ok(()), |rank| Err(format!("rank {rank} waits for what never comes")));
            }
            self.take(steps[random.below(steps.len() as u64) as usize], random)?;
        }
        Err("it does not end".to_owned())
    }
}

fn check(protocol: Protocol, barrier: Barrier, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let ranks = 2 + random.below(if protocol == Protocol::NbxBehind { 15 } else { 7 }) as u32;
    let plan = Rc::new(Plan::draw(&mut random, ranks));
    let has_barrier = protocol == Protocol::NbxBehind || random.below(2) == 0;
    let means = Means { barrier: has_barrier, arrives_last: has_barrier, counters: false };
    let (reactors, got) = world(&plan, by(protocol, means), Rounds::new);
    Driver::new(reactors, barrier).run(&mut random).and_then(|()| plan.check(&got))
}

#[test]
fn nothing_is_lost_where_the_barrier_is_behind_all_messages() {
    let wrong = first_wrong(seeds(), |seed| check(Protocol::NbxBehind, Barrier::Behind, seed));
    assert_eq!(wrong, None);
}

#[test]
fn a_barrier_that_is_not_behind_all_messages_is_found() {
    let wrong = first_wrong(1000, |seed| check(Protocol::NbxBehind, Barrier::Early, seed));
    let (seed, wrong) = wrong.expect("messages are lost");
    println!("found by seed {seed}: {wrong}");
}

#[test]
fn the_others_need_no_such_barrier() {
    for protocol in Protocol::ALL.into_iter().filter(|protocol| *protocol != Protocol::NbxBehind) {
        let wrong = first_wrong(seeds() / 10, |seed| check(protocol, Barrier::Early, seed));
        assert_eq!(wrong, None, "{protocol}");
    }
}
