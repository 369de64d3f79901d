//! The registered algorithms over clusters, apart from those along one tree.

use treepie_schedule::{Operation, Schedule};
use treepie_topology::Network;

use super::allgather_based::root;
use super::trees::CONSECUTIVE_OR_COMMUTATIVE;
use super::{Algorithm, CollectiveSpec, NetworkRequirement, Parameter, Parameters, Requirements};
use crate::barrier::TreeBarrier;
use crate::from_allgather::{Allgather, ReduceScatter};
use crate::hierarchy::magpie::{self, MagpieAllgather, MagpieAllreduce};
use crate::hierarchy::{
    Forest, HierarchicalAllreduce, HierarchicalAlltoall, HierarchicalBarrier, HierarchicalCore, HierarchicalLinear,
    HierarchicalScan, Hosts, Smp,
};
use crate::scan::ScanKind;
use crate::trees::{Bcast, Reduce, ScatterGather};

const CLUSTERS: Requirements = Requirements::NONE.on_network(NetworkRequirement::Hierarchical);

const SHAPE: [Parameter; 3] = [Parameter::Wan, Parameter::Lan, Parameter::Levels];

const SEGMENTED: [Parameter; 4] = [Parameter::Wan, Parameter::Lan, Parameter::Levels, Parameter::Segments];

const COORDINATED: [Parameter; 5] =
    [Parameter::Wan, Parameter::Lan, Parameter::Levels, Parameter::Segments, Parameter::Coordinators];

fn no_clusters() -> String {
    format!("it requires {}", NetworkRequirement::Hierarchical.description())
}

fn forest(spec: &CollectiveSpec<'_>) -> Result<Forest, String> {
    let Parameters { wan, lan, levels, .. } = spec.parameters;
    Forest::new(spec.network, levels, wan, lan).ok_or_else(no_clusters)
}

fn forests(spec: &CollectiveSpec<'_>) -> Result<Vec<Forest>, String> {
    let Parameters { wan, lan, levels, coordinators, .. } = spec.parameters;
    Forest::several(spec.network, levels, coordinators, wan, lan).ok_or_else(no_clusters)
}

fn core(spec: &CollectiveSpec<'_>) -> Result<HierarchicalCore, String> {
    Ok(HierarchicalCore::new(forests(spec)?, spec.parameters.segments))
}

pub(super) fn algorithms() -> Vec<Algorithm> {
    let commutative = CLUSTERS.commutative();
    let mut all = vec![
        Algorithm::new(
            "barrier/hierarchical",
            CLUSTERS,
            &SHAPE,
            ("alpha between groups, and twice within", "P-LogP 3.4"),
            |spec| Ok(Box::new(HierarchicalBarrier::new(forest(spec)?))),
        ),
        Algorithm::new(
            "allgather/hierarchical",
            CLUSTERS,
            &COORDINATED,
            ("C groups: alpha and P/C n delta between two groups, P n beta within", "P-LogP 3.4"),
            |spec| Ok(Box::new(Allgather::new(core(spec)?))),
        ),
        Algorithm::new(
            "reduce_scatter/hierarchical",
            commutative,
            &COORDINATED,
            ("C groups: alpha and P/C n delta between two groups, P n beta within", "P-LogP 3.4"),
            |spec| Ok(Box::new(ReduceScatter::new(core(spec)?))),
        ),
        Algorithm::new(
            "allreduce/hierarchical",
            commutative,
            &COORDINATED,
            ("C groups: 2(alpha + n/C delta) between two groups, 2n beta within", "P-LogP 3.4; Rabenseifner 2004"),
            |spec| Ok(Box::new(HierarchicalAllreduce::new(forests(spec)?, spec.parameters.segments))),
        ),
        Algorithm::new(
            "allreduce/hierarchical_linear",
            CLUSTERS,
            &SEGMENTED,
            ("alpha + n delta between two groups, 2n beta within; memory for a vector of each group", "P-LogP 3.4"),
            |spec| {
                let forest = forest(spec)?;
                if !spec.commutative && !forest.is_rank_ordered() {
                    return Err(CONSECUTIVE_OR_COMMUTATIVE.to_owned());
                }
                Ok(Box::new(HierarchicalLinear::new(forest, spec.parameters.segments)))
            },
        ),
        Algorithm::new(
            "alltoall/hierarchical",
            CLUSTERS.uniform_blocks().not_in_place(),
            &[Parameter::Levels, Parameter::Coordinators],
            (
                "C groups of p: p^2 blocks between two groups in a message of each of k coordinators; k = p: (p-1 + C-1) alpha",
                "RandomAccess paper; Kielmann et al. 1999",
            ),
            |spec| {
                let Parameters { levels, coordinators, .. } = spec.parameters;
                Ok(Box::new(HierarchicalAlltoall::new(spec.network, levels, coordinators)?))
            },
        ),
    ];
    for (kind, name) in [(ScanKind::Inclusive, "scan"), (ScanKind::Exclusive, "exscan")] {
        all.push(Algorithm::new(
            format!("{name}/hierarchical"),
            CLUSTERS,
            &SEGMENTED,
            ("alpha + n delta between two groups, 2n beta within", "P-LogP 3.4; Blelloch 1990"),
            move |spec| {
                let forest = forest(spec)?;
                if !forest.is_rank_ordered() {
                    return Err("it requires that the ranks of each cluster are consecutive".to_owned());
                }
                Ok(Box::new(HierarchicalScan::new(kind, forest, spec.parameters.segments)))
            },
        ));
    }
    all.extend(smp_algorithms());
    all.extend(magpie_algorithms());
    all
}

/// Operations over hosts, with any algorithm among their leaders.
fn smp_algorithms() -> Vec<Algorithm> {
    let entry = |(operation, inter): (&str, &'static str)| {
        let about = ("that of inter on the hosts, and a round within each before and after it", "MPICH (smp); HAN");
        Algorithm::new(format!("{operation}/smp"), CLUSTERS, &[Parameter::Inter, Parameter::Segments], about, {
            move |spec| smp(spec, inter)
        })
    };
    DEFAULT_INTER.map(entry).into()
}

/// What leaders use if the id does not tell.
const DEFAULT_INTER: [(&str, &str); 5] = [
    ("barrier", "dissemination"),
    ("bcast", "binomial"),
    ("allgather", "bruck"),
    ("reduce", "binomial"),
    ("allreduce", "recursive_doubling"),
];

/// The algorithm of the leaders of hosts (`inter`), if the id of an `smp` algorithm does not tell.
pub fn default_inter(operation: Operation) -> Option<&'static str> {
    DEFAULT_INTER.into_iter().find_map(|(name, inter)| (name == operation.name()).then_some(inter))
}

/// What the leaders of hosts do, on their part of the network.
pub fn spec_of_leaders<'a>(spec: &CollectiveSpec<'_>, hosts: &Hosts, network: &'a Network) -> CollectiveSpec<'a> {
    let mut sizes = hosts.sizes();
    let first = sizes.next();
    CollectiveSpec {
        operation: hosts.among_leaders(spec.operation),
        ranks: network.ranks(),
        network,
        uniform: spec.uniform && sizes.all(|size| Some(size) == first),
        in_place: true,
        parameters: Parameters { segments: spec.parameters.segments, ..Parameters::default() },
        ..*spec
    }
}

fn smp(spec: &CollectiveSpec<'_>, default: &'static str) -> Result<Box<dyn Schedule>, String> {
    let hosts = Hosts::new(spec.network, spec.operation.root()).ok_or_else(no_clusters)?;
    if spec.operation.is_reduction() && !spec.commutative && !hosts.are_consecutive() {
        return Err(CONSECUTIVE_OR_COMMUTATIVE.to_owned());
    }
    let inter = spec.parameters.inter.unwrap_or(default);
    if inter == "smp" {
        return Err("inter must be another algorithm than smp".to_owned());
    }
    let network = spec.network.subnetwork(hosts.leaders());
    let leaders = spec_of_leaders(spec, &hosts, &network);
    let schedule = super::build(&format!("{}/{inter}", spec.operation.name()), &leaders);
    let schedule = schedule.map_err(|refusal| format!("its leaders cannot use {inter}: {refusal}"))?;
    Ok(Box::new(Smp::new(spec.operation, hosts, schedule)))
}

/// MagPIe's original algorithms, which segmented ones are compared with.
fn magpie_algorithms() -> Vec<Algorithm> {
    const CITATION: &str = "Kielmann et al. 1999; P-LogP 3";
    type Build = fn(&CollectiveSpec<'_>) -> Option<Box<dyn Schedule>>;
    let entry = |operation: &str, requires, cost, build: Build| {
        let build = move |spec: &CollectiveSpec<'_>| build(spec).ok_or_else(no_clusters);
        Algorithm::new(format!("{operation}/magpie"), requires, &[], (cost, CITATION), build)
    };
    let tree = "(C-1)(alpha + n delta) over clusters, then ceil(lg p)(alpha + n beta) within";
    let flat = "(P-1)(alpha + n beta), links to clusters round-robin, whole messages";
    let commutative = CLUSTERS.commutative();
    vec![
        entry("barrier", CLUSTERS, "2(C-1 + ceil(lg p)) alpha", |spec| {
            Some(Box::new(TreeBarrier::new(magpie::tree(spec.network, 0)?)))
        }),
        entry("bcast", CLUSTERS, tree, |spec| {
            Some(Box::new(Bcast::new(magpie::tree(spec.network, root(spec))?, 1, 1)))
        }),
        entry("scatter", CLUSTERS, flat, |spec| {
            Some(Box::new(ScatterGather::scatter(magpie::flat_tree(spec.network, root(spec))?, 1, 1)))
        }),
        entry("gather", CLUSTERS, flat, |spec| {
            Some(Box::new(ScatterGather::gather(magpie::flat_tree(spec.network, root(spec))?, 1, 1)))
        }),
        entry("allgather", CLUSTERS, "local gather, P/C n delta between two clusters, local broadcast", |spec| {
            Some(Box::new(MagpieAllgather::new(spec.network)?))
        }),
        entry("reduce", commutative, tree, |spec| {
            Some(Box::new(Reduce::new(magpie::tree(spec.network, root(spec))?, 1, 1)))
        }),
        entry("allreduce", commutative, "the reduction, then the broadcast", |spec| {
            Some(Box::new(MagpieAllreduce::new(magpie::tree(spec.network, 0)?)))
        }),
    ]
}
