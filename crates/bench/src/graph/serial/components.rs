//! Connected components by sampling: Afforest.   [Sutton, Ben-Nun, Barak, IPDPS 2018]

use super::SerialCsr;

/// Arcs of each vertex linked in the sampling phase.
const NEIGHBOR_ROUNDS: usize = 2;
/// Vertices sampled to find the largest intermediate component.
const NUM_SAMPLES: usize = 1024;

/// The component label of each vertex: a vertex of the component.
pub(crate) fn run(graph: &SerialCsr) -> Vec<u32> {
    let mut parents: Vec<u32> = (0..graph.len() as u32).collect();
    for round in 0..NEIGHBOR_ROUNDS {
        for vertex in 0..graph.len() {
            if let Some(arc) = graph.row(vertex).get(round) {
                link(&mut parents, vertex as u32, arc.target);
            }
        }
        compress(&mut parents);
    }
    let largest = sample_frequent_element(&parents);
    for vertex in 0..graph.len() {
        if parents[vertex] != largest {
            for arc in graph.row(vertex).iter().skip(NEIGHBOR_ROUNDS) {
                link(&mut parents, vertex as u32, arc.target);
            }
        }
    }
    compress(&mut parents);
    parents
}

fn link(parents: &mut [u32], left: u32, right: u32) {
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

fn sample_frequent_element(parents: &[u32]) -> u32 {
    let step = parents.len().div_ceil(NUM_SAMPLES).max(1);
    let mut roots: Vec<u32> = parents.iter().step_by(step).copied().collect();
    roots.sort_unstable();
    roots.chunk_by(|left, right| left == right).max_by_key(|members| members.len()).map_or(0, |members| members[0])
}
