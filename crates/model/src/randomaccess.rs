//! RandomAccess on a hypercube: T1 + TC lg P for each look-ahead.   [RandomAccess paper, sections 2 and 3]
//!
//! T1 is what a rank computes for its updates, TC an exchange with a partner, in which half of the look-ahead is sent.
//! The same all-to-all on a grid of d dimensions has d (P^(1/d) - 1) messages, and sends its data up to d times.

use crate::Result;
use crate::error::{not_negative, positive};

/// Bytes of an update.
pub const UPDATE: u64 = 8;

/// The model of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomAccess {
    /// Updates of a rank at once: the look-ahead Q.
    pub updates: u32,
    /// T1: microseconds that one rank takes for them.
    pub compute: f64,
    /// TC: microseconds of an exchange with a partner, with sorting out what it gets.
    pub exchange: f64,
}

impl RandomAccess {
    /// Refuses times that cannot be.
    pub fn new(updates: u32, compute: f64, exchange: f64) -> Result<Self> {
        positive("the look-ahead", updates.into())?;
        positive("the time T1", compute)?;
        not_negative("the time TC", exchange)?;
        Ok(Self { updates, compute, exchange })
    }

    /// Microseconds of all updates of a look-ahead: T1 + TC lg P.
    pub fn time(&self, ranks: u32) -> f64 {
        self.compute + self.exchange * f64::from(ranks).log2()
    }

    /// Giga-updates a second.
    pub fn gups(&self, ranks: u32) -> f64 {
        f64::from(self.updates) * f64::from(ranks) / self.time(ranks) / 1e3
    }

    /// The share of P times what one rank does.
    pub fn efficiency(&self, ranks: u32) -> f64 {
        efficiency(self.gups(ranks), ranks, self.gups(1))
    }

    /// Bytes of a message of the hypercube: half of the updates go to the partner.
    pub fn message(&self) -> u64 {
        u64::from(self.updates) * UPDATE / 2
    }
}

/// The share of P times what one rank does.
pub fn efficiency(gups: f64, ranks: u32, alone: f64) -> f64 {
    gups / (f64::from(ranks) * alone)
}

/// Messages of a rank in an all-to-all over a grid with these sides.
pub fn grid_messages(sides: &[u32]) -> u64 {
    sides.iter().map(|side| u64::from(side.saturating_sub(1))).sum()
}

/// What a rank sends there, as a share of its data.
pub fn grid_volume(sides: &[u32]) -> f64 {
    sides.iter().map(|side| f64::from(side.saturating_sub(1)) / f64::from(*side)).sum()
}

/// Messages of a rank in d dimensions of the same length: d (P^(1/d) - 1).
pub fn messages(ranks: u32, dimensions: u32) -> f64 {
    f64::from(dimensions) * (root(ranks, dimensions) - 1.0)
}

/// What a rank sends there, as a share of its data: d (P^(1/d) - 1)/P^(1/d).
pub fn volume(ranks: u32, dimensions: u32) -> f64 {
    messages(ranks, dimensions) / root(ranks, dimensions)
}

/// P^(1/d), exactly if it is a whole number.
fn root(ranks: u32, dimensions: u32) -> f64 {
    let root = f64::from(ranks).powf(1.0 / f64::from(dimensions));
    let whole = root.round();
    if whole.powi(dimensions as i32) == f64::from(ranks) { whole } else { root }
}

/// A message of an exchange between two halves of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossing {
    /// Who sends, numbered within the partition: the smaller half has the first numbers.
    pub from: u32,
    /// Who receives.
    pub to: u32,
    /// What share of the sender's list for the other half it is.
    pub share: f64,
}

/// The messages where a partition is halved, so that all ranks of a half receive the same: the lists of each half, one
/// after the other, are cut into as many equal parts as the other half has ranks. Halves of the same size exchange in
/// pairs.   [RandomAccess paper, section 2]
pub fn halving(ranks: u32) -> Vec<Crossing> {
    let (small, large) = (u64::from(ranks / 2), u64::from(ranks.div_ceil(2)));
    let mut crossings = Vec::new();
    let mut half = |(first, senders): (u64, u64), (other, receivers): (u64, u64)| {
        for from in 0..senders {
            // In units of which each list has as many as there are receivers, and each part as many as senders.
            let (begin, end) = (from * receivers, (from + 1) * receivers);
            for to in begin / senders..end.div_ceil(senders) {
                let common = end.min((to + 1) * senders) - begin.max(to * senders);
                let share = common as f64 / receivers as f64;
                crossings.push(Crossing { from: (first + from) as u32, to: (other + to) as u32, share });
            }
        }
    };
    half((0, small), (small, large));
    half((small, large), (0, small));
    crossings
}
