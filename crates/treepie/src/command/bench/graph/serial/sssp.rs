//! Delta-stepping.   [Meyer, Sanders 2003; buckets as in Beamer, Asanovic, Patterson: The GAP benchmark suite, 2015]

use treepie::graph::Arc;

use super::WeightedCsr;

/// Lengths of the shortest ways from a root.
pub(crate) fn run(graph: &WeightedCsr, root: usize, delta: f64) -> Vec<f32> {
    let per_length = 1.0 / delta;
    let mut lengths = vec![f32::INFINITY; graph.len()];
    lengths[root] = 0.0;
    let mut buckets: Vec<Vec<u32>> = vec![vec![root as u32]];
    let mut now = 0;
    while now < buckets.len() {
        // What comes into the current bucket meanwhile is done as well.
        let mut frontier = std::mem::take(&mut buckets[now]);
        while !frontier.is_empty() {
            for vertex in &frontier {
                let length = lengths[*vertex as usize];
                // It was done in a bucket before.
                if ((f64::from(length) * per_length) as usize) < now {
                    continue;
                }
                for arc in graph.row(*vertex as usize) {
                    let (there, length) = (&mut lengths[arc.target() as usize], length + arc.weight::<f32>());
                    if length < *there {
                        *there = length;
                        let bucket = (f64::from(length) * per_length) as usize;
                        if bucket >= buckets.len() {
                            buckets.resize_with(bucket + 1, Vec::new);
                        }
                        buckets[bucket].push(arc.target());
                    }
                }
            }
            frontier = std::mem::take(&mut buckets[now]);
        }
        now += 1;
    }
    lengths
}
