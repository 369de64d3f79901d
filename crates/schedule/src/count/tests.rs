//! The count against a reference implementation.

use super::*;
use crate::{BlockLayout, BlockRange, Buf, Operation, Phase as Shape};

/// Each rank sends to each other in every lane, in a lane-dependent order of rounds.
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

    fn phases(&self) -> u32 {
        2
    }

    fn phase(&self, _phase: u32) -> Shape {
        Shape::with_lanes(self.lanes)
    }

    fn rounds(&self, _rank: u32, _phase: u32, lane: u32) -> u32 {
        // The last lane has the most rounds.
        (self.rounds + lane).saturating_sub(self.lanes - 1)
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        for round in rounds {
            // Lanes use different routes, and in the second phase only some ranks send.
            let sends = phase == 0 || (rank + round).is_multiple_of(3);
            for to in (0..self.ranks).filter(|to| sends && (to + lane + round).is_multiple_of(self.rounds)) {
                into.push(ScheduleOp::Send { to, part: BlockRange::new(Buf::In, to, 1) });
            }
            into.end_round();
        }
    }

    fn tie_break(&self, _phase: u32, lane: u32) -> TieBreak {
        [TieBreak::Plus, TieBreak::Minus, TieBreak::Parity][lane as usize % 3]
    }
}

/// The reference: all messages of a round in a list.
fn reference_count(schedule: &Exchange, lengths: &[usize], network: &Network) -> Vec<PhaseCost> {
    let phase = |phase| {
        let (mut times, mut rounds) = (vec![0.0f64; schedule.lanes as usize], Vec::new());
        let mut startups = vec![[0u64; 2]; schedule.ranks as usize];
        for round in 0..schedule.rounds {
            let (mut messages, mut loads) = (Vec::new(), vec![0.0; network.links() as usize]);
            for (rank, lane) in (0..schedule.ranks).flat_map(|rank| (0..schedule.lanes).map(move |lane| (rank, lane))) {
                let mut ops = RoundList::new();
                if round < schedule.rounds(rank, phase, lane) {
                    schedule.emit(rank, phase, lane, round..round + 1, &mut ops);
                }
                for op in ops.round_or_empty(0) {
                    let ScheduleOp::Send { to, .. } = *op else { unreachable!("nothing else is emitted") };
                    let mut route = Vec::new();
                    network.route(rank, to, schedule.tie_break(phase, lane), |link| route.push(link as usize));
                    route.iter().for_each(|link| loads[*link] += lengths[to as usize] as f64);
                    startups[rank as usize][0] += 1;
                    startups[to as usize][1] += 1;
                    messages.push((lane as usize, lengths[to as usize], route));
                }
            }
            let max_load = |lane| {
                let links = messages.iter().filter(|message| message.0 == lane).flat_map(|message| &message.2);
                links.map(|link| loads[*link]).fold(0.0, f64::max)
            };
            let of_round: Vec<f64> = (0..schedule.lanes as usize).map(max_load).collect();
            times.iter_mut().zip(&of_round).for_each(|(total, time)| *total += time);
            rounds.push(RoundCost {
                messages: messages.len() as u64,
                size: messages.iter().map(|message| message.1).max().unwrap_or(0),
                hops: messages.iter().map(|message| message.2.len() as u32).max().unwrap_or(0),
                time: of_round.into_iter().fold(0.0, f64::max),
            });
        }
        let messages = startups.into_iter().flatten().max().unwrap_or(0);
        PhaseCost { messages, time: times.into_iter().fold(0.0, f64::max), rounds }
    };
    (0..2).map(phase).collect()
}

/// The network's routes as [`LinkRoutes`].
struct NetworkRoutes<'a>(&'a Network);

impl LinkRoutes for NetworkRoutes<'_> {
    fn ranks(&self) -> u32 {
        self.0.ranks()
    }

    fn links(&self) -> u32 {
        self.0.links()
    }

    fn capacity(&self, link: u32) -> f64 {
        self.0.capacity(link)
    }

    fn route(&self, from: u32, to: u32, tie_break: TieBreak, link: &mut dyn FnMut(u32)) {
        self.0.route(from, to, tie_break, link);
    }
}

#[test]
fn count_does_not_depend_on_buffering() {
    let network: Network = "torus:4x3x2".parse().unwrap();
    let lengths: Vec<usize> = (0..24).map(|block| block * 7 % 5).collect();
    let layouts = BlockLayouts::symmetric(BlockLayout::from_counts(&lengths));
    for (lanes, rounds) in [(1, 1), (1, 11), (3, 2), (5, 19)] {
        let schedule = Exchange { ranks: 24, lanes, rounds };
        let expected = reference_count(&schedule, &lengths, &network);
        for max_buffered in [0, 1, 7, 100, usize::MAX] {
            let counted = count_buffered(max_buffered, &schedule, &|_| layouts.clone(), &network);
            assert_eq!(counted.phases, expected, "{lanes} lanes, {rounds} rounds, {max_buffered} buffered");
            assert_eq!(count_on_links(&schedule, &|_| layouts.clone(), &NetworkRoutes(&network)), counted);
            let messages: u64 = expected.iter().flat_map(|phase| &phase.rounds).map(|round| round.messages).sum();
            assert_eq!(counted.messages, messages);
            let work = count_work(&schedule, &layouts, 0..24);
            assert_eq!((work.messages, work.sent), (messages, counted.volume));
        }
    }
}
