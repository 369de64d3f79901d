//! How PageRank scores are computed.

use crate::AmConfig;

/// An algorithm for PageRank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRankMethod {
    /// Each vertex sums the contributions of its in-neighbors. Needs in-edges.
    Pull,
    /// One active message per arc.
    Push,
}

impl PageRankMethod {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Pull, Self::Push];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }
}

/// The damping factor, the stopping criteria and the algorithm.
#[derive(Clone, Debug)]
pub struct PageRankOptions {
    /// The probability that the walk follows an arc.
    pub damping: f64,
    /// Stop when the sum of all changes of scores is below this.
    pub tolerance: f64,
    /// The most iterations.
    pub max_iterations: u32,
    /// The algorithm; `None`: pull if the graph has in-edges, else push.
    pub method: Option<PageRankMethod>,
    /// How active messages are sent.
    pub config: AmConfig,
}

impl Default for PageRankOptions {
    fn default() -> Self {
        Self { damping: 0.85, tolerance: 1e-4, max_iterations: 100, method: None, config: AmConfig::default() }
    }
}
