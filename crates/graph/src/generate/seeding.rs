//! The seed and the optional random weights of a generator.

use std::fmt;

use super::random;
use super::text::GeneratorArguments;
use crate::{Edge, Result, WeightKind};

/// The seed of a graph, and whether its edges have random weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seeding {
    pub(super) seed: u64,
    pub(super) weighted: bool,
}

impl Seeding {
    const DEFAULT_SEED: u64 = 1;

    pub(super) fn parse(arguments: &mut GeneratorArguments) -> Result<Self> {
        let seed = arguments.value("seed")?.unwrap_or(Self::DEFAULT_SEED);
        Ok(Self { seed, weighted: arguments.flag("weighted") })
    }

    pub(super) fn weights(&self) -> WeightKind {
        if self.weighted { WeightKind::Real } else { WeightKind::None }
    }

    /// An edge with its weight.
    #[inline]
    pub(super) fn edge(&self, from: u64, to: u64) -> Edge {
        let weight = if self.weighted { random::weight(self.seed, from, to) } else { 1.0 };
        Edge { from, to, weight }
    }
}

/// The methods that set the seeding of a generator.
macro_rules! impl_seeding {
    ($graph:ty) => {
        impl $graph {
            /// The same generator with another seed.
            #[must_use]
            pub fn with_seed(mut self, seed: u64) -> Self {
                self.seeding.seed = seed;
                self
            }

            /// The same edges with random weights, uniform in (0, 1].
            #[must_use]
            pub fn with_weights(mut self) -> Self {
                self.seeding.weighted = true;
                self
            }
        }
    };
}
pub(super) use impl_seeding;

impl Default for Seeding {
    fn default() -> Self {
        Self { seed: Self::DEFAULT_SEED, weighted: false }
    }
}

impl fmt::Display for Seeding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.seed != Self::DEFAULT_SEED {
            write!(f, ",seed={}", self.seed)?;
        }
        if self.weighted { f.write_str(",weighted") } else { Ok(()) }
    }
}
