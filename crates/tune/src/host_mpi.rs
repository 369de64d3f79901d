//! Times of the MPI library's own collective operations, so that they can be compared with predicted ones.

use treepie_comm::{Comm, Operation, Rank, Result as CommResult, Sum};
use treepie_model::plogp::PiecewiseLinear;
use treepie_model::profile::HostCollectiveTime;

use crate::local::time_collective;
use crate::{Error, Result};

/// Bytes of all blocks, or of the vector. Between two of them times are interpolated.
const SIZES: [usize; 8] = [8, 256, 2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 4 << 20];

const ROOT: Rank = 0;

/// Measures them, in an MPI job. Collective; all ranks have the same result.
pub(crate) fn host_collectives(comm: &Comm) -> Result<Vec<HostCollectiveTime>> {
    if !comm.has_host_collectives() {
        return Err(Error::NoHostCollectives);
    }
    let of_mpi = |operation: &Operation| *operation != Operation::Exscan;
    Operation::all(ROOT as u32).into_iter().filter(of_mpi).map(|operation| measure(comm, operation)).collect()
}

fn measure(comm: &Comm, operation: Operation) -> Result<HostCollectiveTime> {
    let by_mpi = comm.with_algorithm(&format!("{}/mpi", operation.name()))?;
    let sizes: &[usize] = if operation == Operation::Barrier { &[0] } else { &SIZES };
    let mut points = Vec::new();
    for bytes in sizes {
        let mut buffers = Buffers::new(operation, *bytes, comm);
        points.push((buffers.bytes as f64, time_collective(comm, 50, || buffers.run(operation, &by_mpi))?));
    }
    // Small sizes are all one element for each rank if there are many.
    points.dedup_by_key(|point| point.0);
    let time = PiecewiseLinear::new("the time of a collective operation", &points)?;
    Ok(HostCollectiveTime { operation: operation.name().to_owned(), time })
}

/// The data of a call: 64-bit numbers.
struct Buffers {
    input: Vec<u64>,
    output: Vec<u64>,
    /// Bytes of all blocks, or of the vector.
    bytes: usize,
}

impl Buffers {
    fn new(operation: Operation, bytes: usize, comm: &Comm) -> Self {
        let (ranks, is_root) = (comm.size(), comm.rank() == ROOT);
        let block = (bytes / size_of::<u64>() / ranks).max(1);
        let (vector, all) = (bytes.div_ceil(size_of::<u64>()), block * ranks);
        let at_root = |len| if is_root { len } else { 0 };
        let (input, output, total) = match operation {
            Operation::Barrier => (0, 0, 0),
            Operation::Bcast { .. } => (0, vector, vector),
            Operation::Scatter { .. } => (at_root(all), block, all),
            Operation::Gather { .. } => (block, at_root(all), all),
            Operation::Allgather => (block, all, all),
            Operation::Alltoall => (all, all, all),
            Operation::Reduce { .. } => (vector, at_root(vector), vector),
            Operation::ReduceScatter => (all, block, all),
            Operation::Allreduce | Operation::Scan | Operation::Exscan => (vector, vector, vector),
        };
        Self { input: vec![1; input], output: vec![0; output], bytes: total * size_of::<u64>() }
    }

    fn run(&mut self, operation: Operation, comm: &Comm) -> CommResult<()> {
        let (input, output) = (&self.input[..], &mut self.output[..]);
        match operation {
            Operation::Barrier => comm.barrier(),
            Operation::Bcast { .. } => comm.bcast(output, ROOT),
            Operation::Scatter { .. } => comm.scatter(input, output, ROOT),
            Operation::Gather { .. } => comm.gather(input, output, ROOT),
            Operation::Allgather => comm.allgather_into(input, output),
            Operation::Alltoall => comm.alltoall(input, output),
            Operation::Reduce { .. } => comm.reduce(input, output, Sum, ROOT),
            Operation::ReduceScatter => comm.reduce_scatter_block(input, output, Sum),
            Operation::Allreduce => comm.allreduce_into(input, output, Sum),
            Operation::Scan | Operation::Exscan => comm.scan(input, output, Sum),
        }
    }
}
