//! Scans (prefix reductions): rank r gets the reduction over ranks 0 to r, or 0 to r - 1.

pub mod linear;
pub mod recursive_doubling;

pub use linear::Linear;
pub use recursive_doubling::RecursiveDoubling;

use treepie_schedule::Operation;

/// Whether the result of a rank includes its contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanKind {
    /// Scan: included.
    Inclusive,
    /// Exscan: not included. The result of rank 0 is undefined.
    Exclusive,
}

impl ScanKind {
    /// The operation.
    pub const fn operation(self) -> Operation {
        match self {
            ScanKind::Inclusive => Operation::Scan,
            ScanKind::Exclusive => Operation::Exscan,
        }
    }
}
