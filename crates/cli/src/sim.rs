//! `treepie sim`: simulated times of collective operations on a network.

mod arguments;
mod atomic_text_file;
mod level;
mod output;
mod row;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, ensure};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_model::machines::PaperMachine;
use treepie_schedule::Operation;
use treepie_topology::Network;

use arguments::Sweep;
use atomic_text_file::AtomicTextFile;
use level::Level;
use row::Row;
use treepie_base::units::ByteCount;
use treepie_bench::network;
use treepie_bench::parameters::Parameters;
use treepie_bench::record::Records;
use treepie_bench::setting::{self, ParameterSetting};

/// Simulate collective algorithms on a network of any size
///
/// The bytes are the vector size for bcast, reduce, allreduce and scans; the block of one rank for allgather, gather
/// and scatter; the whole vector for reduce_scatter; the block between each pair of ranks for alltoall.
#[derive(clap::Args)]
pub(crate) struct Sim {
    /// Operation (e.g. allgather) or algorithm (e.g. allgather/ring)
    #[arg(value_name = "OP")]
    what: String,
    /// Algorithm, e.g. allgather/ring or ring [default: all applicable algorithms, fastest first]
    #[arg(long, value_name = "ID", conflicts_with = "compare")]
    algo: Option<String>,
    /// Algorithms to compare, separated by commas, or all
    #[arg(long, value_name = "IDS")]
    compare: Option<String>,
    /// Network: torus:8x8x8, mesh:16x16, clos:r80,t64, clusters:4x16, clusters:2x4x8, flat:64,ppn=4, or a TOML file
    #[arg(long, value_name = "NETWORK", default_value = "flat")]
    network: String,
    /// Number of ranks, if the network does not determine it
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Message size in bytes, e.g. 1000, 64K (or 64KiB, 1024 each), 64KB (1000 each), 1M or 2G [default: 1K]
    #[arg(long, value_name = "N")]
    bytes: Option<ByteCount>,
    /// Range of message sizes, doubling, e.g. bytes=64..1M
    #[arg(long, value_name = "SWEEP", conflicts_with = "bytes")]
    sweep: Option<Sweep>,
    /// Machine parameters: intrepid, jaguar, bigred, redstorm, das, bgp [default: bgp; for clusters 10 ms and 1 MB/s
    /// links]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<PaperMachine>,
    /// Set parameters, e.g. alpha=5, separated by commas; `treepie sim OP --set help` lists them
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    set: Vec<ParameterSetting>,
    /// Level of detail
    #[arg(long, value_enum, default_value_t)]
    level: Level,
    /// The root of bcast, reduce, gather and scatter [default: 0]
    #[arg(long, value_name = "RANK")]
    root: Option<u32>,
    /// Write a timeline of all ranks to this file, for Perfetto or chrome://tracing (one algorithm and size)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the schedule to this file, as GOAL text (one algorithm and size)
    #[arg(long, value_name = "FILE")]
    goal: Option<PathBuf>,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The default message size.
const DEFAULT_BYTES: ByteCount = ByteCount(1 << 10);

impl Sim {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.set.contains(&ParameterSetting::Help) {
            setting::print_help();
            return Ok(ExitCode::SUCCESS);
        }
        let (name, _) = self.what.split_once('/').unwrap_or((&self.what, ""));
        let operation = arguments::operation(name, self.root())?;
        ensure!(self.root.is_none() || operation.root().is_some(), "--root: {name} has no root");
        ensure!(
            operation != Operation::Barrier || self.bytes.is_none() && self.sweep.is_none(),
            "--bytes and --sweep: a barrier has no bytes"
        );
        let network = self.network()?;
        let ids = self.ids(operation, &network)?;
        let sizes = match &self.sweep {
            _ if operation == Operation::Barrier => vec![0],
            Some(sweep) => sweep.sizes(),
            None => vec![self.bytes.unwrap_or(DEFAULT_BYTES).0],
        };
        let is_single = ids.len() == 1 && sizes.len() == 1;
        ensure!(
            is_single || (self.trace.is_none() && self.goal.is_none()),
            "--trace and --goal are for one algorithm (--algo) and one size"
        );
        let parameters = Parameters::new(self.machine, &self.set, &network)?;
        // Reject invalid input before printing anything.
        if let [id] = &ids[..] {
            let schedule = row::build(id, operation, &network)?;
            for (what, path) in [("--trace", &self.trace), ("--goal", &self.goal)] {
                if path.is_some() {
                    level::ensure_few_messages(what, id, &*schedule)?;
                }
            }
        }
        let trace = self.trace.as_deref().map(AtomicTextFile::create).transpose()?;
        let goal = self.goal.as_deref().map(AtomicTextFile::create).transpose()?;
        let mut records = Records::create(self.json.as_deref())?;
        output::print_header(operation, &network, &parameters);
        for &bytes in &sizes {
            let mut rows = Vec::new();
            for id in &ids {
                match Row::simulate(id, operation, &network, bytes, &parameters, self.level) {
                    Ok(row) => rows.push(row),
                    // When several are compared, an inapplicable one does not stop the others.
                    Err(error) if ids.len() > 1 => output::print_refusal(id, &error),
                    Err(error) => return Err(error),
                }
            }
            ensure!(!rows.is_empty(), "none of these algorithms can be simulated");
            rows.sort_by(|a, b| a.micros.total_cmp(&b.micros));
            for row in &rows {
                output::print_row(row, &network);
                records.write(&output::record(row, &network, &parameters))?;
            }
        }
        if let ([id], [bytes]) = (&ids[..], &sizes[..]) {
            if let Some(file) = trace {
                row::trace((id, operation), &network, *bytes, &parameters, file)?;
            }
            if let Some(file) = goal {
                row::goal((id, operation), &network, *bytes, file)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn root(&self) -> u32 {
        self.root.unwrap_or(0)
    }

    fn network(&self) -> anyhow::Result<Network> {
        let network = network::load(&self.network)?;
        match self.ranks {
            Some(ranks) => Ok(network.for_ranks(ranks)?),
            None if network.ranks() == 0 => {
                bail!("the number of ranks is missing: give --ranks, or a network such as flat:64")
            }
            None => Ok(network),
        }
    }

    /// The ids of the algorithms to simulate.
    fn ids(&self, operation: Operation, network: &Network) -> anyhow::Result<Vec<String>> {
        ensure!(
            self.root() < network.ranks(),
            "the root is {}, but there are only {} ranks",
            self.root(),
            network.ranks()
        );
        let id_of_what = self.what.contains('/').then_some(self.what.as_str());
        ensure!(id_of_what.is_none() || self.algo.is_none(), "{} and --algo both name an algorithm", self.what);
        ensure!(
            id_of_what.is_none() || self.compare.is_none(),
            "{} names an algorithm, and --compare others: use {} --compare",
            self.what,
            operation.name()
        );
        let name = operation.name();
        let full = |id: &str| if id.contains('/') { id.to_owned() } else { format!("{name}/{id}") };
        let ids: Vec<String> = match (id_of_what.or(self.algo.as_deref()), self.compare.as_deref()) {
            (Some(id), _) => vec![full(id)],
            (None, None | Some("all")) => {
                let request = CollectiveSpec::new(operation, network);
                registry::applicable(&request).into_iter().map(|algorithm| algorithm.id.clone()).collect()
            }
            (None, Some(list)) => {
                let is_algorithm = |name: &str| registry::find(&full(name)).is_ok();
                arguments::ids(list, is_algorithm).iter().map(|id| full(id)).collect()
            }
        };
        for id in &ids {
            registry::find(id)?;
        }
        ensure!(!ids.is_empty(), "no algorithm of {name} is applicable to {network}");
        Ok(ids)
    }
}
