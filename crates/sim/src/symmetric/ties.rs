//! Ties: simultaneous requests that might have come in another order.
//!
//! Where ranks are copies of each other, the events of one instant are the same for all, but not their order: that
//! depends on which message was served first elsewhere. One rank can represent all as long as the order does not
//! matter: as long as no two lanes request the same resource at one instant because of different events.

use crate::time::Time;

/// The requesting lane and the amount.
pub(crate) type ResourceRequest = (u32, u64);

/// A set of requests: empty, all equal, or mixed.
#[derive(Clone, Copy, Debug, Default)]
struct ResourceRequestSet {
    first: Option<ResourceRequest>,
    is_mixed: bool,
}

impl ResourceRequestSet {
    fn add(&mut self, request: ResourceRequest) {
        self.is_mixed |= self.first.is_some_and(|first| first != request);
        self.first = Some(request);
    }

    fn has_other(&self, request: ResourceRequest) -> bool {
        self.is_mixed || self.first.is_some_and(|first| first != request)
    }
}

/// The requests of one instant for a resource.
#[derive(Debug, Default)]
pub(crate) struct InstantRequests {
    time: Time,
    event: u64,
    /// Requests caused by the current event, and by earlier events of the same time.
    now: ResourceRequestSet,
    before: ResourceRequestSet,
}

impl InstantRequests {
    /// Adds a request caused by an event. Returns whether it might have come before a different one.
    pub(crate) fn request(&mut self, time: Time, event: u64, request: ResourceRequest) -> bool {
        if time != self.time {
            *self = Self { time, event, ..Self::default() };
        } else if event != self.event {
            self.event = event;
            let now = std::mem::take(&mut self.now);
            let ResourceRequestSet { first, is_mixed } = now;
            first.into_iter().for_each(|first| self.before.add(first));
            self.before.is_mixed |= is_mixed;
        }
        self.now.add(request);
        self.before.has_other(request)
    }
}

/// Requests of the lanes of the representative rank.
#[derive(Debug, Default)]
pub(crate) struct OrderTies {
    pub(crate) event: u64,
    pub(crate) cpu: InstantRequests,
    pub(crate) recv: InstantRequests,
    pub(crate) has_tie: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_matters_between_lanes_and_not_within_an_event() {
        let mut instant = InstantRequests::default();
        // Two lanes at once, then one after the other at different times, then both because of two events.
        assert!(!instant.request(0, 0, (0, 8)) && !instant.request(0, 0, (1, 8)));
        assert!(!instant.request(5, 1, (0, 8)) && !instant.request(6, 2, (1, 8)));
        assert!(!instant.request(7, 3, (0, 8)) && instant.request(7, 4, (1, 8)));
        // The same lane twice for the same amount is no tie; for more it is, and so it is after two lanes.
        assert!(!instant.request(8, 5, (0, 8)) && !instant.request(8, 6, (0, 8)) && instant.request(8, 7, (0, 9)));
        assert!(!instant.request(9, 8, (0, 8)) && !instant.request(9, 8, (1, 8)) && instant.request(9, 9, (1, 8)));
    }
}
