//! The vertices with the highest scores.

use treepie_base::memory::collected;
use treepie_comm::Comm;

use crate::csr::{CsrEdge, VALUES_PURPOSE};
use crate::{Graph, Result};

/// The external ids and scores of the `k` vertices with the highest scores, best first; ties in order of external ids.
/// All ranks call it.
pub fn top_k<A: CsrEdge>(comm: &Comm, graph: &Graph<A>, scores: &[f64], k: usize) -> Result<Vec<(u64, f64)>> {
    let order = |left: &(u64, f64), right: &(u64, f64)| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0));
    let scored =
        scores.iter().enumerate().map(|(local_index, score)| (graph.layout().external_id(local_index), *score));
    let mut best: Vec<(u64, f64)> = collected(scored, VALUES_PURPOSE)?;
    if k < best.len() {
        best.select_nth_unstable_by(k, order);
        best.truncate(k);
    }
    // All ranks send k + 1 pairs: the first has the number of valid ones.
    let mut sent = vec![[0; 2]; k + 1];
    sent[0][0] = best.len() as u64;
    for (slot, (external_id, score)) in sent[1..].iter_mut().zip(&best) {
        *slot = [*external_id, score.to_bits()];
    }
    let received = comm.allgather(&sent)?;
    let from_all = received.chunks(k + 1).flat_map(|of_rank| &of_rank[1..=of_rank[0][0] as usize]);
    let mut best: Vec<(u64, f64)> = from_all.map(|[external_id, bits]| (*external_id, f64::from_bits(*bits))).collect();
    best.sort_unstable_by(order);
    best.truncate(k);
    Ok(best)
}
