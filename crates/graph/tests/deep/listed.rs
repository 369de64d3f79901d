//! Small graphs of all kinds, as edge lists.

use treepie_graph::{
    BuildOptions, Distribution, Edge, EdgeSource, GhostPolicy, Orientation, Result, WeightKind, block_range,
};
use treepie_sim::noise::SplitMix64;

pub(crate) struct EdgeList {
    pub(crate) vertices: u64,
    pub(crate) first_id: u64,
    pub(crate) edges: Vec<Edge>,
    pub(crate) orientation: Orientation,
}

impl EdgeSource for EdgeList {
    fn num_vertices(&self) -> Option<u64> {
        Some(self.vertices)
    }

    fn first_id(&self) -> u64 {
        self.first_id
    }

    fn orientation(&self) -> Orientation {
        self.orientation
    }

    fn weights(&self) -> WeightKind {
        WeightKind::Integer
    }

    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let range = block_range(self.edges.len() as u64, part, parts);
        sink(&self.edges[range.start as usize..range.end as usize]);
        Ok(())
    }
}

impl EdgeList {
    pub(crate) fn directed(vertices: u64, edges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let edges = edges.into_iter().map(|(from, to)| Edge::new(from, to)).collect();
        Self { vertices, first_id: 0, edges, orientation: Orientation::Directed }
    }

    /// An empty graph, one vertex, a chain of cycles, or random arcs: few or many, in one component or several, with
    /// parallel arcs and self-loops. There are few distinct weights, so that many paths are equally long.
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut below = |bound| random.below(bound);
        let vertices = match seed {
            0 => 0,
            1 | 2 => 1,
            3.. if seed % 7 == 3 => 20 + below(20),
            _ => 2 + below(28),
        };
        let mut edges = Vec::new();
        if seed % 7 == 3 {
            let mut vertex_ids: Vec<u64> = (0..vertices).collect();
            (1..vertex_ids.len()).for_each(|index| vertex_ids.swap(index, below(index as u64 + 1) as usize));
            let length = 2 + below(2) as usize;
            for (cycle, members) in vertex_ids.chunks(length).enumerate() {
                let successors = members.iter().cycle().skip(1);
                edges.extend(members.iter().zip(successors).map(|(from, to)| Edge::new(*from, *to)));
                let before = (cycle * length).saturating_sub(1 + below(2 * length as u64) as usize);
                edges.push(Edge::new(vertex_ids[before], members[0]));
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
        Self { vertices, first_id: 0, edges, orientation }
    }

    /// The same graph with vertices from `first_id` on.
    pub(crate) fn counted_from(&self, first_id: u64) -> Self {
        let shifted = |edge: &Edge| Edge { from: edge.from + first_id, to: edge.to + first_id, ..*edge };
        Self { first_id, edges: self.edges.iter().map(shifted).collect(), ..*self }
    }

    /// The targets and weights of each vertex's arcs; undirected edges twice.
    pub(crate) fn adjacency(&self) -> Vec<Vec<(usize, u32)>> {
        let mut adjacency = vec![Vec::new(); self.vertices as usize];
        for edge in &self.edges {
            let (from, to) = (edge.from as usize, edge.to as usize);
            adjacency[from].push((to, edge.weight as u32));
            if self.orientation == Orientation::Undirected && from != to {
                adjacency[to].push((from, edge.weight as u32));
            }
        }
        adjacency
    }

    pub(crate) fn build_options(&self, seed: u64) -> BuildOptions {
        let distribution = [Distribution::Block, Distribution::Cyclic, Distribution::Hashed][seed as usize % 3];
        let ghost_policy = if seed.is_multiple_of(2) { GhostPolicy::Replicated } else { GhostPolicy::Ghosts };
        BuildOptions { distribution, ghost_policy, store_in_edges: true, ..BuildOptions::default() }
    }
}
