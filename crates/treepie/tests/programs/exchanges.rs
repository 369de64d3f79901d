//! Sparse exchanges of programs on networks with a structure.

use treepie::simulate::{ClusterCosts, LinkCosts, PLogP, Settings, WanLink};
use treepie::{Comm, Error, Network, Rank, Result, SparseExchange};
use treepie_sparse::chosen_protocol;

use crate::{ok, simulate};

/// Exchanges with these distances to the neighbors, by a protocol. Returns the microseconds of all but the first, and
/// the protocol of the last one.
fn exchanges(world: &Comm, protocol: &str, neighbors: &[Rank]) -> Result<(f64, String)> {
    let comm = world.with_algorithm(protocol)?;
    let mut begin = comm.now();
    for round in 0..4u64 {
        // The first is chosen for no traffic in particular.
        if round == 1 {
            comm.barrier()?;
            begin = comm.now();
        }
        let (rank, size) = (comm.rank(), comm.size());
        let received = comm.exchange(neighbors.iter().map(|distance| ((rank + distance) % size, vec![round; 4])))?;
        let mut expected: Vec<Rank> = neighbors.iter().map(|distance| (rank + size - distance) % size).collect();
        expected.sort_unstable();
        assert!(received.iter().map(|(from, _)| *from).eq(expected));
        assert!(received.iter().all(|(_, data)| *data == [round; 4]));
    }
    Ok(((comm.now() - begin).as_secs_f64() * 1e6, chosen_protocol(&comm).unwrap().to_string()))
}

/// The time of a protocol in microseconds, and the one that was chosen.
fn micros(network: &Network, settings: &Settings, protocol: &str, neighbors: &[Rank]) -> (f64, String) {
    let result = simulate(network, settings, |world| exchanges(&world, protocol, neighbors)).unwrap();
    ok(result).into_iter().max_by(|one, other| one.0.total_cmp(&other.0)).unwrap()
}

const PROTOCOLS: [&str; 6] =
    ["exchange/pex", "exchange/pcx", "exchange/rsx", "exchange/nbx", "exchange/nbx:condition=2", "exchange/crystal"];

#[test]
fn the_chosen_protocol_is_nearly_the_fastest_on_clusters_and_tori() {
    let lan = PLogP::from_latency_bandwidth(20.0, 50.0);
    let [near, far] = [1000.0, 10_000.0].map(|latency| WanLink { latency, bandwidth: 1.0 });
    let torus: Settings = LinkCosts { per_hop: 0.1, ..LinkCosts::new(2.0, 0.002) }.into();
    let cases: [(&str, Settings); 4] = [
        ("clusters:4x8", ClusterCosts::uniform(lan.clone(), far, 4).into()),
        ("clusters:2x4x4", ClusterCosts::per_level(lan.clone(), vec![near, far]).into()),
        ("clusters:8x40", ClusterCosts::uniform(lan, far, 8).into()),
        ("torus:8x8", torus),
    ];
    for (text, settings) in cases {
        let network: Network = text.parse().unwrap();
        let few = [&[1, 9][..], &[1, 2, 9, 10, 17, 18, 25, 26]];
        // Simulations of many ranks take long.
        for neighbors in &few[..if network.ranks() > 256 { 1 } else { 2 }] {
            let times = PROTOCOLS.map(|protocol| (micros(&network, &settings, protocol, neighbors).0, protocol));
            let fastest = times.into_iter().min_by(|one, other| one.0.total_cmp(&other.0)).unwrap();
            let (chosen, protocol) = micros(&network, &settings, "exchange/auto", neighbors);
            println!("{text}, {} neighbors: {protocol} in {chosen:.0} us; {times:.0?}", neighbors.len());
            assert!(chosen < 1.3 * fastest.0, "{text}: {protocol} in {chosen} us, but {fastest:?}");
        }
    }
}

/// A rank that leaves without its part, a coordinator or not, ends the exchange of all others.
#[test]
fn a_rank_that_leaves_ends_the_exchanges_of_all() {
    let wan = WanLink { latency: 1000.0, bandwidth: 1.0 };
    let settings: Settings = ClusterCosts::uniform(PLogP::from_latency_bandwidth(20.0, 50.0), wan, 3).into();
    let network: Network = "clusters:3x3".parse().unwrap();
    for protocol in ["exchange/nbx", "exchange/rsx"] {
        for leaving in 0..9 {
            let result = simulate(&network, &settings, |world| {
                if world.rank() == leaving {
                    return None;
                }
                let comm = world.with_algorithm(protocol).unwrap();
                let right = (comm.rank() + 1) % comm.size();
                Some(comm.exchange([(right, vec![1u8])]).map(|received| received.len()))
            });
            for (rank, result) in result.unwrap().into_results().into_iter().enumerate() {
                let expected = (rank != leaving).then_some(Err(Error::PeerLost { rank: leaving }));
                assert_eq!(result, expected, "rank {rank} with {protocol}");
            }
        }
    }
}
