//! Collective operations: a histogram of the data of all ranks.
//!
//! `cargo run --release -- run -n 4 target/release/examples/collectives`, or alone.

use treepie::prelude::*;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let (rank, size) = (world.rank(), world.size());

        // Each rank has some numbers; an allreduce counts how many end with each digit.
        let numbers: Vec<u64> = (0..1000).map(|i| (i * 7 + rank as u64 * 13) % 997).collect();
        let mut histogram = [0u64; 10];
        numbers.iter().for_each(|number| histogram[(number % 10) as usize] += 1);
        world.allreduce_in_place(&mut histogram, Sum)?;
        assert_eq!(histogram.iter().sum::<u64>(), 1000 * size as u64);

        // The offset of each rank's numbers in a file of all of them: an exclusive scan of their counts.
        let mut begin = [0u64];
        world.exscan(&[numbers.len() as u64], &mut begin, Sum)?;
        assert_eq!(begin[0], 1000 * rank as u64);

        // The letters of all ranks, gathered while another operation runs.
        let letters = world.iallgather(vec![b'a' + rank as u8 % 26])?;
        let largest = world.allreduce(&[numbers.iter().copied().max().unwrap_or(0)], Max)?;
        let letters = letters.wait()?;

        if rank == 0 {
            println!("{histogram:?}, largest {}, ranks {}", largest[0], String::from_utf8_lossy(&letters));
        }
        Ok(())
    })
}
