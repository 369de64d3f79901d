//! Direction-optimizing breadth-first search: top-down steps, and bottom-up steps while the frontier is large.
//! [Beamer, Asanović, Patterson, SC 2012; structure and constants as in the GAP benchmark suite]

use treepie::graph::Bitmap;

use super::SerialCsr;

/// Thresholds for switching to bottom-up and back. GAP's values; the 2012 paper has 14 and 24.
const ALPHA: u64 = 15;
const BETA: u64 = 18;

/// The parent of each vertex; negative if unreached.
pub(crate) fn run(graph: &SerialCsr, root: usize) -> Vec<i32> {
    // Unreached: the negative degree, so that reaching a vertex yields the edges it adds to the frontier.
    let unreached = |vertex: usize| -(graph.degree(vertex).max(1) as i32);
    let mut parents: Vec<i32> = (0..graph.len()).map(unreached).collect();
    parents[root] = root as i32;
    let mut queue = vec![root as u32];
    let (mut frontier, mut next) = (Bitmap::new(graph.len()), Bitmap::new(graph.len()));
    let mut edges_to_check = graph.arcs.len() as u64;
    let mut scout_count = graph.degree(root);
    while !queue.is_empty() {
        if scout_count > edges_to_check / ALPHA {
            frontier.clear();
            queue.iter().for_each(|vertex| frontier.set(*vertex as usize));
            let mut awake_count = queue.len() as u64;
            loop {
                let old_awake_count = awake_count;
                awake_count = bottom_up(graph, &mut parents, &frontier, &mut next);
                std::mem::swap(&mut frontier, &mut next);
                if awake_count < old_awake_count && awake_count <= graph.len() as u64 / BETA {
                    break;
                }
            }
            queue = frontier.iter().map(|vertex| vertex as u32).collect();
            scout_count = 1;
        } else {
            edges_to_check = edges_to_check.saturating_sub(scout_count);
            (queue, scout_count) = top_down(graph, &mut parents, &queue);
        }
    }
    parents
}

fn top_down(graph: &SerialCsr, parents: &mut [i32], queue: &[u32]) -> (Vec<u32>, u64) {
    let (mut next, mut scout_count) = (Vec::new(), 0);
    for vertex in queue {
        for arc in graph.row(*vertex as usize) {
            let parent = &mut parents[arc.target as usize];
            if *parent < 0 {
                scout_count += u64::from(parent.unsigned_abs());
                *parent = *vertex as i32;
                next.push(arc.target);
            }
        }
    }
    (next, scout_count)
}

fn bottom_up(graph: &SerialCsr, parents: &mut [i32], frontier: &Bitmap, next: &mut Bitmap) -> u64 {
    let mut awake_count = 0;
    next.clear();
    for (vertex, parent) in parents.iter_mut().enumerate() {
        if *parent < 0
            && let Some(arc) = graph.row(vertex).iter().find(|arc| frontier.contains(arc.target as usize))
        {
            *parent = arc.target as i32;
            next.set(vertex);
            awake_count += 1;
        }
    }
    awake_count
}
