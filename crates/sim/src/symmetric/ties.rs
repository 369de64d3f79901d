//! Things of one instant that might as well have come in another order.
//!
//! Where ranks are copies of each other, what happens to them at one instant is the same, but not its order: that depends on
//! who was served first elsewhere. One rank can stand for all as long as the order does not matter: as long as no two lanes
//! ask for the same thing at one instant, each because of something else that happened.

use crate::time::Time;

/// Which lane asks, and for how much.
pub(crate) type Asked = (u32, u64);

/// What has been asked for: nothing, one thing once or several times, or different things.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    first: Option<Asked>,
    is_mixed: bool,
}

impl Set {
    fn add(&mut self, asked: Asked) {
        self.is_mixed |= self.first.is_some_and(|first| first != asked);
        self.first = Some(asked);
    }

    fn has_other(&self, asked: Asked) -> bool {
        self.is_mixed || self.first.is_some_and(|first| first != asked)
    }
}

/// What has been asked for at one instant.
#[derive(Debug, Default)]
pub(crate) struct Instant {
    time: Time,
    happening: u64,
    /// Because of what happens now, and because of what happened before at the same time.
    now: Set,
    before: Set,
}

impl Instant {
    /// Something is asked for because of a happening. Whether it might have been asked for before something else.
    pub(crate) fn ask(&mut self, time: Time, happening: u64, asked: Asked) -> bool {
        if time != self.time {
            *self = Self { time, happening, ..Self::default() };
        } else if happening != self.happening {
            self.happening = happening;
            let now = std::mem::take(&mut self.now);
            let Set { first, is_mixed } = now;
            first.into_iter().for_each(|first| self.before.add(first));
            self.before.is_mixed |= is_mixed;
        }
        self.now.add(asked);
        self.before.has_other(asked)
    }
}

/// What lanes of the one rank ask for.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    pub(crate) happening: u64,
    pub(crate) cpu: Instant,
    pub(crate) taking: Instant,
    pub(crate) met: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_matters_between_lanes_and_not_within_a_happening() {
        let mut instant = Instant::default();
        // Two lanes begin together, then one after the other at another time, then both because of two happenings.
        assert!(!instant.ask(0, 0, (0, 8)) && !instant.ask(0, 0, (1, 8)));
        assert!(!instant.ask(5, 1, (0, 8)) && !instant.ask(6, 2, (1, 8)));
        assert!(!instant.ask(7, 3, (0, 8)) && instant.ask(7, 4, (1, 8)));
        // The same lane twice for as much is no matter; for more it is, and so it is after two lanes.
        assert!(!instant.ask(8, 5, (0, 8)) && !instant.ask(8, 6, (0, 8)) && instant.ask(8, 7, (0, 9)));
        assert!(!instant.ask(9, 8, (0, 8)) && !instant.ask(9, 8, (1, 8)) && instant.ask(9, 9, (1, 8)));
    }
}
