//! The random numbers of the Graph 500 generator: a multiple recursive generator of order 5 modulo 2^31-1.
//! [L'Ecuyer, Blouin, Couture, A search for good multiple recursive random number generators, TOMACS 3, 1993]
//!
//! A step is linear, so any number of steps is one 5x5 matrix, and a stream can begin anywhere. The matrices of all
//! powers of two are kept; what is taken often is made once, as a [`Jump`]. The modulus is a Mersenne prime: a product
//! is reduced by adding its upper bits to its lower 31.

use std::sync::LazyLock;

const MODULUS: u64 = (1 << 31) - 1;
const NEWEST: u64 = 107_374_182;
const OLDEST: u64 = 104_480;

/// Steps are counted by numbers of 192 bits.
static POWERS_OF_TWO: LazyLock<Vec<Jump>> =
    LazyLock::new(|| std::iter::successors(Some(Jump::STEP), |jump| Some(jump.then(jump))).take(192).collect());

/// Where a stream of numbers is: the last five of them, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream([u32; 5]);

impl Stream {
    /// The stream that belongs to two seeds. They have 124 bits in five numbers, of which none may be 0.
    pub(super) fn new(first: u64, second: u64) -> Self {
        let lower = |seed: u64| (seed & 0x3FFF_FFFF) as u32 + 1;
        let top = ((second >> 60) << 4) + (first >> 60);
        Self([lower(first), lower(first >> 30), lower(second), lower(second >> 30), top as u32 + 1])
    }

    /// The next number, below 2^31-1.
    #[inline]
    pub(super) fn draw(&mut self) -> u32 {
        let [z1, z2, z3, z4, z5] = self.0;
        let folded = fold(NEWEST * u64::from(z1) + OLDEST * u64::from(z5));
        // The factors are below 2^27, so folding once left less than twice the modulus.
        let next = if folded >= MODULUS { folded - MODULUS } else { folded } as u32;
        self.0 = [next, z1, z2, z3, z4];
        next
    }

    /// The stream after so many steps: a number of three words.
    pub(super) fn skip(self, high: u64, middle: u64, low: u64) -> Self {
        let words = [low, middle, high];
        let steps = POWERS_OF_TWO.iter().enumerate().filter(|(bit, _)| words[bit / 64] >> (bit % 64) & 1 == 1);
        steps.fold(self, |stream, (_, jump)| stream.after(jump))
    }

    #[inline]
    pub(super) fn after(self, jump: &Jump) -> Self {
        Self(jump.0.map(|row| product(row, self.0)))
    }
}

/// A number of steps, taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jump([[u32; 5]; 5]);

impl Jump {
    const STEP: Jump = Jump([
        [NEWEST as u32, 0, 0, 0, OLDEST as u32],
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
    ]);

    /// 2^bit steps.
    pub(super) fn power_of_two(bit: usize) -> Self {
        POWERS_OF_TWO[bit]
    }

    fn then(&self, other: &Jump) -> Self {
        let column = |at: usize| self.0.map(|row| row[at]);
        let columns = [0, 1, 2, 3, 4].map(column);
        Self(other.0.map(|row| columns.map(|column| product(row, column))))
    }
}

#[inline]
fn product(left: [u32; 5], right: [u32; 5]) -> u32 {
    let term = |at: usize| u64::from(left[at]) * u64::from(right[at]);
    // Four terms fit into a word, five do not.
    let sum = fold(term(0) + term(1) + term(2) + term(3)) + term(4);
    let folded = fold(fold(sum));
    (if folded >= MODULUS { folded - MODULUS } else { folded }) as u32
}

/// A number with the same remainder that is about 31 bits shorter.
#[inline]
fn fold(number: u64) -> u64 {
    (number & MODULUS) + (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_fill_the_state() {
        assert_eq!(Stream::new(2, 3).0, [3, 1, 4, 1, 1]);
        assert_eq!(Stream::new(u64::MAX, u64::MAX).0, [1 << 30, 1 << 30, 1 << 30, 1 << 30, 256]);
    }

    #[test]
    fn a_draw_is_the_recursion() {
        let mut stream = Stream::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);
        for _ in 0..1000 {
            let [newest, .., oldest] = stream.0.map(u128::from);
            let expected = (107_374_182 * newest + 104_480 * oldest) % 2_147_483_647;
            assert_eq!(u128::from(stream.draw()), expected);
        }
    }

    #[test]
    fn skipping_is_drawing_many_times() {
        let start = Stream::new(2, 3);
        let mut drawn = start;
        for steps in 0..2000 {
            assert_eq!(start.skip(0, 0, steps), drawn, "{steps}");
            drawn.draw();
        }
    }

    #[test]
    fn words_of_a_skip_have_their_places() {
        let start = Stream::new(7, 11);
        for (whole, below) in [((0, 1, 0), (0, 0, u64::MAX)), ((1, 0, 0), (0, u64::MAX, u64::MAX))] {
            let mut stepped = start.skip(below.0, below.1, below.2);
            stepped.draw();
            assert_eq!(stepped, start.skip(whole.0, whole.1, whole.2));
        }
        assert_eq!(start.after(&Jump::power_of_two(64)), start.skip(0, 1, 0));
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
