//! Arguments of an algorithm id, as the registry parses them.

use super::tree_layer::TreeLayer;

/// Values of the arguments. The defaults are those of the registry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arguments<'a> {
    /// Segments of a pipeline.
    pub segments: u32,
    /// Children of a rank in a k-ary tree.
    pub degree: u32,
    /// Radix of a k-nomial tree.
    pub radix: u32,
    /// Concurrent buckets; 0 for the best number.
    pub buckets: u32,
    /// Dimensions of a store-and-forward all-to-all.
    pub dimensions: u32,
    /// Halvings before the exchange.
    pub halvings: u32,
    /// Whether ranks exchange their blocks first.
    pub shuffled: bool,
    /// The allgather core of a composed operation.
    pub core: &'a str,
    /// The algorithm of the leaders of hosts; empty for the default.
    pub inter: &'a str,
    /// The tree over clusters.
    pub wan: TreeLayer,
    /// The tree within a cluster.
    pub lan: TreeLayer,
    /// The levels of nested clusters that it distinguishes.
    pub levels: &'a str,
    /// Coordinators of each group of clusters.
    pub coordinators: u32,
}

impl Default for Arguments<'_> {
    fn default() -> Self {
        Self {
            segments: 1,
            degree: 4,
            radix: 4,
            buckets: 0,
            dimensions: 2,
            halvings: u32::MAX,
            shuffled: false,
            core: "ring",
            inter: "",
            wan: TreeLayer::Flat,
            lan: TreeLayer::Binomial,
            levels: "all",
            coordinators: 1,
        }
    }
}

impl<'a> Arguments<'a> {
    /// Parses arguments; none if one is invalid.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut all = Self::default();
        for argument in text.split(',').filter(|argument| !argument.is_empty()) {
            match argument.split_once('=') {
                Some((key, value)) => all.set(key, value)?,
                None => all.set_positional(argument)?,
            }
        }
        Some(all)
    }

    fn set(&mut self, key: &str, value: &'a str) -> Option<()> {
        let number = || value.parse::<u32>().ok();
        match key {
            "segments" => self.segments = number()?.max(1),
            "degree" => self.degree = number().filter(|degree| *degree >= 1)?,
            "radix" => self.radix = number().filter(|radix| *radix >= 2)?,
            "buckets" => self.buckets = number()?,
            "dimensions" => self.dimensions = number().filter(|dimensions| *dimensions >= 1)?,
            "halvings" => self.halvings = number()?,
            "order" => return self.set_positional(value),
            "core" => self.core = value,
            "inter" => self.inter = value,
            "wan" => self.wan = TreeLayer::parse(value)?,
            "lan" => self.lan = TreeLayer::parse(value)?,
            "levels" => self.levels = value,
            "coordinators" => self.coordinators = number().filter(|coordinators| *coordinators >= 1)?,
            // These do not change the counts, or belong to a tree without a formula.
            "window" | "gap" | "time" => {}
            _ => return None,
        }
        Some(())
    }

    /// A positional number is for the numeric argument that the algorithm has; no algorithm has two.
    fn set_positional(&mut self, value: &'a str) -> Option<()> {
        match value {
            "moved" => self.shuffled = true,
            "strided" | "reordered" => {}
            "all" | "innermost" | "outermost" => self.levels = value,
            _ => match value.parse::<u32>() {
                Ok(number) => {
                    (self.buckets, self.halvings) = (number, number);
                    (self.degree, self.radix, self.dimensions) = (number.max(1), number.max(2), number.max(1));
                }
                Err(_) => self.core = value,
            },
        }
        Some(())
    }
}
