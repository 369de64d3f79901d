//! Traversed edges per second (TEPS) and their statistics, as the Graph 500 benchmark defines them.

use super::answer::Answer;

/// A quantile; the mean of two samples where it lies between them.
pub(super) fn quantile(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    // Graph 500's rule for quartiles, x[(n-1)/4] and x[n/4], for any q.
    let low = (last as f64 * q) as usize;
    let high = (((last + 1) as f64 * q) as usize).min(last);
    (sorted[low] + sorted[high]) / 2.0
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

fn standard_deviation(samples: &[f64]) -> f64 {
    let mean = mean(samples);
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (squares / (samples.len() as f64 - 1.0).max(1.0)).sqrt()
}

/// Harmonic mean of rates, and its standard deviation.
pub(super) fn harmonic_mean(rates: &[f64]) -> (f64, f64) {
    let inverse: Vec<f64> = rates.iter().map(|rate| 1.0 / rate).collect();
    let (mean, count) = (mean(&inverse), rates.len() as f64);
    (1.0 / mean, standard_deviation(&inverse) / (mean * mean * (count - 1.0).max(1.0).sqrt()))
}

/// Prints the output of the Graph 500 benchmark.
pub(super) fn print_graph500(answer: &Answer) {
    let facts = &answer.facts;
    let (scale, edge_factor) = facts.scale.expect("a Kronecker graph");
    let kernel = answer.kernel;
    let times: Vec<f64> = answer.runs.iter().map(|run| run.seconds).collect();
    let edges: Vec<f64> = answer.runs.iter().map(|run| run.edges as f64).collect();
    let rates: Vec<f64> = edges.iter().zip(&times).map(|(edges, time)| edges / time).collect();
    say!("{:<32}{scale}", "SCALE:");
    say!("{:<32}{edge_factor}", "edgefactor:");
    say!("{:<32}{}", "NBFS:", answer.runs.len());
    say!("{:<32}{}", "num_mpi_processes:", answer.ranks);
    say!("{:<32}{:.6}", "construction_time:", facts.build_seconds);
    let print = |what: &str, samples: &[f64]| {
        for (name, q) in [("min", 0.0), ("firstquartile", 0.25), ("median", 0.5), ("thirdquartile", 0.75), ("max", 1.0)]
        {
            let label = format!("{kernel} {name}_{what}:");
            say!("{label:<32}{}", format_g(quantile(samples, q)));
        }
    };
    let line = |name: &str, figure: f64| say!("{:<32}{}", format!("{kernel} {name}:"), format_g(figure));
    print("time", &times);
    line("mean_time", mean(&times));
    line("stddev_time", standard_deviation(&times));
    print("nedge", &edges);
    line("mean_nedge", mean(&edges));
    line("stddev_nedge", standard_deviation(&edges));
    print("TEPS", &rates);
    let (harmonic_mean, harmonic_deviation) = harmonic_mean(&rates);
    line("harmonic_mean_TEPS:     !", harmonic_mean);
    line("harmonic_stddev_TEPS", harmonic_deviation);
    let verified = &answer.verified;
    line("min_validate", quantile(verified, 0.0));
    line("max_validate", quantile(verified, 1.0));
}

/// Six significant digits, like `%g`.
fn format_g(figure: f64) -> String {
    if figure == 0.0 || (1e-4..1e6).contains(&figure.abs()) {
        let digits = 6 - 1 - figure.abs().max(1e-300).log10().floor() as i32;
        let text = format!("{figure:.*}", digits.clamp(0, 12) as usize);
        return if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    }
    format!("{figure:.5e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_the_benchmark() {
        let samples: Vec<f64> = (1..=8).map(f64::from).collect();
        // (x[7/4] + x[8/4]) / 2, 0-based.
        assert_eq!(quantile(&samples, 0.25), 2.5);
        assert_eq!((quantile(&samples, 0.0), quantile(&samples, 0.5), quantile(&samples, 1.0)), (1.0, 4.5, 8.0));
        assert_eq!((quantile(&[3.0], 0.75), quantile(&[], 0.5)), (3.0, 0.0));
    }

    #[test]
    fn rates_have_a_harmonic_mean() {
        let (mean, deviation) = harmonic_mean(&[1.0, 2.0, 4.0]);
        assert!((mean - 12.0 / 7.0).abs() < 1e-12);
        // Inverses 1, 1/2, 1/4: mean 7/12, deviation 0.38188.
        assert!((deviation - 0.381_88 / (49.0 / 144.0) / 2f64.sqrt()).abs() < 1e-4, "{deviation}");
    }

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(
            [0.0, 1.5, 0.001_234_567, 1e9, 16239.0].map(format_g),
            ["0", "1.5", "0.00123457", "1.00000e9", "16239"]
        );
    }
}
