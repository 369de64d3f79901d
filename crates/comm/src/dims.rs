//! Balanced dimensions of grids: factorizations of the number of ranks.

/// Balanced dimensions of a grid of `ranks` ranks, in decreasing order (`MPI_Dims_create`): of all factorizations the
/// one with the smallest largest factor, of those the one with the smallest second factor, and so on.
///
/// ```
/// use treepie_comm::dims_create;
///
/// assert_eq!(dims_create(24, 2), [6, 4]);
/// assert_eq!(dims_create(24, 3), [4, 3, 2]);
/// assert_eq!(dims_create(7, 3), [7, 1, 1]);
/// ```
///
/// # Panics
/// If `ranks` is 0, or `dimensions` is 0 for more than one rank.
pub fn dims_create(ranks: usize, dimensions: usize) -> Vec<usize> {
    assert!(ranks > 0, "a grid of no ranks");
    let mut dims = Vec::with_capacity(dimensions);
    let fits = fill(&mut dims, &divisors(ranks), ranks, dimensions, ranks);
    assert!(fits, "a grid of {ranks} ranks in no dimensions");
    dims
}

/// Appends the first such factorization of `left` with factors up to `max`; false if there is none.
fn fill(dims: &mut Vec<usize>, divisors: &[usize], left: usize, dimensions: usize, max: usize) -> bool {
    if left == 1 {
        dims.extend(std::iter::repeat_n(1, dimensions));
        return true;
    }
    // The largest factor is at least the root, and at least the largest prime.
    let prime = largest_prime(left);
    let is_enough = |side: usize| side >= prime && power_is_at_least(side, dimensions, left);
    let sides = divisors.iter().copied().take_while(|side| *side <= max);
    for side in sides.filter(|side| left.is_multiple_of(*side) && is_enough(*side)) {
        dims.push(side);
        if fill(dims, divisors, left / side, dimensions - 1, side) {
            return true;
        }
        dims.pop();
    }
    false
}

fn power_is_at_least(side: usize, dimensions: usize, ranks: usize) -> bool {
    u32::try_from(dimensions).ok().and_then(|exponent| side.checked_pow(exponent)).is_none_or(|power| power >= ranks)
}

/// All divisors, in increasing order.
fn divisors(number: usize) -> Vec<usize> {
    let small = (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor));
    let mut all: Vec<usize> = small.flat_map(|divisor| [divisor, number / divisor]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The largest prime factor of a number above 1.
fn largest_prime(mut number: usize) -> usize {
    let (mut largest, mut divisor) = (1, 2);
    while divisor <= number / divisor {
        if number.is_multiple_of(divisor) {
            largest = divisor;
            number /= divisor;
        } else {
            divisor += 1;
        }
    }
    if number > 1 { number } else { largest }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All factorizations, in decreasing order.
    fn factorizations(left: usize, dimensions: usize, max: usize) -> Vec<Vec<usize>> {
        if dimensions == 0 {
            return if left == 1 { vec![vec![]] } else { vec![] };
        }
        let sides = (1..=max.min(left)).filter(|side| left.is_multiple_of(*side));
        let with = |side| {
            factorizations(left / side, dimensions - 1, side).into_iter().map(move |rest| [vec![side], rest].concat())
        };
        sides.flat_map(with).collect()
    }

    #[test]
    fn the_first_factorization_is_found() {
        for ranks in 1..=400 {
            for dimensions in 1..=4 {
                let first = factorizations(ranks, dimensions, ranks).into_iter().min();
                assert_eq!(Some(dims_create(ranks, dimensions)), first, "{ranks} in {dimensions}");
            }
        }
    }

    #[test]
    fn many_ranks_and_dimensions_do_not_take_long() {
        assert_eq!(dims_create(1 << 20, 20), [2; 20]);
        assert_eq!(dims_create(1 << 20, 3), [128, 128, 64]);
        assert_eq!(dims_create(1 << 10, 12), [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1]);
        assert_eq!(dims_create(999_983, 3), [999_983, 1, 1]);
        assert_eq!(dims_create(735_134_400, 4).iter().product::<usize>(), 735_134_400);
        assert_eq!(dims_create(735_134_400, 9).iter().product::<usize>(), 735_134_400);
        assert_eq!(dims_create(1, 0), []);
    }
}
