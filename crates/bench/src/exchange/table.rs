//! Tables of exchange results.

use super::task::AUTO;
use crate::harness::comparison::ComparisonResult;
use crate::harness::figure::Figure;
use crate::harness::output;
use crate::harness::statistics::{PairedRatio, median};
use crate::harness::table::{format_interval, format_number, format_spread, print_ratios};

/// The ranks' output for a case.
#[derive(Debug, PartialEq)]
struct CaseOutput<'a> {
    /// Microseconds per round of each batch.
    times: Vec<f64>,
    protocol: &'a str,
    memory: &'a str,
    messages: f64,
}

impl<'a> CaseOutput<'a> {
    fn find(output: &'a str, case: &str) -> anyhow::Result<Self> {
        let times = output::find(output, "case", case)?.map(str::parse).collect::<Result<_, _>>()?;
        let about: Vec<&str> = output::find(output, "about", case)?.collect();
        let [protocol, memory, messages] = about[..] else { anyhow::bail!("not three values for {case}: {about:?}") };
        Ok(Self { times, protocol, memory, messages: messages.parse()? })
    }
}

/// Prints a line for each case.
pub(super) fn print(figures: &[Figure], result: &ComparisonResult) -> anyhow::Result<()> {
    let theirs = result
        .peer
        .as_ref()
        .map(|peer| format!(" {peer:>15} {:>6} {:<14}", "ratio", " 95% interval"))
        .unwrap_or_default();
    let (name, us, spread) = ("case", "us/round", "spread");
    say!("{name:<34} {us:>10} {spread:>8} {:>8} {:>8}{theirs}  chosen", "memory", "messages");
    for (figure, record) in figures.iter().zip(&result.records) {
        let CaseOutput { protocol, memory, messages, .. } = CaseOutput::find(&result.ours[0], &figure.case)?;
        let chosen = if figure.name.starts_with(AUTO) { protocol } else { "" };
        let theirs = record.against.as_ref().map(|against| {
            let (value, interval) = (format_number(against.peer_value), format_interval(against.interval()));
            format!(" {value:>15} {:>6.2}  {interval:<13}", against.ratio)
        });
        let (value, spread) = (format_number(record.value), format_spread(record));
        let line = format!(
            "{:<34} {value:>10} {spread:>8} {memory:>8} {messages:>8.1}{}  {chosen}",
            record.case,
            theirs.unwrap_or_default()
        );
        say!("{}", line.trim_end());
    }
    print_ratios(&result.records);
    Ok(())
}

/// The best of figures of the same messages, and the time of the selected protocol over it, from pairs of batches. The
/// last figure is that of `auto`.
fn compare_choice<'a>(group: &'a [Figure], outputs: &[String]) -> anyhow::Result<Option<(&'a Figure, PairedRatio)>> {
    let all_times = |figure: &Figure| -> anyhow::Result<Vec<f64>> {
        let times = outputs.iter().map(|output| Ok(CaseOutput::find(output, &figure.case)?.times));
        Ok(times.collect::<anyhow::Result<Vec<_>>>()?.concat())
    };
    let Some((auto, others)) = group.split_last() else { return Ok(None) };
    let auto = all_times(auto)?;
    let others = others.iter().map(|figure| Ok((figure, all_times(figure)?))).collect::<anyhow::Result<Vec<_>>>()?;
    let best = others.iter().min_by(|(_, a), (_, b)| median(a).total_cmp(&median(b)));
    Ok(best.map(|(best, times)| (*best, PairedRatio::new(&auto, times))))
}

/// Prints, for all messages, the time of the selected protocol over that of the best; each has `protocols` figures.
pub(super) fn print_summary(figures: &[Figure], protocols: usize, outputs: &[String]) -> anyhow::Result<()> {
    say!("");
    say!("Time of the selected protocol over that of the best, median of pairs of batches:");
    let mut worst: f64 = 0.0;
    for group in figures.chunks(protocols) {
        let Some((best, PairedRatio { median: ratio, interval })) = compare_choice(group, outputs)? else { continue };
        worst = worst.max(ratio);
        let name = group.last().map_or("", |figure| figure.name.as_str());
        let interval = format_interval(interval);
        say!("{name:<34} {ratio:>6.2}  95% interval {interval:<13}  best: {}", best.name);
    }
    say!("worst: {worst:.2}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::task::{MESSAGE_BYTES, MessageSpec, figures};
    use super::*;

    #[test]
    fn the_choice_is_compared_with_the_best_batch_by_batch() {
        let messages = MessageSpec { seed: 1, neighbors: 2, lengths: MESSAGE_BYTES };
        let figures = figures(&[messages], 4, &["exchange/pex", "exchange/nbx", AUTO], false);
        let output = |scale: f64| {
            let times = [[9.0, 8.0, 9.0], [4.0, 2.0, 1.0], [4.4, 2.2, 1.2]];
            let line = |(figure, times): (&Figure, &[f64; 3])| {
                let [a, b, c] = times.map(|time| time * scale);
                format!("case {} {a} {b} {c}\nabout {} exchange/nbx 100 6.5\n", figure.case, figure.case)
            };
            figures.iter().zip(&times).map(line).collect::<String>()
        };
        let first = output(1.0);
        let printed = CaseOutput::find(&first, &figures[1].case).unwrap();
        let right = CaseOutput { times: vec![4.0, 2.0, 1.0], protocol: "exchange/nbx", memory: "100", messages: 6.5 };
        assert_eq!(printed, right);
        // Noise affects both of a pair.
        let (best, ratio) = compare_choice(&figures, &[first.clone(), output(5.0)]).unwrap().unwrap();
        assert_eq!(best.name, "exchange/nbx/k2");
        assert!((ratio.median - 1.1).abs() < 1e-9, "{ratio:?}");
        assert!(ratio.interval.is_some_and(|(low, high)| low < 1.11 && high > 1.19), "six pairs: {ratio:?}");
        assert_eq!(compare_choice(&figures, &[first]).unwrap().unwrap().1.interval, None);
        assert!(CaseOutput::find("case other 1.0", &figures[0].case).is_err());
    }
}
