//! Memory that all ranks can read, write and count in: work is handed out by a counter, results are put into a table.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/counters       four processes on this machine
//! mpirun -n 4 target/release/examples/counters            the same under MPI
//! target/release/examples/counters                        alone: a world of one
//! ```

/// How many pieces of work there are. None belongs to a rank: whoever is free takes the next.
const PIECES: usize = 100;

fn main() -> treepie::Result<()> {
    let world = treepie::init()?;
    let (me, size) = (world.rank(), world.size());

    // A window is memory of which each rank contributes a part, zero at first. All ranks make it together. Here rank 0
    // has one slot, the counter, and the table of results is spread evenly over the ranks.
    let next = world.window::<u64>(if me == 0 { 1 } else { 0 })?;
    let part = PIECES.div_ceil(size);
    let table = world.window::<u64>(part)?;

    // 1. `fetch_add` takes the number that is there and leaves the next one, in one step: no two ranks get the same.
    let mut done = 0;
    loop {
        let piece = next.fetch_add(0, 0, 1)? as usize;
        if piece >= PIECES {
            break;
        }
        // 2. `put` writes to any rank's part, without that rank's help.
        let result = (piece * piece) as u64;
        table.put(piece / part, piece % part, &[result])?;
        done += 1;
    }
    println!("rank {me}: I did {done} of {PIECES} pieces");

    // 3. After a `fence` everybody sees what everybody has put.
    table.fence()?;

    // 4. `get` reads any rank's part.
    if me == 0 {
        let mut results = vec![0u64; part * size];
        for (owner, results) in results.chunks_mut(part).enumerate() {
            table.get(owner, 0, results)?;
        }
        let sum: u64 = results[..PIECES].iter().sum();
        let expected = (0..PIECES as u64).map(|piece| piece * piece).sum();
        assert_eq!(sum, expected, "a piece was done twice or never");
        println!("rank 0: the results add up to {sum}, as they should");
    }

    // All ranks give a window back together.
    table.free()?;
    next.free()
}
