//! Cost of a part of a split on a rank: computation is measured, messages are charged by a model.

use std::ops::AddAssign;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The cost of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Seconds of its CPU.
    pub(super) cpu: f64,
    pub(super) messages: f64,
    pub(super) bytes: f64,
}

impl Cost {
    /// Runs something and adds its CPU time.
    pub(super) fn time<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let start = cpu_time();
        let result = what();
        self.cpu += (cpu_time() - start).as_secs_f64();
        result
    }

    pub(super) fn add_message(&mut self, bytes: usize) {
        self.messages += 1.0;
        self.bytes += bytes as f64;
    }

    /// CPU time and message time.
    pub(super) fn seconds(&self, model: &HockneyModel) -> f64 {
        self.cpu + self.message_seconds(model)
    }

    /// Message time by the model.
    pub(super) fn message_seconds(&self, model: &HockneyModel) -> f64 {
        self.messages * model.latency + self.bytes * model.per_byte
    }

    pub(super) fn divided_by(self, count: f64) -> Self {
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

/// Hockney's model: seconds per message, and per byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HockneyModel {
    pub(super) latency: f64,
    pub(super) per_byte: f64,
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_charged() {
        let mut cost = Cost::default();
        cost.add_message(100);
        cost.add_message(300);
        let model = HockneyModel { latency: 2.0, per_byte: 0.5 };
        assert_eq!((cost.message_seconds(&model), cost.seconds(&model)), (204.0, 204.0));
        assert_eq!(cost.divided_by(2.0).seconds(&model), 102.0);
    }

    #[test]
    fn sleeping_costs_no_cpu_time() {
        let mut cost = Cost::default();
        cost.time(|| std::thread::sleep(Duration::from_millis(50)));
        assert!(cost.cpu < 0.025, "{cost:?}");
    }
}
