//! Exchanges by events in LogGP: rows A11 to A13 of the NBX paper, B13 to B15 of the RandomAccess paper.

use crate::common::{loggp, simulate_id};
use treepie_model::PaperMachine as Paper;
use treepie_sim::SimResult;
use treepie_topology::Network;

/// The bound of the paper, G(P-1) + (L + 2o - G) lg P, is the time of a halving exchange with a byte for each rank.
#[test]
fn a11_a12_a13_personalised_census() {
    for (row, machine, times) in [
        ("A11", Paper::Intrepid, [70.5304, 103.0047, 152.2253, 184.1252]),
        ("A12", Paper::BigRed, [214.9768, 310.5938, 432.1769, 496.7277]),
        ("A13", Paper::Jaguar, [93.8696, 134.5875, 178.9432, 197.0940]),
    ] {
        for (ranks, expected) in [128, 1024, 8192, 16384].into_iter().zip(times) {
            for id in ["reduce_scatter/distance_halving", "reduce_scatter/distance_doubling"] {
                let micros = simulate_id(id, &Network::flat(ranks), &machine.loggp().unwrap().into(), 1).micros();
                assert!((micros - expected).abs() < 1e-3, "{row}: {id} of {ranks} takes {micros}, not {expected}");
            }
        }
    }
}

/// Messages and bytes that a rank sends, with a byte for each rank.
fn sent(id: &str, ranks: u32) -> (u64, u64) {
    let SimResult { messages, bytes, .. } = simulate_id(id, &Network::flat(ranks), &loggp(), 1);
    let all = u64::from(ranks);
    assert!(messages.is_multiple_of(all) && bytes.is_multiple_of(all), "{id}: ranks send alike");
    (messages / all, bytes / all)
}

#[test]
fn b13_b14_b15_messages_and_volume() {
    // 0.9999 and 1.98 times the data, with 10,000 ranks in two dimensions; in one dimension with fewer.
    assert_eq!(sent("alltoall/grid:1", 500), (499, 499), "B13");
    assert_eq!(sent("alltoall/grid:2", 10_000), (198, 19_800), "B13");
    // 13 messages, and 6.5 times the data, which are 1024 updates of 8 bytes here: messages have 4096.
    let (messages, bytes) = sent("alltoall/hypercube", 8192);
    assert_eq!((messages, bytes), (13, 13 * 8192 / 2), "B14");
    assert_eq!(bytes / messages, 4096, "B15: Q = 1024");
    let (messages, bytes) = sent("alltoall/hypercube", 65_536);
    assert_eq!(bytes / messages, 32_768, "B15: Q = 8192");
}
