//! What is chosen, and that it is near the best in the simulator.

mod hosts;
mod three_levels;
mod unequal_links;
mod wide_area;

use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_model::predict::MessageCosts;
use treepie_schedule::{BlockLayout, BlockLayouts, Operation};
use treepie_sim::Settings;
use treepie_topology::Network;

use super::{Candidate, ChoiceInput, Resources, size_class};

fn chosen(spec: CollectiveSpec<'_>, bytes: u64) -> String {
    chosen_candidate(spec, bytes).id()
}

fn chosen_candidate(spec: CollectiveSpec<'_>, bytes: u64) -> Candidate {
    let profile = Settings::for_network(spec.network).unwrap().profile(spec.network);
    let costs = MessageCosts::on_network(&profile, spec.network);
    ChoiceInput { spec, bytes, element: 1, costs, resources: Resources::default() }.best().expect("there is one")
}

/// Of more ranks than are counted, a sample has nearly the work of all.
#[test]
fn a_sample_of_many_ranks_has_their_work() {
    let mut worst = (0.0, String::new());
    for ranks in [65, 96, 128, 200, 256, 1000] {
        let (network, profile) = (Network::flat(ranks), treepie_model::Profile::on_machine(8.0));
        let costs = MessageCosts::on_machine(&profile, &network, 8.0);
        for operation in Operation::all(3) {
            let spec = CollectiveSpec::new(operation, &network);
            for algorithm in treepie_collectives::registry::applicable(&spec) {
                let arguments = treepie_model::closed_form::Arguments::default();
                let input = ChoiceInput { spec, bytes: 1 << 16, element: 1, costs, resources: Resources::default() };
                let Some(work) = input.work(algorithm, &arguments) else { continue };
                let schedule = treepie_collectives::registry::build(&super::variants::id(algorithm, &arguments), &spec);
                let schedule = schedule.unwrap();
                if ranks == 1000 && schedule.phases() > 3 {
                    continue;
                }
                let all = treepie_schedule::count::count_work(&*schedule, &input.layouts(&*schedule), 0..ranks);
                let off = (work.messages - all.messages as f64).abs() / all.messages.max(1) as f64;
                let what = format!("{} on {ranks} ranks: {} instead of {}", algorithm.id, work.messages, all.messages);
                if off > worst.0 {
                    worst = (off, what.clone());
                }
                assert!(off < 0.35, "{what}");
            }
        }
    }
    println!("{worst:?}");
}

fn selected(operation: Operation, network: &str, bytes: u64) -> String {
    chosen(CollectiveSpec::new(operation, &network.parse().unwrap()), bytes)
}

#[test]
fn buckets_are_for_long_blocks_and_doubling_for_short_ones() {
    let of_blocks = |bytes: u64| selected(Operation::Allgather, "torus:8x16x32", 4096 * bytes);
    assert_eq!(of_blocks(64 << 10), "allgather/bucket_k");
    assert_eq!(of_blocks(8), "allgather/alternating");
    assert_eq!(selected(Operation::ReduceScatter, "torus:8x16x32", 4096 << 16), "reduce_scatter/bucket_k");
}

#[test]
fn segments_that_an_id_names_are_kept() {
    let network: Network = "flat:16".parse().unwrap();
    let profile = Settings::for_network(&network).unwrap().profile(&network);
    let spec = CollectiveSpec::new(Operation::Bcast { root: 0 }, &network);
    let costs = MessageCosts::on_network(&profile, &network);
    let input = ChoiceInput { spec, bytes: 1 << 20, element: 8, costs, resources: Resources::default() };
    for id in ["bcast/chain:segments=7", "bcast/chain:window=8,segments=7", "bcast/binomial"] {
        assert_eq!(input.with_segments(id), id);
    }
    for (id, prefix) in [("bcast/chain", ':'), ("bcast/chain:window=8", ',')] {
        let planned = input.with_segments(id);
        let segments = planned.strip_prefix(&format!("{id}{prefix}segments=")).map(str::parse::<u32>);
        assert!(matches!(segments, Some(Ok(2..))), "{planned}");
        // That is all of them.
        assert_eq!(input.with_segments(&planned), planned);
    }
}

#[test]
fn distance_halving_is_selected_on_a_clos_network() {
    assert_eq!(selected(Operation::Allgather, "clos:r80,t64,n4096", 4096 * 64), "allgather/distance_halving");
}

#[test]
fn selected_algorithms_can_be_built_for_a_non_commutative_operator() {
    for network in ["torus:2x4", "torus:4x4x4", "mesh:3x5", "clos:r8,t4,n32", "clusters:3x4", "flat:13"] {
        let network: Network = network.parse().unwrap();
        for operation in Operation::all(0) {
            for bytes in [8, 64 << 10, 16 << 20] {
                let spec = CollectiveSpec { commutative: false, ..CollectiveSpec::new(operation, &network) };
                let id = chosen(spec, bytes);
                assert!(registry::build(&id, &spec).is_ok(), "{id} on {network}");
            }
        }
    }
}

#[test]
fn algorithms_selected_for_many_ranks_can_be_built() {
    for network in ["torus:7x8x9", "torus:16x16x16", "mesh:30x17", "clos:r80,t64,n4096", "clusters:20x30", "flat:1021"]
    {
        let network: Network = network.parse().unwrap();
        for operation in Operation::all(0) {
            for bytes in [8, 64 << 10, 16 << 20] {
                let spec = CollectiveSpec::new(operation, &network);
                let id = chosen(spec, bytes);
                assert!(registry::build(&id, &spec).is_ok(), "{id} on {network}");
            }
        }
    }
}

/// Time in the simulator, in microseconds.
fn simulated(id: &str, spec: &CollectiveSpec<'_>, bytes: u64) -> f64 {
    simulated_on(id, spec, bytes, &Settings::for_network(spec.network).unwrap())
}

/// The same with other settings.
fn simulated_on(id: &str, spec: &CollectiveSpec<'_>, bytes: u64, settings: &Settings) -> f64 {
    let schedule = registry::build(id, spec).unwrap_or_else(|refusal| panic!("{id}: {refusal}"));
    let layout = BlockLayout::Even { total: bytes as usize, blocks: schedule.blocks() };
    let sizes = treepie_sim::BlockSizes::Shared(BlockLayouts::symmetric(layout));
    let workload = treepie_sim::Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    treepie_sim::simulate_schedule(workload, spec.network, settings).expect("the simulation completes").micros()
}

#[test]
fn selected_algorithms_are_within_a_factor_of_the_best() {
    let mut worst = (1.0, String::new());
    for network in [
        "torus:4x4x4",
        "torus:15x15",
        if std::env::var_os("TREEPIE_LONG").is_some() { "mesh:15x15" } else { "mesh:9x9" },
        "mesh:3x5",
        "clos:r24,t12,n144",
        "clos:r8,t4,n32",
        "clusters:8x4",
        "flat:12",
    ] {
        let network: Network = network.parse().unwrap();
        for operation in Operation::all(0) {
            let spec = CollectiveSpec::new(operation, &network);
            for bytes in [8, 64 << 10, 1 << 20] {
                let selected = chosen(spec, bytes);
                let time = simulated(&selected, &spec, bytes);
                let all = registry::applicable(&spec);
                let (best, of) = all
                    .iter()
                    .map(|algorithm| (simulated(&algorithm.id, &spec, bytes), &algorithm.id))
                    .min_by(|(a, _), (b, _)| a.total_cmp(b))
                    .expect("some algorithm is applicable");
                let what = format!("{selected} for {bytes} bytes on {network}: {time:.1} us, and {of} takes {best:.1}");
                println!("{:.2} {what}", time / best.max(1e-9));
                if time > worst.0 * best {
                    worst = (time / best, what);
                }
            }
        }
    }
    assert!(worst.0 < 3.0, "{:.2} times as long as the best: {}", worst.0, worst.1);
}

/// Where neither a formula nor a walk gives a time, the choice is that of a flat network, not the first algorithm.
#[test]
fn many_ranks_without_formulas_choose_as_on_a_flat_network() {
    let placed = "torus:32x32".parse::<Network>().unwrap().subnetwork(&(0..600).step_by(2).collect::<Vec<u32>>());
    for network in ["clusters:8x64".parse().unwrap(), "clos:r80,t64,n300".parse().unwrap(), placed] {
        let id = chosen(CollectiveSpec::new(Operation::Allreduce, &network), 8 << 20);
        assert_ne!(id, "allreduce/linear", "on {} ranks", network.ranks());
    }
}

#[test]
fn size_classes_end_at_powers_of_two() {
    for bytes in 0..70_000u64 {
        let class = size_class(bytes);
        assert!(class >= bytes && (class - bytes) * 4 <= bytes, "{bytes} is in the class of {class}");
        assert_eq!(size_class(class), class, "{bytes}");
    }
    assert_eq!([0, 1, 7, 8, 9, 1024, 1025, 1100, 1 << 20].map(size_class), [0, 1, 7, 8, 10, 1024, 1280, 1280, 1 << 20]);
}
