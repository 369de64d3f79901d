//! A breadth-first search and the connected components of a graph from a file or a generator.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/graph FILE      four processes on this machine, an edge list
//! mpirun -n 4 target/release/examples/graph FILE           the same under MPI
//! target/release/examples/graph                            one process, a Kronecker graph of 65,536 vertices
//! ```

use treepie::graph::BuildOptions;
use treepie::graph::generate::Kronecker;
use treepie::prelude::*;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        // All ranks make these calls. Each reads its part of the edges, and gets the adjacency of its local vertices.
        let options = BuildOptions { symmetrize: true, ..BuildOptions::default() };
        let graph = match std::env::args().nth(1) {
            Some(file) => Graph::read_with(&world, file, &options)?,
            None => Graph::build_with(&world, &Kronecker::new(16, 16)?, &options)?,
        };
        let bfs = graph.bfs(0)?;
        let (levels, components) = (bfs.level_sizes()?, graph.components()?.summary()?);
        if world.rank() == 0 {
            println!("rank 0: {} vertices, {} components", graph.num_vertices(), components.components);
            println!("rank 0: from vertex 0, levels of {levels:?} vertices");
        }
        for (id, level) in bfs.levels.iter().take(3) {
            println!("rank {}: vertex {id} is on level {level}", world.rank());
        }
        Ok(())
    })
}
