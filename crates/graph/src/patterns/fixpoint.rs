//! Iterative methods: the same step for all vertices and edges until convergence.   [active messages paper, section
//! 4.5]

use treepie_comm::{Comm, Sum};

use crate::Result;

/// The outcome of an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convergence {
    /// The number of steps.
    pub iterations: u32,
    /// The change by the last step, summed over all ranks.
    pub residual: f64,
}

/// Calls `step` until the sum of the changes that it returns is below `tolerance`, at most `max_iterations` times. All
/// ranks call it.
pub fn iterate(
    comm: &Comm,
    tolerance: f64,
    max_iterations: u32,
    mut step: impl FnMut(u32) -> Result<f64>,
) -> Result<Convergence> {
    let mut residual = f64::INFINITY;
    for iteration in 0..max_iterations {
        residual = comm.allreduce(&[step(iteration)?], Sum)?[0];
        if residual < tolerance {
            return Ok(Convergence { iterations: iteration + 1, residual });
        }
    }
    Ok(Convergence { iterations: max_iterations, residual })
}
