//! Hamiltonian paths: they visit every node once, one hop at a time.

use std::collections::HashSet;

use super::Torus;
use super::cycles::disjoint_cycles;

/// Largest torus for which disjoint paths are searched: about ten seconds at this size (32x32x32: half a second).
const MAX_SEARCH_NODES: u32 = 1 << 18;

/// A walk through some dimensions of a torus in single hops: the offset of each node from the first.
type Walk = Vec<u32>;

impl Torus {
    /// A Hamiltonian path in boustrophedon (snake) order, the first dimension fastest.
    pub fn hamiltonian_path(&self) -> Vec<u32> {
        self.snake(0..self.dims.len())
    }

    /// Edge-disjoint Hamiltonian paths: messages between neighbors on one path never share a link with those on
    /// another. A path and its reverse share no directed link, so one-way traffic can use each path twice.
    ///
    /// There is one path per ring of three or more nodes, so k on a k-dimensional torus. Two lines (rings of two count
    /// as lines) form a further ring if one of them has even length. Without a ring there is one path: on a mesh of two
    /// or three dimensions two paths cannot be disjoint, since one of them would have to end at each corner.
    ///
    /// A bounded search finds the paths, and they are verified before they are returned: there may be fewer than that,
    /// though so far none was missing. Tori of more than 2^18 nodes get one path.
    pub fn disjoint_hamiltonian_paths(&self) -> Vec<Vec<u32>> {
        let mut paths = if self.nodes() <= MAX_SEARCH_NODES { self.find_disjoint_paths() } else { vec![] };
        let mut taken = HashSet::new();
        paths.retain(|path| self.is_hamiltonian(path) && path.windows(2).all(|ends| taken.insert(undirected(ends))));
        if paths.is_empty() { vec![self.hamiltonian_path()] } else { paths }
    }

    /// Visits each layer of rings along a Hamiltonian cycle, alternately forward and backward; the layers follow the
    /// snake through the remaining lines.
    fn find_disjoint_paths(&self) -> Vec<Vec<u32>> {
        let (rings, layers) = self.rings_and_layers();
        if rings.is_empty() {
            return vec![];
        }
        let sizes: Vec<u32> = rings.iter().map(|ring| ring.len() as u32).collect();
        let mut gates = HashSet::new();
        let mut path = |cycle: Vec<u32>| {
            let cycle: Vec<u32> = cycle.into_iter().map(|node| ring_offset(&rings, node)).collect();
            let cycle = rotate_to_free_ends(cycle, &mut gates)?;
            let layer = |(index, base): (usize, &u32)| {
                let mut nodes: Vec<u32> = cycle.iter().map(|node| base + node).collect();
                if index % 2 == 1 {
                    nodes.reverse();
                }
                nodes
            };
            Some(layers.iter().enumerate().flat_map(layer).collect())
        };
        disjoint_cycles(&sizes).into_iter().filter_map(&mut path).collect()
    }

    /// The rings of the torus, including those folded from two lines, and a walk through the remaining dimensions.
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

    /// The boustrophedon (snake) walk through some dimensions, the first of them fastest.
    fn snake(&self, dimensions: impl IntoIterator<Item = usize>) -> Walk {
        let mut walk = vec![0];
        for dimension in dimensions {
            let layer = walk;
            walk = Vec::with_capacity(layer.len() * self.dims[dimension] as usize);
            for coordinate in 0..self.dims[dimension] {
                let base = coordinate * self.stride(dimension);
                let nodes = layer.iter().map(|node| base + node);
                if coordinate % 2 == 0 { walk.extend(nodes) } else { walk.extend(nodes.rev()) }
            }
        }
        walk
    }

    /// A cycle through two lines of two or more nodes, the first of even length: up in a snake that skips the first
    /// column, and down in that column.
    fn folded_ring(&self, even: usize, other: usize) -> Walk {
        let (rows, columns) = (self.dims[even], self.dims[other]);
        let node = |row: u32, column: u32| row * self.stride(even) + column * self.stride(other);
        let row_of_snake = |row: u32| {
            (1..columns).map(move |column| node(row, if row.is_multiple_of(2) { column } else { columns - column }))
        };
        let down = (1..rows).rev().map(|row| node(row, 0));
        std::iter::once(0).chain((0..rows).flat_map(row_of_snake)).chain(down).collect()
    }

    /// Whether the path visits every node once, in single hops.
    fn is_hamiltonian(&self, path: &[u32]) -> bool {
        let visited: HashSet<u32> = path.iter().copied().collect();
        let all = path.len() == self.nodes() as usize && visited.len() == path.len();
        all && path.windows(2).all(|ends| self.are_neighbors(ends[0], ends[1]))
    }

    fn are_neighbors(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.coordinates(a), self.coordinates(b));
        let mut different = (0..self.dims.len()).filter(|&dimension| a[dimension] != b[dimension]);
        let Some(dimension) = different.next() else { return false };
        let apart = a[dimension].abs_diff(b[dimension]);
        different.next().is_none() && (apart == 1 || self.wrap[dimension] && apart == self.dims[dimension] - 1)
    }
}

/// The offset of a node of the product of rings, whose first ring varies fastest.
fn ring_offset(rings: &[Walk], node: u32) -> u32 {
    let mut rest = node as usize;
    let mut along = |ring: &Walk| {
        let offset = ring[rest % ring.len()];
        rest /= ring.len();
        offset
    };
    rings.iter().map(&mut along).sum()
}

/// Rotates a cycle until no other path changes layers at its ends.
fn rotate_to_free_ends(mut cycle: Vec<u32>, gates: &mut HashSet<u32>) -> Option<Vec<u32>> {
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

    /// Many shapes, each with all dimensions wrapping, none, and all but the last.
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

    /// Checks that steps are single hops, by routing, independently of the construction.
    fn check_path(torus: &Torus, path: &[u32]) {
        let mut nodes = path.to_vec();
        nodes.sort();
        assert_eq!(nodes, (0..torus.nodes()).collect::<Vec<_>>(), "{torus:?}");
        for ends in path.windows(2) {
            let mut hops = 0;
            torus.route(ends[0], ends[1], crate::TieBreak::Plus, |_| hops += 1);
            assert_eq!(hops, 1, "{torus:?}: {ends:?}");
        }
    }

    #[test]
    fn the_snake_is_hamiltonian() {
        for torus in tori() {
            check_path(&torus, &torus.hamiltonian_path());
        }
        assert_eq!(Torus::new(&[3, 2], &[true; 2]).unwrap().hamiltonian_path(), [0, 1, 2, 5, 4, 3]);
    }

    #[test]
    fn paths_are_hamiltonian_and_edge_disjoint() {
        for torus in tori() {
            let paths = torus.disjoint_hamiltonian_paths();
            paths.iter().for_each(|path| check_path(&torus, path));
            let mut edges: Vec<_> = paths.iter().flat_map(|path| path.windows(2).map(undirected)).collect();
            let all = edges.len();
            edges.sort();
            edges.dedup();
            assert_eq!(edges.len(), all, "{torus:?}");
        }
    }

    #[test]
    fn large_tori_have_one_lane() {
        let paths = |dims: &[u32]| Torus::new(dims, &[true; 2]).unwrap().disjoint_hamiltonian_paths().len();
        assert_eq!((paths(&[512, 512]), paths(&[512, 513])), (2, 1));
    }

    #[test]
    fn one_disjoint_path_per_ring() {
        for (network, paths) in [
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
            assert_eq!(parsed.disjoint_hamiltonian_paths().len(), paths, "{network}");
        }
    }
}
