//! A collective operation to time, and its candidates.

use treepie::{Comm, Network, Sum};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_comm::choice::{Candidate, Transport};
use treepie_schedule::{Operation, RoundList, Schedule, for_each_lane};

use super::rank::{Side, Task};

const ELEMENT: u64 = 8;

/// The buffers of an operation.
pub(super) struct Buffers {
    operation: Operation,
    /// Elements of a block, or of the vector.
    len: usize,
    input: Vec<u64>,
    output: Vec<u64>,
    /// The number of the operation, which is what it sends.
    turn: u64,
}

impl Buffers {
    pub(super) fn new(world: &Comm, operation: Operation, bytes: u64) -> Self {
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
        let all = if has_blocks { len * world.size() } else { len };
        Self { operation, len, input: vec![1; all], output: vec![1; all], turn: 0 }
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

    fn call(&mut self, comm: &Comm) -> treepie::Result<()> {
        let Self { operation, len, input, output, .. } = self;
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
}

impl Task for Buffers {
    fn prepare(&mut self) {
        self.turn += 1;
        let Self { operation, len, input, output, turn } = self;
        match operation {
            Operation::Barrier => {}
            Operation::Bcast { .. } => touch(output, *len, *turn),
            _ => touch(input, *len, *turn),
        }
    }

    fn run(&mut self, comm: &Comm) -> treepie::Result<()> {
        self.call(comm)
    }

    /// Candidates whose schedules are the same, as trees of two ranks are, are one.
    fn sides(&self, world: &Comm) -> anyhow::Result<Vec<Side>> {
        let network = Network::flat(world.size() as u32);
        let spec = CollectiveSpec::new(self.operation, &network);
        let mut schedules: Vec<(Vec<RoundList>, Transport)> = Vec::new();
        let mut sides: Vec<Side> = Vec::new();
        for candidate in world.candidates(self.operation, self.total_bytes(world), ELEMENT)? {
            let (id, transport) = (candidate.id(), candidate.transport);
            let Ok(schedule) = registry::build(&id, &spec) else { continue };
            let key = (all_rounds(&*schedule), transport);
            if let Some(at) = schedules.iter().position(|other| *other == key) {
                sides[at].timed.also.push(label(&candidate));
                continue;
            }
            schedules.push(key);
            let comm = if sides.is_empty() { world.clone() } else { world.with_candidate(&id, transport)? };
            sides.push(Side::new(label(&candidate), candidate.prediction.total(), comm));
        }
        Ok(sides)
    }
}

/// Changes the first element of each block.
fn touch(data: &mut [u64], block: usize, turn: u64) {
    data.chunks_mut(block.max(1)).for_each(|block| block[0] = turn);
}

/// The id of a candidate, and its transport.
pub(super) fn label(candidate: &Candidate) -> String {
    format!("{}, {}", candidate.id(), candidate.transport)
}

/// All rounds of all ranks, by phase and lane.
fn all_rounds(schedule: &dyn Schedule) -> Vec<RoundList> {
    let mut all = Vec::new();
    for_each_lane(schedule, |_, _, _, rounds| all.push(rounds.clone()));
    all
}
