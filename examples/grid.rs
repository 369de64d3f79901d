//! Heat on a plane that is closed in both directions: each rank has a block of cells and needs the cells around it.
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
/// With the cells around them.
const WIDE: usize = SIDE + 2;
const STEPS: usize = 20;
const HEAT: f64 = 256.0;

fn main() -> treepie::Result<()> {
    let world = treepie::init()?;

    // 1. The ranks as a grid that is as square as it can be, and what lies in one row or column of it.
    let dims = balanced_dims(world.size(), 2);
    let grid = world.cartesian(&dims, &[true, true])?.expect("there is a place for every rank");
    let (rows, columns) = (grid.sub(&[false, true])?, grid.sub(&[true, false])?);
    rows.set_name("rows");
    columns.set_name("columns");
    let here = grid.coordinates(grid.rank())?;
    assert_eq!((columns.rank(), rows.rank()), (here[0], here[1]), "the place is the rank in the column and in the row");

    // 2. All heat is in one cell of rank 0, and spreads to the four cells around.
    let mut cells = vec![0.0; WIDE * WIDE];
    if grid.rank() == 0 {
        cells[WIDE + 1] = HEAT;
    }
    for _ in 0..STEPS {
        exchange_edges(&grid, &mut cells)?;
        let old = cells.clone();
        for cell in inside() {
            let around = old[cell - WIDE] + old[cell + WIDE] + old[cell - 1] + old[cell + 1];
            cells[cell] = old[cell] / 2.0 + around / 8.0;
        }
    }

    // 3. None got lost: first along the rows, then along the columns.
    let heat: f64 = inside().map(|cell| cells[cell]).sum();
    let of_row = rows.all_reduce(&[heat], Sum)?;
    let of_all = columns.all_reduce(&of_row, Sum)?;
    assert!((of_all[0] - HEAT).abs() < 1e-9, "{} of {HEAT}", of_all[0]);
    println!("rank {}: at {here:?} of {dims:?}, {heat:.3} of the heat is here", grid.rank());
    if grid.rank() == 0 {
        println!("rank 0: the heat of all cells is still {:.0} after {STEPS} steps", of_all[0]);
    }
    Ok(())
}

/// The cells that are this rank's own.
fn inside() -> impl Iterator<Item = usize> {
    (1..=SIDE).flat_map(|row| (1..=SIDE).map(move |column| row * WIDE + column))
}

/// Gets the edges of the four neighbours into the cells around this rank's.
fn exchange_edges(grid: &Cartesian, cells: &mut [f64]) -> treepie::Result<()> {
    // A line of cells in each dimension: row or column 0 and SIDE + 1 are the neighbours'.
    let cell =
        |dimension: usize, line: usize, at: usize| if dimension == 0 { line * WIDE + at } else { at * WIDE + line };
    for dimension in 0..2 {
        for (by, own, theirs) in [(1, SIDE, 0), (-1, 1, SIDE + 1)] {
            let (source, destination) = grid.shift(dimension, by);
            let (source, destination) = (source.expect("a ring"), destination.expect("a ring"));
            let edge: Vec<f64> = (1..=SIDE).map(|at| cells[cell(dimension, own, at)]).collect();
            let mut got = vec![0.0; SIDE];
            grid.sendrecv(&edge, destination, 0, &mut got, source, 0)?;
            got.into_iter().zip(1..).for_each(|(heat, at)| cells[cell(dimension, theirs, at)] = heat);
        }
    }
    Ok(())
}
