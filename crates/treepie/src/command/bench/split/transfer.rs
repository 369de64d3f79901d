//! The model of messages, measured between two ranks: a ping-pong of short messages, and one of long ones.

use std::time::Instant;

use treepie::Comm;

use super::super::statistics::median;
use super::cost::Transfer;

const SHORT: usize = 8;
const TAG: u32 = 1;

/// Measures it on two threads. Buffers are used again, so that fresh memory is not part of it, and long ones are longer than
/// caches, as tables are.
pub(super) fn measure(quick: bool) -> anyhow::Result<Transfer> {
    let (batches, long) = if quick { (100, 1 << 20) } else { (1000, 64 << 20) };
    let times = treepie::launch(2, |comm| -> anyhow::Result<[f64; 2]> {
        Ok([ping_pong(&comm, SHORT, 20, batches)?, ping_pong(&comm, long, 1, batches / 100 + 2)?])
    })?;
    let [short, many] = times.into_iter().next().expect("there are two ranks")?;
    Ok(Transfer { latency: short, per_byte: ((many - short) / (long - SHORT) as f64).max(0.0) })
}

/// Seconds of one way, the median of batches.
fn ping_pong(comm: &Comm, bytes: usize, rounds: u32, batches: usize) -> anyhow::Result<f64> {
    let (mut there, mut back) = (vec![1u8; bytes], vec![0u8; bytes]);
    let mut times = Vec::new();
    // The first one warms up.
    for _ in 0..=batches {
        comm.barrier()?;
        let begun = Instant::now();
        for _ in 0..rounds {
            if comm.rank() == 0 {
                comm.send(&there, 1, TAG)?;
                comm.recv(&mut back, 1, TAG)?;
            } else {
                comm.recv(&mut back, 0, TAG)?;
                comm.send(&there, 0, TAG)?;
            }
        }
        times.push(begun.elapsed().as_secs_f64() / f64::from(rounds) / 2.0);
        std::mem::swap(&mut there, &mut back);
    }
    Ok(median(&times[1..]))
}
