//! How long messages are transferred: for measurements of links by normal traffic.
//!
//! A pending send waits for different things: for room in the engine, for its receiver, and for the link. Only the last
//! shows how fast the link is.

use std::collections::HashMap;
use std::time::Duration;

use treepie_base::BuildNumberHasher;

use crate::endpoint::Endpoint;
use crate::slab::OpId;

/// What a pending send has waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendWait {
    /// It was not asked for by its receiver: an eager message waits for room in the engine.
    Room,
    /// The engine has transferred it since this time.
    Transfer(Duration),
    /// It was asked for, and sent in records as there was room.
    Records,
}

/// Since when the engine transfers messages, by their operations; none where they are sent in records.
#[derive(Debug, Default)]
pub(crate) struct TransferTimes {
    is_on: bool,
    since: HashMap<OpId, Option<Duration>, BuildNumberHasher>,
}

impl TransferTimes {
    /// Notes that a message was asked for.
    #[inline]
    pub(crate) fn note(&mut self, op: OpId, now: impl FnOnce() -> Option<Duration>) {
        if self.is_on {
            self.since.insert(op, now());
        }
    }
}

impl Endpoint {
    /// Notes from now on when transfers begin, or no more. Either forgets what was noted.
    pub fn time_transfers(&mut self, on: bool) {
        let times = &mut self.state.transfer_times;
        times.is_on = on;
        times.since.clear();
    }

    /// What a send has waited for, if transfers are timed.
    pub fn take_send_wait(&mut self, id: OpId) -> SendWait {
        match self.state.transfer_times.since.remove(&id) {
            None => SendWait::Room,
            Some(None) => SendWait::Records,
            Some(Some(since)) => SendWait::Transfer(since),
        }
    }
}
