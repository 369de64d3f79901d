//! Splits by hardware locality.

use treepie_base::{Error, Result};

use crate::comm::Comm;
use crate::digest::digest;

/// The locality by which [`Comm::split_type`] groups ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SplitType {
    /// Ranks on one machine. Simulated ranks have one each.
    Host,
    /// Ranks in one cluster of the network, for example of `clusters:4x16`.
    Cluster,
    /// Ranks on one leaf switch of the network, for example of `clos:r80,t64`.
    Leaf,
}

impl Comm {
    /// A communicator of the ranks that share a locality with this one, ordered by key and then by rank
    /// (`MPI_Comm_split_type`). All ranks call it.
    ///
    /// Clusters and leaf switches are those of the network of the handle ([`Comm::with_network`]), otherwise of the
    /// network of the world in `TREEPIE_NETWORK`. In a simulation the world is on the simulated network.
    ///
    /// # Errors
    /// If the network has no such level. If only some ranks use such a network, they get an error, and the
    /// communicators of the others do not contain them.
    pub fn split_type(&self, split_type: SplitType, key: i32) -> Result<Comm> {
        let _compared = self.compare_split_call(|| format!("split_type {split_type:?}"))?;
        match split_type {
            SplitType::Host => self.split_by_host(key),
            SplitType::Cluster | SplitType::Leaf => {
                let color = self.network_color(split_type);
                // Others may use another network, and must not wait for this rank, nor use other algorithms.
                let without_network = self.with_choice(self.collectives.choice.without_network());
                let comm = without_network.split(color.as_ref().ok().copied(), key);
                color?;
                Ok(comm?.expect("it has a color"))
            }
        }
    }

    fn network_color(&self, split_type: SplitType) -> Result<u32> {
        let (network, rank) = self.network_and_rank()?;
        let node = network.node_of(rank);
        let (color, what, example) = match split_type {
            SplitType::Leaf => (network.as_clos().map(|clos| clos.leaf_of(node)), "leaf switches", "clos:r80,t64"),
            _ => (network.as_clusters().map(|all| all.cluster_of(node)), "clusters", "clusters:4x16"),
        };
        color.ok_or_else(|| {
            let how = format!("`Comm::with_network` or TREEPIE_NETWORK can set one that has, for example {example}");
            Error::Algorithm(format!("the network `{network}` has no {what}; {how}"))
        })
    }

    fn split_by_host(&self, key: i32) -> Result<Comm> {
        let on_one_machine = self.endpoint().cores().is_some();
        if on_one_machine {
            return Ok(self.split(0, key)?.expect("every rank has a color"));
        }
        // Simulated ranks have a network between them, wherever the simulation runs.
        let host = if self.engine() == "sim" { None } else { host() };
        // A rank whose host is unknown shares it with no other.
        let world_rank = self.endpoint().rank();
        self.split_by_id(host.unwrap_or(world_rank.into()), key)
    }

    /// Splits by a 64-bit id. A color has half of its bits, so the ranks are split twice; no rank needs a list of all
    /// ids.
    fn split_by_id(&self, id: u64, key: i32) -> Result<Comm> {
        let [low, high] = [id as u32, (id >> 32) as u32];
        let same_high = self.split(high, key)?.expect("every rank has a color");
        Ok(same_high.split(low, key)?.expect("every rank has a color"))
    }
}

/// An id of this machine, almost surely unique; `None` if the system does not provide one. Host names alone would not
/// do, as machines in different networks may have the same.
fn host() -> Option<u64> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let name = std::fs::read("/proc/sys/kernel/hostname").ok()?;
    let digest = digest(boot.into_iter().chain(name).map(u64::from));
    // Small ids are reserved for ranks whose host is unknown.
    Some(digest | 1 << 63)
}

#[cfg(test)]
mod tests {
    use treepie_sim::costs::LogGP;
    use treepie_sim::engine::{Options, run};
    use treepie_topology::Network;

    use super::*;

    /// Runs a body on simulated ranks.
    fn on_ranks<R>(ranks: u32, body: impl Fn(Comm) -> R) -> Vec<R> {
        let settings = LogGP { latency: 4.0, overhead: 1.0, gap: 1.0, per_byte: 0.001 }.into();
        let simulated = run(&Network::flat(ranks), &settings, &Options::default(), |fabric| body(Comm::world(fabric)));
        simulated.expect("it can be simulated").into_results()
    }

    #[test]
    fn ids_that_agree_in_one_half_only_are_different() {
        let ids = [7, 7 << 32, 7 << 32 | 7, 7, 1 << 63, 7 << 32, 7, 7 << 32 | 8];
        let members = on_ranks(8, |world| {
            let part = world.split_by_id(ids[world.rank()], -(world.rank() as i32)).unwrap();
            (0..part.size()).map(|rank| part.translate_rank(rank, &world).unwrap().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(
            members,
            [vec![6, 3, 0], vec![5, 1], vec![2], vec![6, 3, 0], vec![4], vec![5, 1], vec![6, 3, 0], vec![7]]
        );
    }

    #[test]
    fn each_simulated_rank_has_its_own_host() {
        let sizes = on_ranks(5, |world| world.split_type(SplitType::Host, 0).map(|host| host.size()));
        assert!(sizes.iter().all(|size| *size == Ok(1)), "{sizes:?}");
    }

    #[test]
    fn a_host_has_one_id() {
        assert_eq!(host(), host());
        assert!(host().is_none_or(|host| host >= 1 << 63));
    }
}
