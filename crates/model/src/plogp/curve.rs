//! A measured function of the size: whether it goes on as it went before, and where it jumps.   [P-LogP paper 2.2]

use super::Table;
use super::measure::Rules;
use crate::Result;

/// A size, what was measured, and how far that may be off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    bytes: u64,
    value: f64,
    interval: f64,
}

impl Point {
    pub(super) fn new(bytes: u64, value: f64, interval: f64) -> Self {
        Self { bytes, value, interval }
    }

    /// The slope to a larger size.
    fn slope(self, to: Self) -> f64 {
        (to.value - self.value) / (to.bytes - self.bytes) as f64
    }
}

/// Whether there is room for another size between two.
pub(super) fn is_wide(before: u64, here: u64, rules: &Rules) -> bool {
    (here - before) as f64 > (rules.nearest as f64).max(rules.tolerance * here as f64)
}

/// Whether a value is not what the line through the two before it predicts.
pub(super) fn is_off(points: &[Point], at: usize, rules: &Rules) -> bool {
    let [first, second, here] = [points[at - 2], points[at - 1], points[at]];
    let further = (here.bytes - second.bytes) as f64;
    let predicted = second.value + first.slope(second) * further;
    // By how much noise moves the prediction and the value.
    let ratio = further / (second.bytes - first.bytes) as f64;
    let noise = [here.interval, (1.0 + ratio) * second.interval, ratio * first.interval];
    differ(here.value, predicted, &noise, rules)
}

/// By more than the tolerance, and more than noise explains: one measurement in ten is outside its interval, hardly any
/// is twice as far away.
fn differ(value: f64, other: f64, noise: &[f64], rules: &Rules) -> bool {
    let noise = 2.0 * noise.iter().map(|noise| noise * noise).sum::<f64>().sqrt();
    (value - other).abs() > (rules.tolerance * value.abs()).max(noise)
}

/// All points, and knees where the lines of both sides do not meet between two sizes that are as near as they get.
pub(super) fn table(what: &'static str, points: &[Point], rules: &Rules) -> Result<Table> {
    let (mut all, mut jumped) = (Vec::new(), false);
    for (at, point) in points.iter().enumerate() {
        let sides = if at >= 2 { jump(points, at, jumped, rules) } else { None };
        jumped = sides.is_some();
        if let Some((middle, before, behind)) = sides {
            all.extend([(middle, before.max(0.0)), (middle, behind.max(0.0))]);
        }
        all.push((point.bytes as f64, point.value));
    }
    Table::new(what, &all)
}

/// The middle of a stretch across which a function jumps, and its values on both sides there.
fn jump(points: &[Point], at: usize, jumped: bool, rules: &Rules) -> Option<(f64, f64, f64)> {
    let (before, here) = (points[at - 1], points[at]);
    // Sizes below the least difference cannot be told apart.
    if before.bytes < rules.nearest || is_wide(before.bytes, here.bytes, rules) || !is_off(points, at, rules) {
        return None;
    }
    let width = (here.bytes - before.bytes) as f64;
    // Across a jump there is no line to go on with.
    let rise = if jumped { 0.0 } else { points[at - 2].slope(before) };
    let fall = points.get(at + 1).map_or(0.0, |next| here.slope(*next));
    let apart = |share: f64| {
        let (left, right) = (before.value + rise * share * width, here.value - fall * (1.0 - share) * width);
        (right - left, left, right)
    };
    // Lines that meet in between are a bend.
    let (_, left, right) = apart(0.5);
    let is_jump = apart(0.0).0 * apart(1.0).0 > 0.0 && differ(right, left, &[before.interval, here.interval], rules);
    is_jump.then_some((before.bytes as f64 + width / 2.0, left, right))
}
