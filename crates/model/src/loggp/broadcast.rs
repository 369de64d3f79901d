//! How many ranks a short message can reach in a time, and the tree that does it.   [NBX paper 2.3; Karp et al. 1993]
//!
//! The root sends every max(o, g); who receives begins to send L + 2o after it was sent to. So a rank that is b
//! messages from the root is reached at b (L + 2o) + a max(o, g), where a counts the children that were served before
//! on the way, and C(a+b-1, b-1) ranks have the same a and b. The recurrence P(t) = P(t - o) + P(t - L - 2o) is the sum
//! of those.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::LogGP;

/// Between what a quantity lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// At least.
    pub lower: f64,
    /// At most.
    pub upper: f64,
}

/// The tree that reaches all ranks first. Ranks are numbered in the order in which they are reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Greedy {
    /// When the last rank is reached.
    pub time: f64,
    /// The parent of each rank; of the root, itself. A rank serves its children in rising order.
    pub parents: Vec<u32>,
    /// When each rank is reached.
    pub reached: Vec<f64>,
}

/// Sums of parameters that should be equal may differ in the last bits.
const ROUNDING: f64 = 1e-9;

impl LogGP {
    /// P(t): how many ranks a message can reach in that time, the root among them, or the largest number. In no
    /// time, or in what is no time at all, only the root. Equation 1.
    pub fn reach(&self, time: f64) -> u64 {
        if time.is_nan() || time <= 0.0 {
            return 1;
        }
        let (spacing, message) = (self.spacing(), self.message());
        let mut all = 0u64;
        // Of the ranks that are b messages away: C(A+b, b), where A children more than needed could be served.
        for hops in 0.. {
            let left = time - hops as f64 * message;
            if left < -ROUNDING * time.abs() {
                break;
            }
            let more = (left / spacing + ROUNDING).floor().max(0.0) as u64;
            all = all.saturating_add(if hops == 0 { 1 } else { binomial(more.saturating_add(hops), hops) });
            if all == u64::MAX {
                break;
            }
        }
        all.max(1)
    }

    /// Between what P(t) lies: 2^floor(t/(L+2o)) and 2^floor(t/o). Lemma 1.
    pub fn reach_bounds(&self, time: f64) -> Bounds {
        let power = |step: f64| (time / step + ROUNDING).floor().max(0.0).exp2();
        let (spacing, message) = (self.spacing(), self.message());
        Bounds { lower: power(spacing.max(message)), upper: power(spacing.min(message)) }
    }

    /// Between what T_BC(P) lies: lg P o and lg P (L + 2o). Corollary 1.
    pub fn broadcast_bounds(&self, ranks: u32) -> Bounds {
        let lg = f64::from(ranks).log2();
        let (spacing, message) = (self.spacing(), self.message());
        Bounds { lower: lg * spacing.min(message), upper: lg * spacing.max(message) }
    }

    /// T_BC(P) of the best tree: the least t with P(t) >= P. Costs a step for each time before it at which
    /// somebody may be reached: some hundred where L + 2o is a few times max(o, g), up to P where it is very many.
    pub fn broadcast(&self, ranks: u32) -> f64 {
        if ranks <= 1 {
            return 0.0;
        }
        let (spacing, message) = (self.spacing(), self.message());
        // All (a, b) in the order of their times; each is found from the one with an a or b less.
        let key = |a: u64, b: u64| (a as f64 * spacing + b as f64 * message).to_bits();
        let mut next = BinaryHeap::from([Reverse((key(0, 1), 0u64, 1u64))]);
        let mut all = 1u64;
        while let Some(Reverse((time, a, b))) = next.pop() {
            all = all.saturating_add(binomial(a + b - 1, b - 1));
            if all >= u64::from(ranks) {
                return f64::from_bits(time);
            }
            next.push(Reverse((key(a + 1, b), a + 1, b)));
            if a == 0 {
                next.push(Reverse((key(0, b + 1), 0, b + 1)));
            }
        }
        unreachable!("there is always a later time")
    }

    /// The tree: each next rank is served by whoever can do it first.
    pub fn greedy(&self, ranks: u32) -> Greedy {
        let (spacing, message) = (self.spacing(), self.message());
        // When the next rank that somebody serves is reached, and who serves it. Times from 0 on are ordered as their
        // bits.
        let mut next = BinaryHeap::from([Reverse((message.to_bits(), 0u32))]);
        let (mut parents, mut reached) = (vec![0], vec![0.0]);
        for rank in 1..ranks {
            let Some(Reverse((time, parent))) = next.pop() else { break };
            let time = f64::from_bits(time);
            parents.push(parent);
            reached.push(time);
            next.push(Reverse(((time + spacing).to_bits(), parent)));
            next.push(Reverse(((time + message).to_bits(), rank)));
        }
        Greedy { time: reached.iter().copied().fold(0.0, f64::max), parents, reached }
    }

    /// A census: everybody learns the combination of what all have. At least, and with the best tree at most about, a
    /// broadcast. A barrier is one.
    pub fn census(&self, ranks: u32) -> f64 {
        self.broadcast(ranks)
    }

    /// A personalised census, each rank with a result of its own: at least G(P-1) + (L + 2o - G) ceil(lg P). Lemma 2,
    /// as it is printed.
    pub fn personalised_census(&self, ranks: u32) -> f64 {
        let stages = f64::from(ranks.next_power_of_two().trailing_zeros());
        self.per_byte * f64::from(ranks.saturating_sub(1)) + (self.message() - self.per_byte) * stages
    }

    /// A personalised exchange, each rank with something for each other: at least as long. Lemma 3.
    pub fn personalised_exchange(&self, ranks: u32) -> f64 {
        self.personalised_census(ranks)
    }
}

/// n over k, or the largest number.
fn binomial(n: u64, k: u64) -> u64 {
    let mut all = 1u128;
    for i in 0..k.min(n - k) {
        all = all * u128::from(n - i) / u128::from(i + 1);
        if all > u128::from(u64::MAX) {
            return u64::MAX;
        }
    }
    all as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_recurrence() {
        fn recurrence(network: &LogGP, time: f64) -> u64 {
            if time < network.message() - 1e-9 {
                return 1;
            }
            recurrence(network, time - network.spacing()) + recurrence(network, time - network.message())
        }
        for (latency, overhead, gap) in [(4.29, 2.87, 2.04), (9.9, 1.75, 3.4), (0.0, 1.0, 0.0), (0.5, 0.1, 2.0)] {
            let network = LogGP::new(latency, overhead, gap, 0.0).unwrap();
            for tenths in 0..250 {
                let time = f64::from(tenths) / 10.0;
                assert_eq!(network.reach(time), recurrence(&network, time), "{network:?} at {time}");
            }
        }
    }

    #[test]
    fn any_time_has_an_answer() {
        let networks = [(4.29, 2.87, 2.04), (1.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1e9, 1e-9, 0.0)];
        for (latency, overhead, gap) in networks {
            let network = LogGP::new(latency, overhead, gap, 0.0).unwrap();
            assert_eq!(network.reach(f64::INFINITY), u64::MAX, "{network:?}");
            assert_eq!(network.reach(f64::MAX), u64::MAX, "{network:?}");
            assert_eq!((network.reach(f64::NAN), network.reach(-1.0), network.reach(f64::NEG_INFINITY)), (1, 1, 1));
        }
    }

    #[test]
    fn the_tree_takes_as_long_as_the_sum_says() {
        for (latency, overhead, gap) in [(4.29, 2.87, 2.04), (9.9, 1.75, 3.4), (1.0, 0.0, 1.0)] {
            let network = LogGP::new(latency, overhead, gap, 0.0).unwrap();
            for ranks in (1..100).chain([1000, 8192]) {
                let tree = network.greedy(ranks);
                assert!((tree.time - network.broadcast(ranks)).abs() < 1e-6, "{ranks} ranks");
                assert!(network.reach(tree.time) >= u64::from(ranks), "{ranks} ranks");
                let mut served = vec![0; ranks as usize];
                for rank in 1..ranks as usize {
                    let parent = tree.parents[rank] as usize;
                    let sent = tree.reached[parent] + f64::from(served[parent]) * network.spacing();
                    assert!((tree.reached[rank] - sent - network.message()).abs() < 1e-6, "rank {rank} of {ranks}");
                    served[parent] += 1;
                }
            }
        }
    }
}
