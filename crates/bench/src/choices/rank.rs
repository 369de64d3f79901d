//! The ranks of `treepie bench choices`: each algorithm of an operation in turn, and the choice.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use treepie::{Comm, Max, Sum};
use treepie_schedule::Operation;

/// A rank.
#[derive(clap::Args)]
pub struct ChoicesRank {
    /// Cases as operation/bytes, separated by commas
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Times of each candidate
    #[arg(long)]
    repeat: usize,
    /// Print the slot capacities of the shared segment
    #[arg(long)]
    slots: bool,
}

/// The times of an operation with one algorithm.
#[derive(Serialize, Deserialize)]
pub(super) struct Timed {
    pub(super) case: String,
    /// The id, or `CHOSEN`.
    pub(super) id: String,
    /// The prediction, in microseconds.
    pub(super) predicted: f64,
    /// Microseconds of the slowest rank, of each repetition.
    pub(super) times: Vec<f64>,
}

/// The id of the default choice.
const CHOSEN: &str = "chosen";

const ELEMENT: u64 = 8;

/// A measured interval should be at least this long, in seconds.
const MIN_INTERVAL: f64 = 100e-6;

impl ChoicesRank {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let world = treepie::init()?;
        if self.slots {
            // In a long call ranks agree on single copy.
            let mut long = vec![0u64; 1 << 16];
            world.bcast(&mut long, 0)?;
            if let Some(slots) = world.slot_capacities().filter(|_| world.rank() == 0) {
                say!("{} {} {} {}", slots.line, slots.page, slots.bulk, u8::from(slots.single_copy));
            }
        }
        for case in &self.cases {
            let (name, bytes) = case.split_once('/').unwrap_or((case, "0"));
            let operation = Operation::from_name(name, 0).ok_or_else(|| anyhow::anyhow!("unknown operation {name}"))?;
            for timed in time_candidates(&world, case, operation, bytes.parse()?, self.repeat)? {
                if world.rank() == 0 {
                    say!("{}", serde_json::to_string(&timed)?);
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Times all candidates, alternating, so that a disturbance meets all of them.
fn time_candidates(
    world: &Comm,
    case: &str,
    operation: Operation,
    bytes: u64,
    repeat: usize,
) -> anyhow::Result<Vec<Timed>> {
    let mut buffers = Buffers::new(world, operation, bytes);
    // Ranks agree on single copy in the first long call, so the candidates are known only then.
    buffers.run(world)?;
    let mut sides = vec![(CHOSEN.to_owned(), 0.0, world.clone())];
    for candidate in world.candidates(operation, buffers.total_bytes(world), ELEMENT)? {
        let (id, predicted) = (candidate.id(), candidate.prediction.total());
        if sides[0].1 == 0.0 {
            sides[0].1 = predicted;
        }
        if sides.iter().all(|(other, ..)| *other != id) {
            let comm = world.with_algorithm(&id)?;
            sides.push((id, predicted, comm));
        }
    }
    let mut counts = Vec::new();
    for (_, _, comm) in &sides {
        buffers.run(comm)?;
        let once = buffers.time(comm, 1)?;
        counts.push((MIN_INTERVAL / once).clamp(1.0, 100.0) as usize);
    }
    let mut times = vec![Vec::new(); sides.len()];
    for repetition in 0..repeat {
        // Another one is the first each time: it has the coldest caches.
        for step in 0..sides.len() {
            let side = (repetition + step) % sides.len();
            times[side].push(buffers.time(&sides[side].2, counts[side])? * 1e6);
        }
    }
    let timed = |((id, predicted, _), times)| Timed { case: case.to_owned(), id, predicted, times };
    Ok(sides.into_iter().zip(times).map(timed).collect())
}

/// The buffers of an operation.
struct Buffers {
    operation: Operation,
    /// Elements of a block, or of the vector.
    len: usize,
    input: Vec<u64>,
    output: Vec<u64>,
}

impl Buffers {
    fn new(world: &Comm, operation: Operation, bytes: u64) -> Self {
        let elements = (bytes / ELEMENT) as usize;
        let has_blocks = matches!(
            operation,
            Operation::Allgather
                | Operation::Gather { .. }
                | Operation::Scatter { .. }
                | Operation::ReduceScatter
                | Operation::Alltoall
        );
        let len = if has_blocks { elements.div_ceil(world.size()) } else { elements };
        let all = len * world.size();
        Self { operation, len, input: vec![1; all], output: vec![1; all] }
    }

    /// Bytes of all blocks or of the vector.
    fn total_bytes(&self, world: &Comm) -> u64 {
        let blocks = match self.operation {
            Operation::Barrier => 0,
            Operation::Bcast { .. }
            | Operation::Reduce { .. }
            | Operation::Allreduce
            | Operation::Scan
            | Operation::Exscan => 1,
            _ => world.size(),
        };
        (blocks * self.len) as u64 * ELEMENT
    }

    fn run(&mut self, comm: &Comm) -> treepie::Result<()> {
        let Self { operation, len, input, output } = self;
        let (len, root) = (*len, 0);
        let at_root = |all: usize| if comm.rank() == root { all } else { 0 };
        let all = len * comm.size();
        match operation {
            Operation::Barrier => comm.barrier(),
            Operation::Bcast { .. } => comm.bcast(&mut output[..len], root),
            Operation::Scatter { .. } => comm.scatter(&input[..at_root(all)], &mut output[..len], root),
            Operation::Gather { .. } => comm.gather(&input[..len], &mut output[..at_root(all)], root),
            Operation::Allgather => comm.allgather_into(&input[..len], &mut output[..all]),
            Operation::Reduce { .. } => comm.reduce(&input[..len], &mut output[..at_root(len)], Sum, root),
            Operation::Allreduce => comm.allreduce_into(&input[..len], &mut output[..len], Sum),
            Operation::ReduceScatter => comm.reduce_scatter_block(&input[..all], &mut output[..len], Sum),
            Operation::Alltoall => comm.alltoall(&input[..all], &mut output[..all]),
            Operation::Scan => comm.scan(&input[..len], &mut output[..len], Sum),
            Operation::Exscan => comm.exscan(&input[..len], &mut output[..len], Sum),
        }
    }

    /// Seconds of an operation on the slowest rank. A barrier after each keeps those of a root from running ahead.
    fn time(&mut self, comm: &Comm, count: usize) -> anyhow::Result<f64> {
        let mut took = 0.0;
        for _ in 0..count {
            comm.barrier()?;
            let begin = comm.now();
            self.run(comm)?;
            took += (comm.now() - begin).as_secs_f64();
        }
        Ok(comm.allreduce_one(took / count as f64, Max)?)
    }
}
