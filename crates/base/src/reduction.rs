//! Reduction operations.

use bytemuck::{Pod, Zeroable};

/// A reduction operation, which must be associative.
///
/// Closures `Fn(T, T) -> T` are reductions; they are applied in rank order unless [`commutative`] declares that the
/// order does not matter. For floating-point numbers the result depends on how the operands are grouped: it is the same
/// on all ranks and from run to run, but may change with the number of ranks and the algorithm.
pub trait Reduction<T>: 'static {
    /// Combines two operands; `left` comes from lower ranks if the order matters.
    fn combine(&self, left: T, right: T) -> T;

    /// Whether the operation is commutative.
    fn is_commutative(&self) -> bool {
        true
    }

    /// Combines elementwise into `into`, with the operand on the left or right (`MPI_Reduce_local`).
    fn reduce_local(&self, into: &mut [T], operand: &[T], operand_is_left: bool)
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

    fn is_commutative(&self) -> bool {
        false
    }
}

/// Declares a closure commutative.
pub fn commutative<T, F: Fn(T, T) -> T + 'static>(combine: F) -> Commutative<F> {
    Commutative(combine)
}

/// A commutative closure; see [`commutative`].
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
/// The minimum. NaN only if all operands are NaN.
#[derive(Clone, Copy, Debug)]
pub struct Min;
/// The maximum. NaN only if all operands are NaN.
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
/// The minimum and the lowest location that has it (`MPI_MINLOC`); of [`ValueLoc`].
#[derive(Clone, Copy, Debug)]
pub struct MinLoc;
/// The maximum and the lowest location that has it (`MPI_MAXLOC`); of [`ValueLoc`].
#[derive(Clone, Copy, Debug)]
pub struct MaxLoc;

/// A value and its location, for [`MinLoc`] and [`MaxLoc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct ValueLoc<V> {
    /// The value.
    pub value: V,
    /// The location: a rank, an index.
    pub loc: u64,
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

macro_rules! value_loc {
    ($($value:ty)*) => {
        $(
            // SAFETY: two fields of eight bytes each leave no padding, and any bits are valid in both.
            unsafe impl Pod for ValueLoc<$value> {}
            // SAFETY: all zeros are valid in both fields.
            unsafe impl Zeroable for ValueLoc<$value> {}

            impl Reduction<ValueLoc<$value>> for MinLoc {
                fn combine(&self, a: ValueLoc<$value>, b: ValueLoc<$value>) -> ValueLoc<$value> {
                    if b.value < a.value || (b.value == a.value && b.loc < a.loc) { b } else { a }
                }
            }

            impl Reduction<ValueLoc<$value>> for MaxLoc {
                fn combine(&self, a: ValueLoc<$value>, b: ValueLoc<$value>) -> ValueLoc<$value> {
                    if b.value > a.value || (b.value == a.value && b.loc < a.loc) { b } else { a }
                }
            }
        )*
    };
}

value_loc!(u64 i64 f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_stay_on_their_side() {
        let concat = |a: u64, b: u64| a * 10 + b;
        let mut into = [1, 2];
        concat.reduce_local(&mut into, &[3, 4], false);
        assert_eq!(into, [13, 24]);
        concat.reduce_local(&mut into, &[5, 6], true);
        assert_eq!(into, [63, 84]);
        assert!(!Reduction::<u64>::is_commutative(&concat) && Reduction::<u64>::is_commutative(&Sum));
        assert!(Reduction::<u64>::is_commutative(&commutative(|a: u64, b: u64| a + b)));
    }

    #[test]
    fn of_equal_values_the_lowest_location_wins() {
        let at = |value: f64, loc| ValueLoc { value, loc };
        assert_eq!(MinLoc.combine(at(1.0, 5), at(1.0, 3)), at(1.0, 3));
        assert_eq!(MaxLoc.combine(at(1.0, 5), at(2.0, 9)), at(2.0, 9));
    }
}
