//! A token around a ring, and wildcard receives from all ranks.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/messages       four processes on this machine
//! mpirun -n 4 target/release/examples/messages            the same under MPI
//! target/release/examples/messages                        alone: a world of one
//! ```

use treepie::prelude::*;

// Tags distinguish kinds of messages.
const HELLO: Tag = 1;
const ANSWER: Tag = 2;

fn main() -> treepie::Result<()> {
    // All ranks run this program. Each asks for its rank:
    treepie::main(|world| {
        let (me, size) = (world.rank(), world.size());
        let right = (me + 1) % size;
        let left = (me + size - 1) % size;

        // 1. A token goes around, and each rank adds its number. Rank 0 starts it and receives it in the end.
        //    Elements of messages are plain data: integers, floats, arrays of them, user-defined `Pod` types.
        if me == 0 {
            world.send(&[0u64], right, HELLO)?;
            let (token, _) = world.recv_vec::<u64>(left, HELLO)?;
            println!("rank 0: the token went around {size} ranks and came back with {}", token[0]);
        } else {
            let (token, _) = world.recv_vec::<u64>(left, HELLO)?;
            println!("rank {me}: hello, I got {} from rank {left}", token[0]);
            world.send(&[token[0] + me as u64], right, HELLO)?;
        }

        // 2. All ranks send to rank 0, which receives in the order of arrival. It knows neither the source nor the length:
        //    the status has the source, and the vector has the length.
        let answer: Vec<f64> = (0..=me).map(|i| i as f64 / 2.0).collect();
        // `isend` does not wait: rank 0 can send to itself and receive it below.
        let sending = world.isend(answer, 0, ANSWER)?;
        if me == 0 {
            for _ in 0..size {
                let (numbers, status) = world.recv_vec::<f64>(ANY_SOURCE, ANSWER)?;
                println!("rank 0: {} numbers from rank {}", numbers.len(), status.source);
            }
        }
        sending.wait()?;

        // 3. No rank leaves before all are done.
        world.barrier()
    })
}
