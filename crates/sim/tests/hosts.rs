//! Hosts of several ranks: a port that they share, and memory.

use crate::common::{links, loggp, network, simulate_id};
use treepie_sim::costs::{LinkCosts, LogGP, SharedMemoryCosts};
use treepie_sim::noise::Noise;
use treepie_sim::{Machine, Settings, SimEvent, SimEventKind, SimMessage, lockstep_cost, symmetric};
use treepie_topology::{Network, TieBreak};

fn message(from: u32, to: u32, bytes: u64) -> SimMessage {
    SimMessage { from, to, bytes, channel: 0, token: u64::from(from), tie: TieBreak::Plus }
}

/// Microseconds of deliveries with receiver and sender.
fn deliveries(machine: &mut Machine) -> Vec<(f64, u32, u32)> {
    let delivered = |event: SimEvent| match event.kind {
        SimEventKind::Delivered { from, .. } => Some((event.time as f64 / 1e6, event.rank, from)),
        _ => None,
    };
    std::iter::from_fn(|| machine.next()).filter_map(delivered).collect()
}

fn deliver(network: &Network, settings: &Settings, messages: &[(u32, u32, u64)]) -> Vec<(f64, u32, u32)> {
    let mut machine = Machine::new(network, settings).unwrap();
    messages.iter().for_each(|&(from, to, bytes)| _ = machine.send(0, message(from, to, bytes)));
    deliveries(&mut machine)
}

/// o below g, and memory of 1 us and 4 bytes per microsecond.
fn slow_port() -> Settings {
    let shared_memory = SharedMemoryCosts { latency: 1.0, bandwidth: 4.0 };
    Settings { shared_memory, ..LogGP { latency: 10.0, overhead: 1.0, gap: 3.0, per_byte: 0.5 }.into() }
}

/// o above g.
fn slow_cpu() -> Settings {
    LogGP { latency: 10.0, overhead: 4.0, gap: 1.0, per_byte: 0.5 }.into()
}

#[test]
fn messages_of_a_host_leave_one_after_the_other() {
    let hosts = network("flat:9,ppn=3");
    // Injected at 0, 3 + 4 and 10 + 4; then o + L + 4 each. Ranks of another host do not wait.
    assert_eq!(
        deliver(&hosts, &slow_port(), &[(0, 3, 9), (1, 4, 9), (2, 6, 9), (3, 7, 9)]),
        [(15.0, 3, 0), (15.0, 7, 3), (22.0, 4, 1), (29.0, 6, 2)]
    );
    // The port takes g for a message, not o: that is the time of each rank's own CPU.
    assert_eq!(
        deliver(&hosts, &slow_cpu(), &[(0, 3, 1), (1, 4, 1), (2, 6, 1)]),
        [(14.0, 3, 0), (15.0, 4, 1), (16.0, 6, 2)]
    );
}

#[test]
fn messages_enter_a_host_one_after_the_other() {
    let hosts = network("flat:9,ppn=3");
    assert_eq!(
        deliver(&hosts, &slow_port(), &[(3, 0, 9), (6, 1, 9), (4, 8, 9)]),
        [(15.0, 0, 3), (22.0, 8, 4), (22.0, 1, 6)]
    );
    // To one rank as well, each o apart as without hosts.
    assert_eq!(deliver(&hosts, &slow_cpu(), &[(3, 0, 1), (6, 0, 1)]), [(14.0, 0, 3), (18.0, 0, 6)]);
}

/// The CPU of rank 0 begins its three messages at 0, 4 and 8: those of rank 1 are not behind all of them.
#[test]
fn ranks_take_turns_at_the_port() {
    let sends = [(0, 2, 1), (0, 4, 1), (0, 6, 1), (1, 3, 1), (1, 5, 1)];
    assert_eq!(
        deliver(&network("flat:8,ppn=2"), &slow_cpu(), &sends),
        [(14.0, 2, 0), (15.0, 3, 1), (18.0, 4, 0), (19.0, 5, 1), (22.0, 6, 0)]
    );
}

#[test]
fn messages_within_a_host_go_through_memory() {
    let hosts = network("flat:6,ppn=3");
    // o + latency + 8 bytes at 4 per us; the second is written after the first. The port is free for the third.
    assert_eq!(
        deliver(&hosts, &slow_port(), &[(0, 1, 9), (0, 2, 1), (1, 3, 1)]),
        [(4.0, 1, 0), (4.0, 2, 0), (11.0, 3, 1)]
    );
    // On links: alpha, latency and 8 bytes; and alpha and 8 bytes over two links.
    let shared_memory = SharedMemoryCosts { latency: 1.0, bandwidth: 4.0 };
    let settings = Settings { shared_memory, ..LinkCosts::new(5.0, 1.0).into() };
    assert_eq!(
        deliver(&hosts, &settings, &[(0, 1, 8), (3, 4, 0), (2, 5, 8)]),
        [(6.0, 4, 3), (8.0, 1, 0), (13.0, 5, 2)]
    );
}

#[test]
fn ranks_of_a_host_share_its_links() {
    let settings: Settings = LinkCosts::new(0.0, 1.0).into();
    // Two flows out of a host have half of its injection link each; two into a host half of its ejection link.
    let time = |text: &str, sends: &[(u32, u32, u64)]| deliver(&network(text), &settings, sends).last().unwrap().0;
    for sends in [[(0, 4, 10), (1, 6, 10)], [(4, 0, 10), (6, 1, 10)]] {
        assert_eq!((time("flat:8", &sends), time("flat:8,ppn=2", &sends)), (10.0, 20.0));
    }
}

/// With one active rank on each host, hosts cost nothing, to the picosecond. So they do with one rank each.
#[test]
fn idle_neighbors_cost_nothing() {
    for settings in [loggp(), slow_port(), slow_cpu(), links()] {
        for id in ["allgather/ring", "allreduce/recursive_doubling", "scatter/flat", "alltoall/linear"] {
            let plain = simulate_id(id, &network("flat:8"), &settings, 1000);
            let placed = simulate_id(id, &network("flat:32,ppn=4@0+4+8+12+16+20+24+28"), &settings, 1000);
            let single = simulate_id(id, &network("flat:8,ppn=1"), &settings, 1000);
            assert_eq!((plain.micros(), plain.micros()), (placed.micros(), single.micros()), "{id}");
        }
    }
}

#[test]
fn busy_neighbors_cost_time_and_memory_saves_it() {
    for settings in [loggp(), slow_port(), links()] {
        let time = |id, text| simulate_id(id, &network(text), &settings, 10_000).micros();
        // Recursive doubling sends between all hosts in its last stages.
        let id = "allgather/bruck";
        assert!(time(id, "flat:32,ppn=8") > 2.0 * time(id, "flat:32"), "the port is shared by eight");
    }
    let fast = Settings { shared_memory: SharedMemoryCosts { latency: 0.0, bandwidth: 1e6 }, ..slow_port() };
    let ring = |text| simulate_id("allgather/ring", &network(text), &fast, 1).micros();
    assert!(ring("flat:8,ppn=8") < ring("flat:8"), "one host has no network");
}

#[test]
fn failed_ranks_do_not_use_the_port() {
    let noise = Noise { failures: vec![(0, 1.0)], ..Noise::default() };
    let settings = Settings { noise, ..slow_port() };
    let network = network("flat:4,ppn=2");
    // Its first message is injected at 0, its second would be at 3.
    let sends = [(0, 2, 1), (0, 3, 1), (1, 2, 1)];
    assert_eq!(deliver(&network, &settings, &sends), [(11.0, 2, 0), (14.0, 2, 1)]);
    // Its CPU has begun this one, but it still waits for the port when the rank fails.
    assert_eq!(deliver(&network, &settings, &[(1, 2, 1), (0, 3, 1)]), [(11.0, 2, 1)]);
}

#[test]
fn other_levels_refuse_hosts() {
    use crate::common::{build, uniform};
    let hosts = network("flat:8,ppn=2");
    let schedule = build("allgather/ring", &hosts);
    let sizes = uniform(&*schedule, 8);
    let workload = treepie_sim::Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let refusal = lockstep_cost(workload, &hosts, &links()).unwrap_err().to_string();
    assert!(refusal.contains("hosts of several ranks"), "{refusal}");
    assert!(symmetric::simulate(workload, &hosts, &loggp()).unwrap().is_none());
    assert!(symmetric::simulate(workload, &network("flat:8"), &loggp()).unwrap().is_some());
}

/// With one coordinator between two hosts messages are fewest, for short blocks; with one for each rank, blocks are sent
/// twice instead of three times, for long ones. Also where the last host has fewer ranks.
#[test]
fn alltoalls_of_short_blocks_have_one_coordinator() {
    let costs = LogGP { latency: 20.0, overhead: 0.5, gap: 1.0, per_byte: 0.001 };
    let shared_memory = SharedMemoryCosts { latency: 0.5, bandwidth: 5000.0 };
    let settings = Settings { shared_memory, ..costs.into() };
    for text in ["flat:64,ppn=4", "flat:61,ppn=4"] {
        let network = network(text);
        let micros = |id: &str, each| simulate_id(&format!("alltoall/{id}"), &network, &settings, each).micros();
        let times = |each| ["hierarchical", "hierarchical:coordinators=4", "linear"].map(|id| micros(id, each));
        let ([one, all, linear], [long_one, long_all, _]) = (times(1), times(16 << 10));
        println!("{text}: 1 byte {one:.0}, {all:.0}, linear {linear:.0}; 16 KiB {long_one:.0}, {long_all:.0} us");
        assert!(1.8 * one < all && 5.0 * one < linear, "{text}: {one:.0}, {all:.0}, linear {linear:.0}");
        assert!(long_all < long_one && long_one < 1.5 * long_all, "{text}: {long_one:.0}, {long_all:.0}");
    }
}
