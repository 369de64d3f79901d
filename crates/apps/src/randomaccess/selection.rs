//! The choice of an algorithm.

use treepie_comm::{Comm, Result};

use super::algorithm::{Algorithm, Dimensions};
use super::refinements::Refinements;

/// The refinements without others: nothing waits before it must.
pub(super) const REFINEMENTS: Refinements = Refinements {
    prepost: true,
    deferred: false,
    late_wait: true,
    double_buffer: false,
    persistent: false,
    overlap: false,
    adaptive: false,
    discard: false,
};

/// The algorithm for a communicator and a look-ahead.
pub(super) fn choose(comm: &Comm, _look_ahead: usize) -> Result<Algorithm> {
    Ok(match comm.size() {
        1 => Algorithm::Serial,
        _ => Algorithm::Alltoall(Dimensions::Number(1)),
    })
}
