//! Start-ups, bytes over links that messages share, and bytes combined: what any schedule costs on any network.
//!
//! The cost is alpha for each message that the busiest rank sends or receives, delta for each byte that the busiest
//! link carries, stage by stage, and gamma for each byte that is combined. How many there are is counted from the
//! schedule (`schedule::count`); that module says for which schedules the sum is their time.   [thesis 3.1, 3.5.6]

use treepie_schedule::count::{Count, count};
use treepie_schedule::{Layouts, Op, Places, Rounds, Schedule};
use treepie_topology::{Kind, Network};

use crate::Result;
use crate::error::{not_negative, positive};

/// What things cost, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Of a message's start-up.
    pub alpha: f64,
    /// Of a byte where there is no congestion: on a flat network.
    pub beta: f64,
    /// Of a byte that is combined with another.
    pub gamma: f64,
    /// Of a byte over a link.
    pub delta: f64,
    /// The number of a node's ports from which they cannot all be filled; 0 for none.
    pub ports: u32,
    /// The share of their bandwidth that they have then.
    pub ports_share: f64,
}

impl Prices {
    /// Nothing costs anything.
    pub const FREE: Self = Self { alpha: 0.0, beta: 0.0, gamma: 0.0, delta: 0.0, ports: 0, ports_share: 1.0 };

    /// With a start-up, and links that carry so many bytes a microsecond.
    pub fn new(alpha: f64, bandwidth: f64) -> Result<Self> {
        positive("the bandwidth", bandwidth)?;
        Self { alpha, beta: 1.0 / bandwidth, delta: 1.0 / bandwidth, ..Self::FREE }.checked()
    }

    /// Refuses prices that cannot be.
    pub fn checked(self) -> Result<Self> {
        not_negative("the start-up alpha", self.alpha)?;
        not_negative("the time per byte beta", self.beta)?;
        not_negative("the time per combined byte gamma", self.gamma)?;
        not_negative("the time per byte of a link delta", self.delta)?;
        positive("the share of all ports' bandwidth", self.ports_share)?;
        Ok(self)
    }

    /// Of a byte where a rank drives so many links of the network at once.
    pub fn per_byte(&self, network: &Network, ports: u32) -> f64 {
        let all = self.ports > 0 && ports >= self.ports;
        let price = if matches!(network.kind(), Kind::Flat(_)) { self.beta } else { self.delta };
        if all { price / self.ports_share } else { price }
    }

    /// How long something takes on a network.
    pub fn time(&self, terms: &Terms, network: &Network) -> f64 {
        self.alpha * terms.alpha + self.per_byte(network, terms.ports) * terms.delta + self.gamma * terms.gamma
    }
}

/// How much of each there is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// Start-ups, one after the other.
    pub alpha: f64,
    /// Bytes over a link, one after the other.
    pub delta: f64,
    /// Bytes combined, one after the other.
    pub gamma: f64,
    /// Links that a rank drives at once.
    pub ports: u32,
}

impl Terms {
    /// So many start-ups and bytes, over one port.
    pub const fn new(alpha: f64, delta: f64) -> Self {
        Self { alpha, delta, gamma: 0.0, ports: 1 }
    }

    /// With so many bytes combined.
    pub const fn combining(self, gamma: f64) -> Self {
        Self { gamma, ..self }
    }

    /// One after the other.
    pub fn then(self, next: Self) -> Self {
        Self {
            alpha: self.alpha + next.alpha,
            delta: self.delta + next.delta,
            gamma: self.gamma + next.gamma,
            ports: self.ports.max(next.ports),
        }
    }

    /// So many times.
    pub fn times(self, times: f64) -> Self {
        Self { alpha: self.alpha * times, delta: self.delta * times, gamma: self.gamma * times, ports: self.ports }
    }

    /// Of a counted schedule with elements of so many bytes. What it combines, and how many ports it drives, a count
    /// does not say.
    pub fn counted(count: &Count, element: f64) -> Self {
        Self::new(count.alpha() as f64, count.delta() * element)
    }
}

/// What a schedule costs on a network, with elements of so many bytes: counted, all of it.
pub fn terms(schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> Layouts, network: &Network, element: f64) -> Terms {
    let counted = Terms::counted(&count(schedule, layouts, network), element);
    let gamma = combined(schedule, layouts) as f64 * element;
    Terms { gamma, ports: ports(schedule), ..counted }
}

/// Links that a rank drives at once: lanes of a phase that are all open at once. Lanes with a window are a pipeline.
pub fn ports(schedule: &dyn Schedule) -> u32 {
    let phases = (0..schedule.phases()).map(|phase| schedule.phase(phase));
    phases.filter(|phase| phase.window == u32::MAX).map(|phase| phase.lanes).max().unwrap_or(1).max(1)
}

/// The most elements that one rank combines.
pub fn combined(schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> Layouts) -> u64 {
    if !schedule.operation().reduces() {
        return 0;
    }
    let mut ops = Rounds::new();
    let mut of_rank = |rank: u32| {
        let layouts = layouts(rank);
        let places = Places { schedule, layouts: &layouts, rank };
        let mut elements = 0;
        for phase in 0..schedule.phases() {
            for lane in 0..schedule.phase(phase).lanes {
                ops.clear();
                schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut ops);
                for op in ops.iter().flatten() {
                    if let Op::RecvReduce { part, .. } | Op::Reduce { into: part, .. } = *op {
                        elements += places.len(part) as u64;
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
    fn prices_that_cannot_be_are_refused() {
        let message = |prices: Result<Prices>| prices.unwrap_err().to_string();
        assert_eq!(message(Prices::new(1.0, 0.0)), "the bandwidth is 0, and must be a number above 0");
        assert_eq!(message(Prices::new(-1.0, 1.0)), "the start-up alpha is -1, and must be a number from 0 on");
        assert_eq!(message(Prices::new(f64::NAN, 1.0)), "the start-up alpha is NaN, and must be a number from 0 on");
        let all = Prices { ports_share: 0.0, ..Prices::FREE };
        assert_eq!(message(all.checked()), "the share of all ports' bandwidth is 0, and must be a number above 0");
    }
}
