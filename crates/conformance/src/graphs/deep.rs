//! Algorithms that run several searches: strongly connected components and betweenness centrality.

use treepie::Comm;
use treepie::graph::betweenness::{self, Betweenness, HopMetric, PathMetric, WeightedMetric};
use treepie::graph::scc::SccOptions;
use treepie::graph::sssp::SsspOptions;
use treepie::graph::{AmConfig, BuildOptions, Graph, Orientation, Result};

use super::{RandomGraph, am_config, build_options, oracle, seeds};
use crate::check::{Outcome, check, check_eq};

/// Vertices of the largest graph: the serial oracle is slow.
const MAX_VERTICES: u64 = 70;

fn random_graph(seed: u64) -> Option<(RandomGraph, BuildOptions)> {
    let orientation = [Orientation::Directed, Orientation::Undirected][(seed / 3 % 2) as usize];
    let options = BuildOptions { store_in_edges: true, ..build_options(seed) };
    Some((RandomGraph::new(seed, orientation), options))
        .filter(|(input, _)| (1..MAX_VERTICES).contains(&input.num_vertices()))
}

pub(super) fn strong_components(comm: &Comm) -> Outcome {
    for (seed, (input, options)) in seeds(comm).filter_map(|seed| Some((seed, random_graph(seed)?))) {
        let config = am_config(seed);
        let graph = Graph::build_with(comm, &input, &options)?;
        let expected =
            oracle::strong_components(&input.arcs(&options), |id| graph.layout().global_id(id).expect("a vertex id"));
        let components = graph.scc_with(&SccOptions { config: config.clone() })?;
        for (id, label) in components.labels.iter() {
            check_eq!(*label, expected[id as usize], "label of {id}, seed {seed}, {config:?}");
        }
        components.verify()?;
        let mut ids = expected.clone();
        ids.sort_unstable();
        ids.dedup();
        check_eq!(components.summary()?.components, ids.len() as u64, "seed {seed}");
    }
    Ok(())
}

pub(super) fn betweenness_centrality(comm: &Comm) -> Outcome {
    for (seed, (mut input, options)) in seeds(comm).filter_map(|seed| Some((seed, random_graph(seed)?))) {
        let config = am_config(seed);
        if seed.is_multiple_of(2) {
            let graph = Graph::<u32>::build_weighted_with(comm, &input, &options)?;
            let sssp = SsspOptions { config: config.clone(), ..SsspOptions::default() };
            let measure = || WeightedMetric::new(&graph, &sssp);
            scores(&input.arcs(&options), seed, &config, measure)?;
        } else {
            input.edges.iter_mut().for_each(|edge| edge.weight = 1.0);
            let graph = Graph::build_with(comm, &input, &options)?;
            scores(&input.arcs(&options), seed, &config, || HopMetric::new(&graph, &config))?;
        }
    }
    Ok(())
}

fn scores<'g, M: PathMetric<'g>>(
    arcs: &oracle::Arcs,
    seed: u64,
    config: &AmConfig,
    measure: impl Fn() -> Result<M>,
) -> Outcome {
    let graph = measure()?.graph();
    let ids = [0, arcs.len() as u64 / 2, arcs.len() as u64 - 1];
    let global = |id: &u64| graph.layout().global_id(*id).expect("a vertex id");
    let sources: Vec<u64> = ids.iter().map(global).collect();
    let mut search = Betweenness::new(measure()?, config)?;
    for source in &sources {
        search.run(*source)?;
    }
    let expected = oracle::betweenness(arcs, &ids);
    let divisor = if graph.is_symmetric() { 2.0 } else { 1.0 };
    let scores = search.scores()?;
    for (id, score) in scores.iter() {
        let expected = expected[id as usize] / divisor;
        let is_near = (score - expected).abs() <= 1e-9 * expected.max(1.0);
        check!(is_near, "the score of {id} is {score}, not {expected}, seed {seed}, {config:?}");
    }
    betweenness::verify(&mut measure()?, sources.iter().copied(), &scores, config)?;
    Ok(())
}
