//! The registered allgather cores, and the operations composed of them.

use treepie_schedule::{AllgatherCore, Schedule};

use super::{Algorithm, BlockOrder, CollectiveSpec, NetworkRequirement, Parameter, Requirements};
use crate::allgather_cores;
use crate::from_allgather::{Allgather, Allreduce, ReduceScatter};
use crate::rooted::{ReduceScatterGather, ScatterAllgather};

/// A registered core.
struct CoreEntry {
    name: &'static str,
    network: NetworkRequirement,
    /// Whether its mirror image is rank-ordered.
    ordered: bool,
    order: Option<Parameter>,
    parameters: &'static [Parameter],
    /// The cost of an allgather of n elements from each rank, and of its mirror image.
    cost: &'static str,
    citation: &'static str,
    build: fn(&CollectiveSpec<'_>, bool) -> Option<Box<dyn AllgatherCore>>,
}

static ENTRIES: [CoreEntry; 12] = [
    CoreEntry {
        name: "direct",
        network: NetworkRequirement::Any,
        ordered: true,
        order: None,
        parameters: &[],
        cost: "(P-1)(alpha + n beta)",
        citation: "linear exchange",
        build: |spec, _| Some(Box::new(allgather_cores::Direct { ranks: spec.ranks })),
    },
    CoreEntry {
        name: "ring",
        network: NetworkRequirement::Any,
        ordered: false,
        order: None,
        parameters: &[],
        cost: "(P-1)(alpha + n delta)",
        citation: "thesis 3.3.1",
        build: |spec, _| Some(Box::new(allgather_cores::Bucket::ring(spec.ranks))),
    },
    CoreEntry {
        name: "bruck",
        network: NetworkRequirement::Any,
        ordered: false,
        order: None,
        parameters: &[],
        cost: "ceil(lg P) alpha + (P-1) n beta",
        citation: "Bruck et al. 1997",
        build: |spec, _| Some(Box::new(allgather_cores::Bruck { ranks: spec.ranks })),
    },
    CoreEntry {
        name: "distance_doubling",
        network: NetworkRequirement::Any,
        ordered: false,
        order: None,
        parameters: &[],
        cost: "lg P alpha (*) + (P-1) n beta; Clos: ((T-1) + (P-T)/mu) n delta; p^3 torus: (1+p+p^2)(5p^2/24-1/3) n delta",
        citation: "thesis 3.3.1",
        build: |spec, _| Some(Box::new(allgather_cores::distance_doubling(spec.ranks))),
    },
    CoreEntry {
        name: "distance_halving",
        network: NetworkRequirement::Any,
        ordered: true,
        order: Some(Parameter::AnyOrder),
        parameters: &[],
        cost: "lg P alpha (*) + (P-1) n beta; Clos: ((P/T-1)/mu + P - P/T) n delta",
        citation: "thesis 3.3.1",
        build: |spec, shuffled| Some(Box::new(allgather_cores::distance_halving(spec.ranks, shuffled))),
    },
    CoreEntry {
        name: "torus_reordered",
        network: NetworkRequirement::Grid,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        parameters: &[],
        cost: "lg P alpha (*) + at most about 7/6 P n delta on a cube",
        citation: "thesis 3.4.1",
        build: |spec, shuffled| Some(Box::new(allgather_cores::torus_reordered(spec.network, shuffled)?)),
    },
    CoreEntry {
        name: "hamiltonian",
        network: NetworkRequirement::Any,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        parameters: &[],
        cost: "lg P alpha (*) + (P-1) n beta; routed along the path: P/2 lg P n delta",
        citation: "thesis 3.4.3",
        build: |spec, shuffled| Some(Box::new(allgather_cores::hamiltonian(spec.network, shuffled))),
    },
    CoreEntry {
        name: "hamiltonian_lanes",
        network: NetworkRequirement::Any,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        parameters: &[],
        cost: "k paths: k lg P alpha (*) + 1/k of hamiltonian's n delta where routes share no link",
        citation: "thesis 3.4.3",
        build: |spec, shuffled| Some(Box::new(allgather_cores::hamiltonian_lanes(spec.network, shuffled))),
    },
    CoreEntry {
        name: "bucket",
        network: NetworkRequirement::IdentityGrid,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        parameters: &[],
        cost: "(X+Y+Z-3) alpha + (P-1) n delta",
        citation: "thesis 3.3.2",
        build: |spec, shuffled| {
            let dims = spec.network.as_torus()?.dims();
            let order: Vec<usize> = (0..dims.len()).collect();
            Some(Box::new(allgather_cores::Bucket::new(dims, &order, false, shuffled)))
        },
    },
    CoreEntry {
        name: "bucket_k",
        network: NetworkRequirement::IdentityGrid,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        parameters: &[Parameter::Buckets],
        cost: "k buckets on p^3: 3k(p-1) alpha + (P-1)/k n delta, k up to 6 on a torus, 3 on a mesh",
        citation: "thesis 3.4.2",
        build: |spec, shuffled| {
            Some(match spec.parameters.buckets {
                0 => Box::new(allgather_cores::bucket_k(spec.network, shuffled)?),
                count => Box::new(allgather_cores::buckets(spec.network.as_torus()?.dims(), count, shuffled)),
            })
        },
    },
    CoreEntry {
        name: "hybrid",
        network: NetworkRequirement::IdentityGrid,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        parameters: &[],
        cost: "p^3 torus, p a power of two from 4 on: (2 lg P + 6(p-1)) alpha + (P/6 + p^2/3 - 3p/4) n delta",
        citation: "thesis 3.6.1",
        build: |spec, shuffled| Some(Box::new(allgather_cores::hybrid(spec.network, shuffled)?)),
    },
    CoreEntry {
        name: "alternating",
        network: NetworkRequirement::PowerOfTwoGrid,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        parameters: &[],
        cost: "p x p mesh: lg P alpha + (9/8 - 3/(4p)) P n delta",
        citation: "thesis 3.2.1",
        build: |spec, shuffled| {
            Some(Box::new(allgather_cores::Alternating::new(spec.network.as_torus()?.dims(), shuffled)?))
        },
    },
];

/// The names of the cores.
pub(super) fn names() -> Vec<&'static str> {
    ENTRIES.iter().map(|entry| entry.name).collect()
}

impl CoreEntry {
    fn build_core(&self, spec: &CollectiveSpec<'_>) -> Result<Box<dyn AllgatherCore>, String> {
        let shuffled = spec.parameters.order == BlockOrder::Shuffled && self.order.is_some();
        (self.build)(spec, shuffled).ok_or_else(|| format!("it requires {}", self.network.description()))
    }

    /// Whether blocks are reordered in memory; a core without the parameter has no order to restore.
    fn reorders(&self, spec: &CollectiveSpec<'_>) -> bool {
        spec.parameters.order == BlockOrder::Reordered && self.order.is_some()
    }

    fn all_parameters(&self) -> Vec<Parameter> {
        self.parameters.iter().copied().chain(self.order).collect()
    }
}

/// The core named by the parameters, if the network supports it.
fn core_by_name(spec: &CollectiveSpec<'_>) -> Result<Box<dyn AllgatherCore>, String> {
    let name = spec.parameters.core;
    let entry = ENTRIES.iter().find(|entry| entry.name == name).ok_or_else(|| format!("unknown core {name}"))?;
    if let Some(needed) = entry.network.unmet(spec.network) {
        return Err(format!("its core {name} requires {needed}, but the network is {}", spec.network));
    }
    if spec.operation.is_reduction() && !entry.ordered && !spec.commutative {
        return Err(format!("its core {name} requires a commutative operator"));
    }
    entry.build_core(spec)
}

/// The requirements of a reduction by the mirror image of this core.
fn reduction_requirements(entry: &CoreEntry) -> Requirements {
    let requires = Requirements::NONE.on_network(entry.network);
    if entry.ordered { requires } else { requires.commutative() }
}

fn allgather(entry: &'static CoreEntry) -> Algorithm {
    let requires = Requirements::NONE.on_network(entry.network);
    let costs = (entry.cost, entry.citation);
    Algorithm::new(format!("allgather/{}", entry.name), requires, &entry.all_parameters(), costs, |spec| {
        let core = entry.build_core(spec)?;
        Ok(if entry.reorders(spec) {
            Box::new(Allgather::reordered(core)) as Box<dyn Schedule>
        } else {
            Box::new(Allgather::new(core))
        })
    })
}

fn reduce_scatter(entry: &'static CoreEntry) -> Algorithm {
    let costs = (entry.cost, entry.citation);
    Algorithm::new(
        format!("reduce_scatter/{}", entry.name),
        reduction_requirements(entry),
        &entry.all_parameters(),
        costs,
        |spec| {
            let core = entry.build_core(spec)?;
            Ok(if entry.reorders(spec) {
                Box::new(ReduceScatter::reordered(core)) as Box<dyn Schedule>
            } else {
                Box::new(ReduceScatter::new(core))
            })
        },
    )
}

fn allreduce(entry: &'static CoreEntry) -> Algorithm {
    // With the mirror image and the core, there is no order to restore in memory.
    let order = entry.order.map(|_| Parameter::Order);
    let parameters: Vec<Parameter> = entry.parameters.iter().copied().chain(order).collect();
    let (name, citation) = match entry.name {
        "distance_halving" => ("rabenseifner", "Rabenseifner 2004; thesis 3.4.4"),
        name => (name, entry.citation),
    };
    let cost = match entry.name {
        "direct" => "2(P-1)(alpha + n/P beta), two rounds",
        "ring" => "2(P-1)(alpha + n/P delta)",
        "bucket" => "2(X+Y+Z-3) alpha + 2(P-1)/P n delta",
        "distance_halving" => "2 lg P alpha (*) + 2(P-1)/P n beta",
        "alternating" => "p x p mesh: 2 lg P alpha + (9/4 - 3/(2p)) n delta",
        _ => "twice that of the allgather with n/P from each rank",
    };
    Algorithm::new(format!("allreduce/{name}"), reduction_requirements(entry), &parameters, (cost, citation), |spec| {
        Ok(Box::new(Allreduce::new(entry.build_core(spec)?)))
    })
}

pub(super) fn algorithms() -> Vec<Algorithm> {
    let mut all = Vec::new();
    for entry in &ENTRIES {
        // With the core `direct` these are `allgather/linear` and `reduce_scatter/linear`, which use the caller's
        // buffers.
        if entry.name != "direct" {
            all.extend([allgather(entry), reduce_scatter(entry)]);
        }
        all.push(allreduce(entry));
    }
    let parameters = [Parameter::Core, Parameter::Order];
    all.push(Algorithm::new(
        "bcast/scatter_allgather",
        Requirements::NONE,
        &parameters,
        ("ceil(lg P) alpha + (P-1)/P n beta, and the core's with n/P", "van de Geijn; thesis 3.2.2"),
        |spec| Ok(Box::new(ScatterAllgather::new(core_by_name(spec)?, root(spec)))),
    ));
    all.push(Algorithm::new(
        "reduce/reduce_scatter_gather",
        Requirements::NONE,
        &parameters,
        ("the core's with n/P, and ceil(lg P) alpha + (P-1)/P n beta", "Rabenseifner 2004; thesis 3.2.2"),
        |spec| Ok(Box::new(ReduceScatterGather::new(core_by_name(spec)?, root(spec)))),
    ));
    all
}

pub(super) fn root(spec: &CollectiveSpec<'_>) -> u32 {
    spec.operation.root().unwrap_or(0)
}
