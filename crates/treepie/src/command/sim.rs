//! `treepie sim`: how long collective operations take on a network that need not exist.

mod asked;
mod file;
mod level;
mod output;
mod parameters;
mod row;
mod setting;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, ensure};
use treepie_collectives::registry::{self, Request};
use treepie_model::machines::Machine;
use treepie_schedule::Operation;
use treepie_topology::Network;

use super::bytes::Bytes;
use super::network;
use super::record::Records;
use asked::Sweep;
use file::Whole;
use level::Level;
use parameters::Parameters;
pub(crate) use parameters::{settings, settings_with_handshake};
use row::Row;
use setting::Setting;

/// Simulate collective operations: which algorithm, on which network, at which scale
///
/// Bytes are, for bcast, reduce, allreduce and scans the vector; for allgather, gather and scatter the block of a rank; for
/// reduce_scatter the vector, of which each rank gets a part; for alltoall the block from each rank to each.
#[derive(clap::Args)]
pub(crate) struct Sim {
    /// The operation, as allgather; or one of its algorithms, as allgather/ring
    #[arg(value_name = "OP")]
    what: String,
    /// The algorithm, as allgather/ring or ring [default: all that can be used, the best first]
    #[arg(long, value_name = "ID", conflicts_with = "compare")]
    algo: Option<String>,
    /// The algorithms, with commas between, or all
    #[arg(long, value_name = "IDS")]
    compare: Option<String>,
    /// Where the ranks are: torus:8x8x8, mesh:16x16, clos:r80,t64, clusters:4x16, flat, or a TOML file
    #[arg(long, value_name = "NETWORK", default_value = "flat")]
    network: String,
    /// How many ranks, where the network does not say
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// How many bytes, as 1000, 64K (or 64KiB, 1024 each), 64KB (1000 each), 1M or 2G [default: 1K]
    #[arg(long, value_name = "N")]
    bytes: Option<Bytes>,
    /// From and to how many bytes, doubling, as bytes=64..1M
    #[arg(long, value_name = "SWEEP", conflicts_with = "bytes")]
    sweep: Option<Sweep>,
    /// Whose parameters: intrepid, jaguar, bigred, redstorm, das, bgp [default: bgp; between clusters 10 ms and 1 MB/s]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<Machine>,
    /// A parameter, as alpha=5, or several with commas between; `treepie sim OP --set help` lists them
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    set: Vec<Setting>,
    /// How it is found out how long something takes
    #[arg(long, value_enum, default_value_t)]
    level: Level,
    /// The root of bcast, reduce, gather and scatter [default: 0]
    #[arg(long, value_name = "RANK")]
    root: Option<u32>,
    /// Write what each rank does, for Perfetto or chrome://tracing, to this file; of one algorithm and size
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the schedule as GOAL text to this file; of one algorithm and size
    #[arg(long, value_name = "FILE")]
    goal: Option<PathBuf>,
    /// Also write records, as JSON lines, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is simulated unless the user says.
const BYTES: Bytes = Bytes(1 << 10);

impl Sim {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.set.contains(&Setting::Help) {
            setting::print_help();
            return Ok(ExitCode::SUCCESS);
        }
        let (name, _) = self.what.split_once('/').unwrap_or((&self.what, ""));
        let operation = asked::operation(name, self.root())?;
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
            None => vec![self.bytes.unwrap_or(BYTES).0],
        };
        let is_single = ids.len() == 1 && sizes.len() == 1;
        ensure!(
            is_single || (self.trace.is_none() && self.goal.is_none()),
            "--trace and --goal are for one algorithm (--algo) and one size"
        );
        let parameters = Parameters::new(self.machine, &self.set, &network)?;
        // What cannot be is refused before anything is printed.
        if let [id] = &ids[..] {
            let schedule = row::build(id, operation, &network)?;
            for (what, path) in [("--trace", &self.trace), ("--goal", &self.goal)] {
                if path.is_some() {
                    level::ensure_few(what, id, &*schedule)?;
                }
            }
        }
        let trace = self.trace.as_deref().map(Whole::create).transpose()?;
        let goal = self.goal.as_deref().map(Whole::create).transpose()?;
        let mut records = self.json.as_deref().map(Records::create).transpose()?;
        output::print_head(operation, &network, &parameters);
        for &bytes in &sizes {
            let mut rows = Vec::new();
            for id in &ids {
                match Row::simulate(id, operation, &network, bytes, &parameters, self.level) {
                    Ok(row) => rows.push(row),
                    // Where all are tried, one that cannot be used with these numbers is no reason to stop.
                    Err(error) if ids.len() > 1 => output::print_refusal(id, &error),
                    Err(error) => return Err(error),
                }
            }
            ensure!(!rows.is_empty(), "none of these algorithms can be simulated");
            rows.sort_by(|a, b| a.micros.total_cmp(&b.micros));
            for row in &rows {
                output::print_row(row, &network);
                if let Some(records) = &mut records {
                    records.write(&output::record(row, &network, &parameters))?;
                }
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
                bail!("how many ranks are on the network? Say --ranks, or for example flat:64")
            }
            None => Ok(network),
        }
    }

    /// The ids of the algorithms.
    fn ids(&self, operation: Operation, network: &Network) -> anyhow::Result<Vec<String>> {
        ensure!(self.root() < network.ranks(), "the root is {}, and there are {} ranks", self.root(), network.ranks());
        let of_what = self.what.contains('/').then_some(self.what.as_str());
        ensure!(of_what.is_none() || self.algo.is_none(), "{} and --algo both name an algorithm", self.what);
        ensure!(
            of_what.is_none() || self.compare.is_none(),
            "{} names an algorithm, and --compare others: say {} --compare",
            self.what,
            operation.name()
        );
        let name = operation.name();
        let full = |id: &str| if id.contains('/') { id.to_owned() } else { format!("{name}/{id}") };
        let ids: Vec<String> = match (of_what.or(self.algo.as_deref()), self.compare.as_deref()) {
            (Some(id), _) => vec![full(id)],
            (None, None | Some("all")) => {
                let request = Request::new(operation, network);
                registry::applicable(&request).into_iter().map(|algorithm| algorithm.id.clone()).collect()
            }
            (None, Some(list)) => {
                let is_algorithm = |name: &str| registry::find(&full(name)).is_ok();
                asked::ids(list, is_algorithm).iter().map(|id| full(id)).collect()
            }
        };
        for id in &ids {
            registry::find(id)?;
        }
        ensure!(!ids.is_empty(), "no algorithm of {name} can be used on {network}");
        Ok(ids)
    }
}
