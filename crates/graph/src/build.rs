//! From edges to a graph: each rank reads a part of them, and tells their owners.
//!
//! An arc travels as one active message to the rank that has the vertex where it begins. Rows are then sorted, so a graph does not
//! depend on who read what, nor on the order in which messages came.

use treepie_am::{ActiveMessages, Epoch, Port};
use treepie_comm::{Comm, Max, Or, Sum};

use crate::agree::agree;
use crate::directory;
use crate::graph::Graph;
use crate::rows::{Arc, Loose, Rows, Weight, sort_into_rows};
use crate::{Bits, Distribution, Edge, Edges, Error, Layout, Orientation, Result, Seeing, View, Weights};

/// How edges become a graph.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// Each edge stands for both directions, also if its source does not say so.
    pub symmetrize: bool,
    /// Each edge stands for one arc, also if its source says that it stands for both directions.
    pub directed: bool,
    /// Of several arcs from one vertex to another only the lightest stays.
    pub dedupe: bool,
    /// Arcs from a vertex to itself are left out.
    pub drop_self_loops: bool,
    /// How vertices are spread over ranks.
    pub distribution: Distribution,
    /// Which vertices of others a rank sees.
    pub seeing: Seeing,
    /// Of a graph with directions, arcs are also kept backwards, with the vertices that they lead to.
    pub backwards: bool,
    /// What weights are kept as, where they are.
    pub whole_weights: bool,
}

impl Shape {
    /// Whether each edge of a source becomes two arcs, and whether for each arc there is one in the other direction.
    fn directions(&self, of: Orientation) -> (bool, bool) {
        match of {
            Orientation::Directed => (self.symmetrize, self.symmetrize),
            Orientation::Undirected => (!self.directed, !self.directed),
            // Dedupe takes the same away in both directions, and so do the others.
            Orientation::Symmetric => (false, true),
        }
    }

    fn bits(&self, weight: f64) -> Option<u32> {
        if self.whole_weights { u32::from_f64(weight) } else { f32::from_f64(weight).map(Weight::bits) }
    }
}

/// An arc on its way to the rank that has its row.
#[derive(Default)]
struct Arriving {
    out: Vec<Loose>,
    back: Vec<Loose>,
}

/// Vertices that a rank can have.
const MOST: u64 = u32::MAX as u64 - 64;

/// Names are not looked at one by one if there are fewer edges than this part of the greatest.
const SPARSE: u64 = 8;

impl<A: Arc> Graph<A> {
    /// Builds the graph of some edges. All ranks call it.
    pub fn build(comm: &Comm, edges: &dyn Edges, shape: &Shape) -> Result<Self> {
        match edges.vertices() {
            Some(vertices) => {
                let layout = Layout::new(comm.rank(), comm.size(), vertices, shape.distribution);
                Self::assemble(comm, layout, edges, shape, |layout, name| layout.number(name))
            }
            None => Self::of_unknown(comm, edges, shape),
        }
    }

    /// Which vertices there are must be found out first: those whose names edges have. Mostly these are the numbers below some.
    fn of_unknown(comm: &Comm, edges: &dyn Edges, shape: &Shape) -> Result<Self> {
        let mut read = Vec::new();
        let outcome = edges.part(comm.rank(), comm.size(), &mut |some| read.extend_from_slice(some));
        agree(comm, outcome)?;
        let count = comm.all_reduce(&[read.len() as u64], Sum)?[0];
        agree(comm, edges.check(count))?;
        let most = read.iter().map(|edge| edge.from.max(edge.to)).max();
        let beyond = most.map_or(0, |most| most.saturating_add(1));
        let beyond = comm.all_reduce(&[beyond], Max)?[0];
        let read = Read { edges: read, orientation: edges.orientation(), weights: edges.weights() };
        if beyond / SPARSE <= count.max(1024) && has_no_gaps(comm, &read.edges, beyond)? {
            let layout = Layout::new(comm.rank(), comm.size(), beyond, shape.distribution);
            return Self::assemble(comm, layout, &read, shape, |layout, name| layout.number(name));
        }
        let (layout, numbers) = directory::list(comm, &read.edges)?;
        Self::assemble(comm, layout, &read, shape, |_, name| numbers.get(name))
    }

    /// Sends arcs to where they belong, and makes rows of them.
    fn assemble(
        comm: &Comm,
        layout: Layout,
        edges: &dyn Edges,
        shape: &Shape,
        number: impl Fn(&Layout, u64) -> Option<u64>,
    ) -> Result<Self> {
        if (0..layout.ranks()).any(|rank| layout.count(rank) as u64 > MOST) {
            let (vertices, ranks) = (layout.vertices(), layout.ranks());
            return Err(Error::Input(format!("{vertices} vertices are too many for {ranks} ranks: 2^32 each at most")));
        }
        let (twice, symmetric) = shape.directions(edges.orientation());
        let backwards = shape.backwards && !symmetric;
        let mut build = ActiveMessages::<Arriving>::builder(comm);
        let out = build.port::<Loose>("arc");
        let back = build.port::<Loose>("arc backwards");
        build.on_batch(out, |state, _, arcs| state.out.extend_from_slice(arcs));
        build.on_batch(back, |state, _, arcs| state.back.extend_from_slice(arcs));
        let mut am = build.start()?;

        let (mut fault, mut count) = (None, 0);
        // Sums of a number for each arc and for the opposite one: they are equal if each arc has an opposite one.
        let mut digests = [0u64; 2];
        let mut state = Arriving::default();
        let send = |epoch: &mut Epoch<'_, Arriving>, edge: &Edge| -> Result<()> {
            let find = |name| {
                let outside =
                    || format!("vertex {name} of an edge is not below the number of vertices, {}", layout.vertices());
                number(&layout, name).ok_or_else(|| Error::Input(outside()))
            };
            let (from, to) = (find(edge.from)?, find(edge.to)?);
            if from == to && shape.drop_self_loops {
                return Ok(());
            }
            let bits = if A::WEIGHTED {
                let kind = if shape.whole_weights { "a whole number from 0 to 2^32-1" } else { "a number from 0 on" };
                shape
                    .bits(edge.weight)
                    .ok_or_else(|| Error::Input(format!("a weight is {}, not {kind}", edge.weight)))?
            } else {
                0
            };
            let mut arc = |port: Port<Loose>, from: u64, to: u64| {
                let (rank, row) = layout.place(from);
                epoch.context().send(port, rank, Loose { to, row, bits });
            };
            arc(out, from, to);
            if twice && from != to {
                arc(out, to, from);
            }
            if backwards {
                arc(back, to, from);
            }
            Ok(())
        };
        am.epoch(&mut state, |epoch| {
            let mut broken = Ok(());
            let outcome = edges.part(comm.rank(), comm.size(), &mut |some| {
                count += some.len() as u64;
                if edges.orientation() == Orientation::Symmetric {
                    for Edge { from, to, .. } in some {
                        digests[0] += digest(*from, *to);
                        digests[1] += digest(*to, *from);
                    }
                }
                for edge in some.iter().take(if fault.is_none() && broken.is_ok() { usize::MAX } else { 0 }) {
                    if let Err(error) = send(epoch, edge) {
                        fault = Some(error);
                        break;
                    }
                }
                if broken.is_ok() {
                    broken = epoch.progress();
                }
            });
            fault = fault.take().or(outcome.err());
            broken
        })?;
        agree(comm, fault.map_or(Ok(()), Err))?;
        agree(comm, edges.check(comm.all_reduce(&[count], Sum)?[0]))?;
        comm.all_reduce_in_place(&mut digests, Sum)?;
        if digests[0] != digests[1] {
            return Err(Error::Input(
                "not every edge is there in both directions, as it has to be in such files".to_owned(),
            ));
        }
        drop(am);

        let rows = layout.count(layout.rank());
        let first = layout.first(layout.rank());
        let own = first..first + rows as u64;
        let sort = |loose| sort_into_rows(loose, rows, own.clone(), shape.dedupe);
        let (out, back) = (sort(state.out), backwards.then(|| sort(state.back)));
        let view = View::new(comm, &layout, shape.seeing, || {
            let both = out.1.iter().chain(back.iter().flat_map(|back| &back.1));
            let mut others: Vec<u64> = both.map(|arc| arc.to).filter(|to| !own.contains(to)).collect();
            others.sort_unstable();
            others.dedup();
            others
        })?;
        let compress = |(offsets, loose): (Vec<u64>, Vec<Loose>)| {
            let near = |row: usize| {
                let arcs = &loose[offsets[row] as usize..offsets[row + 1] as usize];
                arcs.partition_point(|arc| own.contains(&arc.to)) as u32
            };
            let near = (0..rows).map(near).collect();
            let arc = |arc: &Loose| A::new(view.place(layout.place(arc.to)).expect("it is seen"), arc.bits);
            let arcs = loose.iter().map(arc).collect();
            Rows::new(offsets, near, arcs)
        };
        let out: Rows<A> = compress(out);
        let back = back.map(compress);
        let arcs = comm.all_reduce(&[out.arcs()], Sum)?[0];
        Ok(Self::new(layout, view, out, back, symmetric, arcs))
    }
}

/// A number of 24 bits for an arc, so that sums of 2^40 of them are exact.
fn digest(from: u64, to: u64) -> u64 {
    let mixed = (from.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ to).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 31).wrapping_mul(0x94d0_49bb_1331_11eb) >> 40
}

/// Whether all numbers below `beyond` are names. Takes a bit of memory for each, for this once. All ranks call it.
fn has_no_gaps(comm: &Comm, edges: &[Edge], beyond: u64) -> Result<bool> {
    let mut names = Bits::new(beyond as usize);
    edges.iter().flat_map(|edge| [edge.from, edge.to]).for_each(|name| names.put(name as usize));
    comm.all_reduce_in_place(names.words_mut(), Or)?;
    Ok(names.count() == beyond)
}

/// Edges that were read before it was known how many vertices there are: each rank has its part.
struct Read {
    edges: Vec<Edge>,
    orientation: Orientation,
    weights: Weights,
}

impl Edges for Read {
    fn vertices(&self) -> Option<u64> {
        None
    }

    fn orientation(&self) -> Orientation {
        self.orientation
    }

    fn weights(&self) -> Weights {
        self.weights
    }

    fn part(&self, _: usize, _: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        self.edges.chunks(1024).for_each(sink);
        Ok(())
    }
}
