//! Vertices whose arcs are spread over ranks: nothing that is found depends on it.

use treepie::Comm;
use treepie::graph::betweenness::Hops;
use treepie::graph::bfs::{self, Label, UNREACHED};
use treepie::graph::components::{self, hooking, sampling, search};
use treepie::graph::pagerank::{self, Limits, Ranking, pull::Pulling, push::Pushing};
use treepie::graph::{Arc, Bits, Edge, Error, Graph, Messages, Orientation, Result, Shape, Weighted, reach, scc, sssp};

use super::{Drawn, fewer_seeds, messages, oracle, shape};
use crate::check::{Failure, Outcome, check, check_eq};

/// From so many arcs on.
const SPLITS: [Option<u64>; 4] = [None, Some(1), Some(2), Some(5)];

/// A graph of a seed: by chance, or a star.
fn drawn(seed: u64) -> Drawn {
    let orientation = [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize];
    if seed % 4 == 1 { star(20 + seed % 50, orientation) } else { Drawn::new(seed, orientation) }
}

/// From the first vertex to all others, and further from some of them.
fn star(vertices: u64, orientation: Orientation) -> Drawn {
    let mut edges: Vec<Edge> =
        (1..vertices).map(|leaf| Edge { weight: (1 + leaf % 9) as f64, ..Edge::new(0, leaf) }).collect();
    edges.extend((1..vertices / 2).map(|leaf| Edge::new(leaf, 2 * leaf)));
    Drawn { vertices, edges, is_known: true, orientation }
}

pub(super) fn same(comm: &Comm) -> Outcome {
    for seed in fewer_seeds(comm, 24) {
        let drawn = drawn(seed);
        for split in SPLITS {
            let shape = Shape { backwards: true, whole_weights: true, split, ..shape(seed) };
            let graph = Graph::<u32>::build(comm, &drawn, &shape)?;
            let weighted = Graph::<Weighted>::build(comm, &drawn, &shape)?;
            let arcs = drawn.arcs(&shape);
            // Both styles.
            for messages in [messages(seed), messages(seed + 1)] {
                let during = |failure: Failure| failure.during(format!("seed {seed}, {shape:?}, {messages:?}"));
                rows(&weighted, &arcs, split).map_err(during)?;
                if graph.vertices() > 0 {
                    searches(comm, &graph, &arcs, &messages).map_err(during)?;
                    ways(comm, &weighted, &arcs, &messages, seed).map_err(during)?;
                    ranking(comm, &graph, &arcs, &messages).map_err(during)?;
                }
            }
        }
    }
    Ok(())
}

/// Each arc lies where it should, and only there.
fn rows(graph: &Graph<Weighted>, arcs: &oracle::Arcs, split: Option<u64>) -> Outcome {
    let (layout, hubs, own) = (graph.layout(), graph.hubs(), graph.view().own());
    let place = |name: usize| layout.place(layout.number(name as u64).expect("it is a name"));
    let is_own = |name: &usize| place(*name).0 == layout.rank();
    let sorted = |mut row: Vec<(u64, f64)>| {
        row.sort_by(|left, right| left.partial_cmp(right).expect("weights are numbers"));
        row
    };
    let near = |arc: &Weighted| (layout.name(arc.target() as usize - own.start), f64::from(arc.weight::<u32>()));
    check_eq!(graph.arcs(), arcs.iter().map(|row| row.len() as u64).sum::<u64>(), "arcs");
    let is_hub = |name: &usize| {
        let leaves = arcs[*name].iter().any(|(to, _)| place(*to as usize).0 != place(*name).0);
        leaves && split.is_some_and(|split| arcs[*name].len() as u64 >= split)
    };
    let mut right: Vec<usize> = (0..arcs.len()).filter(is_hub).collect();
    right.sort_by_key(|name| layout.number(*name as u64));
    check_eq!(hubs.len(), right.len(), "hubs");
    for (index, name) in (0..).zip(&right) {
        check_eq!(Some(hubs.number(index)), layout.number(*name as u64), "a hub's number");
        let arcs_here = arcs[*name].iter().filter(|(to, _)| is_own(&(*to as usize)) && !is_own(name));
        let share = hubs.share(index).iter().map(near).collect();
        check_eq!(sorted(share), sorted(arcs_here.copied().collect()), "the share of {name}");
    }
    for place in 0..graph.own() {
        let name = layout.name(place) as usize;
        check_eq!(graph.degree(place), arcs[name].len() as u64, "the degree of {name}");
        let loops = arcs[name].iter().filter(|(to, _)| *to == name as u64).count();
        check_eq!(graph.degree_without_loops(place), (arcs[name].len() - loops) as u64, "others, of {name}");
        check_eq!(hubs.of(place).is_some(), right.contains(&name), "whether {name} is a hub");
        let (row, far) = graph.out().parts(place);
        let arcs_here = arcs[name].iter().filter(|(to, _)| is_own(&(*to as usize)));
        check_eq!(sorted(row.iter().map(near).collect()), sorted(arcs_here.copied().collect()), "own ones, of {name}");
        let away = if hubs.of(place).is_some() { 0 } else { arcs[name].len() - row.len() };
        check_eq!(far.len(), away, "others' vertices, of {name}");
    }
    Ok(())
}

fn searches(comm: &Comm, graph: &Graph, arcs: &oracle::Arcs, messages: &Messages) -> Outcome {
    let layout = graph.layout();
    for name in [0, graph.vertices() - 1] {
        let root = graph.find(comm, name)?;
        let right = oracle::levels(arcs, &[name]);
        let mut search = bfs::messages::Search::<u32, u64>::new(comm, graph, messages)?;
        let labels = search.run(root)?;
        let mut visiting = reach::Search::new(comm, graph, messages)?;
        let visited = visiting.run(&[root])?;
        for (place, label) in labels.iter().enumerate() {
            let name = layout.name(place) as usize;
            check_eq!(label.level, right[name].unwrap_or(UNREACHED), "level of {name}");
            check_eq!(visited.has(place), right[name].is_some(), "whether {name} is reached");
        }
        bfs::verify(comm, graph, root, labels, messages)?;
        reach::verify(comm, graph, &[root], visited, messages)?;
        let reached = (0..).zip(arcs).zip(&right).filter(|(_, level)| level.is_some());
        let others = |(from, row): (u64, &Vec<(u64, f64)>)| row.iter().filter(|arc| arc.0 != from).count() as u64;
        let followed: u64 = reached.map(|(of, _)| others(of)).sum();
        let count = right.iter().flatten().count() as u64;
        let found = bfs::count(comm, graph, labels)?;
        check_eq!((found.reached, found.arcs), (count, followed), "a search in numbers");
        check_eq!(reach::count(comm, graph, visited)?, (count, followed), "what is reached in numbers");
    }
    Ok(())
}

fn ways(comm: &Comm, graph: &Graph<Weighted>, arcs: &oracle::Arcs, messages: &Messages, seed: u64) -> Outcome {
    let delta = [None, Some(0.01), Some(3.0), Some(1e9)][(seed / 2 % 4) as usize];
    let mut search = sssp::Search::<u32>::new(comm, graph, delta, messages)?;
    for name in [graph.vertices() - 1, 0] {
        let root = graph.find(comm, name)?;
        let right = oracle::lengths(arcs, name, |length, weight| length + weight);
        search.run(root)?;
        let lengths = search.lengths();
        for (place, length) in lengths.iter().enumerate() {
            let name = graph.layout().name(place) as usize;
            let length = if *length < u32::MAX { f64::from(*length) } else { f64::INFINITY };
            check_eq!(length, right[name], "length to {name}, delta {delta:?}");
        }
        sssp::verify(comm, graph, root, &lengths, messages)?;
    }
    Ok(())
}

fn ranking(comm: &Comm, graph: &Graph, arcs: &oracle::Arcs, messages: &Messages) -> Outcome {
    let limits = Limits { tolerance: 0.0, iterations: 8, ..Limits::default() };
    let right = oracle::ranking(arcs, limits.damping, limits.iterations);
    let check = |ranking: &Ranking, how: &str| -> Outcome {
        for (place, score) in ranking.scores.iter().enumerate() {
            let name = graph.layout().name(place) as usize;
            let is_near = (score - right[name]).abs() < 1e-6;
            check!(is_near, "{name} has {score}, not {}, by {how}", right[name]);
        }
        Ok(pagerank::verify(comm, graph, ranking, &limits)?)
    };
    check(&Pushing::new(comm, graph, messages)?.run(&limits)?, "pushing")?;
    check(&Pulling::new(comm, graph)?.run(&limits)?, "pulling")
}

/// Algorithms that need whole rows say so, on all ranks; others' verifiers see also arcs that lie elsewhere.
pub(super) fn refused(comm: &Comm) -> Outcome {
    if comm.size() == 1 {
        // All arcs are the rank's own, so nothing is split.
        return Ok(());
    }
    let messages = Messages::default();
    let shape = Shape { split: Some(5), ..Shape::default() };
    let star = star(64, Orientation::Undirected);
    let graph = Graph::<u32>::build(comm, &star, &shape)?;
    check!(!graph.hubs().is_empty() && graph.back().is_none(), "rows are split");
    let refuses = |what: &str, outcome: Result<()>| -> Outcome {
        let named = matches!(&outcome, Err(Error::Input(text)) if text.contains("whole rows"));
        check!(named, "{what}: {outcome:?}");
        Ok(())
    };
    let direction = bfs::direction::Search::<u32, u32>::new(comm, &graph, &messages);
    refuses("directions", direction.map(|_| ()))?;
    refuses("exchanges", bfs::exchange::Search::<u32, u32>::new(comm, &graph).run(0).map(|_| ()))?;
    refuses("hooking", hooking::run(comm, &graph, &messages).map(|_| ()))?;
    refuses("a search and hooking", search::run(comm, &graph, &messages).map(|_| ()))?;
    refuses("sampling", sampling::run(comm, &graph, &messages).map(|_| ()))?;
    refuses("components", components::verify(comm, &graph, &vec![0; graph.own()], &messages))?;
    refuses("strong components", scc::Search::new(comm, &graph, &messages).map(|_| ()))?;
    refuses("betweenness", Hops::new(comm, &graph, &messages).map(|_| ()))?;
    let shape = Shape { whole_weights: true, ..shape };
    too_long(comm, &shape, &messages)?;
    wrong(comm, &graph, &Graph::build(comm, &star, &shape)?, &messages)
}

/// Ways that only those ranks see to be too long that have a share of the vertex which they lead over.
fn too_long(comm: &Comm, shape: &Shape, messages: &Messages) -> Outcome {
    let ends = [(1, 0), (0, 59), (0, 60), (0, 61), (0, 62), (0, 63)];
    for (weight, whole_weights) in [(4e9, true), (3e38, false)] {
        let edges = ends.map(|(from, to)| Edge { from, to, weight }).to_vec();
        let drawn = Drawn { vertices: 64, edges, is_known: true, orientation: Orientation::Directed };
        let graph = Graph::<Weighted>::build(comm, &drawn, &Shape { whole_weights, ..shape.clone() })?;
        let outcome = match whole_weights {
            true => sssp::Search::<u32>::new(comm, &graph, None, messages)?.run(1),
            false => sssp::Search::<f32>::new(comm, &graph, None, messages)?.run(1),
        };
        check!(outcome.as_ref().is_err_and(|error| error.to_string().contains("too long")), "{outcome:?}");
    }
    Ok(())
}

/// The last leaf of a star, on another rank than the middle, has something wrong.
fn wrong(comm: &Comm, graph: &Graph, weighted: &Graph<Weighted>, messages: &Messages) -> Outcome {
    let finds = |what: &str, outcome: Result<()>| -> Outcome {
        // Ranks that did not see it themselves have its text.
        let is_found = outcome.as_ref().is_err_and(|error| error.to_string().starts_with("wrong result"));
        check!(is_found, "{what}: {outcome:?}");
        Ok(())
    };
    let (root, leaf) = (0, graph.vertices() - 1);
    let labels = bfs::messages::Search::<u32, u64>::new(comm, graph, messages)?.run(root)?.to_vec();
    let cases = [
        ("a leaf that was left out", Label { parent: u64::MAX, level: UNREACHED }),
        ("a leaf that is too far", Label { parent: root, level: 2 }),
        ("a parent that is no neighbour", Label { parent: 2, level: 1 }),
    ];
    for (what, label) in cases {
        let mut labels = labels.clone();
        if let Some(place) = graph.mine(leaf) {
            labels[place] = label;
        }
        finds(what, bfs::verify(comm, graph, root, &labels, messages))?;
    }
    let mut visited = Bits::new(graph.own());
    (0..graph.own()).filter(|place| Some(*place) != graph.mine(leaf)).for_each(|place| visited.put(place));
    let outcome = reach::verify(comm, graph, &[root], &visited, messages);
    let is_seen = outcome.as_ref().is_err_and(|error| error.to_string().ends_with("63 behind an arc from it is not"));
    check!(is_seen, "a leaf that was left out: {outcome:?}");
    let mut search = sssp::Search::<u32>::new(comm, weighted, None, messages)?;
    search.run(root)?;
    let right = search.lengths();
    // There is a way of the length 2, over another leaf, but not a shortest one.
    for (what, leaf, length) in [("too far", leaf, 2), ("too near", leaf, 0), ("not the shortest", 54, 2)] {
        let mut lengths = right.clone();
        if let Some(place) = weighted.mine(leaf) {
            check_eq!(std::mem::replace(&mut lengths[place], length), 1, "the length to {leaf}");
        }
        finds(what, sssp::verify(comm, weighted, root, &lengths, messages))?;
    }
    let limits = Limits::default();
    let mut ranking = Pushing::new(comm, graph, messages)?.run(&limits)?;
    for (number, by) in [(root, -0.01), (leaf, 0.01)] {
        if let Some(place) = graph.mine(number) {
            ranking.scores[place] += by;
        }
    }
    finds("scores", pagerank::verify(comm, graph, &ranking, &limits))
}
