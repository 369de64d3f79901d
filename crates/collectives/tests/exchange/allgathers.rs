//! Allgathers and reduce-scatters with and without cores, and the allreduces of the same cores.

use treepie_collectives::allgather_cores::{
    Alternating, Bruck, Bucket, Direct, bucket_k, buckets, distance_doubling, distance_halving, hamiltonian,
    hamiltonian_lanes, hybrid, orders, torus_reordered,
};
use treepie_collectives::exchange::{Linear, ReduceScatterPairwise};
use treepie_collectives::from_allgather::{Allgather, Allreduce, ReduceScatter};
use treepie_schedule::count::count;
use treepie_schedule::{AllgatherCore, Operation};
use treepie_topology::Network;

use super::{network, prove, uniform};

fn prove_core<C: AllgatherCore>(core: impl Fn() -> C, name: &str) {
    prove(&Allgather::new(core()), &format!("allgather {name}"), true);
    prove(&ReduceScatter::new(core()), &format!("reduce_scatter {name}"), true);
    prove(&Allreduce::new(core()), &format!("allreduce {name}"), true);
}

fn prove_reordered<C: AllgatherCore>(core: impl Fn() -> C, name: &str) {
    prove(&Allgather::reordered(core()), &format!("reordered allgather {name}"), true);
    prove(&ReduceScatter::reordered(core()), &format!("reordered reduce_scatter {name}"), true);
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
        let dims = network.as_torus().unwrap().dims().to_vec();
        for shuffled in [false, true] {
            prove_core(|| bucket_k(&network, shuffled).unwrap(), &format!("bucket_k {text} shuffled {shuffled}"));
            prove_core(|| hybrid(&network, shuffled).unwrap(), &format!("hybrid {text} shuffled {shuffled}"));
            prove_core(
                || torus_reordered(&network, shuffled).unwrap(),
                &format!("reordered {text} shuffled {shuffled}"),
            );
            prove_core(|| hamiltonian_lanes(&network, shuffled), &format!("lanes {text} shuffled {shuffled}"));
            prove_core(|| buckets(&dims, 2, shuffled), &format!("two buckets {text} shuffled {shuffled}"));
            if let Some(core) = Alternating::new(&dims, shuffled) {
                prove_core(|| core.clone(), &format!("alternating {text} shuffled {shuffled}"));
            }
        }
    }
    for text in GRIDS {
        let network = network(text);
        let dims = network.as_torus().unwrap().dims().to_vec();
        prove_reordered(|| bucket_k(&network, false).unwrap(), &format!("bucket_k {text}"));
        prove_reordered(|| hybrid(&network, false).unwrap(), &format!("hybrid {text}"));
        prove_reordered(|| hamiltonian_lanes(&network, false), &format!("lanes {text}"));
        prove_reordered(|| torus_reordered(&network, false).unwrap(), &format!("reordered {text}"));
        if let Some(core) = Alternating::new(&dims, false) {
            prove_reordered(|| core.clone(), &format!("alternating {text}"));
        }
    }
    for dims in [&[8, 4][..], &[2, 16], &[1, 8], &[2, 2, 2, 2], &[4, 4, 2]] {
        for shuffled in [false, true] {
            prove_core(
                || Alternating::new(dims, shuffled).unwrap(),
                &format!("alternating {dims:?} shuffled {shuffled}"),
            );
        }
    }
}

#[test]
fn cores_for_any_number_of_ranks() {
    for ranks in 1..=33u32 {
        prove_core(|| distance_doubling(ranks), "distance doubling");
        prove_core(|| Bucket::ring(ranks), "ring");
        prove_core(|| Bruck { ranks }, "bruck");
        prove_core(|| Direct { ranks }, "direct");
        assert!(prove(&ReduceScatter::new(Direct { ranks }), "direct", true), "{ranks} ranks");
        for shuffled in [false, true] {
            prove_core(|| distance_halving(ranks, shuffled), "distance halving");
            let halving = Allreduce::new(distance_halving(ranks, shuffled));
            assert!(prove(&halving, "rabenseifner", true), "{ranks} ranks");
        }
    }
}

#[test]
fn cores_on_irregular_partitions() {
    let some = |text: &str, skip: u32| {
        let full = network(text);
        let nodes: Vec<u32> = (0..full.nodes()).rev().filter(|node| node % skip != 1).collect();
        full.with_placement(nodes).unwrap()
    };
    for network in [some("torus:5x4", 3), some("mesh:3x3x3", 4), some("torus:4x4", 5), some("clos:r8,t3,n17", 6)] {
        for shuffled in [false, true] {
            prove_core(|| hamiltonian(&network, shuffled), &format!("hamiltonian {network}"));
            prove_core(|| hamiltonian_lanes(&network, shuffled), &format!("lanes {network}"));
            if let Some(core) = torus_reordered(&network, shuffled) {
                prove_core(|| core.clone(), &format!("reordered {network}"));
            }
        }
        assert!(bucket_k(&network, true).is_none() && hybrid(&network, true).is_none());
    }
    let network = network("torus:4x4").with_placement(vec![15, 2, 7, 8]).unwrap();
    // Nodes (3,3), (2,0), (3,1), (0,2): sorted by the high bit of y, then that of x.
    assert_eq!(orders::morton_order(&network).unwrap(), [1, 2, 3, 0]);
}

#[test]
fn reduce_scatters_and_allgathers_without_cores() {
    for ranks in 1..=33u32 {
        assert!(prove(&ReduceScatterPairwise::new(ranks), "pairwise", true));
        assert!(prove(&Linear::new(Operation::ReduceScatter, ranks), "linear", true));
        prove(&Linear::new(Operation::Allgather, ranks), "linear allgather", true);
    }
}

/// [thesis 3.2.2]
#[test]
fn pairwise_reduce_scatter_costs_what_a_ring_does() {
    let counted = count(&ReduceScatterPairwise::new(12), &uniform(3, 12), &Network::flat(12));
    assert_eq!((counted.alpha(), counted.delta()), (11, 33.0));
}
