//! Running mean and confidence interval of repeated measurements.

/// Running statistics of samples, which are not stored (Welford).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Samples {
    count: u32,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
}

impl Samples {
    pub(super) fn push(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / f64::from(self.count);
        self.squares += delta * (value - self.mean);
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Half width of the 90% confidence interval of the mean; infinite with fewer than two samples.
    pub(super) fn confidence_half_width(&self) -> f64 {
        if self.count < 2 {
            return f64::INFINITY;
        }
        let freedom = f64::from(self.count - 1);
        student_t_quantile(freedom) * (self.squares / freedom / f64::from(self.count)).sqrt()
    }

    /// The same relative to the mean.
    pub(super) fn relative_error(&self) -> f64 {
        if self.mean > 0.0 { self.confidence_half_width() / self.mean } else { 0.0 }
    }
}

/// The 95% quantile of Student's t, by the first terms of its expansion around that of the normal distribution
/// (Abramowitz and Stegun 26.7.5): within 0.2% from four degrees of freedom on, and too small below.
fn student_t_quantile(freedom: f64) -> f64 {
    let z = 1.644_853_6f64;
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    let first = (z3 + z) / 4.0;
    let second = (5.0 * z5 + 16.0 * z3 + 3.0 * z) / 96.0;
    let third = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, printed) in
            [(4.0, 2.132), (5.0, 2.015), (9.0, 1.833), (14.0, 1.761), (29.0, 1.699), (59.0, 1.671)]
        {
            let got = student_t_quantile(freedom);
            assert!((got / printed - 1.0f64).abs() < 0.002, "{freedom} degrees: {got} instead of {printed}");
        }
    }

    #[test]
    fn intervals_are_those_of_the_definition() {
        let values = [3.0, 5.0, 4.0, 8.0, 5.0];
        let mut samples = Samples::default();
        assert_eq!(samples.confidence_half_width(), f64::INFINITY);
        values.into_iter().for_each(|value| samples.push(value));
        let variance = values.into_iter().map(|value| (value - 5.0f64).powi(2)).sum::<f64>() / 4.0;
        assert_eq!((samples.mean(), samples.count()), (5.0, 5));
        assert!((samples.confidence_half_width() / (2.132 * (variance / 5.0).sqrt()) - 1.0).abs() < 0.002);
        let mut same = Samples::default();
        [7.0; 5].into_iter().for_each(|value| same.push(value));
        assert_eq!(same.confidence_half_width(), 0.0);
    }
}
