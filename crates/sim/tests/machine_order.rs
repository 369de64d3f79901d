//! Message matching, and the order of sends.

use std::ops::Range;

use crate::common::{links, loggp, network, operation, uniform, wide_area};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::{BlockLayout, BlockLayouts, BlockRange, Buf, Operation, Phase, RoundList, Schedule, ScheduleOp};
use treepie_sim::costs::LinkCosts;
use treepie_sim::noise::Noise;
use treepie_sim::schedule_sim::simulate_schedule_traced;
use treepie_sim::{BlockSizes, Settings, Workload, simulate_schedule};

/// The operations of a single phase, by lane, rank and round.
struct Table(Vec<Vec<Vec<Vec<ScheduleOp>>>>);

impl Schedule for Table {
    fn operation(&self) -> Operation {
        Operation::Bcast { root: 0 }
    }

    fn ranks(&self) -> u32 {
        self.0[0].len() as u32
    }

    fn blocks(&self) -> u32 {
        2
    }

    fn phase(&self, _: u32) -> Phase {
        Phase::with_lanes(self.0.len() as u32)
    }

    fn rounds(&self, rank: u32, _: u32, lane: u32) -> u32 {
        self.0[lane as usize][rank as usize].len() as u32
    }

    fn emit(&self, rank: u32, _: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        for round in rounds {
            self.0[lane as usize][rank as usize][round as usize].iter().for_each(|op| into.push(*op));
            into.end_round();
        }
    }
}

fn part(block: u32) -> BlockRange {
    BlockRange::new(Buf::Out, block, 1)
}

fn send(to: u32, block: u32) -> ScheduleOp {
    ScheduleOp::Send { to, part: part(block) }
}

fn recv(from: u32, block: u32) -> ScheduleOp {
    ScheduleOp::Recv { from, part: part(block) }
}

#[test]
fn a_short_message_does_not_match_the_receive_of_a_longer_one_before_it() {
    // Rank 1 forwards the first message as soon as it has it.
    let schedule = Table(vec![vec![
        vec![vec![send(1, 0), send(1, 1)]],
        vec![vec![recv(0, 0)], vec![send(2, 0), recv(0, 1)]],
        vec![vec![recv(1, 0)]],
    ]]);
    let network = network("torus:4x4").with_placement(vec![0, 1, 2]).unwrap();
    let micros = |short| {
        let sizes = BlockSizes::Shared(BlockLayouts::symmetric(BlockLayout::from_counts(&[1000, short])));
        let workload = Workload { schedule: &schedule, sizes: &sizes, element: 1 };
        simulate_schedule(workload, &network, &LinkCosts::new(1.0, 1.0).into()).unwrap().micros()
    };
    // A start-up and 1010 bytes over the first link, a start-up and 1000 bytes over the second.
    assert_eq!(micros(10), 1.0 + 1010.0 + 1.0 + 1000.0);
    assert_eq!(micros(0), 1.0 + 1000.0 + 1.0 + 1000.0);
}

/// A memory cap enables the check that a message is as long as its receive.
#[test]
fn messages_of_all_algorithms_match_their_receives() {
    let noise = Noise { slow_ranks: vec![(1, 20.0)], ..Noise::default() };
    let crowded = LinkCosts { ports: Some(16), per_hop: 5.0, ..LinkCosts::new(0.1, 0.01) };
    let narrow = LinkCosts { ports: Some(1), per_hop: 5.0, ..LinkCosts::new(0.1, 0.01) };
    let mut simulations = 0;
    for text in ["flat:6", "flat:8", "torus:4x3", "mesh:3x4", "torus:3x3x2", "clos:r6,t4,n10"] {
        let network = network(text);
        for variant in registry::all().iter().flat_map(|algorithm| algorithm.variants()) {
            let Ok(schedule) = registry::build(&variant, &CollectiveSpec::new(operation(&variant, 0), &network)) else {
                continue;
            };
            let counts: Vec<usize> = (0..schedule.blocks() as usize).map(|block| block * 7919 % 13 * 100).collect();
            // In an exchange each pair of ranks has its own block.
            let sizes = if variant.starts_with("alltoall") {
                uniform(&*schedule, 100)
            } else {
                BlockSizes::Shared(BlockLayouts::symmetric(BlockLayout::from_counts(&counts)))
            };
            let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
            for settings in [crowded.into(), narrow.into(), links(), loggp()] {
                let settings = Settings { memory_cap: Some(1 << 40), noise: noise.clone(), ..settings };
                simulate_schedule(workload, &network, &settings)
                    .unwrap_or_else(|error| panic!("{variant} on {text}: {error}"));
                simulations += 1;
            }
        }
    }
    assert!(simulations > 1000, "{simulations}");
}

#[test]
fn sends_of_two_lanes_between_clusters_take_turns() {
    let lane = |to: u32| {
        let mut ranks = vec![vec![vec![send(to, 0)]; 5], Vec::new(), Vec::new()];
        ranks[to as usize] = vec![vec![recv(0, 0)]; 5];
        ranks
    };
    let schedule = Table(vec![lane(1), lane(2)]);
    let sizes = uniform(&schedule, 100_000);
    let workload = Workload { schedule: &schedule, sizes: &sizes, element: 1 };
    for (text, settings) in [("clusters:3x1", wide_area(3)), ("flat:3", loggp())] {
        let (_, trace) = simulate_schedule_traced(workload, &network(text), &settings).unwrap();
        let mut json = String::new();
        trace.write_json(&mut json).unwrap();
        let to = |line: &str| line.split("\"to\":").nth(1).map(|rest| rest.starts_with('1'));
        let firsts: Vec<bool> = json.lines().filter_map(to).collect();
        assert_eq!(firsts, [true, false].repeat(5), "{text}");
    }
}
