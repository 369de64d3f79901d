//! The shared segments of the ranks of each host.
//!
//! The lowest rank of a group creates the memory, the others open it, and all ranks of the world agree whether everybody
//! has: a rank may run in another container, or may not look at the files of others. If one has none, no rank has.

use treepie_base::environment;
use treepie_fabric::SharedSegment;
use treepie_shm::{HostGroup, SegmentAddress, segment_groups};

use crate::shim::{Shim, WorldInfo};

/// The segment of this rank, and what all ranks know of segments.
pub(crate) struct HostSegment {
    pub(crate) segment: Option<Box<dyn SharedSegment>>,
    /// The lowest rank of the group of each rank; empty if there is no segment, or one for all ranks.
    pub(crate) groups: Vec<u32>,
    /// The most ranks for each core of a host, rounded up.
    pub(crate) ranks_per_core: u32,
}

impl HostSegment {
    /// Shares a segment with the ranks of the same host; `hosts` is empty if there is one host. Collective.
    pub(crate) fn share(shim: &Shim, world: &WorldInfo, hosts: &[u32]) -> Self {
        let (rank, size) = (world.rank as u32, world.size as u32);
        let one_host = vec![0; if hosts.is_empty() { size as usize } else { 0 }];
        // An invalid value was reported before. Ranks may have different ones.
        let most = environment::segment_members().unwrap_or(environment::MAX_SEGMENT_MEMBERS);
        let all = shim.allgather(world, [most.into(), world.ranks_per_core().into()]);
        let most = all.iter().map(|[most, _]| *most as u32).min().unwrap_or(1);
        let ranks_per_core = all.iter().map(|[_, ranks_per_core]| *ranks_per_core as u32).max().unwrap_or(1);
        let groups = segment_groups(if hosts.is_empty() { &one_host } else { hosts }, most);
        let none = Self { segment: None, groups: Vec::new(), ranks_per_core };
        if (0..).zip(&groups).all(|(rank, group)| rank == *group) {
            return none;
        }
        let first = groups[rank as usize];
        let members: Vec<u32> =
            (0..).zip(&groups).filter(|(_, group)| **group == first).map(|(member, _)| member).collect();
        let is_world = members.len() == size as usize;
        let has_dedicated_core = world.has_dedicated_cores();
        let group = Some(HostGroup { members, rank, is_world, has_dedicated_core });

        let created = group.clone().filter(|_| rank == first).and_then(|group| group.create().ok());
        let (created, address) = created.map_or((None, NOWHERE), |(segment, address)| (Some(segment), address));
        let address = shim.allgather(world, address)[first as usize];
        let opened = || group.filter(|_| rank != first && address != NOWHERE)?.open(address).ok();
        let segment = created.or_else(opened);
        // Nobody uses it before everybody has opened it.
        if shim.allgather(world, [u64::from(segment.is_some())]).contains(&[0]) {
            return none;
        }
        Self { segment, ranks_per_core, groups: if is_world { Vec::new() } else { groups } }
    }
}

/// The address of a segment that does not exist.
const NOWHERE: SegmentAddress = [0; 3];
