//! A graph from a file, or a made one: which vertices hang together, and how far they are from the first.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/graph FILE      four processes on this machine, a list of edges
//! mpirun -n 4 target/release/examples/graph FILE           the same under MPI
//! target/release/examples/graph                            alone, a graph of 65,536 vertices
//! ```

use treepie::graph::generate::Kronecker;
use treepie::graph::{Edges, Files, Graph, Messages, Result, Shape, bfs, components};

fn main() -> Result<()> {
    let world = treepie::init()?;

    // 1. Where edges come from. Each rank reads its part.
    let paths: Vec<_> = std::env::args_os().skip(1).map(Into::into).collect();
    let source: Box<dyn Edges> =
        if paths.is_empty() { Box::new(Kronecker::new(16, 16)?) } else { Box::new(Files::open(&paths, None)?) };

    // 2. The graph: each rank gets the rows of its own vertices. An edge stands for both directions.
    let shape = Shape { symmetrize: true, dedupe: true, drop_self_loops: true, ..Shape::default() };
    let graph = Graph::<u32>::build(&world, &*source, &shape)?;
    println!("rank {}: {} vertices, {} arcs from them", world.rank(), graph.own(), graph.out().arcs());

    // 3. Algorithms, which all ranks run together.
    let messages = Messages::default();
    let labels = components::sampling::run(&world, &graph, &messages)?.labels;
    let parts = components::count(&world, &graph, &labels)?;
    components::verify(&world, &graph, &labels, &messages)?;
    if world.rank() == 0 {
        println!("rank 0: {} vertices in all, {} edges", graph.vertices(), graph.arcs() / 2);
        println!("rank 0: {} components, of which the largest has {} vertices", parts.components, parts.largest);
    }
    if graph.vertices() == 0 {
        return Ok(());
    }

    // 4. From the first vertex that has a number inside; names are those of the file.
    let mut search = bfs::direction::Search::<u32, u64>::new(&world, &graph, &messages)?;
    let labels = search.run(0)?;
    bfs::verify(&world, &graph, 0, labels, &messages)?;
    let found = bfs::count(&world, &graph, labels)?;
    if let Some(place) = graph.mine(0) {
        println!("rank 0: from vertex {}: levels of {:?} vertices", graph.layout().name(place), found.level_sizes);
    }
    Ok(())
}
