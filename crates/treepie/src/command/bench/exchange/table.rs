//! Results of exchanges as tables for people.

use anyhow::Context;

use super::super::super::record::Record;
use super::super::figure::Figure;
use super::super::statistics::{interval, median};
use super::super::table::{interval_of, number};
use super::case::AUTO;

/// What ranks have printed of a case.
#[derive(Debug, PartialEq)]
struct Printed<'a> {
    /// Microseconds per round of each batch.
    times: Vec<f64>,
    took: &'a str,
    memory: &'a str,
    messages: f64,
}

impl<'a> Printed<'a> {
    fn find(output: &'a str, case: &str) -> anyhow::Result<Self> {
        let line = |kind: &str| {
            let words = output.lines().map(str::split_whitespace);
            let mut found =
                words.filter_map(|mut words| (words.next()? == kind && words.next()? == case).then_some(words));
            found.next().with_context(|| format!("the ranks said nothing of {case}"))
        };
        let times = line("case")?.map(str::parse).collect::<Result<_, _>>()?;
        let about: Vec<&str> = line("about")?.collect();
        let [took, memory, messages] = about[..] else { anyhow::bail!("not three things of {case}: {about:?}") };
        Ok(Self { times, took, memory, messages: messages.parse()? })
    }
}

/// A line for each case.
pub(super) fn print(figures: &[Figure], records: &[Record], output: &str, peer: Option<&str>) -> anyhow::Result<()> {
    let theirs = peer.map(|peer| format!(" {peer:>15} {:>6} {:<14}", "ratio", " 95% interval")).unwrap_or_default();
    let (name, us, spread) = ("case", "us a round", "spread");
    say!("{name:<34} {us:>10} {spread:>8} {:>8} {:>8}{theirs}  took", "memory", "messages");
    for (figure, record) in figures.iter().zip(records) {
        let Printed { took, memory, messages, .. } = Printed::find(output, &figure.case)?;
        let took = if figure.name.starts_with(AUTO) { took } else { "" };
        let theirs = record.against.as_ref().map(|against| {
            let (value, interval) = (number(against.peer_value), interval_of(against));
            format!(" {value:>15} {:>6.2}  {interval:<13}", against.ratio)
        });
        let (value, spread) = (number(record.value), number(record.spread));
        let line = format!(
            "{:<34} {value:>10} {spread:>8} {memory:>8} {messages:>8.1}{}  {took}",
            record.case,
            theirs.unwrap_or_default()
        );
        say!("{}", line.trim_end());
    }
    Ok(())
}

/// How the protocol that was chosen compares with the best one.
#[derive(Debug, PartialEq)]
struct Choice<'a> {
    best: &'a Figure,
    /// Time of the chosen one over that of the best, as the median of pairs of batches.
    ratio: f64,
    interval: Option<(f64, f64)>,
}

/// Of figures with the same messages, of which the last is that of the protocol that was chosen.
fn choice<'a>(group: &'a [Figure], outputs: &[String]) -> anyhow::Result<Option<Choice<'a>>> {
    let all_times = |figure: &Figure| -> anyhow::Result<Vec<f64>> {
        let times = outputs.iter().map(|output| Ok(Printed::find(output, &figure.case)?.times));
        Ok(times.collect::<anyhow::Result<Vec<_>>>()?.concat())
    };
    let Some((auto, others)) = group.split_last() else { return Ok(None) };
    let auto = all_times(auto)?;
    let others = others.iter().map(|figure| Ok((figure, all_times(figure)?))).collect::<anyhow::Result<Vec<_>>>()?;
    let best = others.iter().min_by(|(_, a), (_, b)| median(a).total_cmp(&median(b)));
    Ok(best.map(|(best, times)| {
        let ratios: Vec<f64> = auto.iter().zip(times).map(|(auto, best)| auto / best).collect();
        Choice { best, ratio: median(&ratios), interval: interval(&ratios) }
    }))
}

/// For all messages, the time of the chosen protocol against that of the best. `protocols` are measured with the same ones.
pub(super) fn print_summary(figures: &[Figure], protocols: usize, outputs: &[String]) -> anyhow::Result<()> {
    say!("");
    say!("Time of the protocol that is chosen over that of the best one, of pairs of batches:");
    let mut worst: f64 = 0.0;
    for group in figures.chunks(protocols) {
        let Some(Choice { best, ratio, interval }) = choice(group, outputs)? else { continue };
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
    use super::super::case::{LENGTHS, Messages, figures};
    use super::*;

    #[test]
    fn what_is_chosen_is_compared_with_the_best_batch_by_batch() {
        let figures = figures(&[Messages::new(1, 4, 2, LENGTHS)], &["exchange/pex", "exchange/nbx", AUTO]);
        let output = |scale: f64| {
            let times = [[9.0, 8.0, 9.0], [4.0, 2.0, 1.0], [4.4, 2.2, 1.2]];
            let line = |(figure, times): (&Figure, &[f64; 3])| {
                let [a, b, c] = times.map(|time| time * scale);
                format!("case {} {a} {b} {c}\nabout {} exchange/nbx 100 6.5\n", figure.case, figure.case)
            };
            figures.iter().zip(&times).map(line).collect::<String>()
        };
        let first = output(1.0);
        let printed = Printed::find(&first, &figures[1].case).unwrap();
        let right = Printed { times: vec![4.0, 2.0, 1.0], took: "exchange/nbx", memory: "100", messages: 6.5 };
        assert_eq!(printed, right);
        // A disturbed run disturbs both.
        let found = choice(&figures, &[first.clone(), output(5.0)]).unwrap().unwrap();
        assert_eq!(found.best.name, "exchange/nbx/k2");
        assert!((found.ratio - 1.1).abs() < 1e-9, "{found:?}");
        assert!(found.interval.is_some_and(|(low, high)| low < 1.11 && high > 1.19), "six pairs: {found:?}");
        assert_eq!(choice(&figures, &[first]).unwrap().unwrap().interval, None);
        assert!(Printed::find("case other 1.0", &figures[0].case).is_err());
    }
}
