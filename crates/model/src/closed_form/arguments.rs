//! Arguments of an algorithm id, as the registry parses them.

use super::tree_layer::TreeLayer;

/// Values of the arguments, with the registry's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arguments<'a> {
    pub(super) segments: u32,
    pub(super) degree: u32,
    pub(super) radix: u32,
    pub(super) buckets: u32,
    pub(super) dimensions: u32,
    pub(super) halvings: u32,
    pub(super) shuffled: bool,
    pub(super) core: &'a str,
    pub(super) wan: TreeLayer,
    pub(super) lan: TreeLayer,
}

impl<'a> Arguments<'a> {
    /// Parses arguments; none if one is invalid.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut all = Self {
            segments: 1,
            degree: 4,
            radix: 4,
            buckets: 0,
            dimensions: 2,
            halvings: u32::MAX,
            shuffled: false,
            core: "ring",
            wan: TreeLayer::Flat,
            lan: TreeLayer::Binomial,
        };
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
            "wan" => self.wan = TreeLayer::parse(value)?,
            "lan" => self.lan = TreeLayer::parse(value)?,
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
