//! Long messages over links between clusters: they are asked for, and questions and answers wait in gateways.

use crate::common::{layouts, near, network, operation, schedule};
use treepie_model::plogp::PiecewiseLinear;
use treepie_model::predict::MessageCosts;
use treepie_model::profile::{LevelProfile, SynchronousSend};
use treepie_model::{PLogP, Profile, walk};

const LATENCY: f64 = 10_000.0;
const EAGER_LIMIT: f64 = 4096.0;

/// Links of 10 ms and 1 byte/us behind ports of 50 bytes/us, and gateways with windows of this size.
fn profile(window: Option<f64>) -> Profile {
    let curve = |points: &[(f64, f64)]| PiecewiseLinear::new("a cost", points).unwrap();
    let none = curve(&[(0.0, 0.0)]);
    let link = |latency, gap| PLogP::new(latency, none.clone(), none.clone(), gap).unwrap();
    let asked = EAGER_LIMIT + 2.0 * LATENCY;
    let carried =
        [(0.0, 0.0), (EAGER_LIMIT, EAGER_LIMIT), (EAGER_LIMIT, asked), (2.0 * EAGER_LIMIT, asked + EAGER_LIMIT)];
    let mut profile = Profile::of_link("emulated", "lan", link(0.0, curve(&[(0.0, 0.0), (50.0, 1.0)])));
    profile.levels.push(LevelProfile { window, ..LevelProfile::new("wan", link(LATENCY, curve(&carried))) });
    profile.synchronous = SynchronousSend { latency: 2.0 * LATENCY, vanishes_at: EAGER_LIMIT };
    profile
}

fn time(id: &str, clusters: &str, n: usize, window: Option<f64>) -> f64 {
    let network = network(clusters);
    let schedule = schedule(id, operation(id, 0), &network).unwrap();
    let profile = profile(window);
    let costs = MessageCosts::on_network(&profile, &network);
    walk::time(&*schedule, &layouts(&*schedule, n), 1.0, &costs, usize::MAX).unwrap()
}

/// A question, its answer and the message take a latency each, and messages to seven ranks share the ports.
#[test]
fn long_messages_to_several_ranks_are_carried_side_by_side() {
    let n = 1 << 20;
    for window in [None, Some(65536.0)] {
        near("seven links", time("allgather/linear", "clusters:8x1", n, window), 3.0 * LATENCY + n as f64, 1e-6);
    }
    // Of 79 links, the ports are slower than each.
    near("79 links", time("allgather/linear", "clusters:80x1", n, None), 3.0 * LATENCY + 79.0 / 50.0 * n as f64, 1e-6);
}

/// Each of many short segments is asked for behind the segments before it, in both directions.
#[test]
fn questions_and_answers_wait_for_what_gateways_have_accepted() {
    let n = 1 << 20;
    let with_segments = |segments: u32, window| {
        let id = format!("allgather/hierarchical:segments={segments}");
        time(&id, "clusters:2x1", n, window) - n as f64
    };
    near("not known", with_segments(64, None), 3.0 * LATENCY, 1e-3);
    near("whole", with_segments(1, Some(65536.0)), 3.0 * LATENCY, 1e-3);
    // Eight segments of 16 KiB in flight take 131 ms. A question and an answer may wait for 65 ms each.
    let (short, long) = (with_segments(64, Some(65536.0)), with_segments(16, Some(65536.0)));
    assert!(short > 5.0 * LATENCY && long < 3.5 * LATENCY, "{short}, {long}");
    assert!(with_segments(64, Some(16384.0)) < 0.9 * short);
}
