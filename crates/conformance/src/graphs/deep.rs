//! Algorithms made of several searches: strongly connected components, and betweenness.

use treepie::Comm;
use treepie::graph::betweenness::{self, Betweenness, Hops, Lengths, Measure};
use treepie::graph::{Graph, Messages, Orientation, Result, Shape, Weighted, components, scc};

use super::{Drawn, messages, oracle, seeds, shape};
use crate::check::{Outcome, check, check_eq};

/// Those with few vertices: what is right is found slowly.
const FEW: u64 = 70;

fn drawn(seed: u64) -> Option<(Drawn, Shape)> {
    let orientation = [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize];
    let shape = Shape { backwards: true, whole_weights: true, ..shape(seed) };
    Some((Drawn::new(seed, orientation), shape)).filter(|(drawn, _)| (1..FEW).contains(&drawn.count()))
}

pub(super) fn strong(comm: &Comm) -> Outcome {
    for (seed, (drawn, shape)) in seeds(comm).filter_map(|seed| Some((seed, drawn(seed)?))) {
        let messages = messages(seed);
        let graph = Graph::<u32>::build(comm, &drawn, &shape)?;
        let right = oracle::strong(&drawn.arcs(&shape), |name| graph.layout().number(name).expect("it is a name"));
        let mut search = scc::Search::new(comm, &graph, &messages)?;
        search.run()?;
        for (place, label) in search.labels().iter().enumerate() {
            let name = graph.layout().name(place) as usize;
            check_eq!(*label, right[name], "label of {name}, seed {seed}, {messages:?}");
        }
        scc::verify(comm, &graph, search.labels(), &messages)?;
        let mut names = right.clone();
        names.sort_unstable();
        names.dedup();
        check_eq!(components::count(comm, &graph, search.labels())?.components, names.len() as u64, "seed {seed}");
    }
    Ok(())
}

pub(super) fn between(comm: &Comm) -> Outcome {
    for (seed, (mut drawn, shape)) in seeds(comm).filter_map(|seed| Some((seed, drawn(seed)?))) {
        let travels = messages(seed);
        if seed.is_multiple_of(2) {
            let graph = Graph::<Weighted>::build(comm, &drawn, &shape)?;
            let measure = || Lengths::<u32>::new(comm, &graph, None, &travels);
            scores(comm, &drawn.arcs(&shape), seed, &travels, measure)?;
        } else {
            drawn.edges.iter_mut().for_each(|edge| edge.weight = 1.0);
            let graph = Graph::<u32>::build(comm, &drawn, &shape)?;
            scores(comm, &drawn.arcs(&shape), seed, &travels, || Hops::new(comm, &graph, &travels))?;
        }
    }
    Ok(())
}

fn scores<'g, M: Measure<'g>>(
    comm: &Comm,
    arcs: &oracle::Arcs,
    seed: u64,
    travels: &Messages,
    measure: impl Fn() -> Result<M>,
) -> Outcome {
    let graph = measure()?.graph();
    let names = [0, arcs.len() as u64 / 2, arcs.len() as u64 - 1];
    let number = |name: &u64| graph.layout().number(*name).expect("it is a name");
    let sources: Vec<u64> = names.iter().map(number).collect();
    let mut search = Betweenness::new(comm, measure()?, travels)?;
    for source in &sources {
        search.run(*source)?;
    }
    let right = oracle::betweenness(arcs, &names);
    let times = if graph.is_symmetric() { 2.0 } else { 1.0 };
    let scores = search.scores();
    for (place, score) in scores.iter().enumerate() {
        let name = graph.layout().name(place) as usize;
        let right = right[name] / times;
        let is_near = (score - right).abs() <= 1e-9 * right.max(1.0);
        check!(is_near, "the score of {name} is {score}, not {right}, seed {seed}, {travels:?}");
    }
    betweenness::verify(comm, &mut measure()?, sources.iter().copied(), &scores, travels)?;
    Ok(())
}
