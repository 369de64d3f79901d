//! Components by sampling, and union by messages.
//!
//! Each rank first joins its own vertices along its own arcs: two arcs of each vertex find most of its greatest part, and only
//! vertices outside of that look at their other arcs.   [Sutton, Ben-Nun, Barak, IPDPS 2018: Afforest]
//!
//! Then parts of different ranks are joined. A bit for each vertex tells whether it is in the greatest part of its rank. If an arc
//! leads from the greatest part of one rank to that of another, these are one; then whatever else has an arc to the other's is joined
//! with the own, and needs no message. What is left are arcs between vertices of which none is in a greatest part, and one arc
//! between each two ranks. Each is one message, which goes up to the roots of both trees until it can hook the greater onto the
//! less: all of them in one epoch.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::collected;
use treepie_comm::Comm;

use super::{Labels, need_symmetric};
use crate::id::{halves, whole};
use crate::patterns::coarsening::{Shortcut, Trees};
use crate::rows::{Arc, VALUES};
use crate::{Bits, Graph, Messages, Result, Traffic};

/// Arcs of each vertex that are joined first.
const SAMPLED: usize = 2;

/// Vertices that are asked for their part, to find the greatest.
const ASKED: usize = 1024;

/// Two vertices to be joined: one of the destination's, and the number of the other.
type Join = [u32; 3];

struct State<'g, A> {
    graph: &'g Graph<A>,
    first: u64,
    /// Of own vertices, as numbers: of their own rank at first.
    parents: Vec<u64>,
    /// Roots that were hooked.
    hooked: Vec<u32>,
    join: Port<Join>,
}

impl<A> Trees for State<'_, A> {
    fn parents(&mut self) -> &mut [u64] {
        &mut self.parents
    }
}

impl<A: Arc> State<'_, A> {
    /// Joins the tree of an own vertex with that of another vertex.
    fn join(&mut self, cx: &mut Context<Self>, mut place: usize, mut other: u64) {
        loop {
            let parent = self.parents[place];
            if parent == other {
                return;
            }
            if parent == self.first + place as u64 {
                // A root: it hooks onto what is less, or the other one's root onto it.
                if other < parent {
                    self.parents[place] = other;
                    self.hooked.push(place as u32);
                    return;
                }
                match self.graph.mine(other) {
                    Some(there) => (place, other) = (there, parent),
                    None => return self.send(cx, other, parent),
                }
            } else {
                match self.graph.mine(parent) {
                    Some(above) => {
                        // Shortened on the way, or long trees would be climbed again and again.
                        self.parents[place] = self.parents[above];
                        place = above;
                    }
                    None => return self.send(cx, parent, other),
                }
            }
        }
    }

    fn send(&self, cx: &mut Context<Self>, to: u64, other: u64) {
        let (rank, place) = self.graph.layout().place(to);
        let [low, high] = halves(other);
        cx.send(self.join, rank, [place, low, high]);
    }
}

/// Trees of own vertices, by place.
struct Forest {
    parents: Vec<u32>,
}

impl Forest {
    fn new(vertices: usize) -> Result<Self> {
        Ok(Self { parents: collected((0..vertices).map(|vertex| vertex as u32), VALUES)? })
    }

    /// Joins the trees of two vertices: the greater root gets the less.
    #[inline]
    fn join(&mut self, left: u32, right: u32) {
        let (mut left, mut right) = (self.parents[left as usize], self.parents[right as usize]);
        while left != right {
            let (high, low) = (left.max(right), left.min(right));
            let above = self.parents[high as usize];
            if above == high {
                self.parents[high as usize] = low;
                return;
            }
            (left, right) = (self.parents[above as usize], low);
        }
    }

    fn flatten(&mut self) {
        for vertex in 0..self.parents.len() {
            // Parents are less, so those before are flat.
            self.parents[vertex] = self.parents[self.parents[vertex] as usize];
        }
    }

    /// The tree that most of some vertices are in.
    fn greatest(&self) -> u32 {
        let step = self.parents.len().div_ceil(ASKED).max(1);
        let mut roots: Vec<u32> = self.parents.iter().step_by(step).copied().collect();
        roots.sort_unstable();
        let greatest = roots.chunk_by(|left, right| left == right).max_by_key(|members| members.len());
        greatest.map_or(0, |members| members[0])
    }
}

/// Finds components by sampling. Returns the label of each own vertex. All ranks call it.
pub fn run<A: Arc>(comm: &Comm, graph: &Graph<A>, messages: &Messages) -> Result<Labels> {
    need_symmetric(graph)?;
    let (layout, view, rows) = (graph.layout(), graph.view(), graph.out());
    let (first, own) = (layout.first(layout.rank()), view.own().start);
    let (mut forest, greatest) = join_own(graph)?;
    if comm.size() == 1 {
        // Nothing is anywhere else.
        let labels = collected(forest.parents.into_iter().map(u64::from), VALUES)?;
        return Ok(Labels { labels, traffic: Traffic::default() });
    }
    let mut bits = Bits::try_new(view.len())?;
    // The places of own vertices begin with a word of their own.
    for (word, parents) in bits.words_mut()[own / 64..].iter_mut().zip(forest.parents.chunks(64)) {
        *word = parents.iter().rev().fold(0, |word, parent| word << 1 | u64::from(*parent == greatest));
    }
    view.gather_bits(comm, &mut bits)?;
    let bridges = find_bridges(graph, &bits);
    // Arcs that have to be told.
    let mut told: Vec<(u32, u64)> = Vec::new();
    for (rank, bridge) in bridges.iter().enumerate() {
        // The other rank has found one, too.
        told.extend(bridge.filter(|_| rank > layout.rank()));
    }
    let are_one = bridges.iter().filter(|bridge| bridge.is_some()).count() == comm.size() - 1;
    for vertex in (0..graph.own()).filter(|vertex| !bits.has(own + *vertex)) {
        let mut is_joined = false;
        for arc in rows.parts(vertex).1 {
            let is_great = bits.has(arc.target() as usize);
            // Whose it is takes a division, and mostly it does not matter.
            if is_great && are_one {
                is_joined = true;
                continue;
            }
            let (rank, place) = view.owner(arc.target());
            let number = layout.first(rank) + u64::from(place);
            if is_great && bridges[rank].is_some() {
                is_joined = true;
            } else if is_great || first + (vertex as u64) < number {
                told.push((vertex as u32, number));
            }
        }
        if is_joined {
            forest.join(vertex as u32, greatest);
        }
    }
    forest.flatten();

    let mut build = ActiveMessages::<State<'_, A>>::builder(comm);
    let join = build.port::<Join>("join");
    build.on_touch(
        join,
        |state: &State<'_, A>, message: &Join| &state.parents[message[0] as usize],
        |state, cx, [place, low, high]| state.join(cx, place as usize, whole([low, high])),
    );
    let shortcut = Shortcut::register(&mut build);
    let mut am = messages.start(build)?;
    let parents = collected(forest.parents.iter().map(|parent| first + u64::from(*parent)), VALUES)?;
    let mut state = State { graph, first, parents, hooked: Vec::new(), join };

    am.epoch_for(&mut state, told, |cx, state, (vertex, other)| state.join(cx, vertex as usize, other))?;

    // Roots that were hooked look for theirs elsewhere, and then everybody has the root of its root.
    let hooked = std::mem::take(&mut state.hooked);
    shortcut.flatten(&mut am, &mut state, graph, || hooked.iter().map(|root| *root as usize))?;
    let State { parents, .. } = state;
    let labels = collected(forest.parents.iter().map(|root| parents[*root as usize]), VALUES)?;
    Ok(Labels { labels, traffic: Traffic::of(&am) })
}

/// For each rank an arc from the own greatest part to that rank's, if there is one: from a vertex, to a number. As there is an arc
/// back for each, the other rank finds one if this does.
fn find_bridges<A: Arc>(graph: &Graph<A>, bits: &Bits) -> Vec<Option<(u32, u64)>> {
    let (layout, view) = (graph.layout(), graph.view());
    let mut bridges = vec![None; layout.ranks()];
    let mut missing = layout.ranks() - 1;
    for (vertex, _) in view.own().enumerate().filter(|(_, place)| bits.has(*place)) {
        for arc in graph.out().parts(vertex).1.iter().filter(|arc| bits.has(arc.target() as usize)) {
            let bridge = &mut bridges[view.owner(arc.target()).0];
            if bridge.is_none() {
                *bridge = Some((vertex as u32, view.number(layout, arc.target())));
                missing -= 1;
            }
        }
        if missing == 0 {
            break;
        }
    }
    bridges
}

/// Joins own vertices along own arcs. Returns their trees, and the greatest of them.
fn join_own<A: Arc>(graph: &Graph<A>) -> Result<(Forest, u32)> {
    let (rows, own) = (graph.out(), graph.view().own().start as u32);
    let mut forest = Forest::new(graph.own())?;
    for vertex in 0..graph.own() {
        for arc in rows.parts(vertex).0.iter().take(SAMPLED) {
            forest.join(vertex as u32, arc.target() - own);
        }
    }
    forest.flatten();
    let greatest = forest.greatest();
    for vertex in 0..graph.own() {
        if forest.parents[vertex] != greatest {
            for arc in rows.parts(vertex).0.iter().skip(SAMPLED) {
                forest.join(vertex as u32, arc.target() - own);
            }
        }
    }
    forest.flatten();
    // It may have been hooked onto a lesser one.
    let greatest = forest.parents.get(greatest as usize).copied().unwrap_or(0);
    Ok((forest, greatest))
}
