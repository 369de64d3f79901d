//! How far the runs are, where somebody looks.

use std::io::{IsTerminal, Write};
use std::time::Instant;

pub(super) struct Progress {
    begun: Instant,
    runs: usize,
    is_seen: bool,
}

impl Progress {
    pub(super) fn new(runs: usize) -> Self {
        Self { begun: Instant::now(), runs, is_seen: std::io::stderr().is_terminal() }
    }

    pub(super) fn show(&self, done: usize) {
        if !self.is_seen {
            return;
        }
        let left = match done {
            0 => String::new(),
            _ => format!(
                ", about {:.0} s left",
                self.begun.elapsed().as_secs_f64() / done as f64 * (self.runs - done) as f64
            ),
        };
        eprint!("\r  run {} of {}{left}    ", done + 1, self.runs);
        // It is only for the eyes.
        let _ = std::io::stderr().flush();
    }

    pub(super) fn end(&self) {
        if self.is_seen {
            eprint!("\r{:60}\r", "");
        }
    }
}
