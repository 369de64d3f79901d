//! Allgather cores, and the operations that are made of them.

use treepie_schedule::{Core, Schedule};

use super::{Algorithm, Networks, Order, Parameter, Request, Requires};
use crate::cores;
use crate::from_core::{Allgather, Allreduce, ReduceScatter};
use crate::rooted::{ReduceScatterGather, ScatterAllgather};

/// A core of the table.
struct Entry {
    name: &'static str,
    networks: Networks,
    /// Backwards it combines in the order of ranks.
    ordered: bool,
    order: Option<Parameter>,
    more: &'static [Parameter],
    /// Of an allgather of n from each rank; backwards it is the same.
    cost: &'static str,
    citation: &'static str,
    build: fn(&Request<'_>, bool) -> Option<Box<dyn Core>>,
}

static ENTRIES: [Entry; 12] = [
    Entry {
        name: "direct",
        networks: Networks::Any,
        ordered: true,
        order: None,
        more: &[],
        cost: "(P-1)(alpha + n beta)",
        citation: "all at once",
        build: |request, _| Some(Box::new(cores::Direct { ranks: request.ranks })),
    },
    Entry {
        name: "ring",
        networks: Networks::Any,
        ordered: false,
        order: None,
        more: &[],
        cost: "(P-1)(alpha + n delta)",
        citation: "thesis 3.3.1",
        build: |request, _| Some(Box::new(cores::Bucket::ring(request.ranks))),
    },
    Entry {
        name: "bruck",
        networks: Networks::Any,
        ordered: false,
        order: None,
        more: &[],
        cost: "ceil(lg P) alpha + (P-1) n beta",
        citation: "Bruck et al. 1997",
        build: |request, _| Some(Box::new(cores::Bruck { ranks: request.ranks })),
    },
    Entry {
        name: "distance_doubling",
        networks: Networks::Any,
        ordered: false,
        order: None,
        more: &[],
        cost: "lg P alpha (*) + (P-1) n beta; Clos: ((T-1) + (P-T)/mu) n delta; p^3 torus: (1+p+p^2)(5p^2/24-1/3) n delta",
        citation: "thesis 3.3.1",
        build: |request, _| Some(Box::new(cores::distance_doubling(request.ranks))),
    },
    Entry {
        name: "distance_halving",
        networks: Networks::Any,
        ordered: true,
        order: Some(Parameter::AnyOrder),
        more: &[],
        cost: "lg P alpha (*) + (P-1) n beta; Clos: ((P/T-1)/mu + P - P/T) n delta",
        citation: "thesis 3.3.1",
        build: |request, moved| Some(Box::new(cores::distance_halving(request.ranks, moved))),
    },
    Entry {
        name: "torus_reordered",
        networks: Networks::Grid,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        more: &[],
        cost: "lg P alpha (*) + at most about 7/6 P n delta on a cube",
        citation: "thesis 3.4.1",
        build: |request, moved| Some(Box::new(cores::torus_reordered(request.network, moved)?)),
    },
    Entry {
        name: "hamiltonian",
        networks: Networks::Any,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        more: &[],
        cost: "lg P alpha (*) + (P-1) n beta; routed along the path: P/2 lg P n delta",
        citation: "thesis 3.4.3",
        build: |request, moved| Some(Box::new(cores::hamiltonian(request.network, moved))),
    },
    Entry {
        name: "hamiltonian_lanes",
        networks: Networks::Any,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        more: &[],
        cost: "k paths: k lg P alpha (*) + 1/k of hamiltonian's n delta where routes share no link",
        citation: "thesis 3.4.3",
        build: |request, moved| Some(Box::new(cores::hamiltonian_lanes(request.network, moved))),
    },
    Entry {
        name: "bucket",
        networks: Networks::WholeGrid,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        more: &[],
        cost: "(X+Y+Z-3) alpha + (P-1) n delta",
        citation: "thesis 3.3.2",
        build: |request, moved| {
            let dims = request.network.torus_kind()?.dims();
            let order: Vec<usize> = (0..dims.len()).collect();
            Some(Box::new(cores::Bucket::new(dims, &order, false, moved)))
        },
    },
    Entry {
        name: "bucket_k",
        networks: Networks::WholeGrid,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        more: &[Parameter::Buckets],
        cost: "k buckets on p^3: 3k(p-1) alpha + (P-1)/k n delta, k up to 6 on a torus, 3 on a mesh",
        citation: "thesis 3.4.2",
        build: |request, moved| {
            Some(match request.parameters.buckets {
                0 => Box::new(cores::bucket_k(request.network, moved)?),
                count => Box::new(cores::buckets(request.network.torus_kind()?.dims(), count, moved)),
            })
        },
    },
    Entry {
        name: "hybrid",
        networks: Networks::WholeGrid,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        more: &[],
        cost: "p^3 torus, p a power of two from 4 on: (2 lg P + 6(p-1)) alpha + (P/6 + p^2/3 - 3p/4) n delta",
        citation: "thesis 3.6.1",
        build: |request, moved| Some(Box::new(cores::hybrid(request.network, moved)?)),
    },
    Entry {
        name: "alternating",
        networks: Networks::PowersOfTwo,
        ordered: false,
        order: Some(Parameter::AnyOrder),
        more: &[],
        cost: "p x p mesh: lg P alpha + (9/8 - 3/(4p)) P n delta",
        citation: "thesis 3.2.1",
        build: |request, moved| Some(Box::new(cores::Alternating::new(request.network.torus_kind()?.dims(), moved)?)),
    },
];

/// The names of all cores.
pub(super) fn names() -> Vec<&'static str> {
    ENTRIES.iter().map(|entry| entry.name).collect()
}

impl Entry {
    fn core(&self, request: &Request<'_>) -> Result<Box<dyn Core>, String> {
        let moved = request.parameters.order == Order::Moved && self.order.is_some();
        (self.build)(request, moved).ok_or_else(|| format!("it needs {}", self.networks.needs()))
    }

    /// Whether blocks are put in order in memory; a core without a choice of order has none to restore.
    fn reorders(&self, request: &Request<'_>) -> bool {
        request.parameters.order == Order::Reordered && self.order.is_some()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.more.iter().copied().chain(self.order).collect()
    }
}

/// The core that a request's parameters name, if the network has it.
fn named(request: &Request<'_>) -> Result<Box<dyn Core>, String> {
    let name = request.parameters.core;
    let entry = ENTRIES.iter().find(|entry| entry.name == name).ok_or_else(|| format!("there is no core {name}"))?;
    if let Some(needed) = entry.networks.lacking(request.network) {
        return Err(format!("its core {name} needs {needed}, and the network is {}", request.network));
    }
    if request.operation.reduces() && !entry.ordered && !request.commutative {
        return Err(format!("its core {name} needs an operator that commutes"));
    }
    entry.core(request)
}

/// What an operation by this core needs of the operator, backwards.
fn reducing(entry: &Entry) -> Requires {
    let requires = Requires::NOTHING.on(entry.networks);
    if entry.ordered { requires } else { requires.commuting() }
}

fn allgather(entry: &'static Entry) -> Algorithm {
    let requires = Requires::NOTHING.on(entry.networks);
    let costs = (entry.cost, entry.citation);
    Algorithm::new(format!("allgather/{}", entry.name), requires, &entry.parameters(), costs, |request| {
        let core = entry.core(request)?;
        Ok(if entry.reorders(request) {
            Box::new(Allgather::reordered(core)) as Box<dyn Schedule>
        } else {
            Box::new(Allgather::new(core))
        })
    })
}

fn reduce_scatter(entry: &'static Entry) -> Algorithm {
    let costs = (entry.cost, entry.citation);
    Algorithm::new(format!("reduce_scatter/{}", entry.name), reducing(entry), &entry.parameters(), costs, |request| {
        let core = entry.core(request)?;
        Ok(if entry.reorders(request) {
            Box::new(ReduceScatter::reordered(core)) as Box<dyn Schedule>
        } else {
            Box::new(ReduceScatter::new(core))
        })
    })
}

fn allreduce(entry: &'static Entry) -> Algorithm {
    // Forwards and backwards, there is no order to be restored in memory.
    let order = entry.order.map(|_| Parameter::Order);
    let parameters: Vec<Parameter> = entry.more.iter().copied().chain(order).collect();
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
    Algorithm::new(format!("allreduce/{name}"), reducing(entry), &parameters, (cost, citation), |request| {
        Ok(Box::new(Allreduce::new(entry.core(request)?)))
    })
}

pub(super) fn algorithms() -> Vec<Algorithm> {
    let mut all = Vec::new();
    for entry in &ENTRIES {
        // By the core `direct` these are `allgather/linear` and `reduce_scatter/linear`, which work on the caller's memory.
        if entry.name != "direct" {
            all.extend([allgather(entry), reduce_scatter(entry)]);
        }
        all.push(allreduce(entry));
    }
    let parameters = [Parameter::Core, Parameter::Order];
    all.push(Algorithm::new(
        "bcast/scatter_allgather",
        Requires::NOTHING,
        &parameters,
        ("ceil(lg P) alpha + (P-1)/P n beta, and the core's with n/P", "van de Geijn; thesis 3.2.2"),
        |request| Ok(Box::new(ScatterAllgather::new(named(request)?, root(request)))),
    ));
    all.push(Algorithm::new(
        "reduce/reduce_scatter_gather",
        Requires::NOTHING,
        &parameters,
        ("the core's with n/P, and ceil(lg P) alpha + (P-1)/P n beta", "Rabenseifner 2004; thesis 3.2.2"),
        |request| Ok(Box::new(ReduceScatterGather::new(named(request)?, root(request)))),
    ));
    all
}

pub(super) fn root(request: &Request<'_>) -> u32 {
    request.operation.root().unwrap_or(0)
}
