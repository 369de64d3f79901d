//! Times of Treepie's own cases against each other: they were measured in the same jobs, batch by batch in turn.

use std::fmt;

use anyhow::Context;

use super::super::figure::Figure;
use super::super::output::parse;
use super::super::statistics::{interval, median};
use super::rank::Counted;

/// What the ranks of all jobs have printed.
pub(super) struct Runs<'a> {
    figures: &'a [Figure],
    outputs: &'a [String],
    /// Microseconds per operation: for each run, for each figure.
    micros: Vec<Vec<f64>>,
}

impl<'a> Runs<'a> {
    pub(super) fn read(figures: &'a [Figure], outputs: &'a [String]) -> anyhow::Result<Self> {
        let cases: Vec<String> = figures.iter().map(|figure| figure.case.clone()).collect();
        let micros = outputs.iter().map(|output| Ok(parse(output, &cases)?.micros)).collect::<anyhow::Result<_>>()?;
        Ok(Self { figures, outputs, micros })
    }

    /// Microseconds per operation of a figure in each run.
    pub(super) fn micros(&self, name: &str) -> anyhow::Result<Vec<f64>> {
        let place = self.figures.iter().position(|figure| figure.name == name);
        let place = place.with_context(|| format!("{name} was not measured"))?;
        Ok(self.micros.iter().map(|run| run[place]).collect())
    }

    /// How many times as fast as another one, of runs of both.
    pub(super) fn ratio(&self, name: &str, over: &str) -> anyhow::Result<Ratio> {
        let (times, over) = (self.micros(name)?, self.micros(over)?);
        let ratios: Vec<f64> = times.iter().zip(&over).map(|(time, over)| over / time).collect();
        Ok(Ratio { median: median(&ratios), interval: interval(&ratios) })
    }

    /// What was done for a figure in all runs.
    pub(super) fn counted(&self, name: &str) -> anyhow::Result<Counted> {
        let figure = self.figures.iter().find(|figure| figure.name == name);
        let case = &figure.with_context(|| format!("{name} was not measured"))?.case;
        let mut all = Counted::default();
        for output in self.outputs {
            let words = output.lines().map(str::split_whitespace);
            let mut found =
                words.filter_map(|mut words| (words.next()? == "about" && words.next()? == case).then_some(words));
            let numbers = found.next().with_context(|| format!("the ranks said nothing of {case}"))?;
            let numbers: Vec<u64> = numbers.map(str::parse).collect::<Result<_, _>>()?;
            let [sent, forwarded, looked_up, combined] = numbers[..] else {
                anyhow::bail!("not four numbers of {case}: {numbers:?}")
            };
            all = all + Counted { sent, forwarded, looked_up, combined };
        }
        Ok(all)
    }
}

/// The median of pairs, with its 95% interval if there are enough of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) median: f64,
    pub(super) interval: Option<(f64, f64)>,
}

impl Ratio {
    fn between(&self) -> String {
        self.interval.map_or("too few pairs".to_owned(), |(low, high)| format!("{low:.2} to {high:.2}"))
    }

    /// As a part of a sentence.
    pub(super) fn in_words(&self) -> String {
        format!("{:.2}, 95% interval {}", self.median, self.between())
    }
}

/// As columns of a table.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6.2}  {:<13}", self.median, self.between())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::figures::Scale;
    use super::*;

    /// What ranks would print, with so many microseconds for each figure.
    pub(in super::super) fn output(figures: &[Figure], micros: impl Fn(usize) -> f64) -> String {
        let line = |(place, figure): (usize, &Figure)| {
            format!(
                "case {0} {1}\nabout {0} 1000 {2} 500 5\n",
                figure.case,
                micros(place),
                250 * usize::from(place > 0)
            )
        };
        figures.iter().enumerate().map(line).collect()
    }

    #[test]
    fn ratios_are_those_of_pairs() {
        let figures = Scale::new(2, 8, None, 0).figures(&Default::default());
        // A disturbed run disturbs both.
        let outputs: Vec<String> = (1..8).map(|run| output(&figures, |place| (run * (place + 1)) as f64)).collect();
        let runs = Runs::read(&figures, &outputs).unwrap();
        let ratio = runs.ratio("am/update/one", "am/update/touch").unwrap();
        assert_eq!(ratio, Ratio { median: 2.0, interval: Some((2.0, 2.0)) });
        assert_eq!(ratio.to_string(), "  2.00  2.00 to 2.00 ");
        assert_eq!(ratio.in_words(), "2.00, 95% interval 2.00 to 2.00");
        assert!(runs.ratio("am/update/one", "am/update/never").is_err());
        let counted = Counted { sent: 7000, forwarded: 1750, looked_up: 3500, combined: 35 };
        assert_eq!(runs.counted("am/update/touch").unwrap(), counted);
        let few = Runs::read(&figures, &outputs[..3]).unwrap();
        assert_eq!(few.ratio("am/update/one", "am/update/touch").unwrap().interval, None);
    }
}
