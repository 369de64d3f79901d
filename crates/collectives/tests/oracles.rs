//! The costs given in the thesis, counted from the schedules themselves. Names are those of the rows E01 to E40.
//!
//! The thesis charges the shuffle by bisection bandwidth. Counted on the links of its routes it costs more; here it is
//! counted separately from the core, and printed or asserted.

use crate::common::{long, network};
use treepie_collectives::allgather_cores::{
    self, Bucket, Doubling, Parallel, bucket_k, buckets, distance_doubling, distance_halving, hybrid, torus_reordered,
};
use treepie_collectives::exchange::{FanInFanOut, HalvingExchange};
use treepie_collectives::from_allgather::{Allgather, Allreduce};
use treepie_collectives::trees::{Bcast, TreeKind};
use treepie_schedule::count::{ScheduleCost, count};
use treepie_schedule::{AllgatherCore, BlockLayout, BlockLayouts, Schedule};
use treepie_topology::{Network, TieBreak};

/// The cost with blocks of `each` elements.
fn counted(schedule: &dyn Schedule, each: usize, network: &Network) -> ScheduleCost {
    let layouts = BlockLayouts::symmetric(BlockLayout::uniform(each, schedule.blocks()));
    count(schedule, &|_| layouts.clone(), network)
}

/// Messages and time of an allgather's core and of its shuffle, in units of a block.
struct Costs {
    core: (u64, f64),
    shuffle: (u64, f64),
}

fn allgather(core: impl AllgatherCore, each: usize, network: &Network) -> Costs {
    let phases = counted(&Allgather::new(core), each, network).phases;
    let unit = |time: f64| time / each as f64;
    let core = (phases[1..].iter().map(|phase| phase.messages).sum(), phases[1..].iter().map(|phase| phase.time).sum());
    Costs { core: (core.0, unit(core.1)), shuffle: (phases[0].messages, unit(phases[0].time)) }
}

fn cube(p: u32) -> Network {
    Network::torus(&[p; 3], &[true; 3]).unwrap()
}

/// The six buckets as the thesis numbers them: 0 and 1 XYZ, 2 and 3 YZX, 4 and 5 ZXY.
fn six(dims: &[u32], shuffled: bool) -> Parallel<Bucket> {
    buckets(dims, 6, shuffled)
}

/// Bytes per microsecond, where a link carries 375.
fn bandwidth(ranks: u32, time: f64) -> f64 {
    375.0 * f64::from(ranks - 1) / time
}

fn near(id: &str, got: f64, expected: f64, tolerance: f64) {
    assert!((got - expected).abs() <= tolerance, "{id}: {got} instead of {expected}");
}

#[test]
fn e01_ring_allgather() {
    for ranks in [2, 5, 16, 129] {
        for text in [format!("torus:{ranks}"), format!("mesh:{ranks}"), format!("flat:{ranks}")] {
            let Costs { core, shuffle } = allgather(Bucket::ring(ranks), 7, &network(&text));
            assert_eq!(core, (u64::from(ranks - 1), f64::from(ranks - 1)), "E01 on {text}");
            assert_eq!(shuffle, (0, 0.0), "E01 on {text}");
        }
    }
}

#[test]
fn e02_recursive_doubling_without_congestion() {
    for lg in 1..=10 {
        let ranks = 1 << lg;
        let flat = Network::flat(ranks);
        assert_eq!(allgather(distance_doubling(ranks), 3, &flat).core, (lg, f64::from(ranks - 1)), "E02");
        assert_eq!(allgather(distance_halving(ranks, false), 3, &flat).core, (lg, f64::from(ranks - 1)), "E02");
    }
}

#[test]
fn e03_e04_distance_doubling_on_a_cube() {
    for (p, expected, speed) in [(4, 63.0, 0.0), (8, 949.0, 201.9), (16, 14469.0, 106.1), (32, 225141.0, 54.6)] {
        let ranks = p * p * p;
        let (_, time) = allgather(distance_doubling(ranks), 1, &cube(p)).core;
        assert_eq!(time, expected, "E03 at {p}");
        let (side, sides) = (f64::from(p), f64::from(p * p));
        near("E03 as a formula", time, (1.0 + side + sides) * (5.0 * sides / 24.0 - 1.0 / 3.0), 1e-6);
        if p > 4 {
            near("E04", bandwidth(ranks, time), speed, 0.1);
        }
    }
}

#[test]
fn e05_distance_halving_on_a_cube() {
    for (p, expected, speed) in [(8, 730.0, 262.5), (16, 7644.0, 200.9), (32, 76104.0, 161.5)] {
        let ranks = p * p * p;
        let (_, time) = allgather(distance_halving(ranks, false), 1, &cube(p)).core;
        assert_eq!(time, expected, "E05 at {p}");
        near("E05 in MB/s", bandwidth(ranks, time), speed, 0.1);
    }
}

#[test]
fn e06_e07_e08_e10_e33_reordered_doubling_on_8x8x8() {
    let network = cube(8);
    let torus = network.as_torus().unwrap();
    assert_eq!(torus.schedule_bits().unwrap(), [8, 5, 2, 7, 4, 1, 6, 3, 0], "E08: S");
    let schedule = Allgather::new(torus_reordered(&network, true).unwrap());
    let phases = counted(&schedule, 1, &network).phases;
    let stages = &phases[1].rounds;
    assert_eq!(stages.iter().map(|stage| stage.hops).collect::<Vec<_>>(), [4, 4, 4, 2, 2, 2, 1, 1, 1], "E08: hops");
    let congestion: Vec<f64> = stages.iter().map(|stage| stage.congestion()).collect();
    assert_eq!(congestion, [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0], "E08: congestion");
    assert_eq!(
        stages.iter().map(|stage| stage.size).collect::<Vec<_>>(),
        [1, 2, 4, 8, 16, 32, 64, 128, 256],
        "E08: size"
    );
    let core = &phases[1];
    // The shuffle is one message, charged with the bisection's P/(4p^2) = 2.
    let charge = 512.0 / (4.0 * 64.0);
    assert_eq!(charge, 2.0, "E33");
    assert_eq!((phases[0].messages + core.messages, core.time, core.time + charge), (10, 574.0, 576.0), "E06");
    assert!(core.time + charge < 7.0 / 6.0 * 512.0 && 597.34 > 7.0 / 6.0 * 512.0, "E07 is a bound");
    println!("E06: the exchange counted on links: {} where 2 is charged", phases[0].time);
    assert!((6.0..=8.0).contains(&phases[0].time), "E06: counted {}", phases[0].time);
    near("E10", bandwidth(512, core.time), 333.8, 0.05);
    near("E10 with the exchange", bandwidth(512, core.time + charge), 332.7, 0.05);
}

#[test]
fn e09_e10_reordered_doubling_on_other_tori() {
    let rows: [([u32; 3], u64, f64, f64); 6] = [
        ([8, 8, 16], 11, 1156.0, 4.0),
        ([8, 8, 32], 12, 2328.0, 8.0),
        ([8, 16, 32], 13, 4680.0, 8.0),
        ([8, 32, 32], 14, 9400.0, 8.0),
        ([16, 32, 32], 15, 19000.0, 8.0),
        ([32, 32, 32], 16, 38136.0, 8.0),
    ];
    for (dims, messages, time, charge) in rows {
        let network = Network::torus(&dims, &[true; 3]).unwrap();
        let Costs { core, shuffle } = allgather(torus_reordered(&network, true).unwrap(), 1, &network);
        assert_eq!((shuffle.0 + core.0, core.1), (messages, time), "E09 on {dims:?}");
        assert_eq!(f64::from(*dims.iter().max().unwrap()) / 4.0, charge, "E09 on {dims:?}");
        println!("E09 on {dims:?}: the exchange counted on links: {} where {charge} is charged", shuffle.1);
        assert!(shuffle.1 >= charge, "E09 on {dims:?}: a bisection is a bound");
        if dims == [32; 3] {
            near("E10 at 32^3", bandwidth(32768, core.1), 322.2, 0.05);
        }
    }
}

#[test]
fn e11_e12_bucket() {
    for (dims, alpha) in [
        ([8, 8, 8], 21),
        ([16, 16, 16], 45),
        ([32, 32, 32], 93),
        ([8, 8, 16], 29),
        ([8, 8, 32], 45),
        ([8, 16, 32], 53),
        ([8, 32, 32], 69),
        ([16, 32, 32], 77),
    ] {
        let ranks: u32 = dims.iter().product();
        let core = Bucket::new(&dims, &[0, 1, 2], false, true);
        let Costs { core, .. } = allgather(core, 1, &Network::torus(&dims, &[true; 3]).unwrap());
        assert_eq!(core, (alpha, f64::from(ranks - 1)), "E11 or E12 on {dims:?}");
    }
}

/// Core messages and six times the bandwidth term of six buckets; 3 alignments and 6 exchanges precede them, charged
/// with a quarter of the longest side twice.
fn six_buckets(dims: [u32; 3], alpha: u64, six_times: f64) {
    let network = Network::torus(&dims, &[true; 3]).unwrap();
    let Costs { core, shuffle } = allgather(six(&dims, true), 6, &network);
    let charge = f64::from(*dims.iter().max().unwrap()) / 4.0;
    assert_eq!((core.0 + 9, 6.0 * (core.1 + 2.0 * charge)), (alpha, six_times), "E13 or E14 on {dims:?}");
    println!("E13, E14 on {dims:?}: the exchange counted on links: {} where {charge} is charged", shuffle.1);
    assert!(shuffle.0 <= 6 && shuffle.1 >= charge, "E13 or E14 on {dims:?}: {shuffle:?}");
    if dims == [8, 16, 32] {
        assert_eq!(shuffle.1, 16.0, "E13: counted exchange");
    }
}

#[test]
fn e13_e14_e40_six_buckets() {
    six_buckets([8, 16, 32], 327, 4591.0);
    six_buckets([8, 8, 8], 135, 535.0);
    six_buckets([8, 8, 16], 183, 1143.0);
    six_buckets([8, 8, 32], 279, 2359.0);
    let core = |p| allgather(bucket_k(&cube(p), true).unwrap(), 6, &cube(p)).core.0;
    assert_eq!(core(8), 126, "E40 at 8^3");
}

#[test]
fn e14_e40_six_buckets_on_large_tori() {
    six_buckets([8, 32, 32], 423, 9055.0);
    if long() {
        six_buckets([16, 32, 32], 471, 16991.0);
        six_buckets([32, 32, 32], 567, 32863.0);
        assert_eq!(allgather(bucket_k(&cube(32), true).unwrap(), 6, &cube(32)).core.0, 558, "E40 at 32^3");
    }
}

#[test]
fn e26_e27_doubling_on_clos() {
    let clos = Network::clos(80, 64, 4096).unwrap();
    assert_eq!(clos.as_clos().unwrap().mu(), 0.25);
    assert_eq!(allgather(distance_doubling(4096), 1, &clos).core, (12, 16191.0), "E26");
    let Costs { core, shuffle } = allgather(distance_halving(4096, true), 1, &clos);
    assert_eq!(core, (12, 4284.0), "E27");
    // The shuffle is charged with 1/mu, as if all nodes of a leaf sent to other leaves; one in 64 does not.
    assert_eq!((1.0 / 0.25, shuffle), (4.0, (1, 63.0 / 16.0)), "E27: the shuffle");
    // As formulas, with other leaves.
    for (terminals, radix, ranks) in [(16u32, 20u32, 256u32), (8, 12, 512)] {
        let clos = Network::clos(radix, terminals, ranks).unwrap();
        let mu = clos.as_clos().unwrap().mu();
        let (t, p) = (f64::from(terminals), f64::from(ranks));
        assert_eq!(allgather(distance_doubling(ranks), 1, &clos).core.1, t - 1.0 + (p - t) / mu, "E26");
        assert_eq!(allgather(distance_halving(ranks, false), 1, &clos).core.1, (p / t - 1.0) / mu + p - p / t, "E27");
    }
}

#[test]
fn e28_ring_allreduce_on_clos() {
    let clos = Network::clos(80, 64, 512).unwrap();
    let count = counted(&Allreduce::new(Bucket::ring(512)), 1, &clos);
    // A vector of 512 elements: 2n(P-1)/P, which the paper rounds to 2n.
    assert_eq!((count.alpha(), count.delta()), (2 * 511, 2.0 * 511.0), "E28");
}

#[test]
fn e29_mesh_tree() {
    for (text, lg) in [("mesh:16x16", 8), ("mesh:8x8x8", 9), ("mesh:32", 5), ("torus:8x8x8", 9)] {
        let network = network(text);
        for root in [0, 5, network.ranks() - 1] {
            let tree = TreeKind::Mesh.build(&network, root).unwrap().lockstep();
            let count = counted(&Bcast::new(tree.into(), 1, 1), 7, &network);
            assert_eq!(count.delta(), 7.0 * lg as f64, "E29 on {text} from {root}");
            assert_eq!(count.phases[0].rounds.len() as u64, lg, "E29 on {text} from {root}");
            let congestion = count.phases[0].rounds.iter().map(|round| round.congestion()).fold(0.0, f64::max);
            assert_eq!(congestion, 1.0, "E29 on {text} from {root}");
        }
        let count = counted(&FanInFanOut::new(network.ranks()), 7, &network);
        let rounds: usize =
            count.phases.iter().flat_map(|phase| &phase.rounds).filter(|round| round.messages > 0).count();
        assert_eq!((rounds as u64, count.delta()), (2 * lg, 2.0 * 7.0 * lg as f64), "E29 fan-in, fan-out on {text}");
    }
}

#[test]
fn e30_e31_exchanges_on_a_mesh() {
    for (p, lg) in [(4u32, 4u64), (8, 6), (16, 8), (32, 10)] {
        let mesh = Network::torus(&[p, p], &[false; 2]).unwrap();
        let ranks = p * p;
        let vector = |schedule: &dyn Schedule| {
            let layouts =
                BlockLayouts::symmetric(BlockLayout::Even { total: ranks as usize, blocks: schedule.blocks() });
            let count = count(schedule, &|_| layouts.clone(), &mesh);
            (count.alpha(), count.delta() / f64::from(ranks))
        };
        let whole = HalvingExchange::alternating(&[p, p], 0).unwrap();
        assert_eq!(vector(&whole), (lg, f64::from(p)), "E30 on {p} x {p}");
        let expected = 9.0 / 4.0 - 3.0 / (2.0 * f64::from(p));
        let halved = HalvingExchange::alternating(&[p, p], u32::MAX).unwrap();
        assert_eq!(vector(&halved), (2 * lg, expected), "E31 on {p} x {p}");
        let core = allgather_cores::Alternating::new(&[p, p], true).unwrap();
        assert_eq!(vector(&Allreduce::new(core)), (2 * lg, expected), "E31 on {p} x {p}, as a core");
        if p == 16 {
            assert_eq!(expected, 2.15625, "E31");
            // In plain order, all X first.
            assert_eq!(vector(&HalvingExchange::recursive_doubling(ranks)).1, 30.0, "E30 without alternating");
            assert_eq!(vector(&Allreduce::new(plain(&[p, p]))).1, 2.8125, "E31 without alternating");
        }
    }
}

/// Farthest in any dimension first, in the same order for all ranks.
fn plain(dims: &[u32]) -> Doubling {
    torus_reordered(&Network::torus(dims, &vec![false; dims.len()]).unwrap(), true).unwrap()
}

#[test]
fn e32_buckets_allreduce_on_a_mesh() {
    for p in [4u32, 8, 16, 32] {
        let mesh = Network::torus(&[p, p], &[false; 2]).unwrap();
        let count = counted(&Allreduce::new(Bucket::new(&[p, p], &[0, 1], false, true)), 1, &mesh);
        // A vector of P elements.
        assert_eq!((count.alpha(), count.delta()), (4 * u64::from(p - 1), 2.0 * f64::from(p * p - 1)), "E32 at {p}");
    }
}

#[test]
fn e33_the_exchange_is_bound_by_the_bisection() {
    // Half of P blocks cross 2 p^2 links in each direction of the longest dimension.
    for p in [4u32, 8, 16, 32] {
        let bound = f64::from(p * p * p) / f64::from(4 * p * p);
        let Costs { shuffle, .. } = allgather(torus_reordered(&cube(p), true).unwrap(), 1, &cube(p));
        println!("E33 at {p}: bound {bound}, counted {}", shuffle.1);
        assert!(shuffle.1 >= bound, "E33 at {p}");
        assert_eq!(bound, f64::from(p) / 4.0, "E33 at {p}");
    }
}

#[test]
fn e34_where_segment_1203_begins() {
    let core = six(&[8; 3], true);
    // Six segments of each block, in order: 1203 is number 3 of block 200.
    assert_eq!((1203 / 512, 1203 % 512), (2, 179), "E34: bucket and offset");
    assert_eq!(core.owner(1203 / 6, 1203 % 6), 410, "E34: start rank");
    assert_eq!(2 + 8 * (3 + 8 * 6), 410, "E34: x = 2, y = 3, z = 6");
    let mut initial = Vec::new();
    core.initial_blocks(410, &mut |block, segment| initial.push(6 * block + segment));
    assert!(initial.contains(&1203), "E34: {initial:?}");
}

#[test]
fn e35_blocks_are_permuted() {
    for text in ["torus:8x8x8", "torus:4x8x2", "torus:16x8", "mesh:3x5x2", "torus:7"] {
        let network = network(text);
        let core = torus_reordered(&network, true).unwrap();
        let mut seen = vec![false; network.ranks() as usize];
        for rank in 0..network.ranks() {
            core.initial_blocks(rank, &mut |block, _| {
                assert!(!std::mem::replace(&mut seen[block as usize], true), "E35 on {text}: block {block} twice");
                assert_eq!(core.owner(block, 0), rank, "E35 on {text}: block {block}");
            });
        }
        assert!(seen.iter().all(|seen| *seen), "E35 on {text}");
    }
    // R(S, i) has bit S_k of the rank as bit k: the initial owner of block i has i's bits permuted by the schedule.
    let network = cube(8);
    let core = torus_reordered(&network, true).unwrap();
    let schedule = network.as_torus().unwrap().schedule_bits().unwrap();
    for rank in 0..512u32 {
        let permuted = schedule.iter().zip(0..).map(|(bit, k)| (rank >> bit & 1) << k).sum::<u32>();
        core.initial_blocks(rank, &mut |block, _| assert_eq!(block, permuted, "E35: rank {rank}"));
    }
}

#[test]
fn e38_buckets_on_a_mesh() {
    let mesh = Network::torus(&[8; 3], &[false; 3]).unwrap();
    let max_congestion = |cores: Parallel<Bucket>| {
        let phases = counted(&Allgather::new(cores), 6, &mesh).phases;
        phases[1..].iter().flat_map(|phase| &phase.rounds).map(|round| round.congestion()).fold(0.0, f64::max)
    };
    assert_eq!(
        (max_congestion(six(&[8; 3], false)), max_congestion(buckets(&[8; 3], 3, false))),
        (2.0, 1.0),
        "E38: congestion"
    );
    let cost = |count| allgather(buckets(&[8; 3], count, false), 6, &mesh).core;
    let (three, six) = (cost(3), cost(6));
    assert!(three.0 < six.0 && three.1 <= six.1, "E38: three buckets {three:?} against six {six:?}");
    assert_eq!(allgather(bucket_k(&mesh, false).unwrap(), 6, &mesh).core, three, "E38: what is chosen");
}

#[test]
fn e40_hybrid() {
    let messages = |p| allgather(hybrid(&cube(p), true).unwrap(), 6, &cube(p)).core.0;
    // The thesis's 59 at 8^3 does not follow its own pattern, which gives 61 with the shuffle.
    assert_eq!(messages(8), 60, "E40: hybrid at 8^3");
    if long() {
        assert_eq!(messages(32), 216, "E40: hybrid at 32^3");
    }
}

#[test]
fn half_a_ring_is_shared_by_both_directions() {
    // The rule behind E08 and E03: congestion h below half a ring, a quarter of the ring at half.
    let ring = Network::torus(&[32], &[true]).unwrap();
    for (hop, congestion) in [(1u32, 1.0), (2, 2.0), (4, 4.0), (8, 8.0), (16, 8.0)] {
        let mut loads = vec![0.0f64; ring.links() as usize];
        (0..32).for_each(|rank| ring.route(rank, rank ^ hop, TieBreak::Parity, |link| loads[link as usize] += 1.0));
        assert_eq!(loads.into_iter().fold(0.0, f64::max), congestion);
    }
}
