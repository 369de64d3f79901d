//! The way of a message: dimension after dimension, in each the shorter way round.

use super::Torus;

/// Which way to go at exactly half a ring, where both are equally long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tie {
    /// Upwards.
    Plus,
    /// Downwards.
    Minus,
    /// Upwards from an even coordinate, downwards from an odd one: both directions get their share, so that an exchange
    /// over half a ring of p loads its links with p/4 messages, not p/2.
    #[default]
    Parity,
}

impl Torus {
    /// Calls `link` for each link from one place to another, the first dimension first.
    pub fn route(&self, from: u32, to: u32, tie: Tie, link: impl FnMut(u32)) {
        self.route_starting(0, from, to, tie, link);
    }

    /// The same with another dimension first: the order is `first`, `first + 1`, ..., and then from 0 on.
    ///
    /// Routes in different orders spread over links that routes in the same order would share.
    pub fn route_starting(&self, first: usize, from: u32, to: u32, tie: Tie, mut link: impl FnMut(u32)) {
        let (mut at, target) = (self.coordinates(from).values, self.coordinates(to));
        let dimensions = self.dims.len();
        let mut place = from;
        for dimension in (first..dimensions).chain(0..first) {
            let (size, stride) = (self.dims[dimension], self.stride(dimension));
            let (hops, minus) = self.hops(dimension, at[dimension], target[dimension], tie);
            for _ in 0..hops {
                link((place * dimensions as u32 + dimension as u32) * 2 + u32::from(minus));
                let here = at[dimension];
                let next = if minus { here.checked_sub(1).unwrap_or(size - 1) } else { (here + 1) % size };
                place = place - here * stride + next * stride;
                at[dimension] = next;
            }
        }
    }

    /// How many hops from one coordinate to another, and whether downwards.
    fn hops(&self, dimension: usize, from: u32, to: u32, tie: Tie) -> (u32, bool) {
        if !self.wrap[dimension] {
            return (from.abs_diff(to), to < from);
        }
        let size = self.dims[dimension];
        let up = if to >= from { to - from } else { size - from + to };
        let down = size - up;
        let minus = up > down
            || up == down
                && match tie {
                    Tie::Plus => false,
                    Tie::Minus => true,
                    Tie::Parity => from % 2 == 1,
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

    /// Where a link leads, found by coordinates alone.
    fn ends(torus: &Torus, link: u32) -> (u32, u32) {
        let (from, dimension) = (link / 2 / torus.dims().len() as u32, link as usize / 2 % torus.dims().len());
        let mut coordinates = torus.coordinates(from).to_vec();
        let size = torus.dims()[dimension];
        let step = if link % 2 == 1 { size - 1 } else { 1 };
        let crosses = coordinates[dimension] + step >= size;
        assert!(torus.wraps(dimension) || crosses == (link % 2 == 1), "link {link} leaves the mesh");
        coordinates[dimension] = (coordinates[dimension] + step) % size;
        (from, torus.place_of(&coordinates))
    }

    #[test]
    fn routes_join_up_and_are_shortest() {
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
            for (from, to) in (0..torus.places()).flat_map(|from| (0..torus.places()).map(move |to| (from, to))) {
                let (a, b) = (torus.coordinates(from), torus.coordinates(to));
                let distance = |d: usize| {
                    let line = a[d].abs_diff(b[d]);
                    if wrap[d] { line.min(dims[d] - line) } else { line }
                };
                let shortest = (0..dims.len()).map(distance).sum::<u32>();
                for (tie, first) in [Tie::Plus, Tie::Minus, Tie::Parity].into_iter().zip((0..dims.len()).cycle()) {
                    let (mut at, mut hops) = (from, 0);
                    torus.route_starting(first, from, to, tie, |link| {
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
        let way = |first| {
            let mut way = Vec::new();
            torus.route_starting(first, 0, 5, Tie::default(), |link| way.push(link));
            way
        };
        assert_eq!(way(0), [0, (2 + 1) * 2]);
        assert_eq!(way(1), [2, 4 * 2 * 2]);
    }

    #[test]
    fn parity_shares_a_half_ring_exchange_between_both_directions() {
        let most = |size: u32, tie| {
            let ring = torus(&[size], &[true]);
            let mut load = vec![0; ring.links() as usize];
            for place in 0..size {
                ring.route(place, (place + size / 2) % size, tie, |link| load[link as usize] += 1);
            }
            *load.iter().max().unwrap()
        };
        for size in [2, 4, 8, 16, 32] {
            assert_eq!(most(size, Tie::Parity), (size / 4).max(1), "ring of {size}");
            assert_eq!(most(size, Tie::Plus), size / 2, "ring of {size}");
        }
    }

    #[test]
    fn a_ring_of_two_has_two_links_each_way() {
        let ring = torus(&[2], &[true]);
        let only = |from, to, tie| {
            let mut way = Vec::new();
            ring.route(from, to, tie, |link| way.push(link));
            way
        };
        assert_eq!(only(0, 1, Tie::Plus), [0]);
        assert_eq!(only(0, 1, Tie::Minus), [1]);
        assert_eq!(only(1, 0, Tie::Parity), [3]);
    }
}
