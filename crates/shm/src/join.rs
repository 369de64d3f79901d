//! Joining the world of `treepie run`.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Arena, Shm};

/// Name of the variable with this process's rank.
pub const RANK: &str = "TREEPIE_RANK";
/// Name of the variable with the number of ranks.
pub const SIZE: &str = "TREEPIE_SIZE";
/// Name of the variable with the descriptor of the world's shared memory.
pub const ARENA: &str = "TREEPIE_ARENA";

/// This process's end of the world that the launcher made for it; nothing if there is no launcher.
pub fn join_launched() -> io::Result<Option<Shm>> {
    let Ok(fd) = std::env::var(ARENA) else { return Ok(None) };
    let bad = |what: &str| io::Error::other(format!("{what}: this is no rank of treepie run"));
    static JOINED: AtomicBool = AtomicBool::new(false);
    if JOINED.swap(true, Ordering::AcqRel) {
        return Err(io::Error::other("this process has joined its world before"));
    }
    let number = |text: &str, name: &str| text.parse::<u32>().map_err(|_| bad(&format!("{name} is {text:?}")));
    let rank = number(&std::env::var(RANK).map_err(|_| bad("TREEPIE_RANK is not set"))?, RANK)?;
    let fd = number(&fd, ARENA)? as i32;
    // SAFETY: the launcher passed this descriptor for this one use, which the flag above holds. If it is something
    // else after all, opening the arena below finds out.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let arena = Arena::open(fd).map_err(|e| bad(&format!("descriptor in {ARENA}: {e}")))?;
    if rank >= arena.ranks() {
        return Err(bad(&format!("{RANK} is {rank}, of {}", arena.ranks())));
    }
    // A child of this process must not take its place.
    let _ = rustix::io::fcntl_setfd(arena.fd(), rustix::io::FdFlags::CLOEXEC);
    Ok(Some(Shm::join(Arc::new(arena), rank, false)))
}
