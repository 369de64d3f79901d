//! Graph generators. Any rank can generate any part, and the graph is the same for every number of parts.
//!
//! | graph | written as |
//! |---|---|
//! | [`Kronecker`] of Graph 500 | `kronecker:20`, `kronecker:20,edgefactor=8,seed=5` |
//! | [`ErdosRenyi`] | `erdos-renyi:1000,degree=16`, `erdos-renyi:1000,p=0.01,directed` |
//! | [`Balanced`] of the sparse exchange | `balanced:groups=8,vertices=1000,p=0.03,k=6` |
//! | [`WattsStrogatz`] | `watts-strogatz:1000,k=4,beta=0.1` |
//! | [`Grid`] | `grid:10x20`, `torus:4x4x4` |
//!
//! All take `seed=`; that of a Kronecker graph is the first of its two seeds, or both as `seed=5:7`. All but Kronecker
//! graphs, which always have weights, take `weighted`.
//!
//! Each row has its own random stream, and parts are blocks of rows with the same expected number of edges, or of
//! edges. So parts are balanced by edges.

mod balanced;
mod erdos_renyi;
mod grid;
mod kronecker;
mod mrg;
pub mod packed;
mod random;
mod seeding;
#[cfg(test)]
mod sha256;
mod text;
mod watts_strogatz;

use std::fmt;
use std::str::FromStr;

pub use balanced::Balanced;
pub use erdos_renyi::ErdosRenyi;
pub use grid::Grid;
pub use kronecker::Kronecker;
pub use watts_strogatz::WattsStrogatz;

use crate::{Edge, EdgeSource, Error, Orientation, Result, WeightKind};
use text::GeneratorArguments;

/// The most vertices: packed edges have 48 bits for each endpoint.
const MAX_VERTICES: u64 = 1 << 48;

/// Names of generators, each with an example.
const EXAMPLES: [(&str, &str); 6] = [
    ("kronecker", "kronecker:20,edgefactor=16,seed=2"),
    ("erdos-renyi", "erdos-renyi:1000,degree=16"),
    ("balanced", "balanced:groups=8,vertices=1000,p=0.03,k=6"),
    ("watts-strogatz", "watts-strogatz:1000,k=4,beta=0.1"),
    ("grid", "grid:10x20"),
    ("torus", "torus:4x4x4"),
];

/// A generator of any kind, parsed from [text](self).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Generator {
    /// The Kronecker generator of Graph 500.
    Kronecker(Kronecker),
    /// The random graph G(n, p).
    ErdosRenyi(ErdosRenyi),
    /// Groups with few edges between them.
    Balanced(Balanced),
    /// A ring with rewired edges.
    WattsStrogatz(WattsStrogatz),
    /// A grid or a torus.
    Grid(Grid),
}

impl Generator {
    fn source(&self) -> &dyn EdgeSource {
        match self {
            Self::Kronecker(graph) => graph,
            Self::ErdosRenyi(graph) => graph,
            Self::Balanced(graph) => graph,
            Self::WattsStrogatz(graph) => graph,
            Self::Grid(graph) => graph,
        }
    }
}

impl EdgeSource for Generator {
    fn num_vertices(&self) -> Option<u64> {
        self.source().num_vertices()
    }

    fn orientation(&self) -> Orientation {
        self.source().orientation()
    }

    fn weights(&self) -> WeightKind {
        self.source().weights()
    }

    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        self.source().read_part(part, parts, sink)
    }
}

impl FromStr for Generator {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
        let Some((_, example)) = EXAMPLES.iter().find(|(known, _)| *known == name) else {
            let names = EXAMPLES.map(|(name, _)| name).join(", ");
            return Err(Error::Input(format!("unknown generator `{name}`, expected one of {names}")));
        };
        let mut arguments = GeneratorArguments::new(text, example, arguments);
        let generator = match name {
            "kronecker" => Self::Kronecker(Kronecker::parse(&mut arguments)?),
            "erdos-renyi" => Self::ErdosRenyi(ErdosRenyi::parse(&mut arguments)?),
            "balanced" => Self::Balanced(Balanced::parse(&mut arguments)?),
            "watts-strogatz" => Self::WattsStrogatz(WattsStrogatz::parse(&mut arguments)?),
            _ => Self::Grid(Grid::parse(&mut arguments, name == "torus")?),
        };
        arguments.finish()?;
        Ok(generator)
    }
}

impl fmt::Display for Generator {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Kronecker(graph) => graph.fmt(f),
            Self::ErdosRenyi(graph) => graph.fmt(f),
            Self::Balanced(graph) => graph.fmt(f),
            Self::WattsStrogatz(graph) => graph.fmt(f),
            Self::Grid(graph) => graph.fmt(f),
        }
    }
}

/// Checks the number of vertices; `None` is one that overflows `u64`.
fn check_vertices(count: Option<u64>) -> Result<u64> {
    count.filter(|count| (1..=MAX_VERTICES).contains(count)).ok_or_else(|| {
        let count = count.map_or("even more".to_owned(), |count| count.to_string());
        Error::Input(format!("a graph has from 1 to 2^{} vertices, not {count}", MAX_VERTICES.ilog2()))
    })
}

fn check_probability(probability: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&probability) {
        Ok(probability)
    } else {
        Err(Error::Input(format!("a probability is from 0 to 1, not {probability}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPHS: [&str; 22] = [
        "kronecker:8",
        "kronecker:6,edgefactor=8,seed=5",
        "kronecker:5,seed=5:7",
        "erdos-renyi:1000,degree=16",
        "erdos-renyi:501,degree=3.5,directed,seed=4",
        "erdos-renyi:1000,p=0.01,directed",
        "erdos-renyi:300,p=0.2,seed=9,weighted",
        "erdos-renyi:1,p=0.5",
        "balanced:groups=8,vertices=100,p=0.03,k=6",
        "balanced:groups=1,vertices=50,p=0.5,k=6,seed=3",
        "balanced:groups=30,vertices=1,p=1,k=2",
        "watts-strogatz:1000,k=4,beta=0.1",
        "watts-strogatz:9,k=8,beta=1,weighted",
        "watts-strogatz:600,k=10,beta=0,seed=18446744073709551615",
        "grid:10x20",
        "grid:1000",
        "grid:2x2x2x2x2,weighted",
        "grid:7x1x3",
        "torus:4x4x4",
        "torus:2x30",
        "torus:100,seed=2,weighted",
        "torus:1",
    ];

    fn parsed(text: &str) -> Generator {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn part(graph: &Generator, part: usize, parts: usize) -> Vec<(u64, u64, u64)> {
        let mut edges = Vec::new();
        let mut collect = |some: &[Edge]| {
            edges.extend(some.iter().map(|edge| (edge.from, edge.to, edge.weight.to_bits())));
        };
        graph.read_part(part, parts, &mut collect).unwrap();
        edges
    }

    #[test]
    fn parts_make_the_same_graph_however_many_there_are() {
        for text in GRAPHS {
            let graph = parsed(text);
            let mut whole = part(&graph, 0, 1);
            whole.sort_unstable();
            for parts in 1..=7 {
                let mut edges: Vec<_> = (0..parts).flat_map(|number| part(&graph, number, parts)).collect();
                edges.sort_unstable();
                assert!(edges == whole, "{text} in {parts}");
            }
        }
    }

    #[test]
    fn parts_are_balanced_by_edges() {
        for text in GRAPHS {
            let graph = parsed(text);
            for parts in 2..=7 {
                let lengths: Vec<usize> = (0..parts).map(|number| part(&graph, number, parts).len()).collect();
                let mean = lengths.iter().sum::<usize>() as f64 / parts as f64;
                // Five standard deviations of a Poisson variable, and a row.
                let row = 2.0 * mean * parts as f64 / graph.num_vertices().unwrap() as f64;
                let allowed = 5.0 * mean.sqrt() + row + 1.0;
                assert!(lengths.iter().all(|length| (*length as f64 - mean).abs() <= allowed), "{text}: {lengths:?}");
            }
        }
    }

    #[test]
    fn edges_are_what_the_graph_says() {
        for text in GRAPHS {
            let graph = parsed(text);
            let vertices = graph.num_vertices().unwrap();
            let mut different = false;
            for (from, to, weight) in part(&graph, 0, 1) {
                assert!(from < vertices && to < vertices, "{text}: {from} {to}");
                assert!(from != to || text.starts_with("kronecker"), "{text}: {from} {to}");
                different |= weight != 1f64.to_bits();
            }
            assert_eq!(different, graph.weights() == WeightKind::Real, "{text}");
        }
    }

    #[test]
    fn seeds_matter() {
        for text in ["kronecker:8", "erdos-renyi:99,p=0.3", "watts-strogatz:99,k=4,beta=0.4", "grid:9x9,weighted"] {
            let graphs = ["", ",seed=7", ",seed=8"].map(|seed| part(&parsed(&format!("{text}{seed}")), 0, 1));
            assert!(graphs[0] != graphs[1] && graphs[1] != graphs[2] && graphs[0] != graphs[2], "{text}");
        }
    }

    /// Graphs are the same in all versions and on all machines.
    #[test]
    fn graphs_are_those_of_yesterday() {
        let hash = |text: &str| {
            let mut hash = sha256::Sha256::new();
            for (from, to, weight) in part(&parsed(text), 0, 1) {
                [from, to, weight].iter().for_each(|word| hash.write(&word.to_le_bytes()));
            }
            hash.finish()[..16].to_owned()
        };
        assert_eq!(hash("erdos-renyi:5000,degree=16,weighted"), "807e818cee4accb1");
        assert_eq!(hash("balanced:groups=8,vertices=200,p=0.03,k=6"), "048ebf067f233943");
        assert_eq!(hash("watts-strogatz:5000,k=4,beta=0.1,seed=3"), "721d5429e45f2511");
    }

    #[test]
    fn text_comes_back() {
        for text in GRAPHS {
            assert_eq!(parsed(text).to_string(), text);
        }
        for (_, example) in EXAMPLES {
            assert_eq!(parsed(&parsed(example).to_string()), parsed(example));
        }
        let mixed = parsed("erdos-renyi:10,weighted,seed=3,directed,p=0.5");
        assert_eq!(mixed.to_string(), "erdos-renyi:10,p=0.5,directed,seed=3,weighted");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let why = |text: &str| match text.parse::<Generator>() {
            Err(Error::Input(why)) => why,
            other => panic!("{text}: {other:?}"),
        };
        for (text, expected) in [
            (
                "rmat:20",
                "unknown generator `rmat`, expected one of kronecker, erdos-renyi, balanced, watts-strogatz, \
                 grid, torus",
            ),
            ("grid", "`grid` is not a generator like `grid:10x20`: the first argument is missing"),
            ("grid:3xx", "`grid:3xx` is not a generator like `grid:10x20`: `3xx` is not a valid first argument"),
            ("torus:4x0", "a graph has from 1 to 2^48 vertices, not 0"),
            ("erdos-renyi:9,p=1.1", "a probability is from 0 to 1, not 1.1"),
            ("kronecker:0", "the scale of a Kronecker graph is from 1 to 48, not 0"),
        ] {
            assert_eq!(why(text), expected);
        }
        for (text, part) in [
            ("kronecker:", "the first argument is missing"),
            ("kronecker:ten", "`ten` is not a valid first argument"),
            ("kronecker:10,seed=x", "`x` is no seed"),
            ("kronecker:10,edgefactor=-1", "`edgefactor=-1` has an invalid value"),
            ("kronecker:10,weighted", "`weighted` is unknown here"),
            ("erdos-renyi:9,p=0.1,p=0.2", "`p=0.2` is unknown here, or repeated"),
            ("erdos-renyi:9,p=0.1,degree=3", "like `erdos-renyi:1000,degree=16`: one of `degree=` and `p=` is needed"),
            ("erdos-renyi:9,p=nan", "not NaN"),
            ("balanced:groups=8,p=0.03,k=6", "`vertices=` is missing"),
            ("watts-strogatz:10,k=3,beta=0.1", "an even number of neighbors below the 10 vertices, not 3"),
            ("torus:4x4,", "`` is unknown"),
            ("grid:281474976710657", "not 281474976710657"),
            ("grid:281474976710657x281474976710657", "not even more"),
        ] {
            assert!(why(text).contains(part), "{text}: {}", why(text));
        }
    }
}
