//! Heat diffusion on a torus: each rank has a block of cells, and exchanges the halo with its four neighbors.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/grid            four processes on this machine
//! mpirun -n 4 target/release/examples/grid                 the same under MPI
//! target/release/examples/grid                             alone: a world of one
//! ```

use treepie::prelude::*;

/// Cells of a rank in each direction.
const SIDE: usize = 8;
/// Cells in each direction including the halo.
const WIDE: usize = SIDE + 2;
const STEPS: usize = 20;
const HEAT: f64 = 256.0;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        // 1. A Cartesian topology that is as square as possible, and communicators of its rows and columns.
        let dims = dims_create(world.size(), 2);
        let grid = world.cart_create(&dims, &[true, true])?.expect("every rank is in the grid");
        let (rows, columns) = (grid.sub(&[false, true])?, grid.sub(&[true, false])?);
        rows.set_name("rows");
        columns.set_name("columns");
        let coords = grid.coords(grid.rank())?;
        assert_eq!(
            (columns.rank(), rows.rank()),
            (coords[0], coords[1]),
            "coordinates are the ranks in column and row"
        );

        // 2. All heat starts in one cell of rank 0, and spreads to its four neighbors.
        let mut cells = vec![0.0; WIDE * WIDE];
        if grid.rank() == 0 {
            cells[WIDE + 1] = HEAT;
        }
        for _ in 0..STEPS {
            exchange_halo(&grid, &mut cells)?;
            let old = cells.clone();
            for cell in interior() {
                let around = old[cell - WIDE] + old[cell + WIDE] + old[cell - 1] + old[cell + 1];
                cells[cell] = old[cell] / 2.0 + around / 8.0;
            }
        }

        // 3. The total is conserved: reduced along the rows, then along the columns.
        let heat: f64 = interior().map(|cell| cells[cell]).sum();
        let of_row = rows.allreduce(&[heat], Sum)?;
        let of_all = columns.allreduce(&of_row, Sum)?;
        assert!((of_all[0] - HEAT).abs() < 1e-9, "{} of {HEAT}", of_all[0]);
        println!("rank {}: at {coords:?} of {dims:?}, with {heat:.3} of the heat", grid.rank());
        if grid.rank() == 0 {
            println!("rank 0: the heat of all cells is still {:.0} after {STEPS} steps", of_all[0]);
        }
        Ok(())
    })
}

/// Indices of the interior cells.
fn interior() -> impl Iterator<Item = usize> {
    (1..=SIDE).flat_map(|row| (1..=SIDE).map(move |column| row * WIDE + column))
}

/// Receives the edges of the four neighbors into the halo.
fn exchange_halo(grid: &Cartesian, cells: &mut [f64]) -> treepie::Result<()> {
    // A line of cells in each dimension: rows and columns 0 and SIDE + 1 are the halo.
    let cell =
        |dimension: usize, line: usize, at: usize| if dimension == 0 { line * WIDE + at } else { at * WIDE + line };
    for dimension in 0..2 {
        for (by, edge_line, halo_line) in [(1, SIDE, 0), (-1, 1, SIDE + 1)] {
            let (source, destination) = grid.shift(dimension, by);
            let (source, destination) = (source.expect("periodic"), destination.expect("periodic"));
            let edge: Vec<f64> = (1..=SIDE).map(|at| cells[cell(dimension, edge_line, at)]).collect();
            let mut got = vec![0.0; SIDE];
            grid.sendrecv(&edge, destination, 0, &mut got, source, 0)?;
            got.into_iter().zip(1..).for_each(|(heat, at)| cells[cell(dimension, halo_line, at)] = heat);
        }
    }
    Ok(())
}
