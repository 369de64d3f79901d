//! Floating-point sums: their last bits show the order of additions, which may depend only on the algorithm and the
//! number of ranks.

use std::time::Duration;

use treepie::{Comm, Rank, Sum};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::Operation;
use treepie_topology::Network;

use crate::check::{Outcome, check_eq};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("floats/the-same-on-every-rank-and-each-time", 1, repeatable),
    Case::new("floats/the-same-on-every-rank-and-each-time-on-the-world", 1, repeatable).of_world(),
    Case::new("floats/an-algorithm-does-the-same-on-a-dup-and-on-the-world", 1, on_dup_and_world).of_world(),
];

/// The result of an operation on this rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// The algorithm, or the operation if the algorithm was selected automatically, and the length.
    what: String,
    is_chosen: bool,
    /// Whether all ranks must have the same result.
    is_everywhere: bool,
    bits: Vec<u64>,
}

/// Numbers of very different magnitudes.
pub fn numbers(rank: Rank, len: usize) -> Vec<f64> {
    (0..len).map(|i| (1.0 + rank as f64 / 3.0) * 10f64.powi((rank * 7 + i) as i32 % 31 - 15)).collect()
}

/// Ids of all algorithms for an operation, and `None` for automatic selection.
fn ids(operation: Operation, ranks: usize) -> Vec<Option<String>> {
    let network = Network::flat(ranks as u32);
    let request = CollectiveSpec::new(operation, &network);
    let applicable = registry::applicable(&request).into_iter().map(|algorithm| Some(algorithm.id.clone()));
    std::iter::once(None).chain(applicable).collect()
}

/// Calls every reduction with every algorithm. One rank enters late, so that messages of the others arrive first.
pub fn sums(comm: &Comm, late: Rank) -> treepie::Result<Vec<Sums>> {
    let (rank, size) = (comm.rank(), comm.size());
    let root = size / 2;
    let lens: &[usize] = if size <= 8 { &[3, 101, 3000] } else { &[5] };
    let mut all = Vec::new();
    let operations =
        [Operation::Allreduce, Operation::Reduce { root: root as u32 }, Operation::ReduceScatter, Operation::Scan];
    for operation in operations {
        for id in ids(operation, size) {
            let comm = match &id {
                Some(id) => comm.with_algorithm(id)?,
                None => comm.clone(),
            };
            for len in lens {
                if rank == late {
                    std::thread::sleep(Duration::from_micros(300));
                }
                let data = numbers(rank, *len);
                let mut into = vec![0.0; if rank == root { *len } else { 0 }];
                let sum = match operation {
                    Operation::Allreduce => comm.allreduce(&data, Sum)?,
                    Operation::Reduce { .. } => comm.reduce(&data, &mut into, Sum, root).map(|()| into)?,
                    Operation::ReduceScatter => {
                        let mut into = vec![0.0; *len];
                        comm.reduce_scatter_block(&numbers(rank, len * size), &mut into, Sum).map(|()| into)?
                    }
                    _ => {
                        let mut into = vec![0.0; *len];
                        comm.scan(&data, &mut into, Sum).map(|()| into)?
                    }
                };
                all.push(Sums {
                    what: format!("{} of {len}", id.as_deref().unwrap_or(operation.name())),
                    is_chosen: id.is_none(),
                    is_everywhere: operation == Operation::Allreduce,
                    bits: sum.into_iter().map(f64::to_bits).collect(),
                });
            }
        }
    }
    Ok(all)
}

fn repeatable(comm: &Comm) -> Outcome {
    let first = sums(comm, 0)?;
    for (one, again) in first.iter().zip(sums(comm, comm.size() - 1)?) {
        check_eq!(again.bits, one.bits, "bits of {} the second time", one.what);
    }
    for one in first.iter().filter(|one| one.is_everywhere) {
        for (rank, other) in comm.allgather(&one.bits)?.chunks(one.bits.len()).enumerate() {
            check_eq!(one.bits, other, "bits of {} here, and on rank {rank}", one.what);
        }
    }
    Ok(())
}

/// Automatic selection is not compared: the world may have transports that a dup has not.
fn on_dup_and_world(world: &Comm) -> Outcome {
    let of_dup = sums(&world.dup()?, 0)?;
    for (of_world, of_dup) in sums(world, 0)?.iter().zip(of_dup).filter(|(one, _)| !one.is_chosen) {
        check_eq!(of_world.bits, of_dup.bits, "bits of {} on the world, and on a dup", of_world.what);
    }
    Ok(())
}
