//! Breadth-first search that turns around.
//!
//! While the front is small, its arcs are followed: a vertex of this rank is reached at once, one of another rank by a message, and
//! each rank sends one message to a vertex at most. When the front's arcs are a large part of those that are left, it is cheaper
//! that each vertex which is not reached looks among its neighbours for one in the front, and stops at the first; for that all
//! ranks see the front as a set of bits.   [Beamer, Asanovic, Patterson, SC 2012; their constants]

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::filled;
use treepie_comm::{Comm, Sum};

use super::{Label, UNREACHED};
use crate::bits::ones;
use crate::id::Id;
use crate::rows::VALUES;
use crate::rows::{Arc, Rows};
use crate::{Bits, Graph, Messages, Result, Traffic};

/// Vertices look for the front when its arcs are more than one of so many that are left.
const ALPHA: u64 = 15;
/// And until it has fewer than one of so many vertices.
const BETA: u64 = 18;

/// So many arcs of a vertex are followed before it is looked what has come.
const PIECE: usize = 1024;

/// A search that can be run from one root after the other.
pub struct Search<'g, A: Arc, I: Id> {
    comm: Comm,
    graph: &'g Graph<A>,
    back: &'g Rows<A>,
    am: ActiveMessages<State<'g, A, I>>,
    state: State<'g, A, I>,
    reach: Port<I::About>,
    front: Bits,
    next: Bits,
    /// Own vertices that an arc leads to, and those of them that need to look for the front: others are not even looked at, which
    /// in many graphs are most of them.
    with_arcs: Bits,
    looking: Bits,
}

struct State<'g, A: Arc, I: Id> {
    graph: &'g Graph<A>,
    labels: Vec<Label<I>>,
    /// The level that is being reached.
    level: u32,
    /// Vertices that were reached on it.
    reached: Vec<u32>,
    /// Vertices of others, by place, that are known to be reached: nothing more is sent to them.
    known: Bits,
}

impl<A: Arc, I: Id> State<'_, A, I> {
    /// A vertex of this rank is reached. To the sum its degree is added, which stands for the parent until there is one.
    #[inline(always)]
    fn reach(&mut self, cx: &mut Context<Self>, place: u32, parent: I) {
        let label = &mut self.labels[place as usize];
        if label.level == UNREACHED {
            cx.add(label.parent.number());
            *label = Label { parent, level: self.level };
            self.reached.push(place);
        }
    }

    /// Follows some arcs of a vertex of the front.
    #[inline(always)]
    fn follow(&mut self, cx: &mut Context<Self>, port: Port<I::About>, vertex: u32, near: &[A], far: &[A]) {
        let view = self.graph.view();
        let layout = self.graph.layout();
        let parent = I::new(layout.first(layout.rank()) + u64::from(vertex));
        let own = view.own().start as u32;
        for arc in near {
            self.reach(cx, arc.target() - own, parent);
        }
        for arc in far {
            if self.known.put_new(arc.target() as usize) {
                let (rank, place) = view.owner(arc.target());
                cx.send(port, rank, parent.about(place));
            }
        }
    }
}

impl<'g, A: Arc, I: Id> Search<'g, A, I> {
    /// A search in a graph whose arcs are known in both directions. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<A>, messages: &Messages) -> Result<Self> {
        let back = graph.need_back("a search in both directions")?;
        let mut build = ActiveMessages::<State<'g, A, I>>::builder(comm);
        let reach = build.port::<I::About>("reach");
        build.on_touch(
            reach,
            |state: &State<'g, A, I>, about: &I::About| &state.labels[I::parts(*about).0 as usize],
            |state, cx, about| {
                let (place, parent) = I::parts(about);
                state.reach(cx, place, parent);
            },
        );
        let am = messages.start(build)?;
        let places = graph.view().len();
        let state = State {
            graph,
            labels: filled(Label::NONE, graph.own(), VALUES)?,
            level: 0,
            reached: Vec::new(),
            known: Bits::try_new(places)?,
        };
        let (front, next) = (Bits::try_new(places)?, Bits::try_new(places)?);
        let mut with_arcs = Bits::try_new(graph.own())?;
        (0..graph.own()).filter(|place| back.degree(*place) > 0).for_each(|place| with_arcs.put(place));
        let looking = with_arcs.clone();
        Ok(Self { comm: comm.clone(), graph, back, am, state, reach, front, next, with_arcs, looking })
    }

    /// Searches from a vertex, by its number. All ranks call it.
    pub fn run(&mut self, root: u64) -> Result<&[Label<I>]> {
        self.graph.check_root(root)?;
        let rows = self.graph.out();
        for (place, label) in self.state.labels.iter_mut().enumerate() {
            *label = Label { parent: I::new(rows.degree(place)), level: UNREACHED };
        }
        self.state.known.clear();
        self.state.reached.clear();
        self.state.level = 0;
        self.looking.words_mut().copy_from_slice(self.with_arcs.words());
        let mut scout = 0;
        if let Some(place) = self.graph.mine(root) {
            scout = rows.degree(place);
            self.state.labels[place] = Label { parent: I::new(root), level: 0 };
            self.state.reached.push(place as u32);
        }
        scout = self.comm.all_reduce(&[scout], Sum)?[0];
        let mut left = self.graph.arcs();
        while scout > 0 {
            if scout > left / ALPHA {
                scout = u64::from(self.look_for_fronts()? > 0);
            } else {
                left = left.saturating_sub(scout);
                scout = self.follow_front()?;
            }
        }
        Ok(&self.state.labels)
    }

    /// What has become of this rank's messages so far.
    pub fn traffic(&self) -> Traffic {
        Traffic::of(&self.am)
    }

    /// One level: follows the arcs of the front. Returns how many begin at the next one.
    fn follow_front(&mut self) -> Result<u64> {
        let front = std::mem::take(&mut self.state.reached);
        self.state.level += 1;
        let (graph, port) = (self.graph, self.reach);
        let pieces = front.iter().flat_map(|vertex| {
            let (near, far) = graph.out().parts(*vertex as usize);
            let near = near.chunks(PIECE).map(move |piece| (*vertex, piece, &[][..]));
            near.chain(far.chunks(PIECE).map(move |piece| (*vertex, &[][..], piece)))
        });
        Ok(self.am.epoch_for(&mut self.state, pieces, |cx, state, (vertex, near, far)| {
            state.follow(cx, port, vertex, near, far);
        })?)
    }

    /// Some levels: all vertices that are not reached look for one in the front. Returns how many the last one found.
    fn look_for_fronts(&mut self) -> Result<u64> {
        let own = self.graph.view().own();
        self.front.clear();
        let reached = std::mem::take(&mut self.state.reached);
        reached.iter().for_each(|place| self.front.put(own.start + *place as usize));
        self.graph.view().gather_bits(&self.comm, &mut self.front)?;
        let mut found = self.comm.all_reduce(&[reached.len() as u64], Sum)?[0];
        loop {
            let before = found;
            let here = self.look_for_front();
            found = self.comm.all_reduce(&[here], Sum)?[0];
            self.graph.view().gather_bits(&self.comm, &mut self.next)?;
            std::mem::swap(&mut self.front, &mut self.next);
            let known = self.state.known.words_mut().iter_mut();
            known.zip(self.front.words()).for_each(|(known, front)| *known |= front);
            if found < before && found <= self.graph.vertices() / BETA {
                break;
            }
        }
        let words = &self.front.words()[own.start / 64..own.end.div_ceil(64)];
        let places = words.iter().enumerate().flat_map(|(at, word)| ones(*word).map(move |bit| 64 * at + bit));
        self.state.reached.extend(places.map(|place| place as u32));
        Ok(found)
    }

    /// Own vertices that are not reached look for one in the front. Returns how many found one.
    fn look_for_front(&mut self) -> u64 {
        let (layout, view) = (self.graph.layout(), self.graph.view());
        let own = view.own().start;
        self.next.clear();
        self.state.level += 1;
        let mut found = 0;
        for (at, word) in self.looking.words_mut().iter_mut().enumerate() {
            for bit in ones(*word) {
                let place = 64 * at + bit;
                let label = &mut self.state.labels[place];
                if label.level == UNREACHED {
                    let in_front = |arc: &&A| self.front.has(arc.target() as usize);
                    let Some(arc) = self.back.row(place).iter().find(in_front) else { continue };
                    let parent = I::new(view.number(layout, arc.target()));
                    *label = Label { parent, level: self.state.level };
                    self.next.put(own + place);
                    found += 1;
                }
                // It was reached now, or by following a front before.
                *word &= !(1 << bit);
            }
        }
        found
    }
}
