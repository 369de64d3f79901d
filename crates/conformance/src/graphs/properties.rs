//! Values of vertices that other ranks put, accumulate and get.

use treepie::Comm;
use treepie::am::ActiveMessages;
use treepie::graph::property::{Changes, Reads};
use treepie::graph::{Graph, Orientation};

use super::{Drawn, messages, seeds, shape};
use crate::check::{Outcome, check_eq};

#[derive(Default)]
struct State {
    names: Vec<u64>,
    sums: Vec<u64>,
    least: Vec<u32>,
    /// What was got for own vertices: sums of the names of those that they have arcs to.
    got: Vec<u64>,
}

pub(super) fn read_and_changed(comm: &Comm) -> Outcome {
    for seed in seeds(comm).take(12) {
        let (drawn, shape) = (Drawn::new(seed, Orientation::Directed), shape(seed));
        let graph = Graph::<u32>::build(comm, &drawn, &shape)?;
        let mut build = ActiveMessages::<State>::builder(comm);
        let sums =
            Changes::register(&mut build, "sum", |state: &mut State| &mut state.sums[..], |sum, by| *sum += by, true);
        let keep_least = |least: &mut u32, value: u32| *least = (*least).min(value);
        let least = Changes::register(&mut build, "least", |state: &mut State| &mut state.least[..], keep_least, true);
        let names = Reads::register(
            &mut build,
            "name",
            |state: &mut State| &mut state.names[..],
            |state, _, vertex: u32, name: u64| state.got[vertex as usize] += name,
        );
        let mut am = messages(seed).start(build)?;
        let own = graph.own();
        let mut state = State {
            names: (0..own).map(|place| graph.layout().name(place)).collect(),
            sums: vec![0; own],
            least: vec![u32::MAX; own],
            got: vec![0; own],
        };
        am.epoch_for(&mut state, 0..own, |cx, state, vertex| {
            for arc in graph.out().row(vertex) {
                let name = state.names[vertex];
                sums.send(cx, graph.view(), *arc, name + 1);
                least.send(cx, graph.view(), *arc, name as u32);
                names.ask(cx, graph.view(), *arc, vertex as u32);
            }
        })?;
        let arcs = drawn.arcs(&shape);
        let (mut into, mut lowest) = (vec![0; arcs.len()], vec![u32::MAX; arcs.len()]);
        for (from, row) in (0..).zip(&arcs) {
            for (to, _) in row {
                into[*to as usize] += from + 1;
                lowest[*to as usize] = lowest[*to as usize].min(from as u32);
            }
        }
        for (place, name) in state.names.iter().enumerate() {
            let name = *name as usize;
            check_eq!((state.sums[place], state.least[place]), (into[name], lowest[name]), "at {name}, seed {seed}");
            check_eq!(state.got[place], arcs[name].iter().map(|arc| arc.0).sum::<u64>(), "of {name}, seed {seed}");
        }
    }
    Ok(())
}
