//! Direction-optimising breadth-first search.   [Beamer, Asanovic, Patterson, SC 2012]

use treepie::graph::Bits;

use super::Csr;

const ALPHA: u64 = 15;
const BETA: u64 = 18;

/// The parent of each vertex; those without have what is less than 0.
pub(crate) fn run(graph: &Csr<u32>, root: usize) -> Vec<i32> {
    // Without a parent: less than 0 by the degree, so that reaching a vertex tells how much work it brings.
    let unreached = |vertex: usize| -(graph.degree(vertex).max(1) as i32);
    let mut parents: Vec<i32> = (0..graph.len()).map(unreached).collect();
    parents[root] = root as i32;
    let mut queue = vec![root as u32];
    let (mut front, mut next) = (Bits::new(graph.len()), Bits::new(graph.len()));
    let mut left = graph.arcs.len() as u64;
    let mut scout = graph.degree(root);
    while !queue.is_empty() {
        if scout > left / ALPHA {
            front.clear();
            queue.iter().for_each(|vertex| front.put(*vertex as usize));
            let mut awake = queue.len() as u64;
            loop {
                let before = awake;
                awake = bottom_up(graph, &mut parents, &front, &mut next);
                std::mem::swap(&mut front, &mut next);
                if awake < before && awake <= graph.len() as u64 / BETA {
                    break;
                }
            }
            queue = front.iter().map(|vertex| vertex as u32).collect();
            scout = 1;
        } else {
            left = left.saturating_sub(scout);
            (queue, scout) = top_down(graph, &mut parents, &queue);
        }
    }
    parents
}

fn top_down(graph: &Csr<u32>, parents: &mut [i32], queue: &[u32]) -> (Vec<u32>, u64) {
    let (mut next, mut scout) = (Vec::new(), 0);
    for vertex in queue {
        for to in graph.row(*vertex as usize) {
            let parent = &mut parents[*to as usize];
            if *parent < 0 {
                scout += u64::from(parent.unsigned_abs());
                *parent = *vertex as i32;
                next.push(*to);
            }
        }
    }
    (next, scout)
}

fn bottom_up(graph: &Csr<u32>, parents: &mut [i32], front: &Bits, next: &mut Bits) -> u64 {
    let mut awake = 0;
    next.clear();
    for (vertex, parent) in parents.iter_mut().enumerate() {
        if *parent < 0
            && let Some(from) = graph.row(vertex).iter().find(|from| front.has(**from as usize))
        {
            *parent = *from as i32;
            next.put(vertex);
            awake += 1;
        }
    }
    awake
}
