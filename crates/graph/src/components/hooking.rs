//! Components by hooking and shortcutting.   [Shiloach, Vishkin 1982; active messages paper, algorithm 4]
//!
//! Each vertex has a parent; parents form trees, and a tree is a part of a component. In a round each arc tells the tree at its
//! other end of its own parent, and a tree hooks onto the least that it hears of. Then parents of parents become parents until
//! trees are flat. When no tree hooks any more, a tree is a component. A parent is never greater than its child, so there are no
//! cycles; which of several trees is hooked onto depends on the order of messages, what is a component does not.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::collected;
use treepie_comm::Comm;

use super::{Labels, need_symmetric};
use crate::id::{halves, whole};
use crate::patterns::coarsening::{Shortcut, Trees};
use crate::rows::{Arc, VALUES};
use crate::{Bits, Graph, Messages, Result, Traffic};

/// Finds components by hooking and shortcutting. Returns the label of each own vertex. All ranks call it.
pub fn run<A: Arc>(comm: &Comm, graph: &Graph<A>, messages: &Messages) -> Result<Labels> {
    need_symmetric(graph)?;
    among(comm, graph, None, messages)
}

/// To a vertex: about another one's number, whose halves are the last two.
type About = [u32; 3];

fn about(place: u32, number: u64) -> About {
    let [low, high] = halves(number);
    [place, low, high]
}

fn number([_, low, high]: About) -> u64 {
    whole([low, high])
}

struct State<'g, A> {
    graph: &'g Graph<A>,
    /// Of own vertices.
    parents: Vec<u64>,
    hook: Port<About>,
}

impl<A> Trees for State<'_, A> {
    fn parents(&mut self) -> &mut [u64] {
        &mut self.parents
    }
}

impl<A: Arc> State<'_, A> {
    fn place(&self, number: u64) -> Option<usize> {
        self.graph.mine(number)
    }

    /// The tree of a vertex hears of a parent.
    fn hook(&mut self, cx: &mut Context<Self>, vertex: u32, heard: u64) {
        let mut place = vertex as usize;
        let first = self.graph.layout().first(self.graph.layout().rank());
        loop {
            let parent = self.parents[place];
            if heard >= parent {
                return;
            }
            if parent == first + place as u64 {
                self.parents[place] = heard;
                cx.add(1);
                return;
            }
            // Up to the root, which may be another rank's.
            match self.place(parent) {
                Some(above) => place = above,
                None => {
                    let (rank, above) = self.graph.layout().place(parent);
                    return cx.send(self.hook, rank, about(above, heard));
                }
            }
        }
    }
}

/// The same, but vertices that are left out have a label already, and no arc leads from them to others.
pub(super) fn among<A: Arc>(
    comm: &Comm,
    graph: &Graph<A>,
    left_out: Option<(&Bits, u64)>,
    messages: &Messages,
) -> Result<Labels> {
    let layout = graph.layout();
    let first = layout.first(layout.rank());
    let is_left_out = |place: usize| left_out.is_some_and(|(which, _)| which.has(place));
    let mut build = ActiveMessages::<State<'_, A>>::builder(comm);
    let hook = build.port::<About>("hook");
    build.on_touch(
        hook,
        |state: &State<'_, A>, message: &About| &state.parents[message[0] as usize],
        |state, cx, message| state.hook(cx, message[0], number(message)),
    );
    build.combine(
        hook,
        |message: &About| message[0].into(),
        |least: &mut About, message| {
            if number(*message) < number(*least) {
                *least = *message;
            }
        },
    );
    let shortcut = Shortcut::register(&mut build);
    let mut am = messages.start(build)?;
    let parents = (0..graph.own()).map(|place| match left_out {
        Some((which, label)) if which.has(place) => label,
        _ => first + place as u64,
    });
    let mut state = State { graph, parents: collected(parents, VALUES)?, hook };
    let vertices = || (0..graph.own()).filter(|place| !is_left_out(*place));
    loop {
        let hooked = am.epoch_for(&mut state, vertices(), |cx, state, vertex| {
            let parent = state.parents[vertex];
            let own = graph.view().own();
            for arc in graph.out().row(vertex) {
                let there = arc.target() as usize;
                if own.contains(&there) {
                    state.hook(cx, (there - own.start) as u32, parent);
                } else {
                    let (rank, place) = graph.view().owner(arc.target());
                    cx.send(hook, rank, about(place, parent));
                }
            }
        })?;
        shortcut.flatten(&mut am, &mut state, graph, vertices)?;
        if hooked == 0 {
            return Ok(Labels { labels: state.parents, traffic: Traffic::of(&am) });
        }
    }
}
