//! Choices on hosts of several ranks, whose messages are cheaper within a host.

use treepie_collectives::registry::{self, CollectiveSpec, NetworkRequirement};
use treepie_model::Profile;
use treepie_model::predict::MessageCosts;
use treepie_schedule::Operation;
use treepie_sim::Settings;
use treepie_sim::costs::{LogGP, SharedMemoryCosts};
use treepie_topology::Network;

use super::super::{ChoiceInput, HostSlots, Resources, Transport};
use super::simulated_on;

/// Messages of 20 us between hosts, and 0.5 us within.
fn settings() -> Settings {
    let costs = LogGP { latency: 20.0, overhead: 0.5, gap: 1.0, per_byte: 0.001 };
    Settings { shared_memory: SharedMemoryCosts { latency: 0.5, bandwidth: 5000.0 }, ..costs.into() }
}

#[test]
fn hierarchical_algorithms_are_chosen_where_they_are_faster() {
    let settings = settings();
    let mut hierarchical = 0;
    for text in ["flat:16,ppn=4", "flat:64,ppn=16", "flat:32,ppn=8@0+8+16+24+1+9+17+25+2+10+18+26"] {
        let network: Network = text.parse().unwrap();
        let profile = settings.profile(&network);
        for operation in Operation::all(0) {
            let spec = CollectiveSpec::new(operation, &network);
            for bytes in [64, 64 << 10] {
                let costs = MessageCosts::on_network(&profile, &network);
                let input = ChoiceInput { spec, bytes, element: 1, costs, resources: Resources::default() };
                let id = input.best().expect("there is one").id();
                let time = simulated_on(&id, &spec, bytes, &settings);
                let others = registry::applicable(&spec).into_iter();
                let others = others.filter(|algorithm| algorithm.requires.network == NetworkRequirement::Any);
                let times = others.map(|algorithm| simulated_on(&algorithm.id, &spec, bytes, &settings));
                let best = times.fold(f64::INFINITY, f64::min);
                let what = format!("{id} of {bytes} B on {text}: {time:.1} us; without hosts {best:.1}");
                println!("{what}");
                hierarchical += u32::from(registry::find(&id).unwrap().requires.network != NetworkRequirement::Any);
                // Ports of receiving hosts are not modelled, so a reduction may be chosen that is a little slower.
                assert!(time < 1.25 * best, "{what}");
                use Operation::{Allgather, Allreduce, Barrier, ReduceScatter};
                let is_one_latency =
                    bytes == 64 && matches!(operation, Allgather | Allreduce | Barrier | ReduceScatter);
                assert!(!is_one_latency || best > 1.6 * time, "{what}");
            }
        }
    }
    assert!(hierarchical > 40, "of 66, {hierarchical} are hierarchical");
}

/// Within hosts ranks use their segments, if they have some, and a core each.
#[test]
fn segments_of_hosts_are_used_where_they_are_faster() {
    use Operation::{Allgather, Allreduce, Barrier};
    let network: Network = "flat:32,ppn=8".parse().unwrap();
    let mut profile = settings().profile(&network);
    let machine = Profile::on_machine(8.0);
    (profile.shared_segment, profile.scheduling) = (machine.shared_segment, machine.scheduling);
    let best = |operation, bytes, host_slots| {
        let resources = Resources { host_slots, ..Resources::default() };
        let spec = CollectiveSpec::new(operation, &network);
        let costs = MessageCosts::on_network(&profile, &network);
        let input = ChoiceInput { spec, bytes, element: 8, costs, resources };
        let best = input.best().unwrap();
        (best.id(), best.transport, best.prediction.total())
    };
    for operation in [Barrier, Operation::Bcast { root: 9 }, Operation::Reduce { root: 9 }, Allreduce, Allgather] {
        let bytes = if operation == Allgather { 256 } else { 8 };
        let (other, _, by_messages) = best(operation, bytes, None);
        let (id, transport, time) = best(operation, bytes, Some(HostSlots::DEDICATED));
        println!("{id} {time:.1} us, {other} {by_messages:.1} us");
        assert!(transport == Transport::Hosts && time < by_messages && id.contains("/smp:inter="), "{id}");
        // Ranks that share cores wait for each other in each round.
        let (_, _, crowded) = best(operation, bytes, Some(HostSlots { ranks_per_core: 8, ..HostSlots::DEDICATED }));
        assert!(crowded > time, "{id}: {crowded:.1} us");
    }
    let given = |id: &str| {
        let spec = CollectiveSpec::new(Operation::Bcast { root: 0 }, &network);
        let costs = MessageCosts::on_network(&profile, &network);
        let resources = Resources { host_slots: Some(HostSlots::DEDICATED), ..Resources::default() };
        ChoiceInput { spec, bytes: 8 << 20, element: 8, costs, resources }.complete(id, None)
    };
    // An algorithm that is given has the segments that it would be chosen with.
    let (segments, transport) = given("bcast/smp:inter=chain");
    assert!(segments > 4 && transport == Transport::Hosts, "{segments}");
    assert_eq!(given("bcast/smp"), (1, Transport::Hosts));
}

/// On more ranks than are walked over, too, with ranks in order and dealt to the hosts in turn.
#[test]
fn hierarchical_algorithms_are_chosen_on_many_ranks() {
    let settings = settings();
    let round_robin: Vec<u32> = (0..512).map(|rank| rank % 16 * 32 + rank / 16).collect();
    let in_order: Network = "flat:512,ppn=32".parse().unwrap();
    let dealt = in_order.clone().with_placement(round_robin).unwrap();
    for (network, name) in [(&in_order, "in order"), (&dealt, "dealt")] {
        let profile = settings.profile(network);
        for operation in [Operation::Barrier, Operation::Allgather, Operation::Allreduce, Operation::Bcast { root: 3 }]
        {
            let spec = CollectiveSpec::new(operation, network);
            let costs = MessageCosts::on_network(&profile, network);
            // The least that the best algorithm without hosts takes longer, of short and long messages.
            for (bytes, gain) in [(64, 1.5), (1 << 20, 0.98)] {
                let input = ChoiceInput { spec, bytes, element: 1, costs, resources: Resources::default() };
                let best = input.best().expect("there is one");
                let (id, predicted) = (best.id(), best.prediction.total());
                let time = simulated_on(&id, &spec, bytes, &settings);
                let others = registry::applicable(&spec).into_iter().filter(|algorithm| {
                    // The others of 512 ranks take long to simulate.
                    ["recursive_doubling", "dissemination", "binomial", "tree", "ring", "bruck", "chain"]
                        .contains(&algorithm.name())
                });
                let times = others.map(|algorithm| simulated_on(&algorithm.id, &spec, bytes, &settings));
                let other = times.fold(f64::INFINITY, f64::min);
                let what =
                    format!("{id} of {bytes} B, {name}: {time:.1} us, predicted {predicted:.1}; without {other:.1}");
                println!("{what}");
                let is_hierarchical = registry::find(&id).unwrap().requires.network != NetworkRequirement::Any;
                assert!(is_hierarchical || gain < 1.5, "{what}");
                assert!(time * gain <= other && (0.6..1.5).contains(&(predicted / time)), "{what}");
            }
        }
    }
}
