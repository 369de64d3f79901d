//! Memory: of the simulator per rank, and of simulated ranks.

use std::ops::Range;

use crate::common::{build, links, loggp, network, simulate_id, uniform};
use treepie_schedule::{Operation, RoundList, Schedule, ScheduleOp};
use treepie_sim::noise::Noise;
use treepie_sim::{Error, Settings, SimResult, Workload, simulate_schedule};
use treepie_topology::Network;

#[test]
fn a_rank_takes_at_most_200_bytes() {
    for (id, text, settings) in [
        ("allgather/distance_doubling", "flat:32768", loggp()),
        ("allreduce/recursive_doubling", "flat:32768", links()),
        ("barrier/dissemination", "flat:32768", loggp()),
        ("allgather/ring", "flat:512", loggp()),
        ("allgather/ring", "torus:8x8x8", links()),
        ("allgather/bucket", "torus:8x8x8", links()),
        ("allgather/bucket", "torus:16x16x16", links()),
        ("allgather/torus_reordered", "torus:16x16x16", links()),
    ] {
        let network = network(text);
        let SimResult { memory, memory_ranks, memory_links, memory_in_flight, max_in_flight, .. } =
            simulate_id(id, &network, &settings, 8);
        assert_eq!(memory, memory_ranks + memory_links + memory_in_flight, "{id} on {text}");
        let each = memory_ranks / network.ranks() as usize;
        assert!(each > 16 && each <= 200, "{id} on {text}: {each} bytes a rank");
        let link = memory_links / network.links() as usize;
        assert!(link <= 32, "{id} on {text}: {link} bytes a link");
        // Events, flows and their hops.
        let message = memory_in_flight / max_in_flight as usize;
        assert!(message <= 1024, "{id} on {text}: {message} bytes a message");
    }
}

/// Splits each round of another schedule in two: first all sends, then all receives, as a bulk-synchronous program
/// does.
struct Supersteps(Box<dyn Schedule>);

impl Schedule for Supersteps {
    fn operation(&self) -> Operation {
        self.0.operation()
    }

    fn ranks(&self) -> u32 {
        self.0.ranks()
    }

    fn blocks(&self) -> u32 {
        self.0.blocks()
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        2 * self.0.rounds(rank, phase, lane)
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        for round in rounds {
            let mut ops = RoundList::new();
            self.0.emit(rank, phase, lane, round / 2..round / 2 + 1, &mut ops);
            let sends = |op: &&ScheduleOp| matches!(op, ScheduleOp::Send { .. }) == (round % 2 == 0);
            ops.round_or_empty(0).iter().filter(sends).for_each(|op| into.push(*op));
            into.end_round();
        }
    }
}

/// An exchange of 10,000 bytes with each other rank, where rank 3 is slow and the memory cap is 50,000 bytes.
fn exchange(schedule: &dyn Schedule) -> Result<SimResult, Error> {
    let noise = Noise { slow_ranks: vec![(3, 50.0)], ..Noise::default() };
    let settings = Settings { memory_cap: Some(50_000), noise, ..loggp() };
    let sizes = uniform(schedule, 10_000);
    simulate_schedule(Workload { schedule, sizes: &sizes, element: 1 }, &Network::flat(schedule.ranks()), &settings)
}

/// Programs in supersteps run out of memory from some number of nodes on; those that receive messages as they arrive do
/// not.
#[test]
fn g03_supersteps_exhaust_memory_and_streams_do_not() {
    for ranks in [4, 16, 64] {
        let linear = || build("alltoall/linear", &Network::flat(ranks));
        let streamed = exchange(&*linear()).unwrap_or_else(|error| panic!("G03: {ranks} ranks: {error}"));
        match exchange(&Supersteps(linear())) {
            Ok(result) => {
                assert_eq!(ranks, 4, "G03: {ranks} ranks");
                assert_eq!((result.messages, result.bytes), (streamed.messages, streamed.bytes));
            }
            Err(error) => {
                assert!(ranks > 4, "G03: {error}");
                assert!(matches!(error, Error::OutOfMemory { rank: 3, held: 60_000, cap: 50_000, .. }), "G03: {error}");
                assert!(error.to_string().starts_with("rank 3 ran out of memory at "), "{error}");
            }
        }
    }
}
