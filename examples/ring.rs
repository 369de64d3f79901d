//! Each rank sends to its neighbor in a ring. The README shows this program; a test compares the two.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/ring       four processes on this machine
//! treepie run --threads 4 target/release/examples/ring         four threads of one process
//! treepie run --sim torus:4x4 target/release/examples/ring      16 simulated ranks
//! mpirun -n 4 target/release/examples/ring            the same under MPI
//! target/release/examples/ring                        alone: a world of one
//! ```

use treepie::prelude::*;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let right = (world.rank() + 1) % world.size();
        world.send(&[world.rank() as u64], right, 0)?;
        let (received, status) = world.recv_vec::<u64>(ANY_SOURCE, 0)?;
        println!("rank {} received {received:?} from rank {}", world.rank(), status.source);
        world.barrier()
    })
}
