//! Collective operations: a histogram of everybody's data, in four lines.
//!
//! `cargo run --release -- run -n 4 target/release/examples/collectives`, or alone.

use treepie::prelude::*;

fn main() -> treepie::Result<()> {
    let world = treepie::init()?;
    let (rank, size) = (world.rank(), world.size());

    // Each rank has some numbers; together they ask how many of them end with each digit.
    let numbers: Vec<u64> = (0..1000).map(|i| (i * 7 + rank as u64 * 13) % 997).collect();
    let mut histogram = [0u64; 10];
    numbers.iter().for_each(|number| histogram[(number % 10) as usize] += 1);
    world.all_reduce_in_place(&mut histogram, Sum)?;
    assert_eq!(histogram.iter().sum::<u64>(), 1000 * size as u64);

    // Where would each rank's numbers begin in a file of all of them? The scan of those before it says.
    let mut begin = [0u64];
    world.exscan(&[numbers.len() as u64], &mut begin, Sum)?;
    assert_eq!(begin[0], 1000 * rank as u64);

    // The ranks' names in order, which are on their way while something else is computed.
    let names = world.iall_gather(vec![b'a' + rank as u8 % 26])?;
    let largest = world.all_reduce(&[numbers.iter().copied().max().unwrap_or(0)], Max)?;
    let names = names.wait()?;

    if rank == 0 {
        println!("{histogram:?}, largest {}, ranks {}", largest[0], String::from_utf8_lossy(&names));
    }
    Ok(())
}
