//! PageRank in the pull direction, Jacobi iterations.

use super::SerialCsr;

/// Scores and number of iterations, for a symmetric graph.
pub(crate) fn run(graph: &SerialCsr, damping: f64, tolerance: f64, max_iterations: u32) -> (Vec<f32>, u32) {
    let count = graph.len();
    let mut scores = vec![1.0 / count as f32; count];
    let mut outgoing_contrib = vec![0.0f32; count];
    for iteration in 0..max_iterations {
        let mut dangling = 0.0;
        for vertex in 0..count {
            let degree = graph.degree(vertex);
            outgoing_contrib[vertex] = scores[vertex] / degree.max(1) as f32;
            if degree == 0 {
                dangling += f64::from(scores[vertex]);
            }
        }
        let base = ((1.0 - damping) / count as f64 + damping * dangling / count as f64) as f32;
        let mut change = 0.0;
        for (vertex, score) in scores.iter_mut().enumerate() {
            let incoming: f32 = graph.row(vertex).iter().map(|arc| outgoing_contrib[arc.target as usize]).sum();
            let next = base + damping as f32 * incoming;
            change += f64::from((next - *score).abs());
            *score = next;
        }
        if change < tolerance {
            return (scores, iteration + 1);
        }
    }
    (scores, max_iterations)
}
