//! The choice of an algorithm on a network whose links messages share: by the model's closed forms.
//!
//! Where ranks are on one machine, a network that was named says nothing of what messages cost there; see
//! [`candidates`](super::candidates).

use treepie_collectives::registry::{self, Parameter, Request};
use treepie_model::{Prices, closed};
use treepie_schedule::Operation;

/// The id of the cheapest algorithm that applies, of those for which there is a formula; `bytes` are those of all blocks, or
/// of the vector.
pub(super) fn cheapest(request: &Request<'_>, bytes: usize, prices: &Prices) -> Option<String> {
    let (ranks, bytes) = (f64::from(request.ranks), bytes as f64);
    let n = match request.operation {
        Operation::Allgather | Operation::ReduceScatter | Operation::Gather { .. } | Operation::Scatter { .. } => {
            bytes / ranks
        }
        _ => bytes,
    };
    let time = |id: &str| closed::time(id, request.operation, request.network, n, prices);
    let priced = registry::applicable(request).into_iter().filter_map(|algorithm| {
        // A pipeline is built with as many segments as the request says.
        let id = match request.parameters.segments {
            segments @ 2.. if algorithm.parameters.contains(&Parameter::Segments) => {
                format!("{}:segments={segments}", algorithm.id)
            }
            _ => algorithm.id.clone(),
        };
        Some((time(&id)?, algorithm.id.clone()))
    });
    priced.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, id)| id)
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
    fn partners_on_other_leaves_come_first_on_a_clos_network() {
        assert_eq!(chosen(Operation::Allgather, "clos:r80,t64,n4096", 4096 * 64), "allgather/distance_halving");
    }

    #[test]
    fn what_is_chosen_can_be_built() {
        let operations = [
            Operation::Barrier,
            Operation::Bcast { root: 0 },
            Operation::Scatter { root: 0 },
            Operation::Gather { root: 0 },
            Operation::Allgather,
            Operation::Reduce { root: 0 },
            Operation::Allreduce,
            Operation::ReduceScatter,
            Operation::Alltoall,
            Operation::Scan,
            Operation::Exscan,
        ];
        for network in ["torus:4x4x4", "mesh:3x5", "clos:r8,t4,n32"] {
            let network: Network = network.parse().unwrap();
            for operation in operations {
                let request = Request::new(operation, &network);
                let Some(id) = cheapest(&request, 4000, &Machine::Bgp.prices()) else {
                    assert!(operation != Operation::Allgather, "there are formulas of allgather on {network}");
                    continue;
                };
                registry::build(&id, &request).map(drop).unwrap_or_else(|refusal| panic!("{id}: {refusal}"));
            }
        }
    }
}
