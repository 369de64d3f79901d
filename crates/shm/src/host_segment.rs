//! The shared segment of processes that `treepie run` has not started: the ranks of a host under MPI.
//!
//! One of them creates the memory, a memfd, and the others open it through `/proc/PID/fd/N`, which needs the same user
//! and the same PID namespace. A process of that number in another namespace has another file there, or none: a random
//! number in the file's name and in the file tells.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use treepie_base::environment;
use treepie_fabric::SharedSegment;

use crate::arena::{Arena, segment_name};
use crate::peer_access::{PeerAccess, permit_cma};
use crate::primitive::FenceMode;
use crate::segment::ShmSegment;

/// Where the memory of a segment is: process, descriptor there, random number.
pub type SegmentAddress = [u64; 3];

/// The ranks that share a segment, and which of them this process is.
#[derive(Clone, Debug)]
pub struct HostGroup {
    /// Their world ranks, ascending; at most 64.
    pub members: Vec<u32>,
    /// This rank.
    pub rank: u32,
    /// Whether they are all ranks of the world.
    pub is_world: bool,
    /// Whether each rank of the host has a core.
    pub has_dedicated_core: bool,
}

impl HostGroup {
    /// Creates the segment. It can be opened as long as this process has it.
    pub fn create(self) -> io::Result<(Box<dyn SharedSegment>, SegmentAddress)> {
        // Never 0, which is that of a world.
        let nonce = RandomState::new().build_hasher().finish() | 1;
        let arena = Arena::create_segment(self.members.len() as u32, self.is_world, nonce)?;
        let fd = arena.fd().as_raw_fd() as u64;
        Ok((self.join(arena)?, [std::process::id().into(), fd, nonce]))
    }

    /// Opens the segment that another member has created.
    pub fn open(self, [pid, fd, nonce]: SegmentAddress) -> io::Result<Box<dyn SharedSegment>> {
        let path = format!("/proc/{pid}/fd/{fd}");
        // Opening another file might have an effect. So this finds which one it is, without opening it, and then opens
        // that.
        let found = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let found_path = format!("/proc/self/fd/{}", found.as_raw_fd());
        let name = std::fs::read_link(&found_path)?;
        if !name.to_string_lossy().starts_with(&format!("/memfd:{}", segment_name(nonce))) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{path} is {}", name.display())));
        }
        let fd = rustix::fs::open(found_path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
        let arena = Arena::open_segment(fd, self.members.len() as u32, self.is_world, nonce)?;
        self.join(arena)
    }

    fn join(self, arena: Arena) -> io::Result<Box<dyn SharedSegment>> {
        let index = self.members.iter().position(|member| *member == self.rank);
        let index = index.ok_or_else(|| io::Error::other("not a member"))? as u32;
        arena.enter_segment(index);
        // Only what all ranks share is read in a single copy. An invalid value is reported before.
        if self.is_world && environment::single_copy().unwrap_or(true) {
            permit_cma();
        }
        // Nobody parks on these doorbells, so nothing needs a fence.
        let (fence_mode, access) = (FenceMode::Asymmetric, PeerAccess::new(false));
        let segment =
            ShmSegment::new(Arc::new(arena), index, self.members, self.has_dedicated_core, fence_mode, access);
        Ok(Box::new(segment))
    }
}
