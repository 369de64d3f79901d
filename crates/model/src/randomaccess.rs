//! RandomAccess on a hypercube: T1 + TC lg P for each look-ahead.   [RandomAccess paper, sections 2 and 3]
//!
//! T1 is the compute time of a rank for its updates, TC the time of an exchange with a partner, in which half of the
//! look-ahead is sent. The same all-to-all on a d-dimensional grid has d (P^(1/d) - 1) messages, and sends its data up
//! to d times.

use crate::Result;
use crate::error::{not_negative, positive};

/// Bytes of an update.
pub const UPDATE_BYTES: u64 = 8;

/// The RandomAccess model of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomAccess {
    /// Q: the look-ahead, updates of a rank at once.
    pub lookahead: u32,
    /// T1: microseconds that one rank takes for a look-ahead.
    pub compute: f64,
    /// TC: microseconds of an exchange with a partner, including sorting the received updates.
    pub exchange: f64,
}

impl RandomAccess {
    /// Refuses invalid times.
    pub fn new(lookahead: u32, compute: f64, exchange: f64) -> Result<Self> {
        positive("the look-ahead", lookahead.into())?;
        positive("the time T1", compute)?;
        not_negative("the time TC", exchange)?;
        Ok(Self { lookahead, compute, exchange })
    }

    /// T1 and TC of measured rates: pairs of ranks and giga-updates per second. The sum of the squares of the relative
    /// errors of the times is least. Needs two different numbers of ranks.
    pub fn fit(lookahead: u32, measured: &[(u32, f64)]) -> Result<Self> {
        positive("the look-ahead", lookahead.into())?;
        // Normal equations of 1 = (T1 + TC lg P) / T.
        let (mut ones, mut mixed, mut squares, mut one_sum, mut log_sum) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(ranks, gups) in measured {
            positive("a rate", gups)?;
            let time = f64::from(lookahead) * f64::from(ranks) / gups / 1e3;
            let (one, log) = (1.0 / time, f64::from(ranks).log2() / time);
            ones += one * one;
            mixed += one * log;
            squares += log * log;
            one_sum += one;
            log_sum += log;
        }
        let determinant = ones * squares - mixed * mixed;
        // Zero but for rounding if all numbers of ranks are the same.
        positive("the spread of the numbers of ranks", determinant - 1e-9 * ones * squares)?;
        let compute = (one_sum * squares - log_sum * mixed) / determinant;
        let exchange = (log_sum * ones - one_sum * mixed) / determinant;
        Self::new(lookahead, compute, exchange)
    }

    /// Microseconds per look-ahead: T1 + TC lg P.
    pub fn time(&self, ranks: u32) -> f64 {
        self.compute + self.exchange * f64::from(ranks).log2()
    }

    /// Giga-updates per second.
    pub fn gups(&self, ranks: u32) -> f64 {
        f64::from(self.lookahead) * f64::from(ranks) / self.time(ranks) / 1e3
    }

    /// Microseconds per look-ahead by recursive halving of any number of ranks: an exchange for each halving on the longest
    /// path, and a message more, of `message` microseconds, for each partition of an odd number of ranks.
    pub fn halving_time(&self, ranks: u32, message: f64) -> f64 {
        // Both halves of all partitions of a level have one of two neighboring sizes.
        let (mut below, mut above) = ((1, 0.0), (2, self.exchange));
        for bit in (0..ranks.ilog2()).rev() {
            let low = ranks >> bit;
            let of = |size: u32| {
                let path = |half: u32| if half == below.0 { below.1 } else { above.1 };
                let extra = if size % 2 == 1 { message } else { 0.0 };
                (size, self.exchange + extra + path(size / 2).max(path(size.div_ceil(2))))
            };
            (below, above) = (of(low), of(low + 1));
        }
        self.compute + below.1
    }

    /// Giga-updates per second of it.
    pub fn halving_gups(&self, ranks: u32, message: f64) -> f64 {
        f64::from(self.lookahead) * f64::from(ranks) / self.halving_time(ranks, message) / 1e3
    }

    /// Parallel efficiency: the fraction of P times the rate of one rank.
    pub fn efficiency(&self, ranks: u32) -> f64 {
        efficiency(self.gups(ranks), ranks, self.gups(1))
    }

    /// Bytes of a message of the hypercube: half of the updates go to the partner.
    pub fn message_bytes(&self) -> u64 {
        u64::from(self.lookahead) * UPDATE_BYTES / 2
    }
}

/// Parallel efficiency: the fraction of P times the rate of one rank.
pub fn efficiency(gups: f64, ranks: u32, single_rank_gups: f64) -> f64 {
    gups / (f64::from(ranks) * single_rank_gups)
}

/// Messages of a rank in an all-to-all over a grid with these sides.
pub fn grid_messages(sides: &[u32]) -> u64 {
    sides.iter().map(|side| u64::from(side.saturating_sub(1))).sum()
}

/// Bytes that a rank sends in it, relative to its data.
pub fn grid_volume(sides: &[u32]) -> f64 {
    sides.iter().map(|side| f64::from(side.saturating_sub(1)) / f64::from(*side)).sum()
}

/// Messages of a rank on a grid of d equal sides: d (P^(1/d) - 1).
pub fn messages(ranks: u32, dimensions: u32) -> f64 {
    f64::from(dimensions) * (root(ranks, dimensions) - 1.0)
}

/// Bytes that a rank sends there, relative to its data: d (P^(1/d) - 1)/P^(1/d).
pub fn volume(ranks: u32, dimensions: u32) -> f64 {
    messages(ranks, dimensions) / root(ranks, dimensions)
}

/// P^(1/d), exact if it is an integer.
fn root(ranks: u32, dimensions: u32) -> f64 {
    let root = f64::from(ranks).powf(1.0 / f64::from(dimensions));
    let whole = root.round();
    if whole.powi(dimensions as i32) == f64::from(ranks) { whole } else { root }
}

/// A message of an exchange between two halves of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartitionMessage {
    /// Source, numbered within the partition: the smaller half has the lower numbers.
    pub from: u32,
    /// Destination.
    pub to: u32,
    /// Fraction of the sender's list for the other half.
    pub share: f64,
}

/// The messages between two halves of a partition, such that all ranks of a half receive the same amount: the
/// concatenated lists of each half are cut into equal parts, one per rank of the other half. Halves of equal size
/// exchange in pairs.   [RandomAccess paper, section 2]
pub fn partition_exchange(ranks: u32) -> Vec<PartitionMessage> {
    (0..ranks).flat_map(|rank| partition_partners(ranks, rank)).collect()
}

/// The messages that a rank of a partition sends there, in the order of the parts of its list. It receives from the same
/// ranks.
pub fn partition_partners(ranks: u32, rank: u32) -> impl Iterator<Item = PartitionMessage> {
    let (small, large) = (u64::from(ranks / 2), u64::from(ranks.div_ceil(2)));
    let is_small = u64::from(rank) < small;
    let (from, senders) = if is_small { (u64::from(rank), small) } else { (u64::from(rank) - small, large) };
    let (other, receivers) = if is_small { (small, large) } else { (0, small) };
    // In units such that a list has `receivers` and a part has `senders` units.
    let (begin, end) = (from * receivers, (from + 1) * receivers);
    (begin / senders..end.div_ceil(senders)).map(move |to| {
        let common = end.min((to + 1) * senders) - begin.max(to * senders);
        PartitionMessage { from: rank, to: (other + to) as u32, share: common as f64 / receivers as f64 }
    })
}
