//! Which algorithm is faster in figures 3.3 to 3.13 of the thesis, as far as its text (3.5.2 to 3.5.5) says so: by
//! events, with the cost parameters of its Blue Gene/P. Rows E08, E24, E25, E34, E35, E37 and E38 are numbers of the
//! same.
//!
//! Tori of 32,768 nodes are left to the formulas and to lockstep rounds; here are 512 and 4,096. Not here: the native
//! algorithms (E39, E42), which use another network, and reordering in memory (figure 3.8).

use crate::common::{build, network, simulate_id};
use treepie_model::PaperMachine as Paper;
use treepie_schedule::{BlockLayout, BlockLayouts, RoundList, ScheduleOp};
use treepie_sim::costs::LinkCosts;
use treepie_sim::{BlockSizes, Machine, Settings, SimEventKind, SimMessage, time};
use treepie_topology::Network;

fn blue_gene() -> Settings {
    Paper::Bgp.cost_params().into()
}

/// Microseconds, n bytes from each rank.
fn micros(id: &str, network: &Network, n: usize) -> f64 {
    simulate_id(id, network, &blue_gene(), n).micros()
}

/// Bytes per microsecond that each rank receives.
fn speed(id: &str, network: &Network, n: usize) -> f64 {
    (n * (network.ranks() as usize - 1)) as f64 / micros(id, network, n)
}

fn assert_decreasing(figure: &str, operation: &str, names: &[&str], network: &Network, n: usize) {
    let speeds: Vec<f64> = names.iter().map(|name| speed(&format!("{operation}/{name}"), network, n)).collect();
    println!("figure {figure}: {operation} on {network} with {n} bytes: {names:?} {speeds:.1?} MB/s");
    assert!(
        speeds.windows(2).all(|two| two[0] > two[1]),
        "figure {figure} on {network} with {n}: {names:?} {speeds:?}"
    );
}

/// The tori of 512 and of 4,096 nodes.
fn tori() -> [Network; 2] {
    ["torus:8x8x8", "torus:16x16x16"].map(network)
}

/// One-port algorithms, from the fastest with long messages to the slowest.
const ONE_PORT: [&str; 4] = ["bucket", "torus_reordered:moved", "distance_halving:moved", "distance_doubling"];

#[test]
fn figures_3_3_and_3_4_one_port() {
    let small = network("torus:8x8x8");
    // E24 has a crossover of 399 bytes from doubling to the bucket, E25 one of 2703 from doubling to the ring.
    assert_decreasing("3.3, E24", "allgather", &["torus_reordered:moved", "bucket"], &small, 256);
    assert_decreasing("3.3, E24", "allgather", &["bucket", "torus_reordered:moved"], &small, 512);
    assert_decreasing("3.3, E25", "allgather", &["distance_doubling", "ring"], &small, 2048);
    assert_decreasing("3.3, E25", "allgather", &["ring", "distance_doubling"], &small, 4096);
    for n in [64, 1024, 32768] {
        assert_decreasing("3.3", "allgather", &["distance_halving:moved", "distance_doubling"], &small, n);
    }
    for network in tori() {
        assert_decreasing("3.3", "allgather", &ONE_PORT, &network, 32768);
        let reached = speed("allgather/bucket", &network, 1 << 20);
        assert!((reached / 375.0 - 1.0).abs() < 0.005, "figure 3.3 on {network}: the bucket fills a link, {reached}");
    }
    let reached = speed("allgather/torus_reordered:moved", &small, 1 << 20);
    // Shuffling blocks takes 8 n delta by the routes of messages, not the 2 n delta of the bisection.
    assert!((reached / 333.0 - 1.0).abs() < 0.015, "figure 3.3: {reached} MB/s where 333 were measured");
    // With long messages the size of the torus hardly matters, with short ones it does.
    for id in ["allgather/bucket", "allgather/torus_reordered:moved"] {
        let range = |n| {
            let speeds = ["torus:8x8x8", "torus:8x8x16", "torus:8x16x16"].map(|text| speed(id, &network(text), n));
            speeds.into_iter().fold(0.0, f64::max) / speeds.into_iter().fold(f64::INFINITY, f64::min)
        };
        let (long, short) = (range(32768), range(64));
        assert!(long < 1.06 && short > 1.25, "figure 3.4: {id} differs {long} and {short} times");
    }
}

#[test]
fn figures_3_5_and_3_6_several_ports() {
    for network in tori() {
        for n in [4096, 48_000] {
            assert_decreasing("3.5", "allgather", &["bucket_k:6,moved", "bucket_k:3,moved", "bucket"], &network, n);
        }
    }
    let small = network("torus:8x8x8");
    assert_decreasing("3.5", "allgather", &["torus_reordered:moved", "bucket", "bucket_k:6"], &small, 64);
    // 99% of three ports, and of six at their efficiency.
    for (id, ports) in [("allgather/bucket_k:3", 1125.0), ("allgather/bucket_k:6", 6.0 * 375.0 * 0.93)] {
        let reached = speed(id, &small, 960_000);
        assert!(reached < ports && reached > 0.99 * ports, "figure 3.5: {id} reaches {reached} MB/s of {ports}");
    }
}

#[test]
fn figure_3_7_and_e37_moving_blocks_costs_little() {
    let share = |id: &str, more: &str, text: &str, n| {
        let (with, without) = (format!("{id}{more}"), id);
        1.0 - micros(without, &network(text), n) / micros(&with, &network(text), n)
    };
    let doubling = share("allgather/torus_reordered", ":moved", "torus:8x8x8", 32768);
    let six = share("allgather/bucket_k:6", ",moved", "torus:8x8x8", 32768);
    println!("E37 on 512 nodes: {:.2}% of doubling, {:.2}% of six buckets", doubling * 100.0, six * 100.0);
    assert!(doubling > 0.0 && doubling <= 0.023, "E37: {doubling} of the reordered doubling on 512 nodes");
    assert!(six > 0.0 && six <= 0.07, "E37: {six} of the six buckets on 512 nodes");
    // The shuffle does not grow with the nodes as the whole does.
    let larger = share("allgather/bucket_k:6", ",moved", "torus:8x8x16", 32768);
    assert!(larger < six, "E37: {larger} on 1,024 nodes, {six} on 512");
}

#[test]
fn figures_3_9_and_3_12_meshes() {
    for operation in ["allgather", "reduce_scatter"] {
        for text in ["mesh:2x2x4", "mesh:4x4x4", "mesh:4x8x8"] {
            for n in [480, 48_000] {
                assert_decreasing("3.9, E38", operation, &["bucket_k:3", "bucket_k:6"], &network(text), n);
            }
        }
        // Toroidal in one or two dimensions: four or five buckets, as the text guesses.
        for (text, more) in [("torus:8x8x8,wrap=ynn", "bucket_k:4"), ("torus:8x8x8,wrap=yyn", "bucket_k:5")] {
            let network = network(text);
            let chosen = micros(&format!("{operation}/bucket_k"), &network, 48_000);
            let named = micros(&format!("{operation}/{more}"), &network, 48_000);
            println!(
                "figure 3.9: {operation} on {text}: {chosen} us with as many buckets as fit, {named} us with {more}"
            );
            assert_decreasing("3.9", operation, &["bucket_k", "bucket_k:3"], &network, 48_000);
        }
    }
}

#[test]
fn figures_3_10_and_3_11_reduce_scatter() {
    // Names are those of the allgathers that run backwards: halving distances backwards is doubling them.
    for network in tori() {
        let names = ["bucket_k:6,moved", ONE_PORT[0], ONE_PORT[1], ONE_PORT[2], ONE_PORT[3]];
        assert_decreasing("3.10", "reduce_scatter", &names, &network, 49_152);
    }
    // Except with short vectors on the small torus.
    let small = network("torus:8x8x8");
    assert_decreasing("3.10", "reduce_scatter", &["torus_reordered:moved", "bucket_k:6,moved"], &small, 64);
    assert_decreasing("3.10", "reduce_scatter", &["torus_reordered:moved", "bucket"], &small, 64);
}

#[test]
fn figure_3_13_broadcast() {
    let network = network("torus:8x8x8");
    let cores = ["bucket_k", "bucket", "torus_reordered", "distance_halving", "distance_doubling"];
    let times = cores.map(|core| {
        let schedule = build(&format!("bcast/scatter_allgather:{core}"), &network);
        // 32,768 bytes per rank, in the schedule's blocks.
        let each = 32768 * 512 / schedule.blocks() as usize;
        micros(&format!("bcast/scatter_allgather:{core}"), &network, each)
    });
    println!("figure 3.13: {cores:?} {times:.0?} us");
    assert!(times.windows(2).all(|two| two[0] < two[1]), "figure 3.13: {times:?}");
    assert!(times[2] < 1.1 * times[1], "figure 3.13: closely followed, {times:?}");
    assert!(times[4] > 1.1 * times[3], "figure 3.13: far more, {times:?}");
}

/// Time of all messages of a stage, sent at once.
fn stage(network: &Network, costs: LinkCosts, messages: &[(u32, u32, u64)]) -> f64 {
    let mut machine = Machine::new(network, &costs.into()).unwrap();
    for &(from, to, bytes) in messages {
        let tie = treepie_topology::TieBreak::Parity;
        machine.send(0, SimMessage { from, to, bytes, channel: 0, token: 0, tie });
    }
    let delivered = |event: &treepie_sim::SimEvent| matches!(event.kind, SimEventKind::Delivered { .. });
    time::to_micros(std::iter::from_fn(|| machine.next()).filter(delivered).last().unwrap().time)
}

/// The messages of a round of a lane, of all ranks.
fn messages(
    schedule: &dyn treepie_schedule::Schedule,
    sizes: &BlockSizes,
    (phase, lane, round): (u32, u32, u32),
) -> Vec<(u32, u32, u64)> {
    let mut all = Vec::new();
    for rank in 0..schedule.ranks() {
        let mut ops = RoundList::new();
        schedule.emit(rank, phase, lane, round..round + 1, &mut ops);
        let buffers = treepie_schedule::BufferMap { schedule, layouts: sizes.layouts(rank), rank };
        for op in ops.round_or_empty(0) {
            if let ScheduleOp::Send { to, part } = *op {
                all.push((rank, to, buffers.range_len(part) as u64));
            }
        }
    }
    all
}

#[test]
fn e08_stages_of_the_reordered_doubling_in_time() {
    let network = network("torus:8x8x8");
    let schedule = build("allgather/torus_reordered", &network);
    // Before them each rank copies its own block.
    assert_eq!((schedule.phases(), schedule.rounds(0, 1, 0)), (2, 9));
    let hops = [4.0, 4.0, 4.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0];
    let congestion = [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0];
    for round in 0..9u32 {
        let messages = messages(&*schedule, &crate::common::uniform(&*schedule, 1), (1, 0, round));
        let size = f64::from(1u32 << round);
        assert!(messages.len() == 512 && messages.iter().all(|(_, _, bytes)| *bytes == 1 << round), "E08: size");
        let single = stage(&network, LinkCosts::new(0.0, 1.0), &messages[..1]);
        let all = stage(&network, LinkCosts::new(0.0, 1.0), &messages);
        assert_eq!((single, all), (size, size * congestion[round as usize]), "E08: stage {round}");
        let with_hops = stage(&network, LinkCosts { per_hop: 1000.0, ..LinkCosts::new(0.0, 1.0) }, &messages);
        assert_eq!(with_hops - all, 1000.0 * hops[round as usize], "E08: stage {round}");
    }
}

#[test]
fn e35_blocks_go_to_the_rank_with_permuted_bits() {
    let network = network("torus:8x8x8");
    let schedule = build("allgather/torus_reordered:moved", &network);
    let bits = network.as_torus().unwrap().schedule_bits().unwrap();
    // R(S, i) has bit S_k of i as bit k: rank i gets the block of rank R(S, i).
    let source_of = |rank: u32| bits.iter().zip(0..).map(|(bit, k)| (rank >> bit & 1) << k).sum::<u32>();
    let mut expected: Vec<(u32, u32, u64)> =
        (0..512).map(|rank| (source_of(rank), rank, 1)).filter(|(from, to, _)| from != to).collect();
    expected.sort_unstable();
    assert_eq!(messages(&*schedule, &crate::common::uniform(&*schedule, 1), (0, 0, 0)), expected, "E35");
}

#[test]
fn e34_segment_1203_begins_at_rank_410() {
    let network = network("torus:8x8x8");
    let schedule = build("allgather/bucket_k:6,moved", &network);
    // Six segments of each block: 1203 is number 3 of block 200. Find who sends in a round if only that block has
    // bytes.
    let senders = |bytes, at| {
        let mut counts = vec![0; 512];
        counts[200] = bytes;
        let sizes = BlockSizes::Shared(BlockLayouts::symmetric(BlockLayout::from_counts(&counts)));
        messages(&*schedule, &sizes, at).into_iter().filter(|(_, _, bytes)| *bytes > 0).collect::<Vec<_>>()
    };
    let begins = |bytes, lane| senders(bytes, (1, lane, 0)).into_iter().map(|(from, _, _)| from).collect::<Vec<_>>();
    for lane in 0..6 {
        assert_eq!(begins(6, lane).len(), if lane == 2 { 6 } else { 0 }, "E34: bucket {lane}");
    }
    // Of three bytes segments 1, 3 and 5 have one each, of four all but 0 and 3.
    let (three, four) = (begins(3, 2), begins(4, 2));
    let only: Vec<u32> = three.into_iter().filter(|rank| !four.contains(rank)).collect();
    assert_eq!(only, [410], "E34: start rank");
    assert!(senders(6, (0, 0, 0)).contains(&(200, 410, 1)), "E34: it was shuffled there before");
}
