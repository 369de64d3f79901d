//! The active-message configuration of an algorithm, chosen by the user and not by the algorithm.

use treepie_am::{ActiveMessages, Builder, Config, Detector};
use treepie_comm::{Comm, Max, Sum};

use crate::Result;

/// How active messages are sent, and how the termination of an epoch is detected.
#[derive(Clone, Debug, Default)]
pub struct AmConfig {
    /// Coalescing, routing, reductions and style; `None`: the default, or `TREEPIE_AM`.
    pub config: Option<Config>,
    /// The termination detector.
    pub detector: Detector,
}

impl AmConfig {
    /// Starts a runtime with this configuration.
    pub fn start<S>(&self, mut build: Builder<S>) -> Result<ActiveMessages<S>> {
        if let Some(config) = &self.config {
            build.configure_all(config.clone());
        }
        build.detector(self.detector);
        Ok(build.start()?)
    }
}

/// The message statistics of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AmTraffic {
    /// Messages sent, those to itself included.
    pub messages: u64,
    /// Messages combined with others before they were sent.
    pub combined: u64,
    /// Buffers sent to other ranks.
    pub buffers: u64,
    /// Bytes of these buffers.
    pub bytes: u64,
    /// Peak memory for messages: in buffers, in caches, deferred to the next round, and queued for lack of buffer
    /// space.
    pub peak_bytes: u64,
    /// Peak memory in caches, which have a fixed size.
    pub peak_cache_bytes: u64,
    /// Peak memory outside of caches.
    pub peak_uncached_bytes: u64,
}

impl AmTraffic {
    /// The statistics of a runtime so far.
    pub fn from_am<S>(am: &ActiveMessages<S>) -> Self {
        let mut traffic = Self { peak_bytes: am.memory_statistics().peak_queued_bytes as u64, ..Self::default() };
        for port_statistics in am.statistics() {
            traffic.messages += port_statistics.sent;
            traffic.combined += port_statistics.combined;
            traffic.buffers += port_statistics.buffers;
            traffic.bytes += port_statistics.bytes;
            traffic.peak_bytes += (port_statistics.peak_bytes + port_statistics.peak_deferred_bytes) as u64;
            traffic.peak_cache_bytes += port_statistics.peak_cache_bytes as u64;
        }
        traffic.peak_uncached_bytes = traffic.peak_bytes.saturating_sub(traffic.peak_cache_bytes);
        traffic
    }

    /// The statistics of all ranks: sums, and for memory the maximum. All ranks call it.
    pub fn allreduce(self, comm: &Comm) -> Result<Self> {
        let mut sums = [self.messages, self.combined, self.buffers, self.bytes];
        comm.allreduce_in_place(&mut sums, Sum)?;
        let mut peaks = [self.peak_bytes, self.peak_cache_bytes, self.peak_uncached_bytes];
        comm.allreduce_in_place(&mut peaks, Max)?;
        let ([messages, combined, buffers, bytes], [peak_bytes, peak_cache_bytes, peak_uncached_bytes]) = (sums, peaks);
        Ok(Self { messages, combined, buffers, bytes, peak_bytes, peak_cache_bytes, peak_uncached_bytes })
    }
}

impl std::ops::Add for AmTraffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            combined: self.combined + other.combined,
            buffers: self.buffers + other.buffers,
            bytes: self.bytes + other.bytes,
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
            peak_cache_bytes: self.peak_cache_bytes.max(other.peak_cache_bytes),
            peak_uncached_bytes: self.peak_uncached_bytes.max(other.peak_uncached_bytes),
        }
    }
}
