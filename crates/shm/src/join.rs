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

/// This process's end of the world that the launcher made for it; nothing if there is no launcher, or if this is not
/// the process that it started as a rank but a child of that one.
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
    // A child of a rank inherits the variable but not the descriptor; the number may be another file's then, so it is
    // opened anew and only looked at.
    let Ok(file) = std::fs::File::options().read(true).write(true).open(format!("/proc/self/fd/{fd}")) else {
        return Ok(None);
    };
    let Ok(arena) = Arena::open(file.into()) else { return Ok(None) };
    if rank >= arena.ranks() {
        return Err(bad(&format!("{RANK} is {rank}, of {}", arena.ranks())));
    }
    let shm = Shm::join(Arc::new(arena), rank).map_err(io::Error::other)?;
    // The launcher's descriptor is of no more use, and a child of this process must not take its place.
    close_inherited(fd);
    Ok(Some(shm))
}

fn close_inherited(fd: i32) {
    // SAFETY: the launcher passed this descriptor for this one use (it was found to be an arena), so nothing else in
    // this process refers to it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}
