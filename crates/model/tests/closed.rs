//! Formulas against counts of the schedules, and those of trees against ranks with one port, over many P, networks and
//! variants of all registered algorithms.

use crate::common::{counted, layouts, network, operation, schedule, walked};
use treepie_collectives::registry::{self, Algorithm};
use treepie_model::predict::MessageCosts;
use treepie_model::{CostParams, CostTerms, PLogP, Profile, closed_form, walk};
use treepie_schedule::Operation;
use treepie_topology::Network;

/// Whether rounds of the same number are not simultaneous on all ranks, so that they cannot be counted.
fn uses_one_port_reference(algorithm: &Algorithm) -> bool {
    const TREES: [&str; 10] =
        ["flat", "chain", "binomial", "knomial", "kary", "hierarchical", "in_turn", "gather_bcast", "tree", "central"];
    TREES.contains(&algorithm.name()) || algorithm.id.ends_with("scan/linear")
}

fn ids(algorithm: &Algorithm) -> Vec<String> {
    let mut ids = algorithm.variants();
    ids.push(algorithm.id.clone());
    ids.dedup();
    ids
}

/// Bytes that all numbers of blocks divide.
fn bytes(operation: Operation, ranks: u32) -> usize {
    if operation == Operation::Barrier { 0 } else { 60 * 32 * ranks as usize }
}

fn same(id: &str, network: &Network, got: f64, expected: f64, what: &str) {
    assert!((got - expected).abs() <= 1e-9 * expected.abs(), "{id} on {network}: {what} {got} instead of {expected}");
}

/// Compares one formula, if there is one.
fn compare(algorithm: &Algorithm, id: &str, network: &Network, params: &CostParams) -> bool {
    let operation = operation(id, 0);
    let Some(schedule) = schedule(id, operation, network) else { return false };
    let n = bytes(operation, network.ranks());
    let Some(formula) = closed_form::terms(id, operation, network, n as f64) else { return false };
    let time = params.time(&formula, network);
    same(id, network, closed_form::time(id, operation, network, n as f64, params).unwrap(), time, "the time");
    // The charge of a shuffle is no count; see `shuffling_blocks_is_charged_by_bisection`.
    if id.contains("moved")
        && !matches!(operation, Operation::Allreduce | Operation::Bcast { .. } | Operation::Reduce { .. })
    {
        return true;
    }
    if uses_one_port_reference(algorithm) {
        same(id, network, time, walked(&*schedule, n, params), "the time");
        return true;
    }
    let CostTerms { alpha, delta, gamma, ports, .. } = counted(&*schedule, n, network);
    same(id, network, formula.alpha, alpha, "alpha");
    // Over half a ring all-to-all messages take either direction, which need not divide evenly.
    let is_alltoall = ["linear", "direct"].iter().any(|name| id.contains(name));
    if is_alltoall && network.as_torus().is_some() {
        let even = formula.delta <= delta && formula.delta > 0.75 * delta;
        assert!(even, "{id} on {network}: delta {} instead of {delta}", formula.delta);
        return true;
    }
    // Binomial scatters and gathers around cores share links where sides are no powers of two.
    let shared = id.contains("scatter_allgather") || id.contains("scatter_gather");
    if !(shared && network.as_torus().is_some() && !network.ranks().is_power_of_two()) {
        same(id, network, formula.delta, delta, "delta");
    }
    if operation != Operation::Barrier {
        assert_eq!(formula.ports, ports, "{id} on {network}: ports");
    }
    // For folded ranks formulas are a bound; prefix and total of a scan are combined separately.
    let folded = !network.ranks().is_power_of_two() && formula.gamma >= gamma;
    if !folded && !matches!(operation, Operation::Scan | Operation::Exscan) {
        same(id, network, formula.gamma, gamma, "gamma");
    }
    true
}

#[test]
fn formulas_on_flat_networks() {
    // Significant start-ups, and negligible ones.
    let params = [CostParams::new(3000.0, 2.0).unwrap(), CostParams::new(1.0, 0.5).unwrap()];
    for algorithm in registry::all() {
        let mut formulas = 0;
        for id in ids(algorithm) {
            for ranks in 1..=40 {
                let found = compare(algorithm, &id, &Network::flat(ranks), &params[ranks as usize % 2]);
                // A single rank has no cost.
                formulas += usize::from(found && ranks > 1);
            }
        }
        let elsewhere = schedule(&algorithm.id, operation(&algorithm.id, 0), &Network::flat(8)).is_none();
        let without = elsewhere || algorithm.name() == "greedy";
        assert!(without == (formulas == 0), "{}: {formulas} formulas", algorithm.id);
    }
}

const NETWORKS: [&str; 24] = [
    "torus:4x4",
    "torus:4x4x8",
    "torus:4x8x2",
    "torus:4x4x4",
    "torus:3x5",
    "torus:6x4",
    "torus:2x2x2",
    "torus:1x8x4",
    "torus:1x5x1",
    "torus:16",
    "torus:5x3x3",
    "torus:12x4",
    "mesh:2x4x8",
    "mesh:4x4",
    "mesh:8x8",
    "mesh:3x4x5",
    "mesh:16",
    "torus:4x4x4,wrap=yny",
    "torus:8x4,wrap=ny",
    "torus:8x4x2,wrap=nyy",
    "clos:r20,t16,n64",
    "clos:r12,t8,n64",
    "clos:r24,t12,n48",
    "clos:r9,t5,n20",
];

#[test]
fn formulas_on_grids_and_clos_networks() {
    let params = CostParams::new(300.0, 2.0).unwrap();
    let networks = NETWORKS.map(network);
    for algorithm in registry::all() {
        let mut formulas = 0;
        for id in ids(algorithm) {
            formulas += networks.iter().filter(|network| compare(algorithm, &id, network, &params)).count();
        }
        println!("{}: {formulas} formulas", algorithm.id);
        // Algorithms for grids and Clos networks have formulas there.
        let made_for = ["bucket", "bucket_k", "torus_reordered", "alternating", "hybrid", "mesh", "in_turn", "ring"];
        assert!(formulas > 0 || !made_for.contains(&algorithm.name()), "{}", algorithm.id);
    }
}

#[test]
fn large_trees() {
    let params = [CostParams::new(3000.0, 2.0).unwrap(), CostParams::new(1.0, 0.5).unwrap()];
    for name in ["bcast/kary", "scatter/kary", "gather/kary", "reduce/kary", "scatter/knomial", "bcast/knomial"] {
        let algorithm = registry::find(name).unwrap();
        for ranks in [63, 64, 65, 100, 121, 127, 129, 200] {
            for number in [2, 3, 6, 7] {
                for params in &params {
                    assert!(compare(algorithm, &format!("{name}:{number}"), &Network::flat(ranks), params));
                }
            }
        }
    }
}

#[test]
fn any_root_of_a_flat_network() {
    let params = CostParams::new(300.0, 2.0).unwrap();
    let network = Network::flat(13);
    for id in ["bcast/binomial", "bcast/chain:segments=5", "scatter/kary:3", "gather/knomial:3", "reduce/binomial"] {
        for root in 0..13 {
            let operation = operation(id, root);
            let schedule = schedule(id, operation, &network).unwrap();
            let time = closed_form::time(id, operation, &network, 4680.0, &params).unwrap();
            same(id, &network, time, walked(&*schedule, 4680, &params), "the time");
        }
    }
}

#[test]
fn shuffling_blocks_is_charged_by_bisection() {
    for (text, charge) in [("torus:8x8x8", 2.0), ("torus:8x16x32", 8.0), ("mesh:8x8", 4.0), ("clos:r20,t16,n64", 4.0)] {
        let network = network(text);
        assert_eq!(closed_form::bisection_factor(&network), charge, "{text}");
        for (id, messages) in [("allgather/distance_halving", 1.0), ("reduce_scatter/torus_reordered", 1.0)] {
            let terms = |id: &str| closed_form::terms(id, operation(id, 0), &network, 10.0);
            let (Some(shuffled), Some(strided)) = (terms(&format!("{id}:moved")), terms(id)) else { continue };
            assert_eq!(
                (shuffled.alpha - strided.alpha, shuffled.delta - strided.delta),
                (messages, 10.0 * charge),
                "{id}"
            );
        }
    }
    // Counted with dimension-order routing it takes no less.
    let torus = network("torus:8x8x8");
    for id in ["allgather/torus_reordered", "allgather/bucket_k", "allgather/hybrid"] {
        let shuffled = format!("{id}:moved");
        let counted = counted(&*schedule(&shuffled, Operation::Allgather, &torus).unwrap(), 12, &torus);
        let charged = closed_form::terms(&shuffled, Operation::Allgather, &torus, 12.0).unwrap();
        assert_eq!(charged.alpha, counted.alpha, "{shuffled}");
        assert!(
            charged.delta <= counted.delta && charged.delta > 0.9 * counted.delta,
            "{shuffled}: {charged:?} {counted:?}"
        );
    }
}

#[test]
fn some_algorithms_have_no_formula() {
    let terms = |id, network: &Network| closed_form::terms(id, operation(id, 0), network, 8.0);
    assert_eq!(terms("bcast/greedy", &Network::flat(8)), None);
    assert_eq!(terms("bcast/nothing", &Network::flat(8)), None);
    assert_eq!(terms("bcast/kary:degree=0", &Network::flat(8)), None);
    assert_eq!(terms("bcast/hierarchical", &network("clusters:4x4")), None);
    // Children along a line share its links.
    for id in ["bcast/binomial", "scatter/binomial", "allgather/gather_bcast"] {
        assert_eq!(terms(id, &network("torus:4x4x4")), None, "{id}");
        assert_eq!(terms(id, &network("mesh:4x2")), None, "{id}");
        assert!(terms(id, &network("clos:r20,t16,n64")).is_some(), "{id}");
    }
    assert!(
        terms("gather/binomial", &network("torus:4x4x4")).is_some(),
        "up a tree messages arrive one after the other"
    );
    assert!(terms("bcast/binomial", &network("torus:2x2x2")).is_some(), "each child has its own link");
    assert_eq!(terms("allgather/bucket", &network("mesh:4x4@0-2+9")), None);
    assert_eq!(closed_form::terms("bcast/flat", Operation::Allgather, &Network::flat(8), 8.0), None);
    assert_eq!(closed_form::terms("flat", Operation::Allgather, &Network::flat(8), 8.0), None);
}

/// The time by the formula and by the walk, with a latency besides the gap.
fn both_times(id: &str, network: &Network, profile: &Profile) -> Option<(f64, f64)> {
    let operation = operation(id, 0);
    let schedule = schedule(id, operation, network)?;
    let n = bytes(operation, network.ranks());
    let formula = closed_form::terms(id, operation, network, n as f64)?;
    let costs = MessageCosts::on_network(profile, network);
    let walked = walk::time(&*schedule, &layouts(&*schedule, n), 1.0, &costs, usize::MAX)?;
    Some((costs.time(&formula).total(), walked))
}

/// With a latency, formulas are exact for most powers of two, and bounds where the path with the most messages is not
/// the one with the most links. Elsewhere they can be less, where ranks that act as two virtual ranks wait for others.
#[test]
fn formulas_with_a_latency() {
    let links = [(500.0, 50.0, 20.0), (5000.0, 1.0, 1000.0), (0.1, 50.0, 1.0)];
    for algorithm in registry::all() {
        for (latency, overhead, bandwidth) in links {
            let link = PLogP::linear(latency, overhead, bandwidth).unwrap();
            let profile = Profile::of_link("sim", "network", link);
            for id in ids(algorithm).iter().filter(|id| !id.contains("moved")) {
                for ranks in 2..=40u32 {
                    let Some((formula, walked)) = both_times(id, &Network::flat(ranks), &profile) else { continue };
                    let range = if ranks.is_power_of_two() { 0.9..=1.31 } else { 0.6..=1.5 };
                    let ratio = formula / walked;
                    assert!(range.contains(&ratio), "{id} with {ranks} ranks: {formula} instead of {walked}");
                }
            }
        }
    }
}

/// Hierarchical algorithms for many ranks are estimated: within a quarter of the walk, where that can be done; on
/// hosts, where ports are shared, within a third.
#[test]
fn estimates_over_several_levels_are_near_the_walk() {
    let link = |factor: f64| PLogP::linear(20.0 * factor, 2.0, 50.0 / factor).unwrap();
    let mut profile = Profile::of_link("sim", "lan", link(1.0));
    for (name, factor) in [("metro", 10.0), ("wan", 100.0)] {
        profile.levels.push(treepie_model::profile::LevelProfile::new(name, link(factor)));
    }
    let mut worst = (0.0, String::new());
    for text in
        ["clusters:4x4x4", "clusters:6x3x5", "clusters:2x8x4", "clusters:8x2x8", "flat:64,ppn=8", "flat:96,ppn=24"]
    {
        let network = network(text);
        let costs = MessageCosts::on_network(&profile, &network);
        for algorithm in registry::all().iter().filter(|algorithm| algorithm.name().starts_with("hierarchical")) {
            for arguments in [
                "",
                "segments=8",
                "lan=flat",
                "segments=16,lan=chain",
                "segments=16,coordinators=4",
                "wan=chain",
                "wan=binomial",
            ] {
                let id = format!("{}:{arguments}", algorithm.id);
                let operation = operation(&algorithm.id, 0);
                let Some(schedule) = schedule(&id, operation, &network) else { continue };
                for n in [64usize, 1 << 14, 1 << 19] {
                    let arguments = closed_form::Arguments::parse(arguments).unwrap();
                    let (name, n_bytes) = (algorithm.name(), n as f64);
                    let estimate =
                        closed_form::estimate_on_clusters(name, &arguments, operation, &network, n_bytes, &profile);
                    let Some(estimate) = estimate else { continue };
                    let walked = walk::time(&*schedule, &layouts(&*schedule, n), 1.0, &costs, usize::MAX).unwrap();
                    let within = if text.starts_with("flat") { 1.34 } else { 1.25 };
                    let ratio = (estimate / walked).max(walked / estimate) / within;
                    println!("{:.2} {id} of {n} on {text}: {estimate:.0}, walked {walked:.0}", estimate / walked);
                    if ratio > worst.0 {
                        worst = (ratio, format!("{id} of {n} on {text}: {estimate:.0}, walked {walked:.0}"));
                    }
                }
            }
        }
    }
    assert!(worst.0 > 0.0 && worst.0 < 1.0, "{worst:?}");
}

/// All-to-alls over clusters of equal sizes, and of unequal ones: within half.
#[test]
fn estimates_of_alltoalls_are_near_the_walk() {
    let link = |factor: f64| PLogP::linear(20.0 * factor, 2.0, 50.0 / factor).unwrap();
    let mut profile = Profile::of_link("sim", "lan", link(1.0));
    for (name, factor) in [("metro", 10.0), ("wan", 100.0)] {
        profile.levels.push(treepie_model::profile::LevelProfile::new(name, link(factor)));
    }
    let algorithm = registry::find("alltoall/hierarchical").unwrap();
    for (text, within) in [
        ("clusters:4x4x4", 1.25),
        ("clusters:8x2x8", 1.25),
        ("flat:96,ppn=24", 1.34),
        ("clusters:20+4+9", 1.5),
        ("clusters:30+30+1+2", 1.5),
        ("clusters:(8+2)+(5+5+5)+(1+9)", 1.5),
        ("flat:62,ppn=8", 1.34),
    ] {
        let network = network(text);
        let costs = MessageCosts::on_network(&profile, &network);
        for coordinators in [1, 2, 3, 99] {
            for levels in ["all", "innermost", "outermost"] {
                let arguments = format!("levels={levels},coordinators={coordinators}");
                let id = format!("{}:{arguments}", algorithm.id);
                let schedule = schedule(&id, Operation::Alltoall, &network).unwrap();
                for n in [64usize, 1 << 14, 1 << 19] {
                    let arguments = closed_form::Arguments::parse(&arguments).unwrap();
                    let estimate = closed_form::estimate_on_clusters(
                        algorithm.name(),
                        &arguments,
                        Operation::Alltoall,
                        &network,
                        n as f64,
                        &profile,
                    )
                    .unwrap();
                    let walked = walk::time(&*schedule, &layouts(&*schedule, n), 1.0, &costs, usize::MAX).unwrap();
                    let what = format!("{id} of {n} on {text}: {estimate:.0}, walked {walked:.0}");
                    println!("{:.2} {what}", estimate / walked);
                    assert!((1.0 / within..within).contains(&(estimate / walked)), "{what}");
                }
            }
        }
    }
}
