//! Links that differ, in the profiles of communicators of some of the ranks.

use std::rc::Rc;

use treepie_comm::{Comm, Result};
use treepie_model::Profile;
use treepie_model::profile::PairFactors;
use treepie_sim::Settings;
use treepie_sim::engine::{Options, run};
use treepie_topology::Network;

fn slow(from: u32, to: u32) -> PairFactors {
    PairFactors { from, to, latency: 1.0, bytes: 4.0 }
}

fn slow_links(comm: &Comm) -> Vec<PairFactors> {
    comm.profile().level(1).pairs.clone()
}

/// Each communicator numbers the clusters anew.
fn split(world: Comm, profile: &Profile) -> Result<()> {
    let world = world.with_network("clusters:4x2")?.with_profile(Rc::new(profile.clone()));
    let (rank, cluster) = (world.rank() as i32, world.rank() as u32 / 2);
    // The first two clusters and the last two, both in the opposite order, and then as they were.
    let half = world.split(cluster / 2, -rank)?.expect("it has a color");
    let again = half.split(0, rank)?.expect("it has a color");
    let [forth, back] = [[slow(0, 1)], [slow(1, 0)]];
    let (expected, of_again) = if cluster < 2 { (back, forth) } else { (forth, back) };
    assert_eq!((slow_links(&half), slow_links(&again)), (expected.into(), of_again.into()), "rank {rank}");
    // No link between the first and the last cluster is slow.
    if let Some(ends) = world.split((cluster % 3 == 0).then_some(0), 0)? {
        assert_eq!(slow_links(&ends), []);
    }
    assert_eq!(slow_links(&world.dup()?), [slow(0, 1), slow(3, 2)]);
    // A profile that is set later has the numbers of the communicator.
    assert_eq!(slow_links(&half.with_profile(Rc::new(profile.clone()))), [slow(0, 1), slow(3, 2)]);
    Ok(())
}

#[test]
fn links_that_differ_are_those_of_the_clusters_of_a_part() {
    let network: Network = "clusters:4x2".parse().unwrap();
    let settings = Settings::for_network(&network).unwrap();
    let mut profile = settings.profile(&network);
    profile.levels[1].pairs = vec![slow(0, 1), slow(3, 2)];
    let simulated =
        run(&network, &settings, &Options::default(), |fabric| split(Comm::world(fabric), &profile)).unwrap();
    simulated.into_results().into_iter().collect::<Result<Vec<()>>>().unwrap();
}
