//! The simulated benchmark at one scale or several: table and records.

use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use serde::Serialize;
use treepie_model::machines::PaperMachine;
use treepie_sparse::ExchangeProtocol;
use treepie_topology::Network;

use super::simulated::{ExchangeResult, ExchangeSetting, choose_protocol, model, simulate};
use super::task::{AUTO, Neighbors, ProtocolChoice};
use crate::harness::table::format_number;
use crate::network;
use crate::record::{Record, Records};

/// The requested simulations.
pub(super) struct ExchangeScaling<'a> {
    pub(super) machine: Option<PaperMachine>,
    pub(super) network: Option<&'a str>,
    /// If empty, those of the network.
    pub(super) ranks: &'a [u32],
    pub(super) neighbors: &'a [Neighbors],
    pub(super) protocol: ProtocolChoice,
    pub(super) rounds: u32,
    pub(super) seed: u64,
}

/// When all protocols are compared, one that would send more messages is left out: it would take more than minutes.
const MAX_MESSAGES: f64 = 50e6;

impl ExchangeScaling<'_> {
    /// Simulates, prints a table and writes the records.
    pub(super) fn run(&self, json: Option<&Path>) -> anyhow::Result<()> {
        let settings = self.settings()?;
        if let ProtocolChoice::One(protocol) = self.protocol {
            // Reject invalid input before printing anything.
            ensure!(
                protocol != ExchangeProtocol::NbxOrderedBarrier,
                "{protocol} needs a barrier ordered after all messages, which is not simulated"
            );
        }
        let mut records = Records::create(json)?;
        let machine = self.machine.map_or("the parameters of treepie sim", PaperMachine::name);
        say!("Sparse exchanges simulated with {machine}, {} rounds of messages of 1 to 1024 bytes", self.rounds);
        say!("  model     closed-form time of a round, where there is one");
        say!("  memory    bytes of the protocol state, maximum over ranks");
        say!("  messages  per rank and round, including protocol messages and acknowledgements");
        say!("");
        let head = ["us/round", "model", "messages", "memory"];
        say!(
            "{:>7} {:>5}  {:<28} {:>10} {:>10} {:>8} {:>8}",
            "ranks",
            "k",
            "protocol",
            head[0],
            head[1],
            head[2],
            head[3]
        );
        for setting in &settings {
            for row in self.rows(setting)? {
                row.print(setting);
                if let Some(result) = row.result {
                    records.write(&record(&row, result, setting, machine))?;
                }
            }
        }
        Ok(())
    }

    /// One for each number of ranks and neighbors.
    fn settings(&self) -> anyhow::Result<Vec<ExchangeSetting>> {
        let network = self.network.map(network::load).transpose()?;
        let mut ranks = self.ranks.to_vec();
        if ranks.is_empty() {
            let of_network = network.as_ref().map(Network::ranks).filter(|ranks| *ranks > 0);
            ranks.push(
                of_network.context("the number of ranks is missing: give --ranks, or a network such as torus:8x8")?,
            );
        }
        let mut settings = Vec::new();
        for ranks in ranks {
            ensure!(ranks >= 2, "an exchange needs at least 2 ranks, not {ranks}");
            let network = network.clone().map(|network| network.for_ranks(ranks)).transpose()?;
            for neighbors in self.neighbors {
                let neighbors = neighbors.resolve(ranks).map_err(|why| anyhow!(why))?;
                let (machine, network, rounds, seed) = (self.machine, network.clone(), self.rounds, self.seed);
                settings.push(ExchangeSetting { machine, network, ranks, neighbors, rounds, seed });
            }
        }
        Ok(settings)
    }

    fn rows(&self, setting: &ExchangeSetting) -> anyhow::Result<Vec<Row>> {
        let chosen = choose_protocol(setting)?;
        let auto = |row: &Row| Row { id: AUTO, chosen: Some(chosen), ..*row };
        match self.protocol {
            ProtocolChoice::One(protocol) => Ok(vec![self.row(protocol, setting)?]),
            ProtocolChoice::Auto => Ok(vec![auto(&self.row(chosen, setting)?)]),
            ProtocolChoice::All => {
                let simulated = ExchangeProtocol::ALL
                    .into_iter()
                    .filter(|protocol| *protocol != ExchangeProtocol::NbxOrderedBarrier);
                let rows = simulated.map(|protocol| self.row(protocol, setting));
                let mut rows = rows.collect::<anyhow::Result<Vec<Row>>>()?;
                if let Some(auto) = rows.iter().find(|row| row.id == chosen.id()).map(auto) {
                    rows.push(auto);
                }
                Ok(rows)
            }
        }
    }

    fn row(&self, protocol: ExchangeProtocol, setting: &ExchangeSetting) -> anyhow::Result<Row> {
        let messages = f64::from(setting.ranks).powi(2) * f64::from(setting.rounds);
        let is_left_out = self.protocol == ProtocolChoice::All
            && protocol == ExchangeProtocol::NbxAllChannels
            && messages > MAX_MESSAGES;
        let result = (!is_left_out).then(|| simulate(protocol, setting)).transpose()?;
        Ok(Row { id: protocol.id(), result, model: model(protocol, setting), chosen: None })
    }
}

/// A protocol with a setting.
struct Row {
    id: &'static str,
    /// `None` if it was left out.
    result: Option<ExchangeResult>,
    model: Option<f64>,
    /// The selected protocol, for `auto`.
    chosen: Option<ExchangeProtocol>,
}

impl Row {
    fn print(&self, setting: &ExchangeSetting) {
        let none = || "-".to_owned();
        let model = self.model.map_or_else(none, format_number);
        let [time, messages, memory] = match self.result {
            Some(result) => [
                format_number(result.micros_per_round),
                format!("{:.1}", result.messages_per_rank),
                result.memory.to_string(),
            ],
            None => [none(), none(), none()],
        };
        let remark = match self.chosen {
            Some(protocol) => format!("  chose {protocol}"),
            None if self.result.is_none() => "  too many messages: select it by --protocol".to_owned(),
            None => String::new(),
        };
        let ExchangeSetting { ranks, neighbors, .. } = setting;
        say!("{ranks:>7} {neighbors:>5}  {:<28} {time:>10} {model:>10} {messages:>8} {memory:>8}{remark}", self.id);
    }
}

/// A record with the figures of a simulation.
#[derive(Serialize)]
struct SimulatedRecord {
    #[serde(flatten)]
    record: Record,
    /// Closed-form microseconds of a round.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<f64>,
    messages_per_rank: f64,
    /// Bytes of the protocol state of a rank.
    memory: usize,
    /// The selected protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    took: Option<&'static str>,
}

fn record(row: &Row, result: ExchangeResult, setting: &ExchangeSetting, machine: &str) -> SimulatedRecord {
    let network = setting.network.as_ref().map_or_else(|| "flat".to_owned(), Network::to_string);
    let (case, machine) = (format!("{}/k{}", row.id, setting.neighbors), format!("{network}, {machine}"));
    let record = Record::simulated(case, setting.ranks, result.micros_per_round, "us", machine);
    let record = Record { statistic: "mean of rounds".to_owned(), ..record };
    let ExchangeResult { messages_per_rank, memory, .. } = result;
    SimulatedRecord { record, model: row.model, messages_per_rank, memory, took: row.chosen.map(ExchangeProtocol::id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling<'a>(ranks: &'a [u32], network: Option<&'a str>, protocol: ProtocolChoice) -> ExchangeScaling<'a> {
        let neighbors = &[Neighbors::Number(3), Neighbors::All];
        ExchangeScaling { machine: Some(PaperMachine::Jaguar), network, ranks, neighbors, protocol, rounds: 2, seed: 1 }
    }

    #[test]
    fn each_number_of_ranks_is_simulated_with_each_number_of_neighbors() {
        let scaling_all = scaling(&[4, 8], None, ProtocolChoice::All);
        let settings = scaling_all.settings().unwrap();
        let shapes: Vec<_> = settings.iter().map(|setting| (setting.ranks, setting.neighbors)).collect();
        assert_eq!(shapes, [(4, 3), (4, 3), (8, 3), (8, 7)]);
        let rows = scaling_all.rows(&settings[2]).unwrap();
        assert_eq!(rows.len(), ExchangeProtocol::ALL.len(), "all but one, and auto");
        let auto = rows.last().unwrap();
        let chosen = rows.iter().find(|row| Some(row.id) == auto.chosen.map(ExchangeProtocol::id)).unwrap();
        assert_eq!((auto.id, auto.result), (AUTO, chosen.result));
        assert!(rows.iter().all(|row| row.result.is_some_and(|result| result.micros_per_round > 0.0)));
        let of_network = scaling(&[], Some("torus:4x4"), ProtocolChoice::Auto).settings().unwrap();
        assert_eq!((of_network[0].ranks, of_network[1].neighbors), (16, 15));
    }

    #[test]
    fn protocols_with_too_many_messages_are_left_out_of_all() {
        let mut setting = scaling(&[4], None, ProtocolChoice::All).settings().unwrap().swap_remove(0);
        // This protocol sends to all ranks and has too many messages here, while the others are quick.
        (setting.ranks, setting.neighbors, setting.rounds) = (8000, 1, 1);
        let scaling_all = scaling(&[8000], None, ProtocolChoice::All);
        let is_left_out = |row: &Row| row.result.is_none();
        let rows = [ExchangeProtocol::NbxAllChannels, ExchangeProtocol::Nbx]
            .map(|protocol| scaling_all.row(protocol, &setting).unwrap());
        assert_eq!(rows.each_ref().map(is_left_out), [true, false]);
    }

    #[test]
    fn invalid_scales_are_refused() {
        let refusal = |scaling: ExchangeScaling<'_>| format!("{:#}", scaling.settings().err().expect("an error"));
        assert!(refusal(scaling(&[], None, ProtocolChoice::Auto)).contains("the number of ranks is missing"));
        assert!(refusal(scaling(&[3], None, ProtocolChoice::Auto)).contains("at most 2 neighbors, not 3"));
        assert!(refusal(scaling(&[5], Some("torus:4x4"), ProtocolChoice::Auto)).contains('5'));
        let ordered = scaling(&[4], None, ProtocolChoice::One(ExchangeProtocol::NbxOrderedBarrier))
            .run(None)
            .unwrap_err()
            .to_string();
        assert!(ordered.contains("not simulated"), "{ordered}");
    }
}
