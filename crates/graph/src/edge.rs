//! Edges on their way into a graph: from a file or a generator.

use bytemuck::{Pod, Zeroable};

use crate::Result;

/// An edge as its source has it: original names of its ends, and its weight. Where there are no weights, that is 1.
///
/// Numbers of 32 bits, whole ones as well as floating-point ones, are weights exactly.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Edge {
    /// Where it begins.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
    /// Its weight.
    pub weight: f64,
}

impl Edge {
    /// An edge without a weight.
    pub fn new(from: u64, to: u64) -> Self {
        Self { from, to, weight: 1.0 }
    }
}

/// What the edges of a source stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orientation {
    /// Each is an arc from one vertex to another.
    Directed,
    /// Each stands for both directions.
    Undirected,
    /// Each is an arc, and there is one in the other direction for each, too.
    Symmetric,
}

/// Weights of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// There are none.
    None,
    /// Whole numbers from 0 to 2^32-1.
    Whole,
    /// Floating-point numbers.
    Real,
}

/// Where edges come from. Each rank takes a part of them.
pub trait Edges {
    /// How many vertices there are, if that is known without looking at all edges: their names are then 0, 1, and so on below it.
    fn vertices(&self) -> Option<u64>;

    /// What an edge stands for.
    fn orientation(&self) -> Orientation;

    /// Whether edges have weights, and which, as far as is known without looking at all edges.
    fn weights(&self) -> Weights;

    /// Gives the edges of one of so many parts to `sink`, some at a time. All parts together have each edge once, however many
    /// parts there are.
    fn part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()>;

    /// Gives names of one of so many parts of the vertices to `sink`. Only needed of vertices that no edge has, where
    /// names are any numbers.
    fn names(&self, _part: usize, _parts: usize, _sink: &mut dyn FnMut(&[u64])) -> Result<()> {
        Ok(())
    }

    /// Whether edges lie in order, so that [`rows`](Self::rows) has those of any vertices. How many vertices there are
    /// is then known.
    fn is_in_rows(&self) -> bool {
        false
    }

    /// Gives the edges that begin at some vertices to `sink`, in order of where they begin, then of where they end,
    /// then of weights. Only called if [`is_in_rows`](Self::is_in_rows) says so.
    fn rows(&self, _vertices: std::ops::Range<u64>, _sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        Ok(())
    }

    /// Whether all parts together may have so many edges: some sources say how many there are.
    fn check(&self, _edges: u64) -> Result<()> {
        Ok(())
    }
}

/// The numbers below `count` that belong to one of so many parts: parts differ by one at most.
pub fn share(count: u64, part: usize, parts: usize) -> std::ops::Range<u64> {
    let bound = |part: usize| (u128::from(count) * part as u128 / parts as u128) as u64;
    bound(part)..bound(part + 1)
}
