//! How long a wait has gone on.

use std::time::Duration;

/// The backoff state of a wait.
#[derive(Default)]
pub struct Backoff {
    pub(crate) round: u32,
    /// Number of stall checks since the last event.
    pub(crate) checks: u32,
    pub(crate) since: Option<Duration>,
    pub(crate) reports: u32,
    pub(crate) pings: u32,
}

impl Backoff {
    /// Restarts the backoff after an event. The operation has not completed, so the waiting time continues.
    #[inline]
    pub fn reset(&mut self) {
        self.round = 0;
        self.checks = 0;
    }

    pub(crate) fn waited(&self, now: Duration) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now - since)
    }
}
