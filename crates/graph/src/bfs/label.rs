//! The label that a search gives to a vertex.

use crate::vertex_id::VertexId;

/// The level of unreached vertices.
pub const UNREACHED: u32 = u32::MAX;

/// The result of BFS for a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<I> {
    /// The global id of its parent; the root is its own parent. Unspecified for unreached vertices.
    pub parent: I,
    /// The number of arcs from the root.
    pub level: u32,
}

impl<I: VertexId> Label<I> {
    /// The label of an unreached vertex.
    pub const NONE: Self = Self { parent: I::NONE, level: UNREACHED };
}
