//! Allreduces: checks, the order of combination, and costs on meshes.

use treepie_collectives::allgather_cores::{Alternating, Bucket, buckets, distance_halving, hybrid, torus_reordered};
use treepie_collectives::exchange::{BucketFan, FanInFanOut, HalvingExchange, Linear};
use treepie_collectives::from_allgather::Allreduce;
use treepie_schedule::count::count;
use treepie_schedule::{Operation, Schedule};

use super::symbolic::symbolic_results;
use super::{network, prove, vector};

#[test]
fn allreduces_for_any_number_of_ranks() {
    for ranks in 1..=33u32 {
        for halvings in 0..=ranks.ilog2() {
            let schedule = HalvingExchange::new(ranks, halvings);
            assert!(prove(&schedule, &format!("{halvings} halvings"), true), "{ranks} ranks, {halvings} halvings");
        }
        assert!(prove(&FanInFanOut::new(ranks), "fan", true));
        assert!(prove(&Linear::new(Operation::Allreduce, ranks), "linear", true));
        for columns in (1..=ranks).filter(|columns| ranks % columns == 0) {
            prove(&BucketFan::new(columns, ranks / columns), &format!("buckets and fan in {columns} columns"), true);
        }
    }
    for dims in [&[4, 4][..], &[8, 2], &[1, 4], &[2, 4, 4], &[2, 2, 2, 2], &[1]] {
        for halvings in 0..=dims.iter().product::<u32>().ilog2() {
            let schedule = HalvingExchange::alternating(dims, halvings).unwrap();
            prove(&schedule, &format!("alternating {dims:?}, {halvings} halvings"), true);
        }
    }
    assert!(HalvingExchange::alternating(&[4, 6], 0).is_none() && Alternating::new(&[3], true).is_none());
}

fn cost(schedule: &dyn Schedule, elements: usize, text: &str) -> (u64, f64) {
    let counted = count(schedule, &vector(elements, schedule.blocks()), &network(text));
    (counted.alpha(), counted.delta() / elements as f64)
}

#[test]
fn all_ranks_combine_in_the_same_order() {
    let same = |schedule: &dyn Schedule, name: &str| {
        let results = symbolic_results(schedule, 37);
        assert!(results.iter().all(|result| *result == results[0]), "{name}, {} ranks", schedule.ranks());
    };
    for ranks in 1..=20u32 {
        (0..=ranks.ilog2()).for_each(|halvings| same(&HalvingExchange::new(ranks, halvings), "halving and exchange"));
        same(&FanInFanOut::new(ranks), "fan");
        same(&Linear::new(Operation::Allreduce, ranks), "linear");
        same(&Allreduce::new(distance_halving(ranks, true)), "rabenseifner");
        same(&BucketFan::new(ranks, 3), "buckets and fan");
    }
    for dims in [&[4, 4][..], &[8, 2], &[8, 8], &[4, 4, 4], &[2, 8, 4]] {
        for halvings in 0..=dims.iter().product::<u32>().ilog2() {
            let schedule = HalvingExchange::alternating(dims, halvings).unwrap();
            same(&schedule, &format!("alternating {dims:?}, {halvings} halvings"));
        }
        same(&Allreduce::new(Alternating::new(dims, true).unwrap()), "alternating core");
    }
    same(&Allreduce::new(hybrid(&network("torus:4x3x3"), true).unwrap()), "hybrid");
}

/// [E28]
#[test]
fn ring_allreduce_on_a_clos_network() {
    assert_eq!(cost(&Allreduce::new(Bucket::ring(64)), 64, "clos:r16,t8,n64"), (2 * 63, 2.0 * 63.0 / 64.0));
}

/// [E29]
#[test]
fn fans_on_a_mesh() {
    assert_eq!(cost(&FanInFanOut::new(256), 5, "mesh:16x16"), (2 * 8, 2.0 * 8.0));
}

/// [E30]
#[test]
fn bidirectional_exchange_on_a_mesh() {
    assert_eq!(cost(&HalvingExchange::recursive_doubling(256), 5, "mesh:16x16"), (8, 30.0));
    for side in [2u32, 4, 8, 16] {
        let schedule = HalvingExchange::alternating(&[side, side], 0).unwrap();
        assert_eq!(cost(&schedule, 5, &format!("mesh:{side}x{side}")), (2 * u64::from(side.ilog2()), side.into()));
    }
}

/// [E31]
#[test]
fn recursive_halving_on_a_mesh() {
    let plain = torus_reordered(&network("mesh:16x16"), true).unwrap();
    assert_eq!(cost(&Allreduce::new(plain), 256, "mesh:16x16").1, 2.8125);
    for side in [2u32, 4, 8, 16] {
        let text = format!("mesh:{side}x{side}");
        let expected = (4 * u64::from(side.ilog2()), 9.0 / 4.0 - 3.0 / (2.0 * f64::from(side)));
        for shuffled in [false, true] {
            let core = Alternating::new(&[side, side], shuffled).unwrap();
            assert_eq!(cost(&Allreduce::new(core), 256, &text), expected);
        }
        assert_eq!(cost(&HalvingExchange::alternating(&[side, side], 8).unwrap(), 256, &text), expected);
    }
    let core = Alternating::new(&[16, 16], true).unwrap();
    assert_eq!(cost(&Allreduce::new(core), 256, "mesh:16x16"), (16, 2.15625));
}

/// [E32]
#[test]
fn buckets_on_a_mesh() {
    let core = buckets(&[16, 16], 1, true);
    assert_eq!(cost(&Allreduce::new(core), 256, "mesh:16x16"), (4 * 15, 2.0 * 255.0 / 256.0));
}

/// Between exchange and halving, and between buckets and fans.
#[test]
fn hybrids_on_a_mesh() {
    let costs: Vec<(u64, f64)> = (0..=8)
        .map(|halvings| cost(&HalvingExchange::alternating(&[16, 16], halvings).unwrap(), 256, "mesh:16x16"))
        .collect();
    assert!(costs.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0 && pair[0].1 >= pair[1].1), "{costs:?}");
    let elements = 16.0;
    assert_eq!(cost(&BucketFan::new(16, 16), 16, "mesh:16x16"), (2 * 15 + 8, (30.0 + 8.0) / elements));
}
