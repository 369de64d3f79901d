//! Paths that visit every place once, in steps of one hop.

use std::collections::HashSet;

use super::Torus;
use super::cycles::disjoint_cycles;

/// The search for several lanes takes about ten seconds at this size (32x32x32: half a second); larger tori get one.
const MOST_PLACES: u32 = 1 << 18;

/// Some dimensions of a torus: the offsets from a place to the others, in an order of single hops.
type Walk = Vec<u32>;

impl Torus {
    /// A Hamiltonian path: back and forth in the first dimension, line after line.
    pub fn hamiltonian(&self) -> Vec<u32> {
        self.snake(0..self.dims.len())
    }

    /// Several Hamiltonian paths that have no edge in common, in neither direction, so that neighbours on one lane
    /// never share a link with those on another. A path and its reverse share no directed edge: one-way traffic has
    /// twice as many lanes.
    ///
    /// There is one per ring of three or more, thus k on a k-dimensional torus. Lines (and rings of two, which count
    /// as lines) make a further ring in pairs, if one of the two is even. Without a ring there is one path: on a mesh
    /// of two or three dimensions two cannot be disjoint, since at each corner one of them would have to end.
    ///
    /// Lanes come from a bounded search, and are checked before they are returned: there may be fewer than that. So far
    /// none was missing. Tori of more than 2^18 places get one lane.
    pub fn hamiltonian_lanes(&self) -> Vec<Vec<u32>> {
        let mut lanes = if self.places() <= MOST_PLACES { self.disjoint_lanes() } else { vec![] };
        let mut taken = HashSet::new();
        lanes.retain(|lane| self.is_hamiltonian(lane) && lane.windows(2).all(|ends| taken.insert(undirected(ends))));
        if lanes.is_empty() { vec![self.hamiltonian()] } else { lanes }
    }

    /// Every layer of rings is visited along a Hamiltonian cycle, forth and back in turns; the layers follow each other
    /// along the lines that are left.
    fn disjoint_lanes(&self) -> Vec<Vec<u32>> {
        let (rings, layers) = self.rings_and_layers();
        if rings.is_empty() {
            return vec![];
        }
        let sizes: Vec<u32> = rings.iter().map(|ring| ring.len() as u32).collect();
        let mut gates = HashSet::new();
        let mut lane = |cycle: Vec<u32>| {
            let cycle: Vec<u32> = cycle.into_iter().map(|place| offset(&rings, place)).collect();
            let cycle = with_free_ends(cycle, &mut gates)?;
            let layer = |(index, base): (usize, &u32)| {
                let mut places: Vec<u32> = cycle.iter().map(|place| base + place).collect();
                if index % 2 == 1 {
                    places.reverse();
                }
                places
            };
            Some(layers.iter().enumerate().flat_map(layer).collect())
        };
        disjoint_cycles(&sizes).into_iter().filter_map(&mut lane).collect()
    }

    /// The rings of the torus, some of them folded into two lines, and a walk through what is left.
    fn rings_and_layers(&self) -> (Vec<Walk>, Walk) {
        let is_ring = |&dimension: &usize| self.wrap[dimension] && self.dims[dimension] >= 3;
        let (rings, lines): (Vec<usize>, Vec<usize>) = (0..self.dims.len()).partition(is_ring);
        let mut rings: Vec<Walk> = rings.into_iter().map(|dimension| self.snake([dimension])).collect();
        let (single, long): (Vec<usize>, Vec<usize>) = lines.into_iter().partition(|&line| self.dims[line] == 1);
        let (mut even, mut odd): (Vec<usize>, Vec<usize>) =
            long.into_iter().partition(|&line| self.dims[line].is_multiple_of(2));
        while let Some(first) = even.pop() {
            let Some(second) = odd.pop().or_else(|| even.pop()) else {
                even.push(first);
                break;
            };
            rings.push(self.folded_ring(first, second));
        }
        (rings, self.snake(single.into_iter().chain(even).chain(odd)))
    }

    /// Back and forth through some dimensions, the first of them fastest.
    fn snake(&self, dimensions: impl IntoIterator<Item = usize>) -> Walk {
        let mut walk = vec![0];
        for dimension in dimensions {
            let layer = walk;
            walk = Vec::with_capacity(layer.len() * self.dims[dimension] as usize);
            for coordinate in 0..self.dims[dimension] {
                let base = coordinate * self.stride(dimension);
                let places = layer.iter().map(|place| base + place);
                if coordinate % 2 == 0 { walk.extend(places) } else { walk.extend(places.rev()) }
            }
        }
        walk
    }

    /// A closed way through two lines of two or more, the first one even: up in a snake that leaves out the first
    /// column, and down in that.
    fn folded_ring(&self, even: usize, other: usize) -> Walk {
        let (rows, columns) = (self.dims[even], self.dims[other]);
        let place = |row: u32, column: u32| row * self.stride(even) + column * self.stride(other);
        let row_of_snake = |row: u32| {
            (1..columns).map(move |column| place(row, if row.is_multiple_of(2) { column } else { columns - column }))
        };
        let down = (1..rows).rev().map(|row| place(row, 0));
        std::iter::once(0).chain((0..rows).flat_map(row_of_snake)).chain(down).collect()
    }

    /// Whether it visits every place once, and all its steps are single hops.
    fn is_hamiltonian(&self, path: &[u32]) -> bool {
        let visited: HashSet<u32> = path.iter().copied().collect();
        let all = path.len() == self.places() as usize && visited.len() == path.len();
        all && path.windows(2).all(|ends| self.are_neighbours(ends[0], ends[1]))
    }

    fn are_neighbours(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.coordinates(a), self.coordinates(b));
        let mut different = (0..self.dims.len()).filter(|&dimension| a[dimension] != b[dimension]);
        let Some(dimension) = different.next() else { return false };
        let apart = a[dimension].abs_diff(b[dimension]);
        different.next().is_none() && (apart == 1 || self.wrap[dimension] && apart == self.dims[dimension] - 1)
    }
}

/// The place that is so far along each ring, the first ring fastest.
fn offset(rings: &[Walk], place: u32) -> u32 {
    let mut rest = place as usize;
    let mut along = |ring: &Walk| {
        let offset = ring[rest % ring.len()];
        rest /= ring.len();
        offset
    };
    rings.iter().map(&mut along).sum()
}

/// Rotates a cycle until no other lane changes layers at its ends.
fn with_free_ends(mut cycle: Vec<u32>, gates: &mut HashSet<u32>) -> Option<Vec<u32>> {
    let ends = |start: usize| [cycle[start], cycle[(start + cycle.len() - 1) % cycle.len()]];
    let start = (0..cycle.len()).find(|&start| ends(start).iter().all(|end| !gates.contains(end)))?;
    gates.extend(ends(start));
    cycle.rotate_left(start);
    Some(cycle)
}

fn undirected(ends: &[u32]) -> (u32, u32) {
    (ends[0].min(ends[1]), ends[0].max(ends[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many shapes, each with every dimension wrapping, none, and all but the last.
    fn tori() -> Vec<Torus> {
        let shapes: [&[u32]; 16] = [
            &[1],
            &[2],
            &[7],
            &[2, 3],
            &[1, 5],
            &[5, 7],
            &[16, 16],
            &[3, 3, 3],
            &[2, 4, 8],
            &[4, 4, 4],
            &[4, 1, 6],
            &[4, 5, 2],
            &[8, 16, 4],
            &[3, 5, 2, 2],
            &[2, 2, 2, 2, 2],
            &[3, 3, 3, 3],
        ];
        let wraps = |shape: &'static [u32]| {
            let but_last = (1..=shape.len()).map(|dimension| dimension < shape.len()).collect();
            [vec![true; shape.len()], vec![false; shape.len()], but_last].map(|wrap| Torus::new(shape, &wrap).unwrap())
        };
        shapes.into_iter().flat_map(wraps).collect()
    }

    /// Steps of one hop, told by routing and not by what the paths are made with.
    fn check_path(torus: &Torus, path: &[u32]) {
        let mut places = path.to_vec();
        places.sort();
        assert_eq!(places, (0..torus.places()).collect::<Vec<_>>(), "{torus:?}");
        for ends in path.windows(2) {
            let mut hops = 0;
            torus.route(ends[0], ends[1], crate::Tie::Plus, |_| hops += 1);
            assert_eq!(hops, 1, "{torus:?}: {ends:?}");
        }
    }

    #[test]
    fn the_snake_is_hamiltonian() {
        for torus in tori() {
            check_path(&torus, &torus.hamiltonian());
        }
        assert_eq!(Torus::new(&[3, 2], &[true; 2]).unwrap().hamiltonian(), [0, 1, 2, 5, 4, 3]);
    }

    #[test]
    fn lanes_are_hamiltonian_and_share_no_edge() {
        for torus in tori() {
            let lanes = torus.hamiltonian_lanes();
            lanes.iter().for_each(|lane| check_path(&torus, lane));
            let mut edges: Vec<_> = lanes.iter().flat_map(|lane| lane.windows(2).map(undirected)).collect();
            let all = edges.len();
            edges.sort();
            edges.dedup();
            assert_eq!(edges.len(), all, "{torus:?}");
        }
    }

    #[test]
    fn large_tori_have_one_lane() {
        let lanes = |dims: &[u32]| Torus::new(dims, &[true; 2]).unwrap().hamiltonian_lanes().len();
        assert_eq!((lanes(&[512, 512]), lanes(&[512, 513])), (2, 1));
    }

    #[test]
    fn as_many_lanes_as_rings() {
        for (network, lanes) in [
            ("torus:9", 1),
            ("torus:5x7", 2),
            ("torus:3x40", 2),
            ("torus:8x8x8", 3),
            ("torus:8x8x16", 3),
            ("torus:8x16x32", 3),
            ("torus:4x4x2", 2),
            ("torus:4x2x2", 2),
            ("torus:4x4x4,wrap=yny", 2),
            ("torus:3x3x3x3", 4),
            ("torus:2x2x2x2", 2),
            ("mesh:16x16", 1),
            ("mesh:4x4x4", 1),
            ("mesh:3x4x5x6", 2),
            ("mesh:3x3x3x3", 1),
        ] {
            let parsed: crate::Network = network.parse().unwrap();
            assert_eq!(parsed.hamiltonian_lanes().len(), lanes, "{network}");
        }
    }
}
