//! The ranks of `treepie bench choices`: each algorithm of an operation in turn, and the choice.

use std::ops::Range;
use std::process::ExitCode;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use treepie::tune::CollectiveSample;
use treepie::{Comm, Max};
use treepie_base::environment;
use treepie_schedule::Operation;

use super::protocols::{ExchangeTask, SplitTask};
use super::{LEAST, decision_times};
use crate::harness::rank::{balanced_order, begin_together, time_since};

/// A rank.
#[derive(clap::Args)]
pub struct ChoicesRank {
    /// Cases as operation/bytes, exchange/neighbors/bytes or split/colors, separated by commas
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Times of each candidate
    #[arg(long)]
    repeat: usize,
    /// Turns of earlier runs, which had their own orders of the candidates
    #[arg(long, default_value = "0")]
    turns: usize,
    /// Print the slot capacities of the shared segment for a call of this number of bytes
    #[arg(long)]
    slots: Option<usize>,
    /// Print how long choices take
    #[arg(long)]
    decisions: bool,
}

/// The times of an operation with one algorithm.
#[derive(Serialize, Deserialize)]
pub(super) struct Timed {
    pub(super) case: String,
    /// The label of the candidate, and of others with the same schedule.
    pub(super) id: String,
    pub(super) also: Vec<String>,
    /// The prediction, in microseconds.
    pub(super) predicted: f64,
    /// Microseconds of the slowest rank, of each repetition.
    pub(super) times: Vec<f64>,
}

/// A measured interval should be at least this long, in seconds; where ranks share cores, all of them should have run
/// several times.
const MIN_INTERVAL: [f64; 2] = [100e-6, 1e-3];

/// Seconds before the first case.
const WARM_UP: f64 = 0.3;

impl ChoicesRank {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let world = treepie::init()?;
        if self.decisions {
            decision_times::print_of_ranks(&world)?;
        }
        if let Some(bytes) = self.slots {
            // In a long call ranks agree on single copy.
            let mut long = vec![0u64; 1 << 16];
            world.bcast(&mut long, 0)?;
            if let Some(slots) = world.slot_capacities(bytes).filter(|_| world.rank() == 0) {
                say!("{} {} {} {}", slots.line, slots.page, slots.bulk, u8::from(slots.single_copy));
            }
        }
        if self.repeat > 0 && !self.cases.is_empty() {
            warm_up(&world)?;
        }
        for case in &self.cases {
            for timed in time_candidates(&world, case, self.turns..self.turns + self.repeat)? {
                if world.rank() == 0 {
                    say!("{}", serde_json::to_string(&timed)?);
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs for some time: the system moves the processes of ranks that share cores only after they have run, and the first
/// case would take several times as long as it does later.
fn warm_up(world: &Comm) -> anyhow::Result<()> {
    let begin = world.now();
    while world.allreduce_one((world.now() - begin).as_secs_f64(), Max)? < WARM_UP {
        world.barrier()?;
    }
    Ok(())
}

/// Something to time with several algorithms.
pub(super) trait Task {
    /// Changes what is sent, as the other benchmarks of collective operations do.
    fn prepare(&mut self) {}

    /// Does it with the algorithm of the handle.
    fn run(&mut self, comm: &Comm) -> treepie::Result<()>;

    /// The choice first, then the other candidates.
    fn sides(&self, world: &Comm) -> anyhow::Result<Vec<Side>>;
}

/// A candidate, or the choice, and its times.
pub(super) struct Side {
    pub(super) timed: Timed,
    comm: Comm,
    /// Calls in an interval.
    count: usize,
}

impl Side {
    pub(super) fn new(id: String, predicted: f64, comm: Comm) -> Self {
        let timed = Timed { case: String::new(), id, also: Vec::new(), predicted, times: Vec::new() };
        Self { timed, comm, count: 1 }
    }
}

/// The task of a case.
fn task(world: &Comm, case: &str) -> anyhow::Result<Box<dyn Task>> {
    let (name, rest) = case.split_once('/').unwrap_or((case, "0"));
    Ok(match name {
        "exchange" => {
            let (neighbors, bytes) = rest.split_once('/').context("a case is exchange/neighbors/bytes")?;
            Box::new(ExchangeTask::new(world, neighbors.parse()?, bytes.parse()?))
        }
        "split" => Box::new(SplitTask { colors: rest.parse()? }),
        name => {
            let operation = Operation::from_name(name, 0).with_context(|| format!("unknown operation {name}"))?;
            Box::new(CollectiveSample::new(world, operation, rest.parse()?))
        }
    })
}

/// Times all candidates, alternating, so that a disturbance meets all of them. The first is the choice.
pub(super) fn time_candidates(world: &Comm, case: &str, turns: Range<usize>) -> anyhow::Result<Vec<Timed>> {
    let mut task = task(world, case)?;
    // Ranks agree on single copy in the first long call, so the candidates are known only then.
    task.run(world)?;
    let mut sides = task.sides(world)?;
    let is_shared = world.ranks_per_core().is_some_and(|ranks| ranks > 1.0);
    // All runs in virtual time are alike.
    let is_virtual = world.engine() == "sim";
    for side in sides.iter_mut().filter(|_| !turns.is_empty()) {
        // The memory of another candidate's splits is freed in the background of this call, before this one is timed.
        task.run(&side.comm)?;
        let once = time(&mut *task, &side.comm, 1)?;
        if is_virtual {
            side.timed.times.push((once * 1e6).max(LEAST));
        }
        side.count = (MIN_INTERVAL[usize::from(is_shared)] / once).clamp(1.0, 200.0) as usize;
    }
    // Where ranks share cores, the first turn of a case takes several times as long.
    let warm_up = usize::from(is_shared);
    let count = if is_virtual || turns.is_empty() { 0 } else { warm_up + turns.len() };
    for turn in 0..count {
        // In a fixed order the choice would always follow the slowest, which leaves the least of it in the caches.
        for index in balanced_order(turns.start + turn, sides.len()) {
            let side = &mut sides[index];
            task.run(&side.comm)?;
            let micros = time(&mut *task, &side.comm, side.count)? * 1e6;
            if turn >= warm_up {
                side.timed.times.push(micros);
            }
        }
    }
    Ok(sides.into_iter().map(|side| Timed { case: case.to_owned(), ..side.timed }).collect())
}

/// Seconds of a task on the slowest rank, the same on all ranks. A barrier before each keeps those of a root from
/// running ahead. Where ranks share cores one after it is part of the time: a rank that was not scheduled until another
/// had done the work of both would take no time. Over emulated links ranks begin together.
fn time(task: &mut dyn Task, comm: &Comm, count: usize) -> anyhow::Result<f64> {
    let is_shared = comm.ranks_per_core().is_some_and(|ranks| ranks > 1.0);
    let is_emulated = environment::text(environment::EMULATE)?.is_some();
    let mut took = 0.0;
    for _ in 0..count {
        task.prepare();
        if is_emulated {
            let start = begin_together(comm)?;
            task.run(comm)?;
            took += time_since(start).as_secs_f64();
            continue;
        }
        comm.barrier()?;
        let begin = comm.now();
        task.run(comm)?;
        if is_shared {
            comm.barrier()?;
        }
        took += (comm.now() - begin).as_secs_f64();
    }
    Ok(comm.allreduce_one(took / count as f64, Max)?)
}
