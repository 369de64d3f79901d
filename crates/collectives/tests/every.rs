//! Every registered algorithm is checked: for all numbers of ranks, roots and lengths, on all kinds of networks.
//!
//! The default run samples larger numbers of ranks, and roots and lengths for these; `TREEPIE_LONG=1` takes all.

use std::collections::BTreeSet;

use crate::common::mutant::{Mutation, mutant, operations};
use crate::common::{Lengths, NETWORKS, long, network, operation};
use treepie_collectives::registry::{self, Algorithm, AlgorithmError, CollectiveSpec, NetworkRequirement};
use treepie_schedule::check::{CheckOptions, check};
use treepie_schedule::{RoundList, Schedule};
use treepie_topology::Network;

const LENGTHS: [Lengths; 6] =
    [Lengths::Irregular, Lengths::Each(1), Lengths::Total(23), Lengths::Each(7), Lengths::Total(131), Lengths::Each(0)];

/// Statistics of the checks of an algorithm.
#[derive(Default)]
struct CheckStats {
    proofs: u64,
    unordered: u64,
    /// Variants that were checked at least once.
    variants: BTreeSet<String>,
}

/// A case: how a schedule is built and checked.
struct Case<'a> {
    network: &'a Network,
    root: u32,
    lengths: Lengths,
    in_place: bool,
    commutative: bool,
}

/// Checks one variant in one case, if it is applicable.
fn prove(algorithm: &Algorithm, variant: &str, case: &Case<'_>, stats: &mut CheckStats) {
    let Case { network, root, lengths, in_place, commutative } = *case;
    let operation = operation(algorithm.operation(), root);
    let uniform = lengths.is_uniform();
    let spec = CollectiveSpec { commutative, uniform, in_place, ..CollectiveSpec::new(operation, network) };
    if !lengths.suit(operation) || algorithm.check_applicable(&spec).is_err() {
        return;
    }
    let schedule = match registry::build(variant, &spec) {
        Ok(schedule) => schedule,
        // Requirements that depend on parameters, such as the network of a core.
        Err(AlgorithmError::Inapplicable { .. }) => return,
        Err(error) => panic!("{variant}: {error}"),
    };
    let context = || format!("{variant} on {network}, root {root}, {lengths:?}, in place {in_place}");
    assert_eq!((schedule.operation(), schedule.ranks()), (operation, network.ranks()), "{}", context());
    let layouts = lengths.layouts(operation, schedule.blocks());
    let proof =
        check(&*schedule, &layouts, CheckOptions { in_place }).unwrap_or_else(|fault| panic!("{}: {fault}", context()));
    assert!(proof.identical_results, "{}: ranks combine in different orders", context());
    if operation.is_reduction() && !commutative {
        assert!(proof.rank_ordered, "{}: not in rank order", context());
    }
    stats.proofs += 1;
    stats.unordered += u64::from(!proof.rank_ordered);
    if !stats.variants.contains(variant) {
        stats.variants.insert(variant.to_owned());
    }
}

/// All roots and lengths for few ranks or on request, otherwise a sample; always both in place and not, and with a
/// commutative operator and without.
fn prove_on(algorithm: &Algorithm, variants: &[String], network: &Network, turn: usize, stats: &mut CheckStats) {
    let ranks = network.ranks();
    let any = operation(algorithm.operation(), 0);
    let lengths: Vec<Lengths> = match algorithm.operation() {
        "barrier" => vec![Lengths::Each(0)],
        _ => LENGTHS.into_iter().filter(|lengths| lengths.suit(any)).collect(),
    };
    let in_place: &[bool] = if algorithm.requires.in_place { &[false, true] } else { &[false] };
    let commutative: &[bool] = if any.is_reduction() { &[false, true] } else { &[true] };
    for (number, variant) in variants.iter().enumerate() {
        let turn = turn + number;
        let roots: Vec<u32> = match (any.root(), ranks) {
            (None, _) => vec![0],
            (_, 1..=9) => (0..ranks).collect(),
            _ if long() => vec![0, 1, ranks / 2, ranks - 1],
            _ => vec![[0, ranks / 2, ranks - 1, turn as u32 % ranks][turn % 4]],
        };
        for (at, root) in roots.into_iter().enumerate() {
            let some = if ranks <= 9 || long() { lengths.len() } else { 1 };
            for lengths in lengths.iter().cycle().skip((turn + at) % lengths.len()).take(some).copied() {
                for (in_place, commutative) in in_place.iter().flat_map(|p| commutative.iter().map(move |c| (*p, *c))) {
                    prove(algorithm, variant, &Case { network, root, lengths, in_place, commutative }, stats);
                }
            }
        }
    }
}

fn prove_all(name: &str) {
    let is_sampled = |ranks: &u32| long() || !(34..63).contains(ranks) || ranks.is_multiple_of(12);
    let mut sizes: Vec<u32> = (1..=65).filter(is_sampled).collect();
    sizes.extend([96, 127, 128, 129]);
    let networks: Vec<Network> = NETWORKS.iter().map(|text| network(text)).collect();
    let started = std::time::Instant::now();
    let mut proofs = 0;
    for algorithm in registry::all().iter().filter(|algorithm| algorithm.operation() == name) {
        let mut stats = CheckStats::default();
        let variants = algorithm.variants();
        for &ranks in &sizes {
            prove_on(algorithm, &variants, &Network::flat(ranks), ranks as usize, &mut stats);
        }
        for (number, network) in networks.iter().enumerate() {
            prove_on(algorithm, &variants, network, number, &mut stats);
        }
        // Clusters on one level and on two, equal and not, some with ranks in another order.
        if algorithm.requires.network == NetworkRequirement::Hierarchical {
            for ranks in 1..=40 {
                prove_on(algorithm, &variants, &clusters(ranks), ranks as usize, &mut stats);
            }
        }
        let unproved: Vec<&String> =
            variants.iter().filter(|variant| !stats.variants.contains(variant.as_str())).collect();
        assert!(unproved.is_empty(), "never proved: {unproved:?}");
        // The table requires no more than necessary.
        let reduces = operation(name, 0).is_reduction();
        assert!(
            !reduces || !algorithm.requires.commutative || stats.unordered > 0,
            "{} is rank-ordered, but the table requires a commutative operator",
            algorithm.id
        );
        proofs += stats.proofs;
    }
    println!("{name}: {proofs} proofs in {:.1?}", started.elapsed());
}

/// Clusters of this number of ranks in all: of four, or of one to five in sites of three, or the same with the ranks
/// placed in another order.
fn clusters(ranks: u32) -> Network {
    let last = |size: u32| if ranks.is_multiple_of(size) { size } else { ranks % size };
    if ranks.is_multiple_of(3) {
        let mut sizes = vec![4; ranks.div_ceil(4) as usize];
        *sizes.last_mut().unwrap() = last(4);
        return Network::clusters(&sizes).unwrap();
    }
    let (mut left, mut sites) = (ranks, Vec::new());
    while left > 0 {
        let sizes = [2, 1, 5].map(|size: u32| {
            let size = size.min(left);
            left -= size;
            size
        });
        let sizes: Vec<String> = sizes.iter().filter(|size| **size > 0).map(u32::to_string).collect();
        sites.push(format!("({})", sizes.join("+")));
    }
    let nested: Network = network(&format!("clusters:{}", sites.join("+")));
    let every_second = (0..ranks).step_by(2).chain((1..ranks).step_by(2));
    if ranks % 3 == 1 { nested } else { nested.subnetwork(&every_second.collect::<Vec<_>>()) }
}

#[test]
fn barrier() {
    prove_all("barrier");
}

#[test]
fn bcast() {
    prove_all("bcast");
}

#[test]
fn scatter() {
    prove_all("scatter");
}

#[test]
fn gather() {
    prove_all("gather");
}

#[test]
fn allgather() {
    prove_all("allgather");
}

#[test]
fn reduce() {
    prove_all("reduce");
}

#[test]
fn allreduce() {
    prove_all("allreduce");
}

#[test]
fn reduce_scatter() {
    prove_all("reduce_scatter");
}

#[test]
fn alltoall() {
    prove_all("alltoall");
}

#[test]
fn scan() {
    prove_all("scan");
}

#[test]
fn exscan() {
    prove_all("exscan");
}

/// Mutation test: any one operation of any algorithm is changed, and the check fails.
#[test]
fn mutations_are_detected() {
    let networks = ["flat:6", "torus:3x2", "clusters:2+1+3", "clusters:3x2", "torus:2x4"].map(network);
    let (mut changed, started) = (0, std::time::Instant::now());
    for algorithm in registry::all() {
        for (number, variant) in algorithm.variants().into_iter().enumerate() {
            let root = number as u32 % 6;
            let built = networks.iter().find_map(|network| {
                let spec = CollectiveSpec::new(operation(algorithm.operation(), root), network);
                registry::build(&variant, &spec).ok()
            });
            let Some(schedule) = built else { continue };
            let lengths = Lengths::Each(6).layouts(schedule.operation(), schedule.blocks());
            let ordered = check(&*schedule, &lengths, CheckOptions::default()).unwrap().rank_ordered;
            for (at, (spot, op)) in operations(&*schedule).into_iter().enumerate() {
                for change in [Mutation::Dropped, Mutation::OtherPeer, Mutation::OtherSide] {
                    // Every third operation of long schedules, unless all are requested.
                    let shows = change != Mutation::OtherSide || ordered;
                    if !shows || !change.changes(op) || at > 60 && at % 3 != 0 && !long() {
                        continue;
                    }
                    changed += 1;
                    let mutant = mutant(&*schedule, spot, change);
                    let result = check(&mutant, &lengths, CheckOptions::default());
                    let found = match change {
                        Mutation::OtherSide => result.is_ok_and(|proof| !proof.rank_ordered),
                        _ => result.is_err(),
                    };
                    assert!(found, "{variant}: {change:?} of {op:?} at {spot:?} is not found");
                }
            }
        }
    }
    println!("{changed} changes found in {:.1?}", started.elapsed());
}

/// The time to generate an operation, for each algorithm at 1024 ranks, in batches of eight rounds:
/// `cargo test --release -p treepie-collectives --test tests -- --ignored --nocapture every::generation`.
///
/// The minimum of several passes counts. Each pass runs all algorithms, so that a temporary load on the machine does
/// not affect all runs of one algorithm.
#[test]
#[ignore = "a measurement, for a release build"]
fn generation() {
    const PASSES: usize = 40;
    const MAX: f64 = 20.0;
    let networks = ["flat:1024", "torus:8x8x16", "torus:32x32", "clusters:16x64"].map(network);
    let mut all = Vec::new();
    for algorithm in registry::all() {
        for variant in algorithm.variants() {
            let built = networks.iter().find_map(|network| {
                let spec = CollectiveSpec::new(operation(algorithm.operation(), 0), network);
                registry::build(&variant, &spec).ok()
            });
            all.extend(built.map(|schedule| (variant, schedule, f64::INFINITY)));
        }
    }
    for _ in 0..PASSES {
        for (_, schedule, best) in &mut all {
            *best = best.min(nanoseconds(&**schedule));
        }
    }
    for (variant, _, best) in &all {
        println!("{best:7.1} ns  {variant}");
    }
    let slow: Vec<String> =
        all.iter().filter(|(.., best)| *best >= MAX).map(|(variant, _, best)| format!("{variant} {best:.1}")).collect();
    println!("{} of {} take {MAX} ns or more: {slow:#?}", slow.len(), all.len());
}

/// The time to generate an operation in nanoseconds, over some of the ranks.
fn nanoseconds(schedule: &dyn Schedule) -> f64 {
    const BATCH: u32 = 8;
    const OPERATIONS: usize = 20_000;
    let mut into = RoundList::new();
    let mut operations = 0;
    let started = std::time::Instant::now();
    // Ranks spread over the network, until there are enough operations.
    for rank in (0..200 * 1024).map(|k| k * 389 % 1024) {
        for phase in 0..schedule.phases() {
            for lane in 0..schedule.phase(phase).lanes {
                let rounds = schedule.rounds(rank, phase, lane);
                for first in (0..rounds).step_by(BATCH as usize) {
                    into.clear();
                    schedule.emit(rank, phase, lane, first..rounds.min(first + BATCH), &mut into);
                    operations += into.num_ops();
                }
            }
        }
        if operations > OPERATIONS {
            break;
        }
    }
    started.elapsed().as_nanos() as f64 / operations.max(1) as f64
}

mod the_table {
    use treepie_schedule::Operation;

    use super::*;

    fn error(id: &str, spec: &CollectiveSpec<'_>) -> String {
        registry::build(id, spec).err().expect("an error").to_string()
    }

    #[test]
    fn has_every_id_once() {
        let ids: Vec<&str> = registry::all().iter().map(|algorithm| algorithm.id.as_str()).collect();
        let different: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), different.len());
        let well_formed = |id: &&str| {
            id.matches('/').count() == 1
                && id.chars().all(|letter| letter.is_ascii_lowercase() || "_/".contains(letter))
        };
        assert!(ids.iter().all(well_formed), "{ids:?}");
    }

    #[test]
    fn is_printed_as_it_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/registry/algorithms.md");
        let now = registry::markdown();
        if std::env::var_os("TREEPIE_REGENERATE").is_some() {
            std::fs::write(path, &now).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        assert!(
            written == now,
            "src/registry/algorithms.md is out of date; to regenerate it: \
             TREEPIE_REGENERATE=1 cargo test -p treepie-collectives --test tests the_table"
        );
        let text = registry::text(Some("scan"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(lines[0].starts_with("id ") && lines[1].starts_with("scan/linear "), "{text}");
    }

    #[test]
    fn names_the_unmet_requirement_and_applicable_algorithms() {
        let flat = Network::flat(6);
        let spec = CollectiveSpec::new(Operation::Scan, &flat);
        assert_eq!(
            error("allgather/bucket", &spec),
            "`allgather/bucket` does not apply: it implements allgather, not scan; these do: scan/linear, \
             scan/recursive_doubling"
        );
        let spec = CollectiveSpec { uniform: false, ..CollectiveSpec::new(Operation::Alltoall, &flat) };
        assert_eq!(
            error("alltoall/bruck", &spec),
            "`alltoall/bruck` does not apply: it requires blocks of equal length; these do: alltoall/linear, \
             alltoall/pairwise"
        );
        let spec = CollectiveSpec { commutative: false, ..CollectiveSpec::new(Operation::ReduceScatter, &flat) };
        assert_eq!(
            error("reduce_scatter/ring", &spec),
            "`reduce_scatter/ring` does not apply: it requires a commutative operator; these do: \
             reduce_scatter/linear, reduce_scatter/pairwise, reduce_scatter/distance_halving"
        );
        let spec = CollectiveSpec { commutative: false, ..CollectiveSpec::new(Operation::Reduce { root: 1 }, &flat) };
        let message = error("reduce/reduce_scatter_gather:bruck", &spec);
        assert!(message.contains("its core bruck requires a commutative operator; these do: reduce/"), "{message}");
        let spec = CollectiveSpec::new(Operation::Bcast { root: 0 }, &flat);
        let message = error("bcast/scatter_allgather:bucket", &spec);
        assert!(
            message
                .contains("its core bucket requires a torus or mesh with rank r at node r, but the network is flat:6")
        );
        let message = error("bcast/hierarchical", &spec);
        assert!(
            message.contains("it requires clusters, hosts or a Clos network, but the network is flat:6"),
            "{message}"
        );
        let message = error("bcast/flat", &CollectiveSpec::new(Operation::Bcast { root: 6 }, &flat));
        assert!(message.contains("the root is 6, but there are 6 ranks"), "{message}");
        let irregular = network("mesh:3x3@0-4+8");
        let message = error("allgather/hybrid", &CollectiveSpec::new(Operation::Allgather, &irregular));
        assert!(message.contains("with rank r at node r, but the network is mesh:3x3@0-4+8; these do: "), "{message}");
        assert!(message.contains("allgather/hamiltonian"), "{message}");
    }

    #[test]
    fn knows_near_ids() {
        let near = |id| registry::find(id).expect_err("there is none").to_string();
        assert!(
            near("allgather/rnig").starts_with("there is no algorithm `allgather/rnig`; similar ids: allgather/ring, ")
        );
        assert!(near("allgather/buckets").contains("allgather/bucket,"), "{}", near("allgather/buckets"));
        assert!(near("reduce_scater/ring").contains("reduce_scatter/ring"));
        assert!(near("rabenseifner").contains("allreduce/rabenseifner"), "{}", near("rabenseifner"));
    }

    #[test]
    fn takes_arguments() {
        let flat = Network::flat(13);
        let spec = CollectiveSpec::new(Operation::Bcast { root: 2 }, &flat);
        let lanes = |id: &str| registry::build(id, &spec).unwrap().phase(0);
        assert_eq!(lanes("bcast/chain").lanes, 1);
        assert_eq!((lanes("bcast/chain:segments=16,window=4").lanes, lanes("bcast/kary:3,segments=5").lanes), (16, 5));
        assert_eq!(lanes("bcast/chain:segments=16,window=4").window, 4);
        assert_eq!(
            error("bcast/kary:0", &spec),
            "`bcast/kary` does not accept `0`: degree=a number of at least 1; segments=a number; window=a number"
        );
        let spec = CollectiveSpec::new(Operation::Allgather, &flat);
        assert_eq!(error("allgather/ring:7", &spec), "`allgather/ring` does not accept `7`: it has no parameters");
        let spec = CollectiveSpec::new(Operation::Allreduce, &flat);
        let message = error("allreduce/hamiltonian_lanes:reordered", &spec);
        assert!(message.ends_with("order=strided or moved"), "{message}");
        let torus = network("torus:3x3x3");
        let spec = CollectiveSpec::new(Operation::Allgather, &torus);
        let lanes = |id: &str| registry::build(id, &spec).unwrap().phase(1).lanes;
        assert_eq!(["allgather/bucket_k", "allgather/bucket_k:2", "allgather/bucket_k:3,moved"].map(lanes), [6, 2, 3]);
    }

    #[test]
    fn has_algorithms_for_every_operation_and_network() {
        let networks: Vec<Network> = NETWORKS.iter().map(|text| network(text)).collect();
        let names: BTreeSet<&str> = registry::all().iter().map(|algorithm| algorithm.operation()).collect();
        assert_eq!(names.len(), 11);
        for network in &networks {
            for name in &names {
                let spec = CollectiveSpec {
                    commutative: false,
                    uniform: false,
                    in_place: *name != "alltoall",
                    ..CollectiveSpec::new(operation(name, 0), network)
                };
                assert!(registry::applicable(&spec).len() >= 2, "{name} on {network}");
            }
        }
    }
}
