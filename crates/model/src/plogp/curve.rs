//! Fits measured points: whether a point is on the extrapolated line, and where the function jumps.   [P-LogP paper
//! 2.2]

use super::PiecewiseLinear;
use super::measure_config::MeasureConfig;
use crate::Result;

/// A size, its measured value, and the half width of its confidence interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    bytes: u64,
    value: f64,
    half_width: f64,
}

impl Point {
    pub(super) fn new(bytes: u64, value: f64, half_width: f64) -> Self {
        Self { bytes, value, half_width }
    }

    /// The slope to a larger size.
    fn slope(self, to: Self) -> f64 {
        (to.value - self.value) / (to.bytes - self.bytes) as f64
    }
}

/// Whether the interval between two sizes can be bisected.
pub(super) fn can_bisect(before: u64, here: u64, config: &MeasureConfig) -> bool {
    (here - before) as f64 > (config.min_size_step as f64).max(config.tolerance * here as f64)
}

/// Whether a value deviates from the line through the two points before it.
pub(super) fn deviates(points: &[Point], at: usize, config: &MeasureConfig) -> bool {
    let [first, second, here] = [points[at - 2], points[at - 1], points[at]];
    let further = (here.bytes - second.bytes) as f64;
    let predicted = second.value + first.slope(second) * further;
    // Contributions of noise to the prediction and the value.
    let ratio = further / (second.bytes - first.bytes) as f64;
    let noise = [here.half_width, (1.0 + ratio) * second.half_width, ratio * first.half_width];
    differ(here.value, predicted, &noise, config)
}

/// Whether two values differ by more than the tolerance and more than noise explains: one measurement in ten is outside
/// its interval, hardly any is twice as far off.
fn differ(value: f64, other: f64, noise: &[f64], config: &MeasureConfig) -> bool {
    let noise = 2.0 * noise.iter().map(|noise| noise * noise).sum::<f64>().sqrt();
    (value - other).abs() > (config.tolerance * value.abs()).max(noise)
}

/// The function through all points, with knees where the lines of both sides do not meet between two closest sizes.
pub(super) fn fit_curve(what: &'static str, points: &[Point], config: &MeasureConfig) -> Result<PiecewiseLinear> {
    let (mut all, mut jumped) = (Vec::new(), false);
    for (at, point) in points.iter().enumerate() {
        let sides = if at >= 2 { jump(points, at, jumped, config) } else { None };
        jumped = sides.is_some();
        if let Some((middle, before, after)) = sides {
            all.extend([(middle, before.max(0.0)), (middle, after.max(0.0))]);
        }
        all.push((point.bytes as f64, point.value));
    }
    PiecewiseLinear::new(what, &all)
}

/// The middle of an interval across which a function jumps, and its values on both sides there.
fn jump(points: &[Point], at: usize, jumped: bool, config: &MeasureConfig) -> Option<(f64, f64, f64)> {
    let (before, here) = (points[at - 1], points[at]);
    // Sizes below the minimum step cannot be told apart.
    if before.bytes < config.min_size_step
        || can_bisect(before.bytes, here.bytes, config)
        || !deviates(points, at, config)
    {
        return None;
    }
    let width = (here.bytes - before.bytes) as f64;
    // There is no line to extrapolate across a jump.
    let rise = if jumped { 0.0 } else { points[at - 2].slope(before) };
    let fall = points.get(at + 1).map_or(0.0, |next| here.slope(*next));
    let apart = |share: f64| {
        let (left, right) = (before.value + rise * share * width, here.value - fall * (1.0 - share) * width);
        (right - left, left, right)
    };
    // Lines that meet in between are a bend, not a jump.
    let (_, left, right) = apart(0.5);
    let is_jump =
        apart(0.0).0 * apart(1.0).0 > 0.0 && differ(right, left, &[before.half_width, here.half_width], config);
    is_jump.then_some((before.bytes as f64 + width / 2.0, left, right))
}
