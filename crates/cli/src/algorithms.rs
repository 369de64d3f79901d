//! `treepie algorithms`: the table of collective algorithms, and the protocols for sparse exchanges and splits.

use std::process::ExitCode;

use anyhow::ensure;
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_comm::protocol::ProtocolFamily;
use treepie_schedule::Operation;

use treepie_bench::diagnostics::did_you_mean;
use treepie_bench::network;

/// Families of protocols, named like operations.
const FAMILIES: [&str; 2] = ["exchange", "split"];

/// Prints the protocols of these families.
fn print_protocols(families: &[&str]) {
    for family in families {
        let is_of = |id: &str| id.split_once('/').is_some_and(|(first, _)| first == *family);
        for (id, what) in ProtocolFamily::all_protocols().filter(|(id, _)| is_of(id)) {
            say!("{id:<36} {what}");
        }
    }
}

/// List the collective algorithms with their requirements, costs and references
#[derive(clap::Args)]
pub(crate) struct Algorithms {
    /// Only the algorithms of this operation (e.g. allgather), or exchange for sparse exchange protocols, or split for
    /// communicator split algorithms
    operation: Option<String>,
    /// Only the algorithms applicable to this network (e.g. torus:8x8x8)
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
}

impl Algorithms {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(family) = FAMILIES.into_iter().find(|family| self.operation.as_deref() == Some(family)) {
            ensure!(self.network.is_none(), "{family} protocols apply to every network; omit --network");
            print_protocols(&[family]);
            return Ok(ExitCode::SUCCESS);
        }
        let named = |operation: &Operation| self.operation.as_deref().is_none_or(|name| name == operation.name());
        let operations: Vec<Operation> = Operation::all(0).into_iter().filter(named).collect();
        let requested = self.operation.as_deref().unwrap_or_default();
        let names = Operation::all(0).map(Operation::name);
        ensure!(
            !operations.is_empty(),
            "there is no operation {requested}; the operations are {}, {}{}",
            names.join(", "),
            FAMILIES.join(", "),
            did_you_mean(requested.split('/').next().unwrap_or_default(), names.into_iter().chain(FAMILIES))
        );
        let Some(network) = &self.network else {
            registry::text(self.operation.as_deref()).lines().for_each(|line| say!("{line}"));
            if self.operation.is_none() {
                say!("");
                print_protocols(&FAMILIES);
            }
            return Ok(ExitCode::SUCCESS);
        };
        let network = network::load(network)?;
        ensure!(network.ranks() > 0, "--network needs a number of ranks, for example flat:64");
        for operation in operations {
            let request = CollectiveSpec::new(operation, &network);
            for algorithm in registry::applicable(&request) {
                say!("{:<36} {}", algorithm.id, algorithm.cost);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
