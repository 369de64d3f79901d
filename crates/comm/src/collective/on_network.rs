//! Algorithm selection on a network with shared links, by the closed forms of the model.
//!
//! Not every algorithm has a closed form on every network. A candidate without one is costed as on a flat network, with
//! the worst-case contention for its bytes. That is right for short messages, where latency dominates; for long
//! messages, an algorithm designed for the network wins.
//!
//! Where all ranks are on one machine, the network that was set does not determine message costs; see
//! [`candidates`](super::candidates).

use treepie_collectives::registry::{self, CollectiveSpec, Parameter};
use treepie_model::{CostParams, closed_form};
use treepie_schedule::Operation;
use treepie_topology::NetworkKind;

use super::candidates::candidates;
use super::cost::Candidate;

/// The id of the cheapest applicable algorithm; `bytes` are those of all blocks, or of the vector.
pub(super) fn cheapest(request: &CollectiveSpec<'_>, bytes: usize, params: &CostParams) -> Option<String> {
    let (ranks, bytes) = (f64::from(request.ranks), bytes as f64);
    let n = match request.operation {
        Operation::Allgather | Operation::ReduceScatter | Operation::Gather { .. } | Operation::Scatter { .. } => {
            bytes / ranks
        }
        _ => bytes,
    };
    let by_closed_form = |id: &str| closed_form::time(id, request.operation, request.network, n, params);
    let as_if_flat = |id: &str| {
        // A chain is for many segments, which its flat cost assumes.
        let matches = |candidate: &&Candidate| candidate.id == id && id != "bcast/chain";
        let candidate = candidates(request.operation).iter().find(matches)?;
        Some(worst_case_cost(candidate, request, bytes, params))
    };
    let with_costs = registry::applicable(request).into_iter().filter_map(|algorithm| {
        // A pipeline is built with the number of segments in the request.
        let id = match request.parameters.segments {
            segments @ 2.. if algorithm.parameters.contains(&Parameter::Segments) => {
                format!("{}:segments={segments}", algorithm.id)
            }
            _ => algorithm.id.clone(),
        };
        Some((by_closed_form(&id).or_else(|| as_if_flat(&algorithm.id))?, algorithm.id.clone()))
    });
    let mut with_costs: Vec<(f64, String)> = with_costs.collect();
    with_costs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    // A composed algorithm may have requirements beyond those in the table, such as a commutative operator.
    with_costs.into_iter().map(|(_, id)| id).find(|id| registry::build(id, request).is_ok())
}

/// Cost of a candidate if all its bytes suffer the contention of a message across the bisection of the network. In a
/// rooted operation the bottleneck is the root's link.
fn worst_case_cost(candidate: &Candidate, request: &CollectiveSpec<'_>, bytes: f64, params: &CostParams) -> f64 {
    let network = request.network;
    let contention = match network.kind() {
        _ if request.operation.root().is_some() => 1.0,
        NetworkKind::Torus(torus) => {
            let side =
                |(dimension, side): (usize, &u32)| f64::from(*side) / if torus.wraps(dimension) { 4.0 } else { 2.0 };
            torus.dims().iter().enumerate().map(side).fold(1.0, f64::max)
        }
        _ => (0..network.links()).map(|link| 1.0 / network.capacity(link)).fold(1.0, f64::max),
    };
    let ranks = f64::from(network.ranks());
    let profile = (candidate.messages)(ranks, ranks.log2().ceil(), bytes);
    params.alpha * profile.messages.max(profile.steps)
        + params.delta * contention * profile.bytes
        + params.gamma * profile.reduced
}

#[cfg(test)]
mod tests {
    use treepie_model::PaperMachine;
    use treepie_topology::Network;

    use super::*;

    fn selected(operation: Operation, network: &str, bytes: usize) -> String {
        let network: Network = network.parse().unwrap();
        cheapest(&CollectiveSpec::new(operation, &network), bytes, &PaperMachine::Bgp.cost_params())
            .expect("some algorithm has a closed form")
    }

    #[test]
    fn buckets_are_for_long_blocks_and_doubling_for_short_ones() {
        let of_blocks = |bytes: usize| selected(Operation::Allgather, "torus:8x16x32", 4096 * bytes);
        assert_eq!(of_blocks(64 << 10), "allgather/bucket_k");
        assert_eq!(of_blocks(8), "allgather/alternating");
        assert_eq!(selected(Operation::ReduceScatter, "torus:8x16x32", 4096 << 16), "reduce_scatter/bucket_k");
    }

    #[test]
    fn selected_algorithms_can_be_built_for_a_non_commutative_operator() {
        for network in ["torus:2x4", "torus:4x4x4", "mesh:3x5", "clos:r8,t4,n32"] {
            let network: Network = network.parse().unwrap();
            for operation in Operation::all(0) {
                for bytes in [8, 64 << 10, 16 << 20] {
                    let request = CollectiveSpec { commutative: false, ..CollectiveSpec::new(operation, &network) };
                    let selected = cheapest(&request, bytes, &PaperMachine::Bgp.cost_params());
                    let built = selected.as_ref().map(|id| registry::build(id, &request).map(drop));
                    assert!(built.is_none_or(|built| built.is_ok()), "{selected:?} on {network}");
                }
            }
        }
    }

    #[test]
    fn distance_halving_is_selected_on_a_clos_network() {
        assert_eq!(selected(Operation::Allgather, "clos:r80,t64,n4096", 4096 * 64), "allgather/distance_halving");
    }

    /// Time in the simulator, in microseconds.
    fn simulated(id: &str, request: &CollectiveSpec<'_>, bytes: usize) -> f64 {
        let schedule = registry::build(id, request).unwrap_or_else(|refusal| panic!("{id}: {refusal}"));
        let layout = treepie_schedule::BlockLayout::Even { total: bytes, blocks: schedule.blocks() };
        let sizes = treepie_sim::BlockSizes::Shared(treepie_schedule::BlockLayouts::symmetric(layout));
        let workload = treepie_sim::Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
        treepie_sim::simulate_schedule(workload, request.network, &PaperMachine::Bgp.cost_params().into())
            .expect("the simulation completes")
            .micros()
    }

    #[test]
    fn selected_algorithms_are_within_a_factor_of_the_best() {
        let mut worst = (1.0, String::new());
        for network in ["torus:4x4x4", "torus:15x15", "mesh:15x15", "mesh:3x5", "clos:r24,t12,n144", "clos:r8,t4,n32"] {
            let network: Network = network.parse().unwrap();
            for operation in Operation::all(0) {
                let request = CollectiveSpec::new(operation, &network);
                for bytes in [8, 64 << 10] {
                    let Some(selected) = cheapest(&request, bytes, &PaperMachine::Bgp.cost_params()) else {
                        panic!("no algorithm for {} on {network}", operation.name());
                    };
                    let time = simulated(&selected, &request, bytes);
                    let all = registry::applicable(&request);
                    let (best, of) = all
                        .iter()
                        .map(|algorithm| (simulated(&algorithm.id, &request, bytes), &algorithm.id))
                        .min_by(|(a, _), (b, _)| a.total_cmp(b))
                        .expect("some algorithm is applicable");
                    let what =
                        format!("{selected} for {bytes} bytes on {network}: {time:.1} us, and {of} takes {best:.1}");
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
