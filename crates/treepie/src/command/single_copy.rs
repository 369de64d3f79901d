//! Whether ranks can copy straight between each other's memory on this machine. Two ranks try it, by the engine's own
//! means: the kernel decides by rights that nothing else tells for sure.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use treepie_base::{Bytes, Span};
use treepie_fabric::{Event, Fabric, Head};

use super::job::{HANGS_AFTER, Job};

/// A machine that is busy must not look like one without single copy.
const ANSWER_WITHIN: Duration = HANGS_AFTER;

/// Few enough that one rank copies all of it.
const BYTES: usize = 4096;

const YES: &str = "single copy works";
const NO: &str = "single copy does not work";

/// Whether large messages between ranks take one copy.
pub(crate) fn is_permitted() -> anyhow::Result<bool> {
    let said = Job::ranks(2, ["single-copy-rank"])?.output(ANSWER_WITHIN)?;
    match said.trim() {
        YES => Ok(true),
        NO => Ok(false),
        other => bail!("two ranks that tried single copy said {other:?}"),
    }
}

/// One of the two ranks: rank 1 offers memory, rank 0 tries to copy it.
pub(crate) fn rank() -> anyhow::Result<ExitCode> {
    let mut engine = treepie_shm::join_launched()?.context("this is to be started by treepie run")?;
    ensure!(engine.size() == 2, "this is to be run by two ranks");
    if engine.rank() == 1 {
        let mut bytes = Bytes::zeroed(BYTES, 1);
        bytes.as_mut_slice().fill(7);
        let mut offered = Span::from(bytes);
        let key = engine.offer(0, &mut offered).to_le_bytes();
        ensure!(engine.try_send(0, Head::default(), &key), "an empty ring has no room");
        // The memory must stay until rank 0 has answered.
        wait(&mut engine, |event| matches!(event, Event::Record { .. }).then_some(()))?;
        leave(engine)?;
        return Ok(ExitCode::SUCCESS);
    }
    let key = wait(&mut engine, |event| match event {
        Event::Record { body, .. } => body.try_into().ok().map(u64::from_le_bytes),
        _ => None,
    })?;
    let works = match engine.bulk_recv(1, key, 0, Span::from(Bytes::zeroed(BYTES, 1))) {
        Err(_) => false,
        Ok(_) => wait(&mut engine, |event| match event {
            Event::BulkReceived { span, .. } => Some(span.as_slice().iter().all(|byte| *byte == 7)),
            Event::BulkFailed { .. } => Some(false),
            _ => None,
        })?,
    };
    ensure!(engine.try_send(1, Head::default(), &[]), "an empty ring has no room");
    leave(engine)?;
    say!("{}", if works { YES } else { NO });
    Ok(ExitCode::SUCCESS)
}

fn wait<T>(engine: &mut dyn Fabric, wanted: impl Fn(Event<'_>) -> Option<T>) -> anyhow::Result<T> {
    let begun = Instant::now();
    let mut round = 0;
    while begun.elapsed() < ANSWER_WITHIN {
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
    engine.depart();
    let begun = Instant::now();
    let mut round = 0;
    while !engine.departed() {
        ensure!(begun.elapsed() < ANSWER_WITHIN, "the other rank does not end");
        if engine.poll().is_none() {
            engine.idle(round);
            round += 1;
        }
    }
    Ok(())
}
