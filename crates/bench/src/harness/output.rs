//! Output format of a benchmark's ranks, and its parser: the engine, and a line of microseconds for each case.

use std::io::Write;
use std::str::SplitWhitespace;

use anyhow::{Context, bail, ensure};

use super::rank::Measured;
use super::statistics::median;
use crate::diagnostics::one_line;

/// Prints, on rank 0, for each case the microseconds per operation of each batch, and then the further lines.
pub(crate) fn print(engine: &str, cases: &[String], measured: &Measured) -> anyhow::Result<()> {
    Ok(std::io::stdout().lock().write_all(format(engine, cases, measured).as_bytes())?)
}

pub(crate) fn format(engine: &str, cases: &[String], measured: &Measured) -> String {
    let case_line = |(case, times): (&String, &Vec<f64>)| {
        let times: String = times.iter().map(|time| format!(" {time:.5}")).collect();
        format!("case {case}{times}\n")
    };
    let cases: String = cases.iter().zip(&measured.times).map(case_line).collect();
    let lines: String = measured.lines.iter().map(|line| format!("{line}\n")).collect();
    format!("engine {engine}\n{cases}{lines}")
}

/// The words after the case in the line of a job's output that starts with `kind` and the case.
pub(crate) fn find<'a>(output: &'a str, kind: &str, case: &str) -> anyhow::Result<SplitWhitespace<'a>> {
    let words = output.lines().map(str::split_whitespace);
    let mut found = words.filter_map(|mut words| (words.next()? == kind && words.next()? == case).then_some(words));
    found.next().with_context(|| format!("no output for {case}"))
}

/// The output of a job.
#[derive(Debug, PartialEq)]
pub struct JobOutput {
    /// The engine, for Treepie's jobs.
    pub engine: Option<String>,
    /// Microseconds per operation of each case, one for each batch.
    pub batches: Vec<Vec<f64>>,
}

impl JobOutput {
    /// Microseconds per operation of each case, median of its batches.
    pub fn micros(&self) -> Vec<f64> {
        self.batches.iter().map(|times| median(times)).collect()
    }
}

/// Parses a job's output for these cases. Other lines are ignored.
pub fn parse(output: &str, cases: &[String]) -> anyhow::Result<JobOutput> {
    let mut engine = None;
    let mut found: Vec<(&str, Vec<f64>)> = Vec::new();
    for line in output.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("engine"), Some(name)) => engine = Some(name.to_owned()),
            (Some("case"), Some(case)) => {
                let times: Vec<f64> = words.map(str::parse).collect::<Result<_, _>>().unwrap_or_default();
                ensure!(!times.is_empty() && times.iter().all(|time| *time > 0.0), "no times in the line {line:?}");
                found.push((case, times));
            }
            _ => {}
        }
    }
    let same = cases.iter().eq(found.iter().map(|(case, _)| case));
    let shown = one_line(output);
    ensure!(same, "the job did not measure the requested cases; its output was: {shown}");
    Ok(JobOutput { engine, batches: found.into_iter().map(|(_, times)| times).collect() })
}

/// Checks that both sides have sent the same data, by the lines that start with `sent`.
pub(crate) fn ensure_same_sends(ours: &[String], theirs: &[String]) -> anyhow::Result<()> {
    let sent = |printed: &String| -> Vec<String> {
        printed.lines().filter(|line| line.starts_with("sent ")).map(str::to_owned).collect()
    };
    let Some(first) = ours.first().map(sent) else { bail!("nothing was measured") };
    for printed in ours.iter().chain(theirs) {
        let other = sent(printed);
        ensure!(other == first, "the sides sent different data: {} and {}", first.join(", "), other.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_round_trips() {
        let cases = ["ring:8:1:5:2", "allgather:8:5:2"].map(str::to_owned);
        let lines = ["somebody else's line", "about allgather:8:5:2 7 8"].map(str::to_owned).to_vec();
        let measured = Measured { times: vec![vec![3.0, 1.0, 2.5], vec![0.5]], lines };
        let output = format("threads", &cases, &measured);
        assert!(output.starts_with("engine threads\ncase ring:8:1:5:2 3.00000 1.00000 2.50000\n"), "{output}");
        assert_eq!(find(&output, "about", &cases[1]).unwrap().collect::<Vec<_>>(), ["7", "8"]);
        assert!(find(&output, "about", &cases[0]).is_err());
        let printed = parse(&output, &cases).unwrap();
        assert_eq!((printed.engine.as_deref(), printed.micros()), (Some("threads"), vec![2.5, 0.5]));
        assert_eq!(printed.batches, measured.times);
        assert!(parse(&output, &cases[1..]).is_err());
        assert!(parse("case ring:8:1:5:2 fast", &cases[..1]).is_err());
        assert!(parse("case ring:8:1:5:2 0.0", &cases[..1]).is_err());
        assert!(parse("case ring:8:1:5:2", &cases[..1]).is_err());
    }

    #[test]
    fn different_sends_are_found() {
        let printed = |bytes: u32| format!("engine shm\nsent 1:6:1-8:9:9 {bytes}\ncase x 1.0\n");
        assert!(ensure_same_sends(&[printed(5), printed(5)], &[printed(5)]).is_ok());
        assert!(ensure_same_sends(&[printed(5)], &[]).is_ok());
        let error = ensure_same_sends(&[printed(5)], &[printed(6)]).unwrap_err().to_string();
        assert!(error.contains("9:9 5 and sent 1:6:1-8:9:9 6"), "{error}");
        assert!(ensure_same_sends(&[printed(5)], &["engine mpi".to_owned()]).is_err());
    }
}
