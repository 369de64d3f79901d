//! Single-source shortest paths (SSSP) by delta-stepping.   [Meyer, Sanders: Δ-stepping: a parallelizable shortest path
//! algorithm, J. Algorithms 49 (2003)]
//!
//! Vertices are queued in buckets of width delta by tentative distance. A bucket is one epoch: distances that improve
//! within it are relaxed in the same epoch, by handlers that send.   [active messages paper, sections 4.2 and 6.2.2]
//! Light and heavy edges are not separated, unlike in Meyer and Sanders: all arcs of a vertex are relaxed at once,
//! again whenever its distance has improved.
//!
//! Each rank remembers the least distance that it has sent to each remote vertex, and sends only smaller ones.
//! Distances do not depend on the order of relaxations, even with rounded sums: rounding is monotonic. Cost: one epoch
//! and one allreduce per nonempty bucket.

mod result;
mod verify;

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::{collected, filled};
use treepie_base::prefetch;
use treepie_comm::{Max, Sum};

use crate::csr::{CsrEdge, VALUES_PURPOSE};
use crate::patterns::buckets::{self, Buckets, LabelCorrecting};
use crate::{AmConfig, AmTraffic, Error, Graph, PropertyMap, Result, Weight};

pub use result::{SsspResult, SsspSummary};

/// Options of shortest paths.
#[derive(Clone, Debug, Default)]
pub struct SsspOptions {
    /// The width of a bucket; `None` chooses one.
    pub delta: Option<f64>,
    /// How active messages are sent.
    pub config: AmConfig,
}

impl<W: Weight> Graph<W> {
    /// Shortest paths from a root given by external id. All ranks call it.
    ///
    /// # Errors
    /// [`Error::Input`] if there is no such vertex, or if a path is too long for the type of weights.
    pub fn sssp(&self, root: u64) -> Result<SsspResult<'_, W>> {
        self.sssp_with(root, &SsspOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// Those of [`sssp`](Self::sssp).
    pub fn sssp_with(&self, root: u64, options: &SsspOptions) -> Result<SsspResult<'_, W>> {
        let root = self.find_vertex(root)?;
        let mut search = DeltaStepping::new(self, options)?;
        search.run(root)?;
        Ok(SsspResult::new(root, search.distances()?, &options.config))
    }
}

/// A search, reusable for any number of roots.
pub struct DeltaStepping<'g, W: Weight> {
    graph: &'g Graph<W>,
    am: ActiveMessages<DeltaSteppingState<'g, W>>,
    state: DeltaSteppingState<'g, W>,
    /// The width of a bucket.
    delta: f64,
    /// The greatest weight of the arcs stored on this rank.
    max_weight: f64,
}

struct DeltaSteppingState<'g, W: Weight> {
    graph: &'g Graph<W>,
    relax: Port<[u32; 2]>,
    hub: Port<[u32; 2]>,
    /// Of local vertices: the tentative distance, and the distance at which arcs were relaxed last.
    labels: Vec<DistanceLabel<W>>,
    /// The least distance sent to each remote vertex, by index of the view.
    sent_distances: Vec<W>,
    buckets: Buckets,
    /// 1 / delta.
    inverse_delta: f64,
}

#[derive(Clone, Copy)]
struct DistanceLabel<W> {
    distance: W,
    relaxed: W,
}

/// The number of messages that labels are prefetched ahead.
const PREFETCH_DISTANCE: usize = 64;

impl<W: Weight> DeltaSteppingState<'_, W> {
    #[inline(always)]
    fn relax(&mut self, vertex: u32, distance: W) {
        let label = &mut self.labels[vertex as usize];
        if distance < label.distance {
            label.distance = distance;
            // `u64::MAX` stands for no bucket.
            let bucket = ((distance.as_f64() * self.inverse_delta) as u64).min(u64::MAX - 1);
            self.buckets.insert(bucket, vertex);
        }
    }

    /// Relaxes arcs to local vertices from a source at a distance.
    #[inline(always)]
    fn relax_local(&mut self, arcs: &[CsrEdge<W>], distance: W) {
        let local_start = self.graph.view().local_range().start as u32;
        for arc in arcs {
            self.relax(arc.target - local_start, distance.add(arc.weight));
        }
    }
}

impl<W: Weight> LabelCorrecting for DeltaSteppingState<'_, W> {
    #[inline(always)]
    fn buckets(&mut self) -> &mut Buckets {
        &mut self.buckets
    }

    fn relax_edges(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let DistanceLabel { distance, relaxed } = &mut self.labels[vertex as usize];
        if relaxed <= distance {
            return;
        }
        *relaxed = *distance;
        let distance = *distance;
        let graph = self.graph;
        let (local, remote) = graph.out_edges().local_and_remote(vertex as usize);
        self.relax_local(local, distance);
        graph.hubs().notify_delegates(cx, self.hub, vertex, |hub| [hub, distance.bits()]);
        for arc in remote {
            let (distance, sent) = (distance.add(arc.weight), &mut self.sent_distances[arc.target as usize]);
            if distance < *sent {
                *sent = distance;
                let (rank, local_index) = graph.view().owner(arc.target);
                cx.send(self.relax, rank, [local_index, distance.bits()]);
            }
        }
    }
}

impl<'g, W: Weight> DeltaStepping<'g, W> {
    /// Prepares a search. All ranks call it.
    pub fn new(graph: &'g Graph<W>, options: &SsspOptions) -> Result<Self> {
        let delta = match options.delta {
            Some(delta) => delta,
            None => choose_delta(graph)?,
        };
        let mut build = ActiveMessages::<DeltaSteppingState<'g, W>>::builder(graph.comm());
        let relax = build.port::<[u32; 2]>("relax");
        build.on_batch(relax, |state: &mut DeltaSteppingState<'g, W>, cx, messages| {
            messages.iter().take(PREFETCH_DISTANCE).for_each(|[vertex, _]| prefetch(&state.labels[*vertex as usize]));
            let mut upcoming = messages.iter().skip(PREFETCH_DISTANCE);
            for [vertex, bits] in messages {
                if let Some([upcoming, _]) = upcoming.next() {
                    prefetch(&state.labels[*upcoming as usize]);
                }
                state.relax(*vertex, W::from_bits(*bits));
            }
            state.drain_bucket(cx);
        });
        let hub = build.port::<[u32; 2]>("hub");
        build.on_batch(hub, |state: &mut DeltaSteppingState<'g, W>, cx, messages| {
            for [hub, bits] in messages {
                state.relax_local(state.graph.hubs().delegate_edges(*hub), W::from_bits(*bits));
            }
            state.drain_bucket(cx);
        });
        for port in [relax, hub] {
            build.combine(port, |m: &[u32; 2]| m[0].into(), |least: &mut [u32; 2], m| least[1] = least[1].min(m[1]));
        }
        let am = options.config.start(build)?;
        let state = DeltaSteppingState {
            graph,
            relax,
            hub,
            labels: filled(
                DistanceLabel { distance: W::INFINITY, relaxed: W::INFINITY },
                graph.num_local(),
                VALUES_PURPOSE,
            )?,
            sent_distances: filled(W::INFINITY, graph.view().len(), VALUES_PURPOSE)?,
            buckets: Buckets::default(),
            inverse_delta: 1.0 / delta,
        };
        let weights = graph.local_arcs().map(|arc| arc.weight.as_f64());
        let max_weight = weights.fold(0.0, f64::max);
        Ok(Self { graph, am, state, delta, max_weight })
    }

    /// The width of a bucket.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// Searches from a root given by global id. Returns the number of buckets processed. All ranks call it.
    pub fn run(&mut self, root: u64) -> Result<u64> {
        self.graph.check_root(root)?;
        self.state.labels.fill(DistanceLabel { distance: W::INFINITY, relaxed: W::INFINITY });
        self.state.sent_distances.fill(W::INFINITY);
        self.state.buckets.clear();
        if let Some(local_index) = self.graph.local_index(root) {
            self.state.relax(local_index as u32, W::ZERO);
        }
        let buckets = buckets::process_buckets(self.graph.comm(), &mut self.am, &mut self.state)?;
        self.check_overflow()?;
        Ok(buckets)
    }

    /// Refuses paths whose length overflows the weight type: their ends would seem unreachable.
    fn check_overflow(&self) -> Result<()> {
        let distance = |local_index: usize| self.state.labels[local_index].distance;
        let hubs = self.graph.allgather_hubs(distance)?;
        let reached = self
            .graph
            .local_vertices()
            .map(distance)
            .chain(hubs.iter().copied())
            .filter(|distance| *distance < W::INFINITY);
        let max_distance = reached.map(W::as_f64).fold(0.0, f64::max);
        // Mostly distances are far from overflow, and the scan is not needed.
        let may_overflow = 2.0 * max_distance.max(self.max_weight) > W::MAX_FINITE;
        let overflows = |(_, distance, row): (u64, W, &[CsrEdge<W>])| {
            distance < W::INFINITY && row.iter().any(|arc| distance.add(arc.weight) >= W::INFINITY)
        };
        let is_overflowing = may_overflow && self.graph.local_rows(distance, &hubs).any(overflows);
        if self.graph.comm().allreduce_one(u32::from(is_overflowing), Max)? > 0 {
            return Err(Error::Input(format!("there are paths that are too long, of more than {}", W::MAX_FINITE)));
        }
        Ok(())
    }

    /// The number of local vertices that are reached.
    pub fn num_reached(&self) -> u64 {
        self.state.labels.iter().filter(|label| label.distance < W::INFINITY).count() as u64
    }

    /// The distance of each local vertex; [`Weight::INFINITY`] if it is unreachable.
    pub fn distances(&self) -> Result<PropertyMap<'g, W, W>> {
        let distances = self.state.labels.iter().map(|label| label.distance);
        PropertyMap::new(self.graph, collected(distances, VALUES_PURPOSE)?)
    }

    /// The message statistics of this rank so far.
    pub fn traffic(&self) -> AmTraffic {
        AmTraffic::from_am(&self.am)
    }
}

/// Chooses the bucket width from the mean weight and the mean degree. With high degrees, paths are short: a narrow
/// bucket has enough vertices, and in a wide one most vertices are relaxed several times. With low degrees, as in road
/// networks, paths are long and narrow buckets are nearly empty. The cube lies between what was best for degrees of 2.5
/// and of 30.
fn choose_delta<W: Weight>(graph: &Graph<W>) -> Result<f64> {
    let sum: f64 = graph.local_arcs().map(|arc| arc.weight.as_f64()).sum();
    let sum = graph.comm().allreduce_one(sum, Sum)?;
    let arcs = graph.num_arcs().max(1) as f64;
    let (mean, degree) = (sum / arcs, arcs / graph.num_vertices().max(1) as f64);
    let delta = mean * (REFERENCE_DEGREE / degree.max(1.0)).powi(3).clamp(MIN_RELATIVE_DELTA, MAX_RELATIVE_DELTA);
    Ok(if delta > 0.0 && delta.is_finite() { delta } else { 1.0 })
}

/// The mean degree at which delta is the mean weight.
const REFERENCE_DEGREE: f64 = 6.0;
/// The bounds of delta relative to the mean weight.
const MIN_RELATIVE_DELTA: f64 = 0.005;
const MAX_RELATIVE_DELTA: f64 = 32.0;
