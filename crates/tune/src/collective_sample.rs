//! A call of any collective operation, to be timed.

use treepie_comm::{Comm, Operation, Rank, Result, Sum};

const ELEMENT: usize = size_of::<u64>();

const ROOT: Rank = 0;

/// A call with 64-bit numbers and root 0. Its buffers stay the same from call to call.
pub struct CollectiveSample {
    operation: Operation,
    /// Elements of a block, or of the vector.
    len: usize,
    input: Vec<u64>,
    output: Vec<u64>,
    /// What was sent last.
    turn: u64,
}

impl CollectiveSample {
    /// With at least this number of bytes in all blocks or in the vector.
    pub fn new(comm: &Comm, operation: Operation, bytes: usize) -> Self {
        let elements = bytes / ELEMENT;
        let len = if has_blocks(operation) { elements.div_ceil(comm.size()) } else { elements };
        let all = if has_blocks(operation) { len * comm.size() } else { len };
        Self { operation, len, input: vec![1; all], output: vec![1; all], turn: 0 }
    }

    /// The operation.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Bytes of all blocks or of the vector.
    pub fn bytes(&self) -> usize {
        if self.operation == Operation::Barrier { 0 } else { self.input.len() * ELEMENT }
    }

    /// Changes the first element of each block that is sent.
    pub fn modify(&mut self) {
        self.turn += 1;
        let data = if let Operation::Bcast { .. } = self.operation { &mut self.output } else { &mut self.input };
        data.chunks_mut(self.len.max(1)).for_each(|block| block[0] = self.turn);
    }

    /// Makes the call.
    pub fn run(&mut self, comm: &Comm) -> Result<()> {
        let Self { operation, len, input, output, .. } = self;
        let (len, all) = (*len, *len * comm.size());
        let at_root = |all: usize| if comm.rank() == ROOT { all } else { 0 };
        match operation {
            Operation::Barrier => comm.barrier(),
            Operation::Bcast { .. } => comm.bcast(&mut output[..len], ROOT),
            Operation::Scatter { .. } => comm.scatter(&input[..at_root(all)], &mut output[..len], ROOT),
            Operation::Gather { .. } => comm.gather(&input[..len], &mut output[..at_root(all)], ROOT),
            Operation::Allgather => comm.allgather_into(&input[..len], &mut output[..all]),
            Operation::Reduce { .. } => comm.reduce(&input[..len], &mut output[..at_root(len)], Sum, ROOT),
            Operation::Allreduce => comm.allreduce_into(&input[..len], &mut output[..len], Sum),
            Operation::ReduceScatter => comm.reduce_scatter_block(&input[..all], &mut output[..len], Sum),
            Operation::Alltoall => comm.alltoall(&input[..all], &mut output[..all]),
            Operation::Scan => comm.scan(&input[..len], &mut output[..len], Sum),
            Operation::Exscan => comm.exscan(&input[..len], &mut output[..len], Sum),
        }
    }
}

fn has_blocks(operation: Operation) -> bool {
    use Operation::{Allgather, Alltoall, Gather, ReduceScatter, Scatter};
    matches!(operation, Allgather | Gather { .. } | Scatter { .. } | ReduceScatter | Alltoall)
}
