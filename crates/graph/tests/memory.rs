//! What algorithms need beside the graph: nothing that grows with all vertices, among sixteen ranks and more.
//!
//! All ranks are simulated in one thread, and what they allocate is counted. This is the only test of its file, so nobody else
//! allocates meanwhile.

use peak_alloc::PeakAlloc;
use treepie_comm::Comm;
use treepie_graph::betweenness::{Betweenness, Hops};
use treepie_graph::components::{hooking, sampling, search};
use treepie_graph::generate::Balanced;
use treepie_graph::pagerank::{Limits, pull::Pulling, push::Pushing};
use treepie_graph::{Graph, Messages, Result, Shape, Weighted, bfs, reach, scc, sssp};
use treepie_sim::costs::LogGP;
use treepie_sim::engine::{Options, run};
use treepie_topology::Network;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Vertices of a rank, their arcs within it, and arcs of a rank to others.
const VERTICES: u64 = 2048;
const DEGREE: f64 = 32.0;
const REMOTE: u64 = 16;

/// Bytes of a result.
const RESULT: f64 = 8.0;

/// What is run, and bytes for each vertex that it needs while it runs.
type Needs = Vec<(&'static str, f64)>;

/// The most that all ranks had at once while something ran, for each vertex, beside what they had before.
fn during(comm: &Comm, body: impl FnOnce() -> Result<()>) -> Result<f64> {
    comm.barrier()?;
    if comm.rank() == 0 {
        ALLOCATED.reset_peak_usage();
    }
    let before = ALLOCATED.current_usage();
    comm.barrier()?;
    body()?;
    comm.barrier()?;
    let most = ALLOCATED.peak_usage() - before;
    Ok(most as f64 / (VERTICES * comm.size() as u64) as f64)
}

/// Also bytes of rows, and of what is known of others, for each vertex.
fn needs(comm: &Comm) -> Result<(Needs, [f64; 2])> {
    let balanced = Balanced::new(comm.size() as u64, VERTICES, DEGREE / VERTICES as f64, REMOTE)?;
    let shape = Shape { symmetrize: true, ..Shape::default() };
    let messages = Messages::default();
    let graph = Graph::<u32>::build(comm, &balanced, &shape)?;
    let rows = graph.memory();
    let limits = Limits { iterations: 3, ..Limits::default() };
    let mut all = Needs::new();
    let mut one = |name, body: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        all.push((name, during(comm, body)?));
        Ok(())
    };
    one("bfs direction", &mut || bfs::direction::Search::<u32, u32>::new(comm, &graph, &messages)?.run(5).map(drop))?;
    one("bfs messages", &mut || bfs::messages::Search::<u32, u32>::new(comm, &graph, &messages)?.run(5).map(drop))?;
    one("bfs exchange", &mut || bfs::exchange::Search::<u32, u32>::new(comm, &graph).run(5).map(drop))?;
    one("reach", &mut || reach::Search::new(comm, &graph, &messages)?.run(&[5]).map(drop))?;
    one("cc hooking", &mut || hooking::run(comm, &graph, &messages).map(drop))?;
    one("cc search", &mut || search::run(comm, &graph, &messages).map(drop))?;
    one("cc sampling", &mut || sampling::run(comm, &graph, &messages).map(drop))?;
    one("pagerank pull", &mut || Pulling::new(comm, &graph)?.run(&limits).map(drop))?;
    one("pagerank push", &mut || Pushing::new(comm, &graph, &messages)?.run(&limits).map(drop))?;
    one("scc", &mut || scc::Search::new(comm, &graph, &messages)?.run().map(drop))?;
    one("bc", &mut || Betweenness::new(comm, Hops::new(comm, &graph, &messages)?, &messages)?.run(5).map(drop))?;
    let weighted = Graph::<Weighted>::build(comm, &balanced, &shape)?;
    one("sssp", &mut || sssp::Search::<f32>::new(comm, &weighted, None, &messages)?.run(5).map(drop))?;
    Ok((all, [rows.rows, rows.besides].map(|bytes| bytes as f64 / VERTICES as f64)))
}

fn among(ranks: u32) -> (Needs, [f64; 2]) {
    let machine = LogGP { latency: 2.0, overhead: 0.3, gap: 0.3, per_byte: 0.001 };
    let options = Options { stack: 1 << 20, ..Options::default() };
    let simulated =
        run(&Network::flat(ranks), &machine.into(), &options, |fabric| needs(&Comm::world(fabric)).unwrap());
    simulated.unwrap().into_results().swap_remove(0)
}

#[test]
fn nothing_grows_with_all_vertices() {
    let ((few, [rows, besides]), (many, _)) = (among(16), among(48));
    for ((name, few), (_, many)) in few.iter().zip(&many) {
        println!("{name:<15} {few:>8.1} {many:>8.1} bytes a vertex, rows {rows:.1} and {besides:.1} besides");
        // A byte for each vertex of all ranks would be 32 bytes more. Buffers for three times as many ranks are a few.
        assert!(*many <= 1.25 * few + 8.0, "{name}: {few} bytes a vertex among 16 ranks, {many} among 48");
        // Each arc of a level is a message, of a rank to itself too, and many of them wait at once: up to what the runtime lets.
        if *name != "bfs messages" {
            let all = rows + besides + few;
            assert!(all <= 1.3 * (rows + RESULT), "{name}: {all} bytes a vertex in all, {rows} of them rows");
        }
    }
}
