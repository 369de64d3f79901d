//! Joining the world of `treepie run`.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Arena, Shm};

/// The environment variable with this process's rank.
pub const RANK_VAR: &str = "TREEPIE_RANK";
/// The environment variable with the number of ranks.
pub const SIZE_VAR: &str = "TREEPIE_SIZE";
/// The environment variable with the file descriptor of the world's shared memory.
pub const ARENA_VAR: &str = "TREEPIE_ARENA";

/// Joins the world of the launcher. None if there is no launcher, or if this process is not a rank but a child of one.
pub fn join_launched() -> io::Result<Option<Shm>> {
    let Ok(fd) = std::env::var(ARENA_VAR) else { return Ok(None) };
    let bad = |what: &str| io::Error::other(format!("{what}: this process is not a rank of treepie run"));
    static JOINED: AtomicBool = AtomicBool::new(false);
    if JOINED.swap(true, Ordering::AcqRel) {
        return Err(io::Error::other("this process has already joined its world"));
    }
    let number = |text: &str, name: &str| text.parse::<u32>().map_err(|_| bad(&format!("{name} is {text:?}")));
    let rank = number(&std::env::var(RANK_VAR).map_err(|_| bad("TREEPIE_RANK is not set"))?, RANK_VAR)?;
    let fd = number(&fd, ARENA_VAR)? as i32;
    // A child of a rank inherits the variable but not the descriptor. The number may then be another file's, so it is
    // reopened and only inspected.
    let Ok(file) = std::fs::File::options().read(true).write(true).open(format!("/proc/self/fd/{fd}")) else {
        return Ok(None);
    };
    let Ok(arena) = Arena::open(file.into()) else { return Ok(None) };
    if rank >= arena.ranks() {
        return Err(bad(&format!("{RANK_VAR} is {rank}, of {}", arena.ranks())));
    }
    let shm = Shm::join(Arc::new(arena), rank).map_err(io::Error::other)?;
    // The launcher's descriptor is no longer needed, and a child of this process must not inherit it and join as this
    // rank.
    close_inherited(fd);
    Ok(Some(shm))
}

fn close_inherited(fd: i32) {
    // SAFETY: the launcher passed this descriptor for this one use (it was found to be an arena), so nothing else in
    // this process refers to it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}
