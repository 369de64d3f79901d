//! `exchange/auto`: the protocol that is cheapest for what exchanges were like so far.
//!
//! What they were like is the census of the exchange before, which all ranks have got with it. So all choose the same, and
//! nobody asks anybody. Costs are those of the files of the protocols, in LogGP.

use treepie_comm::protocol::Means;
use treepie_model::LogGP;

use crate::census::Census;
use crate::protocol::Protocol;

/// What things cost, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Of messages.
    pub network: LogGP,
    /// Of the engine's barrier, if there is one.
    pub barrier: f64,
    /// Until a rank that others share a core with runs again, which each step of an exchange waits for.
    pub turn: f64,
    /// Bytes from which on a message is announced before it is sent, which is as good as an answer.
    pub announced: u64,
}

impl Costs {
    /// On a network with these parameters.
    pub fn of_network(network: LogGP) -> Self {
        Self { network, barrier: 0.0, turn: 0.0, announced: u64::MAX }
    }

    /// In the memory of one machine, with so many ranks on each core.
    pub fn of_machine(ranks_per_core: f64) -> Self {
        let sharing = ranks_per_core.max(1.0);
        let network = LogGP { latency: 0.15, overhead: 0.1, gap: 0.1, per_byte: 0.0001 };
        let turn = 1.1 * (sharing - 1.0);
        Self { network, barrier: 0.2 + turn, turn, announced: 8 << 10 }
    }
}

/// An exchange that was like this is expected where nothing is known: the paper's.
const USUAL: (u64, u64) = (6, 1024);

/// The cheapest protocol for exchanges like that one.
pub fn choose(ranks: u32, means: Means, costs: &Costs, seen: Census) -> Protocol {
    let possible = Protocol::ALL.into_iter().filter(|protocol| protocol.lacks(means).is_none());
    let priced = possible.map(|protocol| (protocol, price(protocol, ranks, means, costs, seen)));
    priced.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(Protocol::Nbx, |(protocol, _)| protocol)
}

/// What an exchange costs.
pub fn price(protocol: Protocol, ranks: u32, means: Means, costs: &Costs, seen: Census) -> f64 {
    let neighbours = seen.neighbours().unwrap_or(USUAL.0).min(u64::from(ranks) * 4) as f64;
    let longest = seen.longest().unwrap_or(USUAL.1);
    let Costs { network, barrier, turn, .. } = *costs;
    let rounds = f64::from(ranks.next_power_of_two().ilog2());
    let p = f64::from(ranks);
    let spacing = network.spacing();
    // One message after which somebody can go on.
    let step = network.latency + 2.0 * network.overhead + turn;
    let bytes = |bytes: f64| bytes * network.per_byte;
    let data = |messages: f64| (messages - 1.0).max(0.0) * spacing + step + bytes(neighbours * longest as f64);
    let closing = if means.barrier { barrier } else { rounds * step };
    match protocol {
        Protocol::Pex => rounds * (step + bytes(8.0 * p / 2.0)) + data(neighbours),
        Protocol::Pcx => rounds * step + bytes(4.0 * p) + data(neighbours),
        Protocol::Rsx if means.counters => neighbours * spacing + closing + data(neighbours),
        Protocol::Rsx => 2.0 * (network.latency + turn + neighbours * spacing) + closing + data(neighbours),
        Protocol::Nbx => {
            let answers = if longest >= costs.announced { 0.0 } else { neighbours * spacing };
            data(neighbours) + network.latency + turn + answers + closing
        }
        Protocol::NbxBehind => data(neighbours) - turn + closing,
        Protocol::NbxAllChannels => data(neighbours.max(p - 1.0)),
        // Each message is sent again in every other step, and copied twice for it.
        Protocol::Crystal => rounds * (step + 1.5 * bytes(neighbours * (longest + 16) as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_depends_on_ranks_neighbours_and_means() {
        let jaguar = Costs::of_network(LogGP { latency: 9.9, overhead: 1.75, gap: 3.4, per_byte: 0.00058 });
        let none = Means::default();
        let six = Census::of(6, 512);
        assert_eq!(choose(2, none, &jaguar, Census::of(1, 512)), Protocol::NbxAllChannels);
        let many = choose(16_384, none, &jaguar, six);
        assert!(matches!(many, Protocol::Nbx | Protocol::Crystal), "{many}");
        // Much data is not sent several times.
        assert_eq!(choose(16_384, none, &jaguar, Census::of(6, 1 << 20)), Protocol::Nbx);
        let memory = Means { barrier: true, arrives_last: true, counters: true };
        assert_eq!(choose(16, memory, &Costs::of_machine(8.0), six), Protocol::NbxBehind);
    }
}
