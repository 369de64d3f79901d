//! A token around a ring, and answers from whoever is first.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/messages       four processes on this machine
//! mpirun -n 4 target/release/examples/messages            the same under MPI
//! target/release/examples/messages                        alone: a world of one
//! ```

use treepie::prelude::*;

// Numbers that tell messages of one kind from those of another.
const HELLO: Tag = 1;
const ANSWER: Tag = 2;

fn main() -> treepie::Result<()> {
    // Every rank runs this same program. It finds out which of them it is:
    let world = treepie::init()?;
    let (me, size) = (world.rank(), world.size());
    let right = (me + 1) % size;
    let left = (me + size - 1) % size;

    // 1. A token goes around, and each rank adds its number. Rank 0 begins and gets it back in the end.
    //    Elements of messages are plain data: integers, floats, arrays of them, your own `Pod` types.
    if me == 0 {
        world.send(&[0u64], right, HELLO)?;
        let (token, _) = world.recv_vec::<u64>(left, HELLO)?;
        println!("rank 0: the token went around {size} ranks and came back with {}", token[0]);
    } else {
        let (token, _) = world.recv_vec::<u64>(left, HELLO)?;
        println!("rank {me}: hello, I got {} from rank {left}", token[0]);
        world.send(&[token[0] + me as u64], right, HELLO)?;
    }

    // 2. All ranks answer rank 0, which takes them as they come. It knows neither who is next nor how long the message
    //    is: the status says who sent it, and the vector has its length.
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

    // 3. Nobody leaves before everybody is done.
    world.barrier()
}
