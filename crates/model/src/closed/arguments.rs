//! The arguments of an id, as the registry of algorithms reads them.

use super::trees::Layer;

/// Values of the arguments, those that are usual where nothing is said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arguments<'a> {
    pub(super) segments: u32,
    pub(super) degree: u32,
    pub(super) radix: u32,
    pub(super) buckets: u32,
    pub(super) dimensions: u32,
    pub(super) halvings: u32,
    pub(super) moved: bool,
    pub(super) core: &'a str,
    pub(super) wan: Layer,
    pub(super) lan: Layer,
}

impl<'a> Arguments<'a> {
    /// Nothing if something cannot be read.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut all = Self {
            segments: 1,
            degree: 4,
            radix: 4,
            buckets: 0,
            dimensions: 2,
            halvings: u32::MAX,
            moved: false,
            core: "ring",
            wan: Layer::Flat,
            lan: Layer::Binomial,
        };
        for argument in text.split(',').filter(|argument| !argument.is_empty()) {
            match argument.split_once('=') {
                Some((key, value)) => all.set(key, value)?,
                None => all.alone(argument)?,
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
            "order" => return self.alone(value),
            "core" => self.core = value,
            "wan" => self.wan = Layer::parse(value)?,
            "lan" => self.lan = Layer::parse(value)?,
            // They do not change what is counted, or belong to a tree that has no formula.
            "window" | "gap" | "time" => {}
            _ => return None,
        }
        Some(())
    }

    /// A number alone is for whichever an algorithm has; no algorithm has two.
    fn alone(&mut self, value: &'a str) -> Option<()> {
        match value {
            "moved" => self.moved = true,
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
