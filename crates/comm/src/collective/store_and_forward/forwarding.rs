//! Forwarding schemes: the ranks through which an item reaches its destination, for any number of ranks.
//!
//! *Grid*: the ranks are split into as many parts as the first side, each part by the next side, and so on until a part
//! is one rank. In a stage a rank sends the items for another part to one rank there, the one at its own position. On a
//! full grid that is the exchange along a dimension. Otherwise the sizes of parts differ by one, and the rank at a
//! position that another part lacks sends to some other position there. So each rank sends one message to each other
//! part of each stage; it receives one from each, and some ranks receive a second one from some.
//!
//! *Bruck*: an item travels the distance from its origin to its destination around the ring of all ranks in powers of
//! two, the smallest first: one message in each of ceil(lg P) stages (Bruck et al. 1997).

use std::ops::Range;

use treepie_collectives::alltoall::balanced_factors;

use crate::dissemination::RingPosition;

/// How items are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardingScheme {
    /// On a grid with this number of dimensions.
    Grid(u32),
    /// By powers of two around a ring.
    Bruck,
}

/// One stage of a rank.
#[derive(Debug)]
pub(super) struct ForwardingStage {
    parts: Parts,
    /// The receiver for each part; for this rank's part, the rank itself.
    pub(super) receivers: Vec<u32>,
    /// Index of this rank's part.
    pub(super) own_part: usize,
    /// The ranks that send to this rank.
    pub(super) sources: Vec<u32>,
}

/// The partition of the ranks in a stage.
#[derive(Debug)]
enum Parts {
    /// Contiguous parts, in order.
    Ranges(Vec<Range<u32>>),
    /// Two parts: ranks whose distance from this rank lacks this power of two, and those whose distance has it. Earlier
    /// stages have cleared the lower powers from all distances.
    Distances { position: RingPosition, power: u32 },
}

impl ForwardingStage {
    /// Bytes of its lists.
    pub(super) fn memory(&self) -> usize {
        let parts = match &self.parts {
            Parts::Ranges(parts) => parts.capacity() * size_of::<Range<u32>>(),
            Parts::Distances { .. } => 0,
        };
        parts + (self.receivers.capacity() + self.sources.capacity()) * size_of::<u32>()
    }

    /// Index of the part that contains this rank.
    pub(super) fn part_of(&self, to: u32) -> usize {
        match &self.parts {
            Parts::Ranges(parts) => parts.partition_point(|part| part.end <= to),
            Parts::Distances { position, power } => usize::from(position.distance_to(to) & power != 0),
        }
    }

    /// Whether a bundle for this rank may contain an item for rank `to`.
    pub(super) fn accepts(&self, to: u32) -> bool {
        match &self.parts {
            Parts::Ranges(parts) => parts[self.own_part].contains(&to),
            Parts::Distances { position, power } => {
                to < position.ranks && position.distance_to(to) & (2 * power - 1) == 0
            }
        }
    }
}

/// The stages of a rank.
pub(super) fn stages(rank: u32, ranks: u32, scheme: ForwardingScheme) -> Vec<ForwardingStage> {
    match scheme {
        ForwardingScheme::Grid(dimensions) => on_grid(rank, ranks, dimensions),
        ForwardingScheme::Bruck => {
            let position = RingPosition { rank, ranks };
            (0..position.rounds()).map(|round| around_ring(position, 1 << round)).collect()
        }
    }
}

fn around_ring(position: RingPosition, power: u32) -> ForwardingStage {
    ForwardingStage {
        parts: Parts::Distances { position, power },
        receivers: vec![position.rank, position.ahead(power)],
        own_part: 0,
        sources: vec![position.behind(power)],
    }
}

fn on_grid(rank: u32, ranks: u32, dimensions: u32) -> Vec<ForwardingStage> {
    let mut part = 0..ranks;
    let mut stages = Vec::new();
    for side in sides(ranks, dimensions) {
        // Where some parts have one rank and some two, the former are complete.
        if part.len() > 1 {
            let parts = split_evenly(&part, side);
            let stage = along_dimension(rank, parts.clone());
            part = parts[stage.own_part].clone();
            stages.push(stage);
        }
    }
    debug_assert_eq!(part, rank..rank + 1, "the grid has room for all ranks");
    stages
}

fn along_dimension(rank: u32, parts: Vec<Range<u32>>) -> ForwardingStage {
    let own_part = parts.partition_point(|part| part.end <= rank);
    let position = (rank - parts[own_part].start) as usize;
    let receiver = |from: usize, position: usize, to: &Range<u32>| {
        // In the middle, and not the same for all parts: at the ends, the same ranks would substitute in every stage.
        // With 127 ranks on a hypercube the busiest rank would then send 1.5 times the predicted volume; this way it
        // stays below 1.25.
        let substitute = || (from + to.len() / 2) % to.len();
        to.start + if position < to.len() { position } else { substitute() } as u32
    };
    let mut sources = Vec::new();
    for (index, part) in parts.iter().enumerate().filter(|(index, _)| *index != own_part) {
        let last = part.len() - 1;
        let sends_here = |position: &usize| receiver(index, *position, &parts[own_part]) == rank;
        let mut positions = vec![position.min(last), last];
        positions.dedup();
        sources.extend(positions.into_iter().filter(sends_here).map(|position| part.start + position as u32));
    }
    let to = |(index, part)| if index == own_part { rank } else { receiver(own_part, position, part) };
    let receivers = parts.iter().enumerate().map(to).collect();
    ForwardingStage { parts: Parts::Ranges(parts), receivers, own_part, sources }
}

/// At most `side` parts, none of them empty, with sizes that differ by at most one.
fn split_evenly(ranks: &Range<u32>, side: u32) -> Vec<Range<u32>> {
    let len = ranks.len() as u64;
    let count = u64::from(side).min(len);
    let begin = |part: u64| ranks.start + (len * part / count) as u32;
    (0..count).map(|part| begin(part)..begin(part + 1)).collect()
}

/// The sides of a grid with this number of dimensions that has room for all ranks, with the fewest messages. A full
/// grid if it needs no more messages.
pub(super) fn sides(ranks: u32, dimensions: u32) -> Vec<u32> {
    let messages = |sides: &[u32]| sides.iter().map(|side| u64::from(side - 1)).sum::<u64>();
    let (mut rounded_up, mut left) = (Vec::new(), ranks);
    for dimensions in (1..=dimensions.clamp(1, u32::BITS)).rev() {
        let side = root_above(left, dimensions);
        rounded_up.push(side);
        left = left.div_ceil(side);
    }
    rounded_up.retain(|side| *side > 1);
    let full = balanced_factors(ranks, dimensions);
    if messages(&full) <= messages(&rounded_up) { full } else { rounded_up }
}

/// The smallest number whose power is at least `number`.
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
    fn sends_and_receives_match() {
        for ranks in (1..70).chain([100, 127, 128, 129]) {
            for scheme in [1, 2, 3, 4, 8].map(ForwardingScheme::Grid).into_iter().chain([ForwardingScheme::Bruck]) {
                let all: Vec<Vec<ForwardingStage>> = (0..ranks).map(|rank| stages(rank, ranks, scheme)).collect();
                let (mut sent, mut expected) = (Vec::new(), Vec::new());
                for (rank, stages) in all.iter().enumerate() {
                    let rank = rank as u32;
                    for (i, stage) in stages.iter().enumerate() {
                        sent.extend(stage.receivers.iter().filter(|to| **to != rank).map(|to| (i, rank, *to)));
                        expected.extend(stage.sources.iter().map(|source| (i, *source, rank)));
                        assert!(
                            stage.sources.len() <= 2 * (stage.receivers.len() - 1),
                            "rank {rank} receives too many messages"
                        );
                    }
                }
                sent.sort_unstable();
                expected.sort_unstable();
                assert_eq!(sent, expected, "{ranks} ranks, {scheme:?}");
            }
        }
    }
}
