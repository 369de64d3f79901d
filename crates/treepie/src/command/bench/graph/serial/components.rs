//! Connected components by sampling: Afforest.   [Sutton, Ben-Nun, Barak, IPDPS 2018]

use super::Csr;

/// Arcs of each vertex that are joined first.
const SAMPLED: usize = 2;
/// Vertices that are asked for their component.
const ASKED: usize = 1024;

/// A vertex of each one's component.
pub(crate) fn run(graph: &Csr<u32>) -> Vec<u32> {
    let mut parents: Vec<u32> = (0..graph.len() as u32).collect();
    for round in 0..SAMPLED {
        for vertex in 0..graph.len() {
            if let Some(to) = graph.row(vertex).get(round) {
                join(&mut parents, vertex as u32, *to);
            }
        }
        compress(&mut parents);
    }
    let greatest = most_frequent(&parents);
    for vertex in 0..graph.len() {
        if parents[vertex] != greatest {
            for to in graph.row(vertex).iter().skip(SAMPLED) {
                join(&mut parents, vertex as u32, *to);
            }
        }
    }
    compress(&mut parents);
    parents
}

fn join(parents: &mut [u32], left: u32, right: u32) {
    let (mut left, mut right) = (parents[left as usize], parents[right as usize]);
    while left != right {
        let (high, low) = (left.max(right), left.min(right));
        let above = parents[high as usize];
        if above == low {
            return;
        }
        if above == high {
            parents[high as usize] = low;
            return;
        }
        (left, right) = (parents[above as usize], low);
    }
}

fn compress(parents: &mut [u32]) {
    for vertex in 0..parents.len() {
        while parents[vertex] != parents[parents[vertex] as usize] {
            parents[vertex] = parents[parents[vertex] as usize];
        }
    }
}

fn most_frequent(parents: &[u32]) -> u32 {
    let step = parents.len().div_ceil(ASKED).max(1);
    let mut roots: Vec<u32> = parents.iter().step_by(step).copied().collect();
    roots.sort_unstable();
    roots.chunk_by(|left, right| left == right).max_by_key(|members| members.len()).map_or(0, |members| members[0])
}
