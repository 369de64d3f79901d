//! A graph, as one rank has it.

use treepie_base::Rank;
use treepie_comm::{Comm, Max};

use crate::hubs::Hubs;
use crate::rows::{Arc, Rows};
use crate::{Error, Layout, Result, View};

/// A distributed graph: the rows of this rank's own vertices, and what it sees of others.
#[derive(Debug)]
pub struct Graph<A = u32> {
    layout: Layout,
    view: View,
    out: Rows<A>,
    /// Arcs with the vertex that they lead to, if these are others and were asked for.
    back: Option<Rows<A>>,
    hubs: Hubs<A>,
    symmetric: bool,
    arcs: u64,
}

impl<A: Arc> Graph<A> {
    pub(crate) fn new(
        layout: Layout,
        view: View,
        out: Rows<A>,
        back: Option<Rows<A>>,
        hubs: Hubs<A>,
        symmetric: bool,
        arcs: u64,
    ) -> Self {
        Self { layout, view, out, back, hubs, symmetric, arcs }
    }

    /// Which rank has which vertex.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What this rank sees.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> u64 {
        self.layout.vertices()
    }

    /// How many of them are this rank's.
    pub fn own(&self) -> usize {
        self.out.len()
    }

    /// How many arcs there are on all ranks.
    pub fn arcs(&self) -> u64 {
        self.arcs
    }

    /// Whether for each arc there is one in the other direction.
    pub fn is_symmetric(&self) -> bool {
        self.symmetric
    }

    /// The arcs from this rank's vertices; of [hubs](Self::hubs) only those to vertices of this rank.
    #[inline]
    pub fn out(&self) -> &Rows<A> {
        &self.out
    }

    /// Vertices whose arcs are spread over ranks, and what this rank has of them.
    #[inline]
    pub fn hubs(&self) -> &Hubs<A> {
        &self.hubs
    }

    /// How many arcs lead from an own vertex, wherever they lie.
    #[inline]
    pub fn degree(&self, place: usize) -> u64 {
        self.out.degree(place) + self.hubs.of(place).map_or(0, |hub| hub.elsewhere)
    }

    /// The arcs to this rank's vertices, if they are known: rows name where each comes from.
    #[inline]
    pub fn back(&self) -> Option<&Rows<A>> {
        if self.symmetric { Some(&self.out).filter(|_| self.hubs.is_empty()) } else { self.back.as_ref() }
    }

    /// The arcs to this rank's vertices, for algorithms that need all of them, and those from them as well.
    pub(crate) fn need_back(&self, what: &str) -> Result<&Rows<A>> {
        self.need_whole_rows(what)?;
        self.need_back_or_shares(what)
    }

    /// The same for those that can do with arcs that lie elsewhere: in a graph without directions, arcs to hubs are
    /// where those from them are.
    pub(crate) fn need_back_or_shares(&self, what: &str) -> Result<&Rows<A>> {
        let missing = || Error::Input(format!("{what} needs a graph that was built with arcs backwards, too"));
        let back = if self.symmetric { Some(&self.out) } else { self.back.as_ref() };
        back.ok_or_else(missing)
    }

    /// Refuses graphs with hubs, for algorithms that look at all arcs of a vertex at once. All ranks know them.
    pub(crate) fn need_whole_rows(&self, what: &str) -> Result<()> {
        if self.hubs.is_empty() {
            return Ok(());
        }
        let hubs = self.hubs.len();
        Err(Error::Input(format!(
            "{what} needs whole rows, and those of {hubs} vertices are split: build the graph without `split`"
        )))
    }

    /// All arcs that lie on this rank.
    pub(crate) fn arcs_here(&self) -> impl Iterator<Item = &A> {
        self.out.all().iter().chain(self.hubs.shares().all())
    }

    /// All arcs that lie on this rank, by the vertex that they begin at: its number, its value, and arcs. Values are
    /// those of own vertices, by place, and those of hubs, [gathered](Hubs::gather).
    pub(crate) fn rows_here<'a, T: Copy>(
        &'a self,
        own: impl Fn(usize) -> T + 'a,
        hubs: &'a [T],
    ) -> impl Iterator<Item = (u64, T, &'a [A])> {
        let first = self.layout.first(self.layout.rank());
        let rows = (0..self.own()).map(move |place| (first + place as u64, own(place), self.out.row(place)));
        let shares = (0..).zip(hubs).map(|(index, value)| (self.hubs.number(index), *value, self.hubs.share(index)));
        rows.chain(shares)
    }

    /// The number inside of the vertex with a name. All ranks call it.
    pub fn find(&self, comm: &Comm, name: u64) -> Result<u64> {
        let found = self.layout.number(name).map_or(0, |number| number + 1);
        let found = if self.layout.names_are_numbers() { found } else { comm.all_reduce(&[found], Max)?[0] };
        let vertices = self.vertices();
        found.checked_sub(1).ok_or_else(|| Error::Input(format!("there is no vertex {name} among the {vertices}")))
    }

    /// Refuses numbers that no vertex has.
    pub(crate) fn check_root(&self, number: u64) -> Result<()> {
        let vertices = self.vertices();
        if number < vertices {
            return Ok(());
        }
        Err(Error::Input(format!("there is no vertex with the number {number} among the {vertices}")))
    }

    /// The place of a vertex among this rank's, if it is one of them.
    #[inline]
    pub fn mine(&self, number: u64) -> Option<usize> {
        if number >= self.vertices() {
            return None;
        }
        let (rank, place): (Rank, u32) = self.layout.place(number);
        (rank == self.layout.rank()).then_some(place as usize)
    }

    /// How many arcs lead from an own vertex to others, which loops do not.
    pub fn degree_without_loops(&self, place: usize) -> u64 {
        let own = (self.view.own().start + place) as u32;
        let loops = self.out.parts(place).0.iter().filter(|arc| arc.target() == own).count();
        self.degree(place) - loops as u64
    }

    /// Bytes of the graph on this rank: its rows, and what else it needs for them.
    pub fn memory(&self) -> Memory {
        let shares = if self.hubs.is_empty() { 0 } else { self.hubs.shares().memory() };
        let rows = self.out.memory() + self.back.as_ref().map_or(0, Rows::memory) + shares;
        Memory { rows, besides: self.view.memory() + self.layout.memory() + self.hubs.memory() }
    }
}

/// Bytes of a graph on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Of its compressed rows.
    pub rows: usize,
    /// Of what is known about others' vertices.
    pub besides: usize,
}
