//! Which message meets which receive, and which send comes first.

mod common;

use std::ops::Range;

use common::{links, loggp, network, operation, uniform, wide_area};
use treepie_collectives::registry::{self, Request};
use treepie_schedule::{Buf, Layout, Layouts, Op, Operation, Part, Phase, Rounds, Schedule};
use treepie_sim::costs::Links;
use treepie_sim::noise::Noise;
use treepie_sim::player::play_recorded;
use treepie_sim::{Piece, Settings, Sizes, play};

/// What ranks do in the only phase, by lane, rank and round.
struct Table(Vec<Vec<Vec<Vec<Op>>>>);

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
        Phase::lanes(self.0.len() as u32)
    }

    fn rounds(&self, rank: u32, _: u32, lane: u32) -> u32 {
        self.0[lane as usize][rank as usize].len() as u32
    }

    fn emit(&self, rank: u32, _: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        for round in rounds {
            self.0[lane as usize][rank as usize][round as usize].iter().for_each(|op| into.push(*op));
            into.end();
        }
    }
}

fn part(block: u32) -> Part {
    Part::blocks(Buf::Out, block, 1)
}

fn send(to: u32, block: u32) -> Op {
    Op::Send { to, part: part(block) }
}

fn recv(from: u32, block: u32) -> Op {
    Op::Recv { from, part: part(block) }
}

#[test]
fn a_short_message_is_not_taken_for_the_long_one_before_it() {
    // Rank 1 hands the first on as soon as it has it.
    let schedule = Table(vec![vec![
        vec![vec![send(1, 0), send(1, 1)]],
        vec![vec![recv(0, 0)], vec![send(2, 0), recv(0, 1)]],
        vec![vec![recv(1, 0)]],
    ]]);
    let network = network("torus:4x4").placed(vec![0, 1, 2]).unwrap();
    let micros = |short| {
        let sizes = Sizes::Shared(Layouts::both(Layout::of_counts(&[1000, short])));
        let piece = Piece { schedule: &schedule, sizes: &sizes, element: 1 };
        play(piece, &network, &Links::new(1.0, 1.0).into()).unwrap().micros()
    };
    // A start-up and 1010 bytes over the first link, a start-up and 1000 bytes over the second.
    assert_eq!(micros(10), 1.0 + 1010.0 + 1.0 + 1000.0);
    assert_eq!(micros(0), 1.0 + 1000.0 + 1.0 + 1000.0);
}

/// With a limit to memory it is looked at whether a message is as long as its receive.
#[test]
fn messages_of_all_algorithms_meet_their_receives() {
    let noise = Noise { slow_ranks: vec![(1, 20.0)], ..Noise::default() };
    let crowded = Links { ports: Some(16), hop: 5.0, ..Links::new(0.1, 0.01) };
    let narrow = Links { ports: Some(1), hop: 5.0, ..Links::new(0.1, 0.01) };
    let mut played = 0;
    for text in ["flat:6", "flat:8", "torus:4x3", "mesh:3x4", "torus:3x3x2", "clos:r6,t4,n10"] {
        let network = network(text);
        for variant in registry::all().iter().flat_map(|algorithm| algorithm.variants()) {
            let Ok(schedule) = registry::build(&variant, &Request::new(operation(&variant, 0), &network)) else {
                continue;
            };
            let counts: Vec<usize> = (0..schedule.blocks() as usize).map(|block| block * 7919 % 13 * 100).collect();
            // What a rank sends to another in an exchange is a block of its own.
            let sizes = if variant.starts_with("alltoall") {
                uniform(&*schedule, 100)
            } else {
                Sizes::Shared(Layouts::both(Layout::of_counts(&counts)))
            };
            let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
            for settings in [crowded.into(), narrow.into(), links(), loggp()] {
                let settings = Settings { memory_cap: Some(1 << 40), noise: noise.clone(), ..settings };
                play(piece, &network, &settings).unwrap_or_else(|error| panic!("{variant} on {text}: {error}"));
                played += 1;
            }
        }
    }
    assert!(played > 1000, "{played}");
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
    let piece = Piece { schedule: &schedule, sizes: &sizes, element: 1 };
    for (text, settings) in [("clusters:3x1", wide_area(3)), ("flat:3", loggp())] {
        let (_, trace) = play_recorded(piece, &network(text), &settings).unwrap();
        let mut json = String::new();
        trace.json(&mut json).unwrap();
        let to = |line: &str| line.split("\"to\":").nth(1).map(|rest| rest.starts_with('1'));
        let firsts: Vec<bool> = json.lines().filter_map(to).collect();
        assert_eq!(firsts, [true, false].repeat(5), "{text}");
    }
}
