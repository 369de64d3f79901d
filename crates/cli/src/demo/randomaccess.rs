//! The demo's random updates: by every algorithm that suits the number of ranks, verified.

use anyhow::ensure;
use treepie::Comm;
use treepie::randomaccess::{ALGORITHMS, Algorithm, Order, RandomAccess};

/// Words of the table of all ranks.
const WORDS: u64 = 1 << 18;

/// Returns the number of algorithms, and the highest rate, in giga-updates per second, with its algorithm.
pub(super) fn run(world: &Comm) -> anyhow::Result<(usize, f64, Algorithm)> {
    let mut rates = Vec::new();
    for (id, _) in ALGORITHMS {
        let algorithm: Algorithm = id.parse()?;
        // Threads are no nodes of a torus.
        let is_morton = algorithm == Algorithm::Hypercube(Order::Morton);
        let settings = RandomAccess::new(WORDS).algorithm(algorithm);
        if is_morton || settings.check(world.size() as u32).is_err() {
            continue;
        }
        let result = settings.run(world)?;
        ensure!(result.errors == Some(0), "{id}: {:?} wrong words", result.errors);
        rates.push((result.gups(), result.algorithm));
    }
    let number = rates.len();
    let (rate, algorithm) = rates.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are algorithms");
    Ok((number, rate, algorithm))
}
