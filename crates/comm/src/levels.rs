//! Communicators of ranks that are near each other.

use treepie_base::{Error, Result};

use crate::comm::Comm;
use crate::digest::digest;

/// What ranks have in common that [`Comm::split_by`] puts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Level {
    /// They run on one machine. Simulated ranks have one each.
    Host,
    /// They are in one cluster of the network, as `clusters:4x16` has them.
    Cluster,
    /// They are on one leaf switch of the network, as `clos:r80,t64` has them.
    Leaf,
}

impl Comm {
    /// A communicator of those ranks that have a level in common with this one, in the order of their keys, and for equal
    /// keys in that of their ranks here. All ranks call it.
    ///
    /// Clusters and leaf switches are those of the network that the handle names ([`Comm::on`]), or else of the one that
    /// `TREEPIE_NETWORK` names for all ranks of the world. In a simulation the world is
    /// on the network that is simulated.
    ///
    /// # Errors
    /// If the network has no such level. If only some ranks name such a network, they get an error, and the others are put
    /// together without them.
    pub fn split_by(&self, level: Level, key: i32) -> Result<Comm> {
        let _compared = self.agree_on_split(|| format!("split_by {level:?}"))?;
        match level {
            Level::Host => self.split_by_host(key),
            Level::Cluster | Level::Leaf => {
                let part = self.part_of_network(level);
                // Others may name another network, and must not wait for this rank, nor go by other algorithms.
                let alike = self.with_choice(self.collectives.choice.without_network());
                let comm = alike.split(part.as_ref().ok().copied(), key);
                part?;
                Ok(comm?.expect("it has a colour"))
            }
        }
    }

    fn part_of_network(&self, level: Level) -> Result<u32> {
        let (network, rank) = self.network_and_rank()?;
        let place = network.place(rank);
        let (part, what, example) = match level {
            Level::Leaf => (network.clos_kind().map(|clos| clos.leaf_of(place)), "leaf switches", "clos:r80,t64"),
            _ => (network.clusters_kind().map(|all| all.cluster_of(place)), "clusters", "clusters:4x16"),
        };
        part.ok_or_else(|| {
            let how = format!("`Comm::on` or TREEPIE_NETWORK can name one that has, as {example}");
            Error::Algorithm(format!("the network `{network}` has no {what}; {how}"))
        })
    }

    fn split_by_host(&self, key: i32) -> Result<Comm> {
        let on_one_machine = self.endpoint().cores().is_some();
        if on_one_machine {
            return Ok(self.split(0, key)?.expect("every rank has a colour"));
        }
        // What is simulated are ranks with a network between them, wherever the simulation runs.
        let host = if self.engine() == "sim" { None } else { host() };
        // A rank that does not know shares a host with nobody.
        let own = self.endpoint().rank();
        self.split_by_number(host.unwrap_or(own.into()), key)
    }

    /// Ranks with the same number. Colours have half its bits, so the ranks are split twice; nobody needs a list of all
    /// numbers for that.
    fn split_by_number(&self, number: u64, key: i32) -> Result<Comm> {
        let [low, high] = [number as u32, (number >> 32) as u32];
        let alike = self.split(high, key)?.expect("every rank has a colour");
        Ok(alike.split(low, key)?.expect("every rank has a colour"))
    }
}

/// A number of this machine that no other one has, as good as always; nothing if the system does not say. Names alone
/// would not do, as machines in different networks may have the same.
fn host() -> Option<u64> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let name = std::fs::read("/proc/sys/kernel/hostname").ok()?;
    let digest = digest(boot.into_iter().chain(name).map(u64::from));
    // Small numbers are left to ranks that do not know.
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
    fn numbers_that_agree_in_one_half_only_are_different() {
        let numbers = [7, 7 << 32, 7 << 32 | 7, 7, 1 << 63, 7 << 32, 7, 7 << 32 | 8];
        let members = on_ranks(8, |world| {
            let part = world.split_by_number(numbers[world.rank()], -(world.rank() as i32)).unwrap();
            (0..part.size()).map(|rank| part.translate(rank, &world).unwrap().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(
            members,
            [vec![6, 3, 0], vec![5, 1], vec![2], vec![6, 3, 0], vec![4], vec![5, 1], vec![6, 3, 0], vec![7]]
        );
    }

    #[test]
    fn simulated_ranks_are_on_hosts_of_their_own() {
        let sizes = on_ranks(5, |world| world.split_by(Level::Host, 0).map(|host| host.size()));
        assert!(sizes.iter().all(|size| *size == Ok(1)), "{sizes:?}");
    }

    #[test]
    fn a_host_has_one_number() {
        assert_eq!(host(), host());
        assert!(host().is_none_or(|host| host >= 1 << 63));
    }
}
