//! Whether scores are right, by another account of the same ways: from their ends, and without going back over them.
//!
//! What depends on all vertices is, for each end of a way, the number of vertices between source and end on an average
//! shortest way: its mean number of arcs less one. To see also whether scores are with the right vertices, each vertex
//! takes a toll from one to two, drawn by its number. What all vertices take is the sum of score times toll; what all
//! pay is, for each end of ways, the mean toll of these, which is summed up while they are followed from the source.

use treepie_comm::{Comm, Sum};

use super::flow::{Direction, Flow};
use super::{Measure, count_ways, times_counted};
use crate::agree::agree;
use crate::mix::digest;
use crate::{Error, Graph, Messages, Result};

/// By how much both sides may differ, as a part of them.
const TOLERANCE: f64 = 1e-9;

/// Checks the scores that these sources, by their numbers, have given. Lengths of ways are verified on the way. All
/// ranks call it, and get the same error.
pub fn verify<'g, M: Measure<'g>>(
    comm: &Comm,
    measure: &mut M,
    sources: impl IntoIterator<Item = u64>,
    scores: &[f64],
    messages: &Messages,
) -> Result<()> {
    let graph = measure.graph();
    agree(comm, each_for_itself(graph, scores))?;
    let first = graph.layout().first(graph.layout().rank());
    let toll = |place: usize| 1.0 + digest([first + place as u64]) as f64 / 2f64.powi(64);
    let mut flow = Flow::<M>::new(comm, graph, messages)?;
    let mut paid = 0.0;
    for source in sources {
        graph.check_root(source)?;
        let lengths = measure.search_verified(comm, source, messages)?;
        flow.begin(&lengths)?;
        let ways = count_ways(comm, graph, &mut flow, source)?;
        let mut given: Vec<f64> = ways.iter().enumerate().map(|(place, ways)| ways * toll(place)).collect();
        if let Some(place) = graph.mine(source) {
            given[place] = 0.0;
        }
        let came = flow.run(Direction::Out, given)?;
        paid += came.iter().zip(&ways).filter(|(_, ways)| **ways > 0.0).map(|(came, ways)| came / ways).sum::<f64>();
    }
    let taken: f64 = scores.iter().enumerate().map(|(place, score)| score * toll(place)).sum();
    let sums = comm.all_reduce(&[paid, taken * times_counted(graph)], Sum)?;
    let (paid, taken) = (sums[0], sums[1]);
    if (paid - taken).abs() <= TOLERANCE * paid.max(taken) {
        return Ok(());
    }
    Err(Error::Wrong(format!("all shortest ways together pay {paid}, and by their scores vertices take {taken}")))
}

/// What a rank can see by itself.
fn each_for_itself<A: crate::Arc>(graph: &Graph<A>, scores: &[f64]) -> Result<()> {
    if scores.len() != graph.own() {
        return Err(Error::Wrong(format!("there are {} scores for {} vertices", scores.len(), graph.own())));
    }
    match scores.iter().position(|score| !(score.is_finite() && *score >= 0.0)) {
        Some(place) => {
            Err(Error::Wrong(format!("vertex {} has the score {}", graph.layout().name(place), scores[place])))
        }
        None => Ok(()),
    }
}
