//! Piecewise linear functions of the message size, with knees.

use crate::error::not_negative;
use crate::{Error, Result};

/// A function of the message size, in microseconds.
///
/// Linear between points, constant before the first, and extrapolated after the last, but never decreasing there. Two
/// points at one size are a *knee*, where a protocol changes: that size belongs to the side before, and any larger size
/// to the side after.
#[derive(Clone, Debug, PartialEq)]
pub struct PiecewiseLinear {
    points: Vec<(f64, f64)>,
}

impl PiecewiseLinear {
    /// The function through points (bytes, microseconds). `what` names it in errors.
    pub fn new(what: &'static str, points: &[(f64, f64)]) -> Result<Self> {
        if points.is_empty() {
            return Err(Error::NoPoints { what });
        }
        for &(size, time) in points {
            not_negative(what, size)?;
            not_negative(what, time)?;
        }
        for (at, two) in points.windows(2).enumerate() {
            let (before, size) = (two[0].0, two[1].0);
            let third = at > 0 && points[at - 1].0 == size;
            if size < before || third {
                return Err(Error::UnorderedSizes { what, size, before });
            }
        }
        Ok(Self { points: points.to_vec() })
    }

    /// As [`new`](Self::new), with knees at sizes that were not measured: each side is extrapolated up to the knee.
    pub fn with_knees(what: &'static str, points: &[(f64, f64)], knees: &[f64]) -> Result<Self> {
        let mut curve = Self::new(what, points)?;
        for &size in knees {
            not_negative(what, size)?;
            let at = curve.points.partition_point(|point| point.0 < size);
            let (before, after) = curve.points.split_at(at);
            // A knee outside the points, or at a measured size, changes nothing.
            if before.is_empty() || after.is_empty() || after[0].0 == size {
                continue;
            }
            let (left, right) = (extrapolate(last_line(before), size), extrapolate(first_line(after), size));
            curve.points.splice(at..at, [(size, left.max(0.0)), (size, right.max(0.0))]);
        }
        Ok(curve)
    }

    /// A constant function.
    pub fn constant(what: &'static str, time: f64) -> Result<Self> {
        Self::new(what, &[(0.0, time)])
    }

    /// A linear function.
    pub fn linear(what: &'static str, start: f64, per_byte: f64) -> Result<Self> {
        not_negative(what, per_byte)?;
        Self::new(what, &[(0.0, start), (1.0, start + per_byte)])
    }

    /// The function through points that are not validated.
    pub(crate) fn new_unchecked(points: Vec<(f64, f64)>) -> Self {
        Self { points }
    }

    /// The same with its value at 0 bytes, and what bytes add to that, multiplied.
    pub(crate) fn scaled(&self, startup: f64, bytes: f64) -> Self {
        let empty = self.at(0.0);
        // A curve that falls may not get below zero.
        let scale = |time: f64| (startup * empty + bytes * (time - empty)).max(0.0);
        Self { points: self.points.iter().map(|(size, time)| (*size, scale(*time))).collect() }
    }

    /// The points.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Sizes at which it jumps.
    pub fn knees(&self) -> impl Iterator<Item = f64> + '_ {
        self.points.windows(2).filter(|two| two[0].0 == two[1].0).map(|two| two[0].0)
    }

    /// The value at a size; at a knee, that of the side before.
    pub fn at(&self, bytes: f64) -> f64 {
        self.interpolate(self.points.partition_point(|point| point.0 < bytes), bytes)
    }

    /// The limit from above: at a knee, that of the side after.
    pub fn after(&self, bytes: f64) -> f64 {
        self.interpolate(self.points.partition_point(|point| point.0 <= bytes), bytes)
    }

    /// The value on the line that ends at a point, or after the last.
    fn interpolate(&self, end: usize, bytes: f64) -> f64 {
        if end == 0 {
            return self.points[0].1;
        }
        if end == self.points.len() {
            let (size, time, slope) = last_line(&self.points);
            return extrapolate((size, time, slope.max(0.0)), bytes);
        }
        let (from, to) = (self.points[end - 1], self.points[end]);
        // Without rounding, so that a curve that is written point by point is the same when it is read.
        if bytes == to.0 {
            return to.1;
        }
        from.1 + (to.1 - from.1) * (bytes - from.0) / (to.0 - from.0)
    }
}

/// The line through the last two points that are not a knee; constant if there are none.
fn last_line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let (size, time) = points[points.len() - 1];
    let line = points.windows(2).rev().find(|two| two[0].0 < two[1].0);
    (size, time, line.map_or(0.0, slope))
}

fn first_line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let (size, time) = points[0];
    (size, time, points.windows(2).next().filter(|two| two[0].0 < two[1].0).map_or(0.0, slope))
}

fn slope(two: &[(f64, f64)]) -> f64 {
    (two[1].1 - two[0].1) / (two[1].0 - two[0].0)
}

fn extrapolate((size, time, slope): (f64, f64, f64), bytes: f64) -> f64 {
    time + slope * (bytes - size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extrapolates_and_knees_have_two_sides() {
        let curve = PiecewiseLinear::new("a gap", &[(1.0, 10.0), (5.0, 18.0), (5.0, 40.0), (9.0, 44.0)]).unwrap();
        assert_eq!(
            [0.0, 1.0, 2.0, 5.0, 7.0, 9.0, 13.0].map(|size| curve.at(size)),
            [10., 10., 12., 18., 42., 44., 48.]
        );
        assert_eq!([1.0, 2.0, 5.0, 9.0].map(|size| curve.after(size)), [10.0, 12.0, 40.0, 44.0]);
        assert_eq!(curve.knees().collect::<Vec<_>>(), [5.0]);
        let falling = PiecewiseLinear::new("an overhead", &[(0.0, 9.0), (2.0, 1.0)]).unwrap();
        assert_eq!(falling.at(100.0), 1.0);
        let ends = PiecewiseLinear::new("an overhead", &[(0.0, 0.0), (2.0, 2.0), (2.0, 1.0)]).unwrap();
        assert_eq!((ends.at(2.0), ends.after(2.0), ends.at(4.0)), (2.0, 1.0, 3.0));
    }

    #[test]
    fn points_are_on_the_curve_to_the_last_bit() {
        let points = [
            (0.0, 0.0),
            (1024.0, 0.0653298257839721),
            (524_288.0, 20.752305436347243),
            (4_194_304.0, 229.24809325308834),
        ];
        let curve = PiecewiseLinear::new("a copy", &points).unwrap();
        assert_eq!(points.map(|point| curve.at(point.0)), points.map(|point| point.1));
    }

    #[test]
    fn knees_can_be_marked() {
        let points = [(0.0, 0.0), (4.0, 4.0), (8.0, 20.0), (10.0, 24.0)];
        let curve = PiecewiseLinear::with_knees("a gap", &points, &[6.0, 4.0, 99.0]).unwrap();
        assert_eq!((curve.at(6.0), curve.after(6.0)), (6.0, 16.0));
        assert_eq!((curve.at(7.0), curve.at(5.0), curve.at(8.0)), (18.0, 5.0, 20.0));
        assert_eq!(curve.knees().collect::<Vec<_>>(), [6.0]);
    }

    #[test]
    fn invalid_points_are_refused() {
        let message = |points: &[(f64, f64)]| PiecewiseLinear::new("the gap g", points).unwrap_err().to_string();
        assert_eq!(message(&[]), "the table of the gap g has no points");
        assert_eq!(message(&[(0.0, f64::NAN)]), "the gap g is NaN, and must be a non-negative number");
        assert_eq!(message(&[(0.0, 1.0), (8.0, -2.0)]), "the gap g is -2, and must be a non-negative number");
        let increase = "sizes must increase, and at most two points may have the same size";
        assert_eq!(
            message(&[(8.0, 1.0), (4.0, 2.0)]),
            format!("the table of the gap g has size 4 after 8: {increase}")
        );
        assert_eq!(message(&[(8.0, 1.0); 3]), format!("the table of the gap g has size 8 after 8: {increase}"));
    }
}
