//! Tree operations, barriers, scans, and rooted operations by allgather cores.

use std::sync::Arc;

use crate::common::mutant::{Mutation, mutant, operations, with_faults};
use treepie_collectives::allgather_cores::{Bruck, Bucket, Distance, Doubling, Parallel};
use treepie_collectives::barrier::{Dissemination, RecursiveDoubling, TreeBarrier};
use treepie_collectives::rooted::{GatherBcast, ReduceScatterGather, ScatterAllgather};
use treepie_collectives::scan::{self, ScanKind};
use treepie_collectives::trees::{Bcast, Levels, RankTree, Reduce, ScatterGather, TreeKind, TreeShape};
use treepie_schedule::check::{CheckOptions, CheckReport, ScheduleError, check};
use treepie_schedule::count::count;
use treepie_schedule::{
    AllgatherCore, BlockLayout, BlockLayouts, BlockRange, Buf, BufferBlocks, OperandSide, Operation, Schedule,
    ScheduleOp,
};
use treepie_topology::Network;

const SHAPES: [TreeShape; 9] = [
    TreeShape::Flat,
    TreeShape::Chain,
    TreeShape::Binomial,
    TreeShape::Knomial(3),
    TreeShape::Knomial(5),
    TreeShape::Kary(2),
    TreeShape::Kary(3),
    TreeShape::Kary(4),
    TreeShape::Greedy { gap: 2.87, time: 10.03 },
];

/// Every root for few ranks, some for many.
fn roots(ranks: u32) -> Vec<u32> {
    if ranks <= 9 { (0..ranks).collect() } else { vec![0, ranks / 2 + 1] }
}

/// Trees of all shapes that do not depend on a network.
fn plain_trees(ranks: u32, root: u32) -> Vec<(String, Arc<RankTree>)> {
    let network = Network::flat(ranks);
    let plain = SHAPES.map(|shape| (shape.to_string(), TreeKind::SingleLayer(shape).build(&network, root).unwrap()));
    let lockstep = [TreeShape::Binomial, TreeShape::Knomial(3), TreeShape::Kary(2)].map(|shape| {
        (format!("lockstep {shape}"), TreeKind::SingleLayer(shape).build(&network, root).unwrap().lockstep())
    });
    plain.into_iter().chain(lockstep).map(|(name, tree)| (name, Arc::new(tree))).collect()
}

/// Networks with specific trees: tori, meshes and mixtures, some irregular; clusters, some scattered; Clos.
fn networks() -> Vec<Network> {
    let torus = |dims: &[u32], wrap: &[bool]| Network::torus(dims, wrap).unwrap();
    let shuffled = |count: u32, step: u32| (0..count).map(|rank| rank * step % count).collect::<Vec<_>>();
    vec![
        torus(&[2, 3], &[true; 2]),
        torus(&[4, 4], &[false; 2]),
        torus(&[3, 3, 3], &[true; 3]),
        torus(&[2, 4, 5], &[true, false, true]),
        torus(&[1, 7], &[false; 2]),
        torus(&[4, 5], &[true; 2]).with_placement(shuffled(20, 7)).unwrap(),
        torus(&[4, 4], &[false; 2]).with_placement(vec![15, 3, 4, 5, 9, 0, 12]).unwrap(),
        Network::clusters(&[1]).unwrap(),
        Network::clusters(&[3, 1, 5, 4]).unwrap(),
        Network::clusters(&[4, 4, 4]).unwrap().with_placement(shuffled(12, 5)).unwrap(),
        Network::clusters(&[2, 6, 3]).unwrap().with_placement(vec![10, 0, 8, 9]).unwrap(),
        "clusters:2x2x3".parse().unwrap(),
        "clusters:(3+1)+(2+4+1)+(5)".parse().unwrap(),
        Network::nested_clusters(&[vec![3; 4], vec![2, 2]]).unwrap().with_placement(shuffled(12, 5)).unwrap(),
        "clusters:2x2x2x2@15+0+6+9+7+12+3".parse().unwrap(),
        Network::clos(8, 6, 20).unwrap(),
    ]
}

/// Trees that depend on a network.
fn network_trees(network: &Network, root: u32) -> Vec<(String, Arc<RankTree>)> {
    let hierarchical = |wan, lan| TreeKind::Hierarchical { levels: Levels::All, wan, lan };
    let shapes = [
        TreeKind::Mesh,
        TreeKind::InTurn,
        hierarchical(TreeShape::Flat, TreeShape::Binomial),
        hierarchical(TreeShape::Binomial, TreeShape::Kary(2)),
        hierarchical(TreeShape::Kary(2), TreeShape::Flat),
        hierarchical(TreeShape::Chain, TreeShape::Chain),
    ];
    let mut trees = Vec::new();
    for shape in shapes {
        if let Ok(tree) = shape.build(network, root) {
            trees.push((format!("{shape} on {network}"), Arc::new(tree.clone())));
            trees.push((format!("lockstep {shape} on {network}"), Arc::new(tree.lockstep())));
        }
    }
    assert!(!trees.is_empty());
    trees
}

/// Calls `each` with all trees for which operations are checked.
fn each_tree(mut each: impl FnMut(&str, &Arc<RankTree>)) {
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

fn both(layout: BlockLayout) -> impl Fn(u32) -> BlockLayouts {
    move |_| BlockLayouts::symmetric(layout.clone())
}

/// Equal blocks of 0, 1 and 7 elements, and unequal ones, some of them empty.
fn layouts(blocks: u32) -> Vec<BlockLayout> {
    let irregular: Vec<usize> = (0..blocks as usize).map(|block| (block * 5 + 3) % 7).collect();
    let equal = [0, 1, 7].map(|each| BlockLayout::uniform(each, blocks));
    equal.into_iter().chain([BlockLayout::from_counts(&irregular), BlockLayout::Even { total: 17, blocks }]).collect()
}

/// Checks the schedule for all layouts, in place and not; returns whether it is rank-ordered.
fn prove(name: &str, schedule: &dyn Schedule) -> bool {
    let mut ordered = true;
    for layout in layouts(schedule.blocks()) {
        // A broadcast has only one buffer.
        let in_place =
            if matches!(schedule.operation(), Operation::Bcast { .. }) { &[false][..] } else { &[false, true] };
        for &in_place in in_place {
            let proof = check(schedule, &both(layout.clone()), CheckOptions { in_place }).unwrap_or_else(|fault| {
                panic!("{name}, {:?}, {layout:?}, in place {in_place}: {fault}", schedule.operation())
            });
            ordered &= proof.rank_ordered;
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
            // In lockstep, children are combined in reverse send order.
            let nearest_first = !tree.is_lockstep() || name.contains("binomial of") || name.contains("knomial");
            assert!(ordered || !tree.is_rank_ordered() || !nearest_first, "{name} keeps the order of ranks");
        }
    });
}

#[test]
fn reductions_in_order_to_any_root() {
    for ranks in 1..=17 {
        for root in roots(ranks) {
            for (name, tree) in plain_trees(ranks, 0) {
                let schedule = Reduce::ordered(tree.clone(), root, 3, 2);
                assert!(prove(&name, &schedule) || name == "lockstep kary(2)", "{name} to {root} of {ranks}");
            }
        }
    }
    let commuting = Reduce::new(Arc::new(RankTree::with_root(TreeShape::Binomial.tree(8), 3)), 1, 1);
    assert!(!prove("binomial", &commuting));
    let mesh = Network::torus(&[3, 4, 2], &[true; 3]).unwrap();
    let clusters = Network::clusters(&[3, 1, 5, 4]).unwrap();
    let hierarchical =
        TreeKind::Hierarchical { levels: Levels::All, wan: TreeShape::Binomial, lan: TreeShape::Kary(2) };
    for (network, shape) in [(mesh, TreeKind::Mesh), (clusters, hierarchical)] {
        let tree = Arc::new(shape.build(&network, 0).unwrap());
        for root in 0..network.ranks() {
            assert!(prove("ordered", &Reduce::ordered(tree.clone(), root, 2, 2)));
        }
    }
}

#[test]
fn scratch_memory_is_only_where_it_is_needed() {
    let tree = Arc::new(RankTree::with_root(TreeShape::Binomial.tree(8), 2));
    let reduce = Reduce::new(tree.clone(), 1, 1);
    let has: Vec<u32> = (0..8).filter(|rank| reduce.scratch_blocks(0, *rank) != BufferBlocks::Empty).collect();
    assert_eq!(has, [0, 4, 6]);
    // Virtual ranks 4 (rank 6) to 7 (rank 1) are the largest subtree.
    let scatter = ScatterGather::scatter(tree, 1, 1);
    assert_eq!(scatter.scratch_blocks(0, 6), BufferBlocks::ViewRange { view: 1, lo: 4, len: 4 });
    assert_eq!(scatter.scratch_blocks(0, 0), BufferBlocks::ViewRange { view: 1, lo: 6, len: 2 });
    assert_eq!([2, 1, 3].map(|rank| scatter.scratch_blocks(0, rank)), [BufferBlocks::Empty; 3]);
}

#[test]
fn scatters_and_gathers_along_all_trees() {
    each_tree(|name, tree| {
        for (segments, window) in [(1, 1), (3, 2)] {
            prove(name, &ScatterGather::scatter(tree.clone(), segments, window));
            prove(name, &ScatterGather::gather(tree.clone(), segments, window));
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
    let proved = |name: &str, schedule: &dyn Schedule| -> CheckReport {
        check(schedule, &both(BlockLayout::uniform(0, 0)), CheckOptions::default())
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
        let proof = proved(name, &TreeBarrier::new(tree.clone()));
        assert_eq!(proof.messages, 2 * u64::from(tree.ranks() - 1));
    });
    for network in networks() {
        let full = network.ranks() == network.nodes();
        if network.as_torus().is_some() && full {
            proved("along dimensions", &Dissemination::on_torus(&network).unwrap());
        } else {
            assert!(Dissemination::on_torus(&network).is_none());
        }
    }
}

#[test]
fn a_barrier_along_dimensions_stays_on_lines() {
    let network = Network::torus(&[4, 8, 2], &[true; 3]).unwrap();
    let counted = count(&Dissemination::on_torus(&network).unwrap(), &both(BlockLayout::uniform(0, 0)), &network);
    let hops: Vec<u32> = counted.phases[0].rounds.iter().map(|round| round.hops).collect();
    assert_eq!((counted.alpha(), hops), (6, vec![1, 2, 1, 2, 4, 1]));
}

#[test]
fn scans() {
    for ranks in 1..=40 {
        for kind in [ScanKind::Inclusive, ScanKind::Exclusive] {
            for (segments, window) in [(1, 1), (9, 2)] {
                let name = format!("linear of {ranks}");
                assert!(prove(&name, &scan::Linear::new(kind, ranks, segments, window)), "{name}");
            }
            let name = format!("recursive doubling of {ranks}");
            assert!(prove(&name, &scan::RecursiveDoubling::new(kind, ranks)), "{name}");
        }
    }
}

fn six(dims: &[u32], shuffled: bool) -> Parallel<Bucket> {
    let orders = [[0, 1, 2], [1, 2, 0], [2, 0, 1]];
    let cores = orders.iter().flat_map(|order| [false, true].map(|minus| Bucket::new(dims, order, minus, shuffled)));
    Parallel::new(cores.collect(), shuffled)
}

/// Cores over `ranks` ranks, shuffled and not.
fn cores(ranks: u32) -> Vec<(&'static str, Box<dyn AllgatherCore>)> {
    let up: Vec<u32> = (0..ranks).collect();
    let down: Vec<u32> = (0..ranks).rev().collect();
    let doubling = |distance, order: &[u32], shuffled| Box::new(Doubling::new(distance, order.to_vec(), shuffled));
    let mut cores: Vec<(&str, Box<dyn AllgatherCore>)> = vec![
        ("ring", Box::new(Bucket::ring(ranks))),
        ("bruck", Box::new(Bruck { ranks })),
        ("halving", doubling(Distance::Halving, &up, false)),
        ("halving, shuffled", doubling(Distance::Halving, &up, true)),
        ("doubling of another order, shuffled", doubling(Distance::Doubling, &down, true)),
    ];
    if ranks.is_multiple_of(6) {
        cores.push(("six buckets", Box::new(six(&[2, 3, ranks / 6], false))));
        cores.push(("six buckets, shuffled", Box::new(six(&[2, 3, ranks / 6], true))));
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
            let tree = Arc::new(TreeKind::Mesh.build(&network, root).unwrap().lockstep());
            let layouts = both(BlockLayout::uniform(100, 1));
            let out = count(&Bcast::new(tree.clone(), 1, 1), &layouts, &network);
            let expected = (u64::from(stages), 100.0 * f64::from(stages));
            assert_eq!((out.alpha(), out.delta()), expected, "{dims:?} from {root}");
            let back = count(&Reduce::new(tree, 1, 1), &layouts, &network);
            assert_eq!((back.alpha(), back.delta()), expected, "{dims:?} to {root}");
        }
    }
    // The tree follows the nodes of the ranks, not their numbers.
    let nodes = (0..256).map(|rank| rank * 77 % 256).collect();
    let network = Network::torus(&[16, 16], &[false; 2]).unwrap().with_placement(nodes).unwrap();
    let delta = |shape: TreeKind| {
        let tree = Arc::new(shape.build(&network, 5).unwrap().lockstep());
        count(&Bcast::new(tree, 1, 1), &both(BlockLayout::uniform(100, 1)), &network).delta()
    };
    assert_eq!(delta(TreeKind::Mesh), 800.0);
    assert!(delta(TreeKind::SingleLayer(TreeShape::Binomial)) > 1500.0);
}

#[test]
fn binomial_scatter_and_gather_have_the_stated_costs() {
    for ranks in [2u32, 8, 32, 64] {
        let network = Network::flat(ranks);
        let tree = Arc::new(RankTree::with_root(TreeShape::Binomial.tree(ranks), 3 % ranks).lockstep());
        let layouts = both(BlockLayout::uniform(5, ranks));
        let expected = (u64::from(ranks.trailing_zeros()), 5.0 * f64::from(ranks - 1));
        let scatter = count(&ScatterGather::scatter(tree.clone(), 1, 1), &layouts, &network);
        let gather = count(&ScatterGather::gather(tree, 1, 1), &layouts, &network);
        assert_eq!((scatter.alpha(), scatter.delta()), expected);
        assert_eq!((gather.alpha(), gather.delta()), expected);
    }
}

#[test]
fn unsupported_trees_name_the_required_network() {
    let flat = Network::flat(8);
    let fault = TreeKind::Hierarchical { levels: Levels::All, wan: TreeShape::Flat, lan: TreeShape::Kary(3) }
        .build(&flat, 0)
        .unwrap_err();
    assert_eq!(
        fault.to_string(),
        "a tree of shape hierarchical(flat, kary(3)) needs clusters, hosts or a Clos network"
    );
    assert_eq!(TreeKind::Mesh.build(&flat, 0).unwrap_err().to_string(), "a tree of shape mesh needs a mesh or torus");
}

/// Omitting any operation of a scan is an error: no total is computed or sent in vain.
#[test]
fn scans_by_recursive_doubling_do_nothing_in_vain() {
    let seven = both(BlockLayout::uniform(7, 1));
    for (kind, ranks) in
        [ScanKind::Inclusive, ScanKind::Exclusive].into_iter().flat_map(|kind| (2..=17).map(move |ranks| (kind, ranks)))
    {
        let scan = scan::RecursiveDoubling::new(kind, ranks);
        for (spot, op) in operations(&scan) {
            let result = check(&mutant(&scan, spot, Mutation::Dropped), &seven, CheckOptions::default());
            assert!(result.is_err(), "{kind:?}, {ranks} ranks: no error without {op:?} at {spot:?}");
        }
    }
}

#[test]
fn planted_faults_are_found() {
    let binomial = |root| Arc::new(RankTree::with_root(TreeShape::Binomial.tree(8), root));
    let seven = both(BlockLayout::uniform(7, 8));
    let fault = |schedule: &dyn Schedule| check(schedule, &seven, CheckOptions { in_place: true }).unwrap_err();

    let wrong_peer = |rank, op| match op {
        ScheduleOp::Send { to: 5, part } if rank == 4 => ScheduleOp::Send { to: 6, part },
        op => op,
    };
    let found = fault(&with_faults(&ScatterGather::scatter(binomial(0), 1, 1), wrong_peer));
    assert!(
        matches!(
            found,
            ScheduleError::LengthMismatch { peer: 4, .. }
                | ScheduleError::UnmatchedMessage { .. }
                | ScheduleError::Deadlock { .. }
        ),
        "{found}"
    );

    // Scatters one block too few to a subtree.
    let too_few = |rank, op| match op {
        ScheduleOp::Send { to: 4, part } if rank == 0 => {
            ScheduleOp::Send { to: 4, part: BlockRange { len: part.len - 1, ..part } }
        }
        op => op,
    };
    let found = fault(&with_faults(&ScatterGather::scatter(binomial(0), 1, 1), too_few));
    assert_eq!(
        found.to_string(),
        "rank 4, phase 0, lane 0, round 0: received 21 elements from rank 0, expected 28 (block 4 of Tmp(0))"
    );

    // Combines on the wrong side: the right set of contributions, out of rank order.
    let wrong_side = |rank, op| match op {
        ScheduleOp::RecvReduce { from, part, .. } if rank == 4 => {
            ScheduleOp::RecvReduce { from, part, side: OperandSide::Left }
        }
        op => op,
    };
    let proof = check(
        &with_faults(&Reduce::new(binomial(0), 1, 1), wrong_side),
        &both(BlockLayout::uniform(7, 1)),
        CheckOptions::default(),
    );
    assert!(!proof.unwrap().rank_ordered);

    // An exscan that reads its contribution from the result: correct only in place.
    let from_result = |_, op| match op {
        ScheduleOp::Copy { from, to } => ScheduleOp::Copy { from: from.with_buf(Buf::Out), to },
        op => op,
    };
    let linear = scan::Linear::new(ScanKind::Exclusive, 8, 1, 1);
    let exscan = with_faults(&linear, from_result);
    check(&exscan, &both(BlockLayout::uniform(7, 1)), CheckOptions { in_place: true }).unwrap();
    let found = check(&exscan, &both(BlockLayout::uniform(7, 1)), CheckOptions::default()).unwrap_err();
    assert!(matches!(found, ScheduleError::UninitializedRead { .. }), "{found}");

    // An exscan that sends its input after the result has overwritten it.
    let early = |rank, op| match op {
        ScheduleOp::Send { to, part } if rank == 3 => ScheduleOp::Send { to, part: part.with_buf(Buf::In) },
        op => op,
    };
    let found = fault(&with_faults(&scan::RecursiveDoubling::new(ScanKind::Exclusive, 8), early));
    assert!(
        matches!(found, ScheduleError::DuplicateContribution { .. } | ScheduleError::WrongResult { .. }),
        "{found}"
    );

    // A barrier with messages over the wrong distance.
    let near = |rank, op| match op {
        ScheduleOp::Send { to, part } if to == (rank + 4) % 8 => ScheduleOp::Send { to: (rank + 1) % 8, part },
        ScheduleOp::Recv { from, part } if from == (rank + 4) % 8 => ScheduleOp::Recv { from: (rank + 7) % 8, part },
        op => op,
    };
    let found = fault(&with_faults(&Dissemination::new(8), near));
    assert_eq!(found.to_string(), "rank 0 may leave the barrier before rank 1 enters it");
}
