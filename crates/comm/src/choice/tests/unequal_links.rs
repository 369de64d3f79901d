//! Choices on clusters whose links differ: trees along the fast ones.

use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_model::machines::PaperMachine;
use treepie_model::predict::MessageCosts;
use treepie_schedule::{BlockLayout, BlockLayouts, Operation};
use treepie_sim::costs::{ClusterCosts, PLogP, WanLink, WanLinks};
use treepie_sim::{BlockSizes, Settings, Workload, simulate_schedule};
use treepie_topology::Network;

use super::super::{ChoiceInput, Resources};

/// Four clusters, 20 us and 50 MB/s within.
fn four_clusters(link: impl Fn(usize, usize) -> WanLink) -> Settings {
    let rows = (0..4).map(|from| (0..4).map(|to| link(from, to)).collect()).collect();
    let lan = PLogP::from_latency_bandwidth(20.0, 50.0);
    ClusterCosts { lan, wan: WanLinks::Matrix(rows), window: ClusterCosts::WINDOW }.into()
}

/// 1 ms and 1 MB/s, and `factor` times slower from the first cluster to the second, or in both directions.
fn one_slow_link(factor: f64, is_symmetric: bool) -> Settings {
    four_clusters(|from, to| {
        let is_slow = (from, to) == (0, 1) || is_symmetric && (from, to) == (1, 0);
        WanLink { latency: 1_000.0, bandwidth: if is_slow { 1.0 / factor } else { 1.0 } }
    })
}

/// The DAS, with its twelve unequal links.   [P-LogP paper, table 2]
fn das() -> Settings {
    let links = PaperMachine::Das.wan_links().expect("the paper has them");
    four_clusters(|from, to| {
        let link = links.link(from, to);
        WanLink { latency: link.latency, bandwidth: link.bandwidth() }
    })
}

fn simulated(id: &str, spec: &CollectiveSpec<'_>, bytes: u64, settings: &Settings) -> f64 {
    let schedule = registry::build(id, spec).unwrap_or_else(|refusal| panic!("{id}: {refusal}"));
    let layout = BlockLayout::Even { total: (bytes / 8) as usize, blocks: schedule.blocks() };
    let sizes = BlockSizes::Shared(BlockLayouts::symmetric(layout));
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 8 };
    simulate_schedule(workload, spec.network, settings).expect("the simulation completes").micros()
}

/// The id of the choice, and its simulated time.
fn chosen(spec: &CollectiveSpec<'_>, bytes: u64, settings: &Settings) -> (String, f64) {
    let profile = settings.profile(spec.network);
    let costs = MessageCosts::on_network(&profile, spec.network);
    let input = ChoiceInput { spec: *spec, bytes, element: 8, costs, resources: Resources::default() };
    let id = input.best().expect("there is one").id();
    let time = simulated(&id, spec, bytes, settings);
    (id, time)
}

/// A long broadcast or reduction goes around a slow link: faster than all trees that do not know which link it is.
#[test]
fn trees_go_around_a_slow_link() {
    let network: Network = "clusters:4x4".parse().unwrap();
    for factor in [4.0, 10.0] {
        // A reduction uses links to the root.
        for (operation, is_symmetric) in [(Operation::Bcast { root: 0 }, false), (Operation::Reduce { root: 0 }, true)]
        {
            let (spec, bytes, settings) =
                (CollectiveSpec::new(operation, &network), 1 << 20, one_slow_link(factor, is_symmetric));
            let (id, time) = chosen(&spec, bytes, &settings);
            let shapes = ["flat", "chain", "binomial"].into_iter().flat_map(|wan| [(wan, 1), (wan, 3)]);
            let others = shapes.flat_map(|(wan, coordinators)| {
                ["flat", "chain"].map(|lan| {
                    format!(
                        "{}/hierarchical:wan={wan},lan={lan},segments=66,coordinators={coordinators}",
                        operation.name()
                    )
                })
            });
            let best = others.map(|other| simulated(&other, &spec, bytes, &settings)).fold(f64::INFINITY, f64::min);
            println!("{factor} times slower: {id} {time:.0} us, the best other {best:.0}");
            assert!(id.contains("wan=links4-"), "{id}");
            assert!(best >= 1.3 * time, "{id}: {time:.0} us, and the best other {best:.0}");
        }
    }
}

/// The same id serves every root: no root takes longer than over a flat tree.
#[test]
fn a_tree_along_links_serves_every_root() {
    let network: Network = "clusters:4x2".parse().unwrap();
    let (bytes, settings) = (1 << 20, one_slow_link(4.0, true));
    let (id, _) = chosen(&CollectiveSpec::new(Operation::Bcast { root: 0 }, &network), bytes, &settings);
    assert!(id.contains("wan=links4-"), "{id}");
    for root in 0..8 {
        let spec = CollectiveSpec::new(Operation::Bcast { root }, &network);
        let along = simulated(&id, &spec, bytes, &settings);
        let flat = simulated("bcast/hierarchical:wan=flat,lan=flat,segments=64", &spec, bytes, &settings);
        println!("from {root}: {along:.0} us, flat {flat:.0}");
        assert!(along <= 1.02 * flat, "from {root}: {along:.0} us, flat {flat:.0}");
    }
}

/// On the DAS no choice is slower than MagPIe's original algorithm.
#[test]
fn choices_on_the_das_are_never_slower_than_magpie() {
    let root = 0;
    for network in ["clusters:4x1", "clusters:4x4"] {
        let network: Network = network.parse().unwrap();
        for operation in [
            Operation::Bcast { root },
            Operation::Reduce { root },
            Operation::Scatter { root },
            Operation::Gather { root },
            Operation::Allgather,
        ] {
            let spec = CollectiveSpec::new(operation, &network);
            for bytes in [1 << 10, 64 << 10, 1 << 20] {
                let (id, time) = chosen(&spec, bytes, &das());
                let magpie = simulated(&format!("{}/magpie", operation.name()), &spec, bytes, &das());
                let what = format!("{network}: {id} of {bytes} B {time:.0} us, MagPIe {magpie:.0}");
                println!("{:.2} {what}", magpie / time);
                assert!(time <= 1.01 * magpie, "{what}");
            }
        }
    }
}

/// On more ranks than are walked over, too.
#[test]
fn trees_of_many_ranks_go_around_a_slow_link() {
    let network: Network = "clusters:4x80".parse().unwrap();
    let (spec, bytes) = (CollectiveSpec::new(Operation::Bcast { root: 0 }, &network), 1 << 20);
    let settings = one_slow_link(10.0, false);
    let (id, time) = chosen(&spec, bytes, &settings);
    let others = ["wan=flat,lan=binomial,segments=64", "wan=chain,lan=chain,segments=64", "segments=66,coordinators=3"];
    let others = others.map(|arguments| simulated(&format!("bcast/hierarchical:{arguments}"), &spec, bytes, &settings));
    let best = others.into_iter().fold(f64::INFINITY, f64::min);
    println!("{id} {time:.0} us, the best other {best:.0}");
    assert!(id.contains("wan=links4-") && best >= 1.3 * time, "{id}: {time:.0} us, and the best other {best:.0}");
}

/// Long broadcasts over the DAS follow its fast links, also where segments gain nothing over a flat tree.
#[test]
fn long_broadcasts_on_the_das_follow_its_fast_links() {
    let network: Network = "clusters:4x1".parse().unwrap();
    let spec = CollectiveSpec::new(Operation::Bcast { root: 0 }, &network);
    for bytes in [256 << 10, 512 << 10, 1 << 20, 4 << 20] {
        let (id, time) = chosen(&spec, bytes, &das());
        let flat = simulated("bcast/flat", &spec, bytes, &das());
        println!("{bytes} B: {id} {time:.0} us, flat {flat:.0}");
        assert!(id.contains("wan=links4-") && flat >= 1.15 * time, "{bytes} B: {id} {time:.0} us, flat {flat:.0}");
    }
}
