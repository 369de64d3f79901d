//! The shared segments of the ranks of each host.
//!
//! The lowest rank of a group creates the memory, the others open it, and all ranks of the world agree whether everybody
//! has: a rank may run in another container, or may not look at the files of others. If one has none, no rank has.

use treepie_base::environment;
use treepie_fabric::SharedSegment;
use treepie_shm::{HostGroup, SegmentAddress, segment_groups};

use crate::shim::{Shim, WorldInfo};

/// The segment of this rank, and what all ranks know of segments.
#[derive(Default)]
pub(crate) struct HostSegment {
    pub(crate) segment: Option<Box<dyn SharedSegment>>,
    /// The lowest rank of the group of each rank; empty if there is no segment, or one for all ranks.
    pub(crate) groups: Vec<u32>,
}

impl HostSegment {
    /// Shares a segment with the ranks of the same host; `hosts` is empty if there is one host. Collective.
    pub(crate) fn share(shim: &Shim, world: &WorldInfo, hosts: &[u32]) -> Self {
        let (rank, size) = (world.rank as u32, world.size as u32);
        let one_host = vec![0; if hosts.is_empty() { size as usize } else { 0 }];
        // An invalid value was reported before. Ranks may have different ones.
        let most = environment::segment_members().unwrap_or(environment::MAX_SEGMENT_MEMBERS);
        let most = shim.allgather(size, [most.into()]).into_iter().map(|[most]| most as u32).min().unwrap_or(1);
        let groups = segment_groups(if hosts.is_empty() { &one_host } else { hosts }, most);
        if (0..).zip(&groups).all(|(rank, group)| rank == *group) {
            return Self::default();
        }
        let first = groups[rank as usize];
        let members: Vec<u32> =
            (0..).zip(&groups).filter(|(_, group)| **group == first).map(|(member, _)| member).collect();
        let is_world = members.len() == size as usize;
        let has_dedicated_core = world.node_ranks <= world.node_cpus;
        let group = Some(HostGroup { members, rank, is_world, has_dedicated_core });

        let created = group.clone().filter(|_| rank == first).and_then(|group| group.create().ok());
        let (created, address) = created.map_or((None, NOWHERE), |(segment, address)| (Some(segment), address));
        let address = shim.allgather(size, address)[first as usize];
        let opened = || group.filter(|_| rank != first && address != NOWHERE)?.open(address).ok();
        let segment = created.or_else(opened);
        // Everybody has opened it when this is known, and the creator may close it.
        if shim.allgather(size, [u64::from(segment.is_some())]).contains(&[0]) {
            return Self::default();
        }
        Self { segment, groups: if is_world { Vec::new() } else { groups } }
    }
}

/// The address of a segment that does not exist.
const NOWHERE: SegmentAddress = [0; 3];
