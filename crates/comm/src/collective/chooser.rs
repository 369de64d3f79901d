//! Choosing algorithms in another way than by the built-in model.

use treepie_schedule::Operation;
use treepie_topology::Network;

/// What is known of a call when its algorithm is chosen: all of it is the same on all ranks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Question<'a> {
    /// The operation.
    pub operation: Operation,
    /// How many ranks take part.
    pub ranks: u32,
    /// Bytes of all blocks, or of the vector; nothing if each rank knows only its own part.
    pub bytes: Option<usize>,
    /// Whether the order of operands does not matter.
    pub commutative: bool,
    /// Whether all blocks have the same length.
    pub uniform: bool,
    /// Where the ranks are.
    pub network: &'a Network,
}

/// Chooses algorithms for collective operations; see [`Comm::choosing`](crate::Comm::choosing).
pub trait Chooser {
    /// The id of the algorithm to use, as `allgather/ring`, or nothing to leave it to the model. All ranks must come to the
    /// same answer. It is asked once for calls that are alike.
    fn choose(&self, question: &Question<'_>) -> Option<String>;
}
