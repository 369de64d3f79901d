//! Open buffers of a rank and their memory, by routing.

use treepie_am::{ActiveMessages, Config, Detector, MemoryStatistics, TypeStatistics};
use treepie_comm::Comm;
use treepie_sim::Settings;
use treepie_sim::costs::LogGP;
use treepie_sim::engine::{self, Options};
use treepie_sim::noise::Noise;
use treepie_topology::Network;

const MACHINE: LogGP = LogGP { latency: 4.0, overhead: 0.2, gap: 0.2, per_byte: 0.001 };

const RANKS: u32 = 1024;

/// Messages per buffer, and bytes per message.
const COALESCING: usize = 8;
const MESSAGE: usize = 8;

/// The content of the messages of a rank, which the receivers sum.
fn number(rank: usize) -> u64 {
    rank as u64 + 1
}

/// Each of the first `senders` ranks sends to all others.
fn alltoall(routing: &str, senders: usize) -> Vec<(TypeStatistics, MemoryStatistics)> {
    let config: Config = format!("coalescing={COALESCING},routing={routing},reductions=off").parse().unwrap();
    let simulated = engine::run(&Network::flat(RANKS), &MACHINE.into(), &Options::default(), |fabric| {
        let comm = Comm::world(fabric);
        let mut build = ActiveMessages::<u64>::builder(&comm);
        let message = build.port::<u64>("message");
        build.on(message, |sum, _, number| *sum += number);
        build.configure_all(config.clone());
        let mut am = build.start().unwrap();
        let (rank, ranks) = (comm.rank(), comm.size());
        let others = if rank < senders { 1..ranks } else { 1..1 };
        let mut sum = 0;
        am.epoch_for(&mut sum, others, |cx, _, to| cx.send(message, (rank + to) % ranks, number(rank))).unwrap();
        assert_eq!(sum, (0..senders).filter(|from| *from != rank).map(number).sum::<u64>());
        (am.statistics().remove(0), am.memory_statistics())
    });
    simulated.unwrap().into_results()
}

/// Checks open buffers, bytes and messages of each rank; `frame` is the maximum bytes per message.
fn check(all: &[(TypeStatistics, MemoryStatistics)], senders: usize, most: usize, frame: usize) {
    for (rank, (statistics, memory)) in all.iter().enumerate() {
        let TypeStatistics { sent, forwarded, buffers, bytes, peak_open_buffers: open, peak_bytes, handled, .. } =
            statistics;
        assert_eq!(*sent, if rank < senders { u64::from(RANKS - 1) } else { 0 });
        // One more is the buffer of the rank to itself.
        assert!(*peak_bytes <= (open + 1) * COALESCING * frame && *peak_bytes >= open * COALESCING * MESSAGE);
        assert!(*open <= most, "rank {rank} has {open} buffers open");
        let out = sent + forwarded;
        assert!((out * MESSAGE as u64..=out * frame as u64).contains(bytes), "{bytes} for {out} messages");
        assert!((out.div_ceil(COALESCING as u64)..=out).contains(buffers), "{buffers} for {out} messages");
        // Queued bytes were in buffers before, and are at most all of an epoch.
        let all = bytes + handled * MESSAGE as u64;
        assert!(
            memory.peak_queued_bytes as u64 <= all && (out == 0 || memory.peak_queued_bytes > 0),
            "{memory:?} of {all}"
        );
        assert_eq!(memory.throttled, 0);
    }
}

#[test]
fn rook_routing_has_two_square_roots_of_buffers() {
    let all = alltoall("rook", RANKS as usize);
    check(&all, RANKS as usize, 64, MESSAGE + 4);
    // All ranks of the row and of the column without this rank.
    assert!(all.iter().all(|(statistics, _)| statistics.peak_open_buffers == 62));
    assert!(all.iter().all(|(statistics, _)| statistics.forwarded == 31 * 31));
}

#[test]
fn hypercube_routing_has_a_logarithm_of_buffers() {
    let all = alltoall("hypercube", RANKS as usize);
    check(&all, RANKS as usize, 10, MESSAGE + 4);
    assert!(all.iter().all(|(statistics, _)| statistics.peak_open_buffers == 10));
    // A message is forwarded one time less than the Hamming distance of sender and receiver.
    let hops: u64 = (1..u64::from(RANKS)).map(|differs| u64::from(differs.count_ones()) - 1).sum();
    assert!(all.iter().all(|(statistics, _)| statistics.forwarded == hops));
}

#[test]
fn direct_routing_has_a_buffer_for_each_other_rank() {
    // A million single messages take long, so only long runs have all senders.
    let long = std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0");
    let senders = if long { RANKS as usize } else { 64 };
    let all = alltoall("direct", senders);
    check(&all, senders, 1023, MESSAGE);
    assert!(
        all[..senders].iter().all(|(statistics, _)| (statistics.peak_open_buffers, statistics.forwarded) == (1023, 0))
    );
    // A rank that sends nothing has no buffers.
    assert!(all[senders..].iter().all(|(statistics, _)| statistics.peak_open_buffers == 0));
}

/// All ranks flood a slow rank with a soft limit of `limit` bytes. Returns the memory statistics of the senders.
fn flood(limit: usize) -> Vec<MemoryStatistics> {
    let noise = Noise { slow_ranks: vec![(0, 50.0)], ..Noise::default() };
    let settings = Settings { noise, ..MACHINE.into() };
    let simulated = engine::run(&Network::flat(8), &settings, &Options::default(), |fabric| {
        let comm = Comm::world(fabric);
        let mut build = ActiveMessages::<u64>::builder(&comm);
        let message = build.port::<u64>("message");
        build.on(message, |sum, _, number| *sum += number);
        build.configure_all("coalescing=16,reductions=off".parse().unwrap());
        // Sends are synchronous, so a queue drains only as fast as its receiver.
        build.detector(Detector::Consensus);
        build.memory_limit(limit);
        let mut am = build.start().unwrap();
        let (mut sum, count) = (0, if comm.rank() == 0 { 0 } else { FLOOD });
        am.epoch_for(&mut sum, 0..count, |cx, _, _| cx.send(message, 0, 1)).unwrap();
        assert_eq!(sum, if comm.rank() == 0 { 7 * FLOOD } else { 0 });
        am.memory_statistics()
    });
    simulated.unwrap().into_results().split_off(1)
}

const FLOOD: u64 = 4000;

#[test]
fn a_memory_limit_throttles_bodies_and_bounds_queued_bytes() {
    let (all, buffer) = (FLOOD as usize * MESSAGE, 16 * MESSAGE);
    for memory in flood(all) {
        assert!(memory.throttled == 0 && memory.peak_queued_bytes > all / 2, "{memory:?}");
    }
    for memory in flood(2000) {
        assert!(memory.throttled > 0 && memory.peak_queued_bytes <= 2000 + buffer, "{memory:?}");
    }
}
