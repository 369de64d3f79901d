//! Hockney's message model, measured between two ranks: a ping-pong of short messages, and one of long messages.

use std::time::Instant;

use treepie::Comm;

use super::super::statistics::median;
use super::cost::HockneyModel;
use crate::on_threads;

const SHORT_BYTES: usize = 8;
const TAG: u32 = 1;

/// Measures it on two threads. Buffers are reused, so that page faults are not part of it; long ones exceed the caches,
/// as tables do.
pub(super) fn measure(quick: bool) -> anyhow::Result<HockneyModel> {
    let (batches, long) = if quick { (100, 1 << 20) } else { (1000, 64 << 20) };
    let times = on_threads(2, |comm| {
        Ok([ping_pong(comm, SHORT_BYTES, 20, batches)?, ping_pong(comm, long, 1, batches / 100 + 2)?])
    })?;
    let [short, long_time] = times[0];
    Ok(HockneyModel { latency: short, per_byte: ((long_time - short) / (long - SHORT_BYTES) as f64).max(0.0) })
}

/// Seconds of a half round trip, median of batches.
fn ping_pong(comm: &Comm, bytes: usize, rounds: u32, batches: usize) -> anyhow::Result<f64> {
    let (mut send, mut recv) = (vec![1u8; bytes], vec![0u8; bytes]);
    let mut times = Vec::new();
    // The first batch is a warm-up.
    for _ in 0..=batches {
        comm.barrier()?;
        let start = Instant::now();
        for _ in 0..rounds {
            if comm.rank() == 0 {
                comm.send(&send, 1, TAG)?;
                comm.recv(&mut recv, 1, TAG)?;
            } else {
                comm.recv(&mut recv, 0, TAG)?;
                comm.send(&send, 0, TAG)?;
            }
        }
        times.push(start.elapsed().as_secs_f64() / f64::from(rounds) / 2.0);
        std::mem::swap(&mut send, &mut recv);
    }
    Ok(median(&times[1..]))
}
