//! A measured function of the message's size: straight lines between points, with knees.

use crate::error::not_negative;
use crate::{Error, Result};

/// A function of the message's size, in microseconds.
///
/// Between points it is a straight line, before the first it is that point's value, after the last it goes on as the
/// last line does, but does not fall. Two points at one size are a *knee*, where a protocol changes: that size belongs
/// to the side before, and anything larger to the side behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    points: Vec<(f64, f64)>,
}

impl Table {
    /// Through these points (bytes, microseconds). `what` names it where it is refused.
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
                return Err(Error::Order { what, size, before });
            }
        }
        Ok(Self { points: points.to_vec() })
    }

    /// The same, with knees at sizes where nothing was measured: each side goes on up to the knee as it went before.
    pub fn with_knees(what: &'static str, points: &[(f64, f64)], knees: &[f64]) -> Result<Self> {
        let mut table = Self::new(what, points)?;
        for &size in knees {
            not_negative(what, size)?;
            let at = table.points.partition_point(|point| point.0 < size);
            let (before, behind) = table.points.split_at(at);
            // A knee at the end, or where there is one already, changes nothing.
            if before.is_empty() || behind.is_empty() || behind[0].0 == size {
                continue;
            }
            let (left, right) = (along(last_line(before), size), along(first_line(behind), size));
            table.points.splice(at..at, [(size, left.max(0.0)), (size, right.max(0.0))]);
        }
        Ok(table)
    }

    /// The same at all sizes.
    pub fn constant(what: &'static str, time: f64) -> Result<Self> {
        Self::new(what, &[(0.0, time)])
    }

    /// A straight line.
    pub fn linear(what: &'static str, start: f64, per_byte: f64) -> Result<Self> {
        not_negative(what, per_byte)?;
        Self::new(what, &[(0.0, start), (1.0, start + per_byte)])
    }

    /// Through points that nobody has looked at.
    pub(super) fn unchecked(points: Vec<(f64, f64)>) -> Self {
        Self { points }
    }

    /// The points.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Sizes at which it jumps.
    pub fn knees(&self) -> impl Iterator<Item = f64> + '_ {
        self.points.windows(2).filter(|two| two[0].0 == two[1].0).map(|two| two[0].0)
    }

    /// The value at a size; at a knee, that before it.
    pub fn at(&self, bytes: f64) -> f64 {
        self.on(self.points.partition_point(|point| point.0 < bytes), bytes)
    }

    /// The value of just a little more: at a knee, that behind it.
    pub fn after(&self, bytes: f64) -> f64 {
        self.on(self.points.partition_point(|point| point.0 <= bytes), bytes)
    }

    /// The value on the line that ends with a point, or behind the last.
    fn on(&self, end: usize, bytes: f64) -> f64 {
        if end == 0 {
            return self.points[0].1;
        }
        if end == self.points.len() {
            let (size, time, slope) = last_line(&self.points);
            return along((size, time, slope.max(0.0)), bytes);
        }
        let (from, to) = (self.points[end - 1], self.points[end]);
        from.1 + (to.1 - from.1) * (bytes - from.0) / (to.0 - from.0)
    }
}

/// The line through the last two points that are not a knee; a level one if there are none.
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

fn along((size, time, slope): (f64, f64, f64), bytes: f64) -> f64 {
    time + slope * (bytes - size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_on_and_knees_have_two_sides() {
        let table = Table::new("a gap", &[(1.0, 10.0), (5.0, 18.0), (5.0, 40.0), (9.0, 44.0)]).unwrap();
        assert_eq!(
            [0.0, 1.0, 2.0, 5.0, 7.0, 9.0, 13.0].map(|size| table.at(size)),
            [10., 10., 12., 18., 42., 44., 48.]
        );
        assert_eq!([1.0, 2.0, 5.0, 9.0].map(|size| table.after(size)), [10.0, 12.0, 40.0, 44.0]);
        assert_eq!(table.knees().collect::<Vec<_>>(), [5.0]);
        let falling = Table::new("an overhead", &[(0.0, 9.0), (2.0, 1.0)]).unwrap();
        assert_eq!(falling.at(100.0), 1.0);
        let ends = Table::new("an overhead", &[(0.0, 0.0), (2.0, 2.0), (2.0, 1.0)]).unwrap();
        assert_eq!((ends.at(2.0), ends.after(2.0), ends.at(4.0)), (2.0, 1.0, 3.0));
    }

    #[test]
    fn knees_can_be_marked() {
        let points = [(0.0, 0.0), (4.0, 4.0), (8.0, 20.0), (10.0, 24.0)];
        let table = Table::with_knees("a gap", &points, &[6.0, 4.0, 99.0]).unwrap();
        assert_eq!((table.at(6.0), table.after(6.0)), (6.0, 16.0));
        assert_eq!((table.at(7.0), table.at(5.0), table.at(8.0)), (18.0, 5.0, 20.0));
        assert_eq!(table.knees().collect::<Vec<_>>(), [6.0]);
    }

    #[test]
    fn tables_that_cannot_be_are_refused() {
        let message = |points: &[(f64, f64)]| Table::new("the gap g", points).unwrap_err().to_string();
        assert_eq!(message(&[]), "the table of the gap g has no points");
        assert_eq!(message(&[(0.0, f64::NAN)]), "the gap g is NaN, and must be a number from 0 on");
        assert_eq!(message(&[(0.0, 1.0), (8.0, -2.0)]), "the gap g is -2, and must be a number from 0 on");
        let rise = "sizes must rise, and only two points may have the same";
        assert_eq!(message(&[(8.0, 1.0), (4.0, 2.0)]), format!("the table of the gap g has size 4 after 8: {rise}"));
        assert_eq!(message(&[(8.0, 1.0); 3]), format!("the table of the gap g has size 8 after 8: {rise}"));
    }
}
