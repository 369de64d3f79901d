//! Operations along trees.

use std::sync::Arc;

use treepie_schedule::Schedule;

use super::cores::root;
use super::{Algorithm, Networks, Parameter, Parameters, Request, Requires};
use crate::barrier::FanInOut;
use crate::rooted::GatherBcast;
use crate::trees::{Bcast, Blocks, Layer, Placed, Reduce, Shape};

/// A shape of trees.
struct Entry {
    name: &'static str,
    networks: Networks,
    parameters: &'static [Parameter],
    shape: fn(&Request<'_>) -> Shape,
    /// Of a broadcast in one piece, and of a scatter.
    bcast: &'static str,
    scatter: &'static str,
    citation: &'static str,
}

const ENTRIES: [Entry; 9] = [
    Entry {
        name: "flat",
        networks: Networks::Any,
        parameters: &[],
        shape: |_| Shape::One(Layer::Flat),
        bcast: "(P-1)(alpha + n beta)",
        scatter: "(P-1)(alpha + n beta)",
        citation: "P-LogP 3",
    },
    Entry {
        name: "chain",
        networks: Networks::Any,
        parameters: &[],
        shape: |_| Shape::One(Layer::Chain),
        bcast: "s segments: (P-2+s)(alpha + n/s beta)",
        scatter: "(P-1) alpha + P(P-1)/2 n beta",
        citation: "P-LogP 3",
    },
    Entry {
        name: "binomial",
        networks: Networks::Any,
        parameters: &[],
        shape: |_| Shape::One(Layer::Binomial),
        bcast: "ceil(lg P)(alpha + n beta)",
        scatter: "ceil(lg P) alpha + (P-1) n beta",
        citation: "P-LogP 3",
    },
    Entry {
        name: "knomial",
        networks: Networks::Any,
        parameters: &[Parameter::Radix],
        shape: |request| Shape::One(Layer::Knomial(request.parameters.radix)),
        bcast: "radix k: (k-1) ceil(log_k P)(alpha + n beta)",
        scatter: "radix k: (k-1) ceil(log_k P) alpha + (P-1) n beta",
        citation: "P-LogP 3",
    },
    Entry {
        name: "kary",
        networks: Networks::Any,
        parameters: &[Parameter::Degree],
        shape: |request| Shape::One(Layer::Kary(request.parameters.degree)),
        bcast: "degree d, height h, s segments: (s-1+h) d (alpha + n/s beta)",
        scatter: "degree d, height h: d h alpha + about d/(d-1) (P-1) n beta",
        citation: "P-LogP 3.1",
    },
    Entry {
        name: "greedy",
        networks: Networks::Any,
        parameters: &[Parameter::Gap, Parameter::Time],
        shape: |request| {
            let parameters = &request.parameters;
            Shape::One(Layer::Greedy { gap: parameters.gap, time: parameters.time })
        },
        bcast: "the least possible in LogP",
        scatter: "as the tree is: at least (P-1) n beta",
        citation: "Karp et al. 1993; NBX 3",
    },
    Entry {
        name: "two_layer",
        networks: Networks::Layers,
        parameters: &[Parameter::Wan, Parameter::Lan],
        shape: |request| Shape::TwoLayer { wan: request.parameters.wan, lan: request.parameters.lan },
        bcast: "s segments: (s-1) gamma + lambda of the trees one after the other",
        scatter: "each cluster's blocks over its link once, then within it",
        citation: "P-LogP 3.1",
    },
    Entry {
        name: "in_turn",
        networks: Networks::Layers,
        parameters: &[],
        shape: |_| Shape::InTurn,
        bcast: "(P-1)(alpha + n beta), links to clusters in turn",
        scatter: "(P-1)(alpha + n beta), links to clusters in turn; s segments: (s-1) gamma + lambda",
        citation: "P-LogP 3.2",
    },
    Entry {
        name: "mesh",
        networks: Networks::Grid,
        parameters: &[],
        shape: |_| Shape::Mesh,
        bcast: "lg P (alpha + n delta)",
        scatter: "lg P alpha + (P-1) n delta",
        citation: "thesis 3.2.1",
    },
];

const PIPELINE: [Parameter; 2] = [Parameter::Segments, Parameter::Window];

impl Entry {
    fn placed(&self, request: &Request<'_>, root: u32) -> Result<Arc<Placed>, String> {
        let shape = (self.shape)(request);
        let placed = shape.place(request.network, root).map_err(|unfit| unfit.to_string())?;
        // No link of a mesh has to carry two messages at once only as long as all ranks keep step.
        Ok(Arc::new(if shape == Shape::Mesh { placed.stepped() } else { placed }))
    }

    /// What goes along the tree in segments.
    fn along<S: Schedule + 'static>(
        &self,
        request: &Request<'_>,
        root: u32,
        make: impl Fn(Arc<Placed>, u32, u32) -> S,
    ) -> Result<Box<dyn Schedule>, String> {
        let Parameters { segments, window, .. } = request.parameters;
        Ok(Box::new(make(self.placed(request, root)?, segments, window)))
    }

    /// A shape over ranks as they are numbered keeps their order if rank 0 is the root.
    fn keeps_order(&self) -> bool {
        self.networks == Networks::Any
    }

    fn with_pipeline(&self) -> Vec<Parameter> {
        self.parameters.iter().copied().chain(PIPELINE).collect()
    }
}

pub(super) fn algorithms() -> Vec<Algorithm> {
    let mut all = Vec::new();
    for entry in &ENTRIES {
        let Entry { name, bcast, scatter, citation, .. } = entry;
        let requires = Requires::NOTHING.on(entry.networks);
        let pipeline = entry.with_pipeline();
        all.push(Algorithm::new(format!("bcast/{name}"), requires, &pipeline, (bcast, citation), |request| {
            entry.along(request, root(request), Bcast::new)
        }));
        all.push(Algorithm::new(format!("scatter/{name}"), requires, &pipeline, (scatter, citation), |request| {
            entry.along(request, root(request), Blocks::scatter)
        }));
        all.push(Algorithm::new(format!("gather/{name}"), requires, &pipeline, (scatter, citation), |request| {
            entry.along(request, root(request), Blocks::gather)
        }));
        let reducing = if entry.keeps_order() { requires } else { requires.commuting() };
        let reduce = if *name == "mesh" { "fan_in" } else { name };
        all.push(Algorithm::new(format!("reduce/{reduce}"), reducing, &pipeline, (bcast, citation), |request| {
            if request.commutative {
                return entry.along(request, root(request), Reduce::new);
            }
            entry.along(request, 0, |tree, segments, window| Reduce::ordered(tree, root(request), segments, window))
        }));
        // Of barriers, and of allgathers over a root, only shapes that differ in more than a number.
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
            |request| Ok(Box::new(FanInOut::new(entry.placed(request, 0)?))),
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
            |request| entry.along(request, 0, GatherBcast::new),
        ));
    }
    all
}
