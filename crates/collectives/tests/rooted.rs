//! Trees and what goes along them, barriers, scans, and operations with a root by allgather cores.

mod common;

use std::sync::Arc;

use common::mutant::{Change, mutant, operations, planted};
use treepie_collectives::barrier::{Dissemination, FanInOut, RecursiveDoubling};
use treepie_collectives::cores::{Bruck, Bucket, Distance, Doubling, Parallel};
use treepie_collectives::rooted::{GatherBcast, ReduceScatterGather, ScatterAllgather};
use treepie_collectives::scan::{self, Own};
use treepie_collectives::trees::{Bcast, Blocks, Layer, Placed, Reduce, Shape};
use treepie_schedule::check::{Fault, Mode, Proof, check};
use treepie_schedule::count::count;
use treepie_schedule::{Buf, Core, Held, Layout, Layouts, Op, Operation, Part, Schedule, Side};
use treepie_topology::Network;

const LAYERS: [Layer; 9] = [
    Layer::Flat,
    Layer::Chain,
    Layer::Binomial,
    Layer::Knomial(3),
    Layer::Knomial(5),
    Layer::Kary(2),
    Layer::Kary(3),
    Layer::Kary(4),
    Layer::Greedy { gap: 2.87, time: 10.03 },
];

/// Every root of few ranks, some of many.
fn roots(ranks: u32) -> Vec<u32> {
    if ranks <= 9 { (0..ranks).collect() } else { vec![0, ranks / 2 + 1] }
}

/// Trees of all shapes that do not depend on a network.
fn plain_trees(ranks: u32, root: u32) -> Vec<(String, Arc<Placed>)> {
    let network = Network::flat(ranks);
    let plain = LAYERS.map(|layer| (layer.to_string(), Shape::One(layer).place(&network, root).unwrap()));
    let stepped = [Layer::Binomial, Layer::Knomial(3), Layer::Kary(2)]
        .map(|layer| (format!("stepped {layer}"), Shape::One(layer).place(&network, root).unwrap().stepped()));
    plain.into_iter().chain(stepped).map(|(name, tree)| (name, Arc::new(tree))).collect()
}

/// Networks with their own trees: tori, meshes and mixtures, in part without ranks; clusters, in part scattered; Clos.
fn networks() -> Vec<Network> {
    let torus = |dims: &[u32], wrap: &[bool]| Network::torus(dims, wrap).unwrap();
    let shuffled = |count: u32, step: u32| (0..count).map(|rank| rank * step % count).collect::<Vec<_>>();
    vec![
        torus(&[2, 3], &[true; 2]),
        torus(&[4, 4], &[false; 2]),
        torus(&[3, 3, 3], &[true; 3]),
        torus(&[2, 4, 5], &[true, false, true]),
        torus(&[1, 7], &[false; 2]),
        torus(&[4, 5], &[true; 2]).placed(shuffled(20, 7)).unwrap(),
        torus(&[4, 4], &[false; 2]).placed(vec![15, 3, 4, 5, 9, 0, 12]).unwrap(),
        Network::clusters(&[1]).unwrap(),
        Network::clusters(&[3, 1, 5, 4]).unwrap(),
        Network::clusters(&[4, 4, 4]).unwrap().placed(shuffled(12, 5)).unwrap(),
        Network::clusters(&[2, 6, 3]).unwrap().placed(vec![10, 0, 8, 9]).unwrap(),
        Network::clos(8, 6, 20).unwrap(),
    ]
}

/// Trees that depend on a network.
fn network_trees(network: &Network, root: u32) -> Vec<(String, Arc<Placed>)> {
    let two_layer = |wan, lan| Shape::TwoLayer { wan, lan };
    let shapes = [
        Shape::Mesh,
        Shape::InTurn,
        two_layer(Layer::Flat, Layer::Binomial),
        two_layer(Layer::Binomial, Layer::Kary(2)),
        two_layer(Layer::Kary(2), Layer::Flat),
        two_layer(Layer::Chain, Layer::Chain),
    ];
    let mut trees = Vec::new();
    for shape in shapes {
        if let Ok(tree) = shape.place(network, root) {
            trees.push((format!("{shape} on {network}"), Arc::new(tree.clone())));
            trees.push((format!("stepped {shape} on {network}"), Arc::new(tree.stepped())));
        }
    }
    assert!(!trees.is_empty());
    trees
}

/// All trees with which operations along trees are proved.
fn each_tree(mut each: impl FnMut(&str, &Arc<Placed>)) {
    for ranks in 1..=33 {
        for root in roots(ranks) {
            plain_trees(ranks, root).iter().for_each(|(name, tree)| each(&format!("{name} of {ranks}"), tree));
        }
    }
    for network in networks() {
        for root in 0..network.ranks() {
            network_trees(&network, root).iter().for_each(|(name, tree)| each(name, tree));
        }
    }
}

fn both(layout: Layout) -> impl Fn(u32) -> Layouts {
    move |_| Layouts::both(layout.clone())
}

/// Equal blocks of 0, 1 and 7 elements, and unequal ones, some of them empty.
fn layouts(blocks: u32) -> Vec<Layout> {
    let irregular: Vec<usize> = (0..blocks as usize).map(|block| (block * 5 + 3) % 7).collect();
    let equal = [0, 1, 7].map(|each| Layout::uniform(each, blocks));
    equal.into_iter().chain([Layout::of_counts(&irregular), Layout::Even { total: 17, blocks }]).collect()
}

/// Proves for all layouts, in place and not; returns whether it is ordered.
fn prove(name: &str, schedule: &dyn Schedule) -> bool {
    let mut ordered = true;
    for layout in layouts(schedule.blocks()) {
        // A broadcast has only one buffer.
        let in_place =
            if matches!(schedule.operation(), Operation::Bcast { .. }) { &[false][..] } else { &[false, true] };
        for &in_place in in_place {
            let proof = check(schedule, &both(layout.clone()), Mode { in_place }).unwrap_or_else(|fault| {
                panic!("{name}, {:?}, {layout:?}, in place {in_place}: {fault}", schedule.operation())
            });
            ordered &= proof.ordered;
        }
    }
    ordered
}

#[test]
fn broadcasts_down_all_trees() {
    each_tree(|name, tree| {
        for (segments, window) in [(1, 1), (9, 2)] {
            prove(&format!("{name}, {segments} segments"), &Bcast::new(tree.clone(), segments, window));
        }
    });
}

#[test]
fn reductions_up_all_trees() {
    each_tree(|name, tree| {
        for (segments, window) in [(1, 1), (9, 2)] {
            let ordered = prove(&format!("{name}, {segments} segments"), &Reduce::new(tree.clone(), segments, window));
            // In step, children are combined in the opposite of the order in which they are served.
            let nearest_first = !tree.is_stepped() || name.contains("binomial of") || name.contains("knomial");
            assert!(ordered || !tree.is_in_order() || !nearest_first, "{name} keeps the order of ranks");
        }
    });
}

#[test]
fn reductions_in_order_to_any_root() {
    for ranks in 1..=17 {
        for root in roots(ranks) {
            for (name, tree) in plain_trees(ranks, 0) {
                let schedule = Reduce::ordered(tree.clone(), root, 3, 2);
                assert!(prove(&name, &schedule) || name == "stepped kary(2)", "{name} to {root} of {ranks}");
            }
        }
    }
    let commuting = Reduce::new(Arc::new(Placed::rooted(Layer::Binomial.tree(8), 3)), 1, 1);
    assert!(!prove("binomial", &commuting));
    let mesh = Network::torus(&[3, 4, 2], &[true; 3]).unwrap();
    let clusters = Network::clusters(&[3, 1, 5, 4]).unwrap();
    let two_layer = Shape::TwoLayer { wan: Layer::Binomial, lan: Layer::Kary(2) };
    for (network, shape) in [(mesh, Shape::Mesh), (clusters, two_layer)] {
        let tree = Arc::new(shape.place(&network, 0).unwrap());
        for root in 0..network.ranks() {
            assert!(prove("ordered", &Reduce::ordered(tree.clone(), root, 2, 2)));
        }
    }
}

#[test]
fn scratch_memory_is_only_where_it_is_needed() {
    let tree = Arc::new(Placed::rooted(Layer::Binomial.tree(8), 2));
    let reduce = Reduce::new(tree.clone(), 1, 1);
    let has: Vec<u32> = (0..8).filter(|rank| reduce.temporary(0, *rank) != Held::Nothing).collect();
    assert_eq!(has, [0, 4, 6]);
    // Places 4 (rank 6) to 7 (rank 1) are the largest subtree.
    let scatter = Blocks::scatter(tree, 1, 1);
    assert_eq!(scatter.temporary(0, 6), Held::Positions { view: 1, lo: 4, len: 4 });
    assert_eq!(scatter.temporary(0, 0), Held::Positions { view: 1, lo: 6, len: 2 });
    assert_eq!([2, 1, 3].map(|rank| scatter.temporary(0, rank)), [Held::Nothing; 3]);
}

#[test]
fn scatters_and_gathers_along_all_trees() {
    each_tree(|name, tree| {
        for (segments, window) in [(1, 1), (3, 2)] {
            prove(name, &Blocks::scatter(tree.clone(), segments, window));
            prove(name, &Blocks::gather(tree.clone(), segments, window));
        }
    });
}

#[test]
fn allgathers_over_a_root() {
    each_tree(|name, tree| {
        prove(name, &GatherBcast::new(tree.clone(), 1, 1));
        prove(name, &GatherBcast::new(tree.clone(), 3, 2));
    });
}

#[test]
fn barriers() {
    let proved = |name: &str, schedule: &dyn Schedule| -> Proof {
        check(schedule, &both(Layout::uniform(0, 0)), Mode::default())
            .unwrap_or_else(|fault| panic!("{name} of {}: {fault}", schedule.ranks()))
    };
    for ranks in 1..=70u32 {
        let stages = ranks.next_power_of_two().trailing_zeros();
        let proof = proved("dissemination", &Dissemination::new(ranks));
        assert_eq!(proof.messages, u64::from(ranks * stages));
        let doubling = RecursiveDoubling::new(ranks);
        let messages = proved("recursive doubling", &doubling).messages;
        assert!(messages <= (1 << stages) * u64::from(stages), "{ranks}: {messages}");
        assert_eq!(doubling.rounds(0, 0, 0), stages);
    }
    each_tree(|name, tree| {
        let proof = proved(name, &FanInOut::new(tree.clone()));
        assert_eq!(proof.messages, 2 * u64::from(tree.ranks() - 1));
    });
    for network in networks() {
        let full = network.ranks() == network.places();
        if network.torus_kind().is_some() && full {
            proved("along dimensions", &Dissemination::on(&network).unwrap());
        } else {
            assert!(Dissemination::on(&network).is_none());
        }
    }
}

#[test]
fn a_barrier_along_dimensions_stays_on_lines() {
    let network = Network::torus(&[4, 8, 2], &[true; 3]).unwrap();
    let counted = count(&Dissemination::on(&network).unwrap(), &both(Layout::uniform(0, 0)), &network);
    let hops: Vec<u32> = counted.phases[0].rounds.iter().map(|round| round.hops).collect();
    assert_eq!((counted.alpha(), hops), (6, vec![1, 2, 1, 2, 4, 1]));
}

#[test]
fn scans() {
    for ranks in 1..=40 {
        for own in [Own::Included, Own::Excluded] {
            for (segments, window) in [(1, 1), (9, 2)] {
                let name = format!("linear of {ranks}");
                assert!(prove(&name, &scan::Linear::new(own, ranks, segments, window)), "{name}");
            }
            let name = format!("recursive doubling of {ranks}");
            assert!(prove(&name, &scan::RecursiveDoubling::new(own, ranks)), "{name}");
        }
    }
}

fn six(dims: &[u32], moved: bool) -> Parallel<Bucket> {
    let orders = [[0, 1, 2], [1, 2, 0], [2, 0, 1]];
    let cores = orders.iter().flat_map(|order| [false, true].map(|minus| Bucket::new(dims, order, minus, moved)));
    Parallel::new(cores.collect(), moved)
}

/// Cores of so many ranks, with blocks moved and not.
fn cores(ranks: u32) -> Vec<(&'static str, Box<dyn Core>)> {
    let up: Vec<u32> = (0..ranks).collect();
    let down: Vec<u32> = (0..ranks).rev().collect();
    let doubling = |distance, order: &[u32], moved| Box::new(Doubling::new(distance, order.to_vec(), moved));
    let mut cores: Vec<(&str, Box<dyn Core>)> = vec![
        ("ring", Box::new(Bucket::ring(ranks))),
        ("bruck", Box::new(Bruck { ranks })),
        ("halving", doubling(Distance::Halving, &up, false)),
        ("halving, moved", doubling(Distance::Halving, &up, true)),
        ("doubling of another order, moved", doubling(Distance::Doubling, &down, true)),
    ];
    if ranks.is_multiple_of(6) {
        cores.push(("six buckets", Box::new(six(&[2, 3, ranks / 6], false))));
        cores.push(("six buckets, moved", Box::new(six(&[2, 3, ranks / 6], true))));
    }
    cores
}

#[test]
fn broadcasts_and_reductions_of_long_vectors_by_cores() {
    for ranks in 1..=33 {
        for root in roots(ranks) {
            for (name, core) in cores(ranks) {
                prove(name, &ScatterAllgather::new(core, root));
            }
            for (name, core) in cores(ranks) {
                let ordered = prove(name, &ReduceScatterGather::new(core, root));
                assert!(ordered || !name.starts_with("halving"), "{name} of {ranks} to {root}");
            }
        }
    }
}

#[test]
fn e29_trees_on_meshes_have_no_congestion() {
    let shapes: [(&[u32], bool); 6] =
        [(&[16, 16], false), (&[8, 8, 8], true), (&[4, 8, 16], false), (&[2, 16], true), (&[64], false), (&[32], true)];
    for (dims, wraps) in shapes {
        let network = Network::torus(dims, &vec![wraps; dims.len()]).unwrap();
        let ranks = network.ranks();
        let stages = ranks.trailing_zeros();
        for root in [0, 1, ranks / 2 + 3, ranks - 1] {
            let tree = Arc::new(Shape::Mesh.place(&network, root).unwrap().stepped());
            let layouts = both(Layout::uniform(100, 1));
            let out = count(&Bcast::new(tree.clone(), 1, 1), &layouts, &network);
            let expected = (u64::from(stages), 100.0 * f64::from(stages));
            assert_eq!((out.alpha(), out.delta()), expected, "{dims:?} from {root}");
            let back = count(&Reduce::new(tree, 1, 1), &layouts, &network);
            assert_eq!((back.alpha(), back.delta()), expected, "{dims:?} to {root}");
        }
    }
    // Where ranks are scattered, the tree goes by their places and not by their numbers.
    let places = (0..256).map(|rank| rank * 77 % 256).collect();
    let network = Network::torus(&[16, 16], &[false; 2]).unwrap().placed(places).unwrap();
    let delta = |shape: Shape| {
        let tree = Arc::new(shape.place(&network, 5).unwrap().stepped());
        count(&Bcast::new(tree, 1, 1), &both(Layout::uniform(100, 1)), &network).delta()
    };
    assert_eq!(delta(Shape::Mesh), 800.0);
    assert!(delta(Shape::One(Layer::Binomial)) > 1500.0);
}

#[test]
fn binomial_scatter_and_gather_cost_what_is_said() {
    for ranks in [2u32, 8, 32, 64] {
        let network = Network::flat(ranks);
        let tree = Arc::new(Placed::rooted(Layer::Binomial.tree(ranks), 3 % ranks).stepped());
        let layouts = both(Layout::uniform(5, ranks));
        let expected = (u64::from(ranks.trailing_zeros()), 5.0 * f64::from(ranks - 1));
        let scatter = count(&Blocks::scatter(tree.clone(), 1, 1), &layouts, &network);
        let gather = count(&Blocks::gather(tree, 1, 1), &layouts, &network);
        assert_eq!((scatter.alpha(), scatter.delta()), expected);
        assert_eq!((gather.alpha(), gather.delta()), expected);
    }
}

#[test]
fn shapes_say_what_they_need() {
    let flat = Network::flat(8);
    let fault = Shape::TwoLayer { wan: Layer::Flat, lan: Layer::Kary(3) }.place(&flat, 0).unwrap_err();
    assert_eq!(fault.to_string(), "a tree of shape two_layer(flat, kary(3)) needs clusters, or a Clos network");
    assert_eq!(Shape::Mesh.place(&flat, 0).unwrap_err().to_string(), "a tree of shape mesh needs a mesh or torus");
}

/// Whatever a rank leaves out of a scan is missed by somebody: no total is made or sent in vain.
#[test]
fn scans_by_recursive_doubling_do_nothing_in_vain() {
    let seven = both(Layout::uniform(7, 1));
    for (own, ranks) in
        [Own::Included, Own::Excluded].into_iter().flat_map(|own| (2..=17).map(move |ranks| (own, ranks)))
    {
        let scan = scan::RecursiveDoubling::new(own, ranks);
        for (spot, op) in operations(&scan) {
            let result = check(&mutant(&scan, spot, Change::Dropped), &seven, Mode::default());
            assert!(result.is_err(), "{own:?}, {ranks} ranks: nobody misses {op:?} at {spot:?}");
        }
    }
}

#[test]
fn planted_faults_are_found() {
    let binomial = |root| Arc::new(Placed::rooted(Layer::Binomial.tree(8), root));
    let seven = both(Layout::uniform(7, 8));
    let fault = |schedule: &dyn Schedule| check(schedule, &seven, Mode { in_place: true }).unwrap_err();

    let wrong_peer = |rank, op| match op {
        Op::Send { to: 5, part } if rank == 4 => Op::Send { to: 6, part },
        op => op,
    };
    let found = fault(&planted(&Blocks::scatter(binomial(0), 1, 1), wrong_peer));
    assert!(
        matches!(found, Fault::Length { peer: 4, .. } | Fault::Unpaired { .. } | Fault::Deadlock { .. }),
        "{found}"
    );

    // Scatters one block too few to a subtree.
    let too_few = |rank, op| match op {
        Op::Send { to: 4, part } if rank == 0 => Op::Send { to: 4, part: Part { len: part.len - 1, ..part } },
        op => op,
    };
    let found = fault(&planted(&Blocks::scatter(binomial(0), 1, 1), too_few));
    assert_eq!(
        found.to_string(),
        "rank 4, phase 0, lane 0, round 0: 21 elements from rank 0 for 28 (block 4 of Tmp(0))"
    );

    // Combines on the wrong side: right as a set, out of order.
    let wrong_side = |rank, op| match op {
        Op::RecvReduce { from, part, .. } if rank == 4 => Op::RecvReduce { from, part, side: Side::Left },
        op => op,
    };
    let proof =
        check(&planted(&Reduce::new(binomial(0), 1, 1), wrong_side), &both(Layout::uniform(7, 1)), Mode::default());
    assert!(!proof.unwrap().ordered);

    // An exscan that takes its own contribution from the result: right in place only.
    let from_result = |_, op| match op {
        Op::Copy { from, to } => Op::Copy { from: from.of_buf(Buf::Out), to },
        op => op,
    };
    let linear = scan::Linear::new(Own::Excluded, 8, 1, 1);
    let exscan = planted(&linear, from_result);
    check(&exscan, &both(Layout::uniform(7, 1)), Mode { in_place: true }).unwrap();
    let found = check(&exscan, &both(Layout::uniform(7, 1)), Mode::default()).unwrap_err();
    assert!(matches!(found, Fault::Undefined { .. }), "{found}");

    // An exscan that sends what it was given after the result has come there.
    let early = |rank, op| match op {
        Op::Send { to, part } if rank == 3 => Op::Send { to, part: part.of_buf(Buf::In) },
        op => op,
    };
    let found = fault(&planted(&scan::RecursiveDoubling::new(Own::Excluded, 8), early));
    assert!(matches!(found, Fault::Twice { .. } | Fault::Result { .. }), "{found}");

    // A barrier whose messages come from the wrong distance.
    let near = |rank, op| match op {
        Op::Send { to, part } if to == (rank + 4) % 8 => Op::Send { to: (rank + 1) % 8, part },
        Op::Recv { from, part } if from == (rank + 4) % 8 => Op::Recv { from: (rank + 7) % 8, part },
        op => op,
    };
    let found = fault(&planted(&Dissemination::new(8), near));
    assert_eq!(found.to_string(), "rank 0 leaves the barrier without knowing that rank 1 has come");
}
