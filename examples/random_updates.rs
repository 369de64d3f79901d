//! HPCC RandomAccess, by three algorithms.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/random_updates    four processes on this machine
//! treepie run --sim torus:4x4 target/release/examples/random_updates
//! mpirun -n 4 target/release/examples/random_updates         the same under MPI
//! ```

use treepie::prelude::*;
use treepie::randomaccess::RandomAccess;

/// Words of the table of all ranks.
const WORDS: u64 = 1 << 16;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        for algorithm in ["hypercube_any", "buffered_async", "am"] {
            // Four updates per word, a look-ahead of 1,024, and a verified result.
            let result = RandomAccess::new(WORDS).algorithm(algorithm.parse()?).run(&world)?;
            assert_eq!(result.errors, Some(0), "a wrong word");
            if world.rank() == 0 {
                println!("rank 0: {algorithm}, {} updates, 0 wrong words", result.updates);
            }
        }

        // The idea by hand: an active message for each update, to the owner of its word.
        let block = WORDS.div_ceil(world.size() as u64);
        let mut words = vec![0; block as usize];
        let data = (0..1000u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16);
        let owner = |datum: &u64| (datum % WORDS / block) as Rank;
        am::run(&world, &mut words, data, owner, |words, _, datum| words[(datum % WORDS % block) as usize] ^= datum)?;
        let updated = words.iter().filter(|word| **word != 0).count();
        println!("rank {}: {updated} of {block} words updated by hand-written messages", world.rank());
        Ok(())
    })
}
