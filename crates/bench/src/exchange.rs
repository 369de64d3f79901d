//! `treepie bench exchange`: sparse exchanges with each protocol, measured or simulated.

mod protocol_costs;
mod rank;
mod scaling;
mod simulated;
mod table;
mod task;

use std::process::ExitCode;

use anyhow::{anyhow, bail, ensure};
pub(crate) use rank::Exchanges;
use scaling::ExchangeScaling;
use task::{MessageSpec, Neighbors, ProtocolChoice};
use treepie_model::machines::PaperMachine;
use treepie_sparse::ReactorCapabilities;

use crate::harness::comparison::Comparison;
use crate::harness::figure::EMULATED_BATCHES;
use crate::harness::launch::on_threads;
use crate::harness::peer::Source;
use crate::{ComparisonOptions, Engine, ensure_unset, machine};
use treepie_base::units::ByteCount;

/// Sparse exchanges (dynamic sparse data exchange) with random neighbors, with each protocol
#[derive(clap::Args)]
pub(crate) struct ExchangeBench {
    /// Number of ranks; simulated: several, separated by commas [default: 16, or those of the network]
    #[arg(short = 'n', long, value_name = "P", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..))]
    ranks: Vec<u32>,
    #[command(flatten)]
    comparison: ComparisonOptions,
    /// Number of neighbors each rank sends to, or half, or all; separated by commas
    #[arg(long = "k", value_name = "K", value_delimiter = ',', default_value = "6")]
    neighbors: Vec<Neighbors>,
    /// Message sizes in bytes, e.g. 8 or 64K, separated by commas [default: random from 1 to 1024]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    bytes: Vec<ByteCount>,
    /// Protocol, e.g. exchange/nbx, or auto; all: every protocol that the engine supports, alternating, and auto
    #[arg(long, value_name = "ID", default_value = "auto")]
    protocol: ProtocolChoice,
    /// Seed of the random neighbors and sizes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Simulate with the parameters of this machine: intrepid, jaguar, bigred, redstorm, das, bgp
    #[arg(long, value_name = "MACHINE", conflicts_with_all = MEASURED_ONLY)]
    machine: Option<PaperMachine>,
    /// Simulate on this network: torus:8x8x8, clusters:4x16, flat, or a TOML file
    #[arg(long, value_name = "NETWORK", conflicts_with_all = MEASURED_ONLY)]
    network: Option<String>,
    /// Number of simulated rounds [default: 10]
    #[arg(long, value_name = "N", conflicts_with_all = MEASURED_ONLY, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
}

/// Options that do not apply to simulations.
const MEASURED_ONLY: [&str; 5] = ["fabric", "against", "mpirun", "repeat", "bytes"];

/// Default number of ranks, and of simulated rounds.
const DEFAULT_RANKS: u32 = 16;
const DEFAULT_ROUNDS: u32 = 10;

const PEER: Source = Source { name: "exchange_peer", text: include_str!("exchange/peer.c") };

/// MPI counts the bytes of all messages in an int.
const MAX_MPI_BYTES: f64 = i32::MAX as f64;

impl ExchangeBench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.machine.is_some() || self.network.is_some() {
            return self.simulate();
        }
        ensure!(self.rounds.is_none(), "--rounds applies to simulations: add --machine or --network");
        let ranks = match self.ranks[..] {
            [] => DEFAULT_RANKS,
            [ranks] => ranks,
            _ => bail!("several numbers of ranks apply to simulations: add --machine or --network, or give one number"),
        };
        ensure_unset("TREEPIE_ALGORITHM", "--protocol")?;
        let messages = self.message_specs(ranks)?;
        let ids = self.protocol.ids(self.capabilities()?).map_err(|why| anyhow!(why))?;
        let is_emulated = self.comparison.links.parsed()?.is_some();
        let figures = task::figures(&messages, ranks, &ids, is_emulated);
        let comparison = Comparison::new(ranks, &self.comparison, &["exchange-rank"], Some(&PEER))?;
        let batches = if is_emulated { EMULATED_BATCHES } else { task::BATCHES };
        comparison.print_sides("Sparse exchanges", "exchange the same messages", batches);
        print_rules(comparison.is_against_mpi());
        let result = comparison.measure(&figures)?;
        result.ensure_same_sends()?;
        table::print(&figures, &result)?;
        result.warn_if_too_few_pairs();
        if self.protocol == ProtocolChoice::All {
            table::print_summary(&figures, ids.len(), &result.ours)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn simulate(&self) -> anyhow::Result<ExitCode> {
        let scaling = ExchangeScaling {
            machine: self.machine,
            network: self.network.as_deref(),
            ranks: &self.ranks,
            neighbors: &self.neighbors,
            protocol: self.protocol,
            rounds: self.rounds.unwrap_or(DEFAULT_ROUNDS),
            seed: self.seed,
        };
        scaling.run(self.comparison.json.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }

    /// The messages to exchange, or an error if they are too large.
    fn message_specs(&self, ranks: u32) -> anyhow::Result<Vec<MessageSpec>> {
        let mut lengths: Vec<_> = self.bytes.iter().map(|bytes| bytes.0..=bytes.0).collect();
        if lengths.is_empty() {
            lengths.push(task::MESSAGE_BYTES);
        }
        let mut messages: Vec<MessageSpec> = Vec::new();
        for neighbors in &self.neighbors {
            let neighbors = neighbors.resolve(ranks).map_err(|why| anyhow!(why))?;
            for lengths in &lengths {
                let new = MessageSpec { seed: self.seed, neighbors, lengths: lengths.clone() };
                // With two ranks, half and all are the same.
                if !messages.contains(&new) {
                    messages.push(new);
                }
            }
        }
        for messages in &messages {
            machine::ensure_memory(
                &format!("the messages of {}", messages.name()),
                messages.memory(ranks),
                machine::USABLE,
            )?;
            let of_rank = f64::from(ranks) * *messages.lengths.end() as f64;
            ensure!(
                !self.comparison.is_against_mpi() || of_rank <= MAX_MPI_BYTES,
                "MPI cannot exchange more than 2 GB at once, and a rank may receive {:.0} MB",
                of_rank / 1e6
            );
        }
        Ok(messages)
    }

    /// The capabilities of the engine. Threads and processes have the same.
    fn capabilities(&self) -> anyhow::Result<ReactorCapabilities> {
        // Emulated links hide what ranks of one machine share.
        if self.comparison.fabric == Engine::Mpi || self.comparison.links.parsed()?.is_some() {
            return Ok(ReactorCapabilities::default());
        }
        Ok(on_threads(1, |world| Ok(world.capabilities()))?.swap_remove(0))
    }
}

fn print_rules(is_compared: bool) {
    say!("  A batch: generate the messages of all rounds, a barrier, one warm-up round, then the timed rounds back to");
    say!("  back. The time of the slowest rank counts. Neighbors and sizes are drawn for each round, by the Mersenne");
    say!("  Twister, and are the same for all protocols, which alternate by batch. Counts and sizes of the received");
    say!("  messages are checked in all rounds, and every byte in the last one.");
    if is_compared {
        say!("  MPI exchanges the same messages with MPI_Alltoall of the sizes and MPI_Alltoallv; the send counts are");
        say!("  precomputed.");
    }
    say!("  memory    bytes of the protocol state per rank, without messages");
    say!("  messages  per rank and round, including protocol messages, excluding an engine barrier");
    say!("");
}
