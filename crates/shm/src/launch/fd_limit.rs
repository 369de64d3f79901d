//! The limit of open file descriptors, raised for the pipes of many ranks.
//!
//! The usual soft limit of 1024 open descriptors is reached at 512 ranks with two pipes each. It is raised while jobs
//! run that need more; the ranks get the previous limit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserved for the other open files of the process.
const RESERVED_FDS: u64 = 512;

static RAISED: Mutex<Raised> = Mutex::new(Raised { jobs: 0, before: None });

struct Raised {
    jobs: usize,
    /// The limit before the first job raised it.
    before: Option<Rlimit>,
}

/// Lets the process open the descriptors it was made for, while it exists, if the hard limit allows it.
pub(super) struct FdLimit {
    /// The limit that ranks must restore, if it was raised.
    pub(super) rank_limit: Option<Rlimit>,
}

impl FdLimit {
    /// Whether the hard limit allows this number of pipes.
    pub(super) fn is_sufficient_for(pipes: u64) -> bool {
        getrlimit(Resource::Nofile).maximum.is_none_or(|most| most >= pipes + RESERVED_FDS)
    }

    pub(super) fn reserve(pipes: u64) -> Self {
        let mut raised = lock();
        raised.jobs += 1;
        let now = getrlimit(Resource::Nofile);
        let needed = pipes + RESERVED_FDS;
        if pipes > 0 && now.current.is_some_and(|limit| limit < needed) {
            let current = Some(now.maximum.map_or(needed, |most| most.min(needed)));
            // If it fails, opening a pipe reports it.
            if setrlimit(Resource::Nofile, Rlimit { current, maximum: now.maximum }).is_ok() && raised.before.is_none()
            {
                raised.before = Some(now);
            }
        }
        Self { rank_limit: raised.before }
    }
}

impl Drop for FdLimit {
    fn drop(&mut self) {
        let mut raised = lock();
        raised.jobs -= 1;
        if raised.jobs == 0
            && let Some(before) = raised.before.take()
        {
            // Lowering a soft limit is always allowed.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}

fn lock() -> MutexGuard<'static, Raised> {
    RAISED.lock().unwrap_or_else(PoisonError::into_inner)
}
