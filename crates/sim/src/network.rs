//! Networks in time: what a message goes through between the sender's CPU and the receiver's.

pub(crate) mod clusters;
pub(crate) mod flows;
pub(crate) mod links;
pub(crate) mod loggp;
pub(crate) mod ways;

use treepie_topology::{Kind, Network};

use crate::costs::{Costs, Settings};
use crate::error::{Error, Result};
use crate::machine::Memory;
use crate::noise::Noise;
use clusters::ClusterNet;
use links::LinkNet;
use loggp::LogGpNet;

/// The network of a machine, by how messages are priced.
#[derive(Debug)]
pub(crate) enum Net {
    LogGp(LogGpNet),
    Links(Box<LinkNet>),
    Clusters(ClusterNet),
}

impl Net {
    pub(crate) fn new(network: &Network, settings: &Settings, folded: bool) -> Result<Self> {
        let ranks = if folded { 1 } else { network.ranks() };
        if ranks == 0 {
            return Err(Error::OpenNetwork(network.to_string()));
        }
        let slow_links = !settings.noise.slow_links.is_empty();
        if slow_links && !matches!(settings.costs, Costs::Links(_)) {
            return Err(Error::NoLinks);
        }
        Ok(match &settings.costs {
            Costs::LogGp(costs) => Net::LogGp(LogGpNet::new(costs, ranks)),
            Costs::Links(costs) => Net::Links(Box::new(LinkNet::new(costs, network, &settings.noise, folded)?)),
            Costs::Clusters(costs) => {
                let Kind::Clusters(_) = network.kind() else { return Err(Error::NotClusters(network.to_string())) };
                Net::Clusters(ClusterNet::new(costs, network)?)
            }
        })
    }

    /// Whether a message may overtake another of the same ranks that was sent in a round before.
    pub(crate) fn lets_overtake(&self, noise: &Noise) -> bool {
        matches!(self, Net::Clusters(_)) && noise.slow_ranks.iter().any(|(_, factor)| *factor < 1.0)
    }

    pub(crate) fn memory(&self) -> Memory {
        match self {
            Net::LogGp(net) => Memory { ranks: net.memory(), ..Memory::default() },
            Net::Links(net) => net.memory(),
            Net::Clusters(net) => net.memory(),
        }
    }
}

/// What a rank's interface lets in: one message after the other.
#[derive(Debug)]
pub(crate) struct Inlet {
    /// When the last message of each rank was in, plus 1; 0 if there was none.
    last: Vec<u64>,
}

impl Inlet {
    pub(crate) fn new(ranks: u32) -> Self {
        Self { last: vec![0; ranks as usize] }
    }

    /// When a message is in that has come now, if it needs the interface for so long after the one before.
    #[inline]
    pub(crate) fn admit(&mut self, rank: u32, now: u64, spacing: u64) -> u64 {
        let last = &mut self.last[rank as usize];
        let inside = if *last == 0 { now } else { now.max(*last - 1 + spacing) };
        *last = inside + 1;
        inside
    }

    pub(crate) fn memory(&self) -> usize {
        self.last.capacity() * 8
    }
}
