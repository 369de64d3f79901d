//! Rows C20, C21 and C23 of the P-LogP paper: the real links of the DAS, of which no two are alike.
//!
//! C23 says that on them segments are faster than whole messages from somewhere between 16 and 64 KB on. Here, with 16
//! ranks in each cluster, segments are faster by 4 to 5% with 16 to 64 KiB, as a cluster's own ranks get them earlier;
//! with less than that by less. They are twice as fast from 128 KiB on, once a whole message no longer fits into the
//! window of a gateway (64 KiB). With one rank in each cluster they gain nothing before. Where they begin to matter is
//! thus a factor of two or more above what was measured: what a real gateway takes ahead is not known.

mod common;

use common::{network, play_id};
use treepie_model::Machine as Paper;
use treepie_model::machines::myrinet;
use treepie_model::plogp;
use treepie_sim::costs::{Clusters, PLogP, Wide};
use treepie_sim::{Machine, Message, Settings, time};
use treepie_topology::Tie;

/// The links of the machine, and those within clusters as in the paper's simulation.
fn das() -> Settings {
    let links = Paper::Das.links().unwrap();
    let wide = |from: usize| {
        let link = |to: usize| {
            let link = links.between(from, to);
            Wide { latency: link.latency, bandwidth: 1e6 / (link.gap.at(2e6) - link.gap.at(1e6)) }
        };
        (0..links.places()).map(link).collect()
    };
    let wide = (0..links.places()).map(wide).collect();
    Clusters { local: PLogP::simple(20.0, 50.0), wide, window: Clusters::WINDOW }.into()
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
            let message =
                Message { from: a as u32, to: b as u32, bytes: 60_000, channel: 0, token: 0, tie: Tie::default() };
            machine.send(0, message);
            let expected = 2.0 * 20.0 + latency[a][b] * 1e3 + 60_000.0 * 8.0 / bandwidth[a][b];
            let there = time::micros(machine.next().unwrap().time);
            assert!((there - expected).abs() < 1e-3, "from {a} to {b}: {there} us, and {expected} is expected");
        }
    }
}

/// How many times faster a broadcast from the VU is in segments, as many as the model finds for the slowest link.
fn gain(each: u32, bytes: usize) -> f64 {
    let links = Paper::Das.links().unwrap();
    let (from, to) = links.slowest(bytes as f64).unwrap();
    let lan = myrinet();
    let wide = plogp::Wide { wan: links.between(from, to), lan: &lan };
    let segments = plogp::bcast(&wide, &lan, 4, each, bytes as u64, 1).segments;
    let network = network(&format!("clusters:4x{each}"));
    let time = |id: &str| play_id(id, &network, &das(), bytes).micros();
    let gain = time("bcast/two_layer") / time(&format!("bcast/two_layer:segments={segments},window={segments}"));
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
