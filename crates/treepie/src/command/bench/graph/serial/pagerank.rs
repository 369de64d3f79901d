//! PageRank by pulling, Jacobi iterations.

use super::Csr;

/// Scores and iterations, where each arc has one in the other direction.
pub(crate) fn run(graph: &Csr<u32>, damping: f64, tolerance: f64, most: u32) -> (Vec<f32>, u32) {
    let count = graph.len();
    let mut scores = vec![1.0 / count as f32; count];
    let mut given = vec![0.0f32; count];
    for iteration in 0..most {
        let mut dangling = 0.0;
        for vertex in 0..count {
            let degree = graph.degree(vertex);
            given[vertex] = scores[vertex] / degree.max(1) as f32;
            if degree == 0 {
                dangling += f64::from(scores[vertex]);
            }
        }
        let base = ((1.0 - damping) / count as f64 + damping * dangling / count as f64) as f32;
        let mut change = 0.0;
        for (vertex, score) in scores.iter_mut().enumerate() {
            let got: f32 = graph.row(vertex).iter().map(|from| given[*from as usize]).sum();
            let next = base + damping as f32 * got;
            change += f64::from((next - *score).abs());
            *score = next;
        }
        if change < tolerance {
            return (scores, iteration + 1);
        }
    }
    (scores, most)
}
