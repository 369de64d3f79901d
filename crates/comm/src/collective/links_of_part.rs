//! The links of a communicator that was created from another one, in the profile that it has from there.

use std::rc::Rc;

use treepie_model::Profile;

use super::machine_profile;
use crate::comm::Comm;

impl Comm {
    /// A handle of this communicator with the profile of the one from which it was created. That profile numbers the
    /// groups whose links differ as the network of the other does, and the network of some of the ranks may have other
    /// numbers.
    pub(crate) fn with_links_of(self, parent: &Comm) -> Comm {
        match self.renumbered_profile(parent) {
            Some(profile) => self.with_profile(Rc::new(profile)),
            None => self,
        }
    }

    /// The parent's profile with the groups of this communicator, if links differ. Nothing is looked up where profiles
    /// are defaults, which have no such links.
    fn renumbered_profile(&self, parent: &Comm) -> Option<Profile> {
        let choice = &parent.collectives.choice;
        if choice.profile.is_none() && !matches!(machine_profile::from_environment(), Ok(Some(_))) {
            return None;
        }
        let profile = Some(parent.profile()).filter(|profile| profile.has_unequal_links())?;
        let (of, part) = (parent.network().ok()?, self.network().ok()?);
        let (clusters, own) = (of.as_clusters()?, part.as_clusters()?);
        let (ranks, all) = (&self.inner.members, &parent.inner.members);
        // By level, the group of each rank there and here.
        let mut groups = vec![Vec::new(); own.levels().min(clusters.levels()) as usize];
        for rank in 0..ranks.ranks() {
            let there = of.node_of(all.known_rank(ranks.known_world_rank(rank)?)??);
            let here = part.node_of(rank);
            for (level, groups) in (0..).zip(&mut groups) {
                groups.push((clusters.group_of(level, there), own.group_of(level, here)));
            }
        }
        for groups in &mut groups {
            groups.sort_unstable();
            groups.dedup();
        }
        let group = |level: usize, number| {
            let groups = groups.get(level)?;
            Some(groups[groups.binary_search_by_key(&number, |(there, _)| *there).ok()?].1)
        };
        Some(profile.with_levels(groups.len() + 1).with_groups(group))
    }
}
