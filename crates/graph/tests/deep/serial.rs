//! What is right, by plain serial algorithms.

/// Tarjan's algorithm: for each vertex some number that those of its component share.
pub(crate) fn tarjan(arcs: &[Vec<(usize, u32)>]) -> Vec<usize> {
    struct Walk<'a> {
        arcs: &'a [Vec<(usize, u32)>],
        order: Vec<usize>,
        low: Vec<usize>,
        component: Vec<usize>,
        stack: Vec<usize>,
        entered: usize,
    }
    const NOT_YET: usize = usize::MAX;
    fn enter(walk: &mut Walk<'_>, vertex: usize) {
        (walk.order[vertex], walk.low[vertex]) = (walk.entered, walk.entered);
        walk.entered += 1;
        walk.stack.push(vertex);
        for (to, _) in &walk.arcs[vertex] {
            if walk.order[*to] == NOT_YET {
                enter(walk, *to);
                walk.low[vertex] = walk.low[vertex].min(walk.low[*to]);
            } else if walk.component[*to] == NOT_YET {
                walk.low[vertex] = walk.low[vertex].min(walk.order[*to]);
            }
        }
        while walk.low[vertex] == walk.order[vertex] && walk.component[vertex] == NOT_YET {
            let top = walk.stack.pop().unwrap();
            walk.component[top] = vertex;
        }
    }
    let none = vec![NOT_YET; arcs.len()];
    let mut walk =
        Walk { arcs, order: none.clone(), low: none.clone(), component: none, stack: Vec::new(), entered: 0 };
    for vertex in 0..arcs.len() {
        if walk.order[vertex] == NOT_YET {
            enter(&mut walk, vertex);
        }
    }
    walk.component
}

/// Brandes' algorithm, from sources, with the vertices in the order of their lengths.
pub(crate) fn brandes(arcs: &[Vec<(usize, u32)>], sources: impl Iterator<Item = usize>) -> Vec<f64> {
    let mut scores = vec![0.0; arcs.len()];
    for source in sources {
        let mut lengths = vec![u32::MAX; arcs.len()];
        lengths[source] = 0;
        let mut order = Vec::new();
        while let Some(next) = (0..arcs.len())
            .filter(|vertex| lengths[*vertex] < u32::MAX && !order.contains(vertex))
            .min_by_key(|vertex| lengths[*vertex])
        {
            order.push(next);
            for (to, weight) in &arcs[next] {
                lengths[*to] = lengths[*to].min(lengths[next] + weight);
            }
        }
        let (mut ways, mut dependencies) = (vec![0.0; arcs.len()], vec![0.0; arcs.len()]);
        ways[source] = 1.0;
        let tight =
            |from: usize| arcs[from].iter().filter(move |(to, _)| *to != from).map(|(to, weight)| (*to, *weight));
        for from in &order {
            for (to, weight) in tight(*from) {
                if lengths[*from] + weight == lengths[to] {
                    ways[to] += ways[*from];
                }
            }
        }
        for from in order.iter().rev() {
            for (to, weight) in tight(*from) {
                if lengths[*from] + weight == lengths[to] {
                    dependencies[*from] += ways[*from] / ways[to] * (1.0 + dependencies[to]);
                }
            }
            if *from != source {
                scores[*from] += dependencies[*from];
            }
        }
    }
    scores
}
