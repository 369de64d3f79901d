//! Property maps: values of vertices that other ranks update and read.

use treepie::Comm;
use treepie::am::ActiveMessages;
use treepie::graph::{Graph, Orientation, PropertyReads, PropertyUpdates};

use super::{RandomGraph, am_config, build_options, seeds};
use crate::check::{Outcome, check_eq};

#[derive(Default)]
struct PropertyState {
    ids: Vec<u64>,
    sums: Vec<u64>,
    least: Vec<u32>,
    /// Per local vertex the sum of the ids that were read: those of its neighbors.
    got: Vec<u64>,
}

pub(super) fn read_and_updated(comm: &Comm) -> Outcome {
    for seed in seeds(comm).take(12) {
        let (input, options) = (RandomGraph::new(seed, Orientation::Directed), build_options(seed));
        let graph = Graph::build_with(comm, &input, &options)?;
        let mut build = ActiveMessages::<PropertyState>::builder(comm);
        let sums = PropertyUpdates::register(
            &mut build,
            "sum",
            |state: &mut PropertyState| &mut state.sums[..],
            |sum, by| *sum += by,
            true,
        );
        let keep_least = |least: &mut u32, value: u32| *least = (*least).min(value);
        let least = PropertyUpdates::register(
            &mut build,
            "least",
            |state: &mut PropertyState| &mut state.least[..],
            keep_least,
            true,
        );
        let ids = PropertyReads::register(
            &mut build,
            "id",
            |state: &mut PropertyState| &mut state.ids[..],
            |state, _, vertex: u32, id: u64| state.got[vertex as usize] += id,
        );
        let mut am = am_config(seed).start(build)?;
        let num_local = graph.num_local();
        let mut state = PropertyState {
            ids: graph.local_vertices().map(|local| graph.external_id(local)).collect(),
            sums: vec![0; num_local],
            least: vec![u32::MAX; num_local],
            got: vec![0; num_local],
        };
        am.epoch_for(&mut state, 0..num_local, |cx, state, vertex| {
            for neighbor in graph.neighbors(vertex) {
                let id = state.ids[vertex];
                sums.send(cx, neighbor, id + 1);
                least.send(cx, neighbor, id as u32);
                ids.get(cx, neighbor, vertex as u32);
            }
        })?;
        let arcs = input.arcs(&options);
        let (mut into, mut lowest) = (vec![0; arcs.len()], vec![u32::MAX; arcs.len()]);
        for (from, row) in (0..).zip(&arcs) {
            for (to, _) in row {
                into[*to as usize] += from + 1;
                lowest[*to as usize] = lowest[*to as usize].min(from as u32);
            }
        }
        for (local, id) in state.ids.iter().enumerate() {
            let id = *id as usize;
            check_eq!((state.sums[local], state.least[local]), (into[id], lowest[id]), "at {id}, seed {seed}");
            check_eq!(state.got[local], arcs[id].iter().map(|arc| arc.0).sum::<u64>(), "of {id}, seed {seed}");
        }
    }
    Ok(())
}
