//! Costs of a rank: combining, copying, being scheduled; the engine's barrier; synchronous sends.

use std::hint::black_box;
use std::time::Instant;

use treepie_comm::{Comm, Max, Rank, Reduction, Result as CommResult, Sum};
use treepie_model::Profile;
use treepie_model::plogp::PLogP;
use treepie_model::profile::SynchronousSend;

use crate::Result;
use crate::pair::on_pair;

/// Bytes that are combined and copied: they fit into the cache of a core, as the operands of most reductions do.
const LOCAL_BYTES: usize = 64 << 10;

/// Batches of which the median counts.
const BATCHES: usize = 5;

/// A batch takes about as long at most.
const MAX_BATCH_SECONDS: f64 = 3e-3;

/// Whether times are virtual, and every run is the same.
pub(crate) fn is_simulated(comm: &Comm) -> bool {
    comm.engine() == "sim"
}

/// Microseconds of an operation of all ranks: the slowest rank's average, and the median of several batches.
/// Collective.
pub(crate) fn time_collective(
    comm: &Comm,
    count: usize,
    mut operation: impl FnMut() -> CommResult<()>,
) -> CommResult<f64> {
    // The first call is planned.
    operation()?;
    comm.barrier()?;
    let start = comm.now();
    operation()?;
    let once = comm.allreduce_one((comm.now() - start).as_secs_f64(), Max)?;
    let affordable = (MAX_BATCH_SECONDS / once.max(1e-9)) as usize;
    let (batches, count) = if is_simulated(comm) { (1, count.min(4)) } else { (BATCHES, count.min(affordable).max(1)) };
    let mut times = Vec::new();
    for _ in 0..batches {
        comm.barrier()?;
        let start = comm.now();
        for _ in 0..count {
            operation()?;
        }
        let time = (comm.now() - start).as_secs_f64() * 1e6 / count as f64;
        times.push(comm.allreduce_one(time, Max)?);
    }
    Ok(median(&mut times))
}

pub(crate) fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Costs of combining and of copying a byte, on this rank.
pub(crate) fn per_byte() -> (f64, f64) {
    let operand = vec![1.0f64; LOCAL_BYTES / size_of::<f64>()];
    let mut into = operand.clone();
    let reduce = time_local(|| Sum.reduce_local(black_box(&mut into), black_box(&operand), false));
    let copy = time_local(|| black_box(&mut into).copy_from_slice(black_box(&operand)));
    (reduce / LOCAL_BYTES as f64, copy / LOCAL_BYTES as f64)
}

/// Microseconds of something that needs no other rank.
fn time_local(mut work: impl FnMut()) -> f64 {
    const COUNT: u32 = 20;
    let mut times: Vec<f64> = (0..=BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..COUNT).for_each(|_| work());
            start.elapsed().as_secs_f64() * 1e6 / f64::from(COUNT)
        })
        .collect();
    // The first batch is a warm-up.
    median(&mut times[1..])
}

/// The cost of combining a byte in virtual time: a reduction of two ranks takes longer than the message in it.
/// Collective; rank 0 has the result.
pub(crate) fn simulated_reduce_per_byte(comm: &Comm) -> Result<f64> {
    const BYTES: usize = 8 << 10;
    const TAG: u32 = 1;
    let Some(pair) = comm.split((comm.rank() < 2).then_some(0u32), 0)? else { return Ok(0.0) };
    let pair = pair.with_algorithm("reduce/binomial")?;
    let data = vec![1.0f64; BYTES / size_of::<f64>()];
    let mut into = data.clone();
    let mut times = [0.0; 2];
    for (is_reduction, time) in times.iter_mut().enumerate() {
        if pair.rank() == 0 {
            pair.send::<u8>(&[], 1, TAG)?;
        } else {
            pair.recv(&mut [0u8; 0], 0, TAG)?;
        }
        let start = pair.now();
        if is_reduction == 1 {
            let at_root = if pair.rank() == 0 { into.as_mut_slice() } else { &mut [] };
            pair.reduce(&data, at_root, Sum, 0)?;
        } else if pair.rank() == 0 {
            pair.recv(&mut into, 1, TAG)?;
        } else {
            pair.send(&data, 0, TAG)?;
        }
        *time = (pair.now() - start).as_secs_f64() * 1e6;
    }
    Ok(((times[1] - times[0]) / BYTES as f64).max(0.0))
}

/// The engine's barrier, if it has one. Collective.
pub(crate) fn barrier(comm: &Comm, scheduling: f64) -> Result<Option<f64>> {
    if !comm.capabilities().barrier {
        return Ok(None);
    }
    let time = time_collective(comm, 100, || comm.barrier())?;
    Ok(Some(without_waiting(comm, time, scheduling)))
}

/// The time of a step without that until ranks were scheduled. Waiting varies, but nothing is free.
pub(crate) fn without_waiting(comm: &Comm, time: f64, scheduling: f64) -> f64 {
    (time - scheduling * oversubscription(comm)).max(MIN_WITHOUT_WAITING * time)
}

/// The least part of a step that is not waiting.
pub(crate) const MIN_WITHOUT_WAITING: f64 = 0.1;

/// Ranks on each core, if there are more ranks than cores, else 0.
pub(crate) fn oversubscription(comm: &Comm) -> f64 {
    comm.ranks_per_core().filter(|ranks| *ranks > 1.0).unwrap_or(0.0)
}

/// How much longer a step takes if all ranks take part and share cores, for each rank on a core: those of a
/// dissemination barrier, less the latency of a link whose ranks have a core each. Not measurable if there are enough
/// cores: then it is that of the engine's default. Collective.
pub(crate) fn scheduling(comm: &Comm, link: &PLogP) -> Result<f64> {
    let ranks_per_core = oversubscription(comm);
    if comm.ranks_per_core().is_none() {
        return Ok(0.0);
    }
    if ranks_per_core == 0.0 {
        return Ok(Profile::default_for(comm.engine()).scheduling);
    }
    let by_messages = comm.with_algorithm("barrier/dissemination")?;
    let steps = f64::from(comm.size().next_power_of_two().trailing_zeros());
    let step = time_collective(comm, 40, || by_messages.barrier())? / steps;
    Ok(((step - link.latency - link.gap.at(0.0)) / ranks_per_core).max(0.0))
}

/// Synchronous sends between two ranks, with the overheads of their link. Collective; all ranks get the same.
///
/// The latency is that of LogGP: without the overheads of both ranks. Above the eager limit a standard send waits for
/// the receiver, too, so only sizes around it are compared.
pub(crate) fn synchronous_send(comm: &Comm, pair: (Rank, Rank), link: &PLogP) -> Result<SynchronousSend> {
    let limit = comm.eager_limit() as u64;
    let overheads = link.send_overhead.at(0.0) + link.recv_overhead.at(0.0);
    let trips = if is_simulated(comm) { 1 } else { 9 };
    let (latency, vanishes_at) = on_pair(comm, pair, |probe| {
        let mut time = |bytes, synchronous| -> Result<f64> {
            let mut times = (0..trips).map(|_| probe.blocking_send(bytes, synchronous)).collect::<Result<Vec<_>>>()?;
            Ok(median(&mut times))
        };
        let latency = (time(0, true)? - overheads).max(0.0);
        let mut vanishes_at = 0;
        for bytes in [limit / 4, limit / 2, limit, limit + 1, 2 * limit] {
            // Half of what a short one costs more: noise is less.
            if time(bytes, true)? - time(bytes, false)? > latency / 2.0 {
                vanishes_at = bytes;
            }
        }
        Ok((latency, vanishes_at))
    })?;
    Ok(SynchronousSend { latency, vanishes_at: vanishes_at as f64 })
}
