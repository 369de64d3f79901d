//! The vertices that matter most.

use treepie_base::memory::collected;
use treepie_comm::Comm;

use crate::rows::{Arc, VALUES};
use crate::{Graph, Result};

/// The names and scores of the vertices with the greatest scores, as many as are asked for; of equal ones the lesser
/// name first. All ranks call it.
pub fn top<A: Arc>(comm: &Comm, graph: &Graph<A>, scores: &[f64], most: usize) -> Result<Vec<(u64, f64)>> {
    let order = |left: &(u64, f64), right: &(u64, f64)| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0));
    let named = scores.iter().enumerate().map(|(at, score)| (graph.layout().name(at), *score));
    let mut best: Vec<(u64, f64)> = collected(named, VALUES)?;
    if most < best.len() {
        best.select_nth_unstable_by(most, order);
        best.truncate(most);
    }
    // All ranks send as much, so who has fewer says how many.
    let mut sent = vec![[0; 2]; most + 1];
    sent[0][0] = best.len() as u64;
    for (place, (name, score)) in sent[1..].iter_mut().zip(&best) {
        *place = [*name, score.to_bits()];
    }
    let came = comm.all_gather(&sent)?;
    let from_each = came.chunks(most + 1).flat_map(|from_one| &from_one[1..=from_one[0][0] as usize]);
    let mut best: Vec<(u64, f64)> = from_each.map(|[name, bits]| (*name, f64::from_bits(*bits))).collect();
    best.sort_unstable_by(order);
    best.truncate(most);
    Ok(best)
}
