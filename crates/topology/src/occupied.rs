//! The clusters or hosts on which there are ranks.

use std::borrow::Cow;

use crate::{Clusters, Network};

impl Network {
    /// The clusters, or the hosts as clusters, with ranks in place of nodes: groups without a rank are left out. Where
    /// ranks are not consecutive within groups, the sizes and numbers of groups are right, and the members are not.
    /// None if the network has neither.
    ///
    /// ```
    /// use treepie_topology::Network;
    ///
    /// let round_robin: Network = "clusters:3+3+3@0+3+1+4+2".parse()?;
    /// assert_eq!(round_robin.occupied_clusters().unwrap().sizes().collect::<Vec<_>>(), [3, 2]);
    /// # Ok::<(), treepie_topology::Error>(())
    /// ```
    pub fn occupied_clusters(&self) -> Option<Cow<'_, Clusters>> {
        match self.as_clusters() {
            Some(clusters) if self.has_identity_placement() => Some(Cow::Borrowed(clusters)),
            Some(clusters) => {
                let mut levels =
                    vec![count_ranks(self, clusters.count(), |rank| clusters.cluster_of(self.node_of(rank)))];
                for level in 1..clusters.levels() {
                    let below = &levels[level as usize - 1];
                    let count = |group| clusters.subgroups(level, group).filter(|of| below[*of as usize] > 0).count();
                    levels.push((0..clusters.groups(level)).map(|group| count(group) as u32).collect());
                }
                levels.iter_mut().for_each(|counts| counts.retain(|count| *count > 0));
                Clusters::nested(&levels).ok().map(Cow::Owned)
            }
            None if self.has_hosts() => {
                let mut sizes =
                    count_ranks(self, self.nodes().div_ceil(self.nodes_per_host()), |rank| self.host_of(rank));
                sizes.retain(|size| *size > 0);
                Clusters::new(&sizes).ok().map(Cow::Owned)
            }
            None => None,
        }
    }
}

/// The number of ranks of each group.
fn count_ranks(network: &Network, groups: u32, group_of: impl Fn(u32) -> u32) -> Vec<u32> {
    let mut counts = vec![0; groups as usize];
    (0..network.ranks()).for_each(|rank| counts[group_of(rank) as usize] += 1);
    counts
}

#[cfg(test)]
mod tests {
    use crate::Network;

    #[test]
    fn groups_without_ranks_are_left_out_on_all_levels() {
        let sizes = |text: &str| {
            let network: Network = text.parse().unwrap();
            network
                .occupied_clusters()
                .map(|clusters| Network::from(crate::NetworkKind::Clusters(clusters.into_owned())))
        };
        // Sites of two clusters of two: one cluster of the first has ranks, none of the second, both of the third.
        assert_eq!(sizes("clusters:3x2x2@8+1+10+0+9"), Some("clusters:(2)+(2+1)".parse().unwrap()));
        assert_eq!(sizes("clusters:3x2x2"), Some("clusters:3x2x2".parse().unwrap()));
        assert_eq!(sizes("flat:10,ppn=4"), Some("clusters:4+4+2".parse().unwrap()));
        assert_eq!(sizes("flat:32,ppn=8@0+8+24+1+9+25+2"), Some("clusters:3+2+2".parse().unwrap()));
        assert_eq!((sizes("flat:4"), sizes("flat:4,ppn=4"), sizes("torus:2x4")), (None, None, None));
    }
}
