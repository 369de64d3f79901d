//! User-defined selection of algorithms.

use treepie_schedule::Operation;
use treepie_topology::Network;

/// The properties of a call from which its algorithm is selected; the same on all ranks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SelectionQuery<'a> {
    /// The operation.
    pub operation: Operation,
    /// Number of ranks.
    pub ranks: u32,
    /// Bytes of all blocks, or of the vector; `None` if each rank knows only its part.
    pub bytes: Option<usize>,
    /// Whether the operator is commutative.
    pub commutative: bool,
    /// Whether all blocks have the same length.
    pub uniform: bool,
    /// The network of the ranks.
    pub network: &'a Network,
}

/// Selects algorithms for collective operations; see [`Comm::with_selector`](crate::Comm::with_selector).
pub trait AlgorithmSelector {
    /// The id of the algorithm to use, for example `allgather/ring`, or `None` to leave the choice to the cost model.
    /// All ranks must return the same. Called once for calls that are alike.
    fn select(&self, query: &SelectionQuery<'_>) -> Option<String>;
}
