//! Graphs: loading, algorithms and their verifiers.

use treepie::graph::betweenness::{self, Betweenness, Hops, Lengths, Measure};
use treepie::graph::components::{hooking, sampling, search};
use treepie::graph::generate::ErdosRenyi;
use treepie::graph::pagerank::{self, Limits, pull::Pulling, push::Pushing};
use treepie::graph::patterns::fixpoint;
use treepie::graph::{
    Bits, Error, Graph, Messages, Result, Shape, Traffic, Weighted, Weights, agree, bfs, components, reach, scc, sssp,
    top,
};

use crate::table::{Call, Outcome, Trial};

pub(crate) const CALLS: &[Call] = &[
    Call::new(&["graph::agree::agree"], |t| t.fails(|| agree(t.world, Ok::<_, Error>(())))),
    Call::new(&["graph::build::Graph::build"], |t| t.fails(|| built(t))).sample(),
    Call::new(&["graph::graph::Graph::find"], |t| {
        let graph = built(t)?;
        // Where ids are numbers nobody has to be asked.
        t.may_fail(|| graph.find(t.world, 3), |number| *number == 3)
    }),
    Call::new(&["graph::saved::save::Graph::save"], |t| {
        let graph = built(t)?;
        let path = std::env::temp_dir().join(format!("treepie-blocking-{}.tpg", std::process::id()));
        t.fails(|| graph.save(t.world, &path, Weights::None))?;
        assert!(!path.exists(), "half a graph was saved");
        Ok(())
    }),
    Call::new(&["graph::view::View::gather"], |t| {
        let graph = built(t)?;
        let mut values = vec![0u32; graph.view().len()];
        t.fails(|| graph.view().gather(t.world, &mut values))
    }),
    Call::new(&["graph::view::View::gather_bits"], |t| {
        let graph = built(t)?;
        let mut bits = Bits::new(graph.view().len());
        t.fails(|| graph.view().gather_bits(t.world, &mut bits))
    }),
    Call::new(&["graph::hubs::Hubs::gather"], |t| {
        let shape = Shape { split: Some(4), ..shape() };
        let graph = Graph::<u32>::build(t.world, &edges(), &shape)?;
        t.fails(|| graph.hubs().gather(t.world, |place| place as u64))
    }),
    Call::new(&["graph::messages::Messages::start"], |t| {
        t.fails(|| Messages::default().start(treepie::ActiveMessages::<()>::builder(t.world)))
    }),
    Call::new(&["graph::messages::Traffic::of_all"], |t| t.fails(|| Traffic::default().of_all(t.world))),
    Call::new(&["graph::top::top"], |t| {
        let graph = built(t)?;
        t.fails(|| top(t.world, &graph, &vec![0.5; graph.own()], 3))
    }),
    Call::new(&["graph::patterns::fixpoint::iterate"], |t| t.fails(|| fixpoint::iterate(t.world, 0.1, 5, |_| Ok(0.0)))),
    Call::new(&["graph::bfs::direction::Search::new", "graph::bfs::direction::Search::run"], |t| {
        let graph = built(t)?;
        let mut search = bfs::direction::Search::<u32, u32>::new(t.world, &graph, &Messages::default())?;
        t.fails(|| search.run(0).map(drop))
    })
    .sample(),
    Call::new(
        &[
            "graph::bfs::messages::Search::new",
            "graph::bfs::messages::Search::run",
            "graph::bfs::messages::Search::run_from",
            "graph::patterns::search::spread",
            "graph::patterns::wavefront::expand",
        ],
        |t| {
            let graph = built(t)?;
            let mut search = bfs::messages::Search::<u32, u32>::new(t.world, &graph, &Messages::default())?;
            t.fails(|| search.run(0).map(drop))
        },
    ),
    Call::new(&["graph::bfs::exchange::Search::run"], |t| {
        let graph = built(t)?;
        let mut search = bfs::exchange::Search::<u32, u32>::new(t.world, &graph);
        t.fails(|| search.run(0).map(drop))
    }),
    Call::new(&["graph::bfs::verify::verify", "graph::bfs::count"], |t| {
        let graph = built(t)?;
        let mut search = bfs::exchange::Search::<u32, u32>::new(t.world, &graph);
        let labels = search.run(0)?.to_vec();
        t.fails(|| {
            each_fails(
                bfs::verify(t.world, &graph, 0, &labels, &Messages::default()),
                bfs::count(t.world, &graph, &labels),
            )
        })
    }),
    Call::new(&["graph::reach::Search::new", "graph::reach::Search::run"], |t| {
        let graph = built(t)?;
        let mut search = reach::Search::new(t.world, &graph, &Messages::default())?;
        t.fails(|| search.run(&[0]).map(drop))
    }),
    Call::new(&["graph::reach::verify", "graph::reach::count"], |t| {
        let graph = built(t)?;
        let visited = Bits::new(graph.own());
        t.fails(|| {
            each_fails(
                reach::verify(t.world, &graph, &[0], &visited, &Messages::default()),
                reach::count(t.world, &graph, &visited),
            )
        })
    }),
    Call::new(&["graph::sssp::Search::new", "graph::sssp::Search::run", "graph::patterns::buckets::correct"], |t| {
        let graph = weighted(t)?;
        let mut search = sssp::Search::<f32>::new(t.world, &graph, None, &Messages::default())?;
        t.fails(|| search.run(0))
    }),
    Call::new(&["graph::sssp::verify::verify", "graph::sssp::count"], |t| {
        let graph = weighted(t)?;
        let mut search = sssp::Search::<f32>::new(t.world, &graph, None, &Messages::default())?;
        search.run(0)?;
        let lengths = search.lengths().to_vec();
        t.fails(|| {
            each_fails(
                sssp::verify(t.world, &graph, 0, &lengths, &Messages::default()),
                sssp::count(t.world, &graph, &lengths),
            )
        })
    }),
    Call::new(&["graph::components::search::run"], |t| component(t, search::run)),
    Call::new(&["graph::components::hooking::run", "graph::patterns::coarsening::Shortcut::flatten"], |t| {
        component(t, hooking::run)
    }),
    Call::new(&["graph::components::sampling::run"], |t| component(t, sampling::run)),
    Call::new(&["graph::components::verify::verify", "graph::components::names", "graph::parts::count"], |t| {
        let graph = built(t)?;
        let labels = sampling::run(t.world, &graph, &Messages::default())?.labels;
        t.fails(|| {
            each_fails(
                components::verify(t.world, &graph, &labels, &Messages::default()),
                each_fails(
                    components::names(t.world, &graph, &labels, &Messages::default()),
                    components::count(t.world, &graph, &labels),
                ),
            )
        })
    }),
    Call::new(&["graph::scc::Search::new", "graph::scc::Search::run"], |t| {
        let graph = built(t)?;
        let mut search = scc::Search::new(t.world, &graph, &Messages::default())?;
        t.fails(|| search.run())
    }),
    Call::new(&["graph::scc::verify::verify"], |t| {
        let graph = built(t)?;
        let mut search = scc::Search::new(t.world, &graph, &Messages::default())?;
        search.run()?;
        let labels = search.labels().to_vec();
        t.fails(|| scc::verify(t.world, &graph, &labels, &Messages::default()))
    }),
    Call::new(&["graph::pagerank::pull::Pulling::new", "graph::pagerank::pull::Pulling::run"], |t| {
        let graph = built(t)?;
        let mut pulling = Pulling::new(t.world, &graph)?;
        t.fails(|| pulling.run(&Limits::default()))
    }),
    Call::new(&["graph::pagerank::push::Pushing::new", "graph::pagerank::push::Pushing::run"], |t| {
        let graph = built(t)?;
        let mut pushing = Pushing::new(t.world, &graph, &Messages::default())?;
        t.fails(|| pushing.run(&Limits::default()))
    }),
    Call::new(&["graph::pagerank::verify"], |t| {
        let graph = built(t)?;
        let ranking = Pulling::new(t.world, &graph)?.run(&Limits::default())?;
        t.fails(|| pagerank::verify(t.world, &graph, &ranking, &Limits::default()))
    }),
    Call::new(
        &[
            "graph::betweenness::Betweenness::new",
            "graph::betweenness::Betweenness::run",
            "graph::betweenness::measure::Hops::new",
            "graph::betweenness::measure::Measure::search",
        ],
        |t| {
            let graph = built(t)?;
            let hops = Hops::new(t.world, &graph, &Messages::default())?;
            let mut sums = Betweenness::new(t.world, hops, &Messages::default())?;
            t.fails(|| sums.run(0))
        },
    ),
    Call::new(
        &[
            "graph::betweenness::verify::verify",
            "graph::betweenness::measure::Lengths::new",
            "graph::betweenness::measure::Measure::search_verified",
        ],
        |t| {
            let graph = weighted(t)?;
            let mut lengths = Lengths::<f32>::new(t.world, &graph, None, &Messages::default())?;
            let scores = vec![0.0; graph.own()];
            t.fails(|| {
                each_fails(
                    lengths.search_verified(t.world, 0, &Messages::default()),
                    betweenness::verify(t.world, &mut lengths, [0], &scores, &Messages::default()),
                )
            })
        },
    ),
];

/// Both must fail; one that does not is told as a success.
fn each_fails<A, B>(first: Result<A>, second: Result<B>) -> Result<()> {
    match (first, second) {
        (Err(error), Err(_)) => Err(error),
        _ => Ok(()),
    }
}

fn edges() -> ErdosRenyi {
    ErdosRenyi::by_degree(200, 6.0).expect("a graph that can be")
}

fn shape() -> Shape {
    Shape { backwards: true, ..Shape::default() }
}

fn built(t: &Trial<'_>) -> Result<Graph> {
    Graph::build(t.world, &edges(), &shape())
}

fn weighted(t: &Trial<'_>) -> Result<Graph<Weighted>> {
    Graph::build(t.world, &edges(), &shape())
}

fn component(t: &Trial<'_>, run: fn(&treepie::Comm, &Graph, &Messages) -> Result<components::Labels>) -> Outcome {
    let graph = built(t)?;
    t.fails(|| run(t.world, &graph, &Messages::default()))
}
