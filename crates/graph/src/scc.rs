//! Strongly connected components (SCC): maximal sets of vertices that are mutually reachable.
//!
//! Three phases, in the order of the multistep method [Slota, Rajamanickam, Madduri: BFS and coloring-based parallel
//! algorithms for strongly connected components and related problems, IPDPS 2014]:
//! - `trim`: a remaining vertex without in-edges or without out-edges from or to remaining vertices is a component, and
//!   is removed, which may trim others. One epoch.   [McLendon, Hendrickson, Plimpton, Rauchwerger, J. Parallel
//!   Distrib. Comput. 65 (2005)]
//! - `pivot`: the vertices that a pivot reaches and that reach it are its component. One search forward, one backward
//!   in the result. Once, for the giant component.   [Fleischer, Hendrickson, Pinar, IPDPS workshops 2000:
//!   forward-backward]
//! - `color`: all remaining vertices at once. The color of a vertex is the least global id that reaches it; a
//!   backward search within each color, from the vertex with that id, finds a component. Rounds alternate directions.
//!   [Orzan: On distributed verification and verified distribution, thesis, Amsterdam 2004]
//!
//! Trimming precedes each round. The label of a component is its least global id, which does not depend on the order of
//! messages nor, with block distribution, on the number of ranks. Therefore colors are minima here, not maxima as in
//! Orzan: a color is then the label of its component. Cost: one epoch to trim and two searches or a coloring and a
//! search per round.

mod color;
mod pivot;
mod reach;
mod trim;
mod verify;

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::{collected, filled, with_capacity, zeroed};
use treepie_comm::Sum;

use crate::component_labels::ComponentLabels;
use crate::csr::{Csr, VALUES_PURPOSE};
use crate::patterns::traversal::Traversal;
use crate::vertex_id::VertexId;
use crate::{AmConfig, AmTraffic, Bitmap, EdgeWeight, Graph, Result};

/// Options of strongly connected components.
#[derive(Clone, Debug, Default)]
pub struct SccOptions {
    /// How active messages are sent.
    pub config: AmConfig,
}

/// The global id of no vertex.
const NO_VERTEX: u64 = u64::MAX;

/// A search for strongly connected components.
pub struct SccSearch<'g, W: EdgeWeight> {
    graph: &'g Graph<W>,
    am: ActiveMessages<SccState<'g, W>>,
    state: SccState<'g, W>,
    config: AmConfig,
}

/// The direction in which arcs are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl Direction {
    const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// The phase of an epoch.
#[derive(Clone, Copy)]
enum SccPhase {
    Trim,
    Color(Direction),
    Reach(Direction),
}

struct SccState<'g, W: EdgeWeight> {
    graph: &'g Graph<W>,
    /// Out-edges and in-edges.
    edges: [&'g Csr<W>; 2],
    ports: Ports,
    /// The global id of the first local vertex.
    first: u64,
    phase: SccPhase,
    worklist: Vec<u32>,
    /// The component label of each local vertex.
    labels: Vec<u64>,
    /// Local vertices without a label, sorted.
    remaining: Vec<u32>,
    /// Vertices with a label, by index of the view: local ones always, ghosts as of the end of the last round.
    settled: Bitmap,
    /// The degrees of local vertices among remaining vertices, by direction.
    degrees: Vec<[u32; 2]>,
    /// Of local vertices. Searches follow arcs between vertices of one color.
    colors: Vec<u64>,
    /// Local vertices that a search has reached.
    reached: Bitmap,
    last_sent: LastSent,
}

#[derive(Clone, Copy)]
struct Ports {
    /// By direction: decrements the degree of a vertex.
    decrement: [Port<u32>; 2],
    color: Port<<u64 as VertexId>::Message>,
    reach: Port<<u64 as VertexId>::Message>,
}

/// The color last sent to each remote vertex, by index of the view.
struct LastSent {
    colors: Vec<u64>,
    /// The indices with a color.
    dirty: Vec<u32>,
}

impl LastSent {
    /// Whether a color must be sent to a vertex, because `is_news` holds for it and the one sent last. Records it if
    /// so.
    #[inline]
    fn update(&mut self, index: u32, color: u64, is_news: impl Fn(&u64, &u64) -> bool) -> bool {
        let last = &mut self.colors[index as usize];
        let is_sent = is_news(&color, last);
        if is_sent {
            if *last == NO_VERTEX {
                self.dirty.push(index);
            }
            *last = color;
        }
        is_sent
    }

    /// Late rounds send few colors, so this takes time for these only.
    fn clear(&mut self) {
        self.dirty.drain(..).for_each(|index| self.colors[index as usize] = NO_VERTEX);
    }
}

impl<W: EdgeWeight> SccState<'_, W> {
    fn local_start(&self) -> usize {
        self.graph.view().local_range().start
    }

    fn global_id(&self, vertex: u32) -> u64 {
        self.first + u64::from(vertex)
    }

    fn is_settled(&self, vertex: u32) -> bool {
        self.settled.contains(self.local_start() + vertex as usize)
    }

    /// Sets the label of a local vertex.
    fn settle(&mut self, vertex: u32, label: u64) {
        self.labels[vertex as usize] = label;
        self.settled.set(self.local_start() + vertex as usize);
    }

    /// Sets the labels of the local vertices that a search has reached.
    fn settle_reached(&mut self, label: impl Fn(&Self, u32) -> u64) {
        let (reached, remaining): (Vec<u32>, Vec<u32>) =
            self.remaining.iter().partition(|vertex| self.reached.contains(**vertex as usize));
        self.remaining = remaining;
        for vertex in reached {
            self.settle(vertex, label(self, vertex));
        }
    }
}

impl<W: EdgeWeight> Traversal for SccState<'_, W> {
    fn worklist(&mut self) -> &mut Vec<u32> {
        &mut self.worklist
    }

    fn expand(&mut self, cx: &mut Context<Self>, vertex: u32) {
        match self.phase {
            SccPhase::Trim => self.expand_trimmed(cx, vertex),
            SccPhase::Color(direction) => self.expand_colored(cx, vertex, direction),
            SccPhase::Reach(direction) => self.expand_reached(cx, vertex, direction),
        }
    }
}

impl<'g, W: EdgeWeight> SccSearch<'g, W> {
    /// Prepares a search in a graph with in-edges. All ranks call it.
    pub fn new(graph: &'g Graph<W>, config: &AmConfig) -> Result<Self> {
        let edges = [graph.out_edges(), graph.require_in_edges("strongly connected components")?];
        let mut build = ActiveMessages::<SccState<'g, W>>::builder(graph.comm());
        let ports = Ports {
            decrement: trim::register(&mut build),
            color: color::register(&mut build),
            reach: reach::register(&mut build),
        };
        let am = config.start(build)?;
        let len = graph.view().len();
        let state = SccState {
            graph,
            edges,
            ports,
            first: graph.first_global_id(),
            phase: SccPhase::Trim,
            // Fallible, since a file may declare any number of isolated vertices.
            worklist: with_capacity(graph.num_local(), VALUES_PURPOSE)?,
            labels: filled(NO_VERTEX, graph.num_local(), VALUES_PURPOSE)?,
            remaining: Vec::new(),
            settled: Bitmap::try_new(len)?,
            degrees: zeroed(graph.num_local(), VALUES_PURPOSE)?,
            colors: filled(NO_VERTEX, graph.num_local(), VALUES_PURPOSE)?,
            reached: Bitmap::try_new(graph.num_local())?,
            last_sent: LastSent { colors: filled(NO_VERTEX, len, VALUES_PURPOSE)?, dirty: Vec::new() },
        };
        Ok(Self { graph, am, state, config: config.clone() })
    }

    /// Finds all components. Returns the number of rounds: the first with a pivot, the others with colors. All ranks
    /// call it.
    pub fn run(&mut self) -> Result<u32> {
        self.state.labels.fill(NO_VERTEX);
        self.state.settled.clear();
        self.state.remaining = collected(self.graph.local_vertices().map(|vertex| vertex as u32), VALUES_PURPOSE)?;
        let mut rounds = 0;
        loop {
            self.trim()?;
            if self.graph.comm().allreduce_one(self.state.remaining.len() as u64, Sum)? == 0 {
                return Ok(rounds);
            }
            match rounds {
                0 => self.pivot()?,
                // A chain of components with ascending ids is one color in one direction, and many in the other.
                _ => self.color(Direction::BOTH[rounds as usize % 2])?,
            }
            rounds += 1;
            self.graph.update_ghost_bits(&mut self.state.settled)?;
        }
    }

    /// The least global id in the component of each local vertex.
    pub fn labels(&self) -> &[u64] {
        &self.state.labels
    }

    /// The components found last.
    pub fn into_components(self) -> Result<ComponentLabels<'g, W>> {
        let traffic = self.traffic();
        ComponentLabels::new(self.graph, self.state.labels, traffic, &self.config, verify::verify)
    }

    /// The message statistics of this rank so far.
    pub fn traffic(&self) -> AmTraffic {
        AmTraffic::from_am(&self.am)
    }
}

impl<W: EdgeWeight> Graph<W> {
    /// The strongly connected components of a graph with in-edges. All ranks call it.
    ///
    /// # Errors
    /// [`Error::Input`](crate::Error::Input) if the graph has no in-edges, or split hubs.
    pub fn scc(&self) -> Result<ComponentLabels<'_, W>> {
        self.scc_with(&SccOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// Those of [`scc`](Self::scc).
    pub fn scc_with(&self, options: &SccOptions) -> Result<ComponentLabels<'_, W>> {
        let mut search = SccSearch::new(self, &options.config)?;
        search.run()?;
        search.into_components()
    }
}
