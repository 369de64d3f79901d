use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie_base::{Sum, commutative};
use treepie_sim::costs::LogGP;
use treepie_sim::engine::{Options, run};
use treepie_topology::Network;

use super::*;

/// Numbers are used again after 4096 of them. What was given up under one is forgotten half-way, also if the number there
/// is one that nobody uses.
#[test]
fn what_was_given_up_is_forgotten_under_numbers_that_are_not_used() {
    let settings = LogGP { latency: 4.0, overhead: 1.0, gap: 1.0, per_byte: 0.001 }.into();
    let simulated = run(&Network::flat(2), &settings, &Options::default(), |fabric| {
        let world = Comm::world(fabric).checked();
        let panics = world.rank() == 0;
        let operator = commutative(move |a: u64, b: u64| {
            if panics {
                resume_unwind(Box::new("the operator panics"));
            }
            a + b
        });
        let panicked = catch_unwind(AssertUnwindSafe(|| world.all_reduce(&[1u64], operator))).is_err();
        assert_eq!(panicked, panics);
        for _ in 1..2048 {
            let result = if panics { world.dup().map(drop) } else { world.create(&[0]).map(drop) };
            assert!(matches!(result, Err(Error::CallsDiffer { .. })), "{result:?}");
        }
        assert_eq!(world.inner.instances.get(), 4096);
        world.all_reduce(&[1u64], Sum)
    });
    assert_eq!(simulated.expect("it can be simulated").into_results(), [Ok(vec![2]), Ok(vec![2])]);
}
