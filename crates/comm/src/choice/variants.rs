//! The arguments with which an algorithm is a candidate.

use treepie_collectives::registry::{Algorithm, Parameter};
use treepie_model::closed_form::{Arguments, TreeLayer};
use treepie_model::plogp::{GatewayLink, PipelineCost, candidate_degrees, plan_bcast, plan_segments};
use treepie_schedule::Operation;

use super::{ChoiceInput, MAX_WALKED_MESSAGES};

/// More segments are not worth their bookkeeping.
const MAX_SEGMENTS: u64 = 1024;

/// Cores of composed algorithms. An inapplicable one is refused when it is built, and has no closed form.
const CORES: [&str; 7] =
    ["ring", "bruck", "distance_doubling", "distance_halving", "bucket", "bucket_k", "torus_reordered"];

/// The arguments that could be the fastest.
pub(super) fn variants(input: &ChoiceInput<'_>, algorithm: &Algorithm) -> Vec<Arguments<'static>> {
    let has = |parameter| algorithm.parameters.contains(&parameter);
    let ranks = input.spec.ranks;
    let base = Arguments::default();
    let mut all = if has(Parameter::Degree) {
        candidate_degrees(ranks)
            .into_iter()
            .filter(|degree| *degree > 0)
            .map(|degree| Arguments { degree, ..base })
            .collect()
    } else if has(Parameter::Radix) {
        [3, 4, 8].into_iter().filter(|radix| *radix < ranks.max(4)).map(|radix| Arguments { radix, ..base }).collect()
    } else if has(Parameter::Halvings) {
        (0..=ranks.ilog2()).map(|halvings| Arguments { halvings, ..base }).collect()
    } else if has(Parameter::Dimensions) {
        [2, 3].map(|dimensions| Arguments { dimensions, ..base }).to_vec()
    } else if has(Parameter::Core) {
        CORES.map(|core| Arguments { core, ..base }).to_vec()
    } else if has(Parameter::Wan) {
        two_layer(input)
    } else {
        vec![base]
    };
    if has(Parameter::Segments) && !has(Parameter::Wan) {
        all.iter_mut().for_each(|arguments| arguments.segments = segments(input, algorithm, arguments));
    }
    all
}

/// The number of equal segments with the least time by the closed form: the paper's halving and hill climbing.
pub(super) fn segments(input: &ChoiceInput<'_>, algorithm: &Algorithm, arguments: &Arguments<'_>) -> u32 {
    let n = input.n();
    let time = |segments: f64| {
        let arguments = Arguments { segments: segments as u32, ..*arguments };
        Some(input.closed_form(algorithm, &arguments)?.total())
    };
    if !algorithm.parameters.contains(&Parameter::Segments) || n < 2.0 || time(1.0).is_none() {
        return 1;
    }
    let unit = input.element.max((n as u64).div_ceil(MAX_SEGMENTS));
    let plan = plan_segments(n as u64, unit, |_, segments| {
        (PipelineCost { gamma: 0.0, lambda: time(segments).unwrap_or(f64::INFINITY) }, ())
    });
    plan.segments as u32
}

/// Trees over clusters and within them, and the segments: those of the P-LogP paper's optimizer, and its original
/// shapes.
fn two_layer(input: &ChoiceInput<'_>) -> Vec<Arguments<'static>> {
    let base = Arguments::default();
    let Some(clusters) = input.spec.network.as_clusters() else { return vec![base] };
    if !matches!(input.spec.operation, Operation::Bcast { .. } | Operation::Reduce { .. }) {
        return vec![base];
    }
    let profile = input.costs.profile();
    let (lan, wan) = (profile.link(), profile.link_at(clusters.levels() as usize));
    let (count, largest) = (clusters.count(), clusters.sizes().max().unwrap_or(1));
    let unit = input.element.max(input.bytes.div_ceil(MAX_SEGMENTS));
    // Without a formula its messages are walked over.
    let unit = match clusters.levels() {
        1 => unit,
        _ => unit.max(input.bytes * u64::from(input.spec.ranks) / MAX_WALKED_MESSAGES as u64),
    };
    let plan = plan_bcast(&GatewayLink { wan, lan }, lan, count, largest, input.bytes, unit);
    let layer = |ranks: u32, degree: u32| match degree {
        0 | 1 if ranks <= 2 => TreeLayer::Flat,
        degree if degree + 1 >= ranks => TreeLayer::Flat,
        1 => TreeLayer::Chain,
        degree => TreeLayer::Kary(degree),
    };
    let planned = Arguments {
        wan: layer(count, plan.shape.wan),
        lan: layer(largest, plan.shape.lan),
        segments: plan.segments as u32,
        ..base
    };
    vec![planned, base, Arguments { segments: planned.segments, ..base }]
}

/// The id of an algorithm with its arguments.
pub(super) fn id(algorithm: &Algorithm, arguments: &Arguments<'_>) -> String {
    let mut text: Vec<String> = Vec::new();
    for parameter in &algorithm.parameters {
        match parameter {
            Parameter::Segments if arguments.segments > 1 => text.push(format!("segments={}", arguments.segments)),
            Parameter::Degree => text.push(format!("degree={}", arguments.degree)),
            Parameter::Radix => text.push(format!("radix={}", arguments.radix)),
            Parameter::Wan => text.push(format!("wan={}", arguments.wan)),
            Parameter::Lan => text.push(format!("lan={}", arguments.lan)),
            Parameter::Buckets if arguments.buckets > 0 => text.push(format!("buckets={}", arguments.buckets)),
            Parameter::Dimensions => text.push(format!("dimensions={}", arguments.dimensions)),
            Parameter::Halvings if arguments.halvings < u32::MAX => {
                text.push(format!("halvings={}", arguments.halvings))
            }
            Parameter::Core => text.push(format!("core={}", arguments.core)),
            _ => {}
        }
    }
    if text.is_empty() { algorithm.id.clone() } else { format!("{}:{}", algorithm.id, text.join(",")) }
}
