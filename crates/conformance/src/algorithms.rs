//! Every algorithm of the table in every variant, on every network that fits the number of ranks, compared with a plain
//! reference.
//!
//! On networks that are not flat, only those run that need one, or look at it. All of it once more on the communicator of
//! the world: there, what is short goes over memory that all ranks read, if the engine has such, and not by messages.

use std::collections::BTreeSet;

use treepie::{Comm, Rank, Sum};
use treepie_collectives::registry::{self, Networks, Request};
use treepie_schedule::Operation;
use treepie_topology::Network;

use crate::barriers::separates;
use crate::calls::{self, irregular};
use crate::check::{Failure, Outcome, check, check_eq};
use crate::folds::{MAPS, SUM};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("algorithms/barrier", 1, |comm| every(comm, Operation::Barrier, barrier)),
    Case::new("algorithms/bcast", 1, |comm| every(comm, Operation::Bcast { root: 0 }, bcast)),
    Case::new("algorithms/scatter", 1, |comm| every(comm, Operation::Scatter { root: 0 }, scatter)),
    Case::new("algorithms/gather", 1, |comm| every(comm, Operation::Gather { root: 0 }, gather)),
    Case::new("algorithms/allgather", 1, |comm| every(comm, Operation::Allgather, all_gather)),
    Case::new("algorithms/reduce", 1, |comm| every(comm, Operation::Reduce { root: 0 }, reduce)),
    Case::new("algorithms/allreduce", 1, |comm| every(comm, Operation::Allreduce, all_reduce)),
    Case::new("algorithms/reduce-scatter", 1, |comm| every(comm, Operation::ReduceScatter, reduce_scatter)),
    Case::new("algorithms/alltoall", 1, |comm| every(comm, Operation::Alltoall, all_to_all)),
    Case::new("algorithms/scan", 1, |comm| every(comm, Operation::Scan, scan)),
    Case::new("algorithms/exscan", 1, |comm| every(comm, Operation::Exscan, exscan)),
    Case::new("algorithms/floating-point-is-the-same-everywhere", 1, |comm| {
        every(comm, Operation::Allreduce, floats_are_the_same)
    }),
    Case::new("algorithms/world/barrier", 1, |comm| every_of_world(comm, Operation::Barrier, barrier)).of_world(),
    Case::new("algorithms/world/bcast", 1, |comm| every_of_world(comm, Operation::Bcast { root: 0 }, bcast)).of_world(),
    Case::new("algorithms/world/scatter", 1, |comm| every_of_world(comm, Operation::Scatter { root: 0 }, scatter))
        .of_world(),
    Case::new("algorithms/world/gather", 1, |comm| every_of_world(comm, Operation::Gather { root: 0 }, gather))
        .of_world(),
    Case::new("algorithms/world/allgather", 1, |comm| every_of_world(comm, Operation::Allgather, all_gather))
        .of_world(),
    Case::new("algorithms/world/reduce", 1, |comm| every_of_world(comm, Operation::Reduce { root: 0 }, reduce))
        .of_world(),
    Case::new("algorithms/world/allreduce", 1, |comm| every_of_world(comm, Operation::Allreduce, all_reduce))
        .of_world(),
    Case::new("algorithms/world/reduce-scatter", 1, |comm| {
        every_of_world(comm, Operation::ReduceScatter, reduce_scatter)
    })
    .of_world(),
    Case::new("algorithms/world/alltoall", 1, |comm| every_of_world(comm, Operation::Alltoall, all_to_all)).of_world(),
    Case::new("algorithms/world/scan", 1, |comm| every_of_world(comm, Operation::Scan, scan)).of_world(),
    Case::new("algorithms/world/exscan", 1, |comm| every_of_world(comm, Operation::Exscan, exscan)).of_world(),
];

/// An algorithm on a communicator that uses it.
struct Trial<'a> {
    comm: &'a Comm,
    id: &'a str,
    network: &'a Network,
    operation: Operation,
    counts: &'static [usize],
    /// Whether each rank is the root once.
    every_root: bool,
}

impl Trial<'_> {
    /// Whether it can be used for such a call. The table says so; that calls agree with it is checked by making them.
    fn can(&self, change: impl Fn(&mut Request<'_>)) -> bool {
        let mut request = Request::new(self.operation, self.network);
        change(&mut request);
        registry::build(self.id, &request).is_ok()
    }

    fn without_commuting(&self) -> bool {
        self.can(|request| request.commutative = false)
    }

    fn in_place(&self) -> bool {
        self.can(|request| request.in_place = true)
    }

    fn irregular(&self) -> bool {
        self.can(|request| request.uniform = false)
    }

    /// Calls with these counts and roots: one root each, and all of them once.
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

/// Networks with so many ranks.
fn networks(ranks: usize) -> Vec<String> {
    let mut texts: Vec<String> = match ranks {
        1 => vec!["torus:1", "clusters:1"],
        2 => vec!["torus:2", "mesh:2", "clusters:1+1"],
        4 => vec!["torus:2x2", "mesh:4", "torus:2x2,wrap=yn", "clos:r6,t4", "clusters:1+3"],
        6 => vec!["torus:2x3", "mesh:3x2", "clusters:1+3+2"],
        8 => vec!["torus:2x2x2", "torus:2x4", "mesh:2x4", "torus:4x2,wrap=yn", "clos:r6,t4", "clusters:3+5"],
        16 => vec!["torus:4x4", "clusters:3+5+8"],
        _ => Vec::new(),
    }
    .into_iter()
    .map(str::to_owned)
    .collect();
    if texts.is_empty() {
        texts.extend([format!("torus:{ranks}"), format!("mesh:{ranks}"), format!("clusters:1+{}", ranks - 1)]);
    }
    // Places without a rank, and ranks in another order than their places.
    texts.extend((ranks == 5).then(|| "torus:2x4@0-2+5+7".to_owned()));
    texts.extend((ranks == 8).then(|| "mesh:3x3@8+1-7".to_owned()));
    texts
}

/// Whether there are so many ranks that less must do.
fn is_crowded(comm: &Comm) -> bool {
    comm.size() > 8
}

/// Tries every variant of every algorithm for an operation.
fn every(comm: &Comm, operation: Operation, works: fn(&Trial<'_>) -> Outcome) -> Outcome {
    let counts: &[usize] = if is_crowded(comm) { &[7] } else { &[0, 1, 7, 1001] };
    every_with(comm, operation, works, counts, !is_crowded(comm))
}

/// The same on the communicator of the world, with lengths around those at which the way changes. It is all blocks
/// together that count, and of those two there are so many variants that their blocks must be shorter.
fn every_of_world(comm: &Comm, operation: Operation, works: fn(&Trial<'_>) -> Outcome) -> Outcome {
    let counts: &[usize] = match operation {
        _ if is_crowded(comm) => &[7],
        Operation::Allgather | Operation::ReduceScatter => &[1, 7, 60, 1300],
        _ => &[1, 7, 500, 9000],
    };
    every_with(comm, operation, works, counts, false)
}

fn every_with(
    comm: &Comm,
    operation: Operation,
    works: fn(&Trial<'_>) -> Outcome,
    counts: &'static [usize],
    every_root: bool,
) -> Outcome {
    let flat = Network::flat(comm.size() as u32);
    let of_operation = || registry::all().iter().filter(|algorithm| algorithm.operation() == operation.name());
    let mut tried: BTreeSet<&str> = BTreeSet::new();
    let mut try_on = |text: Option<&str>, network: &Network| {
        let comm = match text {
            Some(text) => comm.on(text)?,
            None => comm.clone(),
        };
        for algorithm in of_operation() {
            for id in algorithm.variants() {
                let on_flat = registry::build(&id, &Request::new(operation, &flat)).is_ok();
                let looks = id.contains("hamiltonian") || id.contains("bucket_fan");
                let applies = registry::build(&id, &Request::new(operation, network)).is_ok();
                if !applies || (text.is_some() && on_flat && !looks) {
                    continue;
                }
                let trial = Trial { comm: &comm.using(&id)?, id: &id, network, operation, counts, every_root };
                let place = text.map_or(String::new(), |text| format!(" on {text}"));
                works(&trial).map_err(|failure| failure.during(format_args!("{id}{place}")))?;
                tried.insert(&algorithm.id);
            }
        }
        Ok::<(), Failure>(())
    };
    try_on(None, &flat)?;
    for text in networks(comm.size()) {
        let network = text.parse::<Network>().and_then(|network| network.for_ranks(comm.size() as u32));
        let network = network.map_err(|error| Failure::new(format!("{text}: {error}")))?;
        try_on(Some(&text), &network)?;
    }
    // Where the ranks make many networks, there is one for each algorithm.
    for algorithm in of_operation() {
        let must = comm.size() == 8 || algorithm.requires.networks == Networks::Any;
        check!(!must || tried.contains(algorithm.id.as_str()), "{} was not tried", algorithm.id);
    }
    Ok(())
}

fn barrier(trial: &Trial<'_>) -> Outcome {
    separates(trial.comm, 3)?;
    Ok(trial.comm.ibarrier()?.wait()?)
}

fn bcast(trial: &Trial<'_>) -> Outcome {
    trial.counts_and_roots().into_iter().try_for_each(|(count, root)| calls::bcast::<u64>(trial.comm, count, root))
}

fn scatter(trial: &Trial<'_>) -> Outcome {
    for (count, root) in trial.counts_and_roots() {
        calls::scatter::<u64>(trial.comm, count, root)?;
        if trial.in_place() {
            calls::scatter_in_place::<u64>(trial.comm, count, root)?;
        }
        if trial.irregular() {
            calls::scatterv::<u64>(trial.comm, &irregular(trial.comm.size(), count), root)?;
        }
    }
    Ok(())
}

fn gather(trial: &Trial<'_>) -> Outcome {
    for (count, root) in trial.counts_and_roots() {
        calls::gather::<u64>(trial.comm, count, root)?;
        if trial.in_place() {
            calls::gather_in_place::<u64>(trial.comm, count, root)?;
        }
        if trial.irregular() {
            calls::gatherv::<u64>(trial.comm, &irregular(trial.comm.size(), count), root)?;
        }
    }
    Ok(())
}

fn all_gather(trial: &Trial<'_>) -> Outcome {
    for count in trial.counts {
        calls::all_gather::<u64>(trial.comm, *count)?;
        if trial.in_place() {
            calls::all_gather_in_place::<u64>(trial.comm, *count)?;
        }
        if trial.irregular() {
            calls::all_gatherv::<u64>(trial.comm, &irregular(trial.comm.size(), *count))?;
        }
    }
    Ok(())
}

fn reduce(trial: &Trial<'_>) -> Outcome {
    let (ordered, in_place) = (trial.without_commuting(), trial.in_place());
    for (count, root) in trial.counts_and_roots() {
        if ordered {
            calls::reduce(trial.comm, &MAPS, count, root)?;
        } else {
            calls::reduce(trial.comm, &SUM, count, root)?;
        }
        if in_place {
            calls::reduce_in_place(trial.comm, &SUM, count, root)?;
        }
        if in_place && ordered {
            calls::reduce_in_place(trial.comm, &MAPS, count, root)?;
        }
    }
    Ok(())
}

fn all_reduce(trial: &Trial<'_>) -> Outcome {
    let (ordered, in_place) = (trial.without_commuting(), trial.in_place());
    for count in trial.counts {
        if ordered {
            calls::all_reduce(trial.comm, &MAPS, *count)?;
        } else {
            calls::all_reduce(trial.comm, &SUM, *count)?;
        }
        if in_place {
            calls::all_reduce_in_place(trial.comm, &SUM, *count)?;
        }
        if in_place && ordered {
            calls::all_reduce_in_place(trial.comm, &MAPS, *count)?;
        }
    }
    Ok(())
}

fn reduce_scatter(trial: &Trial<'_>) -> Outcome {
    let (ordered, in_place, uneven) = (trial.without_commuting(), trial.in_place(), trial.irregular());
    for count in trial.counts {
        let counts = irregular(trial.comm.size(), *count);
        if ordered {
            calls::reduce_scatter(trial.comm, &MAPS, *count)?;
        } else {
            calls::reduce_scatter(trial.comm, &SUM, *count)?;
        }
        if in_place && ordered {
            calls::reduce_scatter_in_place(trial.comm, &MAPS, *count)?;
        } else if in_place {
            calls::reduce_scatter_in_place(trial.comm, &SUM, *count)?;
        }
        if uneven && ordered {
            calls::reduce_scatterv(trial.comm, &MAPS, &counts)?;
        } else if uneven {
            calls::reduce_scatterv(trial.comm, &SUM, &counts)?;
        }
    }
    Ok(())
}

fn all_to_all(trial: &Trial<'_>) -> Outcome {
    for count in trial.counts {
        calls::all_to_all::<u64>(trial.comm, *count)?;
        if trial.irregular() {
            calls::all_to_allv::<u64>(trial.comm, *count)?;
        }
    }
    Ok(())
}

fn scan(trial: &Trial<'_>) -> Outcome {
    for count in trial.counts {
        calls::scan(trial.comm, &MAPS, *count)?;
        calls::scan_in_place(trial.comm, &MAPS, *count)?;
    }
    Ok(())
}

fn exscan(trial: &Trial<'_>) -> Outcome {
    for count in trial.counts {
        calls::exscan(trial.comm, &MAPS, *count)?;
        calls::exscan_in_place(trial.comm, &MAPS, *count)?;
    }
    Ok(())
}

/// Numbers whose sum depends on how they are grouped have one sum, on all ranks and each time.
fn floats_are_the_same(trial: &Trial<'_>) -> Outcome {
    let comm = trial.comm;
    let count = if is_crowded(comm) { 7 } else { 101 };
    let number = |i: usize| (1.0 + comm.rank() as f64 / 3.0) * 10f64.powi((comm.rank() * 7 + i) as i32 % 31 - 15);
    let data: Vec<f64> = (0..count).map(number).collect();
    let bits = |sum: Vec<f64>| sum.into_iter().map(f64::to_bits).collect::<Vec<u64>>();
    let sum = bits(comm.all_reduce(&data, Sum)?);
    let all = comm.all_gather(&sum)?;
    for (rank, other) in all.chunks(count).enumerate() {
        check_eq!(sum, other, "bits of the sum here, and on rank {rank}");
    }
    check_eq!(bits(comm.all_reduce(&data, Sum)?), sum, "bits of the same sum again");
    check_eq!(bits(comm.iall_reduce(data, Sum)?.wait()?), sum, "bits of the same sum, nonblocking");
    Ok(())
}
