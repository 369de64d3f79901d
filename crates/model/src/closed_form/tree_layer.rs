//! Shapes of trees, and their steps.

use treepie_topology::LinkClasses;

use super::network_shape::ceil_lg;
use crate::plogp::tree_height;

/// The shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeLayer {
    /// All ranks are children of the root.
    Flat,
    /// Each rank has one child.
    Chain,
    /// A binomial tree.
    Binomial,
    /// A k-nomial tree of this radix.
    Knomial(u32),
    /// A tree of this degree.
    Kary(u32),
    /// Over the fastest links between groups. For formulas, in which all links are alike, it is flat.
    Links(LinkClasses),
}

impl std::fmt::Display for TreeLayer {
    /// As an argument of an id.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TreeLayer::Flat => f.write_str("flat"),
            TreeLayer::Chain => f.write_str("chain"),
            TreeLayer::Binomial => f.write_str("binomial"),
            TreeLayer::Knomial(radix) => write!(f, "knomial{radix}"),
            TreeLayer::Kary(degree) => write!(f, "kary{degree}"),
            TreeLayer::Links(classes) => classes.fmt(f),
        }
    }
}

impl TreeLayer {
    /// Parses an argument: `knomial2`, `kary3`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = |prefix: &str, least: u32| {
            text.strip_prefix(prefix).and_then(|number| number.parse().ok()).filter(|number| *number >= least)
        };
        match text {
            "flat" => Some(TreeLayer::Flat),
            "chain" => Some(TreeLayer::Chain),
            "binomial" => Some(TreeLayer::Binomial),
            _ => (number("knomial", 2).map(TreeLayer::Knomial))
                .or_else(|| number("kary", 1).map(TreeLayer::Kary))
                .or_else(|| text.parse().ok().map(TreeLayer::Links)),
        }
    }

    /// Children of the root.
    pub(super) fn degree(self, ranks: u32) -> f64 {
        match self {
            TreeLayer::Flat | TreeLayer::Links(_) => f64::from(ranks - 1),
            TreeLayer::Chain => f64::from(ranks.min(2) - 1),
            TreeLayer::Binomial => ceil_lg(ranks),
            TreeLayer::Knomial(radix) => {
                let (mut digit, mut children) = (1u64, 0);
                while digit < ranks.into() {
                    children += (u64::from(ranks).div_ceil(digit) - 1).min(u64::from(radix) - 1);
                    digit *= u64::from(radix);
                }
                children as f64
            }
            TreeLayer::Kary(degree) => f64::from(degree.min(ranks - 1)),
        }
    }

    /// Links between the root and the farthest rank.
    pub(super) fn height(self, ranks: u32) -> f64 {
        match self {
            TreeLayer::Flat | TreeLayer::Links(_) => f64::from(ranks.min(2) - 1),
            TreeLayer::Chain => f64::from(ranks - 1),
            TreeLayer::Binomial => f64::from(ranks.ilog2()),
            // The most digits that are not 0.
            TreeLayer::Knomial(radix) => {
                let (mut ones, mut height) = (1u64, 0);
                while ones < ranks.into() {
                    ones = ones * u64::from(radix) + 1;
                    height += 1;
                }
                f64::from(height)
            }
            // Of the whole tree: the path with the most messages may be shorter.
            TreeLayer::Kary(degree) => f64::from(tree_height(ranks, degree)),
        }
    }

    /// Steps until all ranks have a message, where a rank sends one at a time.
    pub(super) fn steps(self, ranks: u32) -> f64 {
        match self {
            TreeLayer::Chain | TreeLayer::Kary(1) => f64::from(ranks - 1),
            TreeLayer::Kary(degree) => kary(ranks, degree).messages,
            // The last child of a rank is reached no later than the root's last.
            _ => self.degree(ranks),
        }
    }
}

/// The path to the rank that waits longest.
#[derive(Clone, Copy, Default)]
pub(super) struct SlowestPath {
    /// Messages on and before it.
    pub(super) messages: f64,
    /// Their blocks, if each rank gets one.
    pub(super) blocks: f64,
}

/// The slowest path of a k-ary tree, in which each rank serves at most `degree` subtrees of nearly equal size, the
/// larger first. It leads to the last rank of the last subtree: what a larger subtree takes longer, smaller ones wait
/// longer.
pub(super) fn kary(ranks: u32, degree: u32) -> SlowestPath {
    /// Of `size` and of `size` + 1: all subtrees at a depth have one of two sizes.
    fn both(size: u32, degree: u32) -> [SlowestPath; 2] {
        if size == 0 {
            return [SlowestPath::default(); 2];
        }
        let small = (size - 1) / degree;
        let below = both(small, degree);
        [size, size + 1].map(|size| {
            let rest = size - 1;
            let parts = degree.min(rest);
            if parts == 0 {
                return SlowestPath::default();
            }
            let SlowestPath { messages, blocks } = below[(rest / parts - small) as usize];
            SlowestPath { messages: messages + f64::from(parts), blocks: blocks + f64::from(rest) }
        })
    }
    both(ranks, degree)[0]
}
