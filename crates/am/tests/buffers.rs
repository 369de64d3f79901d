//! How many buffers a rank has open, and how much memory that is, by routing.

use treepie_am::{ActiveMessages, Config, Detector, Memory, TypeStatistics};
use treepie_comm::Comm;
use treepie_sim::Settings;
use treepie_sim::costs::LogGP;
use treepie_sim::engine::{self, Options};
use treepie_sim::noise::Noise;
use treepie_topology::Network;

const MACHINE: LogGP = LogGP { latency: 4.0, overhead: 0.2, gap: 0.2, per_byte: 0.001 };

const RANKS: u32 = 1024;

/// Messages of a buffer, and bytes of a message.
const TOGETHER: usize = 8;
const MESSAGE: usize = 8;

/// What messages of a rank say, which all ranks add up.
fn number(rank: usize) -> u64 {
    rank as u64 + 1
}

/// Each of the first so many ranks sends to all others.
fn all_to_all(routing: &str, senders: usize) -> Vec<(TypeStatistics, Memory)> {
    let config: Config = format!("coalescing={TOGETHER},routing={routing},reductions=off").parse().unwrap();
    let simulated = engine::run(&Network::flat(RANKS), &MACHINE.into(), &Options::default(), |fabric| {
        let comm = Comm::world(fabric);
        let mut build = ActiveMessages::<u64>::builder(&comm);
        let message = build.port::<u64>("message");
        build.on(message, |got, _, number| *got += number);
        build.configure_all(config.clone());
        let mut am = build.start().unwrap();
        let (rank, ranks) = (comm.rank(), comm.size());
        let others = if rank < senders { 1..ranks } else { 1..1 };
        let mut got = 0;
        am.epoch_for(&mut got, others, |cx, _, to| cx.send(message, (rank + to) % ranks, number(rank))).unwrap();
        assert_eq!(got, (0..senders).filter(|from| *from != rank).map(number).sum::<u64>());
        (am.statistics().remove(0), am.memory())
    });
    simulated.unwrap().into_results()
}

/// What is open on each rank; all that was sent and passed on went through so many buffers of so many bytes a message.
fn check(all: &[(TypeStatistics, Memory)], senders: usize, most: usize, frame: usize) {
    for (rank, (statistics, memory)) in all.iter().enumerate() {
        let TypeStatistics { sent, forwarded, buffers, bytes, open, peak_bytes, handled, .. } = statistics;
        assert_eq!(*sent, if rank < senders { u64::from(RANKS - 1) } else { 0 });
        // Beside them there is the one of the rank for itself.
        assert!(*peak_bytes <= (open + 1) * TOGETHER * frame && *peak_bytes >= open * TOGETHER * MESSAGE);
        assert!(*open <= most, "rank {rank} has {open} buffers open");
        let out = sent + forwarded;
        assert!((out * MESSAGE as u64..=out * frame as u64).contains(bytes), "{bytes} for {out} messages");
        assert!((out.div_ceil(TOGETHER as u64)..=out).contains(buffers), "{buffers} for {out} messages");
        // What waits was in buffers before, and is no more than all of an epoch.
        let all = bytes + handled * MESSAGE as u64;
        assert!(memory.deferred as u64 <= all && (out == 0 || memory.deferred > 0), "{memory:?} of {all}");
        assert_eq!(memory.slowed, 0);
    }
}

#[test]
fn rook_routing_has_two_square_roots_of_buffers() {
    let all = all_to_all("rook", RANKS as usize);
    check(&all, RANKS as usize, 64, MESSAGE + 4);
    // In fact all of a row and all of a column but this rank itself.
    assert!(all.iter().all(|(statistics, _)| statistics.open == 62));
    assert!(all.iter().all(|(statistics, _)| statistics.forwarded == 31 * 31));
}

#[test]
fn hypercube_routing_has_a_logarithm_of_buffers() {
    let all = all_to_all("hypercube", RANKS as usize);
    check(&all, RANKS as usize, 10, MESSAGE + 4);
    assert!(all.iter().all(|(statistics, _)| statistics.open == 10));
    // Each message is passed on once less often than bits of sender and receiver differ.
    let hops: u64 = (1..u64::from(RANKS)).map(|differs| u64::from(differs.count_ones()) - 1).sum();
    assert!(all.iter().all(|(statistics, _)| statistics.forwarded == hops));
}

#[test]
fn direct_routing_has_a_buffer_for_each_other_rank() {
    // A million messages on their own take their time, so all do it in long runs only.
    let long = std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0");
    let senders = if long { RANKS as usize } else { 64 };
    let all = all_to_all("direct", senders);
    check(&all, senders, 1023, MESSAGE);
    assert!(all[..senders].iter().all(|(statistics, _)| (statistics.open, statistics.forwarded) == (1023, 0)));
    // Nobody has buffers who sends nothing.
    assert!(all[senders..].iter().all(|(statistics, _)| statistics.open == 0));
}

/// All send a lot to a rank that is slow to take it, with a soft cap of so many bytes. What the others say of their memory.
fn flood(cap: usize) -> Vec<Memory> {
    let noise = Noise { slow_ranks: vec![(0, 50.0)], ..Noise::default() };
    let settings = Settings { noise, ..MACHINE.into() };
    let simulated = engine::run(&Network::flat(8), &settings, &Options::default(), |fabric| {
        let comm = Comm::world(fabric);
        let mut build = ActiveMessages::<u64>::builder(&comm);
        let message = build.port::<u64>("message");
        build.on(message, |got, _, number| *got += number);
        build.configure_all("coalescing=16,reductions=off".parse().unwrap());
        // Messages are answered, so it is known who has taken what.
        build.detector(Detector::NbxLike);
        build.memory(cap);
        let mut am = build.start().unwrap();
        let (mut got, count) = (0, if comm.rank() == 0 { 0 } else { FLOOD });
        am.epoch_for(&mut got, 0..count, |cx, _, _| cx.send(message, 0, 1)).unwrap();
        assert_eq!(got, if comm.rank() == 0 { 7 * FLOOD } else { 0 });
        am.memory()
    });
    simulated.unwrap().into_results().split_off(1)
}

const FLOOD: u64 = 4000;

#[test]
fn a_soft_cap_slows_bodies_down_and_bounds_what_waits() {
    let (all, buffer) = (FLOOD as usize * MESSAGE, 16 * MESSAGE);
    for memory in flood(all) {
        assert!(memory.slowed == 0 && memory.deferred > all / 2, "{memory:?}");
    }
    for memory in flood(2000) {
        assert!(memory.slowed > 0 && memory.deferred <= 2000 + buffer, "{memory:?}");
    }
}
