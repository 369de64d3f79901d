//! The profile of the machine, where none was set on a handle.

use std::collections::HashMap;
use std::sync::{Once, OnceLock};

use treepie_base::{Result, environment, processor_name};
use treepie_model::Profile;
use treepie_model::profile::{Fit, LevelProfile};
use treepie_topology::Network;

use crate::comm::Comm;

/// The profile in the file that `TREEPIE_PROFILE` names, if it is set.
pub(super) fn from_environment() -> Result<Option<&'static Profile>> {
    static PROFILE: OnceLock<Result<Option<Profile>>> = OnceLock::new();
    let loaded = PROFILE.get_or_init(|| {
        let path = environment::text(environment::PROFILE)?.filter(|path| path != environment::MEASURE);
        let Some(path) = path else { return Ok(None) };
        let refused =
            |error: treepie_model::Error| environment::invalid_value(environment::PROFILE, &path, error.to_string());
        Profile::load(&path).map(Some).map_err(refused)
    });
    loaded.as_ref().map(Option::as_ref).map_err(Clone::clone)
}

/// The profile of the environment, adapted to these ranks, or else the engine's default. A profile of another machine
/// is not used; rank 0 says so.
pub(super) fn of_ranks(comm: &Comm) -> Profile {
    // An invalid file was refused when the world was created.
    if let Ok(Some(profile)) = from_environment() {
        let (engine, ranks) = (comm.engine(), comm.endpoint().size());
        let cores = comm.endpoint().cores().unwrap_or(0);
        let fit = profile.fits(engine, ranks, cores, &processor_name());
        let says = |what: &str| {
            static SAID: Once = Once::new();
            if comm.endpoint().rank() == 0 && ranks > 1 {
                SAID.call_once(|| eprintln!("treepie: TREEPIE_PROFILE: {what}"));
            }
        };
        match fit {
            Fit::Exact => return with_segment(profile.clone(), comm),
            Fit::Adapted(difference) => {
                says(&difference);
                return with_segment(profile.adapted_to(ranks), comm);
            }
            Fit::Refused(why) => says(&format!("{why}; the default is used")),
        }
    }
    // Ranks that share a machine share its costs, whatever engine joins them.
    if let Some(ranks_per_core) = comm.ranks_per_core() {
        return Profile::on_machine(ranks_per_core);
    }
    // A flat network that was set has no level within hosts.
    let has_hosts = !comm.is_set_flat() && network_of_hosts(comm.endpoint().hosts()).is_some();
    let default = if has_hosts { Profile::hosts() } else { Profile::default_for(comm.engine()) };
    with_segment(default, comm)
}

/// The costs of the shared segment are the default's, if they were not measured: there was none, or too many ranks.
fn with_segment(profile: Profile, comm: &Comm) -> Profile {
    // Segments of hosts cost what that of one machine does.
    let has_groups = !comm.endpoint().segment_groups().is_empty();
    let ranks_per_core = comm.ranks_per_core().or(has_groups.then_some(1.0));
    let default = ranks_per_core.map(Profile::on_machine).and_then(|default| default.shared_segment);
    Profile { shared_segment: profile.shared_segment.or(default), ..profile }
}

/// The network of all ranks of the world: the groups of the profile, or the hosts that the engine knows.
pub(super) fn network_of_world(comm: &Comm) -> Network {
    let network = network_of(comm.profile(), comm.endpoint().size());
    if network.as_clusters().is_some() {
        return network;
    }
    // Ranks that share cores wait for each other as long in a segment, and all of them wake up for each flag: 100 ranks on
    // 2 cores took three times as long for a broadcast as by messages.
    let is_crowded = comm.ranks_per_core().is_some_and(|ranks| ranks > 1.0);
    let endpoint = comm.endpoint();
    let segment_groups = || if is_crowded { None } else { network_of_hosts(endpoint.segment_groups()) };
    network_of_hosts(endpoint.hosts()).or_else(segment_groups).unwrap_or(network)
}

/// Hosts, as far as they have several ranks. A host with fewer ranks than others has nodes without a rank.
fn network_of_hosts(hosts: &[u32]) -> Option<Network> {
    // Ranks so far, and the number of the host, by its lowest rank, which comes first.
    let mut seen = HashMap::<u32, (u32, u32)>::new();
    let mut place = |host: &u32| {
        let number = seen.len() as u32;
        let (number, ranks) = seen.entry(*host).or_insert((number, 0));
        *ranks += 1;
        (*number, *ranks - 1)
    };
    let places: Vec<(u32, u32)> = hosts.iter().map(&mut place).collect();
    let per_host = places.iter().map(|(_, index)| index + 1).max().filter(|ranks| *ranks > 1)?;
    let nodes = places.iter().map(|(host, index)| host * per_host + index).collect();
    Network::flat_with_hosts(seen.len() as u32 * per_host, per_host).ok()?.with_placement(nodes).ok()
}

/// The network of all ranks of the world that a profile's groups are: clusters, if it has several levels.
fn network_of(profile: &Profile, ranks: u32) -> Network {
    let below = profile.levels.split_last().map_or(&[][..], |(_, below)| below);
    // No link joins groups of a level that has only one.
    let levels: Vec<&LevelProfile> = below.iter().filter(|level| level.groups.len() > 1).collect();
    if levels.is_empty() {
        return Network::flat(ranks);
    }
    if levels.iter().any(|level| level.groups.iter().map(|ranks| u64::from(*ranks)).sum::<u64>() != u64::from(ranks)) {
        return Network::flat(ranks);
    }
    // Groups of a network are counted in those of the level below.
    let mut nested = vec![levels[0].groups.clone()];
    for (below, level) in levels.iter().zip(&levels[1..]) {
        let mut sizes = below.groups.iter();
        let members = |ranks: &u32| {
            let mut left = *ranks;
            sizes
                .by_ref()
                .take_while(|size| {
                    left = left.saturating_sub(**size);
                    left > 0
                })
                .count() as u32
                + 1
        };
        nested.push(level.groups.iter().map(members).collect());
    }
    let Ok(clusters) = Network::nested_clusters(&nested) else { return Network::flat(ranks) };
    if profile.rank_order.len() != ranks as usize {
        return clusters;
    }
    // The order lists ranks by their place.
    let mut nodes = vec![0; ranks as usize];
    (0..).zip(&profile.rank_order).for_each(|(node, rank)| nodes[*rank as usize] = node);
    clusters.with_placement(nodes).unwrap_or_else(|_| Network::flat(ranks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_as_many_nodes_as_the_largest() {
        assert_eq!(network_of_hosts(&[]), None);
        assert_eq!(network_of_hosts(&[0, 1, 2]), None);
        assert_eq!(network_of_hosts(&[0, 0, 2, 2, 4, 4]).unwrap().to_string(), "flat:6,ppn=2");
        // Round-robin, and a host with fewer ranks.
        let placed = network_of_hosts(&[0, 1, 0, 1, 0]).unwrap();
        assert_eq!((0..5).map(|rank| placed.host_of(rank)).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
        assert!(placed.has_hosts() && placed.nodes_per_host() == 3);
    }

    #[test]
    fn a_flat_network_that_was_set_is_that_of_parts_too() {
        let world = Comm::world(Box::new(treepie_fabric::Singleton::new()));
        let part_of = |comm: &Comm| comm.split(0, 0).unwrap().expect("it has a color");
        let flat = world.with_network("flat:1").unwrap();
        let clusters = world.with_network("clusters:1x1").unwrap();
        assert_eq!([&world, &flat, &clusters].map(|comm| part_of(comm).is_set_flat()), [false, true, false]);
        assert!(part_of(&part_of(&flat)).is_set_flat());
        assert!(!part_of(&flat).with_network("clusters:1x1").unwrap().is_set_flat());
    }

    #[test]
    fn groups_of_a_profile_are_clusters() {
        let mut profile = Profile::network();
        assert_eq!(network_of(&profile, 6).to_string(), "flat:6");
        profile.levels.push(profile.levels[0].clone());
        profile.levels[0].groups = vec![2, 4];
        assert_eq!(network_of(&profile, 6), Network::clusters(&[2, 4]).unwrap());
        assert_eq!(network_of(&profile, 7).to_string(), "flat:7");
        assert_eq!(network_of(&profile.with_levels(4), 6), Network::clusters(&[2, 4]).unwrap());
        // Three levels.
        let mut three = profile.clone();
        three.levels.insert(1, profile.levels[1].clone());
        three.levels[0].groups = vec![1, 1, 2, 2];
        three.levels[1].groups = vec![2, 4];
        let nested = Network::nested_clusters(&[vec![1, 1, 2, 2], vec![2, 2]]).unwrap();
        assert_eq!(network_of(&three, 6), nested);
        profile.rank_order = vec![0, 3, 1, 2, 4, 5];
        let placed = network_of(&profile, 6);
        let clusters = placed.as_clusters().unwrap();
        let cluster = |rank| clusters.cluster_of(placed.node_of(rank));
        assert_eq!([0, 3, 1].map(cluster), [0, 0, 1]);
    }
}
