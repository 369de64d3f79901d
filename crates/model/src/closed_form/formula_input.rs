//! What a formula depends on.

use treepie_schedule::Operation;

use super::arguments::Arguments;
use super::network_shape::{NetworkShape, ceil_lg};

/// Input of a formula.
pub(super) struct FormulaInput<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Arguments<'a>,
    pub(super) operation: Operation,
    pub(super) network_shape: NetworkShape<'a>,
    pub(super) ranks: u32,
    pub(super) bytes: f64,
}

impl FormulaInput<'_> {
    /// P.
    pub(super) fn p(&self) -> f64 {
        f64::from(self.ranks)
    }

    /// ceil(lg P).
    pub(super) fn lg(&self) -> f64 {
        ceil_lg(self.ranks)
    }
}
