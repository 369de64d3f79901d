//! Network models in time: from the sender's CPU to the receiver's.

pub(crate) mod clusters;
pub(crate) mod flows;
pub(crate) mod link_routes;
pub(crate) mod links;
pub(crate) mod loggp;

use treepie_topology::{Network, NetworkKind};

use crate::costs::{CostModel, Settings};
use crate::error::{Error, Result};
use crate::machine::MemoryUsage;
use crate::noise::Noise;
use clusters::ClusterNet;
use links::LinkNet;
use loggp::LogGpNet;

/// The network of a machine, by its cost model.
#[derive(Debug)]
pub(crate) enum NetworkModel {
    LogGp(LogGpNet),
    Links(Box<LinkNet>),
    Clusters(ClusterNet),
}

impl NetworkModel {
    pub(crate) fn new(network: &Network, settings: &Settings, is_representative: bool) -> Result<Self> {
        let ranks = if is_representative { 1 } else { network.ranks() };
        if ranks == 0 {
            return Err(Error::OpenNetwork(network.to_string()));
        }
        let slow_links = !settings.noise.slow_links.is_empty();
        if slow_links && !matches!(settings.costs, CostModel::Links(_)) {
            return Err(Error::SlowLinksUnsupported);
        }
        Ok(match &settings.costs {
            CostModel::LogGp(costs) => NetworkModel::LogGp(LogGpNet::new(costs, ranks)),
            CostModel::Links(costs) => {
                NetworkModel::Links(Box::new(LinkNet::new(costs, network, &settings.noise, is_representative)?))
            }
            CostModel::Clusters(costs) => {
                let NetworkKind::Clusters(_) = network.kind() else {
                    return Err(Error::ClusterNetworkRequired(network.to_string()));
                };
                NetworkModel::Clusters(ClusterNet::new(costs, network)?)
            }
        })
    }

    /// Whether a message may overtake one of the same pair of ranks from an earlier round.
    pub(crate) fn can_reorder(&self, noise: &Noise) -> bool {
        matches!(self, NetworkModel::Clusters(_)) && noise.slow_ranks.iter().any(|(_, factor)| *factor < 1.0)
    }

    pub(crate) fn memory(&self) -> MemoryUsage {
        match self {
            NetworkModel::LogGp(net) => MemoryUsage { ranks: net.memory(), ..MemoryUsage::default() },
            NetworkModel::Links(net) => net.memory(),
            NetworkModel::Clusters(net) => net.memory(),
        }
    }
}

/// Receive gap: a rank's network interface admits one message after the other.
#[derive(Debug)]
pub(crate) struct ReceiveGap {
    /// When the last message of each rank was admitted, plus 1; 0 if there was none.
    last: Vec<u64>,
}

impl ReceiveGap {
    pub(crate) fn new(ranks: u32) -> Self {
        Self { last: vec![0; ranks as usize] }
    }

    /// When a message that arrives now is admitted, at least `interval` after the one before.
    #[inline]
    pub(crate) fn admit(&mut self, rank: u32, now: u64, interval: u64) -> u64 {
        let last = &mut self.last[rank as usize];
        let admitted = if *last == 0 { now } else { now.max(*last - 1 + interval) };
        *last = admitted + 1;
        admitted
    }

    pub(crate) fn memory(&self) -> usize {
        self.last.capacity() * 8
    }
}
