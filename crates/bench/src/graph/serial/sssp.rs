//! Delta-stepping, without separation of light and heavy edges.
//! [Meyer, Sanders 2003; buckets as in Beamer, Asanović, Patterson: The GAP benchmark suite, 2015]

use super::SerialCsr;

/// Distances from a root.
pub(crate) fn run(graph: &SerialCsr<f32>, root: usize, delta: f64) -> Vec<f32> {
    let inverse_delta = 1.0 / delta;
    let mut distances = vec![f32::INFINITY; graph.len()];
    distances[root] = 0.0;
    let mut buckets: Vec<Vec<u32>> = vec![vec![root as u32]];
    let mut current = 0;
    while current < buckets.len() {
        // Vertices inserted into the current bucket meanwhile are processed too.
        let mut frontier = std::mem::take(&mut buckets[current]);
        while !frontier.is_empty() {
            for vertex in &frontier {
                let distance = distances[*vertex as usize];
                // Settled in an earlier bucket.
                if ((f64::from(distance) * inverse_delta) as usize) < current {
                    continue;
                }
                for arc in graph.row(*vertex as usize) {
                    let (old, new) = (&mut distances[arc.target as usize], distance + arc.weight);
                    if new < *old {
                        *old = new;
                        let bucket = (f64::from(new) * inverse_delta) as usize;
                        if bucket >= buckets.len() {
                            buckets.resize_with(bucket + 1, Vec::new);
                        }
                        buckets[bucket].push(arc.target);
                    }
                }
            }
            frontier = std::mem::take(&mut buckets[current]);
        }
        current += 1;
    }
    distances
}
