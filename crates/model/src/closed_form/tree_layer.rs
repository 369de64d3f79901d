//! Shapes of trees, and their steps.

use super::network_shape::ceil_lg;

/// The shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TreeLayer {
    Flat,
    Chain,
    Binomial,
    Knomial(u32),
    Kary(u32),
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
            _ => number("knomial", 2).map(TreeLayer::Knomial).or_else(|| number("kary", 1).map(TreeLayer::Kary)),
        }
    }

    /// Children of the root.
    pub(super) fn degree(self, ranks: u32) -> f64 {
        match self {
            TreeLayer::Flat => f64::from(ranks - 1),
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

    /// Steps until all ranks have a message.
    pub(super) fn steps(self, ranks: u32) -> f64 {
        match self {
            TreeLayer::Chain | TreeLayer::Kary(1) => f64::from(ranks - 1),
            TreeLayer::Kary(degree) => kary(ranks, degree).0,
            // The last child of a rank is reached no later than the root's last.
            _ => self.degree(ranks),
        }
    }
}

/// Steps and blocks of a k-ary tree, in which each rank serves at most `degree` subtrees of nearly equal size, the
/// larger first: messages on and before the path to the rank that waits longest, and their blocks if each rank gets
/// one. That is always the last rank of the last subtree: what a larger subtree takes longer, smaller ones wait longer.
pub(super) fn kary(ranks: u32, degree: u32) -> (f64, f64) {
    /// Of `size` and of `size` + 1: all subtrees at a depth have one of two sizes.
    fn both(size: u32, degree: u32) -> [(f64, f64); 2] {
        if size == 0 {
            return [(0.0, 0.0); 2];
        }
        let small = (size - 1) / degree;
        let below = both(small, degree);
        [size, size + 1].map(|size| {
            let rest = size - 1;
            let parts = degree.min(rest);
            if parts == 0 {
                return (0.0, 0.0);
            }
            let (messages, blocks) = below[(rest / parts - small) as usize];
            (messages + f64::from(parts), blocks + f64::from(rest))
        })
    }
    both(ranks, degree)[0]
}
