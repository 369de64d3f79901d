//! Results of the Graph 500 reference implementation on the same graphs.
//!
//! Its seeds are 2 and 3, its edge factor is 16. Levels and distances are unique; distances too, although sums are
//! rounded, since rounding is monotonic.

use treepie::Comm;
use treepie::graph::bfs::{BfsMethod, BfsOptions};
use treepie::graph::generate::Kronecker;
use treepie::graph::sssp::SsspOptions;
use treepie::graph::{AmConfig, BuildOptions, Graph};

use super::is_long_run;
use crate::check::{Outcome, check, check_eq};

struct Golden {
    scale: u32,
    root: u64,
    /// Edges with a reached endpoint.
    edges: u64,
    reached: u64,
    levels: &'static [u64],
    longest: f32,
    sum: f64,
}

const GOLDEN: [Golden; 7] = [
    Golden {
        scale: 10,
        root: 458,
        edges: 16_239,
        reached: 897,
        levels: &[1, 8, 500, 380, 8],
        longest: 1.128_576_9,
        sum: 258.188_860_334,
    },
    Golden {
        scale: 10,
        root: 214,
        edges: 16_239,
        reached: 897,
        levels: &[1, 1, 463, 427, 5],
        longest: 1.529_527_5,
        sum: 618.717_427_105,
    },
    Golden {
        scale: 12,
        root: 1834,
        edges: 65_327,
        reached: 3351,
        levels: &[1, 33, 1940, 1361, 16],
        longest: 1.193_829_5,
        sum: 799.901_183_913,
    },
    Golden {
        scale: 16,
        root: 29_348,
        edges: 1_048_079,
        reached: 46_803,
        levels: &[1, 27, 8336, 36_624, 1805, 10],
        longest: 1.777_531_1,
        sum: 11_879.654_550_813,
    },
    Golden {
        scale: 16,
        root: 8064,
        edges: 1_048_079,
        reached: 46_803,
        levels: &[1, 25, 6931, 37_625, 2209, 12],
        longest: 1.863_087_7,
        sum: 15_787.938_819_189,
    },
    Golden {
        scale: 18,
        root: 117_395,
        edges: 4_193_472,
        reached: 173_585,
        levels: &[1, 2, 13_643, 145_566, 14_315, 58],
        longest: 2.481_546_9,
        sum: 139_806.326_858_938,
    },
    Golden {
        scale: 18,
        root: 54_946,
        edges: 4_193_472,
        reached: 173_585,
        levels: &[1, 1, 2, 4455, 139_043, 29_919, 164],
        longest: 2.485_641,
        sum: 140_652.800_530_732,
    },
];

/// The first four search keys of each scale.
const ROOTS: [(u32, [u64; 4]); 4] = [
    (10, [458, 214, 220, 966]),
    (12, [1834, 858, 881, 504]),
    (16, [29_348, 8064, 61_854, 29_808]),
    (18, [117_395, 54_946, 56_428, 32_257]),
];

/// The largest scale of a run.
fn max_scale(comm: &Comm) -> u32 {
    match comm.engine() {
        "sim" => 10,
        _ if is_long_run() && comm.size() <= 5 => 18,
        "threads" if comm.size() == 5 => 18,
        _ => 12,
    }
}

pub(super) fn matches_reference(comm: &Comm) -> Outcome {
    let options = BuildOptions { drop_self_loops: true, ..BuildOptions::default() };
    for (scale, keys) in ROOTS.into_iter().filter(|(scale, _)| *scale <= max_scale(comm)) {
        let source = Kronecker::new(scale, Kronecker::EDGE_FACTOR)?;
        let graph = Graph::<f32>::build_weighted_with(comm, &source, &options)?;
        let has_arcs = |id: u64| {
            let global = graph.layout().global_id(id).expect("a vertex id");
            let local_degree = graph.local_index(global).map_or(0, |local| graph.out_edges().degree(local));
            comm.allreduce(&[local_degree], treepie::Sum).is_ok_and(|degree| degree[0] > 0)
        };
        check_eq!(source.search_keys(4, has_arcs), keys, "the first search keys at scale {scale}");
        for style in ["style=am", "style=bsp"] {
            let config = AmConfig { config: Some(style.parse()?), ..AmConfig::default() };
            for golden in GOLDEN.iter().filter(|golden| golden.scale == scale) {
                check_golden(&graph, golden, &config)?;
            }
        }
    }
    Ok(())
}

fn check_golden(graph: &Graph<f32>, golden: &Golden, config: &AmConfig) -> Outcome {
    let Golden { scale, root, edges, reached, levels, longest, sum } = golden;
    let what = format!("scale {scale} from {root}");
    for method in [BfsMethod::DirectionOptimizing, BfsMethod::SparseExchange] {
        let options = BfsOptions { method: Some(method), config: config.clone(), ..BfsOptions::default() };
        let summary = graph.bfs_with(*root, &options)?.summary()?;
        check_eq!((summary.reached, summary.num_arcs / 2), (*reached, *edges), "reached, {what}");
        check_eq!(summary.level_sizes, *levels, "levels, {what}");
    }
    let options = SsspOptions { config: config.clone(), ..SsspOptions::default() };
    let summary = graph.sssp_with(*root, &options)?.summary()?;
    check_eq!(summary.reached, *reached, "reached by delta-stepping, {what}");
    check_eq!(summary.max_distance as f32, *longest, "the largest distance, {what}");
    check!(
        (summary.sum_distances - sum).abs().lt(&1e-9),
        "the sum is {:.9}, not {sum:.9}, {what}",
        summary.sum_distances
    );
    Ok(())
}
