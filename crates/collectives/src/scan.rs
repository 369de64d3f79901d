//! Scans: each rank gets the combination of what the ranks up to it have, or of those before it.

pub mod linear;
pub mod recursive_doubling;

pub use linear::Linear;
pub use recursive_doubling::RecursiveDoubling;

use treepie_schedule::Operation;

/// Whether a rank's own contribution is in its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// It is: a scan.
    Included,
    /// It is not: an exscan. Rank 0 gets nothing.
    Excluded,
}

impl Own {
    /// The operation.
    pub const fn operation(self) -> Operation {
        match self {
            Own::Included => Operation::Scan,
            Own::Excluded => Operation::Exscan,
        }
    }
}
