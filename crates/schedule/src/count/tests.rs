//! The count against one that is written down plainly.

use super::*;
use crate::{Buf, Layout, Operation, Part, Phase as Shape};

/// Each rank sends something to each other in each of some lanes, in rounds of its own order.
struct Exchange {
    ranks: u32,
    lanes: u32,
    rounds: u32,
}

impl Schedule for Exchange {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn blocks(&self) -> u32 {
        self.ranks
    }

    fn phases(&self) -> u32 {
        2
    }

    fn phase(&self, _phase: u32) -> Shape {
        Shape::lanes(self.lanes)
    }

    fn rounds(&self, _rank: u32, _phase: u32, lane: u32) -> u32 {
        // The last lane has most.
        (self.rounds + lane).saturating_sub(self.lanes - 1)
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        for round in rounds {
            // Lanes go different ways, and in the second phase only some ranks send.
            let sends = phase == 0 || (rank + round).is_multiple_of(3);
            for to in (0..self.ranks).filter(|to| sends && (to + lane + round).is_multiple_of(self.rounds)) {
                into.push(Op::Send { to, part: Part::blocks(Buf::In, to, 1) });
            }
            into.end();
        }
    }

    fn tie(&self, _phase: u32, lane: u32) -> Tie {
        [Tie::Plus, Tie::Minus, Tie::Parity][lane as usize % 3]
    }
}

/// The same count, written down plainly: all messages of a round in a list.
fn plainly(schedule: &Exchange, lengths: &[usize], network: &Network) -> Vec<Phase> {
    let phase = |phase| {
        let (mut times, mut rounds) = (vec![0.0f64; schedule.lanes as usize], Vec::new());
        let mut starts = vec![[0u64; 2]; schedule.ranks as usize];
        for round in 0..schedule.rounds {
            let (mut messages, mut loads) = (Vec::new(), vec![0.0; network.links() as usize]);
            for (rank, lane) in (0..schedule.ranks).flat_map(|rank| (0..schedule.lanes).map(move |lane| (rank, lane))) {
                let mut ops = Rounds::new();
                if round < schedule.rounds(rank, phase, lane) {
                    schedule.emit(rank, phase, lane, round..round + 1, &mut ops);
                }
                for op in ops.round_or_none(0) {
                    let Op::Send { to, .. } = *op else { unreachable!("nothing else is emitted") };
                    let mut way = Vec::new();
                    network.route(rank, to, schedule.tie(phase, lane), |link| way.push(link as usize));
                    way.iter().for_each(|link| loads[*link] += lengths[to as usize] as f64);
                    starts[rank as usize][0] += 1;
                    starts[to as usize][1] += 1;
                    messages.push((lane as usize, lengths[to as usize], way));
                }
            }
            let most = |lane| {
                let links = messages.iter().filter(|message| message.0 == lane).flat_map(|message| &message.2);
                links.map(|link| loads[*link]).fold(0.0, f64::max)
            };
            let of_round: Vec<f64> = (0..schedule.lanes as usize).map(most).collect();
            times.iter_mut().zip(&of_round).for_each(|(total, time)| *total += time);
            rounds.push(Round {
                messages: messages.len() as u64,
                size: messages.iter().map(|message| message.1).max().unwrap_or(0),
                hops: messages.iter().map(|message| message.2.len() as u32).max().unwrap_or(0),
                time: of_round.into_iter().fold(0.0, f64::max),
            });
        }
        let messages = starts.into_iter().flatten().max().unwrap_or(0);
        Phase { messages, time: times.into_iter().fold(0.0, f64::max), rounds }
    };
    (0..2).map(phase).collect()
}

/// The network's own ways.
struct Same<'a>(&'a Network);

impl Ways for Same<'_> {
    fn ranks(&self) -> u32 {
        self.0.ranks()
    }

    fn links(&self) -> u32 {
        self.0.links()
    }

    fn capacity(&self, link: u32) -> f64 {
        self.0.capacity(link)
    }

    fn route(&self, from: u32, to: u32, tie: Tie, link: &mut dyn FnMut(u32)) {
        self.0.route(from, to, tie, link);
    }
}

#[test]
fn it_does_not_matter_how_many_messages_are_kept() {
    let network: Network = "torus:4x3x2".parse().unwrap();
    let lengths: Vec<usize> = (0..24).map(|block| block * 7 % 5).collect();
    let layouts = Layouts::both(Layout::of_counts(&lengths));
    for (lanes, rounds) in [(1, 1), (1, 11), (3, 2), (5, 19)] {
        let schedule = Exchange { ranks: 24, lanes, rounds };
        let expected = plainly(&schedule, &lengths, &network);
        for most in [0, 1, 7, 100, usize::MAX] {
            let counted = count_keeping(most, &schedule, &|_| layouts.clone(), &network);
            assert_eq!(counted.phases, expected, "{lanes} lanes, {rounds} rounds, {most} kept");
            assert_eq!(count_over(&schedule, &|_| layouts.clone(), &Same(&network)), counted);
            let messages: u64 = expected.iter().flat_map(|phase| &phase.rounds).map(|round| round.messages).sum();
            assert_eq!(counted.messages, messages);
        }
    }
}
