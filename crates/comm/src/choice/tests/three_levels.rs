//! Choices on clusters of three levels, of which each is ten times slower than the one within, against the best that
//! knows only two of them.

use std::time::{Duration, Instant};

use treepie_collectives::registry::{self, CollectiveSpec, Parameter};
use treepie_model::predict::MessageCosts;
use treepie_schedule::{BlockLayout, BlockLayouts, Operation};
use treepie_sim::costs::{ClusterCosts, PLogP, WanLink};
use treepie_sim::{BlockSizes, Settings, Workload, simulate_schedule};
use treepie_topology::Network;

use super::super::ChoiceInput;

/// 20 us and 50 MB/s within clusters, and ten times slower on each level above.
fn tenfold() -> Settings {
    let link = |factor: f64| WanLink { latency: 20.0 * factor, bandwidth: 50.0 / factor };
    ClusterCosts::per_level(PLogP::from_latency_bandwidth(20.0, 50.0), vec![link(10.0), link(100.0)]).into()
}

/// Microseconds in the simulator, of blocks of whole elements of 8 bytes.
fn simulated(id: &str, spec: &CollectiveSpec<'_>, bytes: u64) -> f64 {
    let schedule = registry::build(id, spec).unwrap_or_else(|refusal| panic!("{id}: {refusal}"));
    let layout = BlockLayout::Even { total: (bytes / 8) as usize, blocks: schedule.blocks() };
    let sizes = BlockSizes::Shared(BlockLayouts::symmetric(layout));
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 8 };
    simulate_schedule(workload, spec.network, &tenfold()).expect("the simulation completes").micros()
}

/// A choice: its id, its predicted and simulated time in microseconds, and how long it took to choose.
struct Chosen {
    id: String,
    predicted: f64,
    micros: f64,
    took: Duration,
}

fn chosen(spec: &CollectiveSpec<'_>, bytes: u64) -> Chosen {
    let profile = tenfold().profile(spec.network);
    let costs = MessageCosts::on_network(&profile, spec.network);
    let input = ChoiceInput { spec: *spec, bytes, element: 8, costs, slots: None, host_mpi: false };
    let begin = Instant::now();
    let best = input.best().expect("there is one");
    let took = begin.elapsed();
    let id = best.id();
    Chosen { predicted: best.prediction.total(), micros: simulated(&id, spec, bytes), id, took }
}

/// Arguments of a hierarchical algorithm that distinguishes two levels.
fn two_level_ids(spec: &CollectiveSpec<'_>, bytes: u64, segments: &[u32], shapes: &[&str]) -> Vec<String> {
    let groups = spec.network.as_clusters().unwrap().groups(1);
    let mut ids = Vec::new();
    for algorithm in registry::applicable(spec) {
        let has = |parameter| algorithm.parameters.contains(&parameter);
        if !has(Parameter::Levels) {
            ids.push(algorithm.id.clone());
            continue;
        }
        for levels in ["innermost", "outermost"] {
            let has_segments = has(Parameter::Segments);
            let is_long = |segments: u32| segments == 1 || has_segments && bytes / u64::from(segments) >= 1024;
            for segments in segments.iter().copied().filter(|segments| is_long(*segments)) {
                for coordinators in [1, groups - 1] {
                    if coordinators > 1 && (!has(Parameter::Coordinators) || segments == 1) {
                        continue;
                    }
                    for lan in shapes {
                        let mut arguments = vec![format!("levels={levels}")];
                        if has(Parameter::Lan) {
                            arguments.push(format!("lan={lan}"));
                        } else if *lan != shapes[0] {
                            continue;
                        }
                        if segments > 1 {
                            arguments.push(format!("segments={segments}"));
                        }
                        if coordinators > 1 {
                            arguments.push(format!("coordinators={coordinators}"));
                        }
                        ids.push(format!("{}:{}", algorithm.id, arguments.join(",")));
                    }
                }
            }
        }
    }
    ids
}

/// Microseconds that the links between two outermost groups take at least: a latency, and the bytes that the busiest
/// carries whatever the algorithm.
fn bound(spec: &CollectiveSpec<'_>, bytes: u64) -> f64 {
    let groups = f64::from(spec.network.as_clusters().unwrap().groups(1));
    let bytes = bytes as f64;
    let (crossings, share) = match spec.operation {
        Operation::Barrier => (1.0, 0.0),
        Operation::Bcast { .. } | Operation::Reduce { .. } | Operation::Scan | Operation::Exscan => {
            (1.0, bytes / (groups - 1.0))
        }
        Operation::Alltoall => (1.0, bytes * f64::from(spec.ranks) / groups.powi(2)),
        Operation::Allreduce => (1.0, 2.0 * bytes / groups),
        _ => (1.0, bytes / groups),
    };
    crossings * 2000.0 + share / 0.5
}

/// All operations and sizes on n x n x n ranks, as a table; with `TREEPIE_LONG=1` also for n = 16, which takes long:
/// `cargo test -p treepie-comm --lib -- --ignored --nocapture three_levels_as_a_table`.
#[test]
#[ignore = "a measurement"]
fn three_levels_as_a_table() {
    let sides = std::env::var("SIDES").unwrap_or("4,8".to_owned());
    for side in sides.split(',').map(|side| side.parse::<u32>().unwrap()) {
        let network: Network = format!("clusters:{side}x{side}x{side}").parse().unwrap();
        let (segments, shapes): (&[u32], &[&str]) = if side < 16 {
            (&[1, 4, 16, 64], &["flat", "binomial", "chain"])
        } else {
            (&[1, 16, 64], &["flat", "binomial"])
        };
        for operation in Operation::all(0) {
            let spec = CollectiveSpec::new(operation, &network);
            for bytes in [8, 1 << 10, 64 << 10, 1 << 20, 4 << 20] {
                if operation == Operation::Barrier && bytes > 8 || operation == Operation::Alltoall && side > 8 {
                    continue;
                }
                let Chosen { id, predicted, micros, took } = chosen(&spec, bytes);
                let ids = two_level_ids(&spec, bytes, segments, shapes);
                let mut best = (f64::INFINITY, String::new());
                let many = side > 8;
                for other in ids {
                    let is_flat = !other.contains("levels");
                    if many
                        && is_flat
                        && ![
                            "binomial",
                            "distance_doubling",
                            "recursive_doubling",
                            "rabenseifner",
                            "magpie",
                            "in_turn",
                            "bruck",
                        ]
                        .iter()
                        .any(|name| other.contains(name))
                    {
                        continue;
                    }
                    let time = simulated(&other, &spec, bytes);
                    if time < best.0 {
                        best = (time, other);
                    }
                }
                println!(
                    "{side} {:14} {bytes:8} {:5.2} {micros:9.0} us (predicted {predicted:9.0}, bound {:9.0}) {took:8.1?} {id}; {:.0} {}",
                    operation.name(),
                    best.0 / micros.max(1e-9),
                    bound(&spec, bytes),
                    best.0,
                    best.1
                );
            }
        }
    }
}
