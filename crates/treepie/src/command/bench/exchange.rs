//! `treepie bench exchange`: sparse exchanges, by each protocol, on real engines and simulated.

mod case;
mod counted;
mod rank;
mod scales;
mod simulated;
mod table;

use std::process::ExitCode;

use anyhow::{Context, anyhow, bail, ensure};
use case::{Asked, Messages, Neighbours};
pub(crate) use rank::ExchangeRank;
use scales::Scales;
use treepie_model::machines::Machine;
use treepie_sparse::Means;

use super::super::bytes::Bytes;
use super::super::machine;
use super::comparison::{Comparison, Measured, print_if_too_few};
use super::output::ensure_same;
use super::peer::Source;
use super::{Engine, Sides};

/// Sparse exchanges: each rank sends messages to some random others, who do not know of it; by each protocol
#[derive(clap::Args)]
pub(crate) struct Exchange {
    /// How many ranks; simulated, several with commas [default: 16, or those of the network]
    #[arg(short = 'n', long, value_name = "P", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..))]
    ranks: Vec<u32>,
    #[command(flatten)]
    sides: Sides,
    /// To how many others each rank sends: a number, half or all of them; several with commas
    #[arg(long = "k", value_name = "K", value_delimiter = ',', default_value = "6")]
    neighbours: Vec<Neighbours>,
    /// Messages of this length, as 8 or 64K; several with commas [default: random lengths of 1 to 1024 bytes]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    bytes: Vec<Bytes>,
    /// By which protocol, as exchange/nbx, or auto; all are those that the engine can do, in turn, and auto
    #[arg(long, value_name = "ID", default_value = "auto")]
    protocol: Asked,
    /// What random targets and lengths follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Simulate with the parameters of this machine: intrepid, jaguar, bigred, redstorm, das, bgp
    #[arg(long, value_name = "MACHINE", conflicts_with_all = MEASURED)]
    machine: Option<Machine>,
    /// Simulate on this network: torus:8x8x8, clusters:4x16, flat, or a TOML file
    #[arg(long, value_name = "NETWORK", conflicts_with_all = MEASURED)]
    network: Option<String>,
    /// How many rounds are simulated [default: 10]
    #[arg(long, value_name = "N", conflicts_with_all = MEASURED, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
}

/// Options that mean nothing where it is simulated.
const MEASURED: [&str; 5] = ["fabric", "against", "mpirun", "repeat", "bytes"];

/// Ranks, and rounds that are simulated, unless the user says.
const RANKS: u32 = 16;
const ROUNDS: u32 = 10;

const PEER: Source = Source { name: "exchange_peer", text: include_str!("exchange_peer.c") };

/// Names protocols to all ranks of Treepie.
const CHOICE: &str = "TREEPIE_ALGORITHM";

/// MPI counts bytes of all messages together in an int.
const MOST_OF_MPI: f64 = i32::MAX as f64;

impl Exchange {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.machine.is_some() || self.network.is_some() {
            return self.simulate();
        }
        ensure!(self.rounds.is_none(), "--rounds is for simulations: say --machine or --network");
        let ranks = match self.ranks[..] {
            [] => RANKS,
            [ranks] => ranks,
            _ => bail!("several numbers of ranks are for simulations: say --machine or --network, or one number"),
        };
        // Records would call it the protocol that is chosen.
        ensure!(std::env::var_os(CHOICE).is_none(), "{CHOICE} is set: unset it, and choose by --protocol");
        let messages = self.messages(ranks)?;
        let ids = self.protocol.ids(self.means()?).map_err(|why| anyhow!(why))?;
        let figures = case::figures(&messages, &ids);
        let comparison = Comparison::new(ranks, &self.sides, &["exchange-rank"], &PEER)?;
        comparison.print_sides("Sparse exchanges", "exchange the same messages", case::BATCHES);
        print_rules(comparison.peer().is_some());
        let (peer, repeat) = (comparison.peer().map(str::to_owned), comparison.repeat);
        let Measured { records, ours, theirs, .. } = comparison.measure(&figures)?;
        ensure_same(&ours, &theirs)?;
        table::print(&figures, &records, &ours[0], peer.as_deref())?;
        if peer.is_some() {
            print_if_too_few(repeat);
        }
        if self.protocol == Asked::All {
            table::print_summary(&figures, ids.len(), &ours)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn simulate(&self) -> anyhow::Result<ExitCode> {
        let scales = Scales {
            machine: self.machine,
            network: self.network.as_deref(),
            ranks: &self.ranks,
            neighbours: &self.neighbours,
            protocol: self.protocol,
            rounds: self.rounds.unwrap_or(ROUNDS),
            seed: self.seed,
        };
        scales.run(self.sides.json.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }

    /// What is exchanged, unless it cannot be.
    fn messages(&self, ranks: u32) -> anyhow::Result<Vec<Messages>> {
        let mut lengths: Vec<_> = self.bytes.iter().map(|bytes| bytes.0..=bytes.0).collect();
        if lengths.is_empty() {
            lengths.push(case::LENGTHS);
        }
        let mut messages: Vec<Messages> = Vec::new();
        for neighbours in &self.neighbours {
            let neighbours = neighbours.among(ranks).map_err(|why| anyhow!(why))?;
            for lengths in &lengths {
                let new = Messages::new(self.seed, ranks, neighbours, lengths.clone());
                // Of two ranks all are as many as half.
                if !messages.contains(&new) {
                    messages.push(new);
                }
            }
        }
        let most = machine::memory("MemAvailable").map_or(f64::MAX, |bytes| bytes as f64 / 2.0);
        for messages in &messages {
            let needed = messages.memory(ranks);
            ensure!(needed <= most, "messages of {} need {:.0} MB, which there is not", messages.name(), needed / 1e6);
            let of_rank = f64::from(ranks) * *messages.lengths.end() as f64;
            ensure!(
                self.sides.against.is_none() || of_rank <= MOST_OF_MPI,
                "MPI cannot exchange more than 2 GB at once, and a rank may get {:.0} MB",
                of_rank / 1e6
            );
        }
        Ok(messages)
    }

    /// What there is on the engine. Threads and processes have the same.
    fn means(&self) -> anyhow::Result<Means> {
        if self.sides.fabric == Engine::Mpi {
            return Ok(Means::default());
        }
        treepie::launch(1, |world| world.means())?.pop().context("a world of one rank")
    }
}

fn print_rules(is_compared: bool) {
    say!(
        "  A batch: messages of all rounds are made, a barrier, one round that is not timed, then the timed ones, between"
    );
    say!(
        "  which nobody waits. Each rank takes its own time, and that of the slowest rank counts. Targets and lengths are"
    );
    say!(
        "  drawn anew for each round, with the Mersenne Twister, and are the same for all protocols, which take turns batch"
    );
    say!("  by batch. Numbers and lengths of what came are checked in all rounds, and in the last one every byte.");
    if is_compared {
        say!(
            "  MPI exchanges the same messages, by MPI_Alltoall of their lengths and MPI_Alltoallv; the lengths of what is"
        );
        say!("  sent lie ready in tables.");
    }
    say!("  memory    bytes of the protocol itself on a rank, without messages");
    say!("  messages  of a rank in a round, those of the protocol among them; the barrier of an engine is none");
    say!("");
}
