//! How an algorithm's messages travel: a matter of the command line, not of the algorithm.

use treepie_am::{ActiveMessages, Builder, Config, Detector};
use treepie_comm::{Comm, Max, Sum};

use crate::Result;

/// How messages travel, and how the end of an epoch is found.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// Coalescing, routing, reductions and style; nothing: as usual, or as `TREEPIE_AM` says.
    pub config: Option<Config>,
    /// How the end is found.
    pub detector: Detector,
}

impl Messages {
    /// Starts a runtime whose messages travel so.
    pub fn start<S>(&self, mut build: Builder<S>) -> Result<ActiveMessages<S>> {
        if let Some(config) = &self.config {
            build.configure_all(config.clone());
        }
        build.detector(self.detector);
        Ok(build.start()?)
    }
}

/// What has become of a rank's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages that were sent, to other ranks and to itself.
    pub messages: u64,
    /// Of them were combined with others before they left.
    pub combined: u64,
    /// Buffers that went to other ranks, and their bytes.
    pub buffers: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// The most memory for messages at once: in buffers, in caches, kept for the next round and waiting for room.
    pub memory: u64,
    /// The most in caches, which have a fixed size.
    pub caches: u64,
    /// The most beside caches.
    pub beside: u64,
}

impl Traffic {
    /// That of a runtime so far.
    pub fn of<S>(am: &ActiveMessages<S>) -> Self {
        let mut traffic = Self { memory: am.memory().deferred as u64, ..Self::default() };
        for of_type in am.statistics() {
            traffic.messages += of_type.sent;
            traffic.combined += of_type.combined;
            traffic.buffers += of_type.buffers;
            traffic.bytes += of_type.bytes;
            traffic.memory += (of_type.peak_bytes + of_type.peak_kept) as u64;
            traffic.caches += of_type.peak_caches as u64;
        }
        traffic.beside = traffic.memory.saturating_sub(traffic.caches);
        traffic
    }

    /// That of all ranks: memory is the most of one. All ranks call it.
    pub fn of_all(self, comm: &Comm) -> Result<Self> {
        let mut sums = [self.messages, self.combined, self.buffers, self.bytes];
        comm.all_reduce_in_place(&mut sums, Sum)?;
        let mut most = [self.memory, self.caches, self.beside];
        comm.all_reduce_in_place(&mut most, Max)?;
        let ([messages, combined, buffers, bytes], [memory, caches, beside]) = (sums, most);
        Ok(Self { messages, combined, buffers, bytes, memory, caches, beside })
    }
}

impl std::ops::Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            combined: self.combined + other.combined,
            buffers: self.buffers + other.buffers,
            bytes: self.bytes + other.bytes,
            memory: self.memory.max(other.memory),
            caches: self.caches.max(other.caches),
            beside: self.beside.max(other.beside),
        }
    }
}
