//! Shortest ways from one vertex to all others: delta-stepping.   [Meyer, Sanders: Delta-stepping, J. Algorithms 49 (2003)]
//!
//! Vertices wait in buckets of the width delta by the length of the shortest way that is known to them. A bucket is one epoch: ways
//! that get shorter within it are followed in the same epoch, by handlers that send.   [active messages paper, 4.2 and 6.2.2]
//!
//! Each rank remembers the shortest way that it has told of each vertex of others, and tells only shorter ones. Lengths do not
//! depend on the order in which ways are found, also where sums are rounded: rounding keeps the order.

mod verify;

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::filled;
use treepie_base::prefetch;
use treepie_comm::{Comm, Max, Sum};

use crate::patterns::buckets::{self, Buckets, Correcting};
use crate::rows::VALUES;
use crate::rows::{Arc, Weight, Weighted};
use crate::{Error, Graph, Messages, Result, Traffic};

pub use verify::verify;

/// A search that can be run from one root after the other.
pub struct Search<'g, W: Weight> {
    comm: Comm,
    graph: &'g Graph<Weighted>,
    am: ActiveMessages<State<'g, W>>,
    state: State<'g, W>,
    /// The width of a bucket.
    delta: f64,
    /// The greatest weight of an arc that lies here.
    heaviest: f64,
}

struct State<'g, W: Weight> {
    graph: &'g Graph<Weighted>,
    relax: Port<[u32; 2]>,
    hub: Port<[u32; 2]>,
    /// Of own vertices: the shortest way that is known, and that at which arcs were followed last.
    labels: Vec<Label<W>>,
    /// Of others' vertices, by place: the shortest way that they were told of.
    told: Vec<W>,
    buckets: Buckets,
    /// One over delta.
    per_length: f64,
}

#[derive(Clone, Copy)]
struct Label<W> {
    length: W,
    followed: W,
}

/// So many messages ahead labels are asked for.
const AHEAD: usize = 64;

impl<W: Weight> State<'_, W> {
    #[inline(always)]
    fn relax(&mut self, vertex: u32, length: W) {
        let label = &mut self.labels[vertex as usize];
        if length < label.length {
            label.length = length;
            // The last number stands for nothing.
            let bucket = ((length.as_f64() * self.per_length) as u64).min(u64::MAX - 1);
            self.buckets.put(bucket, vertex);
        }
    }

    /// Follows arcs to own vertices, of one at the end of a way of this length.
    #[inline(always)]
    fn relax_near(&mut self, arcs: &[Weighted], length: W) {
        let own = self.graph.view().own().start as u32;
        for arc in arcs {
            self.relax(arc.target() - own, length.add(arc.weight()));
        }
    }
}

impl<W: Weight> Correcting for State<'_, W> {
    #[inline(always)]
    fn buckets(&mut self) -> &mut Buckets {
        &mut self.buckets
    }

    fn follow(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let Label { length, followed } = &mut self.labels[vertex as usize];
        if followed <= length {
            return;
        }
        *followed = *length;
        let length = *length;
        let graph = self.graph;
        let (near, far) = graph.out().parts(vertex as usize);
        self.relax_near(near, length);
        graph.hubs().tell(cx, self.hub, vertex, |hub| [hub, length.bits()]);
        for arc in far {
            let (length, told) = (length.add(arc.weight()), &mut self.told[arc.target() as usize]);
            if length < *told {
                *told = length;
                let (rank, place) = graph.view().owner(arc.target());
                cx.send(self.relax, rank, [place, length.bits()]);
            }
        }
    }
}

impl<'g, W: Weight> Search<'g, W> {
    /// A search in a graph whose weights are `W`, with buckets of the width `delta`, or one that is found out. All ranks call it.
    pub fn new(comm: &Comm, graph: &'g Graph<Weighted>, delta: Option<f64>, messages: &Messages) -> Result<Self> {
        let delta = match delta {
            Some(delta) => delta,
            None => find_delta::<W>(comm, graph)?,
        };
        let mut build = ActiveMessages::<State<'g, W>>::builder(comm);
        let relax = build.port::<[u32; 2]>("relax");
        build.on_batch(relax, |state: &mut State<'g, W>, cx, messages| {
            messages.iter().take(AHEAD).for_each(|[vertex, _]| prefetch(&state.labels[*vertex as usize]));
            let mut later = messages.iter().skip(AHEAD);
            for [vertex, bits] in messages {
                if let Some([later, _]) = later.next() {
                    prefetch(&state.labels[*later as usize]);
                }
                state.relax(*vertex, W::from_bits(*bits));
            }
            state.correct(cx);
        });
        let hub = build.port::<[u32; 2]>("hub");
        build.on_batch(hub, |state: &mut State<'g, W>, cx, messages| {
            for [hub, bits] in messages {
                state.relax_near(state.graph.hubs().share(*hub), W::from_bits(*bits));
            }
            state.correct(cx);
        });
        for port in [relax, hub] {
            build.combine(port, |m: &[u32; 2]| m[0].into(), |least: &mut [u32; 2], m| least[1] = least[1].min(m[1]));
        }
        let am = messages.start(build)?;
        let state = State {
            graph,
            relax,
            hub,
            labels: filled(Label { length: W::FAR, followed: W::FAR }, graph.own(), VALUES)?,
            told: filled(W::FAR, graph.view().len(), VALUES)?,
            buckets: Buckets::default(),
            per_length: 1.0 / delta,
        };
        let weights = graph.arcs_here().map(|arc| arc.weight::<W>().as_f64());
        let heaviest = weights.fold(0.0, f64::max);
        Ok(Self { comm: comm.clone(), graph, am, state, delta, heaviest })
    }

    /// The width of a bucket.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// Searches from a vertex, by its number. Returns how many buckets were emptied. All ranks call it.
    pub fn run(&mut self, root: u64) -> Result<u64> {
        self.graph.check_root(root)?;
        self.state.labels.fill(Label { length: W::FAR, followed: W::FAR });
        self.state.told.fill(W::FAR);
        self.state.buckets.clear();
        if let Some(place) = self.graph.mine(root) {
            self.state.relax(place as u32, W::ZERO);
        }
        let buckets = buckets::correct(&self.comm, &mut self.am, &mut self.state)?;
        self.check_lengths()?;
        Ok(buckets)
    }

    /// Refuses ways that are too long for their kind of number: they would not be told from none.
    fn check_lengths(&self) -> Result<()> {
        let length = |place: usize| self.state.labels[place].length;
        let hubs = self.graph.hubs().gather(&self.comm, length)?;
        let reached = (0..self.graph.own()).map(length).chain(hubs.iter().copied()).filter(|length| *length < W::FAR);
        let longest = reached.map(W::as_f64).fold(0.0, f64::max);
        // Far from it, mostly.
        let may_be = 2.0 * longest.max(self.heaviest) > W::LONGEST;
        let too_long = |(_, length, row): (u64, W, &[Weighted])| {
            length < W::FAR && row.iter().any(|arc| length.add(arc.weight()) >= W::FAR)
        };
        let is_too_long = may_be && self.graph.rows_here(length, &hubs).any(too_long);
        if self.comm.all_reduce(&[u32::from(is_too_long)], Max)?[0] > 0 {
            return Err(Error::Input(format!("there are ways that are too long, of more than {}", W::LONGEST)));
        }
        Ok(())
    }

    /// How many own vertices are reached.
    pub fn reached(&self) -> u64 {
        self.state.labels.iter().filter(|label| label.length < W::FAR).count() as u64
    }

    /// The length of the shortest way to each own vertex; [`Weight::FAR`] if there is none.
    pub fn lengths(&self) -> Vec<W> {
        self.state.labels.iter().map(|label| label.length).collect()
    }

    /// What has become of this rank's messages so far.
    pub fn traffic(&self) -> Traffic {
        Traffic::of(&self.am)
    }
}

/// What a search found, in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// How many vertices were reached.
    pub reached: u64,
    /// The longest of the shortest ways.
    pub max: f64,
    /// All of them together.
    pub sum: f64,
    /// How many arcs lead from vertices that were reached to another.
    pub arcs: u64,
}

/// Counts what a search has found. All ranks call it.
pub fn count<W: Weight>(comm: &Comm, graph: &Graph<Weighted>, lengths: &[W]) -> Result<Found> {
    let reached = || lengths.iter().enumerate().filter(|(_, length)| **length < W::FAR);
    let mut counts = [reached().count() as u64, reached().map(|(place, _)| graph.degree_without_loops(place)).sum()];
    comm.all_reduce_in_place(&mut counts, Sum)?;
    let max = reached().map(|(_, length)| length.as_f64()).fold(0.0, f64::max);
    let max = comm.all_reduce(&[max], Max)?[0];
    let sum: f64 = reached().map(|(_, length)| length.as_f64()).sum();
    let sum = comm.all_reduce(&[sum], Sum)?[0];
    Ok(Found { reached: counts[0], max, sum, arcs: counts[1] })
}

/// The width of buckets by the mean weight and the mean degree. Where vertices have many arcs, ways are short and there are always
/// enough vertices in a narrow bucket, and in a wide one most of them are followed several times; where they have few, as in road
/// networks, ways are long and narrow buckets are empty. The cube lies between what was best for degrees of 2.5 and of 30.
fn find_delta<W: Weight>(comm: &Comm, graph: &Graph<Weighted>) -> Result<f64> {
    let sum: f64 = graph.arcs_here().map(|arc| arc.weight::<W>().as_f64()).sum();
    let sum = comm.all_reduce(&[sum], Sum)?[0];
    let arcs = graph.arcs().max(1) as f64;
    let (mean, degree) = (sum / arcs, arcs / graph.vertices().max(1) as f64);
    let delta = mean * (USUAL / degree.max(1.0)).powi(3).clamp(NARROW, WIDE);
    Ok(if delta > 0.0 && delta.is_finite() { delta } else { 1.0 })
}

/// The degree for which a bucket is as wide as the mean weight.
const USUAL: f64 = 6.0;
/// How many mean weights a bucket is wide, at least and at most.
const NARROW: f64 = 0.005;
const WIDE: f64 = 32.0;
