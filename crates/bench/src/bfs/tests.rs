//! Row A23 of the NBX paper: the ranking of the protocols.

use super::study::{Barrier, Study};
use super::*;

fn protocols() -> Vec<String> {
    ["exchange/pex", "exchange/pcx", "exchange/nbx"].map(str::to_owned).to_vec()
}

/// Times of PEX and PCX over that of NBX, on Intrepid.
fn ratios(ranks: u32, remote: u64, barrier: Barrier) -> [f64; 2] {
    let protocols = protocols();
    let simulated = Some((PaperMachine::Intrepid, barrier));
    let study = Study { ranks, vertices: 64, degree: 8, remote, protocols: &protocols, roots: 1, simulated };
    let result = study.run().unwrap();
    let [pex, pcx, nbx] = [0, 1, 2].map(|protocol| median(&result.seconds[protocol]));
    [pex / nbx, pcx / nbx]
}

#[test]
fn with_a_hardware_barrier_nbx_is_ahead_and_the_more_the_more_ranks_there_are() {
    for remote in [6, 26, 79] {
        let (few, many) = (ratios(32, remote, Barrier::Hardware), ratios(256, remote, Barrier::Hardware));
        assert!(many.iter().all(|ratio| *ratio > 1.2), "k = {remote}: {many:?}");
        // With few ranks, those with the most edges send to all others.
        if remote < 32 {
            assert!(few.iter().zip(&many).all(|(few, many)| few < many), "k = {remote}: {few:?} {many:?}");
        }
        // PEX's alltoall of counters costs more than PCX's reduce_scatter.
        assert!(many[0] > many[1], "k = {remote}: {many:?}");
    }
}

#[test]
fn a_barrier_by_messages_takes_most_of_that_away() {
    let [hardware, messages] = [Barrier::Hardware, Barrier::Messages].map(|barrier| ratios(128, 6, barrier));
    assert!(hardware.iter().zip(&messages).all(|(hardware, messages)| *hardware > 1.5 * messages));
}

#[test]
fn real_ranks_find_the_same_by_each_protocol() {
    let protocols = protocols();
    let study =
        Study { ranks: 5, vertices: 50, degree: 4, remote: 6, protocols: &protocols, roots: 4, simulated: None };
    let result = study.run().unwrap();
    assert!(result.levels > 2 && result.seconds.iter().all(|seconds| seconds.len() == 4), "{result:?}");
}
