//! Strongly connected components: the largest sets of vertices in which each can be reached from each.
//!
//! Three ways, as each is good where others are bad; the order is that of [Slota, Rajamanickam, Madduri: BFS and
//! coloring-based parallel algorithms for strongly connected components, IPDPS 2014].
//! - `trim`: a vertex without arcs in, or without arcs out, among those that are left is a component of its own, and
//!   when it goes others may have none. One epoch.   [McLendon, Hendrickson, Plimpton, Rauchwerger, J. Parallel
//!   Distrib. Comput. 65 (2005)]
//! - `pivot`: what a vertex reaches, and is reached by, is its component. One search forwards, and one backwards in
//!   what that has found. Once, for the component that most vertices are in.   [Fleischer, Hendrickson, Pinar, IPDPS
//!   workshops 2000]
//! - `colour`: all that are left at once. A vertex gets the least number that reaches it, and in each colour the vertex
//!   with that number is searched from backwards; the next time in the other directions.   [Orzan: On distributed
//!   verification and verified distribution, thesis, Amsterdam 2004]
//!
//! Between these those that are left are trimmed. A component is named by the least number in it, which neither depends
//! on the number of ranks, if names are in blocks, nor on the order of messages. That is why Orzan's greatest number is
//! the least here: a colour is then the name of its component.

mod colour;
mod pivot;
mod reach;
mod trim;
mod verify;

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::{collected, filled, with_capacity, zeroed};
use treepie_comm::{Comm, Sum};

use crate::id::Id;
use crate::patterns::search::Spreading;
use crate::rows::VALUES;
use crate::rows::{Arc, Rows};
use crate::{Bits, Graph, Messages, Result, Traffic};

pub use verify::verify;

/// No number of a vertex.
const NONE: u64 = u64::MAX;

/// A search for the components of a graph.
pub struct Search<'g, A: Arc> {
    comm: Comm,
    graph: &'g Graph<A>,
    am: ActiveMessages<State<'g, A>>,
    state: State<'g, A>,
}

/// Which way arcs are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Out,
    Back,
}

impl Direction {
    const BOTH: [Self; 2] = [Self::Out, Self::Back];

    fn opposite(self) -> Self {
        match self {
            Self::Out => Self::Back,
            Self::Back => Self::Out,
        }
    }
}

/// What an epoch is for.
#[derive(Clone, Copy)]
enum Task {
    Trim,
    Colour(Direction),
    Reach(Direction),
}

struct State<'g, A: Arc> {
    graph: &'g Graph<A>,
    /// By direction.
    rows: [&'g Rows<A>; 2],
    ports: Ports,
    /// The number of the first own vertex.
    first: u64,
    task: Task,
    waiting: Vec<u32>,
    /// The name of each own vertex's component.
    labels: Vec<u64>,
    /// Own vertices whose component is not known, in order.
    left: Vec<u32>,
    /// By place, vertices whose component is known: own ones always, others' as of the end of the last round.
    gone: Bits,
    /// How many arcs own vertices have among those that are left, by direction.
    degrees: Vec<[u32; 2]>,
    /// Of own vertices. Arcs between vertices of one colour are searched.
    colours: Vec<u64>,
    /// Own vertices that a search has reached.
    reached: Bits,
    told: Told,
}

#[derive(Clone, Copy)]
struct Ports {
    /// By direction: a vertex has an arc less.
    lose: [Port<u32>; 2],
    colour: Port<<u64 as Id>::About>,
    reach: Port<<u64 as Id>::About>,
}

/// The colours that vertices of others were told last, by place.
struct Told {
    colours: Vec<u64>,
    /// Which have been told one.
    places: Vec<u32>,
}

impl Told {
    /// Whether a vertex is to be told a colour, because `is_news` of it and the one that it was told before.
    #[inline]
    fn tell(&mut self, place: u32, colour: u64, is_news: impl Fn(&u64, &u64) -> bool) -> bool {
        let last = &mut self.colours[place as usize];
        let tells = is_news(&colour, last);
        if tells {
            if *last == NONE {
                self.places.push(place);
            }
            *last = colour;
        }
        tells
    }

    /// Late rounds tell few: so this is not as long as the graph is large.
    fn clear(&mut self) {
        self.places.drain(..).for_each(|place| self.colours[place as usize] = NONE);
    }
}

impl<A: Arc> State<'_, A> {
    fn own(&self) -> usize {
        self.graph.view().own().start
    }

    fn number(&self, vertex: u32) -> u64 {
        self.first + u64::from(vertex)
    }

    fn is_gone(&self, vertex: u32) -> bool {
        self.gone.has(self.own() + vertex as usize)
    }

    /// The component of an own vertex is known.
    fn settle(&mut self, vertex: u32, label: u64) {
        self.labels[vertex as usize] = label;
        self.gone.put(self.own() + vertex as usize);
    }

    /// The component of own vertices that were reached is known.
    fn settle_reached(&mut self, label: impl Fn(&Self, u32) -> u64) {
        let (reached, left): (Vec<u32>, Vec<u32>) =
            self.left.iter().partition(|vertex| self.reached.has(**vertex as usize));
        self.left = left;
        for vertex in reached {
            self.settle(vertex, label(self, vertex));
        }
    }
}

impl<A: Arc> Spreading for State<'_, A> {
    fn waiting(&mut self) -> &mut Vec<u32> {
        &mut self.waiting
    }

    fn follow(&mut self, cx: &mut Context<Self>, vertex: u32) {
        match self.task {
            Task::Trim => self.follow_trimmed(cx, vertex),
            Task::Colour(direction) => self.follow_coloured(cx, vertex, direction),
            Task::Reach(direction) => self.follow_reached(cx, vertex, direction),
        }
    }
}

impl<'g, A: Arc> Search<'g, A> {
    /// A search in a graph whose arcs are known in both directions. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<A>, messages: &Messages) -> Result<Self> {
        let rows = [graph.out(), graph.need_back("a search for strongly connected components")?];
        let mut build = ActiveMessages::<State<'g, A>>::builder(comm);
        let ports = Ports {
            lose: trim::register(&mut build),
            colour: colour::register(&mut build),
            reach: reach::register(&mut build),
        };
        let am = messages.start(build)?;
        let places = graph.view().len();
        let state = State {
            graph,
            rows,
            ports,
            first: graph.layout().first(graph.layout().rank()),
            task: Task::Trim,
            // Vertices without arcs are known to be there only by their number.
            waiting: with_capacity(graph.own(), VALUES)?,
            labels: filled(NONE, graph.own(), VALUES)?,
            left: Vec::new(),
            gone: Bits::try_new(places)?,
            degrees: zeroed(graph.own(), VALUES)?,
            colours: filled(NONE, graph.own(), VALUES)?,
            reached: Bits::try_new(graph.own())?,
            told: Told { colours: filled(NONE, places, VALUES)?, places: Vec::new() },
        };
        Ok(Self { comm: comm.clone(), graph, am, state })
    }

    /// Searches. Returns how many rounds it took: the first one with a pivot, others with colours. All ranks call it.
    pub fn run(&mut self) -> Result<u32> {
        self.state.labels.fill(NONE);
        self.state.gone.clear();
        self.state.left = collected((0..self.graph.own()).map(|vertex| vertex as u32), VALUES)?;
        let mut rounds = 0;
        loop {
            self.trim()?;
            if self.comm.all_reduce(&[self.state.left.len() as u64], Sum)?[0] == 0 {
                return Ok(rounds);
            }
            match rounds {
                0 => self.pivot()?,
                // A chain of components whose numbers ascend is one colour in one direction, and many in the other.
                _ => self.colour(Direction::BOTH[rounds as usize % 2])?,
            }
            rounds += 1;
            self.graph.view().gather_bits(&self.comm, &mut self.state.gone)?;
        }
    }

    /// The least number in the component of each own vertex.
    pub fn labels(&self) -> &[u64] {
        &self.state.labels
    }

    /// What has become of this rank's messages so far.
    pub fn traffic(&self) -> Traffic {
        Traffic::of(&self.am)
    }
}
