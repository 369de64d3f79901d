//! Comparison of Treepie's cases with each other, measured in the same jobs, alternating batch by batch.

use anyhow::Context;

use super::rank::MessageCounters;
use crate::harness::figure::Figure;
use crate::harness::output::parse;
use crate::harness::statistics::PairedRatio;

/// The output of all jobs.
pub(super) struct Runs<'a> {
    figures: &'a [Figure],
    outputs: &'a [String],
    /// Microseconds per operation: for each run, for each figure.
    micros: Vec<Vec<f64>>,
}

impl<'a> Runs<'a> {
    pub(super) fn parse(figures: &'a [Figure], outputs: &'a [String]) -> anyhow::Result<Self> {
        let cases: Vec<String> = figures.iter().map(|figure| figure.case.clone()).collect();
        let micros = outputs.iter().map(|output| Ok(parse(output, &cases)?.micros())).collect::<anyhow::Result<_>>()?;
        Ok(Self { figures, outputs, micros })
    }

    /// Microseconds per operation of a figure in each run.
    pub(super) fn micros(&self, name: &str) -> anyhow::Result<Vec<f64>> {
        let index = self.figures.iter().position(|figure| figure.name == name);
        let index = index.with_context(|| format!("{name} was not measured"))?;
        Ok(self.micros.iter().map(|run| run[index]).collect())
    }

    /// The speedup over another figure, from pairs of runs.
    pub(super) fn speedup(&self, name: &str, over: &str) -> anyhow::Result<PairedRatio> {
        Ok(PairedRatio::new(&self.micros(over)?, &self.micros(name)?))
    }

    /// The counters of a figure, summed over all runs.
    pub(super) fn counters(&self, name: &str) -> anyhow::Result<MessageCounters> {
        let figure = self.figures.iter().find(|figure| figure.name == name);
        let case = &figure.with_context(|| format!("{name} was not measured"))?.case;
        self.outputs
            .iter()
            .try_fold(MessageCounters::default(), |sum, output| Ok(sum + MessageCounters::parse(output, case)?))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::figures::Scale;
    use super::*;

    /// The output of a job with these microseconds for each figure.
    pub(in super::super) fn output(figures: &[Figure], micros: impl Fn(usize) -> f64) -> String {
        let line = |(index, figure): (usize, &Figure)| {
            format!(
                "case {0} {1}\nabout {0} 1000 {2} 500 5\n",
                figure.case,
                micros(index),
                250 * usize::from(index > 0)
            )
        };
        figures.iter().enumerate().map(line).collect()
    }

    #[test]
    fn ratios_are_those_of_pairs() {
        let figures = Scale::new(2, 8, None, 0).figures(&Default::default());
        // Noise affects both of a pair.
        let outputs: Vec<String> = (1..8).map(|run| output(&figures, |index| (run * (index + 1)) as f64)).collect();
        let runs = Runs::parse(&figures, &outputs).unwrap();
        let ratio = runs.speedup("am/update/one", "am/update/touch").unwrap();
        assert_eq!(ratio, PairedRatio { median: 2.0, interval: Some((2.0, 2.0)) });
        assert_eq!(ratio.to_string(), "  2.00  2.00 to 2.00 ");
        assert_eq!(ratio.in_words(), "2.00, 95% interval 2.00 to 2.00");
        assert!(runs.speedup("am/update/one", "am/update/never").is_err());
        let counters = MessageCounters { sent: 7000, forwarded: 1750, lookups: 3500, hits: 35 };
        assert_eq!(runs.counters("am/update/touch").unwrap(), counters);
        let few = Runs::parse(&figures, &outputs[..3]).unwrap();
        assert_eq!(few.speedup("am/update/one", "am/update/touch").unwrap().interval, None);
    }
}
