//! Edges a second, by the rules of the Graph 500 benchmark.

use super::answer::Answer;

/// Of some figures the one that so large a part of them is below; the mean of two where that is between them.
pub(super) fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    // The rule of the benchmark for a quarter, x[(n-1)/4] and x[n/4], for any part.
    let low = (last as f64 * part) as usize;
    let high = (((last + 1) as f64 * part) as usize).min(last);
    (sorted[low] + sorted[high]) / 2.0
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

fn deviation(figures: &[f64]) -> f64 {
    let mean = mean(figures);
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    (squares / (figures.len() as f64 - 1.0).max(1.0)).sqrt()
}

/// Harmonic mean of rates, and its standard deviation.
pub(super) fn harmonic(rates: &[f64]) -> (f64, f64) {
    let inverse: Vec<f64> = rates.iter().map(|rate| 1.0 / rate).collect();
    let (mean, count) = (mean(&inverse), rates.len() as f64);
    (1.0 / mean, deviation(&inverse) / (mean * mean * (count - 1.0).max(1.0).sqrt()))
}

/// What the benchmark prints.
pub(super) fn print_block(answer: &Answer) {
    let facts = &answer.facts;
    let (scale, edge_factor) = facts.scale.expect("it is a Kronecker graph");
    let kernel = answer.kernel;
    let times: Vec<f64> = answer.runs.iter().map(|run| run.seconds).collect();
    let edges: Vec<f64> = answer.runs.iter().map(|run| run.edges as f64).collect();
    let rates: Vec<f64> = edges.iter().zip(&times).map(|(edges, time)| edges / time).collect();
    say!("{:<32}{scale}", "SCALE:");
    say!("{:<32}{edge_factor}", "edgefactor:");
    say!("{:<32}{}", "NBFS:", answer.runs.len());
    say!("{:<32}{}", "num_mpi_processes:", answer.ranks);
    say!("{:<32}{:.6}", "construction_time:", facts.build);
    let print = |what: &str, figures: &[f64]| {
        for (name, part) in
            [("min", 0.0), ("firstquartile", 0.25), ("median", 0.5), ("thirdquartile", 0.75), ("max", 1.0)]
        {
            let label = format!("{kernel} {name}_{what}:");
            say!("{label:<32}{}", short(quantile(figures, part)));
        }
    };
    let line = |name: &str, figure: f64| say!("{:<32}{}", format!("{kernel} {name}:"), short(figure));
    print("time", &times);
    line("mean_time", mean(&times));
    line("stddev_time", deviation(&times));
    print("nedge", &edges);
    line("mean_nedge", mean(&edges));
    line("stddev_nedge", deviation(&edges));
    print("TEPS", &rates);
    let (harmonic_mean, harmonic_deviation) = harmonic(&rates);
    line("harmonic_mean_TEPS:     !", harmonic_mean);
    line("harmonic_stddev_TEPS", harmonic_deviation);
    let verified = &answer.verified;
    line("min_validate", quantile(verified, 0.0));
    line("max_validate", quantile(verified, 1.0));
}

/// Six digits, as `%g` prints them.
fn short(figure: f64) -> String {
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
        let figures: Vec<f64> = (1..=8).map(f64::from).collect();
        // (x[7/4] + x[8/4]) / 2 with places from 0 on.
        assert_eq!(quantile(&figures, 0.25), 2.5);
        assert_eq!((quantile(&figures, 0.0), quantile(&figures, 0.5), quantile(&figures, 1.0)), (1.0, 4.5, 8.0));
        assert_eq!((quantile(&[3.0], 0.75), quantile(&[], 0.5)), (3.0, 0.0));
    }

    #[test]
    fn rates_have_a_harmonic_mean() {
        let (mean, deviation) = harmonic(&[1.0, 2.0, 4.0]);
        assert!((mean - 12.0 / 7.0).abs() < 1e-12);
        // Inverses 1, 1/2, 1/4: mean 7/12, deviation 0.38188.
        assert!((deviation - 0.381_88 / (49.0 / 144.0) / 2f64.sqrt()).abs() < 1e-4, "{deviation}");
    }

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(
            [0.0, 1.5, 0.001_234_567, 1e9, 16239.0].map(short),
            ["0", "1.5", "0.00123457", "1.00000e9", "16239"]
        );
    }
}
