//! Connected components and a breadth-first search of a graph from a file or a generator.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/graph FILE      four processes on this machine, an edge list
//! mpirun -n 4 target/release/examples/graph FILE           the same under MPI
//! target/release/examples/graph                            one process, a Kronecker graph of 65,536 vertices
//! ```

use treepie::graph::generate::Kronecker;
use treepie::graph::{AmConfig, BuildOptions, EdgeFiles, EdgeSource, Graph, Result, bfs, components};

fn main() -> Result<()> {
    let world = treepie::init()?;

    // 1. The edge source. Each rank reads its part.
    let paths: Vec<_> = std::env::args_os().skip(1).map(Into::into).collect();
    let source: Box<dyn EdgeSource> =
        if paths.is_empty() { Box::new(Kronecker::new(16, 16)?) } else { Box::new(EdgeFiles::open(&paths, None)?) };

    // 2. The graph: each rank gets the adjacency of its local vertices. Each edge becomes two arcs.
    let options = BuildOptions { symmetrize: true, dedupe: true, drop_self_loops: true, ..BuildOptions::default() };
    let graph = Graph::<u32>::build(&world, &*source, &options)?;
    println!("rank {}: {} vertices, {} arcs from them", world.rank(), graph.num_local(), graph.out_edges().num_arcs());

    // 3. Algorithms, which all ranks call.
    let config = AmConfig::default();
    let labels = components::sampling::run(&world, &graph, &config)?.labels;
    let summary = components::summarize(&world, &graph, &labels)?;
    components::verify(&world, &graph, &labels, &config)?;
    if world.rank() == 0 {
        println!("rank 0: {} vertices in all, {} edges", graph.num_vertices(), graph.num_arcs() / 2);
        println!("rank 0: {} components, of which the largest has {} vertices", summary.components, summary.largest);
    }
    if graph.num_vertices() == 0 {
        return Ok(());
    }

    // 4. A search from the vertex with global id 0; external ids are those of the file.
    let mut search = bfs::direction_optimizing::DirectionOptimizingBfs::<u32, u64>::new(&world, &graph, &config)?;
    let labels = search.run(0)?;
    bfs::verify(&world, &graph, 0, labels, &config)?;
    let bfs_summary = bfs::summarize(&world, &graph, labels)?;
    if let Some(local_index) = graph.local_index(0) {
        println!(
            "rank 0: from vertex {}: levels of {:?} vertices",
            graph.layout().external_id(local_index),
            bfs_summary.level_sizes
        );
    }
    Ok(())
}
