//! Operations along trees.   [P-LogP paper 3.1; thesis 3.2.1]
//!
//! With one message of a rank at a time, each of which takes c, a tree takes so many c as the last rank waits for. A
//! next segment follows after the children of the root.

use treepie_schedule::Operation;

use super::place::Place;
use super::{Case, ceil_lg};
use crate::Terms;

/// The shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Flat,
    Chain,
    Binomial,
    Knomial(u32),
    Kary(u32),
}

impl Layer {
    /// As it is written in an argument: `knomial2`, `kary3`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = |prefix: &str, least: u32| {
            text.strip_prefix(prefix).and_then(|number| number.parse().ok()).filter(|number| *number >= least)
        };
        match text {
            "flat" => Some(Layer::Flat),
            "chain" => Some(Layer::Chain),
            "binomial" => Some(Layer::Binomial),
            _ => number("knomial", 2).map(Layer::Knomial).or_else(|| number("kary", 1).map(Layer::Kary)),
        }
    }

    /// Children of the root.
    fn degree(self, ranks: u32) -> f64 {
        match self {
            Layer::Flat => f64::from(ranks - 1),
            Layer::Chain => f64::from(ranks.min(2) - 1),
            Layer::Binomial => ceil_lg(ranks),
            Layer::Knomial(radix) => {
                let (mut digit, mut children) = (1u64, 0);
                while digit < ranks.into() {
                    children += (u64::from(ranks).div_ceil(digit) - 1).min(u64::from(radix) - 1);
                    digit *= u64::from(radix);
                }
                children as f64
            }
            Layer::Kary(degree) => f64::from(degree.min(ranks - 1)),
        }
    }

    /// How long until all have a message that takes 1.
    fn steps(self, ranks: u32) -> f64 {
        match self {
            Layer::Chain | Layer::Kary(1) => f64::from(ranks - 1),
            Layer::Kary(degree) => kary(ranks, degree).0,
            // A rank's last child is served when the root's last is.
            _ => self.degree(ranks),
        }
    }
}

/// A tree of which each rank serves at most `degree` subtrees that are as equal as can be, the larger first: messages
/// on the way to the rank that waits longest, and before it, and the blocks in them if each rank gets one. It is always
/// the last one's last: what a larger subtree takes longer, the smaller ones wait longer.
fn kary(ranks: u32, degree: u32) -> (f64, f64) {
    /// Of `size` and of one more: all subtrees at a depth have one of two sizes.
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

/// Blocks along a binomial tree, without congestion.
pub(super) fn binomial_blocks(case: &Case<'_>, n: f64) -> Terms {
    Terms::new(case.lg(), (case.p() - 1.0) * n)
}

pub(super) fn terms(case: &Case<'_>) -> Option<Terms> {
    let arguments = &case.arguments;
    let layer = match case.name {
        "flat" | "central" => Layer::Flat,
        "chain" => Layer::Chain,
        "binomial" | "tree" | "gather_bcast" => Layer::Binomial,
        "knomial" => Layer::Knomial(arguments.radix),
        "kary" => Layer::Kary(arguments.degree),
        "two_layer" => return two_layer(case),
        "in_turn" if matches!(case.place, Place::Clos { .. }) => Layer::Flat,
        "mesh" | "fan_in" => return mesh(case),
        _ => return None,
    };
    let applies = match (layer, case.place) {
        (_, Place::Flat) => true,
        // The root's only link is the narrowest, or neighbours have links of their own.
        (Layer::Flat | Layer::Chain, Place::Clos { .. }) => true,
        // From rank 0, the farthest first: stretches of a line, or leaves, that do not overlap. But a rank serves its
        // children at once, and those along the same line of a grid share its links.
        (Layer::Binomial, place) => {
            let shared = is_downward(case.operation) && place.dims().iter().any(|side| *side > 2);
            place.has_bits(case.ranks) && case.operation.root().unwrap_or(0) == 0 && !shared
        }
        _ => false,
    };
    if !applies {
        return None;
    }
    let (n, whole) = (case.bytes, case.bytes * case.p());
    Some(match case.operation {
        Operation::Bcast { .. } => message(case, layer, n),
        // Segments up such a tree come at different times from its subtrees, and wait for each other.
        Operation::Reduce { .. } if matches!(layer, Layer::Kary(_)) && case.arguments.segments > 1 => return None,
        Operation::Reduce { .. } => combining(message(case, layer, n)),
        Operation::Scatter { .. } | Operation::Gather { .. } => blocks(case, layer)?,
        Operation::Barrier => Terms::new(2.0 * layer.steps(case.ranks), 0.0),
        // Only the way down is in segments.
        Operation::Allgather if case.name == "gather_bcast" => {
            binomial_blocks(case, n).then(message(case, layer, whole))
        }
        _ => return None,
    })
}

/// Whether bytes go from a rank to its children.
fn is_downward(operation: Operation) -> bool {
    matches!(operation, Operation::Bcast { .. } | Operation::Scatter { .. } | Operation::Allgather)
}

/// All bytes that come are combined.
fn combining(terms: Terms) -> Terms {
    terms.combining(terms.delta)
}

/// A message in segments to all ranks.
fn message(case: &Case<'_>, layer: Layer, n: f64) -> Terms {
    pipelined(case, n, layer.degree(case.ranks), layer.steps(case.ranks))
}

fn pipelined(case: &Case<'_>, n: f64, period: f64, steps: f64) -> Terms {
    let segments = f64::from(case.arguments.segments);
    let all = (segments - 1.0) * period + steps;
    Terms::new(all, all * n / segments)
}

/// A block for each rank.
fn blocks(case: &Case<'_>, layer: Layer) -> Option<Terms> {
    let (p, n, segments) = (case.p(), case.bytes, f64::from(case.arguments.segments));
    let all = (p - 1.0) * n;
    Some(match layer {
        // The second rank of a chain passes on one block less, and so on.
        Layer::Chain | Layer::Kary(1) => {
            Terms::new(segments + p - 2.0, all + (p - 1.0) * (p - 2.0) / 2.0 * n / segments)
        }
        Layer::Kary(degree) if case.arguments.segments == 1 => {
            let (messages, blocks) = kary(case.ranks, degree);
            Terms::new(messages, blocks * n)
        }
        Layer::Kary(_) => return None,
        _ => Terms::new(segments * layer.degree(case.ranks), all),
    })
}

/// First to one rank of each leaf, then within leaves. On clusters nothing is known about the links between them here.
fn two_layer(case: &Case<'_>) -> Option<Terms> {
    let Place::Clos { terminals, .. } = case.place else { return None };
    let (wan, lan) = (case.arguments.wan, case.arguments.lan);
    let leaves = case.ranks / terminals;
    let steps = wan.steps(leaves) + lan.steps(terminals);
    let period = wan.degree(leaves) + lan.degree(terminals);
    Some(match case.operation {
        Operation::Bcast { .. } => pipelined(case, case.bytes, period, steps),
        Operation::Reduce { .. } => combining(pipelined(case, case.bytes, period, steps)),
        Operation::Barrier => Terms::new(2.0 * steps, 0.0),
        _ => return None,
    })
}

/// Along one dimension after the other, in step.
fn mesh(case: &Case<'_>) -> Option<Terms> {
    let Place::Grid(_) = case.place else { return None };
    if case.arguments.segments > 1 {
        return None;
    }
    let (steps, p, n) = (case.place.steps(), case.p(), case.bytes);
    let powers = case.dims_are_powers();
    Some(match case.operation {
        Operation::Bcast { .. } => Terms::new(steps, steps * n),
        Operation::Reduce { .. } => combining(Terms::new(steps, steps * n)),
        Operation::Barrier => Terms::new(2.0 * steps, 0.0),
        Operation::Scatter { .. } | Operation::Gather { .. } if powers => Terms::new(steps, (p - 1.0) * n),
        Operation::Allgather if powers => Terms::new(2.0 * steps, (p - 1.0 + p * steps) * n),
        _ => return None,
    })
}

impl Case<'_> {
    fn dims_are_powers(&self) -> bool {
        self.place.dims().iter().all(|size| size.is_power_of_two())
    }
}
