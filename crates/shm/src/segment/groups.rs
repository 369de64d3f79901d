//! Which ranks share a segment.

use std::collections::HashMap;
use std::ops::Range;

/// The most ranks that share a segment: a rank keeps those that it has seen in the bits of a word.
pub(crate) const MAX_MEMBERS: u32 = treepie_base::environment::MAX_SEGMENT_MEMBERS;

/// The ranks of a machine in as few groups as possible, of consecutive ranks and nearly equal sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentGroups {
    ranks: u32,
    count: u32,
}

impl SegmentGroups {
    /// Groups of at most this number of ranks.
    pub(crate) fn of(ranks: u32, most: u32) -> Self {
        Self { ranks, count: ranks.div_ceil(most.clamp(1, MAX_MEMBERS)).max(1) }
    }

    pub(crate) fn count(self) -> u32 {
        self.count
    }

    /// The group of a rank.
    pub(crate) fn group_of(self, rank: u32) -> u32 {
        (u64::from(rank) * u64::from(self.count) / u64::from(self.ranks)) as u32
    }

    /// The ranks of a group.
    pub(crate) fn members(self, group: u32) -> Range<u32> {
        let start = |group| (u64::from(group) * u64::from(self.ranks)).div_ceil(self.count.into()) as u32;
        start(group)..start(group + 1)
    }
}

/// For each rank the lowest rank of the group that shares its segment: the ranks of its host, or a part of these if they
/// are more than `most`. `hosts` has the lowest rank on the host of each rank.
pub fn segment_groups(hosts: &[u32], most: u32) -> Vec<u32> {
    let mut of_host = HashMap::<u32, Vec<u32>>::new();
    for (rank, host) in (0..).zip(hosts) {
        of_host.entry(*host).or_default().push(rank);
    }
    let first_of_group = |index: u32, ranks: &[u32]| {
        let groups = SegmentGroups::of(ranks.len() as u32, most);
        ranks[groups.members(groups.group_of(index)).start as usize]
    };
    let mut groups = vec![0; hosts.len()];
    for ranks in of_host.values() {
        (0..).zip(ranks).for_each(|(index, rank)| groups[*rank as usize] = first_of_group(index, ranks));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_few_and_nearly_equal() {
        let sizes = |ranks| {
            let groups = SegmentGroups::of(ranks, MAX_MEMBERS);
            (0..groups.count()).map(|group| groups.members(group).len()).collect::<Vec<_>>()
        };
        assert_eq!([1, 64, 65, 100].map(sizes), [vec![1], vec![64], vec![33, 32], vec![50, 50]]);
        assert_eq!(sizes(130), [44, 43, 43]);
        for ranks in 1..=1000 {
            let groups = SegmentGroups::of(ranks, MAX_MEMBERS);
            let mut next = 0;
            for group in 0..groups.count() {
                let members = groups.members(group);
                assert!(members.start == next && members.len() <= MAX_MEMBERS as usize, "{ranks} ranks");
                assert!(members.clone().all(|rank| groups.group_of(rank) == group), "{ranks} ranks");
                assert!(members.len().abs_diff(groups.members(0).len()) <= 1, "{ranks} ranks");
                next = members.end;
            }
            assert_eq!(next, ranks);
        }
    }

    #[test]
    fn ranks_of_a_host_are_a_group_in_any_order() {
        assert_eq!(segment_groups(&[0, 1, 0, 1, 4], 64), [0, 1, 0, 1, 4]);
        assert_eq!(segment_groups(&[0; 5], 2), [0, 0, 2, 2, 4]);
        assert_eq!(segment_groups(&[0; 3], 1), [0, 1, 2]);
        // 100 ranks on the even places of 200, and as many on the odd ones.
        let hosts: Vec<u32> = (0..200).map(|rank| rank % 2).collect();
        let groups = segment_groups(&hosts, 64);
        assert_eq!([0, 98, 100, 198].map(|rank| groups[rank]), [0, 0, 100, 100]);
        assert_eq!([1, 99, 101, 199].map(|rank| groups[rank]), [1, 1, 101, 101]);
    }
}
