//! Sides of grids: a number of ranks as a product of numbers that are as even as possible.

/// So many numbers whose product is `ranks`, the largest first: of all such lists the one with the smallest largest number,
/// of those the one with the smallest second, and so on.
///
/// ```
/// use treepie_comm::balanced_dims;
///
/// assert_eq!(balanced_dims(24, 2), [6, 4]);
/// assert_eq!(balanced_dims(24, 3), [4, 3, 2]);
/// assert_eq!(balanced_dims(7, 3), [7, 1, 1]);
/// ```
///
/// # Panics
/// If there are no ranks, or no dimensions for several.
pub fn balanced_dims(ranks: usize, dimensions: usize) -> Vec<usize> {
    assert!(ranks > 0, "a grid of no ranks");
    let mut dims = Vec::with_capacity(dimensions);
    let fits = fill(&mut dims, &divisors(ranks), ranks, dimensions, ranks);
    assert!(fits, "a grid of {ranks} ranks in no dimensions");
    dims
}

/// Appends the first such list for what is left to be divided, with numbers up to `most`; nothing if there is none.
fn fill(dims: &mut Vec<usize>, divisors: &[usize], left: usize, dimensions: usize, most: usize) -> bool {
    if left == 1 {
        dims.extend(std::iter::repeat_n(1, dimensions));
        return true;
    }
    // The largest number is at least the root, and has the largest prime or is above it.
    let prime = largest_prime(left);
    let is_enough = |side: usize| side >= prime && power_is_at_least(side, dimensions, left);
    let sides = divisors.iter().copied().take_while(|side| *side <= most);
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

/// All divisors, in order.
fn divisors(number: usize) -> Vec<usize> {
    let small = (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor));
    let mut all: Vec<usize> = small.flat_map(|divisor| [divisor, number / divisor]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The largest prime that divides a number above 1.
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

    /// All lists with this product, largest number first.
    fn lists(left: usize, dimensions: usize, most: usize) -> Vec<Vec<usize>> {
        if dimensions == 0 {
            return if left == 1 { vec![vec![]] } else { vec![] };
        }
        let sides = (1..=most.min(left)).filter(|side| left.is_multiple_of(*side));
        let with =
            |side| lists(left / side, dimensions - 1, side).into_iter().map(move |rest| [vec![side], rest].concat());
        sides.flat_map(with).collect()
    }

    #[test]
    fn the_first_of_all_lists_is_found() {
        for ranks in 1..=400 {
            for dimensions in 1..=4 {
                let first = lists(ranks, dimensions, ranks).into_iter().min();
                assert_eq!(Some(balanced_dims(ranks, dimensions)), first, "{ranks} in {dimensions}");
            }
        }
    }

    #[test]
    fn many_ranks_and_dimensions_do_not_take_long() {
        assert_eq!(balanced_dims(1 << 20, 20), [2; 20]);
        assert_eq!(balanced_dims(1 << 20, 3), [128, 128, 64]);
        assert_eq!(balanced_dims(1 << 10, 12), [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1]);
        assert_eq!(balanced_dims(999_983, 3), [999_983, 1, 1]);
        assert_eq!(balanced_dims(735_134_400, 4).iter().product::<usize>(), 735_134_400);
        assert_eq!(balanced_dims(735_134_400, 9).iter().product::<usize>(), 735_134_400);
        assert_eq!(balanced_dims(1, 0), []);
    }
}
