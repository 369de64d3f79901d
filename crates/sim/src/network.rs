//! Network models in time: from the sender's CPU to the receiver's.

pub(crate) mod clusters;
pub(crate) mod flows;
mod host_ports;
pub(crate) mod link_routes;
pub(crate) mod links;
pub(crate) mod loggp;
mod receive_gap;

use treepie_topology::{Network, NetworkKind};

use crate::costs::{CostModel, Settings};
use crate::error::{Error, Result};
use crate::machine::MemoryUsage;
use crate::noise::Noise;
use clusters::ClusterNet;
use link_routes::RouteTable;
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
            CostModel::LogGp(costs) => {
                let net = LogGpNet::new(costs, ranks);
                NetworkModel::LogGp(net.with_hosts(costs, settings.shared_memory, network))
            }
            CostModel::Links(costs) => {
                let net = LinkNet::new(costs, network, &settings.noise, is_representative)?;
                NetworkModel::Links(Box::new(net.with_shared_memory(settings.shared_memory)))
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

impl Settings {
    /// As [`check`](Self::check); also refuses ranks and links that the network does not have.
    pub fn check_on(&self, network: &Network) -> Result<()> {
        self.check()?;
        let ranks = network.ranks();
        let ranks_in_noise = self.noise.slow_ranks.iter().chain(&self.noise.failures).map(|(rank, _)| *rank);
        if let Some(rank) = ranks_in_noise.into_iter().find(|rank| *rank >= ranks) {
            return Err(Error::InvalidRank { rank, ranks });
        }
        match &self.costs {
            _ if self.noise.slow_links.is_empty() => Ok(()),
            CostModel::Links(links) => RouteTable::new(links, network, &self.noise, false).map(drop),
            _ => Err(Error::SlowLinksUnsupported),
        }
    }
}
