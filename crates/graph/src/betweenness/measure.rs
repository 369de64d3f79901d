//! How long arcs and ways are: in arcs, or by weights.

use treepie_base::memory::collected;
use treepie_comm::{Comm, Sum};

use crate::agree::agree;
use crate::mix::digest;
use crate::rows::{Arc, VALUES, Weight, Weighted};
use crate::{Error, Graph, Messages, Result, bfs, sssp};

/// How long arcs are, and a search for shortest ways.
pub trait Measure<'g> {
    /// Arcs of the graph.
    type Arc: Arc;
    /// What a length is.
    type Length: Weight;

    /// The graph.
    fn graph(&self) -> &'g Graph<Self::Arc>;

    /// The length of an arc, not zero.
    fn length(arc: Self::Arc) -> Self::Length;

    /// The lengths of the shortest ways from a source, by its number, to own vertices; [`Weight::FAR`] if there is
    /// none. All ranks call it.
    fn search(&mut self, source: u64) -> Result<Vec<Self::Length>>;

    /// The same, verified. All ranks call it, and get the same error.
    fn search_verified(&mut self, comm: &Comm, source: u64, messages: &Messages) -> Result<Vec<Self::Length>>;
}

/// The length of a way is the number of its arcs.
pub struct Hops<'g, A: Arc> {
    graph: &'g Graph<A>,
    search: bfs::direction::Search<'g, A, u64>,
}

impl<'g, A: Arc> Hops<'g, A> {
    /// Ways in a graph whose arcs are known in both directions. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<A>, messages: &Messages) -> Result<Self> {
        Ok(Self { graph, search: bfs::direction::Search::new(comm, graph, messages)? })
    }
}

impl<'g, A: Arc> Measure<'g> for Hops<'g, A> {
    type Arc = A;
    type Length = u32;

    fn graph(&self) -> &'g Graph<A> {
        self.graph
    }

    #[inline(always)]
    fn length(_: A) -> u32 {
        1
    }

    fn search(&mut self, source: u64) -> Result<Vec<u32>> {
        Ok(collected(self.search.run(source)?.iter().map(|label| label.level), VALUES)?)
    }

    fn search_verified(&mut self, comm: &Comm, source: u64, messages: &Messages) -> Result<Vec<u32>> {
        let labels = self.search.run(source)?;
        bfs::verify(comm, self.graph, source, labels, messages)?;
        Ok(collected(labels.iter().map(|label| label.level), VALUES)?)
    }
}

/// The length of a way is the sum of the weights of its arcs.
pub struct Lengths<'g, W: Weight> {
    graph: &'g Graph<Weighted>,
    search: sssp::Search<'g, W>,
}

impl<'g, W: Weight> Lengths<'g, W> {
    /// Ways in a graph whose weights are `W`, none of them zero. Buckets of the search have the width `delta`, or one
    /// that is found out. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<Weighted>, delta: Option<f64>, messages: &Messages) -> Result<Self> {
        graph.need_whole_rows("betweenness")?;
        agree(comm, refuse_zeros::<W>(graph))?;
        if graph.is_symmetric() && comm.all_reduce(&[one_sided(graph)], Sum)?[0] != 0 {
            let differ = "betweenness needs arcs that weigh the same in both directions, where all have both";
            return Err(Error::Input(differ.to_owned()));
        }
        Ok(Self { graph, search: sssp::Search::new(comm, graph, delta, messages)? })
    }
}

impl<'g, W: Weight> Measure<'g> for Lengths<'g, W> {
    type Arc = Weighted;
    type Length = W;

    fn graph(&self) -> &'g Graph<Weighted> {
        self.graph
    }

    #[inline(always)]
    fn length(arc: Weighted) -> W {
        arc.weight()
    }

    fn search(&mut self, source: u64) -> Result<Vec<W>> {
        self.search.run(source)?;
        Ok(self.search.lengths())
    }

    fn search_verified(&mut self, comm: &Comm, source: u64, messages: &Messages) -> Result<Vec<W>> {
        let lengths = self.search(source)?;
        sssp::verify(comm, self.graph, source, &lengths, messages)?;
        Ok(lengths)
    }
}

/// Arcs without a length could be on cycles of shortest ways, of which there would be no end.
fn refuse_zeros<W: Weight>(graph: &Graph<Weighted>) -> Result<()> {
    let is_zero = |place: &usize| graph.out().row(*place).iter().any(|arc| arc.weight::<W>() == W::ZERO);
    let Some(place) = (0..graph.own()).find(is_zero) else { return Ok(()) };
    let name = graph.layout().name(place);
    Err(Error::Input(format!("betweenness needs weights above zero, and an arc from vertex {name} weighs nothing")))
}

/// Sums of all ranks are zero together, if for each arc there is one in the other direction with the same weight; and
/// hardly ever else.
fn one_sided(graph: &Graph<Weighted>) -> u64 {
    let (view, layout) = (graph.view(), graph.layout());
    let first = layout.first(layout.rank());
    let arcs = (0..graph.own()).flat_map(|place| graph.out().row(place).iter().map(move |arc| (place, arc)));
    arcs.fold(0, |sum, (place, arc)| {
        let (from, to) = (first + place as u64, view.number(layout, arc.target()));
        let bits = arc.weight::<u32>().into();
        sum.wrapping_add(digest([from, to, bits])).wrapping_sub(digest([to, from, bits]))
    })
}
