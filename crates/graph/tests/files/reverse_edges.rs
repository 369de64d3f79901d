//! Edge lists that have the reverse of each edge, or nearly: symmetrized, without parallel edges.

use treepie_graph::{BuildOptions, Edge, EdgeSource, Orientation, Result, WeightKind, block_range};

use super::{local_adjacency, merged};
use crate::worlds::launch;

/// Edges whose vertices are not known before.
struct Unknown(Vec<Edge>);

impl EdgeSource for Unknown {
    fn num_vertices(&self) -> Option<u64> {
        None
    }

    fn orientation(&self) -> Orientation {
        Orientation::Directed
    }

    fn weights(&self) -> WeightKind {
        WeightKind::Integer
    }

    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let range = block_range(self.0.len() as u64, part, parts);
        self.0[range.start as usize..range.end as usize].chunks(10).for_each(sink);
        Ok(())
    }
}

#[test]
fn graphs_are_the_same_whether_reverse_edges_are_listed() {
    let options = BuildOptions { symmetrize: true, dedupe: true, ..BuildOptions::default() };
    // Ids with and without gaps.
    for factor in [1, 1 << 40] {
        let edge = |number: u64| {
            let (from, to) = (number * 7 % 50, number * number % 50);
            Edge { from: from * factor, to: to * factor, weight: (1 + number % 5) as f64 }
        };
        let once: Vec<Edge> = (0..50).map(edge).collect();
        let reverse = |edge: &Edge| Edge { from: edge.to, to: edge.from, ..*edge };
        let both: Vec<Edge> = once.iter().flat_map(|edge| [*edge, reverse(edge)]).collect();
        // The reverse of one edge is missing; it has another weight, which is the lightest.
        let missing = both[..both.len() - 1].to_vec();
        let mut lighter = both.clone();
        lighter.last_mut().expect("there are edges").weight = 0.0;
        let mut lighter_once = once.clone();
        lighter_once.last_mut().expect("there are edges").weight = 0.0;
        for (edges, like) in [(both, &once), (missing, &once), (lighter, &lighter_once)] {
            let (edges, like) = (Unknown(edges), Unknown(like.clone()));
            let expected = merged(launch(1, |comm| local_adjacency(&comm, &like, &options).unwrap()));
            for ranks in [1, 2, 3, 5] {
                let found = merged(launch(ranks, |comm| local_adjacency(&comm, &edges, &options).unwrap()));
                assert_eq!(found, expected, "{} edges, ids times {factor}, {ranks} ranks", edges.0.len());
            }
        }
    }
}
