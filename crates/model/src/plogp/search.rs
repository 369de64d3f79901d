//! Search for the segment size and the tree with the least time.   [P-LogP paper 3.1.1, 3.1.2]
//!
//! First segment sizes are halved from the whole message on. Hill climbing then starts from the best of them and its
//! two neighbors, by one and five segments more or less. For each size only those degrees are tried whose tree is
//! lower than with any smaller degree.

use super::pipeline::{PLogPLink, PipelineCost, tree_cost, tree_height, two_layer_cost};

/// The degrees of the tree over clusters and of the trees within them; 0 where a layer has a single rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeDegrees {
    /// Over clusters.
    pub wan: u32,
    /// Within a cluster.
    pub lan: u32,
}

/// The best plan found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentPlan<S = TreeDegrees> {
    /// Its time.
    pub time: f64,
    /// Number of segments.
    pub segments: u64,
    /// Bytes per segment; the last may be shorter.
    pub bytes: u64,
    /// The shape of the tree.
    pub shape: S,
}

/// A message and its unit of segmentation.
#[derive(Clone, Copy)]
struct SegmentedMessage {
    bytes: u64,
    unit: u64,
}

impl SegmentedMessage {
    /// Segments are whole elements; an empty message has one.
    fn new(bytes: u64, unit: u64) -> Self {
        Self { bytes, unit: unit.max(1) }
    }

    fn elements(self) -> u64 {
        self.bytes.div_ceil(self.unit).max(1)
    }

    /// The plan with about this number of segments, of nearly equal size.
    fn plan<S>(self, segments: u64, cost: &impl Fn(f64, f64) -> (PipelineCost, S)) -> SegmentPlan<S> {
        let each = self.elements().div_ceil(segments.clamp(1, self.elements()));
        let segments = self.elements().div_ceil(each);
        let bytes = (each * self.unit).min(self.bytes);
        let (cost, shape) = cost(bytes as f64, segments as f64);
        SegmentPlan { time: cost.time(segments as f64), segments, bytes, shape }
    }
}

/// Up to this number of elements, trying all sizes takes no longer than the search.
const FEW_ELEMENTS: u64 = 1024;

fn better<S>(one: SegmentPlan<S>, other: SegmentPlan<S>) -> SegmentPlan<S> {
    if other.time < one.time { other } else { one }
}

/// The plan with the least time, where `cost` gives the pipeline cost of a segment of some bytes among a number of
/// segments, and the best shape for it.
pub fn plan_segments<S: Copy>(bytes: u64, unit: u64, cost: impl Fn(f64, f64) -> (PipelineCost, S)) -> SegmentPlan<S> {
    let message = SegmentedMessage::new(bytes, unit);
    let elements = message.elements();
    // Of few elements all sizes are tried: there are about twice the square root of their number, and times jump from
    // one to the next.
    if elements <= FEW_ELEMENTS {
        let (mut best, mut segments) = (message.plan(1, &cost), 1);
        while segments < elements {
            // The next number of segments that are shorter.
            segments = elements.div_ceil(elements.div_ceil(segments) - 1);
            best = better(best, message.plan(segments, &cost));
        }
        return best;
    }
    let halvings: Vec<SegmentPlan<S>> =
        (0..=elements.ilog2()).map(|halving| message.plan(1 << halving, &cost)).collect();
    let best = (0..halvings.len()).min_by(|a, b| halvings[*a].time.total_cmp(&halvings[*b].time)).unwrap_or(0);
    // With long elements, most segment sizes end with a nearly empty segment, and local minima are many: so the climb
    // also starts beside the best.
    let starts = &halvings[best.saturating_sub(1)..halvings.len().min(best + 2)];
    let climbed = starts.iter().map(|start| hill_climb(message, *start, &cost));
    climbed.reduce(better).expect("there is a whole message")
}

/// Climbs while one or five segments more or less help.
fn hill_climb<S: Copy>(
    message: SegmentedMessage,
    mut best: SegmentPlan<S>,
    cost: &impl Fn(f64, f64) -> (PipelineCost, S),
) -> SegmentPlan<S> {
    loop {
        let now = best.segments;
        // With long elements, several numbers of segments have the same size: also the next longer and shorter one.
        let (elements, each) = (message.elements(), message.elements().div_ceil(now));
        let (shorter, longer) = (elements.div_ceil((each - 1).max(1)), elements.div_ceil(each + 1));
        let near = [now.saturating_sub(5), now.saturating_sub(1), now + 1, now + 5, shorter, longer];
        let tried = near.into_iter().filter(|segments| (1..=message.elements()).contains(segments));
        let found = tried.map(|segments| message.plan(segments, cost)).fold(best, better);
        if found.time >= best.time {
            return best;
        }
        best = found;
    }
}

/// As [`plan_segments`], over all numbers of segments.
pub fn plan_segments_exhaustive<S: Copy>(
    bytes: u64,
    unit: u64,
    cost: impl Fn(f64, f64) -> (PipelineCost, S),
) -> SegmentPlan<S> {
    let message = SegmentedMessage::new(bytes, unit);
    let all = (1..=message.elements()).map(|segments| message.plan(segments, &cost));
    all.reduce(better).expect("there is a whole message")
}

/// The best tree for a broadcast over `clusters` clusters of `ranks` ranks each (one layer if either is 1), and the
/// best segment, a multiple of `unit` bytes.
pub fn plan_bcast(
    wan: &dyn PLogPLink,
    lan: &dyn PLogPLink,
    clusters: u32,
    ranks: u32,
    bytes: u64,
    unit: u64,
) -> SegmentPlan {
    let (outers, inners) = (candidate_degrees(clusters), candidate_degrees(ranks));
    plan_segments(bytes, unit, |size, count| {
        let mut best = None;
        for &outer in &outers {
            for &inner in &inners {
                consider(&mut best, count, TreeDegrees { wan: outer, lan: inner }, |tree| {
                    bcast_cost(wan, lan, size, clusters, ranks, tree)
                });
            }
        }
        best.expect("there is a tree")
    })
}

/// As [`plan_bcast`], over all trees and segments.
pub fn plan_bcast_exhaustive(
    wan: &dyn PLogPLink,
    lan: &dyn PLogPLink,
    clusters: u32,
    ranks: u32,
    bytes: u64,
    unit: u64,
) -> SegmentPlan {
    let degrees = |ranks: u32| if ranks <= 1 { 0..=0 } else { 1..=ranks - 1 };
    plan_segments_exhaustive(bytes, unit, |size, count| {
        let mut best = None;
        for outer in degrees(clusters) {
            for inner in degrees(ranks) {
                consider(&mut best, count, TreeDegrees { wan: outer, lan: inner }, |tree| {
                    bcast_cost(wan, lan, size, clusters, ranks, tree)
                });
            }
        }
        best.expect("there is a tree")
    })
}

fn bcast_cost(
    wan: &dyn PLogPLink,
    lan: &dyn PLogPLink,
    size: f64,
    clusters: u32,
    ranks: u32,
    shape: TreeDegrees,
) -> PipelineCost {
    match (clusters > 1, ranks > 1) {
        (true, false) => tree_cost(wan, size, shape.wan, tree_height(clusters, shape.wan)),
        (false, true) => tree_cost(lan, size, shape.lan, tree_height(ranks, shape.lan)),
        (false, false) => PipelineCost { gamma: 0.0, lambda: 0.0 },
        (true, true) => {
            let with_height = |ranks, degree| (degree, tree_height(ranks, degree));
            two_layer_cost(wan, lan, size, with_height(clusters, shape.wan), with_height(ranks, shape.lan))
        }
    }
}

fn consider(
    best: &mut Option<(PipelineCost, TreeDegrees)>,
    segments: f64,
    shape: TreeDegrees,
    cost: impl Fn(TreeDegrees) -> PipelineCost,
) {
    let found = cost(shape);
    if best.is_none_or(|(least, _)| found.time(segments) < least.time(segments)) {
        *best = Some((found, shape));
    }
}

/// The degrees whose tree is lower than with any smaller degree: of trees of the same height, the one with the fewest
/// children has the least gap and latency. There are about lg P of them, so no other rule is needed. The paper starts
/// with floor(g/s) children, which can be too many where receiving takes time, and limits degrees within clusters to
/// what fits beside the wide-area links ([`max_lan_degree`](super::max_lan_degree)), which can be too few for few
/// segments.
pub fn candidate_degrees(ranks: u32) -> Vec<u32> {
    if ranks <= 1 {
        return vec![0];
    }
    let mut degrees = vec![1];
    let mut lowest = ranks - 1;
    while lowest > 1 {
        // Heights decrease with the degree, so the next is found by bisection.
        let (mut no, mut yes) = (degrees[degrees.len() - 1], ranks - 1);
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            if tree_height(ranks, middle) < lowest { yes = middle } else { no = middle }
        }
        degrees.push(yes);
        lowest = tree_height(ranks, yes);
    }
    degrees
}
