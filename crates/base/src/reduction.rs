//! How contributions are combined.

use bytemuck::{Pod, Zeroable};

/// Combines two contributions into one; must be associative.
///
/// Closures `Fn(T, T) -> T` are reductions; they are combined in the order of ranks unless [`commutative`] says that the
/// order does not matter. For floating-point numbers the result depends on how the contributions are grouped: it is the
/// same on all ranks and from run to run, but may change with the number of ranks and the algorithm.
pub trait Reduction<T>: 'static {
    /// One of two; `left` comes from lower ranks if the order matters.
    fn combine(&self, left: T, right: T) -> T;

    /// Whether the order of operands does not matter.
    fn commutes(&self) -> bool {
        true
    }

    /// Combines element by element into `into`, with the operand on the left or right.
    fn fold(&self, into: &mut [T], operand: &[T], operand_is_left: bool)
    where
        T: Copy,
    {
        for (into, operand) in into.iter_mut().zip(operand) {
            *into = if operand_is_left { self.combine(*operand, *into) } else { self.combine(*into, *operand) };
        }
    }
}

impl<T, F: Fn(T, T) -> T + 'static> Reduction<T> for F {
    #[inline]
    fn combine(&self, left: T, right: T) -> T {
        self(left, right)
    }

    fn commutes(&self) -> bool {
        false
    }
}

/// A closure for which the order of operands does not matter.
pub fn commutative<T, F: Fn(T, T) -> T + 'static>(combine: F) -> Commutative<F> {
    Commutative(combine)
}

/// Made by [`commutative`].
pub struct Commutative<F>(F);

impl<T, F: Fn(T, T) -> T + 'static> Reduction<T> for Commutative<F> {
    #[inline]
    fn combine(&self, left: T, right: T) -> T {
        (self.0)(left, right)
    }
}

/// The sum; of integers modulo 2^bits.
#[derive(Clone, Copy, Debug)]
pub struct Sum;
/// The product; of integers modulo 2^bits.
#[derive(Clone, Copy, Debug)]
pub struct Prod;
/// The least. Of floating-point numbers, one that is no NaN if there is any.
#[derive(Clone, Copy, Debug)]
pub struct Min;
/// The greatest. Of floating-point numbers, one that is no NaN if there is any.
#[derive(Clone, Copy, Debug)]
pub struct Max;
/// Bitwise and.
#[derive(Clone, Copy, Debug)]
pub struct And;
/// Bitwise or.
#[derive(Clone, Copy, Debug)]
pub struct Or;
/// Bitwise exclusive or.
#[derive(Clone, Copy, Debug)]
pub struct Xor;
/// The least value and the lowest place that has it; of [`Located`].
#[derive(Clone, Copy, Debug)]
pub struct MinLoc;
/// The greatest value and the lowest place that has it; of [`Located`].
#[derive(Clone, Copy, Debug)]
pub struct MaxLoc;

/// A value and where it is, for [`MinLoc`] and [`MaxLoc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Located<V> {
    /// The value.
    pub value: V,
    /// Where: a rank, an index.
    pub place: u64,
}

macro_rules! each {
    ($reduction:ident, $($type:ty)*, $left:ident, $right:ident => $combined:expr) => {
        $(impl Reduction<$type> for $reduction {
            #[inline]
            fn combine(&self, $left: $type, $right: $type) -> $type {
                $combined
            }
        })*
    };
}

each!(Sum, u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize, a, b => a.wrapping_add(b));
each!(Prod, u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize, a, b => a.wrapping_mul(b));
each!(Sum, f32 f64, a, b => a + b);
each!(Prod, f32 f64, a, b => a * b);
each!(Min, u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64, a, b => a.min(b));
each!(Max, u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64, a, b => a.max(b));
each!(And, u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize, a, b => a & b);
each!(Or, u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize, a, b => a | b);
each!(Xor, u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize, a, b => a ^ b);

macro_rules! located {
    ($($value:ty)*) => {
        $(
            // SAFETY: two fields of eight bytes each leave no padding, and any bits are valid in both.
            unsafe impl Pod for Located<$value> {}
            // SAFETY: all zeros are valid in both fields.
            unsafe impl Zeroable for Located<$value> {}

            impl Reduction<Located<$value>> for MinLoc {
                fn combine(&self, a: Located<$value>, b: Located<$value>) -> Located<$value> {
                    if b.value < a.value || (b.value == a.value && b.place < a.place) { b } else { a }
                }
            }

            impl Reduction<Located<$value>> for MaxLoc {
                fn combine(&self, a: Located<$value>, b: Located<$value>) -> Located<$value> {
                    if b.value > a.value || (b.value == a.value && b.place < a.place) { b } else { a }
                }
            }
        )*
    };
}

located!(u64 i64 f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_stand_on_their_side() {
        let concat = |a: u64, b: u64| a * 10 + b;
        let mut into = [1, 2];
        concat.fold(&mut into, &[3, 4], false);
        assert_eq!(into, [13, 24]);
        concat.fold(&mut into, &[5, 6], true);
        assert_eq!(into, [63, 84]);
        assert!(!Reduction::<u64>::commutes(&concat) && Reduction::<u64>::commutes(&Sum));
        assert!(Reduction::<u64>::commutes(&commutative(|a: u64, b: u64| a + b)));
    }

    #[test]
    fn of_equal_values_the_lowest_place_wins() {
        let at = |value: f64, place| Located { value, place };
        assert_eq!(MinLoc.combine(at(1.0, 5), at(1.0, 3)), at(1.0, 3));
        assert_eq!(MaxLoc.combine(at(1.0, 5), at(2.0, 9)), at(2.0, 9));
    }
}
