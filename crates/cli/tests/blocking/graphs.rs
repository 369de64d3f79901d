//! Graphs: loading, algorithms and their verifiers.

use treepie::graph::betweenness::{self, Betweenness, HopMetric, PathMetric, WeightedMetric};
use treepie::graph::bfs::{BfsMethod, BfsOptions, BfsSearch};
use treepie::graph::components::{ComponentMethod, ComponentOptions};
use treepie::graph::generate::ErdosRenyi;
use treepie::graph::pagerank::{PageRankOptions, pull::PullPageRank, push::PushPageRank};
use treepie::graph::patterns::fixpoint;
use treepie::graph::scc::SccSearch;
use treepie::graph::sssp::{DeltaStepping, SsspOptions};
use treepie::graph::{
    AmConfig, AmTraffic, Bitmap, BuildOptions, EdgeFiles, EdgeSource, Error, Graph, PropertyMap, Result, agree, reach,
};

use crate::table::{Call, Outcome, Trial};

pub(crate) const CALLS: &[Call] = &[
    Call::new(&["graph::agree::agree"], |t| t.fails(|| agree(t.world, Ok::<_, Error>(())))),
    Call::new(
        &[
            "graph::build::Graph::build",
            "graph::build::Graph::build_with",
            "graph::build::Graph::build_weighted",
            "graph::build::Graph::build_weighted_with",
        ],
        |t| t.fails(|| built(t)),
    )
    .sample(),
    Call::new(
        &[
            "graph::build::Graph::read",
            "graph::build::Graph::read_with",
            "graph::build::Graph::read_weighted",
            "graph::build::Graph::read_weighted_with",
        ],
        |t| {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../graph/tests/samples/good/general.mtx");
            t.fails(|| Graph::read(t.world, file).map(drop))
        },
    ),
    Call::new(&["graph::edge::EdgeSource::read_together"], |t| {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../graph/tests/samples/good/edges.el.gz");
        let files = EdgeFiles::open(&[file.into()], None)?;
        t.fails(|| files.read_together(t.world, &mut |_| {}))
    }),
    Call::new(&["graph::graph::Graph::find_vertex"], |t| {
        let graph = built(t)?;
        // Where external ids equal vertex numbers, no peer is asked.
        t.may_fail(|| graph.find_vertex(3), |number| *number == 3)
    }),
    Call::new(&["graph::graph_file::save::Graph::save"], |t| {
        let graph = built(t)?;
        let path = std::env::temp_dir().join(format!("treepie-blocking-{}.tpg", std::process::id()));
        t.fails(|| graph.save(&path))?;
        assert!(!path.exists(), "half a graph was saved");
        Ok(())
    }),
    Call::new(&["graph::graph::Graph::update_ghosts", "graph::graph::Graph::with_ghosts"], |t| {
        let graph = built(t)?;
        t.fails(|| graph.with_ghosts(graph.local_vertices()))
    }),
    Call::new(&["graph::graph::Graph::update_ghost_bits"], |t| {
        let graph = built(t)?;
        let mut bits = Bitmap::new(graph.view().len());
        t.fails(|| graph.update_ghost_bits(&mut bits))
    }),
    Call::new(&["graph::graph::Graph::allgather_hubs"], |t| {
        let options = BuildOptions { hub_degree: Some(4), ..BuildOptions::default() };
        let graph = Graph::build_with(t.world, &edges(), &options)?;
        t.fails(|| graph.allgather_hubs(|vertex| vertex as u64))
    }),
    Call::new(&["graph::am_config::AmConfig::start"], |t| {
        t.fails(|| AmConfig::default().start(treepie::ActiveMessages::<()>::builder(t.world)))
    }),
    Call::new(&["graph::am_config::AmTraffic::allreduce"], |t| t.fails(|| AmTraffic::default().allreduce(t.world))),
    Call::new(&["graph::property_map::PropertyMap::top_k"], |t| {
        let graph = built(t)?;
        let scores = PropertyMap::new(&graph, vec![0.5; graph.num_local()])?;
        t.fails(|| scores.top_k(3))
    }),
    Call::new(&["graph::property_map::PropertyMap::get"], |t| {
        let graph = built(t)?;
        let map = PropertyMap::new(&graph, vec![7u32; graph.num_local()])?;
        // The owner's part of a broadcast may be over before the fault.
        t.may_fail(|| map.get(3), |value| *value == 7)
    }),
    Call::new(&["graph::patterns::fixpoint::iterate"], |t| t.fails(|| fixpoint::iterate(t.world, 0.1, 5, |_| Ok(0.0)))),
    Call::new(&["graph::bfs::BfsSearch::new", "graph::bfs::BfsSearch::run"], |t| {
        search(t, BfsMethod::DirectionOptimizing)
    })
    .sample(),
    Call::new(
        &[
            "graph::bfs::BfsSearch::run, by active messages",
            "graph::patterns::traversal::traverse",
            "graph::patterns::wavefront::expand",
        ],
        |t| search(t, BfsMethod::ActiveMessages),
    ),
    Call::new(&["graph::bfs::BfsSearch::run, by sparse exchange"], |t| search(t, BfsMethod::SparseExchange)),
    Call::new(&["graph::bfs::Graph::bfs", "graph::bfs::Graph::bfs_with"], |t| {
        let graph = built(t)?;
        t.fails(|| graph.bfs(0).map(drop))
    }),
    Call::new(
        &[
            "graph::bfs::result::BfsResult::verify",
            "graph::bfs::result::BfsResult::external_parents",
            "graph::bfs::result::BfsResult::summary",
            "graph::bfs::result::BfsResult::level_sizes",
        ],
        |t| {
            let graph = built(t)?;
            let result = graph.bfs(0)?;
            t.fails(|| each_fails(result.verify(), each_fails(result.external_parents(), result.level_sizes())))
        },
    ),
    Call::new(&["graph::reach::Reachability::new", "graph::reach::Reachability::run"], |t| {
        let graph = built(t)?;
        let mut search = reach::Reachability::new(&graph, &AmConfig::default())?;
        t.fails(|| search.run(&[0]).map(drop))
    }),
    Call::new(&["graph::reach::Graph::reach", "graph::reach::Graph::reach_with"], |t| {
        let graph = built(t)?;
        t.fails(|| graph.reach([0]).map(drop))
    }),
    Call::new(&["graph::reach::ReachResult::verify", "graph::reach::ReachResult::summary"], |t| {
        let graph = built(t)?;
        let result = graph.reach([0])?;
        t.fails(|| each_fails(result.verify(), result.summary()))
    }),
    Call::new(&["graph::reach::verify", "graph::reach::count_reached"], |t| {
        let graph = built(t)?;
        let visited = Bitmap::new(graph.num_local());
        t.fails(|| {
            each_fails(
                reach::verify(&graph, &[0], &visited, &AmConfig::default()),
                reach::count_reached(&graph, &visited),
            )
        })
    }),
    Call::new(
        &[
            "graph::sssp::DeltaStepping::new",
            "graph::sssp::DeltaStepping::run",
            "graph::patterns::buckets::process_buckets",
        ],
        |t| {
            let graph = weighted(t)?;
            let mut search = DeltaStepping::new(&graph, &SsspOptions::default())?;
            t.fails(|| search.run(0))
        },
    ),
    Call::new(&["graph::sssp::Graph::sssp", "graph::sssp::Graph::sssp_with"], |t| {
        let graph = weighted(t)?;
        t.fails(|| graph.sssp(0).map(drop))
    }),
    Call::new(&["graph::sssp::result::SsspResult::verify", "graph::sssp::result::SsspResult::summary"], |t| {
        let graph = weighted(t)?;
        let result = graph.sssp(0)?;
        t.fails(|| each_fails(result.verify(), result.summary()))
    }),
    Call::new(&["graph::components::Graph::components", "graph::components::Graph::components_with"], |t| {
        component(t, ComponentMethod::Sampling)
    }),
    Call::new(&["graph::components::Graph::components_with, by a search"], |t| component(t, ComponentMethod::Search)),
    Call::new(
        &[
            "graph::components::Graph::components_with, by hooking",
            "graph::patterns::coarsening::PointerJumping::compress",
        ],
        |t| component(t, ComponentMethod::Hooking),
    ),
    Call::new(
        &[
            "graph::component_labels::ComponentLabels::verify",
            "graph::component_labels::ComponentLabels::external_labels",
            "graph::component_labels::ComponentLabels::summary",
        ],
        |t| {
            let graph = built(t)?;
            let components = graph.components()?;
            t.fails(|| each_fails(components.verify(), each_fails(components.external_labels(), components.summary())))
        },
    ),
    Call::new(&["graph::scc::SccSearch::new", "graph::scc::SccSearch::run"], |t| {
        let graph = built(t)?;
        let mut search = SccSearch::new(&graph, &AmConfig::default())?;
        t.fails(|| search.run())
    }),
    Call::new(&["graph::scc::Graph::scc", "graph::scc::Graph::scc_with"], |t| {
        let graph = built(t)?;
        t.fails(|| graph.scc().map(drop))
    }),
    Call::new(&["graph::component_labels::ComponentLabels::verify, strongly connected"], |t| {
        let graph = built(t)?;
        let components = graph.scc()?;
        t.fails(|| components.verify())
    }),
    Call::new(&["graph::pagerank::pull::PullPageRank::new", "graph::pagerank::pull::PullPageRank::run"], |t| {
        let graph = built(t)?;
        let mut pagerank = PullPageRank::new(&graph)?;
        t.fails(|| pagerank.run(&PageRankOptions::default()).map(drop))
    }),
    Call::new(&["graph::pagerank::push::PushPageRank::new", "graph::pagerank::push::PushPageRank::run"], |t| {
        let graph = built(t)?;
        let mut pagerank = PushPageRank::new(&graph, &AmConfig::default())?;
        t.fails(|| pagerank.run(&PageRankOptions::default()).map(drop))
    }),
    Call::new(&["graph::pagerank::Graph::pagerank", "graph::pagerank::Graph::pagerank_with"], |t| {
        let graph = built(t)?;
        t.fails(|| graph.pagerank().map(drop))
    }),
    Call::new(&["graph::cores::Graph::cores"], |t| {
        let graph = built(t)?;
        t.fails(|| graph.cores().map(drop))
    }),
    Call::new(&["graph::cores::CoreNumbers::verify", "graph::cores::CoreNumbers::summary"], |t| {
        let graph = built(t)?;
        let found = graph.cores()?;
        t.fails(|| each_fails(found.verify(), found.summary()))
    }),
    Call::new(&["graph::triangles::Graph::triangles"], |t| {
        let graph = built(t)?;
        t.fails(|| graph.triangles().map(drop))
    }),
    Call::new(&["graph::triangles::Triangles::verify", "graph::triangles::Triangles::summary"], |t| {
        let graph = built(t)?;
        let found = graph.triangles()?;
        t.fails(|| each_fails(found.verify(), found.summary()))
    }),
    Call::new(&["graph::independent_set::Graph::independent_set"], |t| {
        let graph = built(t)?;
        t.fails(|| graph.independent_set().map(drop))
    }),
    Call::new(
        &["graph::independent_set::IndependentSet::verify", "graph::independent_set::IndependentSet::size"],
        |t| {
            let graph = built(t)?;
            let found = graph.independent_set()?;
            t.fails(|| each_fails(found.verify(), found.size()))
        },
    ),
    Call::new(&["graph::degrees::Graph::degree_statistics"], |t| {
        let graph = built(t)?;
        t.fails(|| graph.degree_statistics())
    }),
    Call::new(&["graph::pagerank::PageRankResult::verify"], |t| {
        let graph = built(t)?;
        let ranking = graph.pagerank()?;
        t.fails(|| ranking.verify())
    }),
    Call::new(
        &[
            "graph::betweenness::Betweenness::new",
            "graph::betweenness::Betweenness::run",
            "graph::betweenness::metric::HopMetric::new",
            "graph::betweenness::metric::PathMetric::shortest_paths",
        ],
        |t| {
            let graph = built(t)?;
            let metric = HopMetric::new(&graph, &AmConfig::default())?;
            let mut betweenness = Betweenness::new(metric, &AmConfig::default())?;
            t.fails(|| betweenness.run(0))
        },
    ),
    Call::new(&["graph::betweenness::Graph::betweenness", "graph::betweenness::Graph::betweenness_with"], |t| {
        let graph = built(t)?;
        t.fails(|| graph.betweenness([0]).map(drop))
    }),
    Call::new(
        &["graph::betweenness::Graph::weighted_betweenness", "graph::betweenness::Graph::weighted_betweenness_with"],
        |t| {
            let graph = weighted(t)?;
            t.fails(|| graph.weighted_betweenness([0]).map(drop))
        },
    ),
    Call::new(
        &[
            "graph::betweenness::verify::verify",
            "graph::betweenness::metric::WeightedMetric::new",
            "graph::betweenness::metric::PathMetric::shortest_paths_verified",
        ],
        |t| {
            let graph = weighted(t)?;
            let mut metric = WeightedMetric::new(&graph, &SsspOptions::default())?;
            let scores = PropertyMap::new(&graph, vec![0.0; graph.num_local()])?;
            t.fails(|| {
                each_fails(
                    metric.shortest_paths_verified(0, &AmConfig::default()),
                    betweenness::verify(&mut metric, [0], &scores, &AmConfig::default()),
                )
            })
        },
    ),
];

/// Fails if both have failed, as they must.
fn each_fails<A, B>(first: Result<A>, second: Result<B>) -> Result<()> {
    match (first, second) {
        (Err(error), Err(_)) => Err(error),
        _ => Ok(()),
    }
}

fn edges() -> ErdosRenyi {
    ErdosRenyi::with_degree(200, 6.0).expect("valid parameters")
}

fn built(t: &Trial<'_>) -> Result<Graph> {
    Graph::build(t.world, &edges())
}

fn weighted(t: &Trial<'_>) -> Result<Graph<f32>> {
    Graph::build_weighted(t.world, &edges())
}

fn search(t: &Trial<'_>, method: BfsMethod) -> Outcome {
    let graph = built(t)?;
    let options = BfsOptions { method: Some(method), ..BfsOptions::default() };
    let mut search = BfsSearch::<(), u32>::new(&graph, &options)?;
    t.fails(|| search.run(0).map(drop))
}

fn component(t: &Trial<'_>, method: ComponentMethod) -> Outcome {
    let graph = built(t)?;
    let options = ComponentOptions { method, ..ComponentOptions::default() };
    t.fails(|| graph.components_with(&options).map(drop))
}
