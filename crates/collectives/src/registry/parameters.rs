//! The parameters of algorithms, and their syntax in an id.

use super::{Algorithm, allgather_based};
use crate::trees::{Levels, TreeShape};

/// How blocks get into order, where an algorithm collects them in another order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockOrder {
    /// Blocks are received at their final offsets, which are scattered in memory.
    #[default]
    Strided,
    /// Ranks exchange their blocks first, so that received ranges are consecutive (the thesis's shuffle).
    Shuffled,
    /// Blocks are collected in scratch memory and reordered at the end.
    Reordered,
}

/// Values of the parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Segments of a pipeline.
    pub segments: u32,
    /// Segments in flight on a rank, of each tree if there are several. By default eight, and all of several trees.
    pub window: Option<u32>,
    /// Maximum number of children in a k-ary tree.
    pub degree: u32,
    /// Radix of a k-nomial tree.
    pub radix: u32,
    /// Time between two sends of a rank, for the greedy tree.
    pub gap: f64,
    /// Time until a message can be forwarded, for the greedy tree.
    pub time: f64,
    /// The tree over clusters.
    pub wan: TreeShape,
    /// The tree within a cluster.
    pub lan: TreeShape,
    /// The levels of nested clusters that it distinguishes.
    pub levels: Levels,
    /// Coordinators of each group of clusters, at most one for each rank of the smallest; of an all-to-all, at most one for
    /// each rank of the group.
    pub coordinators: u32,
    /// Concurrent buckets; 0 for the best number on the network.
    pub buckets: u32,
    /// Dimensions of the grid of a store-and-forward all-to-all.
    pub dimensions: u32,
    /// Halvings before the exchange.
    pub halvings: u32,
    /// How blocks get into order.
    pub order: BlockOrder,
    /// The allgather core of a composed operation.
    pub core: &'static str,
    /// The algorithm of the leaders of hosts; `None` for a default of the operation.
    pub inter: Option<&'static str>,
}

impl Parameters {
    /// The window of a pipeline along one tree or chain.
    pub(super) fn window_of_one(&self) -> u32 {
        self.window.unwrap_or(8)
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            segments: 1,
            window: None,
            degree: 4,
            radix: 4,
            gap: 1.0,
            time: 3.5,
            wan: TreeShape::Flat,
            lan: TreeShape::Binomial,
            levels: Levels::All,
            coordinators: 1,
            buckets: 0,
            dimensions: 2,
            halvings: u32::MAX,
            order: BlockOrder::default(),
            core: "ring",
            inter: None,
        }
    }
}

/// A parameter of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// [`Parameters::segments`].
    Segments,
    /// [`Parameters::window`].
    Window,
    /// [`Parameters::degree`].
    Degree,
    /// [`Parameters::radix`].
    Radix,
    /// [`Parameters::gap`].
    Gap,
    /// [`Parameters::time`].
    Time,
    /// [`Parameters::wan`].
    Wan,
    /// [`Parameters::lan`].
    Lan,
    /// [`Parameters::levels`].
    Levels,
    /// [`Parameters::coordinators`].
    Coordinators,
    /// [`Parameters::buckets`].
    Buckets,
    /// [`Parameters::dimensions`].
    Dimensions,
    /// [`Parameters::halvings`].
    Halvings,
    /// [`Parameters::order`]: strided or shuffled (`moved`).
    Order,
    /// The same, or reordered.
    AnyOrder,
    /// [`Parameters::core`].
    Core,
    /// [`Parameters::inter`].
    Inter,
}

impl Parameter {
    /// The name in an id.
    pub const fn name(self) -> &'static str {
        match self {
            Parameter::Segments => "segments",
            Parameter::Window => "window",
            Parameter::Degree => "degree",
            Parameter::Radix => "radix",
            Parameter::Gap => "gap",
            Parameter::Time => "time",
            Parameter::Wan => "wan",
            Parameter::Lan => "lan",
            Parameter::Levels => "levels",
            Parameter::Coordinators => "coordinators",
            Parameter::Buckets => "buckets",
            Parameter::Dimensions => "dimensions",
            Parameter::Halvings => "halvings",
            Parameter::Order | Parameter::AnyOrder => "order",
            Parameter::Core => "core",
            Parameter::Inter => "inter",
        }
    }

    /// The accepted values.
    fn values(self) -> String {
        match self {
            Parameter::Order => "strided or moved".to_owned(),
            Parameter::AnyOrder => "strided, moved or reordered".to_owned(),
            Parameter::Core => allgather_based::names().join(", "),
            Parameter::Inter => "an algorithm of the operation, such as recursive_doubling or ring".to_owned(),
            Parameter::Wan => "flat, chain, binomial, knomial2, kary2 or links2-8".to_owned(),
            Parameter::Lan => "flat, chain, binomial, knomial2 or kary2".to_owned(),
            Parameter::Levels => "all, innermost or outermost".to_owned(),
            Parameter::Gap | Parameter::Time => "a time".to_owned(),
            Parameter::Degree | Parameter::Coordinators => "a number of at least 1".to_owned(),
            Parameter::Radix => "a number of at least 2".to_owned(),
            _ => "a number".to_owned(),
        }
    }

    /// Parses and sets a value; `None` if it is not accepted.
    fn set(self, to: &mut Parameters, value: &str) -> Option<()> {
        let number = |least: u32| value.parse().ok().filter(|number| *number >= least);
        let time = || value.parse().ok().filter(|time: &f64| time.is_finite() && *time > 0.0);
        match self {
            Parameter::Segments => to.segments = number(1)?,
            Parameter::Window => to.window = Some(number(1)?),
            Parameter::Degree => to.degree = number(1)?,
            Parameter::Radix => to.radix = number(2)?,
            Parameter::Gap => to.gap = time()?,
            Parameter::Time => to.time = time()?,
            Parameter::Wan => to.wan = value.parse().ok().map(TreeShape::Links).or_else(|| parse_tree_shape(value))?,
            Parameter::Lan => to.lan = parse_tree_shape(value)?,
            Parameter::Levels => {
                to.levels = match value {
                    "all" => Levels::All,
                    "innermost" => Levels::Innermost,
                    "outermost" => Levels::Outermost,
                    _ => return None,
                }
            }
            Parameter::Coordinators => to.coordinators = number(1)?,
            Parameter::Buckets => to.buckets = number(0)?,
            Parameter::Dimensions => to.dimensions = number(1)?,
            Parameter::Halvings => to.halvings = number(0)?,
            Parameter::Order | Parameter::AnyOrder => {
                to.order = match value {
                    "strided" => BlockOrder::Strided,
                    "moved" => BlockOrder::Shuffled,
                    "reordered" if self == Parameter::AnyOrder => BlockOrder::Reordered,
                    _ => return None,
                }
            }
            Parameter::Inter => {
                to.inter = Some(super::all().iter().map(Algorithm::name).find(|name| *name == value)?);
            }
            Parameter::Core => to.core = allgather_based::names().into_iter().find(|name| *name == value)?,
        }
        Some(())
    }
}

fn parse_tree_shape(text: &str) -> Option<TreeShape> {
    let number = |prefix, least: u32| text.strip_prefix(prefix)?.parse().ok().filter(|number| *number >= least);
    Some(match text {
        "flat" => TreeShape::Flat,
        "chain" => TreeShape::Chain,
        "binomial" => TreeShape::Binomial,
        _ => match number("knomial", 2) {
            Some(radix) => TreeShape::Knomial(radix),
            None => TreeShape::Kary(number("kary", 1)?),
        },
    })
}

impl Parameters {
    /// These parameters with the arguments of an id: `name=value`, or a value alone for the first parameter that
    /// accepts it. An error lists the accepted arguments.
    pub(super) fn with_arguments(mut self, known: &[Parameter], arguments: &str) -> Result<Self, String> {
        for argument in arguments.split(',').filter(|argument| !argument.is_empty()) {
            let done = match argument.split_once('=') {
                Some((name, value)) => {
                    known.iter().find(|parameter| parameter.name() == name).and_then(|it| it.set(&mut self, value))
                }
                None => {
                    let named_only = [Parameter::Segments, Parameter::Window, Parameter::Coordinators];
                    let own = known.iter().filter(|it| !named_only.contains(it));
                    own.clone().find_map(|parameter| parameter.set(&mut self, argument))
                }
            };
            if done.is_none() {
                let accepted = known.iter().map(|it| format!("{}={}", it.name(), it.values())).collect::<Vec<_>>();
                let accepted =
                    if accepted.is_empty() { "it has no parameters".to_owned() } else { accepted.join("; ") };
                return Err(accepted);
            }
        }
        Ok(self)
    }
}

/// Arguments that cover the kinds of values, for an algorithm of this operation.
pub(super) fn variants(operation: &str, known: &[Parameter]) -> Vec<String> {
    let mut all = vec![String::new()];
    for parameter in known {
        let values: Vec<&str> = match parameter {
            Parameter::Segments if known.contains(&Parameter::Window) => vec!["", "segments=3,window=2"],
            Parameter::Segments => vec!["", "segments=4"],
            Parameter::Degree => vec!["2", "5"],
            Parameter::Radix => vec!["2", "3"],
            Parameter::Time => vec!["gap=1,time=1", "gap=2.87,time=10.03"],
            Parameter::Lan if known.contains(&Parameter::Levels) => {
                vec![
                    "",
                    "wan=binomial,lan=flat",
                    "wan=kary2,lan=chain,levels=outermost",
                    "levels=innermost",
                    // The links from the first of four groups to the second, and from the last to the first, are slow.
                    "wan=links4-300000c,lan=flat",
                ]
            }
            Parameter::Lan => vec!["", "wan=binomial,lan=flat", "wan=kary2,lan=chain"],
            // Those of trees are listed with their shapes.
            Parameter::Levels if known.contains(&Parameter::Lan) => vec![""],
            Parameter::Levels => vec!["", "innermost", "outermost"],
            Parameter::Coordinators => vec!["", "coordinators=3"],
            Parameter::Buckets => vec!["", "1", "2", "3", "4"],
            Parameter::Dimensions => vec!["1", "2", "3"],
            Parameter::Halvings => vec!["", "0", "1", "2"],
            Parameter::Order => vec!["strided", "moved"],
            Parameter::AnyOrder => vec!["strided", "moved", "reordered"],
            Parameter::Inter => match operation {
                "barrier" => vec!["", "inter=recursive_doubling"],
                "bcast" => vec!["", "inter=chain", "inter=scatter_allgather"],
                "allgather" => vec!["", "inter=ring", "inter=linear", "inter=distance_halving"],
                "reduce" => vec!["", "inter=chain", "inter=reduce_scatter_gather"],
                _ => vec!["", "inter=ring", "inter=rabenseifner"],
            },
            Parameter::Core => allgather_based::names(),
            Parameter::Window | Parameter::Gap | Parameter::Wan => vec![""],
        };
        let joined = |before: &String, value: &str| match (before.is_empty(), value.is_empty()) {
            (true, _) => value.to_owned(),
            (false, true) => before.clone(),
            (false, false) => format!("{before},{value}"),
        };
        all = all.iter().flat_map(|before| values.iter().map(move |value| joined(before, value))).collect();
    }
    all
}
