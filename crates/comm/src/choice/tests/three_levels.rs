//! Choices on clusters of three levels, of which each is ten times slower than the one within, against the best that
//! knows only two of them.

use std::time::{Duration, Instant};

use treepie_collectives::registry::{self, CollectiveSpec, Parameter};
use treepie_model::predict::MessageCosts;
use treepie_schedule::{BlockLayout, BlockLayouts, Operation};
use treepie_sim::costs::{ClusterCosts, PLogP, WanLink};
use treepie_sim::{BlockSizes, Settings, Workload, simulate_schedule};
use treepie_topology::Network;

use super::super::{ChoiceInput, Resources};

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
    let input = ChoiceInput { spec: *spec, bytes, element: 8, costs, resources: Resources::default() };
    let begin = Instant::now();
    let best = input.best().expect("there is one");
    let took = begin.elapsed();
    let id = best.id();
    Chosen { predicted: best.prediction.total(), micros: simulated(&id, spec, bytes), id, took }
}

/// What a choice is compared with: arguments of the algorithms that distinguish two levels.
struct TwoLevels {
    segments: &'static [u32],
    shapes: &'static [&'static str],
    /// Whether algorithms that know no clusters are simulated, too; those of many ranks have many messages.
    with_flat: bool,
}

const ALL: TwoLevels = TwoLevels { segments: &[1, 4, 16, 64], shapes: &["flat", "binomial", "chain"], with_flat: true };

const SOME: TwoLevels = TwoLevels { segments: &[1, 64], shapes: &["flat", "binomial", "chain"], with_flat: false };

impl TwoLevels {
    fn ids(&self, spec: &CollectiveSpec<'_>, bytes: u64) -> Vec<String> {
        let groups = spec.network.as_clusters().unwrap().groups(1);
        let mut ids = Vec::new();
        for algorithm in registry::applicable(spec) {
            let has = |parameter| algorithm.parameters.contains(&parameter);
            if !has(Parameter::Levels) {
                let is_tree = ["binomial", "in_turn", "magpie"].contains(&algorithm.name());
                ids.extend((self.with_flat || is_tree).then(|| algorithm.id.clone()));
                continue;
            }
            let shapes = if has(Parameter::Lan) { self.shapes } else { &self.shapes[..1] };
            let is_worth = |segments: u32| segments == 1 || bytes / u64::from(segments) >= 1024;
            for segments in self.segments.iter().copied().filter(|segments| is_worth(*segments)) {
                for coordinators in [1, groups - 1] {
                    let has_both = has(Parameter::Coordinators) && segments > 1;
                    if segments > 1 && !has(Parameter::Segments) || coordinators > 1 && !has_both {
                        continue;
                    }
                    // Between 256 clusters a segment is 65,280 messages.
                    let is_hopeless = |levels: &str| levels == "innermost" && segments > 1 && spec.ranks > 512;
                    let levels = ["innermost", "outermost"].into_iter().filter(|levels| !is_hopeless(levels));
                    for (levels, lan) in levels.flat_map(|levels| shapes.iter().map(move |lan| (levels, lan))) {
                        let lan = if has(Parameter::Lan) { format!(",lan={lan}") } else { String::new() };
                        let pipeline = match (segments, coordinators) {
                            (1, _) => String::new(),
                            (_, 1) => format!(",segments={segments}"),
                            _ => format!(",segments={segments},coordinators={coordinators}"),
                        };
                        ids.push(format!("{}:levels={levels}{lan}{pipeline}", algorithm.id));
                    }
                }
            }
        }
        ids
    }

    /// The best of them, and its time.
    fn best(&self, spec: &CollectiveSpec<'_>, bytes: u64) -> (f64, String) {
        let times = self.ids(spec, bytes).into_iter().map(|id| (simulated(&id, spec, bytes), id));
        times.min_by(|one, other| one.0.total_cmp(&other.0)).expect("there are some")
    }
}

/// Microseconds that the links between outermost groups take at least: a latency, and the bytes that the busiest one
/// carries whatever the algorithm.
fn bound(spec: &CollectiveSpec<'_>, bytes: u64) -> f64 {
    let groups = f64::from(spec.network.as_clusters().unwrap().groups(1));
    let bytes = bytes as f64;
    let over_link = match spec.operation {
        Operation::Barrier => 0.0,
        // What the root sends to others, over all of its links.
        Operation::Bcast { .. } | Operation::Reduce { .. } => bytes / (groups - 1.0),
        Operation::Alltoall => bytes * f64::from(spec.ranks) / groups.powi(2),
        Operation::Allreduce => 2.0 * bytes / groups,
        // No scan divides its vector among the links.
        Operation::Scan | Operation::Exscan => bytes,
        _ => bytes / groups,
    };
    2000.0 + over_link / 0.5
}

/// How much faster the choice is than the best of two levels, and a line about it.
fn compare(spec: &CollectiveSpec<'_>, bytes: u64, others: &TwoLevels) -> (f64, String) {
    let Chosen { id, predicted, micros, took } = chosen(spec, bytes);
    let (best, of) = others.best(spec, bytes);
    let (ratio, bound, name) = (best / micros, bound(spec, bytes), spec.operation.name());
    let times = format!("{micros:9.0} us (predicted {predicted:9.0}, bound {bound:9.0})");
    (ratio, format!("{} {name:14} {bytes:8} {ratio:5.2} {times} {took:7.1?} {id}; {best:.0} {of}", spec.network))
}

/// On 64 and 512 ranks the choice is as fast as the best that knows two levels, and faster where the slowest links do
/// not bind both. 512 ranks have all operations and sizes with `TREEPIE_LONG`.
#[test]
fn three_levels_are_never_slower_than_two() {
    let is_long = std::env::var_os("TREEPIE_LONG").is_some();
    for (network, sizes, others) in [
        ("clusters:4x4x4", &[8, 1 << 10, 64 << 10, 1 << 20][..], &SOME),
        ("clusters:8x8x8", if is_long { &[1 << 10, 64 << 10] } else { &[64 << 10] }, &SOME),
    ] {
        let network: Network = network.parse().unwrap();
        let is_short_run = |operation: &Operation| {
            is_long || network.ranks() == 64 || matches!(operation, Operation::Bcast { .. } | Operation::Reduce { .. })
        };
        for operation in Operation::all(0).into_iter().filter(is_short_run) {
            let spec = CollectiveSpec::new(operation, &network);
            let is_all_to_all = operation == Operation::Alltoall;
            for &bytes in sizes.iter().filter(|bytes| !is_all_to_all || spec.ranks == 64 && **bytes <= 64 << 10) {
                let (ratio, what) = compare(&spec, bytes, others);
                println!("{what}");
                assert!(ratio >= 0.98, "slower than two levels: {what}");
                let is_pipelined = bytes > 8
                    && spec.ranks > 64
                    && !matches!(
                        operation,
                        Operation::Scatter { .. }
                            | Operation::Gather { .. }
                            | Operation::Barrier
                            | Operation::Scan
                            | Operation::Exscan
                    );
                assert!(!is_pipelined || ratio > 1.08, "not faster than two levels: {what}");
            }
        }
    }
}

/// Long reductions and broadcasts on 512 and 4096 ranks: the slowest links do not bind what is within groups.
#[test]
fn three_levels_are_half_as_fast_again_for_long_vectors_of_many_ranks() {
    for (network, operation, bytes, least) in [
        ("clusters:8x8x8", Operation::Reduce { root: 0 }, 1 << 20, 1.45),
        ("clusters:16x16x16", Operation::Bcast { root: 0 }, 4 << 20, 1.5),
    ] {
        let network: Network = network.parse().unwrap();
        let spec = CollectiveSpec::new(operation, &network);
        let others = TwoLevels { segments: &[64], shapes: &["binomial", "chain"], with_flat: false };
        let (ratio, what) = compare(&spec, bytes, &others);
        println!("{what}");
        assert!(ratio >= least, "{what}");
    }
}

/// All operations and sizes on n x n x n ranks, as a table; with `TREEPIE_LONG=1` also for n = 16, which takes long:
/// `cargo test -p treepie-comm --lib -- --ignored --nocapture three_levels_as_a_table`.
#[test]
#[ignore = "a measurement"]
fn three_levels_as_a_table() {
    let is_long = std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0");
    for side in if is_long { &[4, 8, 16][..] } else { &[4, 8] } {
        let network: Network = format!("clusters:{side}x{side}x{side}").parse().unwrap();
        let others = if *side < 16 { &ALL } else { &SOME };
        for operation in Operation::all(0) {
            let spec = CollectiveSpec::new(operation, &network);
            for bytes in [8, 1 << 10, 64 << 10, 1 << 20, 4 << 20] {
                let is_repeated = operation == Operation::Barrier && bytes > 8;
                if !is_repeated && (operation != Operation::Alltoall || *side < 16) {
                    println!("{}", compare(&spec, bytes, others).1);
                }
            }
        }
    }
}
