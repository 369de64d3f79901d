//! Engines without peers: for a singleton world, and for a rank that has finalized. Messages to the same rank never
//! reach an engine.

use std::time::{Duration, Instant};

use treepie_base::Error;

use crate::engine::{Fabric, FabricEvent, Liveness, RecordHeader};

/// The engine of a world with one rank.
pub struct Singleton(Instant);

impl Singleton {
    /// A new world with one rank.
    #[expect(clippy::new_without_default, reason = "two worlds are not interchangeable")]
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Fabric for Singleton {
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

    fn try_send(&mut self, _to: u32, _head: RecordHeader, _body: &[u8]) -> bool {
        unreachable!("a singleton has no peers")
    }

    fn poll(&mut self) -> Option<FabricEvent<'_>> {
        None
    }

    fn idle(&mut self, round: u32) -> bool {
        let sleep = round > 16;
        if sleep {
            std::thread::sleep(Duration::from_millis(1));
        }
        sleep
    }

    fn begin_finalize(&mut self) {}

    fn is_finalized(&mut self) -> bool {
        true
    }

    fn announce_failure(&mut self, _: Option<&Error>) {}
}

/// The engine of a rank that has finalized: reports all peers as finalized.
pub(crate) struct FinalizedFabric {
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

impl Fabric for FinalizedFabric {
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

    fn try_send(&mut self, _to: u32, _head: RecordHeader, _body: &[u8]) -> bool {
        false
    }

    fn poll(&mut self) -> Option<FabricEvent<'_>> {
        None
    }

    fn idle(&mut self, _round: u32) -> bool {
        false
    }

    fn begin_finalize(&mut self) {}

    fn is_finalized(&mut self) -> bool {
        true
    }

    fn announce_failure(&mut self, _: Option<&Error>) {}

    fn liveness(&self, rank: u32) -> Liveness {
        if rank == self.rank { Liveness::Alive } else { Liveness::Finalized }
    }
}
