//! Weights of arcs, and the distances that they sum up to.

use std::fmt;

use bytemuck::Pod;

use crate::WeightKind;

/// What an arc has besides its target: a weight, or nothing, which is `()`.
pub trait EdgeWeight: Copy + fmt::Debug + 'static {
    /// The kind of weights.
    const KIND: WeightKind;

    /// From 32 bits.
    fn from_bits(bits: u32) -> Self;

    /// As 32 bits, which compare like the weights.
    fn bits(self) -> u32;

    /// `None` if it is not a weight of this type.
    fn from_f64(weight: f64) -> Option<Self>;
}

impl EdgeWeight for () {
    const KIND: WeightKind = WeightKind::None;

    #[inline]
    fn from_bits(_: u32) {}

    #[inline]
    fn bits(self) -> u32 {
        0
    }

    #[inline]
    fn from_f64(_: f64) -> Option<Self> {
        Some(())
    }
}

impl EdgeWeight for f32 {
    const KIND: WeightKind = WeightKind::Real;

    #[inline]
    fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }

    #[inline]
    fn bits(self) -> u32 {
        self.to_bits()
    }

    fn from_f64(weight: f64) -> Option<Self> {
        let rounded = weight as f32;
        // Without the sign of a zero, whose bits would compare greater than all others.
        (rounded.is_finite() && rounded >= 0.0).then_some(rounded.abs())
    }
}

impl EdgeWeight for u32 {
    const KIND: WeightKind = WeightKind::Integer;

    #[inline]
    fn from_bits(bits: u32) -> Self {
        bits
    }

    #[inline]
    fn bits(self) -> u32 {
        self
    }

    fn from_f64(weight: f64) -> Option<Self> {
        let integer = weight as u32;
        (f64::from(integer) == weight).then_some(integer)
    }
}

/// A weight that is a number, and the type of distances.
pub trait Weight: EdgeWeight + Pod + PartialOrd + fmt::Display {
    /// The length of the empty path.
    const ZERO: Self;
    /// The distance of unreachable vertices.
    const INFINITY: Self;
    /// The largest finite distance.
    const MAX_FINITE: f64;

    /// Converts to `f64`.
    fn as_f64(self) -> f64;

    /// The length of a path extended by an arc. At most [`INFINITY`](Self::INFINITY).
    fn add(self, arc: Self) -> Self;
}

impl Weight for f32 {
    const ZERO: Self = 0.0;
    const INFINITY: Self = f32::INFINITY;
    const MAX_FINITE: f64 = f32::MAX as f64;

    #[inline]
    fn as_f64(self) -> f64 {
        self.into()
    }

    #[inline]
    fn add(self, arc: Self) -> Self {
        self + arc
    }
}

impl Weight for u32 {
    const ZERO: Self = 0;
    const INFINITY: Self = u32::MAX;
    const MAX_FINITE: f64 = (u32::MAX - 1) as f64;

    #[inline]
    fn as_f64(self) -> f64 {
        self.into()
    }

    #[inline]
    fn add(self, arc: Self) -> Self {
        self.saturating_add(arc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_exact_or_refused() {
        assert_eq!(<u32 as EdgeWeight>::from_f64(4_294_967_295.0), Some(u32::MAX));
        assert_eq!([-1.0, 0.5, 4_294_967_296.0, f64::NAN].map(<u32 as EdgeWeight>::from_f64), [None; 4]);
        assert_eq!(<f32 as EdgeWeight>::from_f64(-0.0).map(EdgeWeight::bits), Some(0));
        assert_eq!([-1.0, f64::INFINITY, f64::NAN, 1e300].map(<f32 as EdgeWeight>::from_f64), [None; 4]);
    }
}
