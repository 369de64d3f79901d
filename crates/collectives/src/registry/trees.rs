//! The registered tree algorithms.

use std::sync::Arc;

use treepie_schedule::Schedule;

use super::allgather_based::root;
use super::{Algorithm, CollectiveSpec, NetworkRequirement, Parameter, Parameters, Requirements};
use crate::barrier::TreeBarrier;
use crate::hierarchy::forest::{count_groups, smallest_group};
use crate::rooted::GatherBcast;
use crate::trees::shape::groups;
use crate::trees::{Bcast, RankTree, Reduce, ScatterGather, TreeKind, TreeShape};

/// A registered tree shape.
struct TreeEntry {
    name: &'static str,
    network: NetworkRequirement,
    parameters: &'static [Parameter],
    shape: fn(&CollectiveSpec<'_>) -> TreeKind,
    /// The costs of an unsegmented broadcast and of a scatter.
    bcast: &'static str,
    scatter: &'static str,
    citation: &'static str,
}

const ENTRIES: [TreeEntry; 9] = [
    TreeEntry {
        name: "flat",
        network: NetworkRequirement::Any,
        parameters: &[],
        shape: |_| TreeKind::SingleLayer(TreeShape::Flat),
        bcast: "(P-1)(alpha + n beta)",
        scatter: "(P-1)(alpha + n beta)",
        citation: "P-LogP 3",
    },
    TreeEntry {
        name: "chain",
        network: NetworkRequirement::Any,
        parameters: &[],
        shape: |_| TreeKind::SingleLayer(TreeShape::Chain),
        bcast: "s segments: (P-2+s)(alpha + n/s beta)",
        scatter: "(P-1) alpha + P(P-1)/2 n beta",
        citation: "P-LogP 3",
    },
    TreeEntry {
        name: "binomial",
        network: NetworkRequirement::Any,
        parameters: &[],
        shape: |_| TreeKind::SingleLayer(TreeShape::Binomial),
        bcast: "ceil(lg P)(alpha + n beta)",
        scatter: "ceil(lg P) alpha + (P-1) n beta",
        citation: "P-LogP 3",
    },
    TreeEntry {
        name: "knomial",
        network: NetworkRequirement::Any,
        parameters: &[Parameter::Radix],
        shape: |spec| TreeKind::SingleLayer(TreeShape::Knomial(spec.parameters.radix)),
        bcast: "radix k: (k-1) ceil(log_k P)(alpha + n beta)",
        scatter: "radix k: (k-1) ceil(log_k P) alpha + (P-1) n beta",
        citation: "P-LogP 3",
    },
    TreeEntry {
        name: "kary",
        network: NetworkRequirement::Any,
        parameters: &[Parameter::Degree],
        shape: |spec| TreeKind::SingleLayer(TreeShape::Kary(spec.parameters.degree)),
        bcast: "degree d, height h, s segments: (s-1+h) d (alpha + n/s beta)",
        scatter: "degree d, height h: d h alpha + about d/(d-1) (P-1) n beta",
        citation: "P-LogP 3.1",
    },
    TreeEntry {
        name: "greedy",
        network: NetworkRequirement::Any,
        parameters: &[Parameter::Gap, Parameter::Time],
        shape: |spec| {
            let parameters = &spec.parameters;
            TreeKind::SingleLayer(TreeShape::Greedy { gap: parameters.gap, time: parameters.time })
        },
        bcast: "the least possible in LogP",
        scatter: "depends on the tree: at least (P-1) n beta",
        citation: "Karp et al. 1993; NBX 2.3",
    },
    TreeEntry {
        name: "hierarchical",
        network: NetworkRequirement::Hierarchical,
        parameters: &[Parameter::Wan, Parameter::Lan, Parameter::Levels],
        shape: |spec| {
            let Parameters { levels, wan, lan, .. } = spec.parameters;
            TreeKind::Hierarchical { levels, wan, lan }
        },
        bcast: "s segments: (s-1) gamma + lambda of the trees one after the other; k coordinators: n/k over each link",
        scatter: "each cluster's blocks over its link once, then within it",
        citation: "P-LogP 3.1",
    },
    TreeEntry {
        name: "in_turn",
        network: NetworkRequirement::Hierarchical,
        parameters: &[],
        shape: |_| TreeKind::InTurn,
        bcast: "(P-1)(alpha + n beta), links to clusters round-robin",
        scatter: "(P-1)(alpha + n beta), links to clusters round-robin; s segments: (s-1) gamma + lambda",
        citation: "P-LogP 3.2",
    },
    TreeEntry {
        name: "mesh",
        network: NetworkRequirement::Grid,
        parameters: &[],
        shape: |_| TreeKind::Mesh,
        bcast: "lg P (alpha + n delta)",
        scatter: "lg P alpha + (P-1) n delta",
        citation: "thesis 3.2.1",
    },
];

/// Why a reduction is refused.
pub(super) const CONSECUTIVE_OR_COMMUTATIVE: &str =
    "it requires a commutative operator, or that the ranks of each cluster are consecutive";

const PIPELINE: [Parameter; 2] = [Parameter::Segments, Parameter::Window];

impl TreeEntry {
    fn build_tree(&self, spec: &CollectiveSpec<'_>, root: u32) -> Result<Arc<RankTree>, String> {
        let shape = (self.shape)(spec);
        let tree = shape.build(spec.network, root).map_err(|error| error.to_string())?;
        // A mesh tree is congestion-free only in lockstep.
        Ok(Arc::new(if shape == TreeKind::Mesh { tree.lockstep() } else { tree }))
    }

    /// Builds a pipelined schedule along the tree.
    fn build_schedule<S: Schedule + 'static>(
        &self,
        spec: &CollectiveSpec<'_>,
        root: u32,
        make: impl Fn(Arc<RankTree>, u32, u32) -> S,
    ) -> Result<Box<dyn Schedule>, String> {
        let Parameters { segments, .. } = spec.parameters;
        Ok(Box::new(make(self.build_tree(spec, root)?, segments, spec.parameters.window_of_one())))
    }

    /// With several coordinators, a tree for each: over other links, so that segments use all links between groups.
    fn relayed_trees(&self, spec: &CollectiveSpec<'_>) -> Option<Vec<Arc<RankTree>>> {
        let Parameters { wan, lan, levels, coordinators, .. } = spec.parameters;
        let groups = groups(spec.network, levels).filter(|_| self.name == "hierarchical")?;
        let most = smallest_group(&groups).min(count_groups(&groups) - 1);
        let trees = (0..coordinators.min(most))
            .map(|number| Arc::new(RankTree::relayed(&groups, root(spec), number, wan, lan)));
        Some(trees.collect()).filter(|trees: &Vec<_>| trees.len() > 1)
    }

    fn with_coordinators(&self) -> Vec<Parameter> {
        let coordinators = (self.name == "hierarchical").then_some(Parameter::Coordinators);
        self.with_pipeline().into_iter().chain(coordinators).collect()
    }

    /// Whether the tree with root 0 can be rank-ordered: those that do not depend on the network are, and hierarchical
    /// ones where the ranks of each group are consecutive.
    fn may_be_rank_ordered(&self) -> bool {
        self.network == NetworkRequirement::Any || self.name == "hierarchical"
    }

    /// A reduction for operators that are not commutative.
    fn build_ordered_reduction(&self, spec: &CollectiveSpec<'_>) -> Result<Box<dyn Schedule>, String> {
        let tree = self.build_tree(spec, 0)?;
        if !tree.is_rank_ordered() {
            return Err(CONSECUTIVE_OR_COMMUTATIVE.to_owned());
        }
        let window = spec.parameters.window_of_one();
        Ok(Box::new(Reduce::ordered(tree, root(spec), spec.parameters.segments, window)))
    }

    fn with_pipeline(&self) -> Vec<Parameter> {
        self.parameters.iter().copied().chain(PIPELINE).collect()
    }
}

pub(super) fn algorithms() -> Vec<Algorithm> {
    let mut all = Vec::new();
    for entry in &ENTRIES {
        let TreeEntry { name, bcast, scatter, citation, .. } = entry;
        let requires = Requirements::NONE.on_network(entry.network);
        let pipeline = entry.with_pipeline();
        let of_vectors = entry.with_coordinators();
        all.push(Algorithm::new(format!("bcast/{name}"), requires, &of_vectors, (bcast, citation), |spec| match entry
            .relayed_trees(spec)
        {
            Some(trees) => Ok(Box::new(Bcast::along_trees(trees, spec.parameters.segments, spec.parameters.window))),
            None => entry.build_schedule(spec, root(spec), Bcast::new),
        }));
        all.push(Algorithm::new(format!("scatter/{name}"), requires, &pipeline, (scatter, citation), |spec| {
            entry.build_schedule(spec, root(spec), ScatterGather::scatter)
        }));
        all.push(Algorithm::new(format!("gather/{name}"), requires, &pipeline, (scatter, citation), |spec| {
            entry.build_schedule(spec, root(spec), ScatterGather::gather)
        }));
        let reduce_requires = if entry.may_be_rank_ordered() { requires } else { requires.commutative() };
        let reduce = if *name == "mesh" { "fan_in" } else { name };
        all.push(Algorithm::new(format!("reduce/{reduce}"), reduce_requires, &of_vectors, (bcast, citation), |spec| {
            if !spec.commutative {
                return entry.build_ordered_reduction(spec);
            }
            if let Some(trees) = entry.relayed_trees(spec) {
                let Parameters { segments, window, .. } = spec.parameters;
                return Ok(Box::new(Reduce::along_trees(trees, segments, window)));
            }
            entry.build_schedule(spec, root(spec), Reduce::new)
        }));
        // Gather-broadcast allgathers and barriers are registered only for shapes that differ in more than a number.
        let allgather = match *name {
            "binomial" => Some(("gather_bcast", "2 ceil(lg P) alpha + (P-1 + P ceil(lg P)) n beta")),
            "hierarchical" => {
                Some(("hierarchical_gather_bcast", "each link between clusters carries every block at most twice"))
            }
            "mesh" => Some(("mesh", "2 lg P alpha + (P-1 + P lg P) n delta")),
            _ => None,
        };
        if let Some((allgather, cost)) = allgather {
            let id = format!("allgather/{allgather}");
            all.push(Algorithm::new(id, requires, &pipeline, (cost, "thesis 3.2.2"), |spec| {
                entry.build_schedule(spec, 0, GatherBcast::new)
            }));
        }
        let (barrier, cost) = match *name {
            "binomial" => ("tree", "2 ceil(lg P) alpha"),
            "flat" => ("central", "2(P-1) alpha"),
            "kary" => ("kary", "degree d, height h: 2 d h alpha"),
            "mesh" => ("mesh", "2 lg P alpha, no link shared"),
            _ => continue,
        };
        all.push(Algorithm::new(
            format!("barrier/{barrier}"),
            requires,
            entry.parameters,
            (cost, "thesis 3.2.1"),
            |spec| Ok(Box::new(TreeBarrier::new(entry.build_tree(spec, 0)?))),
        ));
    }
    all
}
