//! Small graphs of all kinds, as lists of edges.

use treepie_graph::{Distribution, Edge, Edges, Orientation, Result, Seeing, Shape, Weights, share};
use treepie_sim::noise::Random;

pub(crate) struct Listed {
    pub(crate) vertices: u64,
    pub(crate) edges: Vec<Edge>,
    pub(crate) orientation: Orientation,
}

impl Edges for Listed {
    fn vertices(&self) -> Option<u64> {
        Some(self.vertices)
    }

    fn orientation(&self) -> Orientation {
        self.orientation
    }

    fn weights(&self) -> Weights {
        Weights::Whole
    }

    fn part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let share = share(self.edges.len() as u64, part, parts);
        sink(&self.edges[share.start as usize..share.end as usize]);
        Ok(())
    }
}

impl Listed {
    pub(crate) fn directed(vertices: u64, edges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let edges = edges.into_iter().map(|(from, to)| Edge::new(from, to)).collect();
        Self { vertices, edges, orientation: Orientation::Directed }
    }

    /// Nothing, one vertex, cycles that lead to others, or arcs by chance: few or many of them, in one part or in
    /// several, some several times, some from a vertex to itself. Weights are so few that many ways are equally long.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut below = |bound| random.below(bound);
        let vertices = match seed {
            0 => 0,
            1 | 2 => 1,
            3.. if seed % 7 == 3 => 20 + below(20),
            _ => 2 + below(28),
        };
        let mut edges = Vec::new();
        if seed % 7 == 3 {
            let mut names: Vec<u64> = (0..vertices).collect();
            (1..names.len()).for_each(|place| names.swap(place, below(place as u64 + 1) as usize));
            let length = 2 + below(2) as usize;
            for (cycle, members) in names.chunks(length).enumerate() {
                let turned = members.iter().cycle().skip(1);
                edges.extend(members.iter().zip(turned).map(|(from, to)| Edge::new(*from, *to)));
                let before = (cycle * length).saturating_sub(1 + below(2 * length as u64) as usize);
                edges.push(Edge::new(names[before], members[0]));
            }
        } else if seed != 1 && vertices > 0 {
            let (parts, degree) = (1 + below(3), [1, 2, 4][below(3) as usize]);
            for _ in 0..(vertices * degree).div_ceil(2) + below(vertices + 1) {
                let from = below(vertices);
                let to = if below(8) == 0 { from } else { below(vertices) / parts * parts + from % parts };
                let weight = 1.0 + below(4) as f64;
                edges.extend(vec![Edge { from, to: to.min(vertices - 1), weight }; 1 + below(5) as usize / 4]);
            }
        }
        let orientation = if seed % 5 == 4 { Orientation::Undirected } else { Orientation::Directed };
        Self { vertices, edges, orientation }
    }

    /// Where arcs lead, and how long they are; undirected edges twice.
    pub(crate) fn arcs(&self) -> Vec<Vec<(usize, u32)>> {
        let mut arcs = vec![Vec::new(); self.vertices as usize];
        for edge in &self.edges {
            let (from, to) = (edge.from as usize, edge.to as usize);
            arcs[from].push((to, edge.weight as u32));
            if self.orientation == Orientation::Undirected && from != to {
                arcs[to].push((from, edge.weight as u32));
            }
        }
        arcs
    }

    pub(crate) fn shape(&self, seed: u64) -> Shape {
        let distribution = [Distribution::Block, Distribution::Cyclic, Distribution::Hashed][seed as usize % 3];
        let seeing = if seed.is_multiple_of(2) { Seeing::All } else { Seeing::Ghosts };
        Shape { distribution, seeing, backwards: true, whole_weights: true, ..Shape::default() }
    }
}
