//! Measures cases in tests.

use super::launch::on_threads;
use super::output;
use super::rank::{Benchmark, CaseOf, measure, parse_cases};

/// Measures these cases on threads. Every batch must have taken time on rank 0, whose output is returned.
pub(crate) fn measured<B: Benchmark>(ranks: u32, texts: &[String]) -> String {
    let cases: Vec<CaseOf<B>> = parse_cases(texts).unwrap();
    let all = on_threads(ranks, |world| measure::<B>(world, &cases)).unwrap();
    assert_eq!(all[0].times.len(), cases.len());
    for (case, times) in cases.iter().zip(&all[0].times) {
        assert_eq!(times.len(), case.batches, "{case}");
        assert!(times.iter().all(|time| *time > 0.0), "{case}: {times:?}");
    }
    assert!(all[1..].iter().all(|rank| rank.times.iter().all(Vec::is_empty)));
    output::format("threads", texts, &all[0])
}

/// Checks that these texts are cases, and their own.
pub(crate) fn assert_round_trip<B: Benchmark>(texts: impl IntoIterator<Item = String>) {
    for text in texts {
        assert_eq!(text.parse::<CaseOf<B>>().map(|case| case.to_string()), Ok(text));
    }
}

/// Checks that these are not cases.
pub(crate) fn assert_no_cases<B: Benchmark>(texts: &[&str]) {
    for text in texts {
        assert!(text.parse::<CaseOf<B>>().is_err(), "{text}");
    }
}
