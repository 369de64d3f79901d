//! `exchange/auto`: selects the cheapest protocol for the traffic of the previous exchange.
//!
//! All ranks have the traffic summary of the previous exchange, so all select the same protocol without communication.
//! The costs are those in the headers of the protocols, in LogGP, and of copies. Where the network has a structure, the
//! times of barriers are those that the choice of collective algorithms predicts on it.

use treepie_comm::protocol::ReactorCapabilities;
use treepie_model::LogGP;
use treepie_model::predict::MessageCosts;
use treepie_model::profile::SynchronousSend;

use crate::protocol::ExchangeProtocol;
use crate::routes::RouteTimes;
use crate::traffic_summary::TrafficSummary;

/// Cost parameters, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProtocolCosts {
    /// LogGP parameters of messages.
    pub network: LogGP,
    /// Time of the engine's barrier, if it has one.
    pub barrier: f64,
    /// Time until a rank on an oversubscribed core runs again; each step of an exchange waits for it.
    pub scheduling_delay: f64,
    /// To copy a byte within a rank, times the ranks that share its core.
    pub copy_per_byte: f64,
    /// Synchronous sends. The handshake of a rendezvous acknowledges a message, so those are no slower.
    pub synchronous: SynchronousSend,
    /// Barriers and counts over messages, as far as they were predicted for the network.
    pub routes: RouteTimes,
}

impl ProtocolCosts {
    /// Costs on a network with these parameters, where an acknowledgement is a message.
    pub fn for_network(network: LogGP) -> Self {
        let synchronous = SynchronousSend { latency: 2.0 * network.latency, vanishes_at: f64::INFINITY };
        Self {
            network,
            barrier: 0.0,
            scheduling_delay: 0.0,
            copy_per_byte: 0.0,
            synchronous,
            routes: RouteTimes::default(),
        }
    }

    /// Costs by a profile. The time until a waiting rank is scheduled is not part of the latency here.
    pub fn new(costs: &MessageCosts<'_>) -> Self {
        let (profile, scheduling_delay) = (costs.profile(), costs.delay());
        let network = costs.loggp();
        let network = LogGP { latency: network.latency - scheduling_delay, ..network };
        let barrier = profile.barrier.unwrap_or(0.0) + scheduling_delay;
        let copy_per_byte = costs.ranks_per_core() * costs.copy(1.0);
        let mut synchronous = profile.synchronous;
        if profile.levels.len() > 1 {
            // Measured between close ranks; an acknowledgement comes as far as its message went.
            synchronous.latency = synchronous.latency.max(2.0 * network.latency);
        }
        Self { network, barrier, scheduling_delay, copy_per_byte, synchronous, routes: RouteTimes::default() }
    }
}

/// Neighbors and message bytes assumed before the first exchange: those of the paper's microbenchmark.
const DEFAULT_PATTERN: (u64, u64) = (6, 1024);

/// The cheapest protocol for this traffic.
pub fn choose(
    ranks: u32,
    capabilities: ReactorCapabilities,
    costs: &ProtocolCosts,
    summary: TrafficSummary,
) -> ExchangeProtocol {
    let available =
        ExchangeProtocol::ALL.into_iter().filter(|protocol| protocol.missing_capability(capabilities).is_none());
    let priced = available.map(|protocol| (protocol, predicted_cost(protocol, ranks, capabilities, costs, summary)));
    priced.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(ExchangeProtocol::Nbx, |(protocol, _)| protocol)
}

/// The predicted time of an exchange.
pub fn predicted_cost(
    protocol: ExchangeProtocol,
    ranks: u32,
    capabilities: ReactorCapabilities,
    costs: &ProtocolCosts,
    summary: TrafficSummary,
) -> f64 {
    let neighbors = summary.max_neighbors().unwrap_or(DEFAULT_PATTERN.0).min(u64::from(ranks) * 4) as f64;
    let longest = summary.max_message_bytes().unwrap_or(DEFAULT_PATTERN.1);
    let ProtocolCosts { network, barrier, scheduling_delay, routes, .. } = *costs;
    let rounds = f64::from(ranks.next_power_of_two().ilog2());
    let p = f64::from(ranks);
    let interval = network.message_interval();
    // One message on the critical path.
    let step = network.latency + 2.0 * network.overhead + scheduling_delay;
    let bytes = |bytes: f64| bytes * network.per_byte;
    let link_share = routes.link_share.max(1.0);
    let data =
        |messages: f64| step + link_share * ((messages - 1.0).max(0.0) * interval + bytes(neighbors * longest as f64));
    let dissemination = routes.dissemination.unwrap_or(rounds * step);
    let barrier_time = if capabilities.barrier { barrier } else { routes.barrier.unwrap_or(rounds * step) };
    match protocol {
        ExchangeProtocol::Pex => dissemination + rounds * bytes(8.0 * p / 2.0) + data(neighbors),
        ExchangeProtocol::Pcx => dissemination + bytes(4.0 * p) + data(neighbors),
        ExchangeProtocol::Rsx if capabilities.counters => neighbors * interval + barrier_time + data(neighbors),
        ExchangeProtocol::Rsx => match routes.coordinators.filter(|_| !capabilities.barrier) {
            Some(counts) => {
                // The data of a coordinator waits for the counts of its cluster.
                let within = (counts - step).max(0.0) / 2.0;
                counts.max(within + data(neighbors)) + interval
            }
            None => 2.0 * (network.latency + scheduling_delay + neighbors * interval) + barrier_time + data(neighbors),
        },
        ExchangeProtocol::Nbx => {
            let SynchronousSend { latency, vanishes_at } = costs.synchronous;
            let acknowledged = if longest as f64 >= vanishes_at {
                0.0
            } else {
                (latency - network.latency).max(0.0) + neighbors * interval
            };
            data(neighbors) + scheduling_delay + acknowledged + barrier_time
        }
        ExchangeProtocol::NbxOrderedBarrier => data(neighbors) - scheduling_delay + barrier_time,
        ExchangeProtocol::NbxAllChannels => data(neighbors.max(p - 1.0)),
        // A step forwards what goes to the other half of the ranks, and copies it twice.
        ExchangeProtocol::Crystal => {
            let other_half = (p / 2.0).floor() / (p - 1.0).max(1.0);
            let forwarded = neighbors * (longest + 16) as f64 * other_half;
            dissemination + rounds * (link_share * bytes(forwarded) + 2.0 * forwarded * costs.copy_per_byte)
        }
    }
}

#[cfg(test)]
mod tests {
    use treepie_comm::Network;
    use treepie_model::Profile;

    use super::*;

    #[test]
    fn the_choice_depends_on_ranks_neighbors_and_capabilities() {
        let jaguar = ProtocolCosts::for_network(LogGP { latency: 9.9, overhead: 1.75, gap: 3.4, per_byte: 0.00058 });
        let none = ReactorCapabilities::default();
        let six = TrafficSummary::new(6, 512);
        assert_eq!(choose(2, none, &jaguar, TrafficSummary::new(1, 512)), ExchangeProtocol::NbxAllChannels);
        let many = choose(16_384, none, &jaguar, six);
        assert!(matches!(many, ExchangeProtocol::Nbx | ExchangeProtocol::Crystal), "{many}");
        // Large messages are not forwarded.
        assert_eq!(choose(16_384, none, &jaguar, TrafficSummary::new(6, 1 << 20)), ExchangeProtocol::Nbx);
        let memory = ReactorCapabilities { barrier: true, barrier_flushes: true, counters: true };
        let (profile, flat) = (Profile::shared_memory(), Network::flat(16));
        let shared = ProtocolCosts::new(&MessageCosts::on_machine(&profile, &flat, 8.0));
        assert_eq!(choose(16, memory, &shared, six), ExchangeProtocol::NbxOrderedBarrier);
    }
}
