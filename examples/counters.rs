//! Windows: a shared counter distributes the work dynamically, and ranks put the results into a distributed table.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/counters       four processes on this machine
//! mpirun -n 4 target/release/examples/counters            the same under MPI
//! target/release/examples/counters                        alone: a world of one
//! ```

/// The number of tasks. A rank that is free takes the next one.
const TASKS: usize = 100;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let (me, size) = (world.rank(), world.size());

        // A window is memory to which each rank contributes a part, initially zero. Creating it is collective. Here
        // rank 0 contributes one element, the counter; the table of results is distributed evenly over the ranks.
        let next = world.window::<u64>(if me == 0 { 1 } else { 0 })?;
        let part = TASKS.div_ceil(size);
        let table = world.window::<u64>(part)?;

        // 1. `fetch_add` returns the counter and increments it atomically: no two ranks get the same number.
        let mut done = 0;
        loop {
            let task = next.fetch_add(0, 0, 1)? as usize;
            if task >= TASKS {
                break;
            }
            // 2. `put` writes to the part of any rank, without a call on that rank.
            let result = (task * task) as u64;
            table.put(task / part, task % part, &[result])?;
            done += 1;
        }
        println!("rank {me}: I did {done} of {TASKS} tasks");

        // 3. After a `fence` all ranks see what all have put.
        table.fence()?;

        // 4. `get` reads the part of any rank.
        if me == 0 {
            let mut results = vec![0u64; part * size];
            for (owner, results) in results.chunks_mut(part).enumerate() {
                table.get(owner, 0, results)?;
            }
            let sum: u64 = results[..TASKS].iter().sum();
            let expected = (0..TASKS as u64).map(|task| task * task).sum();
            assert_eq!(sum, expected, "a task was done twice or never");
            println!("rank 0: the results add up to {sum}, as they should");
        }

        // Freeing a window is collective.
        table.free()?;
        next.free()
    })
}
