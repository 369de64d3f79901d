//! The table of all algorithms: what each requires, what it costs, and how it is built.
//!
//! An algorithm has an id, `operation/name`. An id may carry arguments: `bcast/kary:3`, `allgather/bucket_k:6`,
//! `bcast/scatter_allgather:ring`, `allgather/distance_halving:moved`, `bcast/chain:segments=16,window=4`. What an algorithm
//! requires is data in the table, so that a choice can be made, and a refusal explained, without trying.
//!
//! ```
//! use treepie_collectives::registry::{Request, build};
//! use treepie_schedule::Operation;
//! use treepie_topology::Network;
//!
//! let network: Network = "torus:4x4".parse()?;
//! let request = Request::new(Operation::Allgather, &network);
//! let schedule = build("allgather/bucket", &request)?;
//! assert_eq!(schedule.ranks(), 16);
//! let refusal = build("allgather/bucket", &Request::new(Operation::Allgather, &Network::flat(16))).err().unwrap();
//! assert!(refusal.to_string().contains("needs a torus or mesh"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Algorithms
#![doc = include_str!("registry/algorithms.md")]

mod cores;
mod others;
mod parameters;
mod refusal;
mod table;
mod trees;

use std::sync::LazyLock;

use treepie_schedule::{Operation, Schedule};
use treepie_topology::Network;

pub use parameters::{Order, Parameter, Parameters};
pub use refusal::Refusal;
pub use table::{markdown, text};

/// The networks that an algorithm can be used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Networks {
    /// All.
    Any,
    /// A torus or mesh, also with places that have no rank.
    Grid,
    /// A torus or mesh with rank r at place r, and no place without.
    WholeGrid,
    /// The same with a rank at every place, in any order.
    FullGrid,
    /// The same as whole, with sides that are powers of two.
    PowersOfTwo,
    /// Clusters, or the leaves of a Clos network.
    Layers,
}

/// What an algorithm requires, and what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requires {
    /// Where it runs.
    pub networks: Networks,
    /// The operator must commute: contributions are not combined in the order of ranks.
    pub commutative: bool,
    /// The schedule is for blocks of the same length. Where they differ, communicators store and forward by a reactor.
    pub routed: bool,
    /// The caller may have the input where the result goes.
    pub in_place: bool,
}

impl Requires {
    const NOTHING: Self = Self { networks: Networks::Any, commutative: false, routed: false, in_place: true };

    const fn on(self, networks: Networks) -> Self {
        Self { networks, ..self }
    }

    const fn commuting(self) -> Self {
        Self { commutative: true, ..self }
    }

    const fn routed(self) -> Self {
        Self { routed: true, ..self }
    }

    const fn not_in_place(self) -> Self {
        Self { in_place: false, ..self }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What the ranks do, and with which root.
    pub operation: Operation,
    /// How many ranks.
    pub ranks: u32,
    /// Where they are.
    pub network: &'a Network,
    /// Whether the operator commutes.
    pub commutative: bool,
    /// Whether all blocks have the same length.
    pub uniform: bool,
    /// Whether the input is where the result goes.
    pub in_place: bool,
    /// How the algorithm is to be adjusted.
    pub parameters: Parameters,
}

impl<'a> Request<'a> {
    /// With an operator that commutes, blocks of the same length, separate buffers, and parameters as they are usual.
    pub fn new(operation: Operation, network: &'a Network) -> Self {
        let parameters = Parameters::default();
        let ranks = network.ranks();
        Self { operation, ranks, network, commutative: true, uniform: true, in_place: false, parameters }
    }
}

type Build = Box<dyn Fn(&Request<'_>) -> Result<Box<dyn Schedule>, String> + Send + Sync>;

/// An algorithm of the table.
pub struct Algorithm {
    /// `operation/name`.
    pub id: String,
    /// What it requires.
    pub requires: Requires,
    /// How it can be adjusted. A number alone in an id's argument is for the first that is none of the pipeline's.
    pub parameters: Vec<Parameter>,
    /// What it costs: alpha is a start-up, beta the time of an element where there is no congestion, delta that over a
    /// link; n is what one rank contributes or gets, in a reduction or broadcast the whole vector.
    pub cost: &'static str,
    /// Where it comes from.
    pub citation: &'static str,
    build: Build,
}

impl Algorithm {
    fn new(
        id: impl Into<String>,
        requires: Requires,
        parameters: &[Parameter],
        (cost, citation): (&'static str, &'static str),
        build: impl Fn(&Request<'_>) -> Result<Box<dyn Schedule>, String> + Send + Sync + 'static,
    ) -> Self {
        Self { id: id.into(), requires, parameters: parameters.to_vec(), cost, citation, build: Box::new(build) }
    }

    /// The name of the operation.
    pub fn operation(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }

    /// The id without the operation.
    pub fn name(&self) -> &str {
        self.id.split('/').nth(1).unwrap_or_default()
    }

    /// Whether it can be used for that, or why not. What depends on parameters is found out by [`build`](Self::build).
    pub fn applies(&self, request: &Request<'_>) -> Result<(), String> {
        if self.operation() != request.operation.name() {
            return Err(format!("it is for {}, and {} is asked for", self.operation(), request.operation.name()));
        }
        if request.ranks == 0 || request.ranks != request.network.ranks() {
            let (ranks, network) = (request.ranks, request.network.ranks());
            return Err(format!("{ranks} ranks are asked for, and the network has {network}"));
        }
        if let Some(root) = request.operation.root().filter(|root| *root >= request.ranks) {
            return Err(format!("the root is {root}, and there are {} ranks", request.ranks));
        }
        let Requires { networks, commutative, routed, in_place } = self.requires;
        if let Some(needed) = networks.lacking(request.network) {
            return Err(format!("it needs {needed}, and the network is {}", request.network));
        }
        if commutative && !request.commutative {
            return Err("it needs an operator that commutes".to_owned());
        }
        if routed && !request.uniform {
            return Err("it needs blocks of the same length".to_owned());
        }
        if !in_place && request.in_place {
            return Err("it cannot work in place".to_owned());
        }
        Ok(())
    }

    /// The schedule.
    pub fn build(&self, request: &Request<'_>) -> Result<Box<dyn Schedule>, Refusal> {
        let refused = |why| Refusal::Inapplicable { id: self.id.clone(), why, others: others(request, &self.id) };
        self.applies(request).map_err(refused)?;
        (self.build)(request).map_err(refused)
    }

    /// Ids with arguments that show all kinds of what it can do: each order, each core, some numbers.
    pub fn variants(&self) -> Vec<String> {
        let arguments = parameters::variants(&self.parameters);
        arguments
            .into_iter()
            .map(|text| format!("{}{}{text}", self.id, if text.is_empty() { "" } else { ":" }))
            .collect()
    }
}

impl Networks {
    /// What the network lacks.
    fn lacking(self, network: &Network) -> Option<&'static str> {
        let grid = network.torus_kind();
        let powers = || grid.is_some_and(|torus| torus.dims().iter().all(|size| size.is_power_of_two()));
        let has = match self {
            Networks::Any => true,
            Networks::Grid => grid.is_some(),
            Networks::FullGrid => grid.is_some() && network.places() == network.ranks(),
            Networks::WholeGrid => grid.is_some() && network.is_whole(),
            Networks::PowersOfTwo => network.is_whole() && powers(),
            Networks::Layers => network.clusters_kind().is_some() || network.clos_kind().is_some(),
        };
        (!has).then(|| self.needs())
    }

    /// What it needs, in words.
    pub const fn needs(self) -> &'static str {
        match self {
            Networks::Any => "any network",
            Networks::Grid => "a torus or mesh",
            Networks::FullGrid => "a torus or mesh with a rank at every place",
            Networks::WholeGrid => "a torus or mesh with rank r at place r",
            Networks::PowersOfTwo => "a torus or mesh with rank r at place r and sides that are powers of two",
            Networks::Layers => "clusters or a Clos network",
        }
    }
}

static ALL: LazyLock<Vec<Algorithm>> = LazyLock::new(|| {
    let order = |algorithm: &Algorithm| {
        Operation::all(0).iter().position(|operation| operation.name() == algorithm.operation())
    };
    let mut all: Vec<Algorithm> = trees::algorithms().into_iter().chain(others::algorithms()).collect();
    all.extend(cores::algorithms());
    all.sort_by_key(order);
    all
});

/// All algorithms, by operation.
pub fn all() -> &'static [Algorithm] {
    &ALL
}

/// The algorithm that an id names; arguments are not looked at.
pub fn find(id: &str) -> Result<&'static Algorithm, Refusal> {
    let name = id.split(':').next().unwrap_or_default();
    all().iter().find(|algorithm| algorithm.id == name).ok_or_else(|| Refusal::unknown(name))
}

/// All that can be used for that.
pub fn applicable(request: &Request<'_>) -> Vec<&'static Algorithm> {
    all().iter().filter(|algorithm| algorithm.applies(request).is_ok()).collect()
}

fn others(request: &Request<'_>, id: &str) -> Vec<String> {
    applicable(request).into_iter().map(|algorithm| algorithm.id.clone()).filter(|other| other != id).collect()
}

/// The schedule of an id, whose arguments come before the request's parameters.
pub fn build(id: &str, request: &Request<'_>) -> Result<Box<dyn Schedule>, Refusal> {
    let algorithm = find(id)?;
    let arguments = id.split_once(':').map_or("", |(_, arguments)| arguments);
    let parameters = request
        .parameters
        .with(&algorithm.parameters, arguments)
        .map_err(|expected| Refusal::Argument { id: algorithm.id.clone(), argument: arguments.to_owned(), expected })?;
    algorithm.build(&Request { parameters, ..*request })
}
