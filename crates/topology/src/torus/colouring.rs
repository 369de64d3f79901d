//! The edges of a torus in colours, so that every place has two edges of each colour: each colour is a set of cycles.
//!
//! Each edge also knows which way its cycle runs through it. That tells at once what a swap would do to the cycles.

/// The edges of a product of rings in as many colours as it has dimensions.
pub(super) struct Colouring {
    sizes: Vec<u32>,
    strides: Vec<u32>,
    places: u32,
    /// Colour of each edge: the one that leaves a place upwards, per place and dimension.
    colour: Vec<u8>,
    /// Whether the cycle of an edge runs through it upwards.
    ahead: Vec<bool>,
    /// Which cycle a place is on, per colour and place: the number of some place on that cycle.
    label: Vec<u32>,
    /// Length of the cycle with this label, per colour and label.
    length: Vec<u32>,
    /// How many cycles each colour has.
    cycles: Vec<u32>,
}

/// What a swap does to the cycles of one colour.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Effect {
    /// Two cycles become one.
    Merge,
    /// A cycle remains one; part of it runs the other way.
    Twist,
    /// A cycle falls in two.
    Split,
}

/// A unit square with opposite sides of one colour, which can swap the colours of its sides.
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
    colour: u8,
    effect: Effect,
}

impl Square {
    /// What swapping does to both colours.
    pub(super) fn effects(&self) -> [Effect; 2] {
        self.sides.map(|sides| sides.effect)
    }
}

impl Colouring {
    /// At first the colour of an edge is its dimension, so that the cycles are the rings. All have three places or
    /// more: in a ring of two, one step up and one step down would be the same neighbour.
    pub(super) fn new(rings: &[u32]) -> Self {
        debug_assert!(rings.iter().all(|&size| size >= 3));
        let strides: Vec<u32> = (0..rings.len()).map(|dimension| rings[..dimension].iter().product()).collect();
        let places: u32 = rings.iter().product();
        let first_of_ring = |colour: usize| {
            let (size, stride) = (rings[colour], strides[colour]);
            (0..places).map(move |place| place - place / stride % size * stride)
        };
        Colouring {
            colour: (0..places).flat_map(|_| 0..rings.len() as u8).collect(),
            ahead: vec![true; places as usize * rings.len()],
            label: (0..rings.len()).flat_map(first_of_ring).collect(),
            length: rings.iter().flat_map(|&size| (0..places).map(move |_| size)).collect(),
            cycles: rings.iter().map(|size| places / size).collect(),
            sizes: rings.to_vec(),
            strides,
            places,
        }
    }

    /// Number of places.
    pub(super) fn places(&self) -> u32 {
        self.places
    }

    /// How many cycles each colour has.
    pub(super) fn cycles(&self) -> &[u32] {
        &self.cycles
    }

    /// Whether some cycle through this place visits no more than half of all places.
    pub(super) fn on_short_cycle(&self, place: u32) -> bool {
        let length = |colour| self.length[self.at(colour, self.label[self.at(colour, place)])];
        (0..self.sizes.len() as u8).any(|colour| length(colour) <= self.places / 2)
    }

    /// The square that goes up from a place in two dimensions, if its sides can be swapped.
    pub(super) fn square(&self, p: u32, [first, second]: [usize; 2]) -> Option<Square> {
        let (q, s) = (self.up(p, first), self.up(p, second));
        let along = [self.edge(p, first), self.edge(s, first)];
        let across = [self.edge(p, second), self.edge(q, second)];
        let [a, b] = [along, across].map(|edges| self.colour[edges[0]]);
        if a == b || a != self.colour[along[1]] || b != self.colour[across[1]] {
            return None;
        }
        let along = Sides { edges: along, p, q, s, colour: a, effect: self.effect(a, along, [p, s]) };
        let across = Sides { edges: across, p, q: s, s: q, colour: b, effect: self.effect(b, across, [p, q]) };
        Some(Square { sides: [along, across] })
    }

    /// What becomes of the cycles through p-q and s-r when p-s and q-r take the place of these edges.
    fn effect(&self, colour: u8, edges: [usize; 2], [p, s]: [u32; 2]) -> Effect {
        if self.label[self.at(colour, p)] != self.label[self.at(colour, s)] {
            Effect::Merge
        } else if self.ahead[edges[0]] == self.ahead[edges[1]] {
            // p to q, and later s to r: q and s are the ends of one part, so that p to s joins both parts again.
            Effect::Twist
        } else {
            Effect::Split
        }
    }

    /// Gives the sides of a square each other's colours.
    pub(super) fn swap(&mut self, square: &Square) {
        let [along, across] = square.sides;
        self.align(along);
        self.align(across);
        let ahead = [along, across].map(|sides| self.ahead[sides.edges[0]]);
        for (old, new, ahead) in [(along, across, ahead[0]), (across, along, ahead[1])] {
            self.colour[new.edges[0]] = old.colour;
            self.colour[new.edges[1]] = old.colour;
            self.ahead[new.edges[0]] = ahead;
            self.ahead[new.edges[1]] = ahead == (old.effect == Effect::Twist);
        }
        for sides in [along, across] {
            if sides.effect == Effect::Split {
                self.cycles[sides.colour as usize] += 1;
                self.name_after(sides.colour, sides.p);
                self.name_after(sides.colour, sides.q);
            }
        }
    }

    /// Before a swap: turns round what would run against the rest, and gives cycles that merge one label.
    fn align(&mut self, Sides { edges, p, q, s, colour, effect }: Sides) {
        match effect {
            Effect::Merge => {
                let turn = self.ahead[edges[0]] == self.ahead[edges[1]];
                let [of_p, of_s] = [p, s].map(|place| self.label[self.at(colour, place)]);
                let [p_length, s_length] = [of_p, of_s].map(|label| self.length[self.at(colour, label)]);
                // Only the shorter one is walked: all merges together cost at most places times their logarithm.
                let (start, label) = if p_length < s_length { (p, of_s) } else { (s, of_p) };
                self.walk(colour, start, label, turn);
                let index = self.at(colour, label);
                self.length[index] = p_length + s_length;
                self.cycles[colour as usize] -= 1;
            }
            Effect::Twist => {
                let (mut before, mut here) = (p, q);
                while here != s {
                    let (next, edge) = self.follow(colour, before, here);
                    self.ahead[edge] ^= true;
                    (before, here) = (here, next);
                }
            }
            Effect::Split => {}
        }
    }

    /// Labels the whole cycle of a place, and turns it round if asked to. Returns its length.
    fn walk(&mut self, colour: u8, start: u32, label: u32, turn: bool) -> u32 {
        let (mut before, mut here, mut length) = (start, start, 0);
        loop {
            let index = self.at(colour, here);
            self.label[index] = label;
            length += 1;
            let (next, edge) = self.follow(colour, before, here);
            self.ahead[edge] ^= turn;
            (before, here) = (here, next);
            if here == start {
                return length;
            }
        }
    }

    /// Makes a place the label of its cycle.
    fn name_after(&mut self, colour: u8, place: u32) {
        let length = self.walk(colour, place, place, false);
        let index = self.at(colour, place);
        self.length[index] = length;
    }

    /// The places of the cycle through place 0, which come first.
    pub(super) fn cycle(&self, colour: usize) -> Vec<u32> {
        let mut cycle = vec![0];
        let (mut before, mut here) = (0, self.follow(colour as u8, 0, 0).0);
        while here != 0 {
            cycle.push(here);
            (before, here) = (here, self.follow(colour as u8, before, here).0);
        }
        cycle
    }

    /// A neighbour in this colour that is not the one before, and the edge to it.
    fn follow(&self, colour: u8, before: u32, here: u32) -> (u32, usize) {
        for dimension in 0..self.sizes.len() {
            let (up, edge) = (self.up(here, dimension), self.edge(here, dimension));
            if self.colour[edge] == colour && up != before {
                return (up, edge);
            }
            let down = self.down(here, dimension);
            let edge = self.edge(down, dimension);
            if self.colour[edge] == colour && down != before {
                return (down, edge);
            }
        }
        unreachable!("every place has two edges of each colour")
    }

    fn up(&self, place: u32, dimension: usize) -> u32 {
        let (size, stride) = (self.sizes[dimension], self.strides[dimension]);
        if place / stride % size == size - 1 { place - (size - 1) * stride } else { place + stride }
    }

    fn down(&self, place: u32, dimension: usize) -> u32 {
        let (size, stride) = (self.sizes[dimension], self.strides[dimension]);
        if (place / stride).is_multiple_of(size) { place + (size - 1) * stride } else { place - stride }
    }

    /// The edge that leaves a place upwards.
    fn edge(&self, place: u32, dimension: usize) -> usize {
        place as usize * self.sizes.len() + dimension
    }

    /// Index of what is kept per colour and place.
    fn at(&self, colour: u8, place: u32) -> usize {
        colour as usize * self.places as usize + place as usize
    }
}
