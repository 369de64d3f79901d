//! Breadth-first search on a graph from an edge list.
//! The book shows this program beside one with mpi4py (docs/tasks.md).

use treepie::graph::BuildOptions;
use treepie::prelude::*;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let mut arguments = std::env::args().skip(1);
        let file = arguments.next().ok_or("which file?")?;
        let root = arguments.next().and_then(|text| text.parse().ok()).ok_or("from which vertex?")?;
        let options = BuildOptions { symmetrize: true, ..BuildOptions::default() };
        let sizes = Graph::read_with(&world, file, &options)?.bfs(root)?.level_sizes()?;
        if world.rank() == 0 {
            println!("{} vertices reached from {root}, by level {sizes:?}", sizes.iter().sum::<u64>());
        }
        Ok(())
    })
}
