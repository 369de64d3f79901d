//! Serial reference algorithms.

/// Tarjan's algorithm: for each vertex the root of its strongly connected component.
pub(crate) fn tarjan(arcs: &[Vec<(usize, u32)>]) -> Vec<usize> {
    struct TarjanState<'a> {
        arcs: &'a [Vec<(usize, u32)>],
        order: Vec<usize>,
        low: Vec<usize>,
        component: Vec<usize>,
        stack: Vec<usize>,
        entered: usize,
    }
    const UNVISITED: usize = usize::MAX;
    fn visit(state: &mut TarjanState<'_>, vertex: usize) {
        (state.order[vertex], state.low[vertex]) = (state.entered, state.entered);
        state.entered += 1;
        state.stack.push(vertex);
        for (to, _) in &state.arcs[vertex] {
            if state.order[*to] == UNVISITED {
                visit(state, *to);
                state.low[vertex] = state.low[vertex].min(state.low[*to]);
            } else if state.component[*to] == UNVISITED {
                state.low[vertex] = state.low[vertex].min(state.order[*to]);
            }
        }
        while state.low[vertex] == state.order[vertex] && state.component[vertex] == UNVISITED {
            let top = state.stack.pop().unwrap();
            state.component[top] = vertex;
        }
    }
    let none = vec![UNVISITED; arcs.len()];
    let mut state =
        TarjanState { arcs, order: none.clone(), low: none.clone(), component: none, stack: Vec::new(), entered: 0 };
    for vertex in 0..arcs.len() {
        if state.order[vertex] == UNVISITED {
            visit(&mut state, vertex);
        }
    }
    state.component
}

/// Brandes' algorithm from some sources, with the vertices in the order of their distances.
pub(crate) fn brandes(arcs: &[Vec<(usize, u32)>], sources: impl Iterator<Item = usize>) -> Vec<f64> {
    let mut scores = vec![0.0; arcs.len()];
    for source in sources {
        let mut distances = vec![u32::MAX; arcs.len()];
        distances[source] = 0;
        let mut order = Vec::new();
        while let Some(next) = (0..arcs.len())
            .filter(|vertex| distances[*vertex] < u32::MAX && !order.contains(vertex))
            .min_by_key(|vertex| distances[*vertex])
        {
            order.push(next);
            for (to, weight) in &arcs[next] {
                distances[*to] = distances[*to].min(distances[next] + weight);
            }
        }
        let (mut paths, mut dependencies) = (vec![0.0; arcs.len()], vec![0.0; arcs.len()]);
        paths[source] = 1.0;
        let other_targets =
            |from: usize| arcs[from].iter().filter(move |(to, _)| *to != from).map(|(to, weight)| (*to, *weight));
        for from in &order {
            for (to, weight) in other_targets(*from) {
                if distances[*from] + weight == distances[to] {
                    paths[to] += paths[*from];
                }
            }
        }
        for from in order.iter().rev() {
            for (to, weight) in other_targets(*from) {
                if distances[*from] + weight == distances[to] {
                    dependencies[*from] += paths[*from] / paths[to] * (1.0 + dependencies[to]);
                }
            }
            if *from != source {
                scores[*from] += dependencies[*from];
            }
        }
    }
    scores
}
