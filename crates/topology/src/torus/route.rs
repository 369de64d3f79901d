//! Dimension-order routing: in each dimension the shorter direction.

use super::Torus;

/// The direction of a route over exactly half a ring, where both directions are equally long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TieBreak {
    /// The positive direction.
    Plus,
    /// The negative direction.
    Minus,
    /// Positive from an even coordinate, negative from an odd one. This balances the directions: an exchange over half
    /// a ring of p nodes loads each link with p/4 messages, not p/2.
    #[default]
    Parity,
}

impl Torus {
    /// Calls `link` for each link on the route from one node to another, the first dimension first.
    pub fn route(&self, from: u32, to: u32, tie_break: TieBreak, link: impl FnMut(u32)) {
        self.route_from_dimension(0, from, to, tie_break, link);
    }

    /// [`route`](Self::route) with another dimension order: `first`, `first + 1`, ..., then from 0 to `first - 1`.
    ///
    /// Routes in different dimension orders use different links where routes in the same order would share them.
    pub fn route_from_dimension(
        &self,
        first: usize,
        from: u32,
        to: u32,
        tie_break: TieBreak,
        mut link: impl FnMut(u32),
    ) {
        let (mut at, target) = (self.coordinates(from).values, self.coordinates(to));
        let dimensions = self.dims.len();
        let mut node = from;
        for dimension in (first..dimensions).chain(0..first) {
            let (size, stride) = (self.dims[dimension], self.stride(dimension));
            let (hops, minus) = self.hops(dimension, at[dimension], target[dimension], tie_break);
            for _ in 0..hops {
                link((node * dimensions as u32 + dimension as u32) * 2 + u32::from(minus));
                let here = at[dimension];
                let next = if minus { here.checked_sub(1).unwrap_or(size - 1) } else { (here + 1) % size };
                node = node - here * stride + next * stride;
                at[dimension] = next;
            }
        }
    }

    /// The number of hops from one coordinate to another, and whether in the negative direction.
    fn hops(&self, dimension: usize, from: u32, to: u32, tie_break: TieBreak) -> (u32, bool) {
        if !self.wrap[dimension] {
            return (from.abs_diff(to), to < from);
        }
        let size = self.dims[dimension];
        let up = if to >= from { to - from } else { size - from + to };
        let down = size - up;
        let minus = up > down
            || up == down
                && match tie_break {
                    TieBreak::Plus => false,
                    TieBreak::Minus => true,
                    TieBreak::Parity => from % 2 == 1,
                };
        (if minus { down } else { up }, minus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn torus(dims: &[u32], wrap: &[bool]) -> Torus {
        Torus::new(dims, wrap).unwrap()
    }

    /// The tail and head of a link, computed from coordinates alone.
    fn ends(torus: &Torus, link: u32) -> (u32, u32) {
        let (from, dimension) = (link / 2 / torus.dims().len() as u32, link as usize / 2 % torus.dims().len());
        let mut coordinates = torus.coordinates(from).to_vec();
        let size = torus.dims()[dimension];
        let step = if link % 2 == 1 { size - 1 } else { 1 };
        let crosses = coordinates[dimension] + step >= size;
        assert!(torus.wraps(dimension) || crosses == (link % 2 == 1), "link {link} leaves the mesh");
        coordinates[dimension] = (coordinates[dimension] + step) % size;
        (from, torus.node_at(&coordinates))
    }

    #[test]
    fn routes_are_connected_and_shortest() {
        let shapes: [(&[u32], &[bool]); 6] = [
            (&[4, 3, 2], &[true; 3]),
            (&[5, 4], &[false; 2]),
            (&[6, 1, 3], &[true, true, false]),
            (&[8], &[true]),
            (&[2, 2, 2, 2], &[true; 4]),
            (&[7, 2], &[false, true]),
        ];
        for (dims, wrap) in shapes {
            let torus = torus(dims, wrap);
            for (from, to) in (0..torus.nodes()).flat_map(|from| (0..torus.nodes()).map(move |to| (from, to))) {
                let (a, b) = (torus.coordinates(from), torus.coordinates(to));
                let distance = |d: usize| {
                    let line = a[d].abs_diff(b[d]);
                    if wrap[d] { line.min(dims[d] - line) } else { line }
                };
                let shortest = (0..dims.len()).map(distance).sum::<u32>();
                for (tie_break, first) in
                    [TieBreak::Plus, TieBreak::Minus, TieBreak::Parity].into_iter().zip((0..dims.len()).cycle())
                {
                    let (mut at, mut hops) = (from, 0);
                    torus.route_from_dimension(first, from, to, tie_break, |link| {
                        let (tail, head) = ends(&torus, link);
                        assert_eq!(tail, at, "{dims:?}: {from} to {to}");
                        (at, hops) = (head, hops + 1);
                    });
                    assert_eq!((at, hops), (to, shortest), "{dims:?}: {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn the_first_dimension_comes_first() {
        let torus = torus(&[4, 4], &[true; 2]);
        let route = |first| {
            let mut links = Vec::new();
            torus.route_from_dimension(first, 0, 5, TieBreak::default(), |link| links.push(link));
            links
        };
        assert_eq!(route(0), [0, (2 + 1) * 2]);
        assert_eq!(route(1), [2, 4 * 2 * 2]);
    }

    #[test]
    fn parity_balances_a_half_ring_exchange_over_both_directions() {
        let max_load = |size: u32, tie_break| {
            let ring = torus(&[size], &[true]);
            let mut load = vec![0; ring.links() as usize];
            for node in 0..size {
                ring.route(node, (node + size / 2) % size, tie_break, |link| load[link as usize] += 1);
            }
            *load.iter().max().unwrap()
        };
        for size in [2, 4, 8, 16, 32] {
            assert_eq!(max_load(size, TieBreak::Parity), (size / 4).max(1), "ring of {size}");
            assert_eq!(max_load(size, TieBreak::Plus), size / 2, "ring of {size}");
        }
    }

    #[test]
    fn a_ring_of_two_has_two_links_each_way() {
        let ring = torus(&[2], &[true]);
        let route = |from, to, tie_break| {
            let mut links = Vec::new();
            ring.route(from, to, tie_break, |link| links.push(link));
            links
        };
        assert_eq!(route(0, 1, TieBreak::Plus), [0]);
        assert_eq!(route(0, 1, TieBreak::Minus), [1]);
        assert_eq!(route(1, 0, TieBreak::Parity), [3]);
    }
}
