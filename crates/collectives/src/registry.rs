//! The registry of all algorithms: requirements, costs and constructors.
//!
//! An algorithm has an id, `operation/name`. An id may carry arguments: `bcast/kary:3`, `allgather/bucket_k:6`,
//! `bcast/scatter_allgather:ring`, `allgather/distance_halving:moved`, `bcast/chain:segments=16,window=4`. Requirements
//! are data, so selection and error messages do not need to build a schedule.
//!
//! ```
//! use treepie_collectives::registry::{CollectiveSpec, build};
//! use treepie_schedule::Operation;
//! use treepie_topology::Network;
//!
//! let network: Network = "torus:4x4".parse()?;
//! let spec = CollectiveSpec::new(Operation::Allgather, &network);
//! let schedule = build("allgather/bucket", &spec)?;
//! assert_eq!(schedule.ranks(), 16);
//! let flat = Network::flat(16);
//! let error = build("allgather/bucket", &CollectiveSpec::new(Operation::Allgather, &flat)).err().unwrap();
//! assert!(error.to_string().contains("requires a torus or mesh"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Algorithms
#![doc = include_str!("registry/algorithms.md")]

mod allgather_based;
mod error;
mod hierarchical;
mod others;
mod parameters;
mod table;
mod trees;

use std::sync::LazyLock;

use treepie_schedule::{Operation, Schedule};
use treepie_topology::Network;

pub use error::AlgorithmError;
pub use hierarchical::{default_inter, spec_of_leaders};
pub use parameters::{BlockOrder, Parameter, Parameters};
pub use table::{markdown, text};

/// The networks that an algorithm supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkRequirement {
    /// Any network.
    Any,
    /// A torus or mesh, possibly with nodes without a rank.
    Grid,
    /// A torus or mesh with rank r at node r, and no node without a rank.
    IdentityGrid,
    /// A torus or mesh with a rank at every node, in any order.
    FullGrid,
    /// As [`IdentityGrid`](Self::IdentityGrid), with sides that are powers of two.
    PowerOfTwoGrid,
    /// Clusters, hosts of several ranks, or the leaves of a Clos network.
    Hierarchical,
}

/// The requirements of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// The network.
    pub network: NetworkRequirement,
    /// The operator must be commutative: contributions are not combined in rank order.
    pub commutative: bool,
    /// The schedule requires blocks of equal length. Where they differ, communicators store and forward by a reactor.
    pub uniform_blocks: bool,
    /// Whether it supports in-place buffers.
    pub in_place: bool,
}

impl Requirements {
    const NONE: Self =
        Self { network: NetworkRequirement::Any, commutative: false, uniform_blocks: false, in_place: true };

    const fn on_network(self, network: NetworkRequirement) -> Self {
        Self { network, ..self }
    }

    const fn commutative(self) -> Self {
        Self { commutative: true, ..self }
    }

    const fn uniform_blocks(self) -> Self {
        Self { uniform_blocks: true, ..self }
    }

    const fn not_in_place(self) -> Self {
        Self { in_place: false, ..self }
    }
}

/// The collective operation for which a schedule is built.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveSpec<'a> {
    /// The operation and its root.
    pub operation: Operation,
    /// The number of ranks.
    pub ranks: u32,
    /// The network.
    pub network: &'a Network,
    /// Whether the operator is commutative.
    pub commutative: bool,
    /// Whether all blocks have equal length.
    pub uniform: bool,
    /// Whether input and output are in place.
    pub in_place: bool,
    /// The parameters of the algorithm.
    pub parameters: Parameters,
}

impl<'a> CollectiveSpec<'a> {
    /// With a commutative operator, blocks of equal length, separate buffers, and default parameters.
    pub fn new(operation: Operation, network: &'a Network) -> Self {
        let parameters = Parameters::default();
        let ranks = network.ranks();
        Self { operation, ranks, network, commutative: true, uniform: true, in_place: false, parameters }
    }
}

type BuildFn = Box<dyn Fn(&CollectiveSpec<'_>) -> Result<Box<dyn Schedule>, String> + Send + Sync>;

/// A registered algorithm.
pub struct Algorithm {
    /// `operation/name`.
    pub id: String,
    /// Its requirements.
    pub requires: Requirements,
    /// Its parameters. A value without a name in an id is for the first that accepts it, except those of the pipeline.
    pub parameters: Vec<Parameter>,
    /// Its cost: alpha is the start-up time of a message, beta the time per element without congestion, delta that over
    /// a link; n is the number of elements that one rank contributes or receives, in a reduction or broadcast the whole
    /// vector.
    pub cost: &'static str,
    /// Its source.
    pub citation: &'static str,
    build: BuildFn,
}

impl std::fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.id)
    }
}

impl Algorithm {
    fn new(
        id: impl Into<String>,
        requires: Requirements,
        parameters: &[Parameter],
        (cost, citation): (&'static str, &'static str),
        build: impl Fn(&CollectiveSpec<'_>) -> Result<Box<dyn Schedule>, String> + Send + Sync + 'static,
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

    /// Checks the requirements. Those that depend on parameters are checked by [`build`](Self::build).
    pub fn check_applicable(&self, spec: &CollectiveSpec<'_>) -> Result<(), String> {
        if self.operation() != spec.operation.name() {
            return Err(format!("it implements {}, not {}", self.operation(), spec.operation.name()));
        }
        if spec.ranks == 0 || spec.ranks != spec.network.ranks() {
            let (ranks, network) = (spec.ranks, spec.network.ranks());
            return Err(format!("{ranks} ranks requested, but the network has {network}"));
        }
        if let Some(root) = spec.operation.root().filter(|root| *root >= spec.ranks) {
            return Err(format!("the root is {root}, but there are {} ranks", spec.ranks));
        }
        let Requirements { network, commutative, uniform_blocks, in_place } = self.requires;
        if let Some(needed) = network.unmet(spec.network) {
            return Err(format!("it requires {needed}, but the network is {}", spec.network));
        }
        if commutative && !spec.commutative {
            return Err("it requires a commutative operator".to_owned());
        }
        if uniform_blocks && !spec.uniform {
            return Err("it requires blocks of equal length".to_owned());
        }
        if !in_place && spec.in_place {
            return Err("it does not support in-place buffers".to_owned());
        }
        Ok(())
    }

    /// Builds the schedule.
    pub fn build(&self, spec: &CollectiveSpec<'_>) -> Result<Box<dyn Schedule>, AlgorithmError> {
        let inapplicable =
            |why| AlgorithmError::Inapplicable { id: self.id.clone(), why, others: alternatives(spec, &self.id) };
        self.check_applicable(spec).map_err(inapplicable)?;
        (self.build)(spec).map_err(inapplicable)
    }

    /// Ids with arguments that cover its parameters: each order, each core, some numbers.
    pub fn variants(&self) -> Vec<String> {
        let arguments = parameters::variants(self.operation(), &self.parameters);
        arguments
            .into_iter()
            .map(|text| format!("{}{}{text}", self.id, if text.is_empty() { "" } else { ":" }))
            .collect()
    }
}

impl NetworkRequirement {
    /// The description of the requirement, if the network does not meet it.
    fn unmet(self, network: &Network) -> Option<&'static str> {
        let grid = network.as_torus();
        let powers = || grid.is_some_and(|torus| torus.dims().iter().all(|size| size.is_power_of_two()));
        let met = match self {
            NetworkRequirement::Any => true,
            NetworkRequirement::Grid => grid.is_some(),
            NetworkRequirement::FullGrid => grid.is_some() && network.nodes() == network.ranks(),
            NetworkRequirement::IdentityGrid => grid.is_some() && network.has_identity_placement(),
            NetworkRequirement::PowerOfTwoGrid => network.has_identity_placement() && powers(),
            NetworkRequirement::Hierarchical => {
                network.as_clusters().is_some() || network.as_clos().is_some() || network.has_hosts()
            }
        };
        (!met).then(|| self.description())
    }

    /// The required network in words.
    pub const fn description(self) -> &'static str {
        match self {
            NetworkRequirement::Any => "any network",
            NetworkRequirement::Grid => "a torus or mesh",
            NetworkRequirement::FullGrid => "a torus or mesh with a rank at every node",
            NetworkRequirement::IdentityGrid => "a torus or mesh with rank r at node r",
            NetworkRequirement::PowerOfTwoGrid => {
                "a torus or mesh with rank r at node r and sides that are powers of two"
            }
            NetworkRequirement::Hierarchical => "clusters, hosts or a Clos network",
        }
    }
}

static ALL: LazyLock<Vec<Algorithm>> = LazyLock::new(|| {
    let order = |algorithm: &Algorithm| {
        Operation::all(0).iter().position(|operation| operation.name() == algorithm.operation())
    };
    let mut all: Vec<Algorithm> = trees::algorithms().into_iter().chain(others::algorithms()).collect();
    all.extend(allgather_based::algorithms());
    all.extend(hierarchical::algorithms());
    all.sort_by_key(order);
    all
});

/// All algorithms, by operation.
pub fn all() -> &'static [Algorithm] {
    &ALL
}

/// Operations that an MPI library may run itself, in place of a schedule: `allreduce/mpi` and so on.
static HOST_MPI: LazyLock<Vec<Algorithm>> = LazyLock::new(|| {
    let has_one = |operation: &Operation| *operation != Operation::Exscan;
    let algorithm = |operation: Operation| {
        let requires = Requirements::NONE.uniform_blocks();
        let about = ("as measured by treepie tune --collectives", "the MPI library");
        Algorithm::new(format!("{}/mpi", operation.name()), requires, &[], about, |_| {
            let calls = "blocking calls on the world of an MPI job, with operators and types that MPI has";
            Err(format!("the MPI library runs it, in {calls}"))
        })
    };
    Operation::all(0).into_iter().filter(has_one).map(algorithm).collect()
});

/// The MPI library's own algorithm of an operation, for which there is no schedule.
pub fn of_host_mpi(operation: Operation) -> Option<&'static Algorithm> {
    HOST_MPI.iter().find(|algorithm| algorithm.operation() == operation.name())
}

/// Whether an id is that of an algorithm of the MPI library.
pub fn is_of_host_mpi(id: &str) -> bool {
    HOST_MPI.iter().any(|algorithm| algorithm.id == id)
}

/// The algorithm of an id, whose arguments are ignored.
pub fn find(id: &str) -> Result<&'static Algorithm, AlgorithmError> {
    let name = id.split(':').next().unwrap_or_default();
    let mut known = all().iter().chain(HOST_MPI.iter());
    known.find(|algorithm| algorithm.id == name).ok_or_else(|| AlgorithmError::unknown(name))
}

/// All applicable algorithms.
pub fn applicable(spec: &CollectiveSpec<'_>) -> Vec<&'static Algorithm> {
    all().iter().filter(|algorithm| algorithm.check_applicable(spec).is_ok()).collect()
}

fn alternatives(spec: &CollectiveSpec<'_>, id: &str) -> Vec<String> {
    applicable(spec).into_iter().map(|algorithm| algorithm.id.clone()).filter(|other| other != id).collect()
}

/// Builds the schedule of an id, whose arguments override the parameters of `spec`.
pub fn build(id: &str, spec: &CollectiveSpec<'_>) -> Result<Box<dyn Schedule>, AlgorithmError> {
    let (algorithm, parameters) = parse(id, spec.parameters)?;
    algorithm.build(&CollectiveSpec { parameters, ..*spec })
}

/// Refuses an unknown algorithm, and arguments that it does not have.
pub fn check_id(id: &str) -> Result<(), AlgorithmError> {
    parse(id, Parameters::default()).map(drop)
}

fn parse(id: &str, parameters: Parameters) -> Result<(&'static Algorithm, Parameters), AlgorithmError> {
    let algorithm = find(id)?;
    let arguments = id.split_once(':').map_or("", |(_, arguments)| arguments);
    let parameters = parameters.with_arguments(&algorithm.parameters, arguments).map_err(|expected| {
        AlgorithmError::InvalidArgument { id: algorithm.id.clone(), argument: arguments.to_owned(), expected }
    })?;
    Ok((algorithm, parameters))
}
