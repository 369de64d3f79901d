//! The microbenchmark in the simulator, and its closed-form model.
//!
//! Messages have real data, as protocols read some of them; those of the benchmark are zeros. Where the NBX paper has
//! measured a machine's synchronous sends and its barrier, these are used; otherwise a synchronous send is acknowledged
//! by a message, and the barrier uses messages.

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use treepie_base::Bytes;
use treepie_model::LogGP;
use treepie_model::loggp::{self, BarrierModel};
use treepie_model::machines::PaperMachine;
use treepie_model::predict::MessageCosts;
use treepie_sim::costs::CostModel;
use treepie_sim::{Settings, reactors};
use treepie_sparse::selection::{ProtocolCosts, choose};
use treepie_sparse::{
    ExchangeProtocol, ExchangeReactor, ExchangeSequence, Microbenchmark, NetworkRoutes, ReactorCapabilities,
    RingPosition, TrafficSummary,
};
use treepie_topology::Network;

use crate::parameters;

/// The simulated setting.
pub(super) struct ExchangeSetting {
    /// The machine whose parameters are used; by default that of `treepie sim`.
    pub(super) machine: Option<PaperMachine>,
    /// The network; flat by default.
    pub(super) network: Option<Network>,
    pub(super) ranks: u32,
    pub(super) neighbors: u32,
    pub(super) rounds: u32,
    pub(super) seed: u64,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ExchangeResult {
    pub(super) micros_per_round: f64,
    /// Per round, including protocol messages and acknowledgements.
    pub(super) messages_per_rank: f64,
    /// Bytes of the protocol state, maximum over ranks.
    pub(super) memory: usize,
}

impl ExchangeSetting {
    fn benchmark(&self) -> Microbenchmark {
        Microbenchmark::new(self.seed, self.ranks, self.neighbors)
    }

    fn network(&self) -> anyhow::Result<Network> {
        let network = self.network.clone().unwrap_or_else(|| Network::flat(self.ranks));
        let (available, ranks) = (network.ranks(), self.ranks);
        ensure!(available == ranks, "the network {network} has {available} ranks, not {ranks}");
        Ok(network)
    }

    fn settings(&self, network: &Network) -> anyhow::Result<Settings> {
        parameters::settings_with_handshake(self.machine, network)
    }

    fn capabilities(&self) -> ReactorCapabilities {
        let barrier = self.machine.and_then(PaperMachine::hardware_barrier).is_some();
        ReactorCapabilities { barrier, barrier_flushes: false, counters: false }
    }
}

/// Runs all rounds back to back, without barriers between them.
pub(super) fn simulate(protocol: ExchangeProtocol, setting: &ExchangeSetting) -> anyhow::Result<ExchangeResult> {
    let capabilities = setting.capabilities();
    if let Some(missing) = protocol.missing_capability(capabilities) {
        bail!("{protocol} needs {missing}, which is not simulated");
    }
    ensure!(setting.rounds > 0, "there must be at least one round");
    let network = setting.network()?;
    let settings = setting.settings(&network)?;
    let benchmark = Rc::new(setting.benchmark());
    let memory = Rc::new(Cell::new(0));
    let rounds = setting.rounds;
    let NetworkRoutes { routes, .. } = routes(&settings, &network);
    let rank = |rank: u32| {
        let (benchmark, memory, routes) = (benchmark.clone(), memory.clone(), routes.clone());
        ExchangeSequence::new(Box::new(move |round, done: Option<Box<dyn ExchangeReactor>>| {
            memory.set(memory.get().max(done.map_or(0, |done| done.memory())));
            (round < rounds).then(|| {
                let zeros = |(to, length)| (to, Bytes::zeroed(length, 1));
                let messages = benchmark.messages(rank, round).into_iter().map(zeros).collect();
                protocol.begin(RingPosition { rank, ranks: benchmark.ranks }, capabilities, &routes, messages)
            })
        }))
    };
    let reactors = (0..setting.ranks).map(rank).collect();
    let ran = reactors::run(&network, &settings, reactors, 0.0).with_context(|| protocol.to_string())?;
    let each = f64::from(rounds) * f64::from(setting.ranks);
    Ok(ExchangeResult {
        micros_per_round: ran.micros() / f64::from(rounds),
        messages_per_rank: ran.messages as f64 / each,
        memory: memory.get(),
    })
}

/// Microseconds of a round by the paper's equations, for the protocols and machines they cover. All messages have the
/// mean size; the barrier is the machine's, or the upper bound of one with messages.
pub(super) fn model(protocol: ExchangeProtocol, setting: &ExchangeSetting) -> Option<f64> {
    let network = setting.network().ok()?;
    let settings = setting.settings(&network).ok()?;
    let CostModel::LogGp(costs) = settings.costs else { return None };
    let protocol = match protocol {
        ExchangeProtocol::Pex => loggp::DsdeProtocol::Pex,
        ExchangeProtocol::Pcx => loggp::DsdeProtocol::Pcx,
        ExchangeProtocol::Rsx => loggp::DsdeProtocol::Rsx,
        ExchangeProtocol::Nbx => loggp::DsdeProtocol::Nbx,
        ExchangeProtocol::NbxOrderedBarrier | ExchangeProtocol::NbxAllChannels | ExchangeProtocol::Crystal => {
            return None;
        }
    };
    let lengths = setting.benchmark().lengths;
    let bytes = (lengths.start() + lengths.end()) as f64 / 2.0;
    let neighbors = setting.neighbors.min(setting.ranks.saturating_sub(1));
    let exchange = loggp::DsdeExchange { ranks: setting.ranks, neighbors, bytes };
    let barrier = setting
        .machine
        .and_then(PaperMachine::hardware_barrier)
        .map_or(BarrierModel::UpperBound, BarrierModel::Hardware);
    Some(costs.exchange(protocol, &exchange, barrier, settings.handshake))
}

/// The protocol that `exchange/auto` selects after rounds like these.
pub(super) fn choose_protocol(setting: &ExchangeSetting) -> anyhow::Result<ExchangeProtocol> {
    let network = setting.network()?;
    let settings = setting.settings(&network)?;
    let costs = match &settings.costs {
        CostModel::LogGp(costs) => ProtocolCosts::for_network(*costs),
        CostModel::Links(links) => ProtocolCosts::for_network(startup(links.alpha, links.delta)),
        CostModel::Clusters(_) => ProtocolCosts::new(&MessageCosts::on_network(&settings.profile(&network), &network)),
        _ => bail!("the cost of messages is unknown"),
    };
    let routes = routes(&settings, &network).times;
    let costs = ProtocolCosts { barrier: settings.barrier_time, routes, ..costs };
    let neighbors = setting.neighbors.min(setting.ranks.saturating_sub(1)) as usize;
    let traffic = TrafficSummary::new(neighbors, *setting.benchmark().lengths.end());
    Ok(choose(setting.ranks, setting.capabilities(), &costs, traffic))
}

/// Those of a communicator, on networks of clusters; the paper's barriers know no network.
fn routes(settings: &Settings, network: &Network) -> NetworkRoutes {
    match network.as_clusters() {
        Some(_) => NetworkRoutes::on_network(network, &settings.profile(network)),
        None => NetworkRoutes::default(),
    }
}

/// LogGP parameters for a start-up time, during which the CPU is busy.
fn startup(alpha: f64, per_byte: f64) -> LogGP {
    LogGP { latency: 0.0, overhead: alpha / 2.0, gap: alpha, per_byte }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intrepid(ranks: u32) -> ExchangeSetting {
        ExchangeSetting {
            machine: Some(PaperMachine::Intrepid),
            network: None,
            ranks,
            neighbors: 6,
            rounds: 3,
            seed: 1,
        }
    }

    #[test]
    fn messages_are_those_of_the_protocol() {
        let messages = |protocol| simulate(protocol, &intrepid(64)).unwrap().messages_per_rank;
        // The hardware provides the barrier and the acknowledgements.
        assert_eq!(messages(ExchangeProtocol::Nbx), 6.0);
        assert_eq!(messages(ExchangeProtocol::Rsx), 12.0);
        assert_eq!(messages(ExchangeProtocol::Pcx), 12.0);
        assert_eq!(messages(ExchangeProtocol::Crystal), 6.0);
        assert_eq!(messages(ExchangeProtocol::NbxAllChannels), 63.0);
        // Acknowledgements, and a barrier with messages.
        let bgp = ExchangeSetting {
            machine: Some(PaperMachine::Bgp),
            network: Some("torus:4x4x4".parse().unwrap()),
            ..intrepid(64)
        };
        assert_eq!(simulate(ExchangeProtocol::Nbx, &bgp).unwrap().messages_per_rank, 6.0 + 6.0 + 6.0);
    }

    #[test]
    fn few_neighbors_agree_with_the_model() {
        // Each of two ranks sends one message to the other, without contention. PCX sends its data before it knows its
        // receive count, which the model does not.
        for machine in [PaperMachine::Intrepid, PaperMachine::Jaguar, PaperMachine::BigRed] {
            let setting = ExchangeSetting { machine: Some(machine), rounds: 20, neighbors: 1, ..intrepid(2) };
            for protocol in [ExchangeProtocol::Pex, ExchangeProtocol::Nbx] {
                let simulated = simulate(protocol, &setting).unwrap().micros_per_round;
                let model = model(protocol, &setting).unwrap();
                assert!((0.8..1.2).contains(&(simulated / model)), "{machine} {protocol}: {simulated} and {model}");
            }
        }
        assert_eq!(model(ExchangeProtocol::Crystal, &intrepid(64)), None);
        let links = ExchangeSetting { machine: Some(PaperMachine::Bgp), ..intrepid(64) };
        assert_eq!(model(ExchangeProtocol::Nbx, &links), None);
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        let refusal = |protocol, setting: &ExchangeSetting| simulate(protocol, setting).unwrap_err().to_string();
        assert!(refusal(ExchangeProtocol::NbxOrderedBarrier, &intrepid(8)).contains("behind all messages"));
        let small = ExchangeSetting { network: Some(Network::flat(4)), ..intrepid(8) };
        assert!(
            refusal(ExchangeProtocol::Nbx, &small).contains("4 ranks, not 8"),
            "{}",
            refusal(ExchangeProtocol::Nbx, &small)
        );
        let none = ExchangeSetting { rounds: 0, ..intrepid(8) };
        assert!(refusal(ExchangeProtocol::Nbx, &none).contains("one round"));
    }

    #[test]
    fn auto_follows_the_machine() {
        assert_eq!(choose_protocol(&intrepid(8192)).unwrap(), ExchangeProtocol::Nbx);
        let torus = ExchangeSetting { machine: None, network: Some("torus:4x4".parse().unwrap()), ..intrepid(16) };
        let clusters =
            ExchangeSetting { machine: None, network: Some("clusters:4x4".parse().unwrap()), ..intrepid(16) };
        for setting in [torus, clusters] {
            let result = simulate(choose_protocol(&setting).unwrap(), &setting).unwrap();
            assert!(result.micros_per_round > 0.0);
        }
    }

    #[test]
    fn auto_on_clusters_is_among_the_fastest() {
        for (text, neighbors) in [("clusters:4x4", 3), ("clusters:2x16", 6), ("clusters:2x2x4", 1)] {
            let network: Network = text.parse().unwrap();
            let ranks = network.ranks();
            let setting = ExchangeSetting { machine: None, network: Some(network), ranks, neighbors, ..intrepid(1) };
            let available = ExchangeProtocol::ALL.into_iter();
            let times = available
                .filter_map(|protocol| Some((protocol, simulate(protocol, &setting).ok()?.micros_per_round)))
                .collect::<Vec<_>>();
            let best = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
            let chosen = choose_protocol(&setting).unwrap();
            let (_, time) = times.iter().find(|(protocol, _)| *protocol == chosen).unwrap();
            assert!(*time <= 1.3 * best, "{text}: {chosen} of {times:?}");
        }
    }
}
