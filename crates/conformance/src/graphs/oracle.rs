//! Plain serial algorithms, as simple as possible, which the distributed ones are compared with.

/// Arcs by vertex: target and weight of each.
pub(super) type Arcs = [Vec<(u64, f64)>];

/// BFS levels from several roots.
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

/// Shortest distances from a root: relaxes all arcs until nothing changes.   [Bellman, Ford]
pub(super) fn distances(arcs: &Arcs, root: u64, add: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let mut distances = vec![f64::INFINITY; arcs.len()];
    distances[root as usize] = 0.0;
    let mut changes = true;
    while changes {
        changes = false;
        for (vertex, row) in arcs.iter().enumerate() {
            for (to, weight) in row {
                let distance = add(distances[vertex], *weight);
                if distance < distances[*to as usize] {
                    (distances[*to as usize], changes) = (distance, true);
                }
            }
        }
    }
    distances
}

/// The least vertex id of each vertex's connected component.
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

/// Core numbers: for each k, removes vertices with fewer than k neighbors as long as there are any.
pub(super) fn cores(neighbors: &[std::collections::BTreeSet<usize>]) -> Vec<u32> {
    let mut cores = vec![0; neighbors.len()];
    let mut left: Vec<bool> = vec![true; neighbors.len()];
    for k in 1.. {
        loop {
            let degree = |vertex: &usize| neighbors[*vertex].iter().filter(|other| left[**other]).count();
            let removed: Vec<usize> = (0..left.len()).filter(|vertex| left[*vertex] && degree(vertex) < k).collect();
            if removed.is_empty() {
                break;
            }
            removed.into_iter().for_each(|vertex| left[vertex] = false);
        }
        if left.iter().all(|is_left| !is_left) {
            return cores;
        }
        (0..left.len()).filter(|vertex| left[*vertex]).for_each(|vertex| cores[vertex] = k as u32);
    }
    cores
}

/// PageRank scores after `iterations` iterations.
pub(super) fn pagerank(arcs: &Arcs, damping: f64, iterations: u32) -> Vec<f64> {
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

/// The least global id of each vertex's strongly connected component.
pub(super) fn strong_components(arcs: &Arcs, global_id: impl Fn(u64) -> u64) -> Vec<u64> {
    let reached: Vec<Vec<Option<u32>>> = (0..arcs.len() as u64).map(|vertex| levels(arcs, &[vertex])).collect();
    let both = |left: usize, right: usize| reached[left][right].is_some() && reached[right][left].is_some();
    let least =
        |vertex: usize| (0..arcs.len()).filter(|other| both(vertex, *other)).map(|other| global_id(other as u64)).min();
    (0..arcs.len()).map(|vertex| least(vertex).expect("it reaches itself")).collect()
}

/// Betweenness centrality over shortest paths from some sources, by accumulation of dependencies.   [Brandes]
pub(super) fn betweenness(arcs: &Arcs, sources: &[u64]) -> Vec<f64> {
    let mut scores = vec![0.0; arcs.len()];
    for source in sources {
        let distances = distances(arcs, *source, |distance, weight| distance + weight);
        let mut order: Vec<usize> = (0..arcs.len()).filter(|vertex| distances[*vertex].is_finite()).collect();
        order.sort_by(|left, right| distances[*left].total_cmp(&distances[*right]));
        let successors = |from: usize| {
            let arcs = arcs[from].iter().map(|(to, weight)| (*to as usize, *weight));
            arcs.filter(|(to, weight)| distances[from] + weight == distances[*to]).map(|(to, _)| to).collect::<Vec<_>>()
        };
        let (mut paths, mut dependencies) = (vec![0.0; arcs.len()], vec![0.0; arcs.len()]);
        paths[*source as usize] = 1.0;
        for from in &order {
            successors(*from).into_iter().for_each(|to| paths[to] += paths[*from]);
        }
        for from in order.iter().rev() {
            for to in successors(*from) {
                dependencies[*from] += paths[*from] / paths[to] * (1.0 + dependencies[to]);
            }
            if *from as u64 != *source {
                scores[*from] += dependencies[*from];
            }
        }
    }
    scores
}
