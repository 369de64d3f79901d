//! Rows C20, C21 and C23 of the P-LogP paper: the real links of the DAS, no two of which are alike.
//!
//! C23 says that on them segmented messages are faster than whole ones from somewhere between 16 and 64 KB on. Here,
//! with 16 ranks in each cluster, segments are faster by 4 to 5% with 16 to 64 KiB, as ranks within a cluster get them
//! earlier; with less than that by less. They are twice as fast from 128 KiB on, once a whole message no longer fits
//! into the window of a gateway (64 KiB). With one rank in each cluster they gain nothing before. So they begin to
//! matter a factor of two or more above what was measured: the window of the real gateways is not known.

use crate::common::{network, simulate_id};
use treepie_model::PaperMachine as Paper;
use treepie_model::machines::myrinet;
use treepie_model::plogp;
use treepie_sim::costs::{ClusterCosts, PLogP, WanLink, WanLinks};
use treepie_sim::{Machine, Settings, SimMessage, time};
use treepie_topology::TieBreak;

/// The links of the machine, and those within clusters as in the paper's simulation.
fn das() -> Settings {
    let links = Paper::Das.wan_links().unwrap();
    let row = |from: usize| {
        let link = |to: usize| {
            let link = links.link(from, to);
            WanLink { latency: link.latency, bandwidth: 1e6 / (link.gap.at(2e6) - link.gap.at(1e6)) }
        };
        (0..links.num_clusters()).map(link).collect()
    };
    let wan = WanLinks::Matrix((0..links.num_clusters()).map(row).collect());
    ClusterCosts { lan: PLogP::from_latency_bandwidth(20.0, 50.0), wan, window: ClusterCosts::WINDOW }.into()
}

#[test]
fn c20_c21_links_between_clusters_may_differ_each_way() {
    // Latency in ms and bandwidth in Mb/s between VU, Leiden, UvA and Delft.
    let latency = [[0.0, 3.5, 1.5, 2.5], [3.5, 0.0, 3.0, 4.0], [1.5, 3.0, 0.0, 2.0], [2.5, 4.0, 2.0, 0.0]];
    let bandwidth = [[0.0, 5.0, 26.0, 7.0], [3.5, 0.0, 4.0, 3.0], [28.0, 6.0, 0.0, 7.5], [6.0, 4.5, 6.5, 0.0]];
    let network = network("clusters:4x1");
    for a in 0..4usize {
        for b in (0..4).filter(|b| *b != a) {
            let mut machine = Machine::new(&network, &das()).unwrap();
            let message = SimMessage {
                from: a as u32,
                to: b as u32,
                bytes: 60_000,
                channel: 0,
                token: 0,
                tie: TieBreak::default(),
            };
            machine.send(0, message);
            let expected = 2.0 * 20.0 + latency[a][b] * 1e3 + 60_000.0 * 8.0 / bandwidth[a][b];
            let arrival = time::to_micros(machine.next().unwrap().time);
            assert!((arrival - expected).abs() < 1e-3, "from {a} to {b}: {arrival} us, and {expected} is expected");
        }
    }
}

/// Speedup of a segmented broadcast from the VU, with the number of segments planned for the slowest link.
fn gain(each: u32, bytes: usize) -> f64 {
    let links = Paper::Das.wan_links().unwrap();
    let (from, to) = links.slowest_pair(bytes as f64).unwrap();
    let lan = myrinet();
    let gateway = plogp::GatewayLink { wan: links.link(from, to), lan: &lan };
    let segments = plogp::plan_bcast(&gateway, &lan, 4, each, bytes as u64, 1).segments;
    let network = network(&format!("clusters:4x{each}"));
    let time = |id: &str| simulate_id(id, &network, &das(), bytes).micros();
    let gain = time("bcast/hierarchical") / time(&format!("bcast/hierarchical:segments={segments},window={segments}"));
    println!("4 clusters of {each}, {bytes} bytes in {segments} segments: {gain:.3} times faster");
    gain
}

#[test]
fn c23_segments_win_from_some_size_on() {
    let kib = |range: std::ops::RangeInclusive<u32>| range.map(|bit| 1024usize << bit);
    for bytes in kib(0..=3) {
        assert!((1.0..1.04).contains(&gain(16, bytes)), "C23: {bytes} bytes, 16 ranks each");
    }
    for bytes in kib(4..=6) {
        assert!((1.04..1.05).contains(&gain(16, bytes)), "C23: {bytes} bytes, 16 ranks each");
    }
    for bytes in kib(0..=6) {
        assert!((gain(1, bytes) - 1.0).abs() < 1e-6, "C23: {bytes} bytes, one rank each");
    }
    for (each, bytes) in [1, 16].into_iter().flat_map(|each| kib(7..=10).map(move |bytes| (each, bytes))) {
        assert!(gain(each, bytes) > 1.9, "C23: {bytes} bytes, {each} ranks each");
    }
}
