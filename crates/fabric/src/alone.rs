//! Engines without anybody to send to: of a world of one, and of a rank that has left its world. Messages to oneself
//! never reach an engine.

use std::time::{Duration, Instant};

use crate::engine::{Event, Fabric, Head, Life};

/// A world of one.
pub struct Alone(Instant);

impl Alone {
    /// A new world of one.
    #[expect(clippy::new_without_default, reason = "two worlds are not interchangeable")]
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Fabric for Alone {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn name(&self) -> &'static str {
        "alone"
    }

    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn max_body(&self) -> usize {
        1024
    }

    fn try_send(&mut self, _to: u32, _head: Head, _body: &[u8]) -> bool {
        unreachable!("there is nobody to send to")
    }

    fn poll(&mut self) -> Option<Event<'_>> {
        None
    }

    fn idle(&mut self, round: u32) -> bool {
        let sleep = round > 16;
        if sleep {
            std::thread::sleep(Duration::from_millis(1));
        }
        sleep
    }

    fn depart(&mut self) {}

    fn departed(&mut self) -> bool {
        true
    }

    fn fail(&mut self) {}
}

/// What is left of the engine of a rank that has left: all others are gone, as far as it is concerned.
pub(crate) struct Ended {
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

impl Fabric for Ended {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn name(&self) -> &'static str {
        "ended"
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn max_body(&self) -> usize {
        0
    }

    fn try_send(&mut self, _to: u32, _head: Head, _body: &[u8]) -> bool {
        false
    }

    fn poll(&mut self) -> Option<Event<'_>> {
        None
    }

    fn idle(&mut self, _round: u32) -> bool {
        false
    }

    fn depart(&mut self) {}

    fn departed(&mut self) -> bool {
        true
    }

    fn fail(&mut self) {}

    fn life(&self, rank: u32) -> Life {
        if rank == self.rank { Life::Here } else { Life::Left }
    }
}
