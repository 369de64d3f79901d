//! Latencies between pairs of ranks, and the groups of all ranks by those of a sample.

use std::time::Duration;

use treepie_comm::{Comm, Max, Rank, Sum};

use crate::levels::{LevelGroups, find_levels};
use crate::{Result, TuneConfig};

/// Tag of round trips.
const PING: u32 = 1;

/// If ranks share cores, pairs are measured one after the other, and only of this number of ranks.
const MAX_RANKS_ON_SHARED_CORES: usize = 12;

/// The part of a level's budget that all latencies may take.
const BUDGET_SHARE: f64 = 0.2;

/// The fewest ranks that are sampled, if there are as many.
const MIN_SAMPLED_RANKS: usize = 8;

/// The levels of a communicator.
pub(crate) struct MachineLevels {
    /// The group of each rank, for each level.
    pub(crate) groups: Vec<Vec<u32>>,
    /// The pair of ranks of each level whose link is measured.
    pub(crate) pairs: Vec<(Rank, Rank)>,
}

/// Measures latencies and finds levels. Collective; all ranks get the same.
pub(crate) fn find_machine_levels(comm: &Comm, config: &TuneConfig) -> Result<MachineLevels> {
    let sharing = comm.ranks_per_core().is_some_and(|ranks| ranks > 1.0);
    let most = if sharing { MAX_RANKS_ON_SHARED_CORES } else { config.max_sampled_ranks };
    let mut matrix = LatencyMatrix::new(comm, most.max(2).min(comm.size()), config.latency_trips);
    if sharing {
        matrix.measure_in_turn(comm)?;
    } else {
        let budget = config.budget.mul_f64(BUDGET_SHARE);
        matrix.measure_concurrently(comm, budget)?;
    }
    matrix.share(comm)?;
    let levels = find_levels(matrix.sample.len(), |a, b| matrix.latency(a, b), config.level_ratio);
    let pairs = levels.iter().map(|level| (matrix.sample[level.slowest.0], matrix.sample[level.slowest.1])).collect();
    let groups = matrix.groups_of_all(comm, &levels)?;
    Ok(MachineLevels { groups, pairs })
}

/// Half round trips between the ranks of a sample, in microseconds.
struct LatencyMatrix {
    sample: Vec<Rank>,
    /// The index of this rank in the sample.
    index: Option<usize>,
    trips: u32,
    /// By the lower and the higher index; 0 where not measured.
    values: Vec<f64>,
}

impl LatencyMatrix {
    /// Evenly distributed ranks, the first among them.
    fn new(comm: &Comm, count: usize, trips: u32) -> Self {
        let sample: Vec<Rank> = (0..count).map(|index| index * comm.size() / count).collect();
        let index = sample.binary_search(&comm.rank()).ok();
        Self { values: vec![0.0; count * count], sample, index, trips }
    }

    fn latency(&self, a: usize, b: usize) -> f64 {
        self.values[a.min(b) * self.sample.len() + a.max(b)]
    }

    /// Measures the pair of this rank and another of the sample; the lower one keeps the result.
    fn measure_pair(&mut self, comm: &Comm, own: usize, other: usize) -> Result<()> {
        if own < other {
            self.values[own * self.sample.len() + other] = ping(comm, self.sample[other], self.trips)?;
            Ok(())
        } else {
            echo(comm, self.sample[other], self.trips)
        }
    }

    /// A round-robin tournament: in each round every rank has one partner, so that no rank serves two. If the first
    /// round tells that all of them take too long, with fewer ranks.
    fn measure_concurrently(&mut self, comm: &Comm, budget: Duration) -> Result<()> {
        let start = comm.now();
        self.play_round(comm, 0)?;
        let slowest = comm.allreduce_one((comm.now() - start).as_secs_f64(), Max)?;
        let affordable = (budget.as_secs_f64() / slowest.max(1e-9)) as usize;
        let mut begin = 1;
        if affordable < rounds(self.sample.len()) && self.sample.len() > MIN_SAMPLED_RANKS {
            *self = Self::new(comm, affordable.clamp(MIN_SAMPLED_RANKS, self.sample.len()), self.trips);
            begin = 0;
        }
        (begin..rounds(self.sample.len())).try_for_each(|round| self.play_round(comm, round))
    }

    fn play_round(&mut self, comm: &Comm, round: usize) -> Result<()> {
        let pair = self.index.and_then(|own| Some((own, partner(own, round, self.sample.len())?)));
        pair.map_or(Ok(()), |(own, other)| self.measure_pair(comm, own, other))
    }

    /// One pair after the other, while all other ranks sleep.
    fn measure_in_turn(&mut self, comm: &Comm) -> Result<()> {
        for low in 0..self.sample.len() {
            for high in low + 1..self.sample.len() {
                match self.index {
                    Some(own) if own == low => self.measure_pair(comm, low, high)?,
                    Some(own) if own == high => self.measure_pair(comm, high, low)?,
                    _ => {}
                }
                comm.barrier()?;
            }
        }
        Ok(())
    }

    /// All ranks get all values, each of which one rank has.
    fn share(&mut self, comm: &Comm) -> Result<()> {
        self.values = comm.allreduce(&self.values, Sum)?;
        Ok(())
    }

    /// The groups of all ranks. Ranks between two of the sample that are in one group are in it, too; between others
    /// the boundary is searched.
    fn groups_of_all(&self, comm: &Comm, levels: &[LevelGroups]) -> Result<Vec<Vec<u32>>> {
        let count = self.sample.len();
        // The index of the rank in the sample whose groups each rank shares.
        let mut like = vec![0; comm.size()];
        for index in 0..count {
            let (first, end) = (self.sample[index], self.sample.get(index + 1).copied().unwrap_or(comm.size()));
            let is_boundary = index + 1 < count && levels[0].groups[index] != levels[0].groups[index + 1];
            let boundary = if is_boundary { self.find_boundary(comm, first, end)? } else { end };
            like[first..boundary].fill(index);
            like[boundary..end].fill(index + 1);
        }
        Ok(levels.iter().map(|level| like.iter().map(|index| level.groups[*index]).collect()).collect())
    }

    /// The first rank that is closer to `high` than to `low`.
    fn find_boundary(&self, comm: &Comm, low: Rank, high: Rank) -> Result<Rank> {
        let (mut below, mut above) = (low, high);
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            let mut is_closer_to_low = 0u8;
            if comm.rank() == middle {
                let to_low = ping(comm, low, self.trips)?;
                is_closer_to_low = u8::from(to_low < ping(comm, high, self.trips)?);
            } else if comm.rank() == low || comm.rank() == high {
                echo(comm, middle, self.trips)?;
            }
            if comm.bcast_one(is_closer_to_low, middle)? == 1 { below = middle } else { above = middle }
        }
        Ok(above)
    }
}

/// Half of the fastest round trip, in microseconds. The first one only waits for the other rank.
fn ping(comm: &Comm, to: Rank, trips: u32) -> Result<f64> {
    let mut fastest = f64::INFINITY;
    for _ in 0..=trips {
        let start = comm.now();
        comm.send::<u8>(&[], to, PING)?;
        comm.recv(&mut [0u8; 0], to, PING)?;
        fastest = fastest.min((comm.now() - start).as_secs_f64() * 1e6 / 2.0);
    }
    Ok(fastest)
}

fn echo(comm: &Comm, from: Rank, trips: u32) -> Result<()> {
    for _ in 0..=trips {
        comm.recv(&mut [0u8; 0], from, PING)?;
        comm.send::<u8>(&[], from, PING)?;
    }
    Ok(())
}

fn rounds(players: usize) -> usize {
    players.next_multiple_of(2) - 1
}

/// The partner of a player in a round of the tournament (circle method): players whose sum is twice the round, modulo
/// one less than their number; the one who would play alone plays the last.
fn partner(player: usize, round: usize, players: usize) -> Option<usize> {
    let (last, modulus) = (rounds(players), rounds(players));
    let other = if player == last { round } else { (2 * round + modulus - player) % modulus };
    let other = if player != last && other == player { last } else { other };
    Some(other).filter(|other| *other < players)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_meets_once() {
        for players in 2..=17 {
            let mut met = std::collections::BTreeSet::new();
            for round in 0..rounds(players) {
                for player in 0..players {
                    let Some(other) = partner(player, round, players) else { continue };
                    assert_eq!(partner(other, round, players), Some(player), "{players} players, round {round}");
                    assert!(player != other);
                    met.insert((player.min(other), player.max(other)));
                }
            }
            assert_eq!(met.len(), players * (players - 1) / 2, "{players} players");
        }
    }
}
