//! The arguments with which an algorithm is a candidate.

use treepie_collectives::registry::{Algorithm, Parameter};
use treepie_model::closed_form::{Arguments, TreeLayer};
use treepie_model::plogp::{PipelineCost, candidate_degrees, plan_segments};
use treepie_schedule::Operation;

use super::{ChoiceInput, hierarchical, with_segments};

/// More segments are not worth their bookkeeping.
pub(super) const MAX_SEGMENTS: u64 = 1024;

/// Cores of composed algorithms. An inapplicable one is refused when it is built, and has no closed form.
const CORES: [&str; 7] =
    ["ring", "bruck", "distance_doubling", "distance_halving", "bucket", "bucket_k", "torus_reordered"];

/// All arguments within bounds, for comparison: every degree and radix, all pairs of tree layers, with numbers of
/// segments that are powers of two or half way between; and those of [`variants`].
pub(super) fn exhaustive(input: &ChoiceInput<'_>, algorithm: &Algorithm) -> Vec<Arguments<'static>> {
    const MAX_DEGREE: u32 = 64;
    let has = |parameter| algorithm.parameters.contains(&parameter);
    let (ranks, base) = (input.spec.ranks, Arguments::default());
    let shapes: Vec<Arguments<'static>> = if has(Parameter::Degree) {
        (1..ranks.clamp(2, MAX_DEGREE)).map(|degree| Arguments { degree, ..base }).collect()
    } else if has(Parameter::Radix) {
        (2..=ranks.clamp(2, MAX_DEGREE)).map(|radix| Arguments { radix, ..base }).collect()
    } else if has(Parameter::Dimensions) {
        (1..=ranks.ilog2().max(1)).map(|dimensions| Arguments { dimensions, ..base }).collect()
    } else if has(Parameter::Wan) && has_formula(input, algorithm, &base) {
        let layers: Vec<TreeLayer> = [TreeLayer::Flat, TreeLayer::Chain, TreeLayer::Binomial]
            .into_iter()
            .chain((2..=8).map(TreeLayer::Kary))
            .collect();
        layers.iter().flat_map(|wan| layers.iter().map(|lan| Arguments { wan: *wan, lan: *lan, ..base })).collect()
    } else if has(Parameter::Segments) {
        vec![base]
    } else {
        return variants(input, algorithm);
    };
    let ruled = variants(input, algorithm);
    if !has(Parameter::Segments) {
        return [shapes, ruled].concat();
    }
    let elements = (input.bytes / input.element.max(1)).clamp(1, MAX_SEGMENTS) as u32;
    let powers = (0..=elements.ilog2()).map(|bit| 1 << bit);
    let counts: Vec<u32> =
        powers.flat_map(|power: u32| [power, power + power / 2]).filter(|count| *count <= elements).collect();
    let in_segments = |shape: Arguments<'static>| counts.iter().map(move |&segments| Arguments { segments, ..shape });
    // What has no formula would be walked over: trees over clusters are too many for that.
    let is_fast = |arguments: &Arguments<'_>| !has(Parameter::Wan) || input.closed_form(algorithm, arguments).is_some();
    shapes.into_iter().flat_map(in_segments).filter(is_fast).chain(ruled).collect()
}

/// Whether there is a formula for some number of segments: over clusters long messages have none, but short ones may.
fn has_formula(input: &ChoiceInput<'_>, algorithm: &Algorithm, arguments: &Arguments<'_>) -> bool {
    let most = (input.n() as u64).div_ceil(shortest_segment(input)) as u32;
    let has_one = |segments| input.closed_form(algorithm, &Arguments { segments, ..*arguments }).is_some();
    [1, most.max(1)].into_iter().any(has_one)
}

/// The length of the shortest segment that is planned.
fn shortest_segment(input: &ChoiceInput<'_>) -> u64 {
    input.element.max((input.n() as u64).div_ceil(MAX_SEGMENTS)).max(1)
}

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
    } else if has(Parameter::Inter) {
        // Over messages, trees over all levels and pipelines are faster.
        return Vec::new();
    } else if has(Parameter::Levels) {
        hierarchical::variants(input, algorithm)
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
    // The ranks of a pipeline have to run at the same time. On shared cores each waits while others work: chains of 8
    // ranks on 2 cores took twice as long as trees. Only scans have no tree.
    let is_scan = matches!(input.spec.operation, Operation::Scan | Operation::Exscan);
    let can_overlap = input.costs.delay() == 0.0 || is_scan;
    if !algorithm.parameters.contains(&Parameter::Segments) || n < 2.0 || !can_overlap {
        return 1;
    }
    if !has_formula(input, algorithm, arguments) {
        // Without a formula there is nothing to plan by, and no need to count.
        let is_clusters = input.spec.network.as_clusters().is_some();
        return if is_clusters { hierarchical::segments(input, algorithm, arguments) } else { 1 };
    }
    let work = input.work(algorithm, arguments);
    let time = |segments: f64| {
        let arguments = Arguments { segments: segments as u32, ..*arguments };
        let critical = input.closed_form(algorithm, &arguments)?;
        let work = work.map(|work| with_segments(work, arguments.segments));
        Some(input.costs.at_least_work(critical, work.as_ref()).total())
    };
    let plan = plan_segments(n as u64, shortest_segment(input), |_, segments| {
        (PipelineCost { gamma: 0.0, lambda: time(segments).unwrap_or(f64::INFINITY) }, ())
    });
    plan.segments as u32
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
            Parameter::Levels if arguments.levels != "all" => text.push(format!("levels={}", arguments.levels)),
            Parameter::Coordinators if arguments.coordinators > 1 => {
                text.push(format!("coordinators={}", arguments.coordinators))
            }
            Parameter::Buckets if arguments.buckets > 0 => text.push(format!("buckets={}", arguments.buckets)),
            Parameter::Dimensions => text.push(format!("dimensions={}", arguments.dimensions)),
            Parameter::Halvings if arguments.halvings < u32::MAX => {
                text.push(format!("halvings={}", arguments.halvings))
            }
            Parameter::Core => text.push(format!("core={}", arguments.core)),
            Parameter::Inter if !arguments.inter.is_empty() => text.push(format!("inter={}", arguments.inter)),
            _ => {}
        }
    }
    if text.is_empty() { algorithm.id.clone() } else { format!("{}:{}", algorithm.id, text.join(",")) }
}
