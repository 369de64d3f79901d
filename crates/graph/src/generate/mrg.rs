//! The random number generator of Graph 500: a multiple recursive generator (MRG) of order 5 modulo 2^31-1.
//! [L'Ecuyer, Blouin, Couture, A search for good multiple recursive random number generators, TOMACS 3, 1993]
//!
//! A step is linear, so any number of steps is one 5x5 matrix, and a stream can begin anywhere. The matrices of all
//! powers of two are precomputed, as [`TransitionMatrix`]. The modulus is a Mersenne prime: a product is reduced by
//! adding its upper bits to its lower 31.

use std::sync::LazyLock;

const MODULUS: u64 = (1 << 31) - 1;
const COEFFICIENT_1: u64 = 107_374_182;
const COEFFICIENT_5: u64 = 104_480;

/// The matrices of 2^i steps. Numbers of steps have 192 bits.
static POWERS_OF_TWO: LazyLock<Vec<TransitionMatrix>> = LazyLock::new(|| {
    std::iter::successors(Some(TransitionMatrix::STEP), |matrix| Some(matrix.compose(matrix))).take(192).collect()
});

/// The state of a stream: its last five numbers, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MrgState([u32; 5]);

impl MrgState {
    /// The stream of two seeds. Their 128 bits fill five numbers, of which none may be 0.
    pub(super) fn new(first: u64, second: u64) -> Self {
        let lower = |seed: u64| (seed & 0x3FFF_FFFF) as u32 + 1;
        let top = ((second >> 60) << 4) + (first >> 60);
        Self([lower(first), lower(first >> 30), lower(second), lower(second >> 30), top as u32 + 1])
    }

    /// The next number, below 2^31-1.
    #[inline]
    pub(super) fn draw(&mut self) -> u32 {
        let [z1, z2, z3, z4, z5] = self.0;
        let reduced = reduce_mod(COEFFICIENT_1 * u64::from(z1) + COEFFICIENT_5 * u64::from(z5));
        // The coefficients are below 2^27, so one reduction leaves less than twice the modulus.
        let next = if reduced >= MODULUS { reduced - MODULUS } else { reduced } as u32;
        self.0 = [next, z1, z2, z3, z4];
        next
    }

    /// The stream after a number of steps, given as three words.
    pub(super) fn skip(self, high: u64, middle: u64, low: u64) -> Self {
        let words = [low, middle, high];
        let steps = POWERS_OF_TWO.iter().enumerate().filter(|(bit, _)| words[bit / 64] >> (bit % 64) & 1 == 1);
        steps.fold(self, |stream, (_, matrix)| stream.apply(matrix))
    }

    #[inline]
    pub(super) fn apply(self, matrix: &TransitionMatrix) -> Self {
        Self(matrix.0.map(|row| product(row, self.0)))
    }
}

/// The matrix of a number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransitionMatrix([[u32; 5]; 5]);

impl TransitionMatrix {
    const STEP: TransitionMatrix = TransitionMatrix([
        [COEFFICIENT_1 as u32, 0, 0, 0, COEFFICIENT_5 as u32],
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
    ]);

    /// The matrix of 2^bit steps.
    pub(super) fn power_of_two(bit: usize) -> Self {
        POWERS_OF_TWO[bit]
    }

    fn compose(&self, other: &TransitionMatrix) -> Self {
        let column = |at: usize| self.0.map(|row| row[at]);
        let columns = [0, 1, 2, 3, 4].map(column);
        Self(other.0.map(|row| columns.map(|column| product(row, column))))
    }
}

#[inline]
fn product(left: [u32; 5], right: [u32; 5]) -> u32 {
    let term = |at: usize| u64::from(left[at]) * u64::from(right[at]);
    // The sum of four terms fits into 64 bits, that of five does not.
    let sum = reduce_mod(term(0) + term(1) + term(2) + term(3)) + term(4);
    let reduced = reduce_mod(reduce_mod(sum));
    (if reduced >= MODULUS { reduced - MODULUS } else { reduced }) as u32
}

/// A congruent number that is about 31 bits shorter.
#[inline]
fn reduce_mod(number: u64) -> u64 {
    (number & MODULUS) + (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_fill_the_state() {
        assert_eq!(MrgState::new(2, 3).0, [3, 1, 4, 1, 1]);
        assert_eq!(MrgState::new(u64::MAX, u64::MAX).0, [1 << 30, 1 << 30, 1 << 30, 1 << 30, 256]);
    }

    #[test]
    fn a_draw_is_the_recursion() {
        let mut stream = MrgState::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);
        for _ in 0..1000 {
            let [newest, .., oldest] = stream.0.map(u128::from);
            let expected = (107_374_182 * newest + 104_480 * oldest) % 2_147_483_647;
            assert_eq!(u128::from(stream.draw()), expected);
        }
    }

    #[test]
    fn skipping_is_drawing_many_times() {
        let start = MrgState::new(2, 3);
        let mut drawn = start;
        for steps in 0..2000 {
            assert_eq!(start.skip(0, 0, steps), drawn, "{steps}");
            drawn.draw();
        }
    }

    #[test]
    fn words_of_a_skip_have_their_places() {
        let start = MrgState::new(7, 11);
        for (whole, below) in [((0, 1, 0), (0, 0, u64::MAX)), ((1, 0, 0), (0, u64::MAX, u64::MAX))] {
            let mut stepped = start.skip(below.0, below.1, below.2);
            stepped.draw();
            assert_eq!(stepped, start.skip(whole.0, whole.1, whole.2));
        }
        assert_eq!(start.apply(&TransitionMatrix::power_of_two(64)), start.skip(0, 1, 0));
    }

    #[test]
    fn the_largest_products_are_reduced() {
        let most = MODULUS as u32 - 1;
        // (-1)(-1) five times.
        assert_eq!(product([most; 5], [most; 5]), 5);
        assert_eq!(product([most, 0, 0, 0, 0], [1; 5]), most);
        assert_eq!(product([most, 1, 0, 0, 0], [1; 5]), 0);
    }
}
