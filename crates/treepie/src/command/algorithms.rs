//! `treepie algorithms`: the table of collective algorithms, and the protocols for sparse exchanges and splits.

use std::process::ExitCode;

use anyhow::ensure;
use treepie_collectives::registry::{self, Request};
use treepie_comm::protocol::PROTOCOLS;
use treepie_schedule::Operation;

use super::complaint::did_you_mean;
use super::network;

/// What protocols are for, as operations are called.
const FAMILIES: [&str; 2] = ["exchange", "split"];

/// Those of one family, or all.
fn print_protocols(family: Option<&str>) {
    let is_of = |id: &str| family.is_none_or(|family| id.split('/').next() == Some(family));
    for (id, what) in PROTOCOLS.iter().filter(|(id, _)| is_of(id)) {
        say!("{id:<36} {what}");
    }
}

/// List the algorithms of collective operations: what they need, what they cost, where they come from
#[derive(clap::Args)]
pub(crate) struct Algorithms {
    /// Only those of this operation, as allgather; exchange for the protocols of sparse exchanges, split for ways to split
    operation: Option<String>,
    /// Only those that can be used on this network, as torus:8x8x8, with so many ranks
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
}

impl Algorithms {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(family) = FAMILIES.into_iter().find(|family| self.operation.as_deref() == Some(family)) {
            ensure!(self.network.is_none(), "protocols of {family} can be used on every network");
            print_protocols(Some(family));
            return Ok(ExitCode::SUCCESS);
        }
        let named = |operation: &Operation| self.operation.as_deref().is_none_or(|name| name == operation.name());
        let operations: Vec<Operation> = Operation::all(0).into_iter().filter(named).collect();
        let asked = self.operation.as_deref().unwrap_or_default();
        let names = Operation::all(0).map(Operation::name);
        ensure!(
            !operations.is_empty(),
            "there is no operation {asked}; there are {}, {}{}",
            names.join(", "),
            FAMILIES.join(", "),
            did_you_mean(asked.split('/').next().unwrap_or_default(), names.into_iter().chain(FAMILIES))
        );
        let Some(network) = &self.network else {
            registry::text(self.operation.as_deref()).lines().for_each(|line| say!("{line}"));
            if self.operation.is_none() {
                say!("");
                print_protocols(None);
            }
            return Ok(ExitCode::SUCCESS);
        };
        let network = network::load(network)?;
        ensure!(network.ranks() > 0, "how many ranks are on the network? Say for example flat:64");
        for operation in operations {
            let request = Request::new(operation, &network);
            for algorithm in registry::applicable(&request) {
                say!("{:<36} {}", algorithm.id, algorithm.cost);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
