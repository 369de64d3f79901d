//! Enough descriptors for the pipes of many ranks.
//!
//! The usual limit of 1024 open descriptors is a soft one, and two pipes per rank reach it at 512 ranks. It is raised
//! while jobs run that need more; the ranks get the limit that was.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Left for all that the process has open otherwise.
const OTHERS: u64 = 512;

static RAISED: Mutex<Raised> = Mutex::new(Raised { jobs: 0, before: None });

struct Raised {
    jobs: usize,
    /// The limit before the first of the jobs raised it.
    before: Option<Rlimit>,
}

/// While it exists, the process can open the descriptors it was made for, if the hard limit allows it.
pub(super) struct Descriptors {
    /// What a rank must set its limit to, if it was raised.
    pub(super) of_ranks: Option<Rlimit>,
}

impl Descriptors {
    /// Whether the hard limit allows so many pipes.
    pub(super) fn suffice(pipes: u64) -> bool {
        getrlimit(Resource::Nofile).maximum.is_none_or(|most| most >= pipes + OTHERS)
    }

    pub(super) fn reserve(pipes: u64) -> Self {
        let mut raised = lock();
        raised.jobs += 1;
        let now = getrlimit(Resource::Nofile);
        let needed = pipes + OTHERS;
        if pipes > 0 && now.current.is_some_and(|limit| limit < needed) {
            let current = Some(now.maximum.map_or(needed, |most| most.min(needed)));
            // Should it be refused, opening a pipe will tell.
            if setrlimit(Resource::Nofile, Rlimit { current, maximum: now.maximum }).is_ok() && raised.before.is_none()
            {
                raised.before = Some(now);
            }
        }
        Self { of_ranks: raised.before }
    }
}

impl Drop for Descriptors {
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
