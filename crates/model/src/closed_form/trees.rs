//! Tree algorithms.   [P-LogP paper 3.1; thesis 3.2.1]
//!
//! If a rank handles one message at a time, each in time c, a tree takes c times its steps. The next segment follows
//! after the root has served its children.

use treepie_schedule::Operation;

use super::formula_input::FormulaInput;
use super::network_shape::NetworkShape;
use super::tree_layer::{SlowestPath, TreeLayer, kary};
use crate::CostTerms;

/// Blocks along a binomial tree, without congestion.
pub(super) fn binomial_blocks(input: &FormulaInput<'_>, n: f64) -> CostTerms {
    CostTerms::new(input.lg(), (input.p() - 1.0) * n).with_steps(f64::from(input.ranks.ilog2()))
}

pub(super) fn terms(input: &FormulaInput<'_>) -> Option<CostTerms> {
    let arguments = &input.arguments;
    let layer = match input.name {
        "flat" | "central" => TreeLayer::Flat,
        "chain" => TreeLayer::Chain,
        "binomial" | "tree" | "gather_bcast" => TreeLayer::Binomial,
        "knomial" => TreeLayer::Knomial(arguments.radix),
        "kary" => TreeLayer::Kary(arguments.degree),
        "hierarchical" => return hierarchical(input),
        "in_turn" if matches!(input.network_shape, NetworkShape::Clos { .. }) => TreeLayer::Flat,
        "mesh" | "fan_in" => return mesh(input),
        _ => return None,
    };
    let applies = match (layer, input.network_shape) {
        (_, NetworkShape::Flat) => true,
        // The root's injection link is the bottleneck, or neighbors have disjoint links.
        (TreeLayer::Flat | TreeLayer::Chain, NetworkShape::Clos { .. }) => true,
        // From rank 0, the farthest first: segments of a line, or leaves, that do not overlap. But a rank serves its
        // children at once, and those along the same line of a grid share its links.
        (TreeLayer::Binomial, shape) => {
            let shared = is_downward(input.operation) && shape.dims().iter().any(|side| *side > 2);
            shape.has_bit_exchanges(input.ranks) && input.operation.root().unwrap_or(0) == 0 && !shared
        }
        _ => false,
    };
    if !applies {
        return None;
    }
    let (n, whole) = (input.bytes, input.bytes * input.p());
    Some(match input.operation {
        Operation::Bcast { .. } => message(input, layer, n),
        // Segments arrive from the subtrees at different times, and wait for each other.
        Operation::Reduce { .. } if matches!(layer, TreeLayer::Kary(_)) && input.arguments.segments > 1 => return None,
        Operation::Reduce { .. } => with_combining(message(input, layer, n)),
        Operation::Scatter { .. } | Operation::Gather { .. } => blocks(input, layer)?,
        Operation::Barrier => {
            CostTerms::new(2.0 * layer.steps(input.ranks), 0.0).with_steps(2.0 * layer.height(input.ranks))
        }
        // Only the broadcast is segmented.
        Operation::Allgather if input.name == "gather_bcast" => {
            binomial_blocks(input, n).then(message(input, layer, whole))
        }
        _ => return None,
    })
}

/// Whether data flows from a rank to its children.
fn is_downward(operation: Operation) -> bool {
    matches!(operation, Operation::Bcast { .. } | Operation::Scatter { .. } | Operation::Allgather)
}

/// All received bytes are combined.
fn with_combining(terms: CostTerms) -> CostTerms {
    terms.with_gamma(terms.delta)
}

/// A segmented message to all ranks.
fn message(input: &FormulaInput<'_>, layer: TreeLayer, n: f64) -> CostTerms {
    pipelined(input, n, layer.degree(input.ranks), layer.steps(input.ranks), layer.height(input.ranks))
}

/// Segments follow each other after `period` messages of the root; the last takes `messages` messages, one after the
/// other, over `height` links.
fn pipelined(input: &FormulaInput<'_>, n: f64, period: f64, messages: f64, height: f64) -> CostTerms {
    let segments = f64::from(input.arguments.segments);
    let all = (segments - 1.0) * period + messages;
    CostTerms::new(all, all * n / segments).with_steps(height)
}

/// A block for each rank.
fn blocks(input: &FormulaInput<'_>, layer: TreeLayer) -> Option<CostTerms> {
    let (p, n, segments) = (input.p(), input.bytes, f64::from(input.arguments.segments));
    let all = (p - 1.0) * n;
    Some(match layer {
        // The second rank of a chain forwards one block less, and so on.
        TreeLayer::Chain | TreeLayer::Kary(1) => {
            CostTerms::new(segments + p - 2.0, all + (p - 1.0) * (p - 2.0) / 2.0 * n / segments).with_steps(p - 1.0)
        }
        TreeLayer::Kary(degree) if input.arguments.segments == 1 => {
            let SlowestPath { messages, blocks } = kary(input.ranks, degree);
            CostTerms::new(messages, blocks * n).with_steps(layer.height(input.ranks))
        }
        TreeLayer::Kary(_) => return None,
        _ => CostTerms::new(segments * layer.degree(input.ranks), all).with_steps(layer.height(input.ranks)),
    })
}

/// First to one rank of each leaf, then within leaves. For clusters the links between them are not known here.
fn hierarchical(input: &FormulaInput<'_>) -> Option<CostTerms> {
    let NetworkShape::Clos { terminals, .. } = input.network_shape else { return None };
    if input.arguments.coordinators > 1 {
        return None;
    }
    let (wan, lan) = (input.arguments.wan, input.arguments.lan);
    let leaves = input.ranks / terminals;
    let steps = wan.steps(leaves) + lan.steps(terminals);
    let period = wan.degree(leaves) + lan.degree(terminals);
    let height = wan.height(leaves) + lan.height(terminals);
    Some(match input.operation {
        Operation::Bcast { .. } => pipelined(input, input.bytes, period, steps, height),
        Operation::Reduce { .. } => with_combining(pipelined(input, input.bytes, period, steps, height)),
        // Coordinators exchange directly.
        Operation::Barrier => {
            let messages = 2.0 * lan.steps(terminals) + f64::from(leaves - 1);
            CostTerms::new(messages, 0.0).with_steps(2.0 * lan.height(terminals) + 1.0)
        }
        _ => return None,
    })
}

/// Along one dimension after the other, in lockstep.
fn mesh(input: &FormulaInput<'_>) -> Option<CostTerms> {
    let NetworkShape::Grid(_) = input.network_shape else { return None };
    if input.arguments.segments > 1 {
        return None;
    }
    let (steps, p, n) = (input.network_shape.tree_steps(), input.p(), input.bytes);
    let powers = input.dims_are_powers();
    Some(match input.operation {
        Operation::Bcast { .. } => CostTerms::new(steps, steps * n),
        Operation::Reduce { .. } => with_combining(CostTerms::new(steps, steps * n)),
        Operation::Barrier => CostTerms::new(2.0 * steps, 0.0),
        Operation::Scatter { .. } | Operation::Gather { .. } if powers => CostTerms::new(steps, (p - 1.0) * n),
        Operation::Allgather if powers => CostTerms::new(2.0 * steps, (p - 1.0 + p * steps) * n),
        _ => return None,
    })
}

impl FormulaInput<'_> {
    fn dims_are_powers(&self) -> bool {
        self.network_shape.dims().iter().all(|size| size.is_power_of_two())
    }
}
