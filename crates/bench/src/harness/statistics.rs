//! Robust statistics of repeated measurements.

use std::fmt;

use super::table::format_interval;

/// The median; NaN if there are no samples.
pub(crate) fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The interquartile range.
pub(crate) fn interquartile_range(samples: &[f64]) -> f64 {
    quantile(samples, 0.75) - quantile(samples, 0.25)
}

/// A quantile, linearly interpolated.
fn quantile(samples: &[f64], q: f64) -> f64 {
    let sorted = sorted(samples);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = q * last as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + (above - below) * position.fract()
}

/// The distribution-free confidence interval (at least 95 %) of the median, by the sign test: each sample is below the
/// median with probability 1/2, so their number is binomial. `None` for fewer than 6 samples.
pub(crate) fn median_interval(samples: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(samples);
    let count = sorted.len();
    // Probability that exactly `k` of `count` are below, then that at most `k` are.
    let mut exactly = 0.5f64.powi(i32::try_from(count).ok()?);
    let mut at_most = exactly;
    let mut outside = None;
    for k in 0..count / 2 {
        if at_most > 0.025 {
            break;
        }
        outside = Some(k);
        exactly *= (count - k) as f64 / (k + 1) as f64;
        at_most += exactly;
    }
    let k = outside?;
    Some((sorted[k], sorted[count - 1 - k]))
}

/// The median of the ratios of pairs, with its 95% confidence interval if there are enough pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PairedRatio {
    pub(crate) median: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

impl PairedRatio {
    /// Of the first samples over the second.
    pub(crate) fn new(samples: &[f64], over: &[f64]) -> Self {
        Self::of(&ratios(samples, over))
    }

    /// Of the ratios themselves.
    pub(crate) fn of(ratios: &[f64]) -> Self {
        Self { median: median(ratios), interval: median_interval(ratios) }
    }

    /// As running text.
    pub(crate) fn in_words(&self) -> String {
        format!("{:.2}, 95% interval {}", self.median, format_interval(self.interval))
    }
}

/// The ratios of pairs.
pub(crate) fn ratios(samples: &[f64], over: &[f64]) -> Vec<f64> {
    samples.iter().zip(over).map(|(sample, over)| sample / over).collect()
}

/// As table columns.
impl fmt::Display for PairedRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6.2}  {:<13}", self.median, format_interval(self.interval))
    }
}

/// The geometric mean of ratios.
pub(crate) fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quartiles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(interquartile_range(&[5.0, 1.0, 2.0, 3.0, 4.0]), 2.0);
        assert_eq!((median(&[7.0]), interquartile_range(&[7.0])), (7.0, 0.0));
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_1() {
        assert!((geometric_mean(&[2.0, 0.5]) - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
        assert!(geometric_mean(&[]).is_nan());
    }

    /// Order statistics from tables of the sign test: 9 pairs 2nd and 8th, 31 pairs 10th and 22nd.
    #[test]
    fn intervals_are_those_of_the_sign_test() {
        let numbers = |count: i32| (1..=count).map(f64::from).collect::<Vec<_>>();
        assert_eq!(median_interval(&numbers(5)), None);
        assert_eq!(median_interval(&numbers(6)), Some((1.0, 6.0)));
        assert_eq!(median_interval(&numbers(9)), Some((2.0, 8.0)));
        assert_eq!(median_interval(&numbers(31)), Some((10.0, 22.0)));
        assert_eq!(median_interval(&numbers(100)), Some((40.0, 61.0)));
    }
}
