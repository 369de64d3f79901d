//! Ways over a grid, dimension by dimension.
//!
//! Ranks lie in the grid in order, the last coordinate fastest, so where there are more places than ranks, those at the end
//! are empty. A hop sets one coordinate to the destination's: the last one that differs and whose place has a rank. There
//! always is one. Of the first coordinate that differs, either the destination's is lower, then setting that one leads to a
//! place before this rank; or it is higher, then setting any other one leads to a place before the destination.

/// A grid of places, of which the first ones have ranks.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Places from one coordinate to the next, and how many coordinates there are, the last dimension first.
    dimensions: Vec<Dimension>,
    ranks: u32,
    /// The lowest rank whose way to some place of its row may be missing.
    incomplete: u32,
}

#[derive(Clone, Copy, Debug)]
struct Dimension {
    stride: u32,
    side: u32,
}

impl Dimension {
    fn of(&self, rank: u32) -> u32 {
        rank / self.stride % self.side
    }
}

impl Grid {
    /// With these sides, the last one fastest; nothing if there is no room for all ranks.
    pub(super) fn new(sides: &[u32], ranks: u32) -> Option<Self> {
        let mut stride = 1_u32;
        let mut dimensions = Vec::new();
        for side in sides.iter().rev() {
            // Of no more than there are ranks, so that products stay small.
            let side = (*side).min(ranks);
            dimensions.push(Dimension { stride, side });
            stride = stride.saturating_mul(side);
        }
        if stride < ranks {
            return None;
        }
        dimensions.retain(|dimension| dimension.side > 1);
        let row = dimensions.last().map_or(1, |first| first.stride);
        let incomplete = if ranks.is_multiple_of(row) { ranks } else { ranks / row * row };
        Some(Self { dimensions, ranks, incomplete })
    }

    /// About square.
    pub(super) fn square(ranks: u32) -> Self {
        let columns = (1..=ranks).find(|side| u64::from(*side) * u64::from(*side) >= u64::from(ranks)).unwrap_or(1);
        Self::new(&[ranks.div_ceil(columns), columns], ranks).expect("it has room for all")
    }

    /// With two places in each dimension.
    pub(super) fn cube(ranks: u32) -> Self {
        Self::new(&vec![2; ranks.next_power_of_two().ilog2() as usize], ranks).expect("it has room for all")
    }

    fn moved(&self, from: u32, dimension: Dimension, coordinate: u32) -> Option<u32> {
        let place = from - dimension.of(from) * dimension.stride + coordinate * dimension.stride;
        (place < self.ranks).then_some(place)
    }

    pub(super) fn next(&self, from: u32, to: u32) -> u32 {
        let differs = |dimension: &&Dimension| dimension.of(from) != dimension.of(to);
        let mut ways = self.dimensions.iter().filter(differs);
        ways.find_map(|dimension| self.moved(from, *dimension, dimension.of(to))).expect("there is a way")
    }

    pub(super) fn neighbours(&self, rank: u32) -> Vec<u32> {
        let along = |dimension: &Dimension| {
            let dimension = *dimension;
            (0..dimension.side).filter_map(move |coordinate| self.moved(rank, dimension, coordinate))
        };
        self.dimensions.iter().flat_map(along).collect()
    }

    /// The first dimension is the last to be set, unless a place on the way is missing.
    pub(super) fn passes_on(&self, rank: u32, neighbour: u32) -> bool {
        let is_last = self.dimensions.last().is_none_or(|first| first.of(rank) != first.of(neighbour));
        !is_last || rank >= self.incomplete
    }
}
