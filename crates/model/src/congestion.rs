//! Start-ups, bytes over shared links, and combined bytes: the cost of any schedule on any network.
//!
//! The cost is alpha for each message that the busiest rank sends or receives, delta for each byte on the busiest link,
//! stage by stage, and gamma for each combined byte. The terms are counted from the schedule (`schedule::count`); that
//! module states for which schedules the sum is their time.   [thesis 3.1, 3.5.6]

use treepie_schedule::count::{ScheduleCost, count};
use treepie_schedule::{BlockLayouts, BufferMap, RoundList, Schedule, ScheduleOp};
use treepie_topology::{Network, NetworkKind};

use crate::Result;
use crate::error::{not_negative, positive};

/// Cost parameters in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostParams {
    /// Start-up of a message.
    pub alpha: f64,
    /// Time per byte without congestion: on a flat network.
    pub beta: f64,
    /// Time per combined byte.
    pub gamma: f64,
    /// Time per byte over a link.
    pub delta: f64,
    /// Number of active ports from which they cannot all be saturated; 0 for none.
    pub saturated_ports: u32,
    /// Fraction of their bandwidth that is left then.
    pub port_efficiency: f64,
}

impl CostParams {
    /// All costs are zero.
    pub const ZERO: Self =
        Self { alpha: 0.0, beta: 0.0, gamma: 0.0, delta: 0.0, saturated_ports: 0, port_efficiency: 1.0 };

    /// A start-up, and links of a bandwidth in bytes per microsecond.
    pub fn new(alpha: f64, bandwidth: f64) -> Result<Self> {
        positive("the bandwidth", bandwidth)?;
        Self { alpha, beta: 1.0 / bandwidth, delta: 1.0 / bandwidth, ..Self::ZERO }.validated()
    }

    /// Refuses parameters out of range.
    pub fn validated(self) -> Result<Self> {
        not_negative("the start-up alpha", self.alpha)?;
        not_negative("the time per byte beta", self.beta)?;
        not_negative("the time per combined byte gamma", self.gamma)?;
        not_negative("the time per byte of a link delta", self.delta)?;
        positive("the port efficiency", self.port_efficiency)?;
        Ok(self)
    }

    /// Time per byte where a rank drives `ports` links of the network at once.
    pub fn per_byte(&self, network: &Network, ports: u32) -> f64 {
        let is_saturated = self.saturated_ports > 0 && ports >= self.saturated_ports;
        let per_byte = if matches!(network.kind(), NetworkKind::Flat(_)) { self.beta } else { self.delta };
        if is_saturated { per_byte / self.port_efficiency } else { per_byte }
    }

    /// Time of cost terms on a network.
    pub fn time(&self, terms: &CostTerms, network: &Network) -> f64 {
        self.alpha * terms.alpha + self.per_byte(network, terms.ports) * terms.delta + self.gamma * terms.gamma
    }
}

/// Cost terms: how often each parameter is paid.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostTerms {
    /// Latencies on the critical path: messages that are sent only after another has arrived. In the thesis's model a
    /// start-up holds its latency, and these are free.
    pub steps: f64,
    /// Start-ups on the critical path: messages of the busiest rank.
    pub alpha: f64,
    /// Bytes over a link on the critical path.
    pub delta: f64,
    /// Combined bytes on the critical path.
    pub gamma: f64,
    /// Links that a rank drives at once.
    pub ports: u32,
}

impl CostTerms {
    /// Start-ups, each of which waits for the one before, and bytes, over one port.
    pub const fn new(alpha: f64, delta: f64) -> Self {
        Self { steps: alpha, alpha, delta, gamma: 0.0, ports: 1 }
    }

    /// With this number of latencies: of several messages in a row only the last one's counts.
    pub const fn with_steps(self, steps: f64) -> Self {
        Self { steps, ..self }
    }

    /// With combined bytes.
    pub const fn with_gamma(self, gamma: f64) -> Self {
        Self { gamma, ..self }
    }

    /// The terms of two operations in sequence.
    pub fn then(self, next: Self) -> Self {
        Self {
            steps: self.steps + next.steps,
            alpha: self.alpha + next.alpha,
            delta: self.delta + next.delta,
            gamma: self.gamma + next.gamma,
            ports: self.ports.max(next.ports),
        }
    }

    /// The terms of an operation repeated.
    pub fn times(self, times: f64) -> Self {
        Self {
            steps: self.steps * times,
            alpha: self.alpha * times,
            delta: self.delta * times,
            gamma: self.gamma * times,
            ports: self.ports,
        }
    }

    /// Terms of a counted schedule with elements of `element` bytes. A count has neither combined bytes nor ports, and
    /// each of its rounds is a step.
    pub fn from_count(count: &ScheduleCost, element: f64) -> Self {
        let rounds: usize = count.phases.iter().map(|phase| phase.rounds.len()).sum();
        Self::new(count.alpha() as f64, count.delta() * element).with_steps(rounds as f64)
    }
}

/// Terms of a schedule on a network with elements of `element` bytes, all counted.
pub fn count_terms(
    schedule: &dyn Schedule,
    layouts: &dyn Fn(u32) -> BlockLayouts,
    network: &Network,
    element: f64,
) -> CostTerms {
    let counted = CostTerms::from_count(&count(schedule, layouts, network), element);
    let gamma = max_combined_elements(schedule, layouts) as f64 * element;
    CostTerms { gamma, ports: concurrent_ports(schedule), ..counted }
}

/// Links that a rank drives at once: the lanes of a phase that are all open. Lanes with a window are a pipeline.
pub fn concurrent_ports(schedule: &dyn Schedule) -> u32 {
    let phases = (0..schedule.phases()).map(|phase| schedule.phase(phase));
    phases.filter(|phase| phase.window == u32::MAX).map(|phase| phase.lanes).max().unwrap_or(1).max(1)
}

/// The maximum number of elements that a rank combines.
pub fn max_combined_elements(schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> BlockLayouts) -> u64 {
    if !schedule.operation().is_reduction() {
        return 0;
    }
    let mut ops = RoundList::new();
    let mut of_rank = |rank: u32| {
        let layouts = layouts(rank);
        let buffers = BufferMap { schedule, layouts: &layouts, rank };
        let mut elements = 0;
        for phase in 0..schedule.phases() {
            for lane in 0..schedule.phase(phase).lanes {
                ops.clear();
                schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut ops);
                for op in ops.iter().flatten() {
                    if let ScheduleOp::RecvReduce { part, .. } | ScheduleOp::Reduce { into: part, .. } = *op {
                        elements += buffers.range_len(part) as u64;
                    }
                }
            }
        }
        elements
    };
    (0..schedule.ranks()).map(&mut of_rank).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_out_of_range_are_refused() {
        let message = |params: Result<CostParams>| params.unwrap_err().to_string();
        assert_eq!(message(CostParams::new(1.0, 0.0)), "the bandwidth is 0, and must be a positive number");
        assert_eq!(message(CostParams::new(-1.0, 1.0)), "the start-up alpha is -1, and must be a non-negative number");
        assert_eq!(
            message(CostParams::new(f64::NAN, 1.0)),
            "the start-up alpha is NaN, and must be a non-negative number"
        );
        let all = CostParams { port_efficiency: 0.0, ..CostParams::ZERO };
        assert_eq!(message(all.validated()), "the port efficiency is 0, and must be a positive number");
    }
}
