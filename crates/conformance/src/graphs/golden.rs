//! What the reference implementation of Graph 500 finds, on the same graphs.
//!
//! Its seeds are 2 and 3, with 16 edges a vertex. Levels and lengths are unique: also lengths, though sums are rounded, as rounding
//! keeps the order.

use treepie::Comm;
use treepie::graph::bfs::{self, direction, exchange};
use treepie::graph::generate::Kronecker;
use treepie::graph::{Graph, Messages, Shape, Weighted, sssp};

use super::is_long;
use crate::check::{Outcome, check, check_eq};

struct Golden {
    scale: u32,
    root: u64,
    /// Edges with an end that is reached.
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

/// Roots that are drawn first.
const KEYS: [(u32, [u64; 4]); 4] = [
    (10, [458, 214, 220, 966]),
    (12, [1834, 858, 881, 504]),
    (16, [29_348, 8064, 61_854, 29_808]),
    (18, [117_395, 54_946, 56_428, 32_257]),
];

/// The largest graph of a run.
fn most(comm: &Comm) -> u32 {
    match comm.engine() {
        "sim" => 10,
        _ if is_long() && comm.size() <= 5 => 18,
        "threads" if [1, 2, 3, 5].contains(&comm.size()) => 18,
        _ => 12,
    }
}

pub(super) fn found(comm: &Comm) -> Outcome {
    let shape = Shape { drop_self_loops: true, ..Shape::default() };
    for (scale, keys) in KEYS.into_iter().filter(|(scale, _)| *scale <= most(comm)) {
        let source = Kronecker::new(scale, Kronecker::EDGE_FACTOR)?;
        let graph = Graph::<Weighted>::build(comm, &source, &shape)?;
        let has_arcs = |name: u64| {
            let number = graph.layout().number(name).expect("it is a vertex");
            let own = graph.mine(number).map_or(0, |place| graph.out().degree(place));
            comm.all_reduce(&[own], treepie::Sum).is_ok_and(|degree| degree[0] > 0)
        };
        check_eq!(source.search_keys(4, has_arcs), keys, "the first roots at scale {scale}");
        for style in ["style=am", "style=bsp"] {
            let messages = Messages { config: Some(style.parse()?), ..Messages::default() };
            for golden in GOLDEN.iter().filter(|golden| golden.scale == scale) {
                check_golden(comm, &graph, golden, &messages)?;
            }
        }
    }
    Ok(())
}

fn check_golden(comm: &Comm, graph: &Graph<Weighted>, golden: &Golden, messages: &Messages) -> Outcome {
    let Golden { scale, root, edges, reached, levels, longest, sum } = golden;
    let what = format!("scale {scale} from {root}");
    let mut search = direction::Search::<Weighted, u32>::new(comm, graph, messages)?;
    let mut exchanging = exchange::Search::<Weighted, u32>::new(comm, graph);
    for labels in [search.run(*root)?, exchanging.run(*root)?] {
        let found = bfs::count(comm, graph, labels)?;
        check_eq!((found.reached, found.arcs / 2), (*reached, *edges), "reached, {what}");
        check_eq!(found.level_sizes, *levels, "levels, {what}");
    }
    let mut search = sssp::Search::<f32>::new(comm, graph, None, messages)?;
    search.run(*root)?;
    let found = sssp::count(comm, graph, &search.lengths())?;
    check_eq!(found.reached, *reached, "reached by weights, {what}");
    check_eq!(found.max as f32, *longest, "the longest, {what}");
    check!((found.sum - sum).abs().lt(&1e-9), "the sum is {:.9}, not {sum:.9}, {what}", found.sum);
    Ok(())
}
