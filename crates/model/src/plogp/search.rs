//! The search for the segment size and the tree with which a message takes least.   [P-LogP paper 3.1.1, 3.1.2]
//!
//! First sizes are halved from the whole message on; from the best of them and the two beside it, one and five segments
//! more or less are tried as long as that helps. For each size only those degrees are tried with which the tree is
//! lower than with any smaller one.

use super::pipeline::{Link, Pace, height, layers, tree};

/// The degrees of a tree over clusters and of those within them; 0 where there is nobody to serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Over clusters.
    pub wan: u32,
    /// Within a cluster.
    pub lan: u32,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan<S = Tree> {
    /// How long it takes.
    pub time: f64,
    /// In how many segments.
    pub segments: u64,
    /// Of how many bytes; the last may be shorter.
    pub bytes: u64,
    /// Which shape.
    pub shape: S,
}

/// A message and its segments.
#[derive(Clone, Copy)]
struct Message {
    bytes: u64,
    unit: u64,
}

impl Message {
    /// Segments are whole elements; an empty message is one.
    fn new(bytes: u64, unit: u64) -> Self {
        Self { bytes, unit: unit.max(1) }
    }

    fn elements(self) -> u64 {
        self.bytes.div_ceil(self.unit).max(1)
    }

    /// About so many segments that are as equal as they can be.
    fn plan<S>(self, segments: u64, pace: &impl Fn(f64, f64) -> (Pace, S)) -> Plan<S> {
        let each = self.elements().div_ceil(segments.clamp(1, self.elements()));
        let segments = self.elements().div_ceil(each);
        let bytes = (each * self.unit).min(self.bytes);
        let (pace, shape) = pace(bytes as f64, segments as f64);
        Plan { time: pace.time(segments as f64), segments, bytes, shape }
    }
}

fn better<S>(one: Plan<S>, other: Plan<S>) -> Plan<S> {
    if other.time < one.time { other } else { one }
}

/// The number of segments with which it takes least, where `pace` gives what a segment of so many bytes costs, among so
/// many, and the shape with which it does.
pub fn segments<S: Copy>(bytes: u64, unit: u64, pace: impl Fn(f64, f64) -> (Pace, S)) -> Plan<S> {
    let message = Message::new(bytes, unit);
    let elements = message.elements();
    let halvings: Vec<Plan<S>> = (0..=elements.ilog2()).map(|halving| message.plan(1 << halving, &pace)).collect();
    let best = (0..halvings.len()).min_by(|a, b| halvings[*a].time.total_cmp(&halvings[*b].time)).unwrap_or(0);
    // Where elements are long, segments of all sizes but a few end with one that is nearly empty, and hills are many:
    // the climb begins beside the best as well.
    let starts = &halvings[best.saturating_sub(1)..halvings.len().min(best + 2)];
    let climbed = starts.iter().map(|start| climb(message, *start, &pace));
    climbed.reduce(better).expect("there is a whole message")
}

/// As long as one or five segments more or less help.
fn climb<S: Copy>(message: Message, mut best: Plan<S>, pace: &impl Fn(f64, f64) -> (Pace, S)) -> Plan<S> {
    loop {
        let now = best.segments;
        let near = [now.saturating_sub(5), now.saturating_sub(1), now + 1, now + 5];
        let tried = near.into_iter().filter(|segments| (1..=message.elements()).contains(segments));
        let found = tried.map(|segments| message.plan(segments, pace)).fold(best, better);
        if found.time >= best.time {
            return best;
        }
        best = found;
    }
}

/// The same over all numbers of segments.
pub fn segments_exhaustive<S: Copy>(bytes: u64, unit: u64, pace: impl Fn(f64, f64) -> (Pace, S)) -> Plan<S> {
    let message = Message::new(bytes, unit);
    let all = (1..=message.elements()).map(|segments| message.plan(segments, &pace));
    all.reduce(better).expect("there is a whole message")
}

/// The best tree for a broadcast over `clusters` clusters of `ranks` ranks each (one layer if either is 1), and the
/// best segment, a multiple of `unit` bytes.
pub fn bcast(wan: &dyn Link, lan: &dyn Link, clusters: u32, ranks: u32, bytes: u64, unit: u64) -> Plan {
    let (outers, inners) = (useful_degrees(clusters), useful_degrees(ranks));
    segments(bytes, unit, |size, count| {
        let mut best = None;
        for &outer in &outers {
            for &inner in &inners {
                consider(&mut best, count, Tree { wan: outer, lan: inner }, |tree| {
                    pace(wan, lan, size, clusters, ranks, tree)
                });
            }
        }
        best.expect("there is a tree")
    })
}

/// The same over all trees and segments.
pub fn bcast_exhaustive(wan: &dyn Link, lan: &dyn Link, clusters: u32, ranks: u32, bytes: u64, unit: u64) -> Plan {
    let degrees = |ranks: u32| if ranks <= 1 { 0..=0 } else { 1..=ranks - 1 };
    segments_exhaustive(bytes, unit, |size, count| {
        let mut best = None;
        for outer in degrees(clusters) {
            for inner in degrees(ranks) {
                consider(&mut best, count, Tree { wan: outer, lan: inner }, |tree| {
                    pace(wan, lan, size, clusters, ranks, tree)
                });
            }
        }
        best.expect("there is a tree")
    })
}

fn pace(wan: &dyn Link, lan: &dyn Link, size: f64, clusters: u32, ranks: u32, shape: Tree) -> Pace {
    match (clusters > 1, ranks > 1) {
        (true, false) => tree(wan, size, shape.wan, height(clusters, shape.wan)),
        (false, true) => tree(lan, size, shape.lan, height(ranks, shape.lan)),
        (false, false) => Pace { gamma: 0.0, lambda: 0.0 },
        (true, true) => {
            let with_height = |ranks, degree| (degree, height(ranks, degree));
            layers(wan, lan, size, with_height(clusters, shape.wan), with_height(ranks, shape.lan))
        }
    }
}

fn consider(best: &mut Option<(Pace, Tree)>, segments: f64, shape: Tree, pace: impl Fn(Tree) -> Pace) {
    let found = pace(shape);
    if best.is_none_or(|(least, _)| found.time(segments) < least.time(segments)) {
        *best = Some((found, shape));
    }
}

/// The degrees with which a tree is lower than with any smaller one: of trees of the same height, that with the fewest
/// children has the least gap and latency. There are about lg P of them, so that no other rule is needed: the paper
/// begins with floor(g/s) children, which can be too many where receiving takes time, and has at most as many within
/// clusters as fit beside the wide-area links ([`lan_degrees`](super::lan_degrees)), which can be too few for few
/// segments.
fn useful_degrees(ranks: u32) -> Vec<u32> {
    if ranks <= 1 {
        return vec![0];
    }
    let mut degrees = vec![1];
    let mut lowest = ranks - 1;
    while lowest > 1 {
        // Heights fall with the degree, so the next is found by halving.
        let (mut no, mut yes) = (degrees[degrees.len() - 1], ranks - 1);
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            if height(ranks, middle) < lowest { yes = middle } else { no = middle }
        }
        degrees.push(yes);
        lowest = height(ranks, yes);
    }
    degrees
}
