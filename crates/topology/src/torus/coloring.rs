//! An edge coloring of a torus in which every node has two edges of each color: each color is a set of cycles.
//!
//! Each edge also stores the direction in which its cycle traverses it. That determines the effect of a swap.

/// An edge coloring of a product of rings, with one color per dimension.
pub(super) struct Coloring {
    sizes: Vec<u32>,
    strides: Vec<u32>,
    nodes: u32,
    /// Color of the edge that leaves a node upwards, per node and dimension.
    color: Vec<u8>,
    /// Whether its cycle traverses an edge upwards.
    forward: Vec<bool>,
    /// The cycle through a node, per color and node: the number of some node on that cycle.
    label: Vec<u32>,
    /// Length of the cycle with this label, per color and label.
    length: Vec<u32>,
    /// Number of cycles of each color.
    cycles: Vec<u32>,
}

/// The effect of a swap on the cycles of one color.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum SwapEffect {
    /// Two cycles become one.
    Merge,
    /// A cycle remains one; part of it is reversed.
    Twist,
    /// A cycle splits in two.
    Split,
}

/// A unit square whose opposite sides have equal colors: the two colors can be swapped.
pub(super) struct Square {
    sides: [Sides; 2],
}

/// Two opposite sides, both leaving a corner upwards: p-q and s-r in the square p, q, r, s.
#[derive(Clone, Copy)]
struct Sides {
    edges: [usize; 2],
    p: u32,
    q: u32,
    s: u32,
    color: u8,
    effect: SwapEffect,
}

impl Square {
    /// The effect of the swap on both colors.
    pub(super) fn effects(&self) -> [SwapEffect; 2] {
        self.sides.map(|sides| sides.effect)
    }
}

impl Coloring {
    /// Colors each edge by its dimension, so the cycles are the rings. Rings have three nodes or more: in a ring of
    /// two, the steps up and down would lead to the same neighbor.
    pub(super) fn new(rings: &[u32]) -> Self {
        debug_assert!(rings.iter().all(|&size| size >= 3));
        let strides: Vec<u32> = (0..rings.len()).map(|dimension| rings[..dimension].iter().product()).collect();
        let nodes: u32 = rings.iter().product();
        let first_of_ring = |color: usize| {
            let (size, stride) = (rings[color], strides[color]);
            (0..nodes).map(move |node| node - node / stride % size * stride)
        };
        Coloring {
            color: (0..nodes).flat_map(|_| 0..rings.len() as u8).collect(),
            forward: vec![true; nodes as usize * rings.len()],
            label: (0..rings.len()).flat_map(first_of_ring).collect(),
            length: rings.iter().flat_map(|&size| (0..nodes).map(move |_| size)).collect(),
            cycles: rings.iter().map(|size| nodes / size).collect(),
            sizes: rings.to_vec(),
            strides,
            nodes,
        }
    }

    /// Number of nodes.
    pub(super) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Number of cycles of each color.
    pub(super) fn cycles(&self) -> &[u32] {
        &self.cycles
    }

    /// Whether some cycle through this node has at most half of all nodes.
    pub(super) fn on_short_cycle(&self, node: u32) -> bool {
        let length = |color| self.length[self.index(color, self.label[self.index(color, node)])];
        (0..self.sizes.len() as u8).any(|color| length(color) <= self.nodes / 2)
    }

    /// The square spanned upwards from a node in two dimensions, if its colors can be swapped.
    pub(super) fn square(&self, p: u32, [first, second]: [usize; 2]) -> Option<Square> {
        let (q, s) = (self.up(p, first), self.up(p, second));
        let along = [self.edge(p, first), self.edge(s, first)];
        let across = [self.edge(p, second), self.edge(q, second)];
        let [a, b] = [along, across].map(|edges| self.color[edges[0]]);
        if a == b || a != self.color[along[1]] || b != self.color[across[1]] {
            return None;
        }
        let along = Sides { edges: along, p, q, s, color: a, effect: self.effect(a, along, [p, s]) };
        let across = Sides { edges: across, p, q: s, s: q, color: b, effect: self.effect(b, across, [p, q]) };
        Some(Square { sides: [along, across] })
    }

    /// The effect on the cycles through p-q and s-r of replacing these edges by p-s and q-r.
    fn effect(&self, color: u8, edges: [usize; 2], [p, s]: [u32; 2]) -> SwapEffect {
        if self.label[self.index(color, p)] != self.label[self.index(color, s)] {
            SwapEffect::Merge
        } else if self.forward[edges[0]] == self.forward[edges[1]] {
            // p to q, and later s to r: q and s are the ends of one part, so p to s rejoins both parts.
            SwapEffect::Twist
        } else {
            SwapEffect::Split
        }
    }

    /// Swaps the colors of the sides of a square.
    pub(super) fn swap(&mut self, square: &Square) {
        let [along, across] = square.sides;
        self.align(along);
        self.align(across);
        let forward = [along, across].map(|sides| self.forward[sides.edges[0]]);
        for (old, new, forward) in [(along, across, forward[0]), (across, along, forward[1])] {
            self.color[new.edges[0]] = old.color;
            self.color[new.edges[1]] = old.color;
            self.forward[new.edges[0]] = forward;
            self.forward[new.edges[1]] = forward == (old.effect == SwapEffect::Twist);
        }
        for sides in [along, across] {
            if sides.effect == SwapEffect::Split {
                self.cycles[sides.color as usize] += 1;
                self.relabel_cycle(sides.color, sides.p);
                self.relabel_cycle(sides.color, sides.q);
            }
        }
    }

    /// Prepares a swap: reverses the part that would run against the rest, and gives merging cycles one label.
    fn align(&mut self, Sides { edges, p, q, s, color, effect }: Sides) {
        match effect {
            SwapEffect::Merge => {
                let reverse = self.forward[edges[0]] == self.forward[edges[1]];
                let [of_p, of_s] = [p, s].map(|node| self.label[self.index(color, node)]);
                let [p_length, s_length] = [of_p, of_s].map(|label| self.length[self.index(color, label)]);
                // Only the shorter cycle is walked: n nodes cost O(n log n) over all merges.
                let (start, label) = if p_length < s_length { (p, of_s) } else { (s, of_p) };
                self.walk(color, start, label, reverse);
                let index = self.index(color, label);
                self.length[index] = p_length + s_length;
                self.cycles[color as usize] -= 1;
            }
            SwapEffect::Twist => {
                let (mut before, mut here) = (p, q);
                while here != s {
                    let (next, edge) = self.follow(color, before, here);
                    self.forward[edge] ^= true;
                    (before, here) = (here, next);
                }
            }
            SwapEffect::Split => {}
        }
    }

    /// Labels the whole cycle of a node, and reverses it if `reverse`. Returns its length.
    fn walk(&mut self, color: u8, start: u32, label: u32, reverse: bool) -> u32 {
        let (mut before, mut here, mut length) = (start, start, 0);
        loop {
            let index = self.index(color, here);
            self.label[index] = label;
            length += 1;
            let (next, edge) = self.follow(color, before, here);
            self.forward[edge] ^= reverse;
            (before, here) = (here, next);
            if here == start {
                return length;
            }
        }
    }

    /// Makes a node the label of its cycle.
    fn relabel_cycle(&mut self, color: u8, node: u32) {
        let length = self.walk(color, node, node, false);
        let index = self.index(color, node);
        self.length[index] = length;
    }

    /// The nodes of the cycle through node 0, beginning with node 0.
    pub(super) fn cycle(&self, color: usize) -> Vec<u32> {
        let mut cycle = vec![0];
        let (mut before, mut here) = (0, self.follow(color as u8, 0, 0).0);
        while here != 0 {
            cycle.push(here);
            (before, here) = (here, self.follow(color as u8, before, here).0);
        }
        cycle
    }

    /// The neighbor in this color other than `before`, and the edge to it.
    fn follow(&self, color: u8, before: u32, here: u32) -> (u32, usize) {
        for dimension in 0..self.sizes.len() {
            let (up, edge) = (self.up(here, dimension), self.edge(here, dimension));
            if self.color[edge] == color && up != before {
                return (up, edge);
            }
            let down = self.down(here, dimension);
            let edge = self.edge(down, dimension);
            if self.color[edge] == color && down != before {
                return (down, edge);
            }
        }
        unreachable!("every node has two edges of each color")
    }

    fn up(&self, node: u32, dimension: usize) -> u32 {
        let (size, stride) = (self.sizes[dimension], self.strides[dimension]);
        if node / stride % size == size - 1 { node - (size - 1) * stride } else { node + stride }
    }

    fn down(&self, node: u32, dimension: usize) -> u32 {
        let (size, stride) = (self.sizes[dimension], self.strides[dimension]);
        if (node / stride).is_multiple_of(size) { node + (size - 1) * stride } else { node - stride }
    }

    /// The edge that leaves a node upwards.
    fn edge(&self, node: u32, dimension: usize) -> usize {
        node as usize * self.sizes.len() + dimension
    }

    /// Index into arrays per color and node.
    fn index(&self, color: u8, node: u32) -> usize {
        color as usize * self.nodes as usize + node as usize
    }
}
