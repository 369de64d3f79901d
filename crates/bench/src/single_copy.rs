//! Tests whether single copy (CMA) works on this machine. Two ranks try it with the shm engine, because the kernel's
//! permission checks cannot be predicted reliably.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use treepie_base::{Bytes, Span};
use treepie_fabric::{Fabric, FabricEvent, RecordHeader};

use super::job::{HANG_TIMEOUT, Job};

/// Long, so that a busy machine does not look like one without single copy.
const ANSWER_TIMEOUT: Duration = HANG_TIMEOUT;

/// Small enough that one rank copies all of it.
const BYTES: usize = 4096;

const YES: &str = "single copy works";
const NO: &str = "single copy does not work";

/// Whether large messages between ranks are copied once.
pub fn is_permitted() -> anyhow::Result<bool> {
    let stdout = Job::ranks(2, ["single-copy-rank"])?.output(ANSWER_TIMEOUT)?;
    match stdout.trim() {
        YES => Ok(true),
        NO => Ok(false),
        other => bail!("the single-copy test printed {other:?}"),
    }
}

/// One of the two ranks: rank 1 registers memory, rank 0 tries to copy it.
pub fn rank() -> anyhow::Result<ExitCode> {
    let mut engine = treepie_shm::join_launched()?.context("this must be started by treepie run")?;
    ensure!(engine.size() == 2, "this needs two ranks");
    if engine.rank() == 1 {
        let mut bytes = Bytes::zeroed(BYTES, 1);
        bytes.as_mut_slice().fill(7);
        let mut registered = Span::from(bytes);
        let key = engine.register_bulk(0, &mut registered).to_le_bytes();
        ensure!(engine.try_send(0, RecordHeader::default(), &key), "an empty ring has no room");
        // The memory must stay registered until rank 0 has replied.
        wait(&mut engine, |event| matches!(event, FabricEvent::Record { .. }).then_some(()))?;
        leave(engine)?;
        return Ok(ExitCode::SUCCESS);
    }
    let key = wait(&mut engine, |event| match event {
        FabricEvent::Record { body, .. } => body.try_into().ok().map(u64::from_le_bytes),
        _ => None,
    })?;
    let works = match engine.bulk_recv(1, key, 0, Span::from(Bytes::zeroed(BYTES, 1))) {
        Err(_) => false,
        Ok(_) => wait(&mut engine, |event| match event {
            FabricEvent::BulkReceived { span, .. } => Some(span.as_slice().iter().all(|byte| *byte == 7)),
            FabricEvent::BulkFailed { .. } => Some(false),
            _ => None,
        })?,
    };
    ensure!(engine.try_send(1, RecordHeader::default(), &[]), "an empty ring has no room");
    leave(engine)?;
    say!("{}", if works { YES } else { NO });
    Ok(ExitCode::SUCCESS)
}

fn wait<T>(engine: &mut dyn Fabric, wanted: impl Fn(FabricEvent<'_>) -> Option<T>) -> anyhow::Result<T> {
    let start = Instant::now();
    let mut round = 0;
    while start.elapsed() < ANSWER_TIMEOUT {
        match engine.poll() {
            Some(event) => {
                if let Some(found) = wanted(event) {
                    return Ok(found);
                }
                round = 0;
            }
            None => {
                engine.idle(round);
                round += 1;
            }
        }
    }
    bail!("the other rank does not answer")
}

fn leave(mut engine: impl Fabric) -> anyhow::Result<()> {
    engine.begin_finalize();
    let start = Instant::now();
    let mut round = 0;
    while !engine.is_finalized() {
        ensure!(start.elapsed() < ANSWER_TIMEOUT, "the other rank does not end");
        if engine.poll().is_none() {
            engine.idle(round);
            round += 1;
        }
    }
    Ok(())
}
