//! The benchmark in the simulator, at one scale or several: its table and its records.

use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use serde::Serialize;
use treepie_model::machines::Machine;
use treepie_sparse::Protocol;
use treepie_topology::Network;

use super::super::super::network;
use super::super::super::record::{Better, Record, Records};
use super::super::number;
use super::case::{AUTO, Asked, Neighbours};
use super::simulated::{Seen, Setting, chosen, model, simulate};

/// What the user asks for.
pub(super) struct Scales<'a> {
    pub(super) machine: Option<Machine>,
    pub(super) network: Option<&'a str>,
    /// Those of the network if there are none.
    pub(super) ranks: &'a [u32],
    pub(super) neighbours: &'a [Neighbours],
    pub(super) protocol: Asked,
    pub(super) rounds: u32,
    pub(super) seed: u64,
}

/// Where all protocols are tried, one that would send more in all rounds is left out: this takes some minutes.
const MOST_MESSAGES: f64 = 50e6;

impl Scales<'_> {
    /// Simulates, prints a table and writes the records.
    pub(super) fn run(&self, json: Option<&Path>) -> anyhow::Result<()> {
        let settings = self.settings()?;
        if let Asked::One(protocol) = self.protocol {
            // What cannot be is refused before anything is printed.
            ensure!(
                protocol != Protocol::NbxBehind,
                "{protocol} needs a barrier that is behind all messages, which is not simulated"
            );
        }
        let mut records = json.map(Records::create).transpose()?;
        let machine = self.machine.map_or("the parameters of treepie sim", Machine::name);
        say!("Sparse exchanges simulated with {machine}, {} rounds of messages of 1 to 1024 bytes", self.rounds);
        say!("  model     the closed form for a round, where there is one");
        say!("  memory    bytes of the protocol itself on a rank, at most");
        say!("  messages  of a rank in a round, with those of the protocol and answers");
        say!("");
        let head = ["us a round", "model", "messages", "memory"];
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
                if let (Some(records), Some(seen)) = (&mut records, row.seen) {
                    records.write(&record(&row, seen, setting, machine))?;
                }
            }
        }
        Ok(())
    }

    /// One for each number of ranks and neighbours.
    fn settings(&self) -> anyhow::Result<Vec<Setting>> {
        let network = self.network.map(network::load).transpose()?;
        let mut ranks = self.ranks.to_vec();
        if ranks.is_empty() {
            let of_network = network.as_ref().map(Network::ranks).filter(|ranks| *ranks > 0);
            ranks
                .push(of_network.context("how many ranks are there? Say --ranks, or for example --network torus:8x8")?);
        }
        let mut settings = Vec::new();
        for ranks in ranks {
            ensure!(ranks >= 2, "there are {ranks} ranks, and an exchange needs 2");
            let network = network.clone().map(|network| network.for_ranks(ranks)).transpose()?;
            for neighbours in self.neighbours {
                let neighbours = neighbours.among(ranks).map_err(|why| anyhow!(why))?;
                let (machine, network, rounds, seed) = (self.machine, network.clone(), self.rounds, self.seed);
                settings.push(Setting { machine, network, ranks, neighbours, rounds, seed });
            }
        }
        Ok(settings)
    }

    fn rows(&self, setting: &Setting) -> anyhow::Result<Vec<Row>> {
        let taken = chosen(setting)?;
        let auto = |row: &Row| Row { id: AUTO, took: Some(taken), ..*row };
        match self.protocol {
            Asked::One(protocol) => Ok(vec![self.row(protocol, setting)?]),
            Asked::Auto => Ok(vec![auto(&self.row(taken, setting)?)]),
            Asked::All => {
                let possible = Protocol::ALL.into_iter().filter(|protocol| *protocol != Protocol::NbxBehind);
                let rows = possible.map(|protocol| self.row(protocol, setting));
                let mut rows = rows.collect::<anyhow::Result<Vec<Row>>>()?;
                if let Some(auto) = rows.iter().find(|row| row.id == taken.id()).map(auto) {
                    rows.push(auto);
                }
                Ok(rows)
            }
        }
    }

    fn row(&self, protocol: Protocol, setting: &Setting) -> anyhow::Result<Row> {
        let messages = f64::from(setting.ranks).powi(2) * f64::from(setting.rounds);
        let is_left_out =
            self.protocol == Asked::All && protocol == Protocol::NbxAllChannels && messages > MOST_MESSAGES;
        let seen = (!is_left_out).then(|| simulate(protocol, setting)).transpose()?;
        Ok(Row { id: protocol.id(), seen, model: model(protocol, setting), took: None })
    }
}

/// A protocol with a setting.
struct Row {
    id: &'static str,
    /// Nothing if it was left out.
    seen: Option<Seen>,
    model: Option<f64>,
    /// What was chosen.
    took: Option<Protocol>,
}

impl Row {
    fn print(&self, setting: &Setting) {
        let none = || "-".to_owned();
        let model = self.model.map_or_else(none, number);
        let [time, messages, memory] = match self.seen {
            Some(seen) => {
                [number(seen.micros_per_round), format!("{:.1}", seen.messages_per_rank), seen.memory.to_string()]
            }
            None => [none(), none(), none()],
        };
        let took = match self.took {
            Some(protocol) => format!("  took {protocol}"),
            None if self.seen.is_none() => "  too many messages: name it by --protocol".to_owned(),
            None => String::new(),
        };
        let Setting { ranks, neighbours, .. } = setting;
        say!("{ranks:>7} {neighbours:>5}  {:<28} {time:>10} {model:>10} {messages:>8} {memory:>8}{took}", self.id);
    }
}

/// A record with what only a simulation knows.
#[derive(Serialize)]
struct Simulated {
    #[serde(flatten)]
    record: Record,
    /// Microseconds of a round by the closed form.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<f64>,
    messages_per_rank: f64,
    /// Bytes of the protocol on a rank.
    memory: usize,
    /// What was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    took: Option<&'static str>,
}

fn record(row: &Row, seen: Seen, setting: &Setting, machine: &str) -> Simulated {
    let network = setting.network.as_ref().map_or_else(|| "flat".to_owned(), Network::to_string);
    let record = Record {
        case: format!("{}/k{}", row.id, setting.neighbours),
        engine: "sim".to_owned(),
        ranks: setting.ranks,
        value: seen.micros_per_round,
        unit: "us".to_owned(),
        better: Better::Low,
        statistic: "mean of rounds".to_owned(),
        spread: 0.0,
        samples: 1,
        machine: format!("{network}, {machine}"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        against: None,
    };
    let Seen { messages_per_rank, memory, .. } = seen;
    Simulated { record, model: row.model, messages_per_rank, memory, took: row.took.map(Protocol::id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scales<'a>(ranks: &'a [u32], network: Option<&'a str>, protocol: Asked) -> Scales<'a> {
        let neighbours = &[Neighbours::Number(3), Neighbours::All];
        Scales { machine: Some(Machine::Jaguar), network, ranks, neighbours, protocol, rounds: 2, seed: 1 }
    }

    #[test]
    fn each_number_of_ranks_is_simulated_with_each_number_of_neighbours() {
        let asked = scales(&[4, 8], None, Asked::All);
        let settings = asked.settings().unwrap();
        let shapes: Vec<_> = settings.iter().map(|setting| (setting.ranks, setting.neighbours)).collect();
        assert_eq!(shapes, [(4, 3), (4, 3), (8, 3), (8, 7)]);
        let rows = asked.rows(&settings[2]).unwrap();
        assert_eq!(rows.len(), Protocol::ALL.len(), "all but one, and what is chosen");
        let auto = rows.last().unwrap();
        let taken = rows.iter().find(|row| Some(row.id) == auto.took.map(Protocol::id)).unwrap();
        assert_eq!((auto.id, auto.seen), (AUTO, taken.seen));
        assert!(rows.iter().all(|row| row.seen.is_some_and(|seen| seen.micros_per_round > 0.0)));
        let of_network = scales(&[], Some("torus:4x4"), Asked::Auto).settings().unwrap();
        assert_eq!((of_network[0].ranks, of_network[1].neighbours), (16, 15));
    }

    #[test]
    fn what_would_take_for_ever_is_left_out_of_all() {
        let mut setting = scales(&[4], None, Asked::All).settings().unwrap().swap_remove(0);
        // So many that this protocol, which sends to all, has too many messages, while the others are quick.
        (setting.ranks, setting.neighbours, setting.rounds) = (8000, 1, 1);
        let asked = scales(&[8000], None, Asked::All);
        let is_left_out = |row: &Row| row.seen.is_none();
        let rows = [Protocol::NbxAllChannels, Protocol::Nbx].map(|protocol| asked.row(protocol, &setting).unwrap());
        assert_eq!(rows.each_ref().map(is_left_out), [true, false]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refusal = |asked: Scales<'_>| format!("{:#}", asked.settings().err().expect("it cannot be"));
        assert!(refusal(scales(&[], None, Asked::Auto)).contains("how many ranks"));
        assert!(refusal(scales(&[3], None, Asked::Auto)).contains("2 others, and not 3"));
        assert!(refusal(scales(&[5], Some("torus:4x4"), Asked::Auto)).contains('5'));
        let behind = scales(&[4], None, Asked::One(Protocol::NbxBehind)).run(None).unwrap_err().to_string();
        assert!(behind.contains("not simulated"), "{behind}");
    }
}
