//! Collective operations that the MPI library runs, compared with Treepie's own; and where there is none.

use treepie::{Comm, Error, Max, Min, Or, Prod, Reduction, Result, Sum, Xor};

use crate::check::{Outcome, check, check_eq};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("host-mpi/same-results", 1, same_results).of_world(),
    Case::new("host-mpi/same-reductions", 1, same_reductions).of_world(),
    Case::new("host-mpi/messages-make-progress-meanwhile", 2, progress).of_world(),
    Case::new("host-mpi/others-in-flight", 1, in_flight).of_world(),
    Case::new("host-mpi/calls-that-mpi-cannot-run", 1, others).of_world(),
];

/// Ids of all operations that MPI runs.
const IDS: [&str; 10] = [
    "barrier/mpi",
    "bcast/mpi",
    "scatter/mpi",
    "gather/mpi",
    "allgather/mpi",
    "alltoall/mpi",
    "allreduce/mpi",
    "reduce/mpi",
    "reduce_scatter/mpi",
    "scan/mpi",
];

/// A handle on which MPI runs what it can; `None` on other engines.
fn by_mpi(comm: &Comm) -> Result<Option<Comm>> {
    if !comm.has_host_collectives() {
        return Ok(None);
    }
    IDS.iter().try_fold(comm.clone(), |comm, id| comm.with_algorithm(id)).map(Some)
}

/// Something of a rank that depends on where it is.
fn data(rank: usize, len: usize) -> Vec<u64> {
    (0..len as u64).map(|index| (rank as u64 + 1) * 1_000_003 + index * 7).collect()
}

fn same_results(comm: &Comm) -> Outcome {
    let Some(mpi) = by_mpi(comm)? else { return Ok(()) };
    let (me, ranks) = (comm.rank(), comm.size());
    for len in [0, 1, 3, 1000, 70_000] {
        mpi.barrier()?;
        check_eq!(mpi.allgather(&data(me, len))?, comm.allgather(&data(me, len))?, "allgather of {len}");
        let all = data(me, len * ranks);
        let mut both = [vec![0; len * ranks], vec![0; len * ranks]];
        mpi.alltoall(&all, &mut both[0])?;
        comm.alltoall(&all, &mut both[1])?;
        check_eq!(both[0], both[1], "alltoall of {len}");
        for root in [0, ranks / 2, ranks - 1] {
            let mut vector = data(me, len);
            mpi.bcast(&mut vector, root)?;
            check_eq!(vector, data(root, len), "bcast of {len} from {root}");
            let at_root = |data: Vec<u64>| if me == root { data } else { Vec::new() };
            let mut block = vec![0; len];
            mpi.scatter(&at_root(data(root, len * ranks)), &mut block, root)?;
            check_eq!(block, data(root, len * ranks)[me * len..][..len], "scatter of {len} from {root}");
            let mut gathered = at_root(vec![0; len * ranks]);
            mpi.gather(&data(me, len), &mut gathered, root)?;
            let expected = (0..ranks).flat_map(|rank| data(rank, len)).collect();
            check_eq!(gathered, at_root(expected), "gather of {len} to {root}");
        }
    }
    Ok(())
}

fn same_reductions(comm: &Comm) -> Outcome {
    let Some(mpi) = by_mpi(comm)? else { return Ok(()) };
    for len in [0, 1, 5, 30_000] {
        let input = data(comm.rank(), len * comm.size());
        reductions(comm, &mpi, &input, Sum)?;
        reductions(comm, &mpi, &input, Prod)?;
        reductions(comm, &mpi, &input, Xor)?;
        reductions(comm, &mpi, &input.iter().map(|value| *value as i32).collect::<Vec<_>>(), Min)?;
        reductions(comm, &mpi, &input.iter().map(|value| *value as i8).collect::<Vec<_>>(), Max)?;
        reductions(comm, &mpi, &input.iter().map(|value| *value as u16).collect::<Vec<_>>(), Or)?;
        // Sums of integers, which are exact in any order.
        reductions(comm, &mpi, &input.iter().map(|value| *value as f64).collect::<Vec<_>>(), Sum)?;
        reductions(comm, &mpi, &input.iter().map(|value| (*value % 8) as f32).collect::<Vec<_>>(), Sum)?;
    }
    Ok(())
}

/// Blocks of all ranks, or one vector.
fn reductions<T: treepie::Pod + PartialEq + std::fmt::Debug, R: Reduction<T> + Copy>(
    comm: &Comm,
    mpi: &Comm,
    input: &[T],
    op: R,
) -> Outcome {
    let (me, ranks, len) = (comm.rank(), comm.size(), input.len());
    check_eq!(mpi.allreduce(input, op)?, comm.allreduce(input, op)?, "allreduce of {len}");
    let empty = |len| vec![T::zeroed(); len];
    let mut both = [empty(len), empty(len)];
    mpi.allreduce_into(input, &mut both[0], op)?;
    comm.allreduce_into(input, &mut both[1], op)?;
    check_eq!(both[0], both[1], "allreduce_into of {len}");
    mpi.scan(input, &mut both[0], op)?;
    comm.scan(input, &mut both[1], op)?;
    check_eq!(both[0], both[1], "scan of {len}");
    let mut both = [empty(len / ranks), empty(len / ranks)];
    mpi.reduce_scatter_block(input, &mut both[0], op)?;
    comm.reduce_scatter_block(input, &mut both[1], op)?;
    check_eq!(both[0], both[1], "reduce_scatter_block of {len}");
    for root in [0, ranks - 1] {
        let at_root = if me == root { len } else { 0 };
        let mut both = [empty(at_root), empty(at_root)];
        mpi.reduce(input, &mut both[0], op, root)?;
        comm.reduce(input, &mut both[1], op, root)?;
        check_eq!(both[0], both[1], "reduce of {len} to {root}");
    }
    Ok(())
}

/// A long message needs its receiver, which is in an operation that its sender has not yet called.
fn progress(comm: &Comm) -> Outcome {
    let Some(mpi) = by_mpi(comm)? else { return Ok(()) };
    const LEN: usize = 300_000;
    for tag in 0..3 {
        match comm.rank() {
            0 => {
                let request = comm.irecv_vec::<u64>(1, tag)?;
                mpi.barrier()?;
                check_eq!(request.wait()?.0, data(1, LEN), "the message");
            }
            1 => {
                comm.ssend(&data(1, LEN), 0, tag)?;
                mpi.barrier()?;
            }
            _ => mpi.barrier()?,
        }
    }
    Ok(())
}

/// Operations of Treepie before, meanwhile and afterwards.
fn in_flight(comm: &Comm) -> Outcome {
    let Some(mpi) = by_mpi(comm)? else { return Ok(()) };
    let ranks = comm.size() as u64;
    let before = comm.iallreduce(vec![1u64; 1000], Sum)?;
    check_eq!(mpi.allreduce(&[2u64], Sum)?, [2 * ranks], "the one of MPI");
    let after = comm.ibarrier()?;
    check_eq!(mpi.allreduce(&[3u64], Sum)?, [3 * ranks], "the next one of MPI");
    after.wait()?;
    check_eq!(before.wait()?, vec![ranks; 1000], "the one before");
    check_eq!(mpi.checked().allreduce(&[4u64], Sum)?, [4 * ranks], "in checked mode");
    Ok(())
}

/// Calls that MPI cannot run use an algorithm of Treepie. Without MPI there is nothing to set.
fn others(comm: &Comm) -> Outcome {
    let Some(mpi) = by_mpi(comm)? else {
        let result = comm.with_algorithm("allreduce/mpi")?.allreduce(&[1u64], Sum);
        check!(matches!(result, Err(Error::Algorithm(_))), "another engine: {result:?}");
        check_eq!(comm.allreduce(&[1u64], Sum)?, [comm.size() as u64], "afterwards");
        return Ok(());
    };
    let (me, ranks) = (comm.rank(), comm.size());
    let all = [ranks as u64];
    check_eq!(mpi.allreduce(&[1u64], |a: u64, b: u64| a + b)?, all, "a closure");
    check_eq!(mpi.iallreduce(vec![1u64], Sum)?.wait()?, all, "nonblocking");
    check_eq!(mpi.allreduce(&[me as f64], Max)?, [(ranks - 1) as f64], "the maximum of floating-point numbers");
    check_eq!(mpi.dup()?.allreduce(&[1u64], Sum)?, all, "another communicator");
    let counts: Vec<usize> = (0..ranks).collect();
    let mut into = vec![0u64; counts.iter().sum()];
    mpi.allgatherv(&vec![me as u64; me], &counts, &mut into)?;
    let expected: Vec<u64> = (0..ranks).flat_map(|rank| vec![rank as u64; rank]).collect();
    check_eq!(into, expected, "blocks of different lengths");
    let mut into = [7u64];
    mpi.exscan(&[1u64], &mut into, Sum)?;
    check_eq!(into, [if me == 0 { 7 } else { me as u64 }], "exscan");
    mpi.scan_in_place(&mut into, Sum)?;
    Ok(())
}
