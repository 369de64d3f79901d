//! Broadcast of a short message: how many ranks it reaches in a time, and the greedy tree.   [NBX paper 2.3; Karp et
//! al. 1993]
//!
//! The root sends every max(o, g); a receiver starts to send L + 2o after it was sent to. So a rank that is b messages
//! from the root is reached at b (L + 2o) + a max(o, g), where a counts the children served before on the path, and
//! C(a+b-1, b-1) ranks have the same a and b. The recurrence P(t) = P(t - o) + P(t - L - 2o) is the sum of those.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::LogGP;

/// Lower and upper bound of a quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Lower bound.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
}

/// The greedy broadcast tree, which is optimal. Ranks are numbered in the order in which they are reached.
#[derive(Clone, Debug, PartialEq)]
pub struct GreedyTree {
    /// When the last rank is reached.
    pub time: f64,
    /// The parent of each rank; the root is its own. A rank serves its children in increasing order.
    pub parents: Vec<u32>,
    /// When each rank is reached.
    pub reached: Vec<f64>,
}

/// Tolerance for sums of parameters that are equal up to rounding.
const ROUNDING: f64 = 1e-9;

impl LogGP {
    /// P(t): number of ranks that a message reaches in time t, the root included, saturating. 1 if t is not positive.
    /// Equation 1.
    pub fn reachable_ranks(&self, time: f64) -> u64 {
        if time.is_nan() || time <= 0.0 {
            return 1;
        }
        let (interval, message_time) = (self.message_interval(), self.short_message_time());
        let mut all = 0u64;
        // Ranks at b messages: C(A+b, b), where A more children could be served in the remaining time.
        for hops in 0.. {
            let left = time - hops as f64 * message_time;
            if left < -ROUNDING * time.abs() {
                break;
            }
            let extra_children = (left / interval + ROUNDING).floor().max(0.0) as u64;
            all = all.saturating_add(if hops == 0 { 1 } else { binomial(extra_children.saturating_add(hops), hops) });
            if all == u64::MAX {
                break;
            }
        }
        all.max(1)
    }

    /// Bounds of P(t): 2^floor(t/(L+2o)) and 2^floor(t/o). Lemma 1.
    pub fn reachable_ranks_bounds(&self, time: f64) -> Bounds {
        let power = |step: f64| (time / step + ROUNDING).floor().max(0.0).exp2();
        let (interval, message_time) = (self.message_interval(), self.short_message_time());
        Bounds { lower: power(interval.max(message_time)), upper: power(interval.min(message_time)) }
    }

    /// Bounds of T_BC(P): lg P o and lg P (L + 2o). Corollary 1.
    pub fn broadcast_bounds(&self, ranks: u32) -> Bounds {
        let lg = f64::from(ranks).log2();
        let (interval, message_time) = (self.message_interval(), self.short_message_time());
        Bounds { lower: lg * interval.min(message_time), upper: lg * interval.max(message_time) }
    }

    /// T_BC(P) of the greedy tree: the least t with P(t) >= P. Takes a step for each earlier time at which a rank may
    /// be reached: some hundred where L + 2o is a few times max(o, g), up to P where it is very many.
    pub fn broadcast(&self, ranks: u32) -> f64 {
        if ranks <= 1 {
            return 0.0;
        }
        let (interval, message_time) = (self.message_interval(), self.short_message_time());
        // All (a, b) by time; each is generated from the one with a or b less by one.
        let key = |a: u64, b: u64| (a as f64 * interval + b as f64 * message_time).to_bits();
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

    /// Builds the greedy tree: each next rank is served by the rank that can reach it first.
    pub fn greedy_tree(&self, ranks: u32) -> GreedyTree {
        let (interval, message_time) = (self.message_interval(), self.short_message_time());
        // Arrival of the next child of each reached rank, and that rank. Non-negative times order like their bits.
        let mut next = BinaryHeap::from([Reverse((message_time.to_bits(), 0u32))]);
        let (mut parents, mut reached) = (vec![0], vec![0.0]);
        for rank in 1..ranks {
            let Some(Reverse((time, parent))) = next.pop() else { break };
            let time = f64::from_bits(time);
            parents.push(parent);
            reached.push(time);
            next.push(Reverse(((time + interval).to_bits(), parent)));
            next.push(Reverse(((time + message_time).to_bits(), rank)));
        }
        GreedyTree { time: reached.iter().copied().fold(0.0, f64::max), parents, reached }
    }

    /// A census: all ranks learn the combination of all values. At least a broadcast, and with the greedy tree about
    /// that. A barrier is one.
    pub fn census(&self, ranks: u32) -> f64 {
        self.broadcast(ranks)
    }

    /// A personalised census, each rank with its own result: at least G(P-1) + (L + 2o - G) ceil(lg P). Lemma 2, as
    /// printed.
    pub fn personalised_census(&self, ranks: u32) -> f64 {
        let stages = f64::from(ranks.next_power_of_two().trailing_zeros());
        self.per_byte * f64::from(ranks.saturating_sub(1)) + (self.short_message_time() - self.per_byte) * stages
    }

    /// A personalised exchange, each rank with a value for each other: at least as long. Lemma 3.
    pub fn personalised_exchange(&self, ranks: u32) -> f64 {
        self.personalised_census(ranks)
    }
}

/// Binomial coefficient n over k, saturating.
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
    fn the_sum_equals_the_recurrence() {
        fn recurrence(network: &LogGP, time: f64) -> u64 {
            if time < network.short_message_time() - 1e-9 {
                return 1;
            }
            recurrence(network, time - network.message_interval())
                + recurrence(network, time - network.short_message_time())
        }
        for (latency, overhead, gap) in [(4.29, 2.87, 2.04), (9.9, 1.75, 3.4), (0.0, 1.0, 0.0), (0.5, 0.1, 2.0)] {
            let network = LogGP::new(latency, overhead, gap, 0.0).unwrap();
            for tenths in 0..250 {
                let time = f64::from(tenths) / 10.0;
                assert_eq!(network.reachable_ranks(time), recurrence(&network, time), "{network:?} at {time}");
            }
        }
    }

    #[test]
    fn reachable_ranks_of_extreme_times() {
        let networks = [(4.29, 2.87, 2.04), (1.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1e9, 1e-9, 0.0)];
        for (latency, overhead, gap) in networks {
            let network = LogGP::new(latency, overhead, gap, 0.0).unwrap();
            assert_eq!(network.reachable_ranks(f64::INFINITY), u64::MAX, "{network:?}");
            assert_eq!(network.reachable_ranks(f64::MAX), u64::MAX, "{network:?}");
            assert_eq!(
                (
                    network.reachable_ranks(f64::NAN),
                    network.reachable_ranks(-1.0),
                    network.reachable_ranks(f64::NEG_INFINITY)
                ),
                (1, 1, 1)
            );
        }
    }

    #[test]
    fn the_greedy_tree_takes_the_broadcast_time() {
        for (latency, overhead, gap) in [(4.29, 2.87, 2.04), (9.9, 1.75, 3.4), (1.0, 0.0, 1.0)] {
            let network = LogGP::new(latency, overhead, gap, 0.0).unwrap();
            for ranks in (1..100).chain([1000, 8192]) {
                let tree = network.greedy_tree(ranks);
                assert!((tree.time - network.broadcast(ranks)).abs() < 1e-6, "{ranks} ranks");
                assert!(network.reachable_ranks(tree.time) >= u64::from(ranks), "{ranks} ranks");
                let mut served = vec![0; ranks as usize];
                for rank in 1..ranks as usize {
                    let parent = tree.parents[rank] as usize;
                    let sent = tree.reached[parent] + f64::from(served[parent]) * network.message_interval();
                    assert!(
                        (tree.reached[rank] - sent - network.short_message_time()).abs() < 1e-6,
                        "rank {rank} of {ranks}"
                    );
                    served[parent] += 1;
                }
            }
        }
    }
}
