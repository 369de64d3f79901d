//! Hockney's message model, measured between two ranks: a ping-pong of short messages, and one of long messages.

use super::cost::HockneyModel;
use crate::Case;
use crate::harness::launch::on_threads;
use crate::harness::rank::measure as measure_cases;
use crate::harness::statistics::median;
use crate::p2p::{Transfers, ping_pong};

const SHORT_BYTES: usize = 8;

/// Measures it on two threads. Buffers are reused, so that page faults are not part of it; long ones exceed the caches,
/// as tables do.
pub(super) fn measure(quick: bool) -> anyhow::Result<HockneyModel> {
    let (batches, long) = if quick { (100, 1 << 20) } else { (1000, 64 << 20) };
    let short_case = Case { batches, ..ping_pong(SHORT_BYTES, 20) };
    let long_case = Case { batches: batches / 100 + 2, ..ping_pong(long, 1) };
    let measured = on_threads(2, |world| measure_cases::<Transfers>(world, &[short_case, long_case]))?;
    let [short, long_time] = [0, 1].map(|case| median(&measured[0].times[case]) * 1e-6);
    Ok(HockneyModel { latency: short, per_byte: ((long_time - short) / (long - SHORT_BYTES) as f64).max(0.0) })
}
