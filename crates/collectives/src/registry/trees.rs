//! The registered tree algorithms.

use std::sync::Arc;

use treepie_schedule::Schedule;

use super::allgather_based::root;
use super::{Algorithm, CollectiveSpec, NetworkRequirement, Parameter, Parameters, Requirements};
use crate::barrier::TreeBarrier;
use crate::rooted::GatherBcast;
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
        name: "two_layer",
        network: NetworkRequirement::Hierarchical,
        parameters: &[Parameter::Wan, Parameter::Lan],
        shape: |spec| TreeKind::TwoLayer { wan: spec.parameters.wan, lan: spec.parameters.lan },
        bcast: "s segments: (s-1) gamma + lambda of the trees one after the other",
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
        let Parameters { segments, window, .. } = spec.parameters;
        Ok(Box::new(make(self.build_tree(spec, root)?, segments, window)))
    }

    /// Whether the tree with root 0 is rank-ordered: those that do not depend on the network are.
    fn is_rank_ordered(&self) -> bool {
        self.network == NetworkRequirement::Any
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
        all.push(Algorithm::new(format!("bcast/{name}"), requires, &pipeline, (bcast, citation), |spec| {
            entry.build_schedule(spec, root(spec), Bcast::new)
        }));
        all.push(Algorithm::new(format!("scatter/{name}"), requires, &pipeline, (scatter, citation), |spec| {
            entry.build_schedule(spec, root(spec), ScatterGather::scatter)
        }));
        all.push(Algorithm::new(format!("gather/{name}"), requires, &pipeline, (scatter, citation), |spec| {
            entry.build_schedule(spec, root(spec), ScatterGather::gather)
        }));
        let reduce_requires = if entry.is_rank_ordered() { requires } else { requires.commutative() };
        let reduce = if *name == "mesh" { "fan_in" } else { name };
        all.push(Algorithm::new(format!("reduce/{reduce}"), reduce_requires, &pipeline, (bcast, citation), |spec| {
            if spec.commutative {
                return entry.build_schedule(spec, root(spec), Reduce::new);
            }
            entry.build_schedule(spec, 0, |tree, segments, window| Reduce::ordered(tree, root(spec), segments, window))
        }));
        // Barriers and gather-broadcast allgathers are registered only for shapes that differ in more than a number.
        let (barrier, cost) = match *name {
            "binomial" => ("tree", "2 ceil(lg P) alpha"),
            "flat" => ("central", "2(P-1) alpha"),
            "kary" => ("kary", "degree d, height h: 2 d h alpha"),
            "two_layer" => ("two_layer", "2(alpha over clusters, and within)"),
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
        let (allgather, cost) = match *name {
            "binomial" => ("gather_bcast", "2 ceil(lg P) alpha + (P-1 + P ceil(lg P)) n beta"),
            "two_layer" => ("two_layer", "each link between clusters carries every block at most twice"),
            "mesh" => ("mesh", "2 lg P alpha + (P-1 + P lg P) n delta"),
            _ => continue,
        };
        all.push(Algorithm::new(
            format!("allgather/{allgather}"),
            requires,
            &pipeline,
            (cost, "thesis 3.2.2"),
            |spec| entry.build_schedule(spec, 0, GatherBcast::new),
        ));
    }
    all
}
