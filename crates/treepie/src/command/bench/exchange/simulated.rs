//! The microbenchmark in the simulator, and what the model says of it.
//!
//! Messages are real, as protocols look into some of them, but those of the benchmark say nothing. Where the NBX paper has
//! measured a machine's synchronous messages and its barrier, they are used; else a synchronous message is answered by
//! another one, and the barrier is one by messages.

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use treepie_base::Bytes;
use treepie_model::LogGP;
use treepie_model::loggp::{self, Barrier};
use treepie_model::machines::Machine;
use treepie_sim::costs::Costs;
use treepie_sim::{Settings, reactors};
use treepie_sparse::choose::{self, choose};
use treepie_sparse::{Census, Exchange, Means, Microbenchmark, Place, Protocol, Rounds};
use treepie_topology::Network;

use super::super::super::sim;

/// What is simulated.
pub(super) struct Setting {
    /// Whose parameters; that of `treepie sim` if none is named.
    pub(super) machine: Option<Machine>,
    /// Where the ranks are; all alike if it is not said.
    pub(super) network: Option<Network>,
    pub(super) ranks: u32,
    pub(super) neighbours: u32,
    pub(super) rounds: u32,
    pub(super) seed: u64,
}

/// What came out of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) micros_per_round: f64,
    /// Of a round, with those of the protocol and answers.
    pub(super) messages_per_rank: f64,
    /// Bytes that the protocol held on a rank, at most.
    pub(super) memory: usize,
}

impl Setting {
    fn benchmark(&self) -> Microbenchmark {
        Microbenchmark::new(self.seed, self.ranks, self.neighbours)
    }

    fn network(&self) -> anyhow::Result<Network> {
        let network = self.network.clone().unwrap_or_else(|| Network::flat(self.ranks));
        let (there, ranks) = (network.ranks(), self.ranks);
        ensure!(there == ranks, "the network {network} has {there} ranks, and {ranks} are to exchange");
        Ok(network)
    }

    fn settings(&self, network: &Network) -> anyhow::Result<Settings> {
        sim::settings_with_handshake(self.machine, network)
    }

    fn means(&self) -> Means {
        let barrier = self.machine.and_then(Machine::hardware_barrier).is_some();
        Means { barrier, arrives_last: false, counters: false }
    }
}

/// Runs all rounds, one after the other without a barrier between them.
pub(super) fn simulate(protocol: Protocol, setting: &Setting) -> anyhow::Result<Seen> {
    let means = setting.means();
    if let Some(lacking) = protocol.lacks(means) {
        bail!("{protocol} needs {lacking}, which is not simulated");
    }
    ensure!(setting.rounds > 0, "there must be a round to be simulated");
    let network = setting.network()?;
    let settings = setting.settings(&network)?;
    let benchmark = Rc::new(setting.benchmark());
    let memory = Rc::new(Cell::new(0));
    let rounds = setting.rounds;
    let rank = |rank: u32| {
        let (benchmark, memory) = (benchmark.clone(), memory.clone());
        Rounds::new(Box::new(move |round, done: Option<Box<dyn Exchange>>| {
            memory.set(memory.get().max(done.map_or(0, |done| done.memory())));
            (round < rounds).then(|| {
                let zeros = |(to, length)| (to, Bytes::zeroed(length, 1));
                let messages = benchmark.messages(rank, round).into_iter().map(zeros).collect();
                protocol.begin(Place { rank, ranks: benchmark.ranks }, means, messages)
            })
        }))
    };
    let reactors = (0..setting.ranks).map(rank).collect();
    let ran = reactors::run(&network, &settings, reactors, 0.0).with_context(|| protocol.to_string())?;
    let each = f64::from(rounds) * f64::from(setting.ranks);
    Ok(Seen {
        micros_per_round: ran.micros() / f64::from(rounds),
        messages_per_rank: ran.messages as f64 / each,
        memory: memory.get(),
    })
}

/// What the paper's equations say of a round, for those protocols and machines that they are about: microseconds. All
/// messages have the mean length, the barrier is the machine's or the bound of one by messages.
pub(super) fn model(protocol: Protocol, setting: &Setting) -> Option<f64> {
    let network = setting.network().ok()?;
    let settings = setting.settings(&network).ok()?;
    let Costs::LogGp(costs) = settings.costs else { return None };
    let protocol = match protocol {
        Protocol::Pex => loggp::Protocol::Pex,
        Protocol::Pcx => loggp::Protocol::Pcx,
        Protocol::Rsx => loggp::Protocol::Rsx,
        Protocol::Nbx => loggp::Protocol::Nbx,
        Protocol::NbxBehind | Protocol::NbxAllChannels | Protocol::Crystal => return None,
    };
    let lengths = setting.benchmark().lengths;
    let bytes = (lengths.start() + lengths.end()) as f64 / 2.0;
    let neighbours = setting.neighbours.min(setting.ranks.saturating_sub(1));
    let exchange = loggp::Exchange { ranks: setting.ranks, neighbours, bytes };
    let barrier = setting.machine.and_then(Machine::hardware_barrier).map_or(Barrier::Bound, Barrier::Hardware);
    Some(costs.exchange(protocol, &exchange, barrier, settings.handshake))
}

/// What `exchange/auto` takes where the rounds before were like these.
pub(super) fn chosen(setting: &Setting) -> anyhow::Result<Protocol> {
    let settings = setting.settings(&setting.network()?)?;
    let network = match settings.costs {
        Costs::LogGp(costs) => costs,
        Costs::Links(links) => startup(links.alpha, links.delta),
        Costs::Clusters(clusters) => {
            let [short, long] = [0.0, 1e6].map(|bytes| clusters.local.gap.at(bytes));
            startup(clusters.local.latency + short, (long - short) / 1e6)
        }
        _ => bail!("nothing is known of what messages cost"),
    };
    let costs = choose::Costs { barrier: settings.barrier, ..choose::Costs::of_network(network) };
    let neighbours = setting.neighbours.min(setting.ranks.saturating_sub(1)) as usize;
    let seen = Census::of(neighbours, *setting.benchmark().lengths.end());
    Ok(choose(setting.ranks, setting.means(), &costs, seen))
}

/// Of a machine that is described by start-ups: the CPU is busy with them.
fn startup(alpha: f64, per_byte: f64) -> LogGP {
    LogGP { latency: 0.0, overhead: alpha / 2.0, gap: alpha, per_byte }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intrepid(ranks: u32) -> Setting {
        Setting { machine: Some(Machine::Intrepid), network: None, ranks, neighbours: 6, rounds: 3, seed: 1 }
    }

    #[test]
    fn messages_are_those_of_the_protocol() {
        let messages = |protocol| simulate(protocol, &intrepid(64)).unwrap().messages_per_rank;
        // The hardware has the barrier, and tells that messages were taken.
        assert_eq!(messages(Protocol::Nbx), 6.0);
        assert_eq!(messages(Protocol::Rsx), 12.0);
        assert_eq!(messages(Protocol::Pcx), 12.0);
        assert_eq!(messages(Protocol::Crystal), 6.0);
        assert_eq!(messages(Protocol::NbxAllChannels), 63.0);
        // Answers, and a barrier by messages.
        let bgp =
            Setting { machine: Some(Machine::Bgp), network: Some("torus:4x4x4".parse().unwrap()), ..intrepid(64) };
        assert_eq!(simulate(Protocol::Nbx, &bgp).unwrap().messages_per_rank, 6.0 + 6.0 + 6.0);
    }

    #[test]
    fn few_neighbours_take_what_the_model_says() {
        // One message of each rank to the only other: nobody waits for anybody else. PCX sends it before it knows what
        // comes, which the model does not.
        for machine in [Machine::Intrepid, Machine::Jaguar, Machine::BigRed] {
            let setting = Setting { machine: Some(machine), rounds: 20, neighbours: 1, ..intrepid(2) };
            for protocol in [Protocol::Pex, Protocol::Nbx] {
                let seen = simulate(protocol, &setting).unwrap().micros_per_round;
                let model = model(protocol, &setting).unwrap();
                assert!((0.8..1.2).contains(&(seen / model)), "{machine} {protocol}: {seen} and {model}");
            }
        }
        assert_eq!(model(Protocol::Crystal, &intrepid(64)), None);
        let links = Setting { machine: Some(Machine::Bgp), ..intrepid(64) };
        assert_eq!(model(Protocol::Nbx, &links), None);
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        let refusal = |protocol, setting: &Setting| simulate(protocol, setting).unwrap_err().to_string();
        assert!(refusal(Protocol::NbxBehind, &intrepid(8)).contains("behind all messages"));
        let small = Setting { network: Some(Network::flat(4)), ..intrepid(8) };
        assert!(refusal(Protocol::Nbx, &small).contains("4 ranks, and 8"), "{}", refusal(Protocol::Nbx, &small));
        let none = Setting { rounds: 0, ..intrepid(8) };
        assert!(refusal(Protocol::Nbx, &none).contains("a round"));
    }

    #[test]
    fn auto_follows_the_machine() {
        assert_eq!(chosen(&intrepid(8192)).unwrap(), Protocol::Nbx);
        let torus = Setting { machine: None, network: Some("torus:4x4".parse().unwrap()), ..intrepid(16) };
        let clusters = Setting { machine: None, network: Some("clusters:4x4".parse().unwrap()), ..intrepid(16) };
        for setting in [torus, clusters] {
            let seen = simulate(chosen(&setting).unwrap(), &setting).unwrap();
            assert!(seen.micros_per_round > 0.0);
        }
    }
}
