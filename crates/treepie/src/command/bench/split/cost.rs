//! What a part of a split costs a rank: what it computes, which is measured, and what it sends, which is charged by a model.

use std::ops::AddAssign;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What a rank has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Seconds of its CPU.
    pub(super) cpu: f64,
    pub(super) messages: f64,
    pub(super) bytes: f64,
}

impl Cost {
    /// Does this and counts what it took.
    pub(super) fn time<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let begun = cpu_time();
        let done = what();
        self.cpu += (cpu_time() - begun).as_secs_f64();
        done
    }

    pub(super) fn sends(&mut self, bytes: usize) {
        self.messages += 1.0;
        self.bytes += bytes as f64;
    }

    /// With what messages take by a model.
    pub(super) fn seconds(&self, transfer: &Transfer) -> f64 {
        self.cpu + self.sent(transfer)
    }

    /// Only that.
    pub(super) fn sent(&self, transfer: &Transfer) -> f64 {
        self.messages * transfer.latency + self.bytes * transfer.per_byte
    }

    pub(super) fn over(self, count: f64) -> Self {
        Self { cpu: self.cpu / count, messages: self.messages / count, bytes: self.bytes / count }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// How long messages take: seconds of each, and of each byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transfer {
    pub(super) latency: f64,
    pub(super) per_byte: f64,
}

/// What this thread has computed. That others run meanwhile does not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_charged() {
        let mut cost = Cost::default();
        cost.sends(100);
        cost.sends(300);
        let transfer = Transfer { latency: 2.0, per_byte: 0.5 };
        assert_eq!((cost.sent(&transfer), cost.seconds(&transfer)), (204.0, 204.0));
        assert_eq!(cost.over(2.0).seconds(&transfer), 102.0);
    }

    #[test]
    fn who_sleeps_computes_nothing() {
        let mut cost = Cost::default();
        cost.time(|| std::thread::sleep(Duration::from_millis(50)));
        assert!(cost.cpu < 0.025, "{cost:?}");
    }
}
