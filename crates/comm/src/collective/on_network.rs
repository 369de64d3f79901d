//! The choice of an algorithm on a network whose links messages share: by the model's closed forms.
//!
//! Not every algorithm has one on every network. What would be a candidate on a flat network is then priced as there, with
//! its bytes taken to meet as many others on their links as they can at worst: with short messages, where start-ups are all,
//! that is right, and with long ones another that is made for the network wins.
//!
//! Where ranks are on one machine, a network that was named says nothing of what messages cost there; see
//! [`candidates`](super::candidates).

use treepie_collectives::registry::{self, Parameter, Request};
use treepie_model::{Prices, closed};
use treepie_schedule::Operation;
use treepie_topology::Kind;

use super::candidates::candidates;
use super::cost::Candidate;

/// The id of the cheapest algorithm that applies; `bytes` are those of all blocks, or of the vector.
pub(super) fn cheapest(request: &Request<'_>, bytes: usize, prices: &Prices) -> Option<String> {
    let (ranks, bytes) = (f64::from(request.ranks), bytes as f64);
    let n = match request.operation {
        Operation::Allgather | Operation::ReduceScatter | Operation::Gather { .. } | Operation::Scatter { .. } => {
            bytes / ranks
        }
        _ => bytes,
    };
    let by_formula = |id: &str| closed::time(id, request.operation, request.network, n, prices);
    let as_if_flat = |id: &str| {
        // A chain is for many segments, which its price there takes for granted.
        let is_it = |candidate: &&Candidate| candidate.id == id && id != "bcast/chain";
        let candidate = candidates(request.operation).iter().find(is_it)?;
        Some(at_worst(candidate, request, bytes, prices))
    };
    let priced = registry::applicable(request).into_iter().filter_map(|algorithm| {
        // A pipeline is built with as many segments as the request says.
        let id = match request.parameters.segments {
            segments @ 2.. if algorithm.parameters.contains(&Parameter::Segments) => {
                format!("{}:segments={segments}", algorithm.id)
            }
            _ => algorithm.id.clone(),
        };
        Some((by_formula(&id).or_else(|| as_if_flat(&algorithm.id))?, algorithm.id.clone()))
    });
    let mut priced: Vec<(f64, String)> = priced.collect();
    priced.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    // What one is made of may need more than the table says of it, such as an operator that commutes.
    priced.into_iter().map(|(_, id)| id).find(|id| registry::build(id, request).is_ok())
}

/// What a candidate takes if all its bytes meet as many others as a message over half of the network does. Where all comes
/// from one rank or goes there, that one's own link is what it waits for.
fn at_worst(candidate: &Candidate, request: &Request<'_>, bytes: f64, prices: &Prices) -> f64 {
    let network = request.network;
    let meets = match network.kind() {
        _ if request.operation.root().is_some() => 1.0,
        Kind::Torus(torus) => {
            let side =
                |(dimension, side): (usize, &u32)| f64::from(*side) / if torus.wraps(dimension) { 4.0 } else { 2.0 };
            torus.dims().iter().enumerate().map(side).fold(1.0, f64::max)
        }
        _ => (0..network.links()).map(|link| 1.0 / network.capacity(link)).fold(1.0, f64::max),
    };
    let ranks = f64::from(network.ranks());
    let way = (candidate.messages)(ranks, ranks.log2().ceil(), bytes);
    prices.alpha * way.messages.max(way.steps) + prices.delta * meets * way.bytes + prices.gamma * way.folded
}

#[cfg(test)]
mod tests {
    use treepie_model::Machine;
    use treepie_topology::Network;

    use super::*;

    fn chosen(operation: Operation, network: &str, bytes: usize) -> String {
        let network: Network = network.parse().unwrap();
        cheapest(&Request::new(operation, &network), bytes, &Machine::Bgp.prices()).expect("some have a formula")
    }

    #[test]
    fn buckets_are_for_long_blocks_and_doubling_for_short_ones() {
        let of_blocks = |bytes: usize| chosen(Operation::Allgather, "torus:8x16x32", 4096 * bytes);
        assert_eq!(of_blocks(64 << 10), "allgather/bucket_k");
        assert_eq!(of_blocks(8), "allgather/alternating");
        assert_eq!(chosen(Operation::ReduceScatter, "torus:8x16x32", 4096 << 16), "reduce_scatter/bucket_k");
    }

    #[test]
    fn what_is_chosen_can_be_built_for_an_operator_that_does_not_commute() {
        for network in ["torus:2x4", "torus:4x4x4", "mesh:3x5", "clos:r8,t4,n32"] {
            let network: Network = network.parse().unwrap();
            for operation in Operation::all(0) {
                for bytes in [8, 64 << 10, 16 << 20] {
                    let request = Request { commutative: false, ..Request::new(operation, &network) };
                    let chosen = cheapest(&request, bytes, &Machine::Bgp.prices());
                    let built = chosen.as_ref().map(|id| registry::build(id, &request).map(drop));
                    assert!(built.is_none_or(|built| built.is_ok()), "{chosen:?} on {network}");
                }
            }
        }
    }

    #[test]
    fn partners_on_other_leaves_come_first_on_a_clos_network() {
        assert_eq!(chosen(Operation::Allgather, "clos:r80,t64,n4096", 4096 * 64), "allgather/distance_halving");
    }

    /// Simulated by events.
    fn simulated(id: &str, request: &Request<'_>, bytes: usize) -> f64 {
        let schedule = registry::build(id, request).unwrap_or_else(|refusal| panic!("{id}: {refusal}"));
        let layout = treepie_schedule::Layout::Even { total: bytes, blocks: schedule.blocks() };
        let sizes = treepie_sim::Sizes::Shared(treepie_schedule::Layouts::both(layout));
        let piece = treepie_sim::Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
        treepie_sim::play(piece, request.network, &Machine::Bgp.prices().into()).expect("it comes to its end").micros()
    }

    #[test]
    fn what_is_chosen_is_not_far_from_the_best() {
        let mut worst = (1.0, String::new());
        for network in ["torus:4x4x4", "torus:15x15", "mesh:15x15", "mesh:3x5", "clos:r24,t12,n144", "clos:r8,t4,n32"] {
            let network: Network = network.parse().unwrap();
            for operation in Operation::all(0) {
                let request = Request::new(operation, &network);
                for bytes in [8, 64 << 10] {
                    let Some(chosen) = cheapest(&request, bytes, &Machine::Bgp.prices()) else {
                        panic!("nothing is chosen for {} on {network}", operation.name());
                    };
                    let time = simulated(&chosen, &request, bytes);
                    let all = registry::applicable(&request);
                    let (best, of) = all
                        .iter()
                        .map(|algorithm| (simulated(&algorithm.id, &request, bytes), &algorithm.id))
                        .min_by(|(a, _), (b, _)| a.total_cmp(b))
                        .expect("there are some");
                    let what =
                        format!("{chosen} for {bytes} bytes on {network}: {time:.1} us, and {of} takes {best:.1}");
                    println!("{:.2} {what}", time / best.max(1e-9));
                    if time > worst.0 * best {
                        worst = (time / best, what);
                    }
                }
            }
        }
        assert!(worst.0 < 3.0, "{:.2} times as long as the best: {}", worst.0, worst.1);
    }
}
