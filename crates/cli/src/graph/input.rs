//! Input of a graph: files or a generator, and build options.

use std::path::{Path, PathBuf};

use super::streams::{self, InputFiles};
use anyhow::{bail, ensure};
use treepie::Comm;
use treepie::graph::{
    BuildOptions, Distribution, EdgeColumns, EdgeFiles, EdgeSource, EdgeWeight, Generator, GhostPolicy, Graph,
    InputFormat, Orientation, WeightKind,
};

/// Graph input.
#[derive(clap::Args)]
pub(super) struct Input {
    /// Input files: edge lists (.txt, .el, .csv, .tsv), Matrix Market (.mtx), METIS (.graph), DIMACS (.gr), Graph 500
    /// (.packed), saved graphs (.tpg), directories of these; optionally compressed (.gz, .bz2, .zst); `-` is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Input format [default: from the file extension]
    #[arg(long, value_name = "FORMAT", requires = "files")]
    format: Option<InputFormat>,
    /// Columns of an edge list with source, target and perhaps weight, counted from 0, e.g. 0,1,3 [default: all]
    #[arg(long, value_name = "COLUMNS", requires = "files")]
    columns: Option<EdgeColumns>,
    /// Kronecker (R-MAT) graph of Graph 500 with 2^SCALE vertices, e.g. 20 or 20,edgefactor=16
    #[arg(long, value_name = "SCALE")]
    pub(super) kronecker: Option<String>,
    /// Erdos-Renyi random graph, e.g. 1000,degree=16 or 1000,p=0.01,directed
    #[arg(long, value_name = "VERTICES,DEGREE")]
    erdos_renyi: Option<String>,
    /// Random graphs joined by a few edges, e.g. groups=8,vertices=1000,p=0.03,k=6
    #[arg(long, value_name = "PARAMETERS")]
    balanced: Option<String>,
    /// Watts-Strogatz small-world graph, e.g. 1000,k=4,beta=0.1
    #[arg(long, value_name = "PARAMETERS")]
    watts_strogatz: Option<String>,
    /// Grid, e.g. 100x200
    #[arg(long, value_name = "SIZES")]
    grid: Option<String>,
    /// Torus (periodic grid), e.g. 100x200
    #[arg(long, value_name = "SIZES")]
    torus: Option<String>,
    /// Treat input edges as undirected: add the reverse of each
    #[arg(long, conflicts_with = "directed")]
    symmetrize: bool,
    /// Treat input edges as directed
    #[arg(long)]
    directed: bool,
    /// Remove duplicate edges, keeping the lightest
    #[arg(long)]
    dedupe: bool,
    /// Remove self-loops
    #[arg(long)]
    drop_self_loops: bool,
    /// Distribution of vertices over ranks: block, cyclic or hashed
    #[arg(long, value_name = "HOW", default_value = "block")]
    distribution: Distribution,
    /// Distribute vertices by this partition file (as METIS writes it): line i has the part of vertex i, and rank p
    /// owns part p, modulo the number of ranks
    #[arg(long, value_name = "FILE", conflicts_with = "distribution")]
    partition: Option<PathBuf>,
    /// Also save the built graph to this file (.tpg), which loads much faster
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// Hold values of ghost vertices only [default on fewer than 16 ranks: replicate those of all vertices]
    #[arg(long)]
    ghosts: bool,
    /// Split the arcs of vertices of at least this degree over all ranks (bfs --method messages, sssp, reach, pagerank)
    #[arg(long, value_name = "DEGREE", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) split: Option<u64>,
}

/// Facts about the built graph.
#[derive(Clone, Debug)]
pub(super) struct GraphFacts {
    /// Name in records: `kron20`, or a file name.
    pub(super) name: String,
    /// Description: the source, and how its edges were treated.
    pub(super) source: String,
    pub(super) scale: Option<(u32, u64)>,
    pub(super) vertices: u64,
    /// Maximum over ranks.
    pub(super) max_vertices: u64,
    pub(super) arcs: u64,
    pub(super) symmetric: bool,
    /// Seconds to read or generate it.
    pub(super) build_seconds: f64,
    /// The file it was saved to, and the seconds that took.
    pub(super) saved: Option<(String, f64)>,
    /// Bytes of the CSR, and of the data about remote vertices; maximum over ranks.
    pub(super) csr_bytes: u64,
    pub(super) ghost_bytes: u64,
    /// With `--split`: the degree threshold, and the number of split vertices.
    pub(super) split: Option<(u64, usize)>,
}

/// The edges and their origin.
pub(super) struct Source {
    pub(super) edges: Box<dyn EdgeSource>,
    pub(super) kronecker: Option<treepie::graph::generate::Kronecker>,
    pub(super) name: String,
    /// Whether it is not generated.
    pub(super) is_file: bool,
    description: String,
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

    /// Checks that the files are there, before any rank is started: ranks have not what the shell substitutes.
    pub(super) fn check_files(&self) -> anyhow::Result<()> {
        streams::check(&self.files)?;
        let named = self.files.iter().filter(|file| !streams::is_stream(file));
        if let Some(missing) = named.chain(&self.partition).find(|file| !file.exists()) {
            bail!("{}: no such file", missing.display());
        }
        Ok(())
    }

    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        let sources = self.generators().count() + usize::from(!self.files.is_empty());
        ensure!(sources > 0, "no graph: give a file or a generator such as --kronecker SCALE (see --help)");
        ensure!(sources == 1, "more than one graph: give either files or one generator");
        // Invalid generator parameters are reported once, not by each rank.
        self.generators().try_for_each(|text| text.parse::<Generator>().map(|_| ()))?;
        if let Some(file) = &self.save {
            let extension = file.extension().unwrap_or_default();
            ensure!(extension.eq_ignore_ascii_case("tpg"), "{}: --save needs a .tpg file name", file.display());
        }
        Ok(())
    }

    /// Opens the files or the generator.
    pub(super) fn open(&self, files: &InputFiles) -> anyhow::Result<Source> {
        if let Some(text) = self.generators().next() {
            let generator: Generator = text.parse()?;
            let kronecker = if let Generator::Kronecker(kronecker) = &generator { Some(*kronecker) } else { None };
            let name = kronecker.map_or_else(|| text.clone(), |kronecker| format!("kron{}", kronecker.scale()));
            return Ok(Source {
                description: generator.to_string(),
                edges: Box::new(generator),
                kronecker,
                name,
                is_file: false,
            });
        }
        // Pipes have no extension.
        let default = files.are_streams().then_some(InputFormat::Text);
        let names: Vec<&str> = files.names.iter().map(|name| name.rsplit('/').next().unwrap_or_default()).collect();
        let files = EdgeFiles::open_columns(&files.paths, self.format.or(default), self.columns)?;
        let description = format!("{} ({})", names.join(" "), files.format());
        Ok(Source { description, edges: Box::new(files), kronecker: None, name: names.join("+"), is_file: true })
    }

    /// Whether the graph is directed, unless a kernel needs another one.
    pub(super) fn is_directed(&self, source: &Source) -> bool {
        match source.edges.orientation() {
            Orientation::Directed => !self.symmetrize,
            Orientation::Undirected => self.directed,
            Orientation::Symmetric => false,
        }
    }

    /// The build options, and their description.
    /// With `is_weak`, edges connect in both directions whatever else is said.
    pub(super) fn build_options(
        &self,
        source: &Source,
        in_edges: bool,
        is_weak: bool,
        graph500: bool,
    ) -> (BuildOptions, String) {
        let options = BuildOptions {
            symmetrize: self.symmetrize || is_weak,
            directed: self.directed && !is_weak,
            dedupe: self.dedupe,
            drop_self_loops: self.drop_self_loops || graph500,
            distribution: self.distribution,
            partition_file: self.partition.clone(),
            ghost_policy: if self.ghosts { GhostPolicy::Ghosts } else { GhostPolicy::Auto },
            store_in_edges: in_edges,
            hub_degree: self.split,
        };
        let words = [
            if !is_weak && self.is_directed(source) { "directed" } else { "undirected" },
            if options.dedupe { "without duplicates" } else { "with duplicates" },
            if options.drop_self_loops { "without self-loops" } else { "with self-loops" },
        ];
        (options, words.join(", "))
    }

    /// Builds the graph. Collective.
    pub(super) fn build<W: EdgeWeight>(
        &self,
        world: &Comm,
        source: &Source,
        (options, words): &(BuildOptions, String),
    ) -> anyhow::Result<(Graph<W>, GraphFacts)> {
        let start = world.now();
        let graph = Graph::build_weighted_with(world, &*source.edges, options)?;
        let build_seconds = (world.now() - start).as_secs_f64();
        let saved = self.save.as_ref().map(|file| save(source, options, &graph, file)).transpose()?;
        let memory = graph.memory_usage();
        let distribution = match &self.partition {
            Some(file) => format!("partition {}", file.display()),
            None if graph.layout().consecutive_ids().is_some() => self.distribution.to_string(),
            None => "by vertex id".to_owned(),
        };
        let max =
            world.allreduce(&[memory.csr as u64, memory.overhead as u64, graph.num_local() as u64], treepie::Max)?;
        let facts = GraphFacts {
            name: source.name.clone(),
            source: format!("{}, {words}, distribution {distribution}", source.description),
            scale: source.kronecker.map(|kronecker| (kronecker.scale(), kronecker.edge_count() >> kronecker.scale())),
            vertices: graph.num_vertices(),
            max_vertices: max[2],
            arcs: graph.num_arcs(),
            symmetric: graph.is_symmetric(),
            build_seconds,
            saved,
            csr_bytes: max[0],
            ghost_bytes: max[1],
            split: self.split.map(|degree| (degree, graph.hubs().len())),
        };
        Ok((graph, facts))
    }
}

/// Saves a graph. If it does not have the weights of the source, or vertices are split, it is built again. Collective.
fn save<W: EdgeWeight>(
    source: &Source,
    options: &BuildOptions,
    graph: &Graph<W>,
    file: &Path,
) -> anyhow::Result<(String, f64)> {
    let (world, weights) = (graph.comm(), source.edges.weights());
    let start = world.now();
    let unsplit = BuildOptions { hub_degree: None, store_in_edges: false, ..options.clone() };
    match weights {
        _ if weights == W::KIND && graph.hubs().is_empty() => graph.save(file)?,
        WeightKind::None => Graph::build_with(world, &*source.edges, &unsplit)?.save(file)?,
        WeightKind::Integer => Graph::<u32>::build_weighted_with(world, &*source.edges, &unsplit)?.save(file)?,
        WeightKind::Real => Graph::<f32>::build_weighted_with(world, &*source.edges, &unsplit)?.save(file)?,
    }
    Ok((file.display().to_string(), (world.now() - start).as_secs_f64()))
}
