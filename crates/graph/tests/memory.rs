//! The memory of algorithms besides the graph: with sixteen ranks and more, nothing grows with the global number of
//! vertices.
//!
//! All ranks are simulated in one thread, and their allocations are counted. This is the only test of its file, so no
//! other test allocates meanwhile.

use peak_alloc::PeakAlloc;
use treepie_comm::Comm;
use treepie_graph::betweenness::{Betweenness, HopMetric};
use treepie_graph::bfs::{BfsMethod, BfsOptions, BfsSearch};
use treepie_graph::components::{ComponentMethod, ComponentOptions};
use treepie_graph::generate::Balanced;
use treepie_graph::pagerank::{PageRankOptions, pull::PullPageRank, push::PushPageRank};
use treepie_graph::sssp::{DeltaStepping, SsspOptions};
use treepie_graph::{AmConfig, BuildOptions, Graph, Result, reach, scc};
use treepie_sim::costs::LogGP;
use treepie_sim::engine::{Options, run};
use treepie_topology::Network;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Vertices of a rank, their mean degree within it, and arcs of a rank to others.
const VERTICES: u64 = 2048;
const DEGREE: f64 = 32.0;
const REMOTE: u64 = 16;

/// Bytes of a result per vertex.
const RESULT: f64 = 8.0;

/// Algorithms, and their peak bytes per vertex.
type MemoryNeeds = Vec<(&'static str, f64)>;

/// The peak memory of all ranks while `body` runs, per vertex, above the memory before.
fn peak_during(comm: &Comm, body: impl FnOnce() -> Result<()>) -> Result<f64> {
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

/// The needs of all algorithms, and the bytes per vertex of the CSR and of ghosts.
fn measure_needs(comm: &Comm) -> Result<(MemoryNeeds, [f64; 2])> {
    let balanced = Balanced::new(comm.size() as u64, VERTICES, DEGREE / VERTICES as f64, REMOTE)?;
    let options = BuildOptions { symmetrize: true, ..BuildOptions::default() };
    let config = AmConfig::default();
    let graph = Graph::build_with(comm, &balanced, &options)?;
    let memory = graph.memory_usage();
    let pagerank_options = PageRankOptions { max_iterations: 3, ..PageRankOptions::default() };
    let mut all = MemoryNeeds::new();
    let mut one = |name, body: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        all.push((name, peak_during(comm, body)?));
        Ok(())
    };
    let bfs = |method: BfsMethod| {
        let options = BfsOptions { method: Some(method), ..BfsOptions::default() };
        BfsSearch::<(), u32>::new(&graph, &options)?.run(5).map(drop)
    };
    let components = |method: ComponentMethod| {
        graph.components_with(&ComponentOptions { method, ..ComponentOptions::default() }).map(drop)
    };
    one("bfs direction", &mut || bfs(BfsMethod::DirectionOptimizing))?;
    one("bfs messages", &mut || bfs(BfsMethod::ActiveMessages))?;
    one("bfs exchange", &mut || bfs(BfsMethod::SparseExchange))?;
    one("reach", &mut || reach::Reachability::new(&graph, &config)?.run(&[5]).map(drop))?;
    one("cc hooking", &mut || components(ComponentMethod::Hooking))?;
    one("cc search", &mut || components(ComponentMethod::Search))?;
    one("cc sampling", &mut || components(ComponentMethod::Sampling))?;
    one("pagerank pull", &mut || PullPageRank::new(&graph)?.run(&pagerank_options).map(drop))?;
    one("pagerank push", &mut || PushPageRank::new(&graph, &config)?.run(&pagerank_options).map(drop))?;
    one("scc", &mut || scc::SccSearch::new(&graph, &config)?.run().map(drop))?;
    one("bc", &mut || Betweenness::new(HopMetric::new(&graph, &config)?, &config)?.run(5).map(drop))?;
    let weighted = Graph::<f32>::build_weighted_with(comm, &balanced, &options)?;
    one("sssp", &mut || DeltaStepping::new(&weighted, &SsspOptions::default())?.run(5).map(drop))?;
    Ok((all, [memory.csr, memory.overhead].map(|bytes| bytes as f64 / VERTICES as f64)))
}

fn simulate_needs(ranks: u32) -> (MemoryNeeds, [f64; 2]) {
    let machine = LogGP { latency: 2.0, overhead: 0.3, gap: 0.3, per_byte: 0.001 };
    let options = Options { stack_size: 1 << 20, ..Options::default() };
    let simulated =
        run(&Network::flat(ranks), &machine.into(), &options, |fabric| measure_needs(&Comm::world(fabric)).unwrap());
    simulated.unwrap().into_results().swap_remove(0)
}

#[test]
fn memory_does_not_grow_with_global_vertices() {
    let ((few, [csr, overhead]), (many, _)) = (simulate_needs(16), simulate_needs(48));
    for ((name, few), (_, many)) in few.iter().zip(&many) {
        println!("{name:<15} {few:>8.1} {many:>8.1} bytes a vertex, CSR {csr:.1} and overhead {overhead:.1}");
        // A byte for each global vertex would be 32 bytes more. Buffers for three times the ranks are a few bytes.
        assert!(*many <= 1.25 * few + 8.0, "{name}: {few} bytes a vertex among 16 ranks, {many} among 48");
        // Each arc of a level is a message, even to the rank itself, and many are queued at once: up to the runtime's
        // limit.
        if *name != "bfs messages" {
            let all = csr + overhead + few;
            assert!(all <= 1.3 * (csr + RESULT), "{name}: {all} bytes a vertex in all, {csr} of them CSR");
        }
    }
}
