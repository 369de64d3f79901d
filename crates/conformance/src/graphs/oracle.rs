//! Plain serial algorithms, as simple as they can be.

/// Arcs by vertex: where each leads, and its weight.
pub(super) type Arcs = [Vec<(u64, f64)>];

/// How many arcs each vertex is away from some.
pub(super) fn levels(arcs: &Arcs, roots: &[u64]) -> Vec<Option<u32>> {
    let mut levels = vec![None; arcs.len()];
    let mut queue = std::collections::VecDeque::new();
    for root in roots {
        levels[*root as usize] = Some(0);
        queue.push_back(*root as usize);
    }
    while let Some(vertex) = queue.pop_front() {
        for (to, _) in &arcs[vertex] {
            if levels[*to as usize].is_none() {
                levels[*to as usize] = levels[vertex].map(|level| level + 1);
                queue.push_back(*to as usize);
            }
        }
    }
    levels
}

/// Lengths of shortest ways: all arcs again and again until nothing changes.   [Bellman, Ford]
pub(super) fn lengths(arcs: &Arcs, root: u64, add: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let mut lengths = vec![f64::INFINITY; arcs.len()];
    lengths[root as usize] = 0.0;
    let mut changes = true;
    while changes {
        changes = false;
        for (vertex, row) in arcs.iter().enumerate() {
            for (to, weight) in row {
                let length = add(lengths[vertex], *weight);
                if length < lengths[*to as usize] {
                    (lengths[*to as usize], changes) = (length, true);
                }
            }
        }
    }
    lengths
}

/// The least vertex of each vertex's component.
pub(super) fn components(arcs: &Arcs) -> Vec<u64> {
    let mut labels: Vec<u64> = (0..arcs.len() as u64).collect();
    let mut changes = true;
    while changes {
        changes = false;
        for vertex in 0..arcs.len() {
            for (to, _) in &arcs[vertex] {
                let least = labels[vertex].min(labels[*to as usize]);
                changes |= labels[vertex] != least || labels[*to as usize] != least;
                (labels[vertex], labels[*to as usize]) = (least, least);
            }
        }
    }
    labels
}

/// Scores after so many iterations.
pub(super) fn ranking(arcs: &Arcs, damping: f64, iterations: u32) -> Vec<f64> {
    let count = arcs.len() as f64;
    let mut scores = vec![1.0 / count; arcs.len()];
    for _ in 0..iterations {
        let dangling: f64 = (0..arcs.len()).filter(|v| arcs[*v].is_empty()).map(|v| scores[v]).sum();
        let mut next = vec![(1.0 - damping) / count + damping * dangling / count; arcs.len()];
        for (vertex, row) in arcs.iter().enumerate() {
            row.iter().for_each(|(to, _)| next[*to as usize] += damping * scores[vertex] / row.len() as f64);
        }
        scores = next;
    }
    scores
}
