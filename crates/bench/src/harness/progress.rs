//! Progress of the runs, on a terminal.

use std::io::{IsTerminal, Write};
use std::time::Instant;

pub(crate) struct Progress {
    started: Instant,
    runs: usize,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new(runs: usize) -> Self {
        Self { started: Instant::now(), runs, is_terminal: std::io::stderr().is_terminal() }
    }

    pub(crate) fn show(&self, done: usize) {
        if !self.is_terminal {
            return;
        }
        let left = match done {
            0 => String::new(),
            _ => format!(
                ", about {:.0} s left",
                self.started.elapsed().as_secs_f64() / done as f64 * (self.runs - done) as f64
            ),
        };
        eprint!("\r  run {} of {}{left}    ", done + 1, self.runs);
        // Display only: errors are ignored.
        let _ = std::io::stderr().flush();
    }

    pub(crate) fn clear(&self) {
        if self.is_terminal {
            eprint!("\r{:60}\r", "");
        }
    }
}
