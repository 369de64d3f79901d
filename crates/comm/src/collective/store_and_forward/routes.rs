//! By which ranks an item gets to its destination, for any number of ranks.
//!
//! *On a grid*, all ranks are cut into as many parts as the first side says, each of these by the next side, and so on until a part is
//! one rank. In a stage a rank sends what is for another part to one rank there, the one at its own position. On a grid
//! without gaps that is the exchange along a dimension. Else parts differ by one in size, and the rank at a position that
//! another part lacks sends to some other position there. So every rank sends one message to each other part of each stage;
//! it gets one from each, and some ranks one more from some.
//!
//! *After Bruck et al.*, an item goes the distance from its origin to its destination around the ring of all ranks, by the
//! powers of two that make it up, the smallest first: one message in each of ceil(lg P) stages.

use std::ops::Range;

use treepie_collectives::alltoall::balanced_factors;

/// How items go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// On a grid of so many dimensions.
    Grid(u32),
    /// By powers of two around a ring.
    Bruck,
}

/// One stage of a rank.
#[derive(Debug)]
pub(super) struct Stage {
    parts: Parts,
    /// Who gets what is for each part; for this rank's own part, itself.
    pub(super) receivers: Vec<u32>,
    /// The number of this rank's part.
    pub(super) own: usize,
    /// Who sends to this rank.
    pub(super) sources: Vec<u32>,
}

/// The parts of the ranks in a stage.
#[derive(Debug)]
enum Parts {
    /// In order.
    Ranges(Vec<Range<u32>>),
    /// Those that stay, and those in whose distance from this rank there is this power of two. `lower`: the powers below it,
    /// which the stages before have left in no distance.
    Distances { rank: u32, ranks: u32, power: u32, lower: u32 },
}

impl Stage {
    /// Bytes of its lists.
    pub(super) fn memory(&self) -> usize {
        let parts = match &self.parts {
            Parts::Ranges(parts) => parts.capacity() * size_of::<Range<u32>>(),
            Parts::Distances { .. } => 0,
        };
        parts + (self.receivers.capacity() + self.sources.capacity()) * size_of::<u32>()
    }

    /// The number of the part with this rank; it must be in one of them.
    pub(super) fn part_of(&self, to: u32) -> usize {
        match &self.parts {
            Parts::Ranges(parts) => parts.partition_point(|part| part.end <= to),
            Parts::Distances { rank, ranks, power, .. } => usize::from(distance(*rank, to, *ranks) & power != 0),
        }
    }

    /// Whether what is sent to this rank can be for that one.
    pub(super) fn can_be_for(&self, to: u32) -> bool {
        match &self.parts {
            Parts::Ranges(parts) => parts[self.own].contains(&to),
            Parts::Distances { rank, ranks, power, lower } => {
                to < *ranks && distance(*rank, to, *ranks) & (power | lower) == 0
            }
        }
    }
}

/// From one rank to another around the ring of all.
fn distance(from: u32, to: u32, ranks: u32) -> u32 {
    (to + ranks - from) % ranks
}

/// The stages of a rank.
pub(super) fn stages(rank: u32, ranks: u32, route: Route) -> Vec<Stage> {
    match route {
        Route::Grid(dimensions) => on_grid(rank, ranks, dimensions),
        Route::Bruck => (0..ranks.next_power_of_two().ilog2()).map(|bit| around_ring(rank, ranks, 1 << bit)).collect(),
    }
}

fn around_ring(rank: u32, ranks: u32, power: u32) -> Stage {
    Stage {
        parts: Parts::Distances { rank, ranks, power, lower: power - 1 },
        receivers: vec![rank, (rank + power) % ranks],
        own: 0,
        sources: vec![(rank + ranks - power) % ranks],
    }
}

fn on_grid(rank: u32, ranks: u32, dimensions: u32) -> Vec<Stage> {
    let mut part = 0..ranks;
    let mut stages = Vec::new();
    for side in sides(ranks, dimensions) {
        // Where parts are of one rank and some of two, the former have nothing left to do.
        if part.len() > 1 {
            let parts = cut(&part, side);
            let stage = along_dimension(rank, parts.clone());
            part = parts[stage.own].clone();
            stages.push(stage);
        }
    }
    debug_assert_eq!(part, rank..rank + 1, "the sides make up all ranks");
    stages
}

fn along_dimension(rank: u32, parts: Vec<Range<u32>>) -> Stage {
    let own = parts.partition_point(|part| part.end <= rank);
    let position = (rank - parts[own].start) as usize;
    let receiver = |from: usize, position: usize, to: &Range<u32>| {
        // In the middle, and not the same for all parts: at the ends, the same ranks would stand in in every stage. With 127
        // ranks on a hypercube the busiest one would then send 1.5 times what theory says, and so it is below 1.25.
        let stand_in = || (from + to.len() / 2) % to.len();
        to.start + if position < to.len() { position } else { stand_in() } as u32
    };
    let mut sources = Vec::new();
    for (place, part) in parts.iter().enumerate().filter(|(place, _)| *place != own) {
        let last = part.len() - 1;
        let sends_here = |position: &usize| receiver(place, *position, &parts[own]) == rank;
        let mut positions = vec![position.min(last), last];
        positions.dedup();
        sources.extend(positions.into_iter().filter(sends_here).map(|position| part.start + position as u32));
    }
    let to = |(place, part)| if place == own { rank } else { receiver(own, position, part) };
    let receivers = parts.iter().enumerate().map(to).collect();
    Stage { parts: Parts::Ranges(parts), receivers, own, sources }
}

/// So many parts of ranks, or one for each, with sizes that differ by at most one.
fn cut(ranks: &Range<u32>, side: u32) -> Vec<Range<u32>> {
    let len = ranks.len() as u64;
    let count = u64::from(side).min(len);
    let begin = |part: u64| ranks.start + (len * part / count) as u32;
    (0..count).map(|part| begin(part)..begin(part + 1)).collect()
}

/// The sides of a grid of so many dimensions that has room for all ranks, with the fewest messages. One without gaps if it
/// has no more of them.
pub(super) fn sides(ranks: u32, dimensions: u32) -> Vec<u32> {
    let messages = |sides: &[u32]| sides.iter().map(|side| u64::from(side - 1)).sum::<u64>();
    let (mut near, mut left) = (Vec::new(), ranks);
    for dimensions in (1..=dimensions.clamp(1, u32::BITS)).rev() {
        let side = root_above(left, dimensions);
        near.push(side);
        left = left.div_ceil(side);
    }
    near.retain(|side| *side > 1);
    let whole = balanced_factors(ranks, dimensions);
    if messages(&whole) <= messages(&near) { whole } else { near }
}

/// The least number whose power is not below `number`.
fn root_above(number: u32, power: u32) -> u32 {
    if power == 1 {
        return number;
    }
    let reaches = |root: &u32| u64::from(*root).saturating_pow(power) >= u64::from(number);
    (1..=number).find(reaches).expect("the number itself reaches it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_near_the_root_and_have_room() {
        let of = |ranks, dimensions| sides(ranks, dimensions);
        assert_eq!(of(100, 2), [10, 10]);
        assert_eq!(of(7, 2), [3, 3]);
        assert_eq!(of(13, 1), [13]);
        assert_eq!(of(33, 3), [4, 3, 3]);
        assert_eq!(of(13, 4), [2, 2, 2, 2]);
        assert_eq!(of(64, 99), [2; 6]);
        for ranks in 1..200 {
            for dimensions in 1..9 {
                let sides = of(ranks, dimensions);
                assert!(sides.len() as u32 <= dimensions);
                assert!(sides.iter().product::<u32>() >= ranks, "{sides:?} for {ranks}");
            }
        }
    }

    /// What one rank sends to another, the other expects from it, in the same stage.
    #[test]
    fn sends_and_receives_fit_each_other() {
        for ranks in (1..70).chain([100, 127, 128, 129]) {
            for route in [1, 2, 3, 4, 8].map(Route::Grid).into_iter().chain([Route::Bruck]) {
                let all: Vec<Vec<Stage>> = (0..ranks).map(|rank| stages(rank, ranks, route)).collect();
                let (mut sent, mut expected) = (Vec::new(), Vec::new());
                for (rank, stages) in all.iter().enumerate() {
                    let rank = rank as u32;
                    for (i, stage) in stages.iter().enumerate() {
                        sent.extend(stage.receivers.iter().filter(|to| **to != rank).map(|to| (i, rank, *to)));
                        expected.extend(stage.sources.iter().map(|source| (i, *source, rank)));
                        assert!(
                            stage.sources.len() <= 2 * (stage.receivers.len() - 1),
                            "too much comes to rank {rank}"
                        );
                    }
                }
                sent.sort_unstable();
                expected.sort_unstable();
                assert_eq!(sent, expected, "{ranks} ranks, {route:?}");
            }
        }
    }
}
