//! Betweenness: on how many shortest ways between other vertices a vertex lies, as a part of the ways between each two.
//!
//! For each source, the arcs on shortest ways from it ("tight" ones) form a graph without cycles. In its order, ways
//! are counted: a vertex has as many as all vertices before it together. In the opposite order, what depends on each
//! vertex is accumulated:
//!
//! ```text
//! dependency(v) = sum over tight arcs from v to w of ways(v) / ways(w) * (1 + dependency(w))
//! ```
//!
//! [Brandes: A faster algorithm for betweenness centrality, J. Math. Sociology 25 (2001)] keeps a list of each vertex's
//! predecessors. Here arcs are kept backwards, and whether one is tight is seen from the lengths at its ends. Both
//! orders are one epoch each, in which a vertex sends when it has heard from all that come before it: a search for
//! lengths and a pair of traversals in topological order.   [Edmonds, Hoefler, Lumsdaine: A space-efficient parallel
//! algorithm for computing betweenness centrality in distributed memory, HiPC 2010]
//!
//! What is counted:
//! - Several arcs from one vertex to another, if they are equally short, are several ways. An arc from a vertex to
//!   itself is on none. A source and the end of a way are not between.
//! - Ways are equally long if their lengths, summed up from the source, are to the last bit.
//! - In a graph whose arcs all have one in the other direction each way is found in both, so scores are halved.
//! - Sums of floating-point numbers depend on the order of messages: scores may differ in their last digits from run to
//!   run.

mod flow;
mod measure;
mod verify;

use treepie_base::memory::{collected, zeroed};
use treepie_comm::Comm;

use crate::agree::agree;
use crate::rows::VALUES;
use crate::rows::{Arc, Weight};
use crate::{Error, Graph, Messages, Result, Traffic};

use flow::{Direction, Flow};

pub use measure::{Hops, Lengths, Measure};
pub use verify::verify;

/// Scores that get more complete by one source after the other.
pub struct Betweenness<'g, M: Measure<'g>> {
    comm: Comm,
    graph: &'g Graph<M::Arc>,
    measure: M,
    flow: Flow<'g, M>,
    /// Of own vertices, the sum of what depended on them.
    sums: Vec<f64>,
}

impl<'g, M: Measure<'g>> Betweenness<'g, M> {
    /// Scores of vertices of the graph that is measured. All ranks call it.
    pub fn new(comm: &Comm, measure: M, messages: &Messages) -> Result<Self> {
        let graph = measure.graph();
        let flow = Flow::new(comm, graph, messages)?;
        Ok(Self { comm: comm.clone(), graph, measure, flow, sums: zeroed(graph.own(), VALUES)? })
    }

    /// Adds the ways from a source, by its number. Returns how many vertices were reached, the source among them. All
    /// ranks call it.
    pub fn run(&mut self, source: u64) -> Result<u64> {
        self.graph.check_root(source)?;
        let lengths = self.measure.search(source)?;
        let reached = self.flow.begin(&lengths)?;
        let ways = count_ways(&self.comm, self.graph, &mut self.flow, source)?;
        // A vertex passes (1 + dependency) / ways on, and its dependency is its ways times the sum of what comes.
        let parts = ways.iter().map(|ways| if *ways > 0.0 { 1.0 / ways } else { 0.0 });
        let came = self.flow.run(Direction::Back, collected(parts, VALUES)?)?;
        let source = self.graph.mine(source);
        for (place, (sum, (ways, came))) in self.sums.iter_mut().zip(ways.iter().zip(came)).enumerate() {
            if Some(place) != source {
                *sum += ways * came;
            }
        }
        Ok(reached)
    }

    /// The score of each own vertex, from the sources so far.
    pub fn scores(&self) -> Vec<f64> {
        let times = times_counted(self.graph);
        self.sums.iter().map(|sum| sum / times).collect()
    }

    /// What has become of this rank's messages of traversals so far.
    pub fn traffic(&self) -> Traffic {
        self.flow.traffic()
    }
}

/// How many shortest ways lead from the source to each own vertex.
fn count_ways<'g, M: Measure<'g>>(
    comm: &Comm,
    graph: &Graph<M::Arc>,
    flow: &mut Flow<'g, M>,
    source: u64,
) -> Result<Vec<f64>> {
    let mut given = zeroed(graph.own(), VALUES)?;
    let source = graph.mine(source);
    if let Some(place) = source {
        given[place] = 1.0;
    }
    let mut ways = flow.run(Direction::Out, given)?;
    if let Some(place) = source {
        ways[place] = 1.0;
    }
    let too_many = || Error::Input(format!("there are more than {:e} shortest ways to one vertex", f64::MAX));
    agree(comm, if ways.iter().all(|ways| ways.is_finite()) { Ok(()) } else { Err(too_many()) })?;
    Ok(ways)
}

/// How often the ways between two vertices are counted, if all vertices are sources.
fn times_counted<A: Arc>(graph: &Graph<A>) -> f64 {
    if graph.is_symmetric() { 2.0 } else { 1.0 }
}

/// An arc is on a shortest way: from a vertex at `near` to one at `far`.
#[inline(always)]
fn is_tight<L: Weight>(near: L, arc: L, far: L) -> bool {
    near < far && far < L::FAR && near.add(arc) == far
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arcs_on_shortest_ways_are_tight() {
        assert!(is_tight(1.0f32, 0.5, 1.5) && is_tight(3u32, 4, 7));
        assert!(!is_tight(1.0f32, 0.5, 1.25) && !is_tight(3u32, 4, 6));
        // To where nothing leads, however long the way would be.
        assert!(!is_tight(u32::MAX - 1, 1, u32::MAX) && !is_tight(f32::MAX, f32::MAX, f32::INFINITY));
        assert!(!is_tight(u32::MAX, 1, u32::MAX));
        // What is not farther is not behind.
        assert!(!is_tight(1e9f32, 1e-9, 1e9));
    }
}
