//! Where the graph comes from, and what is made of its edges.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use treepie::Comm;
use treepie::graph::{
    Arc, Distribution, Edges, Files, Format, Generator, Graph, Orientation, Seeing, Shape, Weighted, Weights,
};

/// Where the graph comes from.
#[derive(clap::Args)]
pub(super) struct Input {
    /// Files of edges: lists (.txt, .el, .csv, .tsv), Matrix Market (.mtx), METIS (.graph), DIMACS (.gr), Graph 500
    /// (.packed), saved graphs (.tpg); also compressed (.gz)
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the files are, if their names do not tell
    #[arg(long, value_name = "FORMAT", requires = "files")]
    format: Option<Format>,
    /// The graph of the Graph 500 benchmark with 2^SCALE vertices, as 20 or 20,edgefactor=16
    #[arg(long, value_name = "SCALE")]
    pub(super) kronecker: Option<String>,
    /// A random graph, as 1000,degree=16 or 1000,p=0.01,directed
    #[arg(long, value_name = "VERTICES,DEGREE")]
    erdos_renyi: Option<String>,
    /// Random graphs joined by few edges, as groups=8,vertices=1000,p=0.03,k=6
    #[arg(long, value_name = "PARAMETERS")]
    balanced: Option<String>,
    /// A ring with some edges elsewhere, as 1000,k=4,beta=0.1
    #[arg(long, value_name = "PARAMETERS")]
    watts_strogatz: Option<String>,
    /// A grid, as 100x200
    #[arg(long, value_name = "SIZES")]
    grid: Option<String>,
    /// A grid whose ends are joined, as 100x200
    #[arg(long, value_name = "SIZES")]
    torus: Option<String>,
    /// Each edge stands for both directions
    #[arg(long, conflicts_with = "directed")]
    symmetrize: bool,
    /// Each edge stands for one direction
    #[arg(long)]
    directed: bool,
    /// Of several edges from one vertex to another, keep the lightest
    #[arg(long)]
    dedupe: bool,
    /// Leave out edges from a vertex to itself
    #[arg(long)]
    drop_self_loops: bool,
    /// How vertices are spread over ranks: block, cyclic or hashed
    #[arg(long, value_name = "HOW", default_value = "block")]
    distribution: Distribution,
    /// Vertices are spread as this file says: line i has the part of vertex i, and part p is rank p's, modulo the
    /// number of ranks
    #[arg(long, value_name = "FILE", conflicts_with = "distribution")]
    partition: Option<PathBuf>,
    /// Also write the graph, as it was built, to this file (.tpg), which is then read much faster
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Ranks see only vertices next to theirs, also if they are few
    #[arg(long)]
    ghosts: bool,
    /// Vertices with at least so many arcs have them spread over all ranks (bfs by messages, sssp, reach, pagerank)
    #[arg(long, value_name = "DEGREE", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) split: Option<u64>,
}

/// What is known of a graph that was built.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// For records: `kron20`, or a file's name.
    pub(super) name: String,
    /// In words: where it comes from, and what was done with its edges.
    pub(super) source: String,
    pub(super) scale: Option<(u32, u64)>,
    pub(super) vertices: u64,
    /// Of a rank.
    pub(super) most_vertices: u64,
    pub(super) arcs: u64,
    pub(super) symmetric: bool,
    /// Seconds that reading or making it took.
    pub(super) build: f64,
    /// The file that it was saved to, and the seconds that this took.
    pub(super) saved: Option<(String, f64)>,
    /// Bytes of rows, and of what is known about others' vertices, on the rank with the most.
    pub(super) rows: u64,
    pub(super) besides: u64,
    /// The degree from which on vertices are split, and how many were, if that was asked for.
    pub(super) split: Option<(u64, usize)>,
}

/// Edges, and the name of their source.
pub(super) struct Source {
    pub(super) edges: Box<dyn Edges>,
    pub(super) kronecker: Option<treepie::graph::generate::Kronecker>,
    pub(super) name: String,
    words: String,
}

impl Input {
    fn generators(&self) -> impl Iterator<Item = String> {
        let named = [
            ("kronecker", &self.kronecker),
            ("erdos-renyi", &self.erdos_renyi),
            ("balanced", &self.balanced),
            ("watts-strogatz", &self.watts_strogatz),
            ("grid", &self.grid),
            ("torus", &self.torus),
        ];
        named.into_iter().filter_map(|(name, text)| text.as_ref().map(|text| format!("{name}:{text}")))
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        let sources = self.generators().count() + usize::from(!self.files.is_empty());
        ensure!(sources > 0, "no graph: name a file, or say --kronecker SCALE (--help lists more)");
        ensure!(sources == 1, "more than one graph: name files, or say one generator");
        // A generator that cannot be is told once, not by each rank.
        self.generators().try_for_each(|text| text.parse::<Generator>().map(|_| ()))?;
        if let Some(missing) = self.files.iter().chain(&self.partition).find(|file| !file.exists()) {
            bail!("{}: there is no such file", missing.display());
        }
        if let Some(file) = &self.save {
            let ending = file.extension().unwrap_or_default();
            ensure!(ending.eq_ignore_ascii_case("tpg"), "{}: saved graphs have names that end in .tpg", file.display());
        }
        Ok(())
    }

    /// Opens it.
    pub(super) fn open(&self) -> anyhow::Result<Source> {
        if let Some(text) = self.generators().next() {
            let generator: Generator = text.parse()?;
            let kronecker = if let Generator::Kronecker(kronecker) = &generator { Some(*kronecker) } else { None };
            let name = kronecker.map_or_else(|| text.clone(), |kronecker| format!("kron{}", kronecker.scale()));
            return Ok(Source { words: generator.to_string(), edges: Box::new(generator), kronecker, name });
        }
        let files = Files::open(&self.files, self.format)?;
        let name =
            |file: &PathBuf| file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let names: Vec<String> = self.files.iter().map(name).collect();
        let words = format!("{} ({})", names.join(" "), files.format());
        Ok(Source { words, edges: Box::new(files), kronecker: None, name: names.join("+") })
    }

    /// What is made of edges, and in words.
    pub(super) fn shape(&self, source: &Source, backwards: bool, graph500: bool) -> (Shape, String) {
        let shape = Shape {
            symmetrize: self.symmetrize,
            directed: self.directed,
            dedupe: self.dedupe,
            drop_self_loops: self.drop_self_loops || graph500,
            distribution: self.distribution,
            partition: self.partition.clone(),
            seeing: if self.ghosts { Seeing::Ghosts } else { Seeing::Auto },
            backwards,
            whole_weights: source.edges.weights() == Weights::Whole,
            split: self.split,
        };
        let is_directed = match source.edges.orientation() {
            Orientation::Directed => !self.symmetrize,
            Orientation::Undirected => self.directed,
            Orientation::Symmetric => false,
        };
        let words = [
            if is_directed { "directed" } else { "both directions" },
            if shape.dedupe { "without repetitions" } else { "with repetitions" },
            if shape.drop_self_loops { "without self-loops" } else { "with self-loops" },
        ];
        (shape, words.join(", "))
    }

    /// Builds the graph. All ranks call it.
    pub(super) fn build<A: Arc>(
        &self,
        world: &Comm,
        source: &Source,
        (shape, words): &(Shape, String),
    ) -> anyhow::Result<(Graph<A>, Facts)> {
        let begun = world.now();
        let graph = Graph::build(world, &*source.edges, shape)?;
        let build = (world.now() - begun).as_secs_f64();
        let saved = self.save.as_ref().map(|file| self.save(world, source, shape, &graph, file)).transpose()?;
        let memory = graph.memory();
        let spread = match &self.partition {
            Some(file) => format!("as in {}", file.display()),
            None if graph.layout().names_are_numbers() => self.distribution.to_string(),
            None => "by name".to_owned(),
        };
        let most = world.all_reduce(&[memory.rows as u64, memory.besides as u64, graph.own() as u64], treepie::Max)?;
        let facts = Facts {
            name: source.name.clone(),
            source: format!("{}, {words}, {spread} over ranks", source.words),
            scale: source.kronecker.map(|kronecker| (kronecker.scale(), kronecker.edge_count() >> kronecker.scale())),
            vertices: graph.vertices(),
            most_vertices: most[2],
            arcs: graph.arcs(),
            symmetric: graph.is_symmetric(),
            build,
            saved,
            rows: most[0],
            besides: most[1],
            split: self.split.map(|degree| (degree, graph.hubs().len())),
        };
        Ok((graph, facts))
    }

    /// Saves a graph. If there are weights that the algorithm does not need, or rows are split, it is built again, with
    /// them and whole. All ranks call it.
    fn save<A: Arc>(
        &self,
        world: &Comm,
        source: &Source,
        shape: &Shape,
        graph: &Graph<A>,
        file: &Path,
    ) -> anyhow::Result<(String, f64)> {
        let begun = world.now();
        let weights = source.edges.weights();
        let whole = Shape { split: None, backwards: false, ..shape.clone() };
        if weights != Weights::None && !A::WEIGHTED {
            Graph::<Weighted>::build(world, &*source.edges, &whole)?.save(world, file, weights)?;
        } else if !graph.hubs().is_empty() {
            Graph::<A>::build(world, &*source.edges, &whole)?.save(world, file, weights)?;
        } else {
            graph.save(world, file, weights)?;
        }
        Ok((file.display().to_string(), (world.now() - begun).as_secs_f64()))
    }
}
