//! What graphs with random numbers have in common: a seed, and weights if they are asked for.

use std::fmt;

use super::random;
use super::text::Arguments;
use crate::{Edge, Result, Weights};

/// The seed of a graph, and whether chance gives weights to its edges, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chance {
    pub(super) seed: u64,
    pub(super) weighted: bool,
}

impl Chance {
    const SEED: u64 = 1;

    pub(super) fn parse(arguments: &mut Arguments) -> Result<Self> {
        let seed = arguments.value("seed")?.unwrap_or(Self::SEED);
        Ok(Self { seed, weighted: arguments.flag("weighted") })
    }

    pub(super) fn weights(&self) -> Weights {
        if self.weighted { Weights::Real } else { Weights::None }
    }

    /// An edge with the weight that it has in this graph.
    #[inline]
    pub(super) fn edge(&self, from: u64, to: u64) -> Edge {
        let weight = if self.weighted { random::weight(self.seed, from, to) } else { 1.0 };
        Edge { from, to, weight }
    }
}

/// What can be said of the chance of a graph that has one.
macro_rules! by_chance {
    ($graph:ty) => {
        impl $graph {
            /// The same with another seed.
            #[must_use]
            pub fn with_seed(mut self, seed: u64) -> Self {
                self.chance.seed = seed;
                self
            }

            /// The same edges with weights, uniform above 0 up to 1.
            #[must_use]
            pub fn with_weights(mut self) -> Self {
                self.chance.weighted = true;
                self
            }
        }
    };
}
pub(super) use by_chance;

impl Default for Chance {
    fn default() -> Self {
        Self { seed: Self::SEED, weighted: false }
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.seed != Self::SEED {
            write!(f, ",seed={}", self.seed)?;
        }
        if self.weighted { f.write_str(",weighted") } else { Ok(()) }
    }
}
