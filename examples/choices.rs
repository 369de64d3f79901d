//! Which algorithms collective operations use, by which costs, and how to set others.
//!
//! ```text
//! cargo run --release --example choices                            a rank alone
//! treepie run -n 4 target/release/examples/choices                 four processes
//! treepie run --sim clusters:4x4 target/release/examples/choices   a simulated wide area
//! ```

use std::rc::Rc;

use treepie::prelude::*;
use treepie::{AlgorithmRules, Operation};

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let element = size_of::<f64>();
        // In the first long call, ranks on one machine find out whether they can read each other's memory.
        world.allreduce(&vec![1.0; 1 << 14], Sum)?;
        for operation in [Operation::Allreduce, Operation::Allgather, Operation::Bcast { root: 0 }] {
            for bytes in [8, 8 << 10, 1 << 20] {
                let id = world.chosen_algorithm(operation, bytes, element)?;
                // The candidates, the fastest first, with the predicted time that decided.
                let candidates = world.candidates(operation, bytes as u64, element as u64)?;
                let micros = candidates.first().map_or(0.0, |best| best.prediction.total());
                if world.rank() == 0 {
                    println!("{bytes:>8} bytes: {id}, {micros:.1} us, of {} candidates", candidates.len());
                }
            }
        }
        // Rules for some sizes; the model chooses for the others.
        let rules = AlgorithmRules::parse("[[rule]]\nalgorithm = 'allreduce/ring'\nbytes = [1000000, 2000000]")?;
        let by_rules = world.with_selector(Rc::new(rules));
        assert_eq!(by_rules.chosen_algorithm(Operation::Allreduce, 1 << 20, element)?, "allreduce/ring");
        let sum = by_rules.allreduce(&vec![1.0; 1 << 17], Sum)?;
        assert_eq!(sum[0], world.size() as f64);
        Ok(())
    })
}
