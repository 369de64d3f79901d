//! Figures of repeated measurements that one disturbed run does not spoil.

/// A value that at most half of the samples lie below and at most half above. NaN if there are none.
pub(super) fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// From the lower to the upper quartile.
pub(super) fn spread(samples: &[f64]) -> f64 {
    quantile(samples, 0.75) - quantile(samples, 0.25)
}

/// Between the samples on both sides of the place that `part` of them lie below.
fn quantile(samples: &[f64], part: f64) -> f64 {
    let sorted = sorted(samples);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// The samples between which the median of what they were drawn from lies with at least 95 % confidence, whatever its
/// distribution: each sample is below that median with probability 1/2, so how many are is binomial. Nothing if there
/// are too few samples, that is fewer than 6.
pub(super) fn interval(samples: &[f64]) -> Option<(f64, f64)> {
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

/// Of ratios: that of twice as good and half as good is 1.
pub(super) fn geometric_mean(ratios: &[f64]) -> f64 {
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
        assert_eq!(spread(&[5.0, 1.0, 2.0, 3.0, 4.0]), 2.0);
        assert_eq!((median(&[7.0]), spread(&[7.0])), (7.0, 0.0));
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn twice_and_half_as_good_is_as_good() {
        assert!((geometric_mean(&[2.0, 0.5]) - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
        assert!(geometric_mean(&[]).is_nan());
    }

    /// The places in tables of the sign test: 9 pairs 2nd and 8th, 31 pairs 10th and 22nd.
    #[test]
    fn intervals_are_those_of_the_sign_test() {
        let numbers = |count: i32| (1..=count).map(f64::from).collect::<Vec<_>>();
        assert_eq!(interval(&numbers(5)), None);
        assert_eq!(interval(&numbers(6)), Some((1.0, 6.0)));
        assert_eq!(interval(&numbers(9)), Some((2.0, 8.0)));
        assert_eq!(interval(&numbers(31)), Some((10.0, 22.0)));
        assert_eq!(interval(&numbers(100)), Some((40.0, 61.0)));
    }
}
