//! From edges to a graph: each rank reads a part of them, and tells their owners.
//!
//! An arc travels as one active message to the rank that has the vertex where it begins. Rows are then sorted, so a graph does not
//! depend on who read what, nor on the order in which messages came.

mod in_order;

use std::path::{Path, PathBuf};

use treepie_am::{ActiveMessages, Epoch, Port};
use treepie_base::memory::{collected, with_capacity};
use treepie_base::{Rank, give_back_free_memory};
use treepie_comm::{Comm, Max, Sum};

use crate::agree::agree;
use crate::graph::Graph;
use crate::hubs::{self, Hubs};
use crate::mix::digest;
use crate::rows::{Arc, Loose, ROWS, Rows, Weight, sort_into_rows};
use crate::{Bits, Distribution, Edge, Edges, Error, Layout, Orientation, Result, Seeing, View, Weights};
use crate::{directory, partition};

/// How edges become a graph.
#[derive(Clone, Debug, Default)]
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
    /// A file that says it instead: its lines are the parts, counted from 0, of the vertices 0, 1, and so on. Part p is
    /// rank p's, modulo the number of ranks.
    pub partition: Option<PathBuf>,
    /// Which vertices of others a rank sees.
    pub seeing: Seeing,
    /// Of a graph with directions, arcs are also kept backwards, with the vertices that they lead to.
    pub backwards: bool,
    /// What weights are kept as, where they are.
    pub whole_weights: bool,
    /// Vertices with at least so many arcs have them spread over ranks ([`Hubs`](crate::Hubs)); not arcs backwards.
    pub split: Option<u64>,
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

    /// Whether the graph has an arc backwards for each arc, if its edges say this of themselves.
    pub fn makes_symmetric(&self, edges: Orientation) -> bool {
        self.directions(edges).1
    }

    /// The bits of a weight.
    fn bits(&self, weight: f64) -> Result<u32> {
        let (bits, kind) = if self.whole_weights {
            (u32::from_f64(weight), "a whole number from 0 to 2^32-1")
        } else {
            (f32::from_f64(weight).map(Weight::bits), "a number from 0 on")
        };
        bits.ok_or_else(|| Error::Input(format!("a weight is {weight}, not {kind}")))
    }
}

/// Arcs that have come to the rank that has their rows.
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
            _ if shape.partition.is_some() => Self::of_unknown(comm, edges, shape),
            Some(vertices) => {
                let layout = Layout::new(comm.rank(), comm.size(), vertices, shape.distribution);
                Self::assemble(comm, layout, edges, shape, |layout, name| layout.number(name))
            }
            None => Self::of_unknown(comm, edges, shape),
        }
    }

    /// Which vertices there are, or whose, must be found out first: those whose names edges have. Mostly these are the
    /// numbers below some.
    fn of_unknown(comm: &Comm, edges: &dyn Edges, shape: &Shape) -> Result<Self> {
        let (read, count) = Read::all(comm, edges)?;
        let vertices = match edges.vertices() {
            None => read.count_without_gaps(comm, count)?,
            known => known,
        };
        let (layout, numbers) = match (vertices, &shape.partition) {
            (Some(vertices), Some(file)) => partition::place(comm, file, vertices, read.all_names())?,
            (None, Some(file)) => return Err(has_gaps(file)),
            (None, None) => directory::list(comm, read.all_names())?,
            (Some(vertices), None) => {
                let layout = Layout::new(comm.rank(), comm.size(), vertices, shape.distribution);
                return Self::assemble(comm, layout, &read, shape, |layout, name| layout.number(name));
            }
        };
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
        ensure_places(&layout)?;
        ensure_room(comm, &layout)?;
        let (_, symmetric) = shape.directions(edges.orientation());
        let backwards = shape.backwards && !symmetric;
        let find = |name| {
            let outside =
                || format!("vertex {name} of an edge is not below the number of vertices, {}", layout.vertices());
            number(&layout, name).ok_or_else(|| Error::Input(outside()))
        };
        let rows = layout.count(layout.rank());
        let first = layout.first(layout.rank());
        let own = first..first + rows as u64;
        let sort = |loose| sort_into_rows(loose, rows, own.clone(), shape.dedupe);
        let (mut out, back) = if in_order::can_be_taken(edges, shape) {
            (in_order::take::<A>(comm, own.clone(), edges, shape)?, None)
        } else {
            let state = spread::<A>(comm, &layout, edges, shape, find)?;
            let sorted = sort(state.out).and_then(|out| Ok((out, backwards.then(|| sort(state.back)).transpose()?)));
            agree(comm, sorted.map_err(Error::from))?
        };
        let (list, shares) = hubs::split(comm, &layout, shape.split, &mut out)?;
        let view = View::new(comm, &layout, shape.seeing, || {
            let both = out.1.iter().chain(back.iter().flat_map(|back| &back.1));
            let mut others: Vec<u64> = both.map(|arc| arc.to).filter(|to| !own.contains(to)).collect();
            others.sort_unstable();
            others.dedup();
            others
        })?;
        let compress = |(offsets, loose): (Vec<u64>, Vec<Loose>)| -> Result<Rows<A>> {
            let near = |row: usize| {
                let arcs = &loose[offsets[row] as usize..offsets[row + 1] as usize];
                arcs.partition_point(|arc| own.contains(&arc.to)) as u32
            };
            let near = collected((0..offsets.len() - 1).map(near), ROWS)?;
            let arc = |arc: &Loose| A::new(view.place(layout.place(arc.to)).expect("it is seen"), arc.bits);
            let arcs = loose.iter().map(arc).collect();
            Ok(Rows::new(offsets, near, arcs))
        };
        let compressed = compress(out).and_then(|out| Ok((out, back.map(compress).transpose()?, compress(shares)?)));
        let (out, back, shares) = agree(comm, compressed)?;
        let hubs = Hubs::new(list, shares);
        let arcs = comm.all_reduce(&[out.arcs() + hubs.shares().arcs()], Sum)?[0];
        // Loose arcs have taken several times as much as rows do. Ranks of one process have one heap, and one of them is enough.
        match comm.engine() {
            "sim" => {}
            "threads" if comm.rank() > 0 => {}
            _ => give_back_free_memory(),
        }
        Ok(Self::new(layout, view, out, back, hubs, symmetric, arcs))
    }
}

/// Whether each rank can number its vertices.
fn ensure_places(layout: &Layout) -> Result<()> {
    let (vertices, ranks) = (layout.vertices(), layout.ranks());
    if (0..ranks).all(|rank| layout.count(rank) as u64 <= MOST) {
        return Ok(());
    }
    let plural = if ranks == 1 { "" } else { "s" };
    let least = vertices.div_ceil(MOST);
    Err(Error::Input(format!(
        "{vertices} vertices are too many for {ranks} rank{plural}: a rank has at most {MOST} of them; use at least {least} ranks"
    )))
}

/// Whether there is memory for the vertices that a file announces, before all of its edges are read: what rows and one
/// value and name of each take. It is given back at once. All ranks call it.
fn ensure_room(comm: &Comm, layout: &Layout) -> Result<()> {
    const EACH: usize = 8 + 8 + 4 + 8 + 8;
    let bytes = layout.count(layout.rank()).saturating_mul(EACH);
    agree(comm, with_capacity::<u8>(bytes, ROWS).map(drop).map_err(Error::from))
}

/// Sends the arcs of all edges to the ranks that have their rows. All ranks call it.
fn spread<A: Arc>(
    comm: &Comm,
    layout: &Layout,
    edges: &dyn Edges,
    shape: &Shape,
    find: impl Fn(u64) -> Result<u64>,
) -> Result<Arriving> {
    let (twice, symmetric) = shape.directions(edges.orientation());
    let backwards = shape.backwards && !symmetric;
    let mut build = ActiveMessages::<Arriving>::builder(comm);
    let out = build.port::<Loose>("arc");
    let back = build.port::<Loose>("arc backwards");
    build.on_batch(out, |state, _, arcs| state.out.extend_from_slice(arcs));
    build.on_batch(back, |state, _, arcs| state.back.extend_from_slice(arcs));
    let mut am = build.start()?;

    let send = |epoch: &mut Epoch<'_, Arriving>, edge: &Edge| -> Result<()> {
        let (from, to) = (find(edge.from)?, find(edge.to)?);
        if from == to && shape.drop_self_loops {
            return Ok(());
        }
        let bits = if A::WEIGHTED { shape.bits(edge.weight)? } else { 0 };
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
    let (mut state, mut seen, mut fault) = (Arriving::default(), Seen::default(), Ok(()));
    am.epoch(&mut state, |epoch| {
        let mut broken = Ok(());
        let outcome = edges.part(comm.rank(), comm.size(), &mut |some| {
            if fault.is_err() || broken.is_err() {
                return;
            }
            seen.note(some, edges.orientation());
            fault = some.iter().try_for_each(|edge| send(epoch, edge));
            broken = epoch.progress();
        });
        fault = std::mem::replace(&mut fault, Ok(())).and(outcome);
        broken
    })?;
    agree(comm, fault)?;
    seen.check(comm, edges)?;
    Ok(state)
}

/// What can be told of edges when all of them have been seen.
#[derive(Default)]
struct Seen {
    count: u64,
    /// Sums of 24 bits for each arc, and for the opposite one: they are equal if each arc has an opposite one.
    digests: [u64; 2],
}

impl Seen {
    fn note(&mut self, edges: &[Edge], orientation: Orientation) {
        self.count += edges.len() as u64;
        if orientation == Orientation::Symmetric {
            for Edge { from, to, .. } in edges {
                self.digests[0] += digest([*from, *to]) >> 40;
                self.digests[1] += digest([*to, *from]) >> 40;
            }
        }
    }

    /// All ranks call it.
    fn check(&self, comm: &Comm, edges: &dyn Edges) -> Result<()> {
        let [there, back] = self.digests;
        let sums = comm.all_reduce(&[self.count, there, back], Sum)?;
        edges.check(sums[0])?;
        if sums[1] != sums[2] {
            let one_way = "not every edge is there in both directions, as it has to be in such files";
            return Err(Error::Input(one_way.to_owned()));
        }
        Ok(())
    }
}

/// A partition is of vertices 0, 1, and so on.
fn has_gaps(partition: &Path) -> Error {
    let why = "it is for vertices with the names 0, 1, and so on, but not all of these have edges here";
    Error::File { file: partition.to_owned(), why: why.to_owned() }
}

/// Edges that were read before it was known which vertices there are, or whose: each rank has its part.
struct Read {
    edges: Vec<Edge>,
    /// Of vertices that may have no edges.
    names: Vec<u64>,
    orientation: Orientation,
    weights: Weights,
}

impl Read {
    /// Reads everything, and counts the edges of all ranks. All ranks call it.
    fn all(comm: &Comm, source: &dyn Edges) -> Result<(Self, u64)> {
        let (mut edges, mut names) = (Vec::new(), Vec::new());
        let (rank, ranks) = (comm.rank(), comm.size());
        let outcome = source.part(rank, ranks, &mut |some| edges.extend_from_slice(some));
        agree(comm, outcome.and_then(|()| source.names(rank, ranks, &mut |some| names.extend_from_slice(some))))?;
        let count = comm.all_reduce(&[edges.len() as u64], Sum)?[0];
        agree(comm, source.check(count))?;
        Ok((Self { edges, names, orientation: source.orientation(), weights: source.weights() }, count))
    }

    fn each_name(&self) -> impl Iterator<Item = u64> {
        self.edges.iter().flat_map(|edge| [edge.from, edge.to]).chain(self.names.iter().copied())
    }

    fn all_names(&self) -> Vec<u64> {
        self.each_name().collect()
    }

    /// How many vertices there are, if their names are all numbers below that. Each rank is told of those names that lie in
    /// its share. All ranks call it.
    fn count_without_gaps(&self, comm: &Comm, edges: u64) -> Result<Option<u64>> {
        let beyond = self.each_name().max().map_or(0, |most| most.saturating_add(1));
        let beyond = comm.all_reduce(&[beyond], Max)?[0];
        if beyond / SPARSE > edges.max(1024) {
            return Ok(None);
        }
        let share = beyond.div_ceil(comm.size() as u64).max(1);
        let mut build = ActiveMessages::<Bits>::builder(comm);
        let tell = build.port::<u64>("name");
        build.on(tell, |names, _, place| names.put(place as usize));
        let mut names = agree(comm, Bits::try_new(share as usize).map_err(Error::from))?;
        let mut am = build.start()?;
        am.epoch_for(&mut names, self.each_name(), |cx, _, name| cx.send(tell, (name / share) as Rank, name % share))?;
        let different = comm.all_reduce(&[names.count()], Sum)?[0];
        Ok((different == beyond).then_some(beyond))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rank_has_more_vertices_than_the_bound() {
        let layout = |ranks, vertices| Layout::new(0, ranks, vertices, Distribution::Block);
        assert_eq!(ensure_places(&layout(1, MOST)), Ok(()));
        let error = ensure_places(&layout(1, MOST + 1)).unwrap_err().to_string();
        assert!(error.contains("4294967232 vertices are too many for 1 rank") && error.contains("at least 2 ranks"));
        assert_eq!(ensure_places(&layout(2, 2 * MOST)), Ok(()));
        assert!(ensure_places(&layout(2, 2 * MOST + 1)).is_err());
    }
}
