//! Cores that use several links of a node at once.

use treepie_collectives::allgather_cores::{bucket_k, buckets, hamiltonian_lanes, hybrid};
use treepie_collectives::from_allgather::Allgather;
use treepie_schedule::count::count;
use treepie_schedule::{AllgatherCore, RoundList, ScheduleOp};

use super::{core_cost, network, uniform};

#[test]
fn doublings_run_on_all_edge_disjoint_paths() {
    for (text, paths) in [("torus:4x4x4", 6), ("torus:5x5", 4), ("torus:7", 2), ("flat:9", 1)] {
        let network = network(text);
        assert_eq!(hamiltonian_lanes(&network, false).segments(), network.disjoint_rank_paths().len() as u32, "{text}");
        assert!(
            (1..=paths).contains(&network.disjoint_rank_paths().len()),
            "{text}: {} paths",
            network.disjoint_rank_paths().len()
        );
    }
}

#[test]
fn bucket_k_has_the_right_number_of_buckets() {
    let buckets_on = |text: &str| bucket_k(&network(text), false).unwrap().segments();
    assert_eq!(buckets_on("torus:8x8x8"), 6);
    assert_eq!(buckets_on("torus:8x16x32"), 6);
    assert_eq!(buckets_on("mesh:8x8x8"), 3);
    assert_eq!(buckets_on("mesh:4x8x16"), 3);
    assert_eq!(buckets_on("torus:8x8x8,wrap=ynn"), 4);
    assert_eq!(buckets_on("torus:8x8x8,wrap=yyn"), 5);
    assert_eq!(buckets_on("torus:8x1x8"), 4);
    assert_eq!(buckets_on("mesh:16"), 1);
    assert_eq!(buckets_on("torus:1x1"), 1);
}

/// On a mesh six buckets load each link twice, three once; the chosen number always has the least cost.   [E38]
#[test]
fn bucket_k_costs_least() {
    for text in ["mesh:4x4x4", "torus:4x4x4", "torus:4x4x4,wrap=ynn", "torus:4x4x4,wrap=yyn", "torus:3x6,wrap=ny"] {
        let network = network(text);
        let dims = network.as_torus().unwrap().dims().to_vec();
        let cost = |core| core_cost(&count(&Allgather::new(core), &uniform(120, network.ranks()), &network));
        let (messages, best) = cost(bucket_k(&network, false).unwrap());
        for number in 1..=6 {
            let (others, time) = cost(buckets(&dims, number, false));
            assert!(best < time || best == time && messages <= others, "{text}: {best} but {number} take {time}");
        }
    }
    let mesh = network("mesh:4x4x4");
    let time = |number| {
        let counted = count(&Allgather::new(buckets(&[4, 4, 4], number, false)), &uniform(6, 64), &mesh);
        counted.phases[1..].iter().map(|phase| phase.rounds[0].congestion()).collect::<Vec<_>>()
    };
    assert_eq!((time(3), time(6)), (vec![1.0; 3], vec![2.0; 3]));
}

/// Section 1203 of the thesis's 8x8x8 torus is in bucket 2 and begins at rank 410.   [E34]
#[test]
fn sections_begin_where_the_thesis_says() {
    let six = bucket_k(&network("torus:8x8x8"), true).unwrap();
    assert_eq!(six.owner(1203 / 6, 1203 % 6), 410);
}

/// [E40, F5]
#[test]
fn the_hybrid_sends_as_many_messages_as_the_thesis_says() {
    let sends = |core: &dyn AllgatherCore, rank| {
        let mut rounds = RoundList::new();
        for phase in 0..core.phases() {
            for lane in 0..core.phase(phase).lanes {
                core.emit(rank, phase, lane, 0..core.rounds(rank, phase, lane), &mut rounds);
            }
        }
        rounds.iter().flatten().filter(|op| matches!(op, ScheduleOp::Send { .. })).count()
    };
    for (text, six, three_and_six) in [("torus:8x8x8", 126, 60), ("torus:32x32x32", 558, 216)] {
        let network = network(text);
        for rank in [0, 1, 77, 500] {
            assert_eq!(sends(&bucket_k(&network, false).unwrap(), rank), six);
            assert_eq!(sends(&hybrid(&network, false).unwrap(), rank), three_and_six);
        }
    }
    // The last phase is that of six buckets; in the phase before, no two doublings use the same links.
    let network = network("torus:8x8x8");
    let counted = count(&Allgather::new(hybrid(&network, false).unwrap()), &uniform(6, 512), &network);
    assert_eq!(core_cost(&counted).0, 60);
    let congestion: Vec<f64> = counted.phases[1].rounds.iter().map(|round| round.congestion()).collect();
    assert_eq!(congestion, [2.0, 2.0, 2.0, 2.0, 1.0, 1.0]);
    assert_eq!(counted.phases[2].time, 7.0 * 64.0);
}

/// The rings take (P - p^2)/6, as the last phase of six buckets does. The doublings over planes of p^2 take p^2/2 -
/// 3p/4: at a distance of p/2 a link carries p/4 messages, at d below that it carries d.
#[test]
fn the_hybrid_costs_what_its_file_says() {
    // Relative to six buckets, which take (P - 1)/6.
    for (side, times) in [(4u32, 1.24), (8, 1.18), (16, 1.11)] {
        let network = network(&format!("torus:{side}x{side}x{side}"));
        let (p, ranks) = (f64::from(side), f64::from(side.pow(3)));
        let (doublings, rings) = (p * p / 2.0 - 3.0 * p / 4.0, (ranks - p * p) / 6.0);
        let total = ranks / 6.0 + p * p / 3.0 - 3.0 * p / 4.0;
        assert!((total / ((ranks - 1.0) / 6.0) - times).abs() < 0.005, "side {side}");
        let messages = 6 * u64::from(side.ilog2()) + 6 * u64::from(side - 1);
        for shuffled in [false, true] {
            // Blocks of n = 12, so that the segments of six rings and three doublings are whole numbers of elements.
            let schedule = Allgather::new(hybrid(&network, shuffled).unwrap());
            let counted = count(&schedule, &uniform(12, side.pow(3)), &network);
            let phases = (counted.phases[1].time, counted.phases[2].time);
            assert_eq!(phases, (12.0 * doublings, 12.0 * rings), "side {side}, shuffled {shuffled}");
            assert_eq!(core_cost(&counted), (messages, 12.0 * total), "side {side}, shuffled {shuffled}");
        }
    }
}
