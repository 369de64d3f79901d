//! Graphs: loading, algorithms and their verifiers.

use treepie::graph::betweenness::{self, Betweenness, HopMetric, PathMetric, WeightedMetric};
use treepie::graph::components::{hooking, sampling, search};
use treepie::graph::generate::ErdosRenyi;
use treepie::graph::pagerank::{self, PageRankOptions, pull::PullPageRank, push::PushPageRank};
use treepie::graph::patterns::fixpoint;
use treepie::graph::{
    AmConfig, AmTraffic, Bitmap, BuildOptions, Error, Graph, Result, WeightKind, WeightedEdge, agree, bfs, components,
    reach, scc, sssp, top_k,
};

use crate::table::{Call, Outcome, Trial};

pub(crate) const CALLS: &[Call] = &[
    Call::new(&["graph::agree::agree"], |t| t.fails(|| agree(t.world, Ok::<_, Error>(())))),
    Call::new(&["graph::build::Graph::build"], |t| t.fails(|| built(t))).sample(),
    Call::new(&["graph::graph::Graph::find_vertex"], |t| {
        let graph = built(t)?;
        // Where external ids equal vertex numbers, no peer is asked.
        t.may_fail(|| graph.find_vertex(t.world, 3), |number| *number == 3)
    }),
    Call::new(&["graph::graph_file::save::Graph::save"], |t| {
        let graph = built(t)?;
        let path = std::env::temp_dir().join(format!("treepie-blocking-{}.tpg", std::process::id()));
        t.fails(|| graph.save(t.world, &path, WeightKind::None))?;
        assert!(!path.exists(), "half a graph was saved");
        Ok(())
    }),
    Call::new(&["graph::local_view::LocalView::update_ghosts"], |t| {
        let graph = built(t)?;
        let mut values = vec![0u32; graph.view().len()];
        t.fails(|| graph.view().update_ghosts(t.world, &mut values))
    }),
    Call::new(&["graph::local_view::LocalView::update_ghost_bits"], |t| {
        let graph = built(t)?;
        let mut bits = Bitmap::new(graph.view().len());
        t.fails(|| graph.view().update_ghost_bits(t.world, &mut bits))
    }),
    Call::new(&["graph::hubs::Hubs::allgather"], |t| {
        let options = BuildOptions { hub_degree: Some(4), ..options() };
        let graph = Graph::<u32>::build(t.world, &edges(), &options)?;
        t.fails(|| graph.hubs().allgather(t.world, |vertex| vertex as u64))
    }),
    Call::new(&["graph::am_config::AmConfig::start"], |t| {
        t.fails(|| AmConfig::default().start(treepie::ActiveMessages::<()>::builder(t.world)))
    }),
    Call::new(&["graph::am_config::AmTraffic::allreduce"], |t| t.fails(|| AmTraffic::default().allreduce(t.world))),
    Call::new(&["graph::top_k::top_k"], |t| {
        let graph = built(t)?;
        t.fails(|| top_k(t.world, &graph, &vec![0.5; graph.num_local()], 3))
    }),
    Call::new(&["graph::patterns::fixpoint::iterate"], |t| t.fails(|| fixpoint::iterate(t.world, 0.1, 5, |_| Ok(0.0)))),
    Call::new(
        &[
            "graph::bfs::direction_optimizing::DirectionOptimizingBfs::new",
            "graph::bfs::direction_optimizing::DirectionOptimizingBfs::run",
        ],
        |t| {
            let graph = built(t)?;
            let mut search = bfs::direction_optimizing::DirectionOptimizingBfs::<u32, u32>::new(
                t.world,
                &graph,
                &AmConfig::default(),
            )?;
            t.fails(|| search.run(0).map(drop))
        },
    )
    .sample(),
    Call::new(
        &[
            "graph::bfs::active_messages::AmBfs::new",
            "graph::bfs::active_messages::AmBfs::run",
            "graph::bfs::active_messages::AmBfs::run_from",
            "graph::patterns::traversal::traverse",
            "graph::patterns::wavefront::expand",
        ],
        |t| {
            let graph = built(t)?;
            let mut search = bfs::active_messages::AmBfs::<u32, u32>::new(t.world, &graph, &AmConfig::default())?;
            t.fails(|| search.run(0).map(drop))
        },
    ),
    Call::new(&["graph::bfs::sparse_exchange::SparseExchangeBfs::run"], |t| {
        let graph = built(t)?;
        let mut search = bfs::sparse_exchange::SparseExchangeBfs::<u32, u32>::new(t.world, &graph);
        t.fails(|| search.run(0).map(drop))
    }),
    Call::new(&["graph::bfs::verify::verify", "graph::bfs::summarize"], |t| {
        let graph = built(t)?;
        let mut search = bfs::sparse_exchange::SparseExchangeBfs::<u32, u32>::new(t.world, &graph);
        let labels = search.run(0)?.to_vec();
        t.fails(|| {
            each_fails(
                bfs::verify(t.world, &graph, 0, &labels, &AmConfig::default()),
                bfs::summarize(t.world, &graph, &labels),
            )
        })
    }),
    Call::new(&["graph::reach::Reachability::new", "graph::reach::Reachability::run"], |t| {
        let graph = built(t)?;
        let mut search = reach::Reachability::new(t.world, &graph, &AmConfig::default())?;
        t.fails(|| search.run(&[0]).map(drop))
    }),
    Call::new(&["graph::reach::verify", "graph::reach::count_reached"], |t| {
        let graph = built(t)?;
        let visited = Bitmap::new(graph.num_local());
        t.fails(|| {
            each_fails(
                reach::verify(t.world, &graph, &[0], &visited, &AmConfig::default()),
                reach::count_reached(t.world, &graph, &visited),
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
            let mut search = sssp::DeltaStepping::<f32>::new(t.world, &graph, None, &AmConfig::default())?;
            t.fails(|| search.run(0))
        },
    ),
    Call::new(&["graph::sssp::verify::verify", "graph::sssp::summarize"], |t| {
        let graph = weighted(t)?;
        let mut search = sssp::DeltaStepping::<f32>::new(t.world, &graph, None, &AmConfig::default())?;
        search.run(0)?;
        let distances = search.distances().to_vec();
        t.fails(|| {
            each_fails(
                sssp::verify(t.world, &graph, 0, &distances, &AmConfig::default()),
                sssp::summarize(t.world, &graph, &distances),
            )
        })
    }),
    Call::new(&["graph::components::search::run"], |t| component(t, search::run)),
    Call::new(&["graph::components::hooking::run", "graph::patterns::coarsening::PointerJumping::compress"], |t| {
        component(t, hooking::run)
    }),
    Call::new(&["graph::components::sampling::run"], |t| component(t, sampling::run)),
    Call::new(
        &[
            "graph::components::verify::verify",
            "graph::components::external_labels",
            "graph::component_summary::summarize",
        ],
        |t| {
            let graph = built(t)?;
            let labels = sampling::run(t.world, &graph, &AmConfig::default())?.labels;
            t.fails(|| {
                each_fails(
                    components::verify(t.world, &graph, &labels, &AmConfig::default()),
                    each_fails(
                        components::external_labels(t.world, &graph, &labels, &AmConfig::default()),
                        components::summarize(t.world, &graph, &labels),
                    ),
                )
            })
        },
    ),
    Call::new(&["graph::scc::SccSearch::new", "graph::scc::SccSearch::run"], |t| {
        let graph = built(t)?;
        let mut search = scc::SccSearch::new(t.world, &graph, &AmConfig::default())?;
        t.fails(|| search.run())
    }),
    Call::new(&["graph::scc::verify::verify"], |t| {
        let graph = built(t)?;
        let mut search = scc::SccSearch::new(t.world, &graph, &AmConfig::default())?;
        search.run()?;
        let labels = search.labels().to_vec();
        t.fails(|| scc::verify(t.world, &graph, &labels, &AmConfig::default()))
    }),
    Call::new(&["graph::pagerank::pull::PullPageRank::new", "graph::pagerank::pull::PullPageRank::run"], |t| {
        let graph = built(t)?;
        let mut pagerank = PullPageRank::new(t.world, &graph)?;
        t.fails(|| pagerank.run(&PageRankOptions::default()))
    }),
    Call::new(&["graph::pagerank::push::PushPageRank::new", "graph::pagerank::push::PushPageRank::run"], |t| {
        let graph = built(t)?;
        let mut pagerank = PushPageRank::new(t.world, &graph, &AmConfig::default())?;
        t.fails(|| pagerank.run(&PageRankOptions::default()))
    }),
    Call::new(&["graph::pagerank::verify"], |t| {
        let graph = built(t)?;
        let ranking = PullPageRank::new(t.world, &graph)?.run(&PageRankOptions::default())?;
        t.fails(|| pagerank::verify(t.world, &graph, &ranking, &PageRankOptions::default()))
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
            let metric = HopMetric::new(t.world, &graph, &AmConfig::default())?;
            let mut betweenness = Betweenness::new(t.world, metric, &AmConfig::default())?;
            t.fails(|| betweenness.run(0))
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
            let mut metric = WeightedMetric::<f32>::new(t.world, &graph, None, &AmConfig::default())?;
            let scores = vec![0.0; graph.num_local()];
            t.fails(|| {
                each_fails(
                    metric.shortest_paths_verified(t.world, 0, &AmConfig::default()),
                    betweenness::verify(t.world, &mut metric, [0], &scores, &AmConfig::default()),
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

fn options() -> BuildOptions {
    BuildOptions { store_in_edges: true, ..BuildOptions::default() }
}

fn built(t: &Trial<'_>) -> Result<Graph> {
    Graph::build(t.world, &edges(), &options())
}

fn weighted(t: &Trial<'_>) -> Result<Graph<WeightedEdge>> {
    Graph::build(t.world, &edges(), &options())
}

fn component(
    t: &Trial<'_>,
    run: fn(&treepie::Comm, &Graph, &AmConfig) -> Result<components::ComponentLabels>,
) -> Outcome {
    let graph = built(t)?;
    t.fails(|| run(t.world, &graph, &AmConfig::default()))
}
