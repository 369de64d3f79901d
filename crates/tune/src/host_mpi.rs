//! Times of the MPI library's own collective operations, so that they can be compared with predicted ones.

use treepie_collectives::registry::{self, Algorithm};
use treepie_comm::{Comm, Operation};
use treepie_model::plogp::PiecewiseLinear;
use treepie_model::profile::HostCollectiveTime;

use crate::collective_sample::CollectiveSample;
use crate::local::time_collective;
use crate::{Error, Result};

/// Bytes of all blocks, or of the vector. Between two of them times are interpolated.
const SIZES: [usize; 8] = [8, 256, 2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 4 << 20];

/// Measures them, in an MPI job. Collective; all ranks have the same result.
pub(crate) fn host_collectives(comm: &Comm) -> Result<Vec<HostCollectiveTime>> {
    if !comm.has_host_collectives() {
        return Err(Error::NoHostCollectives);
    }
    let of_host = |operation| Some((operation, registry::of_host_mpi(operation)?));
    let all = Operation::all(0).into_iter().filter_map(of_host);
    all.map(|(operation, algorithm)| measure(comm, operation, algorithm)).collect()
}

fn measure(comm: &Comm, operation: Operation, algorithm: &Algorithm) -> Result<HostCollectiveTime> {
    let by_mpi = comm.with_algorithm(&algorithm.id)?;
    let sizes: &[usize] = if operation == Operation::Barrier { &[0] } else { &SIZES };
    let mut points = Vec::new();
    for bytes in sizes {
        let mut sample = CollectiveSample::new(comm, operation, *bytes);
        points.push((sample.bytes() as f64, time_collective(comm, 50, || sample.run(&by_mpi))?));
    }
    // Small sizes are all one element for each rank if there are many.
    points.dedup_by_key(|point| point.0);
    let time = PiecewiseLinear::new("the time of a collective operation", &points)?;
    Ok(HostCollectiveTime { operation: operation.name().to_owned(), time })
}
