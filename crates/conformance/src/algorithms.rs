//! Every algorithm of the registry in every variant, on every network that fits the number of ranks, compared with a
//! plain reference.
//!
//! On networks that are not flat, only algorithms run that need one or depend on it. All cases run once more on the
//! world, where short operations use the shared segment instead of messages if the engine has one.

use std::collections::BTreeSet;

use treepie::{Comm, Rank, Sum};
use treepie_collectives::registry::{self, CollectiveSpec, NetworkRequirement};
use treepie_schedule::Operation;
use treepie_topology::Network;

use crate::barriers::check_barriers;
use crate::calls::{self, irregular_counts};
use crate::check::{Failure, Outcome, check, check_eq};
use crate::reduction_cases::{AFFINE_MAPS, SUM};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("algorithms/barrier", 1, |comm| for_each_algorithm(comm, Operation::Barrier, barrier)),
    Case::new("algorithms/bcast", 1, |comm| for_each_algorithm(comm, Operation::Bcast { root: 0 }, bcast)),
    Case::new("algorithms/scatter", 1, |comm| for_each_algorithm(comm, Operation::Scatter { root: 0 }, scatter)),
    Case::new("algorithms/gather", 1, |comm| for_each_algorithm(comm, Operation::Gather { root: 0 }, gather)),
    Case::new("algorithms/allgather", 1, |comm| for_each_algorithm(comm, Operation::Allgather, allgather)),
    Case::new("algorithms/reduce", 1, |comm| for_each_algorithm(comm, Operation::Reduce { root: 0 }, reduce)),
    Case::new("algorithms/allreduce", 1, |comm| for_each_algorithm(comm, Operation::Allreduce, allreduce)),
    Case::new("algorithms/reduce-scatter", 1, |comm| {
        for_each_algorithm(comm, Operation::ReduceScatter, reduce_scatter)
    }),
    Case::new("algorithms/alltoall", 1, |comm| for_each_algorithm(comm, Operation::Alltoall, alltoall)),
    Case::new("algorithms/scan", 1, |comm| for_each_algorithm(comm, Operation::Scan, scan)),
    Case::new("algorithms/exscan", 1, |comm| for_each_algorithm(comm, Operation::Exscan, exscan)),
    Case::new("algorithms/floating-point-is-the-same-everywhere", 1, |comm| {
        for_each_algorithm(comm, Operation::Allreduce, floats_are_the_same)
    }),
    Case::new("algorithms/world/barrier", 1, |comm| for_each_algorithm_of_world(comm, Operation::Barrier, barrier))
        .of_world(),
    Case::new("algorithms/world/bcast", 1, |comm| {
        for_each_algorithm_of_world(comm, Operation::Bcast { root: 0 }, bcast)
    })
    .of_world(),
    Case::new("algorithms/world/scatter", 1, |comm| {
        for_each_algorithm_of_world(comm, Operation::Scatter { root: 0 }, scatter)
    })
    .of_world(),
    Case::new("algorithms/world/gather", 1, |comm| {
        for_each_algorithm_of_world(comm, Operation::Gather { root: 0 }, gather)
    })
    .of_world(),
    Case::new("algorithms/world/allgather", 1, |comm| {
        for_each_algorithm_of_world(comm, Operation::Allgather, allgather)
    })
    .of_world(),
    Case::new("algorithms/world/reduce", 1, |comm| {
        for_each_algorithm_of_world(comm, Operation::Reduce { root: 0 }, reduce)
    })
    .of_world(),
    Case::new("algorithms/world/allreduce", 1, |comm| {
        for_each_algorithm_of_world(comm, Operation::Allreduce, allreduce)
    })
    .of_world(),
    Case::new("algorithms/world/reduce-scatter", 1, |comm| {
        for_each_algorithm_of_world(comm, Operation::ReduceScatter, reduce_scatter)
    })
    .of_world(),
    Case::new("algorithms/world/alltoall", 1, |comm| for_each_algorithm_of_world(comm, Operation::Alltoall, alltoall))
        .of_world(),
    Case::new("algorithms/world/scan", 1, |comm| for_each_algorithm_of_world(comm, Operation::Scan, scan)).of_world(),
    Case::new("algorithms/world/exscan", 1, |comm| for_each_algorithm_of_world(comm, Operation::Exscan, exscan))
        .of_world(),
];

/// An algorithm under test, and a communicator that uses it.
struct Trial<'a> {
    comm: &'a Comm,
    id: &'a str,
    network: &'a Network,
    operation: Operation,
    counts: Vec<usize>,
    /// Whether each rank is the root once.
    every_root: bool,
}

impl Trial<'_> {
    /// Whether the registry accepts the algorithm for such a call. The calls themselves then check that it is right.
    fn supports(&self, change: impl Fn(&mut CollectiveSpec<'_>)) -> bool {
        let mut request = CollectiveSpec::new(self.operation, self.network);
        change(&mut request);
        registry::build(self.id, &request).is_ok()
    }

    fn supports_noncommutative(&self) -> bool {
        self.supports(|request| request.commutative = false)
    }

    fn supports_in_place(&self) -> bool {
        self.supports(|request| request.in_place = true)
    }

    fn supports_irregular(&self) -> bool {
        self.supports(|request| request.uniform = false)
    }

    /// Counts and roots of the calls: one root for each count, and every root once.
    fn counts_and_roots(&self) -> Vec<(usize, Rank)> {
        let size = self.comm.size();
        let mut all: Vec<(usize, Rank)> =
            self.counts.iter().enumerate().map(|(i, count)| (*count, (3 * i + size - 1) % size)).collect();
        if self.every_root {
            all.extend((0..size).map(|root| (5, root)));
        }
        all
    }
}

/// Networks of `ranks` ranks.
pub(crate) fn networks(ranks: usize) -> Vec<String> {
    let mut texts: Vec<String> = match ranks {
        1 => vec!["torus:1", "clusters:1"],
        2 => vec!["torus:2", "mesh:2", "clusters:1+1"],
        4 => vec!["torus:2x2", "mesh:4", "torus:2x2,wrap=yn", "clos:r6,t4", "clusters:1+3", "flat:4,ppn=2"],
        6 => vec!["torus:2x3", "mesh:3x2", "clusters:1+3+2", "clusters:(1+2)+(2+1)"],
        8 => vec![
            "torus:2x2x2",
            "torus:2x4",
            "mesh:2x4",
            "torus:4x2,wrap=yn",
            "clos:r6,t4",
            "clusters:3+5",
            "clusters:2x2x2",
            "flat:8,ppn=4",
        ],
        16 => vec!["torus:4x4", "clusters:3+5+8", "flat:16,ppn=4"],
        _ => Vec::new(),
    }
    .into_iter()
    .map(str::to_owned)
    .collect();
    if texts.is_empty() {
        texts.extend([format!("torus:{ranks}"), format!("mesh:{ranks}"), format!("clusters:1+{}", ranks - 1)]);
    }
    // Nodes without a rank, and ranks in another order than their nodes.
    texts.extend((ranks == 5).then(|| "torus:2x4@0-2+5+7".to_owned()));
    texts.extend((ranks == 8).then(|| "mesh:3x3@8+1-7".to_owned()));
    texts.extend((ranks == 8).then(|| "clusters:(1+3)+(4)@6+0+3+7+1+2+5+4".to_owned()));
    texts
}

/// Whether the number of ranks calls for fewer counts and roots.
fn has_many_ranks(comm: &Comm) -> bool {
    comm.size() > 8
}

/// Tries every variant of every algorithm for an operation.
fn for_each_algorithm(comm: &Comm, operation: Operation, works: fn(&Trial<'_>) -> Outcome) -> Outcome {
    let counts: &[usize] = if has_many_ranks(comm) { &[7] } else { &[0, 1, 7, 1001] };
    for_each_algorithm_with(comm, operation, works, counts, !has_many_ranks(comm))
}

/// The same on the world, with lengths on both sides of each change of transport. The total of all blocks decides the
/// transport. Allgather and reduce-scatter have very many variants, so their blocks are shorter.
fn for_each_algorithm_of_world(comm: &Comm, operation: Operation, works: fn(&Trial<'_>) -> Outcome) -> Outcome {
    let counts: &[usize] = match operation {
        _ if has_many_ranks(comm) => &[7],
        Operation::Allgather | Operation::ReduceScatter => &[1, 7, 60, 1300],
        _ => &[1, 7, 500, 9000],
    };
    for_each_algorithm_with(comm, operation, works, counts, false)
}

/// The counts for a variant of an algorithm. In short runs only the first variant has all, and the others every other one,
/// in turn, which takes half of the time.
fn counts_of(variant: usize, counts: &[usize]) -> Vec<usize> {
    let step = if variant == 0 || std::env::var_os("TREEPIE_LONG").is_some() { 1 } else { 2.min(counts.len()) };
    counts.iter().copied().skip(variant % step).step_by(step).collect()
}

fn for_each_algorithm_with(
    comm: &Comm,
    operation: Operation,
    works: fn(&Trial<'_>) -> Outcome,
    counts: &[usize],
    every_root: bool,
) -> Outcome {
    let flat = Network::flat(comm.size() as u32);
    let of_operation = || registry::all().iter().filter(|algorithm| algorithm.operation() == operation.name());
    let mut tried: BTreeSet<&str> = BTreeSet::new();
    let mut try_on = |text: Option<&str>, network: &Network| {
        let comm = match text {
            Some(text) => comm.with_network(text)?,
            None => comm.clone(),
        };
        for algorithm in of_operation() {
            for (variant, id) in algorithm.variants().into_iter().enumerate() {
                let on_flat = registry::build(&id, &CollectiveSpec::new(operation, &flat)).is_ok();
                let depends = id.contains("hamiltonian") || id.contains("bucket_fan");
                let applies = registry::build(&id, &CollectiveSpec::new(operation, network)).is_ok();
                if !applies || (text.is_some() && on_flat && !depends) {
                    continue;
                }
                let (comm, counts) = (comm.with_algorithm(&id)?, counts_of(variant, counts));
                let trial = Trial { comm: &comm, id: &id, network, operation, counts, every_root };
                let on_network = text.map_or(String::new(), |text| format!(" on {text}"));
                works(&trial).map_err(|failure| failure.context(format_args!("{id}{on_network}")))?;
                tried.insert(&algorithm.id);
            }
        }
        Ok::<(), Failure>(())
    };
    // Flat, but for clusters behind emulated links.
    try_on(None, comm.network()?)?;
    for text in networks(comm.size()) {
        let network = text.parse::<Network>().and_then(|network| network.for_ranks(comm.size() as u32));
        let network = network.map_err(|error| Failure::new(format!("{text}: {error}")))?;
        try_on(Some(&text), &network)?;
    }
    // For eight ranks the list has a network for each algorithm.
    for algorithm in of_operation() {
        let must = comm.size() == 8 || algorithm.requires.network == NetworkRequirement::Any;
        check!(!must || tried.contains(algorithm.id.as_str()), "{} was not tried", algorithm.id);
    }
    Ok(())
}

fn barrier(trial: &Trial<'_>) -> Outcome {
    check_barriers(trial.comm, 3)?;
    Ok(trial.comm.ibarrier()?.wait()?)
}

fn bcast(trial: &Trial<'_>) -> Outcome {
    trial.counts_and_roots().into_iter().try_for_each(|(count, root)| calls::bcast::<u64>(trial.comm, count, root))
}

fn scatter(trial: &Trial<'_>) -> Outcome {
    for (count, root) in trial.counts_and_roots() {
        calls::scatter::<u64>(trial.comm, count, root)?;
        if trial.supports_in_place() {
            calls::scatter_in_place::<u64>(trial.comm, count, root)?;
        }
        if trial.supports_irregular() {
            calls::scatterv::<u64>(trial.comm, &irregular_counts(trial.comm.size(), count), root)?;
        }
    }
    Ok(())
}

fn gather(trial: &Trial<'_>) -> Outcome {
    for (count, root) in trial.counts_and_roots() {
        calls::gather::<u64>(trial.comm, count, root)?;
        if trial.supports_in_place() {
            calls::gather_in_place::<u64>(trial.comm, count, root)?;
        }
        if trial.supports_irregular() {
            calls::gatherv::<u64>(trial.comm, &irregular_counts(trial.comm.size(), count), root)?;
        }
    }
    Ok(())
}

fn allgather(trial: &Trial<'_>) -> Outcome {
    for count in &trial.counts {
        calls::allgather::<u64>(trial.comm, *count)?;
        if trial.supports_in_place() {
            calls::allgather_in_place::<u64>(trial.comm, *count)?;
        }
        if trial.supports_irregular() {
            calls::allgatherv::<u64>(trial.comm, &irregular_counts(trial.comm.size(), *count))?;
        }
    }
    Ok(())
}

fn reduce(trial: &Trial<'_>) -> Outcome {
    let (ordered, in_place) = (trial.supports_noncommutative(), trial.supports_in_place());
    for (count, root) in trial.counts_and_roots() {
        if ordered {
            calls::reduce(trial.comm, &AFFINE_MAPS, count, root)?;
        } else {
            calls::reduce(trial.comm, &SUM, count, root)?;
        }
        if in_place {
            calls::reduce_in_place(trial.comm, &SUM, count, root)?;
        }
        if in_place && ordered {
            calls::reduce_in_place(trial.comm, &AFFINE_MAPS, count, root)?;
        }
    }
    Ok(())
}

fn allreduce(trial: &Trial<'_>) -> Outcome {
    let (ordered, in_place) = (trial.supports_noncommutative(), trial.supports_in_place());
    for count in &trial.counts {
        if ordered {
            calls::allreduce(trial.comm, &AFFINE_MAPS, *count)?;
        } else {
            calls::allreduce(trial.comm, &SUM, *count)?;
        }
        if in_place {
            calls::allreduce_in_place(trial.comm, &SUM, *count)?;
        }
        if in_place && ordered {
            calls::allreduce_in_place(trial.comm, &AFFINE_MAPS, *count)?;
        }
    }
    Ok(())
}

fn reduce_scatter(trial: &Trial<'_>) -> Outcome {
    let (ordered, in_place, uneven) =
        (trial.supports_noncommutative(), trial.supports_in_place(), trial.supports_irregular());
    for count in &trial.counts {
        let counts = irregular_counts(trial.comm.size(), *count);
        if ordered {
            calls::reduce_scatter_block(trial.comm, &AFFINE_MAPS, *count)?;
        } else {
            calls::reduce_scatter_block(trial.comm, &SUM, *count)?;
        }
        if in_place && ordered {
            calls::reduce_scatter_block_in_place(trial.comm, &AFFINE_MAPS, *count)?;
        } else if in_place {
            calls::reduce_scatter_block_in_place(trial.comm, &SUM, *count)?;
        }
        if uneven && ordered {
            calls::reduce_scatter(trial.comm, &AFFINE_MAPS, &counts)?;
        } else if uneven {
            calls::reduce_scatter(trial.comm, &SUM, &counts)?;
        }
    }
    Ok(())
}

fn alltoall(trial: &Trial<'_>) -> Outcome {
    for count in &trial.counts {
        calls::alltoall::<u64>(trial.comm, *count)?;
        if trial.supports_irregular() {
            calls::alltoallv::<u64>(trial.comm, *count)?;
        }
    }
    Ok(())
}

fn scan(trial: &Trial<'_>) -> Outcome {
    for count in &trial.counts {
        calls::scan(trial.comm, &AFFINE_MAPS, *count)?;
        calls::scan_in_place(trial.comm, &AFFINE_MAPS, *count)?;
    }
    Ok(())
}

fn exscan(trial: &Trial<'_>) -> Outcome {
    for count in &trial.counts {
        calls::exscan(trial.comm, &AFFINE_MAPS, *count)?;
        calls::exscan_in_place(trial.comm, &AFFINE_MAPS, *count)?;
    }
    Ok(())
}

/// Floating-point sums, which depend on the order of additions, are bitwise equal on all ranks and in each call.
fn floats_are_the_same(trial: &Trial<'_>) -> Outcome {
    let comm = trial.comm;
    let count = if has_many_ranks(comm) { 7 } else { 101 };
    let number = |i: usize| (1.0 + comm.rank() as f64 / 3.0) * 10f64.powi((comm.rank() * 7 + i) as i32 % 31 - 15);
    let data: Vec<f64> = (0..count).map(number).collect();
    let bits = |sum: Vec<f64>| sum.into_iter().map(f64::to_bits).collect::<Vec<u64>>();
    let sum = bits(comm.allreduce(&data, Sum)?);
    let all = comm.allgather(&sum)?;
    for (rank, other) in all.chunks(count).enumerate() {
        check_eq!(sum, other, "bits of the sum here, and on rank {rank}");
    }
    check_eq!(bits(comm.allreduce(&data, Sum)?), sum, "bits of the same sum again");
    check_eq!(bits(comm.iallreduce(data, Sum)?.wait()?), sum, "bits of the same sum, nonblocking");
    Ok(())
}
