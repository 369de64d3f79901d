//! Common to the tests of all algorithms: operations, networks and block lengths.

#![allow(dead_code, reason = "each test target uses a part of it")]

pub(crate) mod mutant;

use treepie_schedule::{BlockLayout, BlockLayouts, Operation};
use treepie_topology::Network;

/// Whether the full range is requested.
pub(crate) fn long() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// An operation by its name, with a root.
pub(crate) fn operation(name: &str, root: u32) -> Operation {
    Operation::from_name(name, root).unwrap_or_else(|| panic!("no operation is called {name}"))
}

/// The block lengths of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// Blocks of equal length.
    Each(usize),
    /// A total number of elements that nothing divides.
    Total(usize),
    /// Irregular lengths, some of them 0.
    Irregular,
}

impl Lengths {
    /// Whether all blocks have equal length.
    pub(crate) fn is_uniform(self) -> bool {
        matches!(self, Lengths::Each(_))
    }

    /// Whether an operation can have such lengths: a vector is always divided evenly.
    pub(crate) fn suit(self, operation: Operation) -> bool {
        use Operation::{Allgather, Alltoall, Gather, ReduceScatter, Scatter};
        let by_rank = matches!(operation, Allgather | Alltoall | Gather { .. } | ReduceScatter | Scatter { .. });
        match self {
            Lengths::Each(_) => true,
            Lengths::Total(_) => !by_rank,
            Lengths::Irregular => by_rank,
        }
    }

    /// The layouts of a rank.
    pub(crate) fn layouts(self, operation: Operation, blocks: u32) -> impl Fn(u32) -> BlockLayouts {
        let shared = match self {
            Lengths::Each(each) => BlockLayout::uniform(each, blocks),
            Lengths::Total(total) => BlockLayout::Even { total, blocks },
            Lengths::Irregular => {
                BlockLayout::from_counts(&(0..blocks).map(|block| irregular(block, block / 3)).collect::<Vec<_>>())
            }
        };
        move |rank| {
            if self != Lengths::Irregular || operation != Operation::Alltoall {
                return BlockLayouts::symmetric(shared.clone());
            }
            let counts =
                |count: &dyn Fn(u32) -> usize| BlockLayout::from_counts(&(0..blocks).map(count).collect::<Vec<_>>());
            BlockLayouts { input: counts(&|to| irregular(rank, to)), output: counts(&|from| irregular(from, rank)) }
        }
    }
}

/// 0 to 7, many of them 0 or 1, 7 seldom.
fn irregular(a: u32, b: u32) -> usize {
    [0, 3, 1, 7, 0, 2, 1, 0, 5][((a * 5 + b * 7 + a * b) % 9) as usize]
}

/// Networks of all kinds: torus, mesh, mixed; irregular partitions; leaves that are not powers of two; unequal
/// clusters; hosts of several ranks.
pub(crate) const NETWORKS: [&str; 37] = [
    "torus:2x3",
    "mesh:2x3",
    "torus:4x4",
    "mesh:4x4",
    "torus:4x4,wrap=yn",
    "torus:3x3x3",
    "mesh:3x3x3",
    "torus:3x3x3,wrap=nyn",
    "torus:2x4x8",
    "mesh:2x4x8",
    "torus:2x4x8,wrap=yny",
    "torus:4x4x4",
    "mesh:4x4x4",
    "torus:4x4x4,wrap=nny",
    "torus:1x5x1",
    "torus:1x4x1",
    "torus:5x5@24+0-6+9-11+17+20",
    "mesh:3x4x3@35+1-4+6+11-19+22",
    "torus:4x4x4@1-30+33+35-61",
    "clos:r20,t12,n30",
    "clos:r9,t5,n17",
    "clusters:3+1+8+5",
    "clusters:4x7@3-9+12+0+27+20-25",
    "clusters:2x3x4",
    "clusters:(3+1)+(2+4+1)",
    "clusters:(2x(1+3))+(2x2x3)@19+3-9+12+0+16",
    "clusters:4x4",
    "clusters:3x3x3",
    "clusters:2x2x2x2",
    "clusters:(3x(2+4))@5+3+1+0+2+4+12-17",
    "flat:12,ppn=4",
    "flat:13,ppn=3",
    "flat:16,ppn=4@15+0+1+7+4+2",
    "flat:11,ppn=4@0+4+8+1+5+9+2+6+10+3+7",
    "clusters:1+9+1@10+0+5+1-4+6-9",
    "clusters:5x1",
    "clusters:(7+1)+(1)+(2+3)@0+8+9+1+2+11+3+13+12+4+10+5+6+7",
];

/// A network by its text.
pub(crate) fn network(text: &str) -> Network {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}
