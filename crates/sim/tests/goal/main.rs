//! Schedules written as GOAL parse by the published grammar, and an evaluation of the file that shares nothing with the
//! simulator but the rules of its LogGP gives the same time.

mod evaluator;
mod parser;

use crate::common::{network, operation, uniform};
use evaluator::{Parameters, makespan};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::{PhaseEnd, Schedule, dump};
use treepie_sim::costs::LogGP;
use treepie_sim::{Settings, Workload, simulate_schedule};
use treepie_topology::Network;

fn to_goal(schedule: &dyn Schedule, sizes: &treepie_sim::BlockSizes, element: usize) -> parser::Program {
    let mut text = String::new();
    dump::write_goal(schedule, &|rank| sizes.layouts(rank).clone(), element, &mut text).unwrap();
    parser::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Whether GOAL can express a schedule: it has no global end of a phase.
fn is_expressible(schedule: &dyn Schedule) -> bool {
    (0..schedule.phases()).all(|phase| schedule.phase(phase).end == PhaseEnd::Local)
}

fn has_window(schedule: &dyn Schedule) -> bool {
    (0..schedule.phases()).map(|phase| schedule.phase(phase)).any(|phase| phase.window < phase.lanes)
}

/// The number of schedules compared, and of those with a window.
fn compare(network: &Network, parameters: Parameters, each: usize) -> [u32; 2] {
    let mut compared = [0, 0];
    for algorithm in registry::all() {
        for variant in algorithm.variants() {
            let root = network.ranks() / 2;
            let Ok(schedule) = registry::build(&variant, &CollectiveSpec::new(operation(&variant, root), network))
            else {
                continue;
            };
            // Nor can it express that lanes which a window opens at one instant do so in order; where sends take time
            // they do anyway.
            if !is_expressible(&*schedule) || parameters.overhead == 0.0 && has_window(&*schedule) {
                continue;
            }
            let sizes = uniform(&*schedule, if variant.starts_with("barrier") { 0 } else { each });
            let Parameters { latency, overhead, gap, per_byte, gamma } = parameters;
            let costs =
                LogGP { latency: latency / 1e6, overhead: overhead / 1e6, gap: gap / 1e6, per_byte: per_byte / 1e6 };
            let settings = Settings { gamma: gamma / 1e6, ..costs.into() };
            let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 8 };
            let result = simulate_schedule(workload, network, &settings).unwrap();
            let evaluated = makespan(&to_goal(&*schedule, &sizes, 8), parameters);
            let off = (result.makespan as f64 - evaluated).abs();
            assert!(
                off <= 1e-9 * evaluated,
                "{variant} on {network}: {} ps simulated, {evaluated} evaluated",
                result.makespan
            );
            compared[0] += 1;
            compared[1] += u32::from(has_window(&*schedule));
        }
    }
    compared
}

/// Picoseconds.
const INTREPID: Parameters =
    Parameters { latency: 4_290_000.0, overhead: 2_870_000.0, gap: 2_040_000.0, per_byte: 2670.0, gamma: 0.0 };
const JAGUAR: Parameters =
    Parameters { latency: 9_900_000.0, overhead: 1_750_000.0, gap: 3_400_000.0, per_byte: 580.0, gamma: 0.0 };

/// Fractions of picoseconds.
const PARTS: Parameters =
    Parameters { latency: 4_290_000.4, overhead: 2_870_000.7, gap: 2_040_000.5, per_byte: 2670.123, gamma: 1250.377 };

#[test]
fn simulations_agree_with_an_evaluation_of_their_goal_files() {
    let mut compared = [0, 0];
    let mut compare = |network: &Network, parameters, each| {
        let [all, windows] = compare(network, parameters, each);
        compared = [compared[0] + all, compared[1] + windows];
    };
    for ranks in 1..=17 {
        // A send without overhead does not wait for the CPU.
        let free = Parameters { overhead: 0.0, gamma: 1250.0, ..INTREPID };
        for parameters in [INTREPID, JAGUAR, Parameters { gamma: 1250.0, ..INTREPID }, free, PARTS] {
            compare(&Network::flat(ranks), parameters, 37);
        }
        compare(&Network::flat(ranks), JAGUAR, 4001);
    }
    for text in ["torus:4x4", "mesh:3x3", "torus:2x3x2", "clusters:3+5", "clos:r6,t4,n10"] {
        compare(&network(text), INTREPID, 100);
    }
    assert!(compared[0] > 5000 && compared[1] > 100, "{compared:?}");
}

#[test]
fn the_parser_follows_the_grammar() {
    let text = "num_ranks 2\n\nrank 0 {\nl1: calc 100 cpu 0\nl2: send 10b to 1 tag 3 cpu 0 nic 0\nl2 requires l1\n}\n\
                rank 1 {\nl1: recv 10b from 0 tag 3\nl2: calc 5\nl2 irequires l1\n}\n";
    let program = parser::parse(text).unwrap();
    assert_eq!(program.ranks.len(), 2);
    // 100 units of computation, o + L + 9 G for the message, o to receive; rank 1 computes at the beginning of its
    // receive.
    let expected = 100.0 * 1000.0 + 2_870_000.0 + 4_290_000.0 + 9.0 * 2670.0 + 2_870_000.0 + 5.0 * 1000.0;
    assert_eq!(makespan(&program, Parameters { gamma: 1000.0, ..INTREPID }), expected);
    for wrong in [
        "rank 0 {\n}",
        "num_ranks 1\nrank 1 {\n}",
        "num_ranks 1\nrank 0 {\nl1: send 1b to 0\n",
        "num_ranks 1\nrank 0 {\nl1 requires l2\n}",
    ] {
        assert!(parser::parse(wrong).is_err(), "{wrong}");
    }
}
