//! The ranks of `treepie bench choices`: each algorithm of an operation in turn, and the choice.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use treepie::{Comm, Max, Network, Sum};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_comm::choice::Candidate;
use treepie_schedule::{Operation, RoundList, Schedule};

use crate::harness::statistics::median;

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
    /// The label of the candidate, and of others with the same schedule.
    pub(super) id: String,
    pub(super) also: Vec<String>,
    /// The prediction, in microseconds.
    pub(super) predicted: f64,
    /// Microseconds of the slowest rank, of each repetition.
    pub(super) times: Vec<f64>,
}

const ELEMENT: u64 = 8;

/// A measured interval should be at least this long, in seconds; where ranks share cores, all of them should have run
/// several times.
const MIN_INTERVAL: [f64; 2] = [100e-6, 1e-3];

/// After this number of repetitions, candidates that took twice as long as the fastest in all of them are out.
const TRIALS: usize = 3;

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

/// A candidate, or the choice, and its times.
struct Side {
    timed: Timed,
    comm: Comm,
    /// Calls in an interval.
    count: usize,
}

/// Times all candidates, alternating, so that a disturbance meets all of them. Those whose schedules are the same, as
/// trees of two ranks are, are timed once. The first is the choice.
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
    let (mut sides, mut schedules) = (Vec::new(), Vec::new());
    let network = Network::flat(world.size() as u32);
    let spec = CollectiveSpec::new(operation, &network);
    for candidate in world.candidates(operation, buffers.total_bytes(world), ELEMENT)? {
        let (id, transport) = (candidate.id(), candidate.transport);
        let Ok(schedule) = registry::build(&id, &spec) else { continue };
        let key = (all_rounds(&*schedule), transport);
        if let Some(at) = schedules.iter().position(|other| *other == key) {
            let side: &mut Side = &mut sides[at];
            side.timed.also.push(label(&candidate));
            continue;
        }
        schedules.push(key);
        let comm = if sides.is_empty() { world.clone() } else { world.with_candidate(&id, transport)? };
        let (case, predicted) = (case.to_owned(), candidate.prediction.total());
        let timed = Timed { case, id: label(&candidate), also: Vec::new(), predicted, times: Vec::new() };
        sides.push(Side { timed, comm, count: 1 });
    }
    let is_shared = world.ranks_per_core().is_some_and(|ranks| ranks > 1.0);
    for side in &mut sides {
        buffers.run(&side.comm)?;
        let once = buffers.time(&side.comm, 1)?;
        side.count = (MIN_INTERVAL[usize::from(is_shared)] / once).clamp(1.0, 200.0) as usize;
    }
    for repetition in 0..repeat {
        if repetition == TRIALS {
            let least = |side: &Side| side.timed.times.iter().copied().fold(f64::INFINITY, f64::min);
            let best = sides.iter().map(|side| median(&side.timed.times)).fold(f64::INFINITY, f64::min);
            let chosen = sides.remove(0);
            sides.retain(|side| least(side) < 2.0 * best);
            sides.insert(0, chosen);
        }
        // Another one is the first each time: it has the coldest caches.
        for step in 0..sides.len() {
            let at = (repetition + step) % sides.len();
            let side = &mut sides[at];
            side.timed.times.push(buffers.time(&side.comm, side.count)? * 1e6);
        }
    }
    Ok(sides.into_iter().map(|side| side.timed).collect())
}

/// The id of a candidate, and its transport.
pub(super) fn label(candidate: &Candidate) -> String {
    format!("{}, {}", candidate.id(), candidate.transport)
}

/// All rounds of all ranks, by phase and lane.
fn all_rounds(schedule: &dyn Schedule) -> Vec<RoundList> {
    let mut all = Vec::new();
    for rank in 0..schedule.ranks() {
        for phase in 0..schedule.phases() {
            for lane in 0..schedule.phase(phase).lanes {
                let mut rounds = RoundList::new();
                schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut rounds);
                all.push(rounds);
            }
        }
    }
    all
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

    /// Seconds of an operation on the slowest rank, the same on all ranks. A barrier after each keeps those of a root from
    /// running ahead. Where ranks share cores the barrier is part of it: a rank that was not scheduled until another
    /// had done the work of both would take no time.
    fn time(&mut self, comm: &Comm, count: usize) -> anyhow::Result<f64> {
        let is_shared = comm.ranks_per_core().is_some_and(|ranks| ranks > 1.0);
        comm.barrier()?;
        let start = comm.now();
        let mut took = 0.0;
        for _ in 0..count {
            let begin = comm.now();
            self.run(comm)?;
            took += (comm.now() - begin).as_secs_f64();
            comm.barrier()?;
        }
        let took = if is_shared { (comm.now() - start).as_secs_f64() } else { took };
        Ok(comm.allreduce_one(took / count as f64, Max)?)
    }
}
