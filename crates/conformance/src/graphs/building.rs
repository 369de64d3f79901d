//! The CSR has exactly the arcs of the edge list, for every distribution.

use treepie::Comm;
use treepie::graph::{
    BuildOptions, Csr, CsrEdge, Edge, EdgeSource, EdgeWeight, Error, Graph, Orientation, VertexLayout,
};

use super::{RandomGraph, build_options, seeds};
use crate::check::{Failure, Outcome, check, check_eq};

pub(super) fn shapes(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let orientation = [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize];
        let input = RandomGraph::new(seed, orientation);
        let options = BuildOptions {
            symmetrize: seed % 7 == 0,
            directed: seed % 7 == 1,
            store_in_edges: true,
            ..build_options(seed)
        };
        let during = |failure: Failure| failure.context(format!("seed {seed}, {options:?}"));
        let graph = Graph::<u32>::build_weighted_with(comm, &input, &options).map_err(Failure::from).map_err(during)?;
        let expected = input.arcs(&options);
        check_eq!(graph.num_vertices(), expected.len() as u64, "vertices, seed {seed}");
        check_eq!(graph.num_arcs(), expected.iter().map(|row| row.len() as u64).sum::<u64>(), "arcs, seed {seed}");
        let mut into = vec![Vec::new(); expected.len()];
        for (from, row) in (0..).zip(&expected) {
            row.iter().for_each(|(to, weight)| into[*to as usize].push((from, *weight)));
        }
        let ids = visible_vertex_ids(&graph)?;
        for local in graph.local_vertices() {
            let id = graph.external_id(local) as usize;
            check_rows(&graph, graph.out_edges(), local, &expected[id], &ids).map_err(during)?;
            let in_edges = graph.in_edges().expect("in-edges are stored");
            check_rows(&graph, in_edges, local, &into[id], &ids).map_err(during)?;
            check_eq!(
                graph.find_vertex(id as u64).ok().and_then(|global| graph.local_index(global)),
                Some(local),
                "{id}"
            );
        }
        check!(graph.find_vertex(expected.len() as u64).is_err(), "a vertex id past the last, seed {seed}");
    }
    Ok(())
}

/// The external id of each vertex of the local view, ghosts included.
fn visible_vertex_ids<W: EdgeWeight>(graph: &Graph<W>) -> Outcome<Vec<u64>> {
    Ok(graph.with_ghosts(graph.local_vertices().map(|local| graph.external_id(local)))?)
}

fn check_rows(graph: &Graph<u32>, rows: &Csr<u32>, local: usize, expected: &[(u64, f64)], ids: &[u64]) -> Outcome {
    let layout: &VertexLayout = graph.layout();
    let arc = |arc: &CsrEdge<u32>| (ids[arc.target as usize], f64::from(arc.weight));
    let mut row: Vec<_> = rows.row(local).iter().map(arc).collect();
    row.sort_by(|left, right| left.partial_cmp(right).expect("weights are numbers"));
    let mut expected = expected.to_vec();
    expected.sort_by(|left, right| left.partial_cmp(right).expect("weights are numbers"));
    check_eq!(row, expected, "arcs of {}", layout.external_id(local));
    let (near, remote) = rows.local_and_remote(local);
    let local_range = graph.view().local_range();
    let is_near = |arc: &CsrEdge<u32>| local_range.contains(&(arc.target as usize));
    check!(
        near.iter().all(is_near) && !remote.iter().any(is_near),
        "arcs to local vertices come first, of {}",
        layout.external_id(local)
    );
    for arc in remote {
        let (rank, at) = graph.view().owner(arc.target);
        let global = layout.first_global_id(rank) + u64::from(at);
        check_eq!(layout.owner(global), (rank, at), "an owner");
        check!(rank != layout.rank(), "a remote arc to a local vertex");
    }
    Ok(())
}

/// Few ids up to 2^64, or ids with small gaps: vertices are then listed instead of a range.
pub(super) fn sparse_ids(comm: &Comm) -> Outcome {
    for seed in seeds(comm).take(12) {
        let mut input = RandomGraph::new(seed, Orientation::Undirected);
        input.is_vertex_count_known = false;
        let spread = |id: u64| match seed % 2 {
            0 => id.wrapping_mul(0x0123_4567_89ab_cdef) ^ 1 << 63,
            _ => 3 * id + 5,
        };
        let mut expected = input.arcs(&BuildOptions::default());
        input.edges.iter_mut().for_each(|edge| (edge.from, edge.to) = (spread(edge.from), spread(edge.to)));
        let mut ids: Vec<u64> = input.edges.iter().flat_map(|edge| [edge.from, edge.to]).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            continue;
        }
        let graph = Graph::build(comm, &input)?;
        check_eq!(graph.num_vertices(), ids.len() as u64, "vertices, seed {seed}");
        let seen = visible_vertex_ids(&graph)?;
        let original = |id: u64| (0..).find(|dense| spread(*dense) == id).expect("an id of the graph");
        for local in graph.local_vertices() {
            let id = graph.external_id(local);
            let mut row: Vec<u64> = graph.neighbors(local).map(|neighbor| original(seen[neighbor.index()])).collect();
            row.sort_unstable();
            let expected = &mut expected[original(id) as usize];
            expected.sort_by_key(|arc| arc.0);
            check_eq!(row, expected.iter().map(|arc| arc.0).collect::<Vec<_>>(), "arcs of {id}, seed {seed}");
        }
        for id in ids {
            let global = graph.find_vertex(id)?;
            let is_here = graph.local_index(global).map(|local| graph.external_id(local));
            check!(is_here.is_none_or(|found| found == id), "{id} is found at {is_here:?}");
        }
        check!(graph.find_vertex(12_345_678).is_err(), "an unknown vertex id");
    }
    Ok(())
}

/// A bad edge on one rank is the same error on all ranks.
pub(super) fn refused(comm: &Comm) -> Outcome {
    let edges = |bad: Edge| {
        let mut edges: Vec<Edge> = (0..100).map(|i| Edge::new(i % 10, i % 7)).collect();
        edges[61] = bad;
        RandomGraph { vertices: 10, edges, is_vertex_count_known: true, orientation: Orientation::Directed }
    };
    fn error_of<W: EdgeWeight>(comm: &Comm, input: &dyn EdgeSource) -> String {
        match Graph::<W>::build_weighted(comm, input) {
            Err(Error::Input(what)) => what,
            other => format!("{:?}", other.map(|graph| graph.num_arcs())),
        }
    }
    let outside = error_of::<f32>(comm, &edges(Edge::new(3, 10)));
    check_eq!(outside, "vertex 10 of an edge is not one of the 10 vertices from 0 on", "an endpoint out of range");
    let negative = error_of::<f32>(comm, &edges(Edge { weight: -1.0, ..Edge::new(1, 2) }));
    check_eq!(negative, "a weight is -1, not a non-negative number", "a negative weight");
    let fraction = error_of::<u32>(comm, &edges(Edge { weight: 0.5, ..Edge::new(1, 2) }));
    check_eq!(fraction, "a weight is 0.5, not a whole number from 0 to 2^32-1", "a weight that is not an integer");
    Ok(())
}
