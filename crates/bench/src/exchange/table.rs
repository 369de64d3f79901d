//! Tables of exchange results.

use anyhow::Context;

use super::super::figure::Figure;
use super::super::statistics::{median, median_interval};
use super::super::table::{format_interval, format_number};
use super::case::AUTO;
use crate::record::Record;

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
        let line = |kind: &str| {
            let words = output.lines().map(str::split_whitespace);
            let mut found =
                words.filter_map(|mut words| (words.next()? == kind && words.next()? == case).then_some(words));
            found.next().with_context(|| format!("no output for {case}"))
        };
        let times = line("case")?.map(str::parse).collect::<Result<_, _>>()?;
        let about: Vec<&str> = line("about")?.collect();
        let [protocol, memory, messages] = about[..] else { anyhow::bail!("not three values for {case}: {about:?}") };
        Ok(Self { times, protocol, memory, messages: messages.parse()? })
    }
}

/// Prints a line for each case.
pub(super) fn print(figures: &[Figure], records: &[Record], output: &str, peer: Option<&str>) -> anyhow::Result<()> {
    let theirs = peer.map(|peer| format!(" {peer:>15} {:>6} {:<14}", "ratio", " 95% interval")).unwrap_or_default();
    let (name, us, spread) = ("case", "us/round", "spread");
    say!("{name:<34} {us:>10} {spread:>8} {:>8} {:>8}{theirs}  chosen", "memory", "messages");
    for (figure, record) in figures.iter().zip(records) {
        let CaseOutput { protocol, memory, messages, .. } = CaseOutput::find(output, &figure.case)?;
        let chosen = if figure.name.starts_with(AUTO) { protocol } else { "" };
        let theirs = record.against.as_ref().map(|against| {
            let (value, interval) = (format_number(against.peer_value), format_interval(against));
            format!(" {value:>15} {:>6.2}  {interval:<13}", against.ratio)
        });
        let (value, spread) = (format_number(record.value), format_number(record.spread));
        let line = format!(
            "{:<34} {value:>10} {spread:>8} {memory:>8} {messages:>8.1}{}  {chosen}",
            record.case,
            theirs.unwrap_or_default()
        );
        say!("{}", line.trim_end());
    }
    Ok(())
}

/// Comparison of the selected protocol with the best one.
#[derive(Debug, PartialEq)]
struct ChoiceComparison<'a> {
    best: &'a Figure,
    /// Time of the selected protocol over that of the best, median of pairs of batches.
    ratio: f64,
    interval: Option<(f64, f64)>,
}

/// Compares figures of the same messages; the last is that of `auto`.
fn compare_choice<'a>(group: &'a [Figure], outputs: &[String]) -> anyhow::Result<Option<ChoiceComparison<'a>>> {
    let all_times = |figure: &Figure| -> anyhow::Result<Vec<f64>> {
        let times = outputs.iter().map(|output| Ok(CaseOutput::find(output, &figure.case)?.times));
        Ok(times.collect::<anyhow::Result<Vec<_>>>()?.concat())
    };
    let Some((auto, others)) = group.split_last() else { return Ok(None) };
    let auto = all_times(auto)?;
    let others = others.iter().map(|figure| Ok((figure, all_times(figure)?))).collect::<anyhow::Result<Vec<_>>>()?;
    let best = others.iter().min_by(|(_, a), (_, b)| median(a).total_cmp(&median(b)));
    Ok(best.map(|(best, times)| {
        let ratios: Vec<f64> = auto.iter().zip(times).map(|(auto, best)| auto / best).collect();
        ChoiceComparison { best, ratio: median(&ratios), interval: median_interval(&ratios) }
    }))
}

/// Prints, for all messages, the time of the selected protocol over that of the best; each has `protocols` figures.
pub(super) fn print_summary(figures: &[Figure], protocols: usize, outputs: &[String]) -> anyhow::Result<()> {
    say!("");
    say!("Time of the selected protocol over that of the best, median of pairs of batches:");
    let mut worst: f64 = 0.0;
    for group in figures.chunks(protocols) {
        let Some(ChoiceComparison { best, ratio, interval }) = compare_choice(group, outputs)? else { continue };
        worst = worst.max(ratio);
        let interval = interval.map_or("too few pairs".to_owned(), |(low, high)| format!("{low:.2} to {high:.2}"));
        let name = group.last().map_or("", |figure| figure.name.as_str());
        say!("{name:<34} {ratio:>6.2}  95% interval {interval:<13}  best: {}", best.name);
    }
    say!("worst: {worst:.2}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::case::{MESSAGE_BYTES, MessageSpec, figures};
    use super::*;

    #[test]
    fn the_choice_is_compared_with_the_best_batch_by_batch() {
        let figures = figures(&[MessageSpec::new(1, 4, 2, MESSAGE_BYTES)], &["exchange/pex", "exchange/nbx", AUTO]);
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
        let found = compare_choice(&figures, &[first.clone(), output(5.0)]).unwrap().unwrap();
        assert_eq!(found.best.name, "exchange/nbx/k2");
        assert!((found.ratio - 1.1).abs() < 1e-9, "{found:?}");
        assert!(found.interval.is_some_and(|(low, high)| low < 1.11 && high > 1.19), "six pairs: {found:?}");
        assert_eq!(compare_choice(&figures, &[first]).unwrap().unwrap().interval, None);
        assert!(CaseOutput::find("case other 1.0", &figures[0].case).is_err());
    }
}
