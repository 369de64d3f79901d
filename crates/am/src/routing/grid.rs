//! Dimension-order routing on a grid.
//!
//! Ranks are placed in row-major order, so if there are more positions than ranks, the last ones are empty. A hop sets
//! one coordinate to the destination's: the last one that differs and leads to a rank. There always is one: if the
//! destination's first differing coordinate is lower, setting it leads to a position before this rank; if it is higher,
//! setting any other one leads to a position before the destination.

/// A grid whose first positions have ranks.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Stride and side of each dimension, the last dimension first.
    dimensions: Vec<Dimension>,
    ranks: u32,
    /// The first rank of the incomplete last row; P if it is complete.
    incomplete: u32,
}

#[derive(Clone, Copy, Debug)]
struct Dimension {
    stride: u32,
    side: u32,
}

impl Dimension {
    fn coordinate(&self, rank: u32) -> u32 {
        rank / self.stride % self.side
    }
}

impl Grid {
    /// A grid with these sides, the last one fastest; nothing if it has too few positions.
    pub(super) fn new(sides: &[u32], ranks: u32) -> Option<Self> {
        let mut stride = 1_u32;
        let mut dimensions = Vec::new();
        for side in sides.iter().rev() {
            // At most P, so that products stay small.
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

    /// A nearly square grid.
    pub(super) fn square(ranks: u32) -> Self {
        let columns = (1..=ranks).find(|side| u64::from(*side) * u64::from(*side) >= u64::from(ranks)).unwrap_or(1);
        Self::new(&[ranks.div_ceil(columns), columns], ranks).expect("it has a position for each rank")
    }

    /// A hypercube: sides of 2.
    pub(super) fn cube(ranks: u32) -> Self {
        Self::new(&vec![2; ranks.next_power_of_two().ilog2() as usize], ranks).expect("it has a position for each rank")
    }

    fn with_coordinate(&self, from: u32, dimension: Dimension, coordinate: u32) -> Option<u32> {
        let position = from - dimension.coordinate(from) * dimension.stride + coordinate * dimension.stride;
        (position < self.ranks).then_some(position)
    }

    pub(super) fn next_hop(&self, from: u32, to: u32) -> u32 {
        let differs = |dimension: &&Dimension| dimension.coordinate(from) != dimension.coordinate(to);
        let mut differing = self.dimensions.iter().filter(differs);
        differing
            .find_map(|dimension| self.with_coordinate(from, *dimension, dimension.coordinate(to)))
            .expect("there is a route")
    }

    pub(super) fn neighbors(&self, rank: u32) -> Vec<u32> {
        let along = |dimension: &Dimension| {
            let dimension = *dimension;
            (0..dimension.side).filter_map(move |coordinate| self.with_coordinate(rank, dimension, coordinate))
        };
        self.dimensions.iter().flat_map(along).collect()
    }

    /// Whether the neighbor may forward: the first dimension is set last, unless a position on the route is empty.
    pub(super) fn may_forward(&self, rank: u32, neighbor: u32) -> bool {
        let is_last = self.dimensions.last().is_none_or(|first| first.coordinate(rank) != first.coordinate(neighbor));
        !is_last || rank >= self.incomplete
    }
}
