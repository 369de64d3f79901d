//! Nested clusters: a WAN link per level.

use crate::common::{network, simulate_id, wide_area};
use treepie_sim::costs::{ClusterCosts, PLogP, WanLink};
use treepie_sim::{Machine, Settings, SimEventKind, SimMessage};
use treepie_topology::{Network, TieBreak};

const MIB: usize = 1 << 20;

fn lan() -> PLogP {
    PLogP::from_latency_bandwidth(20.0, 50.0)
}

/// 100 us and 10 MB/s between the clusters of a site, 10 ms and 1 MB/s between sites.
fn two_levels() -> Settings {
    let metro = WanLink { latency: 100.0, bandwidth: 10.0 };
    ClusterCosts::per_level(lan(), vec![metro, WanLink { latency: 10_000.0, bandwidth: 1.0 }]).into()
}

/// Microseconds at which the messages of these pairs, sent at 0, are delivered, by receiver.
fn deliver(network: &Network, settings: &Settings, messages: &[(u32, u32, u64)]) -> Vec<(u32, f64)> {
    let mut machine = Machine::new(network, settings).unwrap();
    for &(from, to, bytes) in messages {
        machine.send(0, SimMessage { from, to, bytes, channel: 0, token: 0, tie: TieBreak::Plus });
    }
    let mut delivered = Vec::new();
    while let Some(event) = machine.next() {
        if let SimEventKind::Delivered { .. } = event.kind {
            delivered.push((event.rank, event.time as f64 / 1e6));
        }
    }
    delivered.sort_by_key(|(rank, _)| *rank);
    delivered
}

#[test]
fn a_message_takes_the_link_of_the_level_on_which_its_ranks_meet() {
    let network = network("clusters:2x2x2");
    // 1000 bytes: 20 + 20 within a cluster; 20 + 1000/10 + 100 + 20 between clusters; 20 + 1000 + 10000 + 20 between
    // sites.
    for (to, time) in [(1, 40.0), (2, 240.0), (3, 240.0), (4, 11_040.0), (7, 11_040.0)] {
        assert_eq!(deliver(&network, &two_levels(), &[(0, to, 1000)]), [(to, time)]);
    }
}

#[test]
fn each_pair_of_groups_has_its_own_link() {
    let network = network("clusters:(2+2+2)+(1+1)");
    // From clusters 0 and 1 to the other site: one link of their site. Between clusters: a link for each pair.
    let messages = [(0, 6, 1000), (2, 7, 1000), (1, 3, 1000), (4, 5, 1000), (5, 2, 1000)];
    let expected = [(2, 240.0), (3, 240.0), (5, 40.0), (6, 11_040.0), (7, 12_040.0)];
    assert_eq!(deliver(&network, &two_levels(), &messages), expected);
    // From one cluster to two others of its site at once.
    assert_eq!(deliver(&network, &two_levels(), &[(0, 2, 1000), (1, 4, 1000)]), [(2, 240.0), (4, 240.0)]);
    // To the two clusters of the other site and back at once: different directions.
    assert_eq!(deliver(&network, &two_levels(), &[(0, 6, 1000), (7, 1, 1000)]), [(1, 11_040.0), (6, 11_040.0)]);
}

#[test]
fn one_level_is_the_matrix_of_equal_links() {
    let wan = WanLink { latency: 10_000.0, bandwidth: 1.0 };
    for (text, clusters) in [("clusters:3+5+8", 3), ("clusters:4x4", 4)] {
        for id in ["bcast/hierarchical", "allgather/ring", "gather/in_turn"] {
            let per_level = ClusterCosts::per_level(lan(), vec![wan]).into();
            let times = [wide_area(clusters), per_level].map(|it| simulate_id(id, &network(text), &it, 5000).micros());
            assert_eq!(times[0], times[1], "{id} on {text}");
        }
    }
}

/// An outer level with one group has no messages: those within it take the same time as without it.
#[test]
fn a_level_of_one_group_changes_nothing() {
    let wan = WanLink { latency: 10_000.0, bandwidth: 1.0 };
    let never = WanLink { latency: 1e9, bandwidth: 1e-6 };
    for id in
        ["bcast/hierarchical", "reduce/hierarchical", "scatter/hierarchical", "allgather/hierarchical_gather_bcast"]
    {
        let time = |text, links| simulate_id(id, &network(text), &ClusterCosts::per_level(lan(), links).into(), 5000);
        let plain = time("clusters:4x3", vec![wan]).micros();
        assert_eq!(plain, time("clusters:1x4x3", vec![wan, never]).micros(), "{id}");
        assert_eq!(plain, time("clusters:4x1x3", vec![never, wan]).micros(), "{id}");
    }
}

/// A tree over all levels crosses the slow links between two sites once; a tree over the clusters alone, once for each
/// cluster of the other site.
#[test]
fn a_broadcast_crosses_the_slowest_links_once() {
    let bytes = MIB / 4;
    let nested = simulate_id("bcast/hierarchical", &network("clusters:2x8x2"), &two_levels(), bytes).micros();
    let flat = simulate_id("bcast/in_turn", &network("clusters:2x8x2"), &two_levels(), bytes).micros();
    let crossing = bytes as f64 + 10_000.0;
    assert!((crossing..1.9 * crossing).contains(&nested), "{nested}");
    assert!(flat > 8.0 * crossing, "{flat}");
}

#[test]
fn links_for_another_number_of_levels_are_refused() {
    let refusal = |text: &str, settings: &Settings| Machine::new(&network(text), settings).unwrap_err().to_string();
    assert_eq!(
        refusal("clusters:2x2x2", &wide_area(4)),
        "the clusters have 2 levels of WAN links, and the costs 1: a matrix is for one level"
    );
    assert!(
        refusal("clusters:2x2", &two_levels()).starts_with("the clusters have 1 levels of WAN links, and the costs 2")
    );
    assert!(
        Machine::new(&network("clusters:2x2x2"), &Settings::for_network(&network("clusters:2x2x2")).unwrap()).is_ok()
    );
}
