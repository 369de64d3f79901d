//! Which algorithm is faster in figures 3.3 to 3.13 of the thesis, as far as its text (3.5.2 to 3.5.5) says so, by
//! formulas with the cost parameters of its Blue Gene/P. Rows E10, E23, E24 and E38 are numbers of the same.
//!
//! Of E37, the share of shuffling blocks, the bounds of the text are asserted: for six buckets with any n, for doubling
//! from 256 bytes on (with less, one start-up more is up to a tenth; the text does not say at how many bytes the figure
//! starts).
//!
//! Not here: the native algorithms (E39, E42), which use another network; reordering in memory (figure 3.8), which
//! costs nothing in the model.

use crate::common::{network, operation};
use treepie_model::closed_form;
use treepie_model::machines::PaperMachine;
use treepie_topology::Network;

/// Bytes per microsecond that each rank receives, n from each.
fn speed(id: &str, network: &Network, n: f64) -> f64 {
    let others = f64::from(network.ranks() - 1);
    let time = closed_form::time(id, operation(id, 0), network, n, &PaperMachine::Bgp.cost_params());
    n * others / time.unwrap_or_else(|| panic!("{id} on {network}"))
}

fn assert_decreasing(figure: &str, ids: &[&str], network: &Network, n: f64) {
    let speeds: Vec<f64> = ids.iter().map(|id| speed(id, network, n)).collect();
    assert!(speeds.windows(2).all(|two| two[0] > two[1]), "figure {figure} on {network} with {n}: {ids:?} {speeds:?}");
}

/// One port: distance doubling, distance halving, reordered, bucket.
const ONE_PORT: [&str; 4] = ["bucket", "torus_reordered:moved", "distance_halving:moved", "distance_doubling"];

#[test]
fn figures_3_3_and_3_4_one_port() {
    for (text, reordered) in [("torus:8x8x8", 333.0), ("torus:32x32x32", 323.0)] {
        let network = network(text);
        let ids = ONE_PORT.map(|name| format!("allgather/{name}"));
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        for n in [4096.0, 32768.0] {
            assert_decreasing("3.3", &ids, &network, n);
        }
        // The fewest start-ups win with the shortest vectors.
        assert!(speed(ids[1], &network, 16.0) > speed(ids[0], &network, 16.0), "figure 3.3 on {text}");
        assert!(
            (speed(ids[0], &network, 1e7) / 375.0 - 1.0).abs() < 0.005,
            "figure 3.3 on {text}: the bucket fills a link"
        );
        assert!((speed(ids[1], &network, 1e7) / reordered - 1.0).abs() < 0.005, "figure 3.3 on {text}");
    }
    // With long vectors the size of the torus hardly matters, with short ones it does.
    let range = |id, n| {
        let speeds = ["torus:8x8x8", "torus:8x16x32", "torus:32x32x32"].map(|text| speed(id, &network(text), n));
        speeds.into_iter().fold(0.0, f64::max) / speeds.into_iter().fold(f64::INFINITY, f64::min)
    };
    for id in ["allgather/bucket", "allgather/torus_reordered:moved"] {
        assert!(range(id, 32768.0) < 1.06 && range(id, 64.0) > 1.5, "figure 3.4: {id}");
    }
}

#[test]
fn figures_3_5_and_3_6_several_ports() {
    for (text, n) in
        [("torus:8x8x8", 4096.0), ("torus:8x16x32", 4096.0), ("torus:32x32x32", 512.0), ("torus:32x32x32", 32768.0)]
    {
        let ids = ["allgather/bucket_k:6,moved", "allgather/bucket_k:3,moved", "allgather/bucket"];
        assert_decreasing("3.5", &ids, &network(text), n);
    }
    let large = network("torus:32x32x32");
    for (id, delivered) in [("allgather/bucket_k:3", 1120.0), ("allgather/bucket_k:6", 2075.0)] {
        let got = speed(id, &large, 32768.0);
        assert!((got / delivered - 1.0).abs() < 0.01, "figure 3.5: {id} {got} where {delivered} was delivered");
    }
    // With the shortest vectors, fewer messages win on the small torus.
    assert_decreasing(
        "3.5",
        &["allgather/torus_reordered:moved", "allgather/bucket", "allgather/bucket_k:6"],
        &network("torus:8x8x8"),
        64.0,
    );
}

#[test]
fn figure_3_7_e37_the_share_of_shuffling_blocks() {
    let params = PaperMachine::Bgp.cost_params();
    let share = |id: &str, network: &Network, n: f64, aligned: bool| {
        let terms = |id: &str| closed_form::terms(id, operation(id, 0), network, n).unwrap();
        let (core, mut shuffled) = (terms(id), terms(&format!("{id}:moved")));
        if aligned {
            shuffled = shuffled.then(closed_form::bucket_alignment(network, n));
        }
        1.0 - params.time(&core, network) / params.time(&shuffled, network)
    };
    for (text, doubling, buckets) in [("torus:8x8x8", 0.023, 0.07), ("torus:32x32x32", 0.023, 0.026)] {
        let network = network(text);
        let most = |id, aligned, from: u32| {
            let shares = (from..=20).map(|bit| share(id, &network, f64::from(1 << bit), aligned));
            shares.fold(0.0, f64::max)
        };
        let (of_doubling, of_buckets) =
            (most("allgather/torus_reordered", false, 8), most("allgather/bucket_k", true, 0));
        println!("E37 on {text}: doubling {of_doubling:.4}, six buckets {of_buckets:.4}");
        assert!(of_doubling > 0.0 && of_doubling <= doubling, "E37 on {text}: {of_doubling}");
        assert!(of_buckets > of_doubling && of_buckets <= buckets, "E37 on {text}: {of_buckets}");
    }
}

#[test]
fn figures_3_9_and_3_12_meshes() {
    for operation in ["allgather", "reduce_scatter"] {
        let id = |buckets: u32| format!("{operation}/bucket_k:{buckets}");
        for text in ["mesh:2x2x4", "mesh:4x4x4", "mesh:8x8x8", "mesh:16x16x16"] {
            for n in [512.0, 32768.0] {
                assert_decreasing("3.9", &[&id(3), &id(6)], &network(text), n);
            }
        }
        // Toroidal in one or two dimensions: four or five buckets, as the text guesses.
        for (text, buckets) in [("torus:32x16x16,wrap=ynn", 4), ("torus:32x32x16,wrap=yyn", 5)] {
            let network = network(text);
            let chosen = format!("{operation}/bucket_k");
            let ports = closed_form::terms(&chosen, crate::common::operation(&chosen, 0), &network, 1.0);
            assert_eq!(ports.unwrap().ports, buckets, "figure 3.9 on {text}");
            assert_decreasing("3.9", &[&chosen, &id(3)], &network, 32768.0);
        }
    }
}

#[test]
fn figures_3_10_and_3_11_reduce_scatter() {
    // Names are those of the allgathers that run backwards: halving distances backwards is doubling them.
    for text in ["torus:8x8x8", "torus:8x16x32", "torus:32x32x32"] {
        let ids = ["bucket_k:6,moved", ONE_PORT[0], ONE_PORT[1], ONE_PORT[2], ONE_PORT[3]]
            .map(|name| format!("reduce_scatter/{name}"));
        assert_decreasing("3.10", &ids.each_ref().map(String::as_str), &network(text), 32768.0);
    }
    // Except with short vectors on the small torus.
    assert_decreasing(
        "3.10",
        &["reduce_scatter/torus_reordered:moved", "reduce_scatter/bucket_k:6,moved"],
        &network("torus:8x8x8"),
        128.0,
    );
    assert_decreasing(
        "3.10",
        &["reduce_scatter/bucket_k:6,moved", "reduce_scatter/torus_reordered:moved"],
        &network("torus:32x32x32"),
        128.0,
    );
}

#[test]
fn figure_3_13_broadcast() {
    for text in ["torus:8x8x8", "torus:32x32x32"] {
        let network = network(text);
        let ids = ["bucket_k", "bucket", "torus_reordered", "distance_halving", "distance_doubling"]
            .map(|core| format!("bcast/scatter_allgather:{core}"));
        let ids = ids.each_ref().map(String::as_str);
        // The vector is n from each rank.
        let n = 32768.0 * f64::from(network.ranks());
        assert_decreasing("3.13", &ids, &network, n);
        let closely = speed(ids[1], &network, n) / speed(ids[2], &network, n);
        assert!(closely < 1.1, "figure 3.13 on {text}: {closely}");
        assert!(speed(ids[3], &network, n) > 1.1 * speed(ids[4], &network, n), "figure 3.13 on {text}: far more");
    }
}
