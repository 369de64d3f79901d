//! Heat in a square plate whose upper edge is hot: each rank has some rows, until the largest change is small.
//! The book shows this program beside one in C (docs/tasks.md).

use treepie::prelude::*;

const N: usize = 64;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let line = world.cart_create(&[world.size()], &[false])?.expect("all ranks are in it");
        let rows = N / world.size() + usize::from(world.rank() < N % world.size());
        let mut heat = vec![[0.0_f64; N + 2]; rows + 2];
        if world.rank() == 0 {
            heat[0] = [100.0; N + 2];
        }
        for step in 1.. {
            let (first, last) = (heat[1], heat[rows]);
            line.sendrecv_shift(&first, &mut heat[rows + 1], 0, -1, 0)?;
            line.sendrecv_shift(&last, &mut heat[0], 0, 1, 0)?;
            let old = heat.clone();
            let mut change = 0.0_f64;
            for (i, j) in (1..=rows).flat_map(|i| (1..=N).map(move |j| (i, j))) {
                heat[i][j] = (old[i - 1][j] + old[i + 1][j] + old[i][j - 1] + old[i][j + 1]) / 4.0;
                change = change.max((heat[i][j] - old[i][j]).abs());
            }
            let residual = world.allreduce_one(change, Max)?;
            if residual < 0.01 {
                if world.rank() == 0 {
                    println!("{step} steps, residual {residual:.6}");
                }
                return Ok(());
            }
        }
        unreachable!("it converges")
    })
}
