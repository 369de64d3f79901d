//! Cores on networks, direct exchanges and all-to-alls: proved by the checker, counted where a paper says what they cost.

use std::collections::{HashMap, VecDeque};

use treepie_collectives::alltoall::{Bruck as AlltoallBruck, Grid, Linear, Pairwise, balanced_factors};
use treepie_collectives::cores::{
    Alternating, Bruck, Bucket, bucket_k, buckets, distance_doubling, distance_halving, hamiltonian, hamiltonian_lanes,
    hybrid, orders, torus_reordered,
};
use treepie_collectives::exchange::{
    AllgatherLinear, AllgatherReduce, BucketFan, FanInFanOut, HalvingExchange, ReduceScatterLinear,
    ReduceScatterPairwise,
};
use treepie_collectives::from_core::{Allgather, Allreduce, ReduceScatter};
use treepie_schedule::check::{Mode, Proof, check};
use treepie_schedule::count::{Count, count};
use treepie_schedule::cursor::Begun;
use treepie_schedule::{Buf, Core, Cursor, Layout, Layouts, Op, Part, Places, Rounds, Schedule, Side};
use treepie_topology::Network;

fn uniform(each: usize, blocks: u32) -> impl Fn(u32) -> Layouts {
    move |_| Layouts::both(Layout::uniform(each, blocks))
}

fn vector(elements: usize, blocks: u32) -> impl Fn(u32) -> Layouts {
    move |_| Layouts::both(Layout::Even { total: elements, blocks })
}

fn irregular(blocks: u32) -> impl Fn(u32) -> Layouts {
    let counts: Vec<usize> = (0..blocks as usize).map(|block| block * 5 % 7 * usize::from(block % 4 != 2)).collect();
    move |_| Layouts::both(Layout::of_counts(&counts))
}

/// Proves it for many lengths, in place and not. Returns whether all proofs found it ordered.
fn prove(schedule: &dyn Schedule, name: &str, irregular_too: bool) -> bool {
    let (ranks, blocks) = (schedule.ranks(), schedule.blocks());
    let mut ordered = true;
    let mut one = |layouts: &dyn Fn(u32) -> Layouts, what: &str| {
        for in_place in [false, true] {
            let Proof { ordered: this, .. } = check(schedule, layouts, Mode { in_place })
                .unwrap_or_else(|fault| panic!("{name}, {ranks} ranks, {what}, in place {in_place}: {fault}"));
            ordered &= this;
        }
    };
    for each in [0, 1, 7] {
        one(&uniform(each, blocks), &format!("{each} each"));
    }
    if irregular_too {
        one(&vector(23, blocks), "23 in all");
        one(&irregular(blocks), "irregular");
    }
    ordered
}

fn prove_core<C: Core>(core: impl Fn() -> C, name: &str) {
    prove(&Allgather::new(core()), &format!("allgather {name}"), true);
    prove(&ReduceScatter::new(core()), &format!("reduce_scatter {name}"), true);
    prove(&Allreduce::new(core()), &format!("allreduce {name}"), true);
}

fn prove_reordered<C: Core>(core: impl Fn() -> C, name: &str) {
    prove(&Allgather::reordered(core()), &format!("reordered allgather {name}"), true);
    prove(&ReduceScatter::reordered(core()), &format!("reordered reduce_scatter {name}"), true);
}

fn network(text: &str) -> Network {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The phases of the core in an allgather: the first one brings blocks to their keepers.
fn core_cost(counted: &Count) -> (u64, f64) {
    let core = &counted.phases[1..];
    (core.iter().map(|phase| phase.messages).sum(), core.iter().map(|phase| phase.time).sum())
}

const GRIDS: [&str; 12] = [
    "torus:2x3",
    "torus:4x4",
    "torus:3x3x3",
    "torus:2x4x4",
    "mesh:4x4",
    "mesh:2x3x4",
    "mesh:5x1x3",
    "torus:7",
    "torus:1",
    "mesh:9",
    "torus:4x3x3,wrap=nyn",
    "torus:2x2x3,wrap=yny",
];

#[test]
fn cores_on_grids() {
    for text in GRIDS {
        let network = network(text);
        let dims = network.torus_kind().unwrap().dims().to_vec();
        for moved in [false, true] {
            prove_core(|| bucket_k(&network, moved).unwrap(), &format!("bucket_k {text} moved {moved}"));
            prove_core(|| hybrid(&network, moved).unwrap(), &format!("hybrid {text} moved {moved}"));
            prove_core(|| torus_reordered(&network, moved).unwrap(), &format!("reordered {text} moved {moved}"));
            prove_core(|| hamiltonian_lanes(&network, moved), &format!("lanes {text} moved {moved}"));
            prove_core(|| buckets(&dims, 2, moved), &format!("two buckets {text} moved {moved}"));
            if let Some(core) = Alternating::new(&dims, moved) {
                prove_core(|| core.clone(), &format!("alternating {text} moved {moved}"));
            }
        }
    }
    for text in GRIDS {
        let network = network(text);
        let dims = network.torus_kind().unwrap().dims().to_vec();
        prove_reordered(|| bucket_k(&network, false).unwrap(), &format!("bucket_k {text}"));
        prove_reordered(|| hybrid(&network, false).unwrap(), &format!("hybrid {text}"));
        prove_reordered(|| hamiltonian_lanes(&network, false), &format!("lanes {text}"));
        prove_reordered(|| torus_reordered(&network, false).unwrap(), &format!("reordered {text}"));
        if let Some(core) = Alternating::new(&dims, false) {
            prove_reordered(|| core.clone(), &format!("alternating {text}"));
        }
    }
    for dims in [&[8, 4][..], &[2, 16], &[1, 8], &[2, 2, 2, 2], &[4, 4, 2]] {
        for moved in [false, true] {
            prove_core(|| Alternating::new(dims, moved).unwrap(), &format!("alternating {dims:?} moved {moved}"));
        }
    }
}

#[test]
fn cores_for_any_number_of_ranks() {
    for ranks in 1..=33u32 {
        prove_core(|| distance_doubling(ranks), "distance doubling");
        prove_core(|| Bucket::ring(ranks), "ring");
        prove_core(|| Bruck { ranks }, "bruck");
        for moved in [false, true] {
            prove_core(|| distance_halving(ranks, moved), "distance halving");
            let halving = Allreduce::new(distance_halving(ranks, moved));
            assert!(prove(&halving, "rabenseifner", true), "{ranks} ranks");
        }
    }
}

#[test]
fn cores_on_irregular_partitions() {
    let some = |text: &str, skip: u32| {
        let whole = network(text);
        let places: Vec<u32> = (0..whole.places()).rev().filter(|place| place % skip != 1).collect();
        whole.placed(places).unwrap()
    };
    for network in [some("torus:5x4", 3), some("mesh:3x3x3", 4), some("torus:4x4", 5), some("clos:r8,t3,n17", 6)] {
        for moved in [false, true] {
            prove_core(|| hamiltonian(&network, moved), &format!("hamiltonian {network}"));
            prove_core(|| hamiltonian_lanes(&network, moved), &format!("lanes {network}"));
            if let Some(core) = torus_reordered(&network, moved) {
                prove_core(|| core.clone(), &format!("reordered {network}"));
            }
        }
        assert!(bucket_k(&network, true).is_none() && hybrid(&network, true).is_none());
    }
    let network = network("torus:4x4").placed(vec![15, 2, 7, 8]).unwrap();
    // Places (3,3), (2,0), (3,1), (0,2): the upper half of y is far, then that of x.
    assert_eq!(orders::morton(&network).unwrap(), [1, 2, 3, 0]);
}

#[test]
fn doublings_run_on_all_paths_that_share_no_link() {
    for (text, paths) in [("torus:4x4x4", 6), ("torus:5x5", 4), ("torus:7", 2), ("flat:9", 1)] {
        let network = network(text);
        assert_eq!(hamiltonian_lanes(&network, false).cuts(), network.lanes().len() as u32, "{text}");
        assert!((1..=paths).contains(&network.lanes().len()), "{text}: {} paths", network.lanes().len());
    }
}

#[test]
fn bucket_k_has_the_right_number_of_buckets() {
    let number = |text: &str| bucket_k(&network(text), false).unwrap().cuts();
    assert_eq!(number("torus:8x8x8"), 6);
    assert_eq!(number("torus:8x16x32"), 6);
    assert_eq!(number("mesh:8x8x8"), 3);
    assert_eq!(number("mesh:4x8x16"), 3);
    assert_eq!(number("torus:8x8x8,wrap=ynn"), 4);
    assert_eq!(number("torus:8x8x8,wrap=yyn"), 5);
    assert_eq!(number("torus:8x1x8"), 4);
    assert_eq!(number("mesh:16"), 1);
    assert_eq!(number("torus:1x1"), 1);
}

/// On a mesh six buckets load each link twice, three once; whatever wraps, the chosen number costs least.   [E38]
#[test]
fn bucket_k_costs_least() {
    for text in ["mesh:4x4x4", "torus:4x4x4", "torus:4x4x4,wrap=ynn", "torus:4x4x4,wrap=yyn", "torus:3x6,wrap=ny"] {
        let network = network(text);
        let dims = network.torus_kind().unwrap().dims().to_vec();
        let cost = |core| core_cost(&count(&Allgather::new(core), &uniform(120, network.ranks()), &network));
        let (messages, best) = cost(bucket_k(&network, false).unwrap());
        for number in 1..=6 {
            let (others, time) = cost(buckets(&dims, number, false));
            assert!(best < time || best == time && messages <= others, "{text}: {best} but {number} take {time}");
        }
    }
    let mesh = network("mesh:4x4x4");
    let time = |number| {
        let counted = count(&Allgather::new(buckets(&[4, 4, 4], number, false)), &uniform(6, 64), &mesh);
        counted.phases[1..].iter().map(|phase| phase.rounds[0].congestion()).collect::<Vec<_>>()
    };
    assert_eq!((time(3), time(6)), (vec![1.0; 3], vec![2.0; 3]));
}

/// Section 1203 of the thesis's 8x8x8 torus is in bucket 2 and begins at rank 410.   [E34]
#[test]
fn sections_begin_where_the_thesis_says() {
    let six = bucket_k(&network("torus:8x8x8"), true).unwrap();
    assert_eq!(six.keeper(1203 / 6, 1203 % 6), 410);
}

/// [E40, F5]
#[test]
fn the_hybrid_sends_as_many_messages_as_the_thesis_says() {
    let sends = |core: &dyn Core, rank| {
        let mut rounds = Rounds::new();
        for phase in 0..core.phases() {
            for lane in 0..core.phase(phase).lanes {
                core.emit(rank, phase, lane, 0..core.rounds(rank, phase, lane), &mut rounds);
            }
        }
        rounds.iter().flatten().filter(|op| matches!(op, Op::Send { .. })).count()
    };
    for (text, six, three_and_six) in [("torus:8x8x8", 126, 60), ("torus:32x32x32", 558, 216)] {
        let network = network(text);
        for rank in [0, 1, 77, 500] {
            assert_eq!(sends(&bucket_k(&network, false).unwrap(), rank), six);
            assert_eq!(sends(&hybrid(&network, false).unwrap(), rank), three_and_six);
        }
    }
    // The last phase is that of six buckets; in the phase before, no two doublings use the same links.
    let network = network("torus:8x8x8");
    let counted = count(&Allgather::new(hybrid(&network, false).unwrap()), &uniform(6, 512), &network);
    assert_eq!(core_cost(&counted).0, 60);
    let congestion: Vec<f64> = counted.phases[1].rounds.iter().map(|round| round.congestion()).collect();
    assert_eq!(congestion, [2.0, 2.0, 2.0, 2.0, 1.0, 1.0]);
    assert_eq!(counted.phases[2].time, 7.0 * 64.0);
}

#[test]
fn allreduces_for_any_number_of_ranks() {
    for ranks in 1..=33u32 {
        for halvings in 0..=ranks.ilog2() {
            let schedule = HalvingExchange::new(ranks, halvings);
            assert!(prove(&schedule, &format!("{halvings} halvings"), true), "{ranks} ranks, {halvings} halvings");
        }
        assert!(prove(&FanInFanOut::new(ranks), "fan", true));
        assert!(prove(&AllgatherReduce::new(ranks), "allgather_reduce", true));
        for columns in (1..=ranks).filter(|columns| ranks % columns == 0) {
            prove(&BucketFan::new(columns, ranks / columns), &format!("buckets and fan in {columns} columns"), true);
        }
    }
    for dims in [&[4, 4][..], &[8, 2], &[1, 4], &[2, 4, 4], &[2, 2, 2, 2], &[1]] {
        for halvings in 0..=dims.iter().product::<u32>().ilog2() {
            let schedule = HalvingExchange::alternating(dims, halvings).unwrap();
            prove(&schedule, &format!("alternating {dims:?}, {halvings} halvings"), true);
        }
    }
    assert!(HalvingExchange::alternating(&[4, 6], 0).is_none() && Alternating::new(&[3], true).is_none());
}

fn cost(schedule: &dyn Schedule, elements: usize, text: &str) -> (u64, f64) {
    let counted = count(schedule, &vector(elements, schedule.blocks()), &network(text));
    (counted.alpha(), counted.delta() / elements as f64)
}

/// Runs it on elements that know how they were made: an operand, or what was combined with what in which order. Returns
/// everybody's results.
fn made(schedule: &dyn Schedule, elements: usize) -> Vec<Vec<u64>> {
    let layouts = Layouts::both(Layout::Even { total: elements, blocks: schedule.blocks() });
    let places = |rank| Places { schedule, layouts: &layouts, rank };
    let index = |buf| match buf {
        Buf::In => 0,
        Buf::Out => 1,
        Buf::Tmp(tmp) => 2 + tmp as usize,
    };
    let read = |memory: &[Vec<u64>], rank, part: Part| {
        let mut data = Vec::new();
        places(rank).ranges(part, |range| data.extend(&memory[index(part.buf)][range]));
        data
    };
    let write = |memory: &mut [Vec<u64>], rank, part: Part, data: &[u64], combine: &dyn Fn(u64, u64) -> u64| {
        let mut data = data.iter();
        places(rank).ranges(part, |range| {
            memory[index(part.buf)][range]
                .iter_mut()
                .zip(&mut data)
                .for_each(|(cell, got)| *cell = combine(*cell, *got))
        });
    };
    let replace = |_: u64, got: u64| got;
    let expression = |left: u64, right: u64| {
        (left.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ right.rotate_left(23)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    let on = |side| move |own, got| if side == Side::Left { expression(got, own) } else { expression(own, got) };
    let mut memories: Vec<Vec<Vec<u64>>> = (0..schedule.ranks())
        .map(|rank| {
            let bufs = [Buf::In, Buf::Out].into_iter().chain((0..schedule.temporaries()).map(Buf::Tmp));
            let mut memory: Vec<Vec<u64>> = bufs.map(|buf| vec![0; places(rank).size(buf)]).collect();
            memory[0] = (0..elements as u64).map(|element| expression(rank.into(), element)).collect();
            memory
        })
        .collect();
    let mut cursors: Vec<Cursor> = (0..schedule.ranks()).map(|rank| Cursor::new(schedule, rank)).collect();
    // Rounds that go on, and messages on the way by phase, lane, sender and receiver.
    let mut going: Vec<(u32, Begun, Vec<Op>)> = Vec::new();
    let mut messages: HashMap<(u32, u32, u32, u32), VecDeque<Vec<u64>>> = HashMap::new();
    loop {
        for rank in 0..schedule.ranks() {
            while let Some(begun) = cursors[rank as usize].begin(schedule) {
                let ops = cursors[rank as usize].ops(begun.slot).to_vec();
                for op in &ops {
                    if let Op::Send { to, part } = *op {
                        let data = read(&memories[rank as usize], rank, part);
                        messages.entry((begun.phase, begun.lane, rank, to)).or_default().push_back(data);
                    }
                }
                going.push((rank, begun, ops));
            }
        }
        let can_end = |(rank, begun, ops): &(u32, Begun, Vec<Op>)| {
            ops.iter().all(|op| match op {
                Op::Recv { from, .. } | Op::RecvReduce { from, .. } => {
                    messages.get(&(begun.phase, begun.lane, *from, *rank)).is_some_and(|queue| !queue.is_empty())
                }
                _ => true,
            })
        };
        let Some(next) = going.iter().position(can_end) else { break };
        let (rank, begun, ops) = going.swap_remove(next);
        let memory = &mut memories[rank as usize];
        let mut take =
            |from| messages.get_mut(&(begun.phase, begun.lane, from, rank)).and_then(VecDeque::pop_front).unwrap();
        for op in ops {
            match op {
                Op::Send { .. } => {}
                Op::Recv { from, part } => write(memory, rank, part, &take(from), &replace),
                Op::RecvReduce { from, part, side } => write(memory, rank, part, &take(from), &on(side)),
                Op::Copy { from, to } => {
                    let data = read(memory, rank, from);
                    write(memory, rank, to, &data, &replace);
                }
                Op::Reduce { from, into, side } => {
                    let data = read(memory, rank, from);
                    write(memory, rank, into, &data, &on(side));
                }
            }
        }
        cursors[rank as usize].end(begun.slot);
    }
    assert!(going.is_empty(), "rounds never end");
    memories.into_iter().map(|mut memory| memory.swap_remove(1)).collect()
}

#[test]
fn all_ranks_add_up_in_the_same_order() {
    let same = |schedule: &dyn Schedule, name: &str| {
        let results = made(schedule, 37);
        assert!(results.iter().all(|result| *result == results[0]), "{name}, {} ranks", schedule.ranks());
    };
    for ranks in 1..=20u32 {
        (0..=ranks.ilog2()).for_each(|halvings| same(&HalvingExchange::new(ranks, halvings), "halving and exchange"));
        same(&FanInFanOut::new(ranks), "fan");
        same(&AllgatherReduce::new(ranks), "allgather_reduce");
        same(&Allreduce::new(distance_halving(ranks, true)), "rabenseifner");
        same(&BucketFan::new(ranks, 3), "buckets and fan");
    }
    for dims in [&[4, 4][..], &[8, 2], &[8, 8], &[4, 4, 4], &[2, 8, 4]] {
        for halvings in 0..=dims.iter().product::<u32>().ilog2() {
            let schedule = HalvingExchange::alternating(dims, halvings).unwrap();
            same(&schedule, &format!("alternating {dims:?}, {halvings} halvings"));
        }
        same(&Allreduce::new(Alternating::new(dims, true).unwrap()), "alternating core");
    }
    same(&Allreduce::new(hybrid(&network("torus:4x3x3"), true).unwrap()), "hybrid");
}

/// [E28]
#[test]
fn ring_allreduce_on_a_clos_network() {
    assert_eq!(cost(&Allreduce::new(Bucket::ring(64)), 64, "clos:r16,t8,n64"), (2 * 63, 2.0 * 63.0 / 64.0));
}

/// [E29]
#[test]
fn fans_on_a_mesh() {
    assert_eq!(cost(&FanInFanOut::new(256), 5, "mesh:16x16"), (2 * 8, 2.0 * 8.0));
}

/// [E30]
#[test]
fn bidirectional_exchange_on_a_mesh() {
    assert_eq!(cost(&HalvingExchange::recursive_doubling(256), 5, "mesh:16x16"), (8, 30.0));
    for side in [2u32, 4, 8, 16] {
        let schedule = HalvingExchange::alternating(&[side, side], 0).unwrap();
        assert_eq!(cost(&schedule, 5, &format!("mesh:{side}x{side}")), (2 * u64::from(side.ilog2()), side.into()));
    }
}

/// [E31]
#[test]
fn recursive_halving_on_a_mesh() {
    let plain = torus_reordered(&network("mesh:16x16"), true).unwrap();
    assert_eq!(cost(&Allreduce::new(plain), 256, "mesh:16x16").1, 2.8125);
    for side in [2u32, 4, 8, 16] {
        let text = format!("mesh:{side}x{side}");
        let expected = (4 * u64::from(side.ilog2()), 9.0 / 4.0 - 3.0 / (2.0 * f64::from(side)));
        for moved in [false, true] {
            let core = Alternating::new(&[side, side], moved).unwrap();
            assert_eq!(cost(&Allreduce::new(core), 256, &text), expected);
        }
        assert_eq!(cost(&HalvingExchange::alternating(&[side, side], 8).unwrap(), 256, &text), expected);
    }
    let core = Alternating::new(&[16, 16], true).unwrap();
    assert_eq!(cost(&Allreduce::new(core), 256, "mesh:16x16"), (16, 2.15625));
}

/// [E32]
#[test]
fn buckets_on_a_mesh() {
    let core = buckets(&[16, 16], 1, true);
    assert_eq!(cost(&Allreduce::new(core), 256, "mesh:16x16"), (4 * 15, 2.0 * 255.0 / 256.0));
}

/// Between exchange and halving, and between buckets and fans.
#[test]
fn hybrids_on_a_mesh() {
    let costs: Vec<(u64, f64)> = (0..=8)
        .map(|halvings| cost(&HalvingExchange::alternating(&[16, 16], halvings).unwrap(), 256, "mesh:16x16"))
        .collect();
    assert!(costs.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0 && pair[0].1 >= pair[1].1), "{costs:?}");
    let elements = 16.0;
    assert_eq!(cost(&BucketFan::new(16, 16), 16, "mesh:16x16"), (2 * 15 + 8, (30.0 + 8.0) / elements));
}

#[test]
fn reduce_scatters_and_allgathers_without_cores() {
    for ranks in 1..=33u32 {
        assert!(prove(&ReduceScatterPairwise::new(ranks), "pairwise", true));
        assert!(prove(&ReduceScatterLinear::new(ranks), "linear", true));
        prove(&AllgatherLinear::new(ranks), "linear allgather", true);
    }
}

/// [thesis 3.2.2]
#[test]
fn pairwise_reduce_scatter_costs_what_a_ring_does() {
    let counted = count(&ReduceScatterPairwise::new(12), &uniform(3, 12), &Network::flat(12));
    assert_eq!((counted.alpha(), counted.delta()), (11, 33.0));
}

#[test]
fn alltoalls_for_any_number_of_ranks() {
    for ranks in 1..=33u32 {
        prove(&Linear::new(ranks), "linear", false);
        prove(&Pairwise::new(ranks), "pairwise", false);
        prove(&AlltoallBruck::new(ranks), "bruck", false);
        for dimensions in 1..=5 {
            prove(&Grid::balanced(ranks, dimensions), &format!("{dimensions} dimensions"), false);
        }
    }
    for dims in [&[3, 5][..], &[5, 3], &[2, 3, 4], &[4, 1, 3, 2], &[2; 6], &[1, 1]] {
        prove(&Grid::new(dims), &format!("{dims:?}"), false);
    }
}

#[test]
fn alltoalls_of_unequal_counts() {
    for ranks in 1..=33u32 {
        // Any counts will do; those of a multiplicative generator, one in four of them zero.
        let mut state = u64::from(ranks);
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 60) as usize * usize::from(state >> 58 & 3 != 0)
        };
        let counts: Vec<Vec<usize>> = (0..ranks).map(|_| (0..ranks).map(|_| next()).collect()).collect();
        let layouts = |rank: u32| Layouts {
            input: Layout::of_counts(&counts[rank as usize]),
            output: Layout::of_counts(&counts.iter().map(|of| of[rank as usize]).collect::<Vec<_>>()),
        };
        check(&Linear::new(ranks), &layouts, Mode::default()).unwrap_or_else(|fault| panic!("{ranks}: {fault}"));
        check(&Pairwise::new(ranks), &layouts, Mode::default()).unwrap_or_else(|fault| panic!("{ranks}: {fault}"));
    }
}

#[test]
fn factors_are_as_equal_as_can_be() {
    assert_eq!(balanced_factors(10_000, 1), [10_000]);
    assert_eq!(balanced_factors(10_000, 2), [100, 100]);
    assert_eq!(balanced_factors(10_000, 4), [10, 10, 10, 10]);
    assert_eq!(balanced_factors(24, 3), [2, 3, 4]);
    assert_eq!(balanced_factors(64, 9), [2; 6]);
    assert_eq!(balanced_factors(13, 3), [13]);
    assert_eq!(balanced_factors(1, 2), [1]);
}

/// d(P^(1/d) - 1) messages that carry d (P^(1/d) - 1)/P^(1/d) of the volume.   [B13]
#[test]
fn store_and_forward_costs_what_the_paper_says() {
    let sent = |schedule: &dyn Schedule, rank: u32| {
        let layouts = Layouts::both(Layout::uniform(1, schedule.ranks()));
        let places = Places { schedule, layouts: &layouts, rank };
        let mut rounds = Rounds::new();
        for phase in 0..schedule.phases() {
            schedule.emit(rank, phase, 0, 0..schedule.rounds(rank, phase, 0), &mut rounds);
        }
        let sends = rounds.iter().flatten().filter_map(|op| match op {
            Op::Send { part, .. } => Some(places.len(*part)),
            _ => None,
        });
        sends.fold((0, 0), |(messages, elements), len| (messages + 1, elements + len))
    };
    for rank in [0, 1, 5050, 9999] {
        assert_eq!(sent(&Grid::balanced(10_000, 1), rank), (9999, 9999));
        assert_eq!(sent(&Grid::balanced(10_000, 2), rank), (198, 19_800));
        assert_eq!(sent(&Grid::balanced(10_000, 4), rank), (36, 36_000));
    }
    let counted = count(&Grid::balanced(64, 6), &uniform(1, 64), &Network::flat(64));
    assert_eq!((counted.alpha(), counted.most_volume, counted.delta()), (6, 6 * 32, 6.0 * 32.0));
    let counted = count(&AlltoallBruck::new(64), &uniform(1, 64), &Network::flat(64));
    assert_eq!((counted.alpha(), counted.most_volume, counted.delta()), (6, 6 * 32, 6.0 * 32.0));
    let counted = count(&Pairwise::new(12), &uniform(5, 12), &Network::flat(12));
    assert_eq!((counted.alpha(), counted.most_volume, counted.delta()), (11, 55, 55.0));
}
