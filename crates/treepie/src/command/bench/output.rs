//! What the ranks of a benchmark print, and how it is read: the engine, and a line of microseconds for each case.

use std::fmt::Display;
use std::io::Write;

use anyhow::{bail, ensure};

/// Prints what rank 0 has measured: for each case, microseconds per operation of each batch.
pub(super) fn print<C: Display>(engine: &str, cases: &[C], times: &[Vec<f64>]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "engine {engine}")?;
    for (case, times) in cases.iter().zip(times) {
        writeln!(out, "{}", line(case, times))?;
    }
    Ok(())
}

fn line(case: &impl Display, times: &[f64]) -> String {
    let times: Vec<String> = times.iter().map(|time| format!("{time:.5}")).collect();
    format!("case {case} {}", times.join(" "))
}

/// What a job has printed.
#[derive(Debug, PartialEq)]
pub(crate) struct Printed {
    /// The engine, if it was Treepie.
    pub(crate) engine: Option<String>,
    /// Microseconds per operation, for each case that was asked for the median of its batches.
    pub(crate) micros: Vec<f64>,
}

/// Reads what a job printed for these cases. Other lines may come from anywhere and are passed over.
pub(crate) fn parse(output: &str, cases: &[String]) -> anyhow::Result<Printed> {
    let mut engine = None;
    let mut found: Vec<(&str, f64)> = Vec::new();
    for line in output.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("engine"), Some(name)) => engine = Some(name.to_owned()),
            (Some("case"), Some(case)) => {
                let times: Vec<f64> = words.map(str::parse).collect::<Result<_, _>>().unwrap_or_default();
                ensure!(!times.is_empty() && times.iter().all(|time| *time > 0.0), "no times in the line {line:?}");
                found.push((case, super::statistics::median(&times)));
            }
            _ => {}
        }
    }
    let same = cases.iter().eq(found.iter().map(|(case, _)| case));
    let shown = super::super::one_line(output);
    ensure!(same, "the job did not measure what it was told to, its output was: {shown}");
    Ok(Printed { engine, micros: found.into_iter().map(|(_, micros)| micros).collect() })
}

/// Both sides have sent the same, as lines say that begin with `sent`.
pub(super) fn ensure_same(ours: &[String], theirs: &[String]) -> anyhow::Result<()> {
    let sent = |printed: &String| -> Vec<String> {
        printed.lines().filter(|line| line.starts_with("sent ")).map(str::to_owned).collect()
    };
    let Some(first) = ours.first().map(sent) else { bail!("nothing was measured") };
    for printed in ours.iter().chain(theirs) {
        let other = sent(printed);
        ensure!(other == first, "not everybody sent the same: {} and {}", first.join(", "), other.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let cases = ["ring:8:1:5:2", "allgather:8:5:2"].map(str::to_owned);
        let lines = [line(&cases[0], &[3.0, 1.0, 2.5]), line(&cases[1], &[0.5])];
        let output = format!("engine threads\nsomebody else's line\n{}\n{}\n", lines[0], lines[1]);
        let printed = parse(&output, &cases).unwrap();
        assert_eq!(printed, Printed { engine: Some("threads".to_owned()), micros: vec![2.5, 0.5] });
        assert!(parse(&output, &cases[1..]).is_err());
        assert!(parse("case ring:8:1:5:2 fast", &cases[..1]).is_err());
        assert!(parse("case ring:8:1:5:2 0.0", &cases[..1]).is_err());
        assert!(parse("case ring:8:1:5:2", &cases[..1]).is_err());
    }

    #[test]
    fn a_side_that_sends_something_else_is_found() {
        let printed = |bytes: u32| format!("engine shm\nsent 1:6:1-8:9:9 {bytes}\ncase x 1.0\n");
        assert!(ensure_same(&[printed(5), printed(5)], &[printed(5)]).is_ok());
        assert!(ensure_same(&[printed(5)], &[]).is_ok());
        let told = ensure_same(&[printed(5)], &[printed(6)]).unwrap_err().to_string();
        assert!(told.contains("9:9 5 and sent 1:6:1-8:9:9 6"), "{told}");
        assert!(ensure_same(&[printed(5)], &["engine mpi".to_owned()]).is_err());
    }
}
