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

/// For each vertex the least of those that it reaches and that reach it, by the order of `number`.
pub(super) fn strong(arcs: &Arcs, number: impl Fn(u64) -> u64) -> Vec<u64> {
    let reached: Vec<Vec<Option<u32>>> = (0..arcs.len() as u64).map(|vertex| levels(arcs, &[vertex])).collect();
    let both = |left: usize, right: usize| reached[left][right].is_some() && reached[right][left].is_some();
    let least =
        |vertex: usize| (0..arcs.len()).filter(|other| both(vertex, *other)).map(|other| number(other as u64)).min();
    (0..arcs.len()).map(|vertex| least(vertex).expect("it reaches itself")).collect()
}

/// How often each vertex lies within the shortest ways from some sources, by the share of such ways.   [Brandes]
pub(super) fn betweenness(arcs: &Arcs, sources: &[u64]) -> Vec<f64> {
    let mut scores = vec![0.0; arcs.len()];
    for source in sources {
        let lengths = lengths(arcs, *source, |length, weight| length + weight);
        let mut order: Vec<usize> = (0..arcs.len()).filter(|vertex| lengths[*vertex].is_finite()).collect();
        order.sort_by(|left, right| lengths[*left].total_cmp(&lengths[*right]));
        let behind = |from: usize| {
            let arcs = arcs[from].iter().map(|(to, weight)| (*to as usize, *weight));
            arcs.filter(|(to, weight)| lengths[from] + weight == lengths[*to]).map(|(to, _)| to).collect::<Vec<_>>()
        };
        let (mut ways, mut parts) = (vec![0.0; arcs.len()], vec![0.0; arcs.len()]);
        ways[*source as usize] = 1.0;
        for from in &order {
            behind(*from).into_iter().for_each(|to| ways[to] += ways[*from]);
        }
        for from in order.iter().rev() {
            for to in behind(*from) {
                parts[*from] += ways[*from] / ways[to] * (1.0 + parts[to]);
            }
            if *from as u64 != *source {
                scores[*from] += parts[*from];
            }
        }
    }
    scores
}
