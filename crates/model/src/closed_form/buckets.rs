//! Several concurrent buckets on a torus or mesh, in rotated orders of the dimensions.   [thesis 3.4.2, 3.5.3]

use treepie_topology::{MAX_DIMENSIONS, Torus};

use crate::CostTerms;

/// The dimensions that are longer than 1, for buckets in rotated orders.
pub(super) struct BucketRings {
    rings: [(u32, bool); MAX_DIMENSIONS],
    pub(super) count: usize,
}

impl BucketRings {
    pub(super) fn new(torus: &Torus) -> Self {
        let mut all = Self { rings: [(1, false); MAX_DIMENSIONS], count: 0 };
        for (dimension, &size) in torus.dims().iter().enumerate().filter(|(_, size)| **size > 1) {
            all.rings[all.count] = (size, torus.wraps(dimension));
            all.count += 1;
        }
        all
    }

    /// Number of buckets in each rotated order: as requested, or those that take least.
    pub(super) fn directions(&self, buckets: u32) -> [u32; MAX_DIMENSIONS] {
        let mut directions = [0; MAX_DIMENSIONS];
        let orders = self.count as u32;
        let wrapping = self.rings[..self.count].iter().filter(|ring| ring.1).count();
        if buckets > 0 || wrapping == 0 || wrapping == self.count {
            let usual = if wrapping > 0 { 2 * orders } else { orders };
            let buckets = if buckets > 0 { buckets.min(2 * orders) } else { usual };
            for order in 0..orders {
                directions[order as usize] = buckets / orders + u32::from(order < buckets % orders);
            }
            return directions;
        }
        // Mixed wrap-around: try all; among equal times prefer the fewest buckets.
        let mut best: Option<(f64, u32)> = None;
        for number in 1..3u32.pow(orders) {
            let mut tried = [0; MAX_DIMENSIONS];
            (0..orders).for_each(|order| tried[order as usize] = number / 3u32.pow(order) % 3);
            let cost = (self.terms(&tried[..self.count], 1.0).delta, tried.iter().sum());
            if best.is_none_or(|best| cost.0 < best.0 - 1e-9 || (cost.0 - best.0).abs() <= 1e-9 && cost.1 < best.1) {
                (best, directions) = (Some(cost), tried);
            }
        }
        directions
    }

    /// In each phase the slowest of the orders counts; with both directions along a line each message meets another.
    pub(super) fn terms(&self, directions: &[u32], n: f64) -> CostTerms {
        let buckets = f64::from(directions.iter().sum::<u32>());
        let mut amounts = [n / buckets; MAX_DIMENSIONS];
        let mut all = CostTerms::new(0.0, 0.0);
        for phase in 0..self.count {
            let (mut longest, mut steps) = (0.0f64, 0.0f64);
            for (order, (amount, &directions)) in amounts.iter_mut().zip(directions).enumerate() {
                let (size, wraps) = self.rings[(order + phase) % self.count];
                let load = if directions == 2 && !wraps { 2.0 } else { f64::from(directions.min(1)) };
                longest = longest.max(f64::from(size - 1) * *amount * load);
                all.alpha += f64::from(directions * (size - 1));
                steps = steps.max(f64::from(directions.min(1) * (size - 1)));
                *amount *= f64::from(size);
            }
            all.delta += longest;
            all.steps += steps;
        }
        all
    }
}
