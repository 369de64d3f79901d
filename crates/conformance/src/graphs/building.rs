//! Rows are what edges say, however they are spread.

use treepie::Comm;
use treepie::graph::{Arc, Edge, Edges, Error, Graph, Layout, Orientation, Rows, Shape, View, Weighted};

use super::{Drawn, seeds, shape};
use crate::check::{Failure, Outcome, check, check_eq};

pub(super) fn shapes(comm: &Comm) -> Outcome {
    for seed in seeds(comm) {
        let orientation = [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize];
        let drawn = Drawn::new(seed, orientation);
        let shape = Shape {
            symmetrize: seed % 7 == 0,
            directed: seed % 7 == 1,
            backwards: true,
            whole_weights: true,
            ..shape(seed)
        };
        let during = |failure: Failure| failure.during(format!("seed {seed}, {shape:?}"));
        let graph = Graph::<Weighted>::build(comm, &drawn, &shape).map_err(Failure::from).map_err(during)?;
        let right = drawn.arcs(&shape);
        check_eq!(graph.vertices(), right.len() as u64, "vertices, seed {seed}");
        check_eq!(graph.arcs(), right.iter().map(|row| row.len() as u64).sum::<u64>(), "arcs, seed {seed}");
        let mut into = vec![Vec::new(); right.len()];
        for (from, row) in (0..).zip(&right) {
            row.iter().for_each(|(to, weight)| into[*to as usize].push((from, *weight)));
        }
        let names = names_seen(comm, &graph)?;
        for place in 0..graph.own() {
            let name = graph.layout().name(place) as usize;
            check_rows(&graph, graph.out(), place, &right[name], &names).map_err(during)?;
            let back = graph.back().expect("it was asked for");
            check_rows(&graph, back, place, &into[name], &names).map_err(during)?;
            check_eq!(graph.find(comm, name as u64).ok().and_then(|number| graph.mine(number)), Some(place), "{name}");
        }
        check!(graph.find(comm, right.len() as u64).is_err(), "there is no vertex behind the last, seed {seed}");
    }
    Ok(())
}

/// The name of the vertex at each place.
fn names_seen<A: Arc>(comm: &Comm, graph: &Graph<A>) -> Outcome<Vec<u64>> {
    let view: &View = graph.view();
    let mut names = vec![u64::MAX; view.len()];
    view.own().enumerate().for_each(|(index, place)| names[place] = graph.layout().name(index));
    view.gather(comm, &mut names)?;
    Ok(names)
}

fn check_rows(
    graph: &Graph<Weighted>,
    rows: &Rows<Weighted>,
    place: usize,
    right: &[(u64, f64)],
    names: &[u64],
) -> Outcome {
    let layout: &Layout = graph.layout();
    let arc = |arc: &Weighted| (names[arc.target() as usize], f64::from(arc.weight::<u32>()));
    let mut row: Vec<_> = rows.row(place).iter().map(arc).collect();
    row.sort_by(|left, right| left.partial_cmp(right).expect("weights are numbers"));
    let mut right = right.to_vec();
    right.sort_by(|left, right| left.partial_cmp(right).expect("weights are numbers"));
    check_eq!(row, right, "arcs of {}", layout.name(place));
    let (near, far) = rows.parts(place);
    let own = graph.view().own();
    let is_near = |arc: &Weighted| own.contains(&(arc.target() as usize));
    check!(near.iter().all(is_near) && !far.iter().any(is_near), "own ones come first, of {}", layout.name(place));
    for arc in far {
        let (rank, at) = graph.view().owner(arc.target());
        let number = layout.first(rank) + u64::from(at);
        check_eq!(layout.place(number), (rank, at), "an owner");
        check!(rank != layout.rank(), "those of others are others'");
    }
    Ok(())
}

/// Names up to 2^64 and few of them, or with small gaps: they are listed, not counted.
pub(super) fn far_apart(comm: &Comm) -> Outcome {
    for seed in seeds(comm).take(12) {
        let mut drawn = Drawn::new(seed, Orientation::Undirected);
        drawn.is_known = false;
        let far = |name: u64| match seed % 2 {
            0 => name.wrapping_mul(0x0123_4567_89ab_cdef) ^ 1 << 63,
            _ => 3 * name + 5,
        };
        let mut right = drawn.arcs(&Shape::default());
        drawn.edges.iter_mut().for_each(|edge| (edge.from, edge.to) = (far(edge.from), far(edge.to)));
        let mut names: Vec<u64> = drawn.edges.iter().flat_map(|edge| [edge.from, edge.to]).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            continue;
        }
        let graph = Graph::<u32>::build(comm, &drawn, &Shape::default())?;
        check_eq!(graph.vertices(), names.len() as u64, "vertices, seed {seed}");
        let seen = names_seen(comm, &graph)?;
        let by_far = |name: u64| (0..).find(|near| far(*near) == name).expect("it was made of one");
        for place in 0..graph.own() {
            let name = graph.layout().name(place);
            let mut row: Vec<u64> = graph.out().row(place).iter().map(|arc| by_far(seen[*arc as usize])).collect();
            row.sort_unstable();
            let right = &mut right[by_far(name) as usize];
            right.sort_by_key(|arc| arc.0);
            check_eq!(row, right.iter().map(|arc| arc.0).collect::<Vec<_>>(), "arcs of {name}, seed {seed}");
        }
        for name in names {
            let number = graph.find(comm, name)?;
            let is_here = graph.mine(number).map(|place| graph.layout().name(place));
            check!(is_here.is_none_or(|found| found == name), "{name} is found at {is_here:?}");
        }
        check!(graph.find(comm, 12_345_678).is_err(), "a name that there is not");
    }
    Ok(())
}

/// A bad edge on one rank is an error of all, and the same one.
pub(super) fn refused(comm: &Comm) -> Outcome {
    let edges = |bad: Edge| {
        let mut edges: Vec<Edge> = (0..100).map(|i| Edge::new(i % 10, i % 7)).collect();
        edges[61] = bad;
        Drawn { vertices: 10, edges, is_known: true, orientation: Orientation::Directed }
    };
    let whole = Shape { whole_weights: true, ..Shape::default() };
    let tell = |drawn: &dyn Edges, shape: &Shape| match Graph::<Weighted>::build(comm, drawn, shape) {
        Err(Error::Input(what)) => what,
        other => format!("{:?}", other.map(|graph| graph.arcs())),
    };
    let outside = tell(&edges(Edge::new(3, 10)), &Shape::default());
    check_eq!(outside, "vertex 10 of an edge is not below the number of vertices, 10", "an end that there is not");
    let negative = tell(&edges(Edge { weight: -1.0, ..Edge::new(1, 2) }), &Shape::default());
    check_eq!(negative, "a weight is -1, not a number from 0 on", "a negative weight");
    let part = tell(&edges(Edge { weight: 0.5, ..Edge::new(1, 2) }), &whole);
    check_eq!(part, "a weight is 0.5, not a whole number from 0 to 2^32-1", "a weight that is not whole");
    Ok(())
}
