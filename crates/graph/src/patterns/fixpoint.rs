//! Iteration to a fixpoint: the same for all vertices and edges, until hardly anything changes.   [section 4.5]

use treepie_comm::{Comm, Sum};

use crate::Result;

/// How an iteration ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    /// After so many steps.
    pub iterations: u32,
    /// By how much the last one has changed something, on all ranks.
    pub change: f64,
}

/// Calls `step` until the changes that it returns are below `tolerance` together, or `most` times. All ranks call it.
pub fn iterate(comm: &Comm, tolerance: f64, most: u32, mut step: impl FnMut(u32) -> Result<f64>) -> Result<Ended> {
    let mut change = f64::INFINITY;
    for iteration in 0..most {
        change = comm.all_reduce(&[step(iteration)?], Sum)?[0];
        if change < tolerance {
            return Ok(Ended { iterations: iteration + 1, change });
        }
    }
    Ok(Ended { iterations: most, change })
}
