//! Algorithms on simple undirected graphs: core numbers, triangles, independent sets; and degree statistics.

use std::collections::BTreeSet;

use treepie::Comm;
use treepie::graph::{BuildOptions, Graph, Orientation};

use super::{RandomGraph, build_options, fewer_seeds, oracle, seeds};
use crate::check::{Outcome, check, check_eq};

/// The different neighbors of each vertex.
type Neighbors = Vec<BTreeSet<usize>>;

fn random_graph(seed: u64) -> (RandomGraph, BuildOptions, Neighbors) {
    let input = RandomGraph::new(seed, Orientation::Undirected);
    let options = build_options(seed);
    let arcs = input.arcs(&options);
    let neighbors = |(vertex, row): (usize, &Vec<(u64, f64)>)| {
        row.iter().map(|(to, _)| *to as usize).filter(|to| *to != vertex).collect()
    };
    let neighbors = arcs.iter().enumerate().map(neighbors).collect();
    (input, options, neighbors)
}

pub(super) fn cores(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let (input, options, neighbors) = random_graph(seed);
        let graph = Graph::build_with(comm, &input, &options)?;
        let mut found = graph.cores()?;
        let expected = oracle::cores(&neighbors);
        for (id, core) in found.cores.iter() {
            check_eq!(*core, expected[id as usize], "core number of {id}, seed {seed}");
        }
        let largest = expected.iter().copied().max().unwrap_or(0);
        check_eq!(found.summary()?.largest, largest, "seed {seed}");
        found.verify()?;
        for wrong in [1, u32::MAX] {
            let Some(id) = (0..expected.len() as u64).find(|id| wrong == 1 || expected[*id as usize] > 0) else {
                continue;
            };
            let vertex = graph.local_index(graph.find_vertex(id)?);
            vertex.iter().for_each(|vertex| found.cores[*vertex] = found.cores[*vertex].wrapping_add(wrong));
            let is_accepted = found.verify().is_ok();
            vertex.iter().for_each(|vertex| found.cores[*vertex] = found.cores[*vertex].wrapping_sub(wrong));
            check!(!is_accepted, "a wrong core number of {id} is accepted, seed {seed}");
        }
    }
    Ok(())
}

pub(super) fn triangles(comm: &Comm) -> Outcome {
    for seed in fewer_seeds(comm, 20) {
        let (input, options, neighbors) = random_graph(seed);
        let graph = Graph::build_with(comm, &input, &options)?;
        let mut found = graph.triangles()?;
        let count = |vertex: &BTreeSet<usize>| {
            let closed = |other: &usize| neighbors[*other].intersection(vertex).count() as u64;
            vertex.iter().map(closed).sum::<u64>() / 2
        };
        let expected: Vec<u64> = neighbors.iter().map(count).collect();
        for (id, count) in found.counts.iter() {
            check_eq!(*count, expected[id as usize], "triangles of {id}, seed {seed}");
        }
        let pairs = |row: &BTreeSet<usize>| (row.len() * row.len().saturating_sub(1) / 2) as u64;
        let clustering = found.clustering()?;
        for (id, coefficient) in clustering.iter() {
            let pairs = pairs(&neighbors[id as usize]).max(1);
            check_eq!(*coefficient, expected[id as usize] as f64 / pairs as f64, "clustering of {id}, seed {seed}");
        }
        let summary = found.summary()?;
        check_eq!(summary.triangles, expected.iter().sum::<u64>() / 3, "seed {seed}");
        let all_pairs: u64 = neighbors.iter().map(pairs).sum();
        check_eq!(summary.transitivity, expected.iter().sum::<u64>() as f64 / all_pairs.max(1) as f64, "seed {seed}");
        found.verify()?;
        if graph.num_vertices() > 0 {
            let vertex = graph.local_index(graph.find_vertex(0)?);
            vertex.iter().for_each(|vertex| found.counts[*vertex] += 1);
            check!(found.verify().is_err(), "a wrong count is accepted, seed {seed}");
        }
    }
    Ok(())
}

pub(super) fn independent_sets(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let (input, options, neighbors) = random_graph(seed);
        let graph = Graph::build_with(comm, &input, &options)?;
        let mut found = graph.independent_set()?;
        let mut members = vec![0; neighbors.len()];
        found.members.iter().for_each(|(id, member)| members[id as usize] = u64::from(*member));
        comm.allreduce_in_place(&mut members, treepie::Sum)?;
        for (vertex, others) in neighbors.iter().enumerate() {
            let chosen = others.iter().filter(|other| members[**other] == 1).count();
            check!(
                (chosen == 0) == (members[vertex] == 1),
                "vertex {vertex} with {chosen} neighbors in the set, seed {seed}"
            );
        }
        check_eq!(found.size()?, members.iter().sum::<u64>(), "seed {seed}");
        found.verify()?;
        if graph.num_vertices() > 0 {
            let vertex = graph.local_index(graph.find_vertex(0)?);
            vertex.iter().for_each(|vertex| found.members[*vertex] ^= 1);
            check!(found.verify().is_err(), "a wrong set is accepted, seed {seed}");
        }
    }
    Ok(())
}

pub(super) fn degrees(comm: &Comm) -> Outcome {
    for seed in fewer_seeds(comm, 20) {
        let orientation = [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize];
        let (input, options) =
            (RandomGraph::new(seed, orientation), BuildOptions { store_in_edges: true, ..build_options(seed) });
        let found = Graph::build_with(comm, &input, &options)?.degree_statistics()?;
        let arcs = input.arcs(&options);
        let mut degrees: Vec<u64> = arcs.iter().map(|row| row.len() as u64).collect();
        let mut into = vec![0_u64; arcs.len()];
        arcs.iter().flatten().for_each(|(to, _)| into[*to as usize] += 1);
        let isolated = degrees.iter().zip(&into).filter(|(out, into)| **out + **into == 0).count() as u64;
        let different = |row: &Vec<(u64, f64)>| row.iter().map(|(to, _)| *to).collect::<BTreeSet<_>>().len() as u64;
        let parallel = degrees.iter().sum::<u64>() - arcs.iter().map(different).sum::<u64>();
        let loops =
            |(vertex, row): (usize, &Vec<(u64, f64)>)| row.iter().filter(|(to, _)| *to == vertex as u64).count();
        let loops = arcs.iter().enumerate().map(loops).sum::<usize>() as u64;
        degrees.sort_unstable();
        let median = degrees.get(degrees.len().div_ceil(2).saturating_sub(1)).copied().unwrap_or(0);
        let expected = (degrees.first().copied().unwrap_or(0), median, degrees.last().copied().unwrap_or(0));
        check_eq!((found.min, found.median, found.max), expected, "degrees, seed {seed}");
        check_eq!((found.isolated, found.self_loops, found.parallel_arcs), (isolated, loops, parallel), "seed {seed}");
        check_eq!(found.max_in, Some(into.iter().copied().max().unwrap_or(0)), "in-degree, seed {seed}");
        check_eq!(found.histogram.iter().sum::<u64>(), arcs.len() as u64, "histogram, seed {seed}");
    }
    Ok(())
}
