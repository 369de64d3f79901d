//! Options of a simulation of programs.

use crate::error::{Error, Result, not_negative};
use crate::time::from_micros;

/// Options of [`run`](super::run).
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Cost of an empty poll in microseconds, above 0.
    pub poll_cost: f64,
    /// Bytes of each rank's stack, from 64 KiB to 1 GiB; 256 KiB by default. Only touched pages take memory. A rank
    /// that needs more hits the guard page below it: a message names the rank and the size, and SIGSEGV ends the
    /// process.
    pub stack_size: usize,
    /// Virtual time limit in microseconds, at which unfinished ranks are ended; unlimited if none.
    pub time_limit: Option<f64>,
    /// Whether to record a trace.
    pub trace: bool,
}

impl Default for Options {
    /// 0.1 us per empty poll, 256 KiB of stack, no time limit, no trace.
    fn default() -> Self {
        Self { poll_cost: 0.1, stack_size: 256 << 10, time_limit: None, trace: false }
    }
}

impl Options {
    /// Refuses options out of range.
    pub(super) fn check(&self) -> Result<()> {
        not_negative("the cost of a poll", self.poll_cost)?;
        if from_micros(self.poll_cost) == 0 {
            let (name, must) = ("the cost of a poll", "at least a picosecond");
            return Err(Error::Parameter { name, must, value: self.poll_cost });
        }
        self.time_limit.map_or(Ok(()), |limit| not_negative("the virtual time limit", limit))?;
        if !(64 << 10..=1 << 30).contains(&self.stack_size) {
            let (name, must) = ("the stack size of a rank", "from 65536 to 1073741824 bytes");
            return Err(Error::Parameter { name, must, value: self.stack_size as f64 });
        }
        Ok(())
    }
}
