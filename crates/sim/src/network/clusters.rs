//! Clusters in time: local links, and from each cluster to each other a link that starts at a gateway.   [P-LogP 2, 3]
//!
//! Sends are blocking. Within a cluster a send of m bytes occupies the sender for max(os(m), g(m)); the message arrives
//! L + g(m) after it began, and takes the receiver's interface for g(m) and its CPU for or(m).
//!
//! To another cluster the bytes go to the gateway as to a local rank. There is a window for each link that starts there: so
//! many bytes it takes ahead of what the link has carried. Bytes go over a link in the order in which they came. So with e,
//! the time at which the link will have carried the last byte of the message, the sender
//!
//! - of a message that fits into the window is free when the last byte has room, window/bandwidth before e;
//! - of a longer one is free when the other side has said that it has all of it, a way forth and one back after e: it must
//!   wait for word from the receiver in any case, and is told the rest with it. Were it free window/bandwidth before e
//!   here too, broadcasts of long messages would use two links at once for a part of the time, and 1 MiB to seven clusters
//!   would take 6.96 s; measured are 7.43 s [P-LogP 3.1].
//!
//! The message arrives a way forth and a local latency after e. Sends of a rank that is still sending wait; other work of
//! its CPU may come between two of them.

use std::collections::{HashMap, VecDeque};

use treepie_base::memory::with_capacity;
use treepie_topology::Network;

use super::Inlet;
use crate::costs::{Clusters, LINKS, PLogP};
use crate::error::{Error, Result};
use crate::machine::Memory;
use crate::time::{MICROSECOND, Time, from_micros, rounded};

#[derive(Debug)]
struct WideLink {
    latency: Time,
    per_byte: f64,
    /// When it has carried all that it was given.
    free: Time,
    bytes: u64,
}

#[derive(Debug)]
pub(crate) struct ClusterNet {
    local: PLogP,
    latency: Time,
    window: u64,
    /// The cluster of each rank.
    cluster: Vec<u32>,
    clusters: u32,
    links: Vec<WideLink>,
    inlet: Inlet,
    /// Sends that wait for their rank's CPU; only of ranks that ever had any.
    lines: HashMap<u32, VecDeque<u32>>,
}

/// When the sender is free, and when the message arrives.
pub(crate) struct Crossing {
    pub(crate) free: Time,
    pub(crate) arrival: Time,
}

impl ClusterNet {
    pub(crate) fn new(costs: &Clusters, network: &Network) -> Result<Self> {
        let clusters = network.clusters_kind().ok_or_else(|| Error::NotClusters(network.to_string()))?;
        let count = clusters.count();
        let wrong = |given| Error::Matrix { clusters: count, given };
        if costs.wide.len() != count as usize {
            return Err(wrong(costs.wide.len()));
        }
        let mut links = with_capacity(count as usize * count as usize, LINKS)?;
        for row in &costs.wide {
            if row.len() != count as usize {
                return Err(wrong(row.len()));
            }
            links.extend(row.iter().map(|wide| WideLink {
                latency: from_micros(wide.latency),
                per_byte: MICROSECOND / wide.bandwidth,
                free: 0,
                bytes: 0,
            }));
        }
        Ok(Self {
            local: costs.local.clone(),
            latency: from_micros(costs.local.latency),
            window: costs.window,
            cluster: (0..network.ranks()).map(|rank| clusters.cluster_of(network.place(rank))).collect(),
            clusters: count,
            links,
            inlet: Inlet::new(network.ranks()),
            lines: HashMap::new(),
        })
    }

    /// `slowed` is what a rank takes that should take so long.
    pub(crate) fn send(
        &mut self,
        begin: Time,
        (from, to): (u32, u32),
        bytes: u64,
        slowed: impl Fn(Time) -> Time,
    ) -> Crossing {
        let gap = from_micros(self.local.gap.at(bytes as f64));
        let busy = gap.max(from_micros(self.local.send.at(bytes as f64)));
        let free = begin + slowed(busy);
        // The bytes of a slow sender come as much later.
        let gap = gap + slowed(busy).saturating_sub(busy);
        let (a, b) = (self.cluster[from as usize], self.cluster[to as usize]);
        if a == b {
            return Crossing { free, arrival: begin + self.latency + gap };
        }
        let link = &mut self.links[(a * self.clusters + b) as usize];
        let carried = rounded(bytes as f64 * link.per_byte);
        // The link begins with the first byte, and cannot end before the last has come.
        let end = (link.free.max(begin + self.latency) + carried).max(begin + self.latency + gap);
        link.free = end;
        link.bytes += bytes;
        let told = if bytes <= self.window {
            end.saturating_sub(rounded(self.window as f64 * link.per_byte))
        } else {
            end + 2 * link.latency
        };
        Crossing { free: free.max(told), arrival: end + link.latency + self.latency }
    }

    /// Whether sends of a rank wait for its CPU.
    pub(crate) fn has_waiting(&self, rank: u32) -> bool {
        self.lines.get(&rank).is_some_and(|line| !line.is_empty())
    }

    /// A send waits for its rank's CPU. Whether it is the only one.
    pub(crate) fn wait(&mut self, rank: u32, id: u32) -> bool {
        let line = self.lines.entry(rank).or_default();
        line.push_back(id);
        line.len() == 1
    }

    /// The send of a rank that waits longest, and whether there are others.
    pub(crate) fn next_waiting(&mut self, rank: u32) -> (u32, bool) {
        let line = self.lines.entry(rank).or_default();
        let id = line.pop_front().expect("a rank is asked for sends that wait");
        (id, !line.is_empty())
    }

    pub(crate) fn receive_overhead(&self, bytes: u64) -> Time {
        from_micros(self.local.receive.at(bytes as f64))
    }

    pub(crate) fn admit(&mut self, to: u32, now: Time, bytes: u64) -> Time {
        self.inlet.admit(to, now, from_micros(self.local.gap.at(bytes as f64)))
    }

    /// The link between clusters that carried most, and what.
    pub(crate) fn busiest(&self) -> Option<(u32, u64)> {
        let bytes = (0..).zip(&self.links).map(|(number, link)| (number, link.bytes));
        bytes.max_by_key(|&(number, bytes)| (bytes, std::cmp::Reverse(number))).filter(|(_, bytes)| *bytes > 0)
    }

    pub(crate) fn memory(&self) -> Memory {
        let ranks = self.cluster.capacity() * 4 + self.inlet.memory();
        let in_flight = self.lines.values().map(|line| line.capacity() * 4).sum();
        Memory { ranks, links: self.links.capacity() * size_of::<WideLink>(), in_flight }
    }
}
