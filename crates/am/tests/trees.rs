//! Trees of messages, simulated, in many configurations.

use treepie_am::*;
use treepie_comm::Comm;
use treepie_sim::costs::{LogGP, Settings};
use treepie_sim::engine;
use treepie_topology::Network;

fn run(ranks: u32, config: &str, detector: Detector) {
    let settings: Settings = LogGP { latency: 4.0, overhead: 1.0, gap: 2.0, per_byte: 0.001 }.into();
    let simulated = engine::run(&Network::flat(ranks), &settings, &engine::Options::default(), |fabric| {
        let comm = Comm::world(fabric);
        let n = comm.size();
        let mut build = ActiveMessages::<u64>::builder(&comm);
        let hop = build.port::<[u32; 2]>("hop");
        build.on(hop, move |s, cx, [from, left]| {
            *s += 1;
            cx.add(1);
            if left > 0 {
                let to = (cx.rank() * 7 + from as usize * 3 + left as usize) % n;
                cx.send(hop, to, [cx.rank() as u32, left - 1]);
                cx.send(hop, (to + 1) % n, [cx.rank() as u32, left - 1]);
            }
        });
        build.configure_all(config.parse().unwrap());
        build.detector(detector);
        let mut am = build.start().unwrap();
        for round in 0..3 {
            let mut got = 0;
            let sum = am.epoch_for(&mut got, 0..5_usize, |cx, _, i| cx.send(hop, (i * 3 + round) % n, [1, 6])).unwrap();
            assert_eq!(sum, 5 * n as u64 * 127);
        }
        comm.size()
    });
    simulated.unwrap_or_else(|e| panic!("{ranks} {config} {detector:?}: {e}"));
}

#[test]
fn trees() {
    for ranks in [1, 2, 3, 5, 8, 13] {
        for routing in ["direct", "rook", "hypercube"] {
            for style in ["am", "bsp"] {
                for size in ["adaptive", "3"] {
                    for detector in [Detector::Counting, Detector::NbxLike] {
                        run(ranks, &format!("routing={routing},style={style},coalescing={size}"), detector);
                    }
                }
            }
        }
    }
}
