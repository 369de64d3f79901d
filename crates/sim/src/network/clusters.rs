//! Clusters in time: local networks, and WAN links between gateways.   [P-LogP 2, 3]
//!
//! Sends are blocking. Within a cluster a send of m bytes occupies the sender for max(os(m), g(m)). The message arrives
//! L + g(m) after it began, and takes the receiver's interface for g(m) and its CPU for or(m).
//!
//! A message to another cluster goes to the gateway as to a local rank. The gateway buffers a window of bytes ahead of
//! each of its WAN links, and a link carries bytes in FIFO order. Let e be the time at which the link has carried the
//! last byte of the message. The sender
//!
//! - of a message that fits into the window is free when the last byte has room, window/bandwidth before e;
//! - of a longer one is free when the receiver's acknowledgement is back, a WAN round trip after e: it waits for the
//!   receiver in any case. Were it free window/bandwidth before e here too, broadcasts of long messages would use two
//!   links at once for part of the time, and 1 MiB to seven clusters would take 6.96 s; the paper measured 7.43 s
//!   [P-LogP 3.1].
//!
//! In nested clusters every group of every level has a gateway, in its local network. A message takes one WAN link:
//! that of the level on which its ranks meet, from the sender's group of the level below to the receiver's.
//!
//! The message arrives a WAN latency and a local latency after e. Sends of a rank that is still sending are queued; its
//! CPU may do other work between two of them.

use std::collections::{HashMap, VecDeque};

use treepie_base::memory::with_capacity;
use treepie_topology::Network;

use super::receive_gap::ReceiveGap;
use crate::costs::{ClusterCosts, PLogP, WAN_LINKS, WanLink, WanLinks, sibling_groups};
use crate::error::{Error, Result};
use crate::machine::MemoryUsage;
use crate::time::{MICROSECOND, Time, from_micros, from_picos};

#[derive(Clone, Debug)]
struct WanLinkState {
    latency: Time,
    per_byte: f64,
    /// When it has carried all bytes accepted so far.
    free: Time,
    bytes: u64,
}

impl WanLinkState {
    fn new(link: &WanLink) -> Self {
        let (latency, per_byte) = (from_micros(link.latency), MICROSECOND / link.bandwidth);
        Self { latency, per_byte, free: 0, bytes: 0 }
    }
}

#[derive(Debug)]
pub(crate) struct ClusterNet {
    lan: PLogP,
    latency: Time,
    window: u64,
    /// By level, from the clusters up.
    levels: Vec<ClusterLevel>,
    links: Vec<WanLinkState>,
    receive_gap: ReceiveGap,
    /// Queued sends by rank; only of ranks that ever had any.
    send_queues: HashMap<u32, VecDeque<u32>>,
}

/// The groups of a level.
#[derive(Debug)]
struct ClusterLevel {
    /// The group of each rank.
    group: Vec<u32>,
    /// For each group of the level above, the first of its groups and their number.
    siblings: Vec<(u32, u32)>,
    /// For each group of the level above, the first link between its groups.
    first_links: Vec<usize>,
}

/// When the sender is free, and when the message arrives.
pub(crate) struct TransferTimes {
    pub(crate) free: Time,
    pub(crate) arrival: Time,
}

impl ClusterNet {
    pub(crate) fn new(costs: &ClusterCosts, network: &Network) -> Result<Self> {
        let clusters = network.as_clusters().ok_or_else(|| Error::ClusterNetworkRequired(network.to_string()))?;
        let (count, levels) = (clusters.count(), clusters.levels());
        let given = match &costs.wan {
            WanLinks::Matrix(rows) => {
                let lens = std::iter::once(rows.len()).chain(rows.iter().map(Vec::len));
                if let Some(given) = lens.into_iter().find(|len| levels == 1 && *len != count as usize) {
                    return Err(Error::WanMatrixSize { clusters: count, given });
                }
                1
            }
            WanLinks::PerLevel(links) => links.len(),
        };
        if given != levels as usize {
            return Err(Error::WanLevels { levels, given });
        }
        let all = sibling_groups(clusters).map(|siblings| u64::from(siblings.count).pow(2)).sum::<u64>();
        let mut links = with_capacity(all as usize, WAN_LINKS)?;
        let mut in_levels: Vec<ClusterLevel> = Vec::with_capacity(levels as usize);
        for level in 0..levels {
            let group = (0..network.ranks()).map(|rank| clusters.group_of(level, network.node_of(rank))).collect();
            in_levels.push(ClusterLevel { group, siblings: Vec::new(), first_links: Vec::new() });
        }
        for siblings in sibling_groups(clusters) {
            let level = &mut in_levels[siblings.level as usize - 1];
            level.siblings.push((siblings.first, siblings.count));
            level.first_links.push(links.len());
            match &costs.wan {
                WanLinks::Matrix(rows) => links.extend(rows.iter().flatten().map(WanLinkState::new)),
                WanLinks::PerLevel(per_level) => {
                    let link = WanLinkState::new(&per_level[siblings.level as usize - 1]);
                    links.extend(std::iter::repeat_n(link, (siblings.count as usize).pow(2)));
                }
            }
        }
        Ok(Self {
            lan: costs.lan.clone(),
            latency: from_micros(costs.lan.latency),
            window: costs.window,
            levels: in_levels,
            links,
            receive_gap: ReceiveGap::new(network.ranks()),
            send_queues: HashMap::new(),
        })
    }

    /// The WAN link between two ranks; none within a cluster.
    #[inline]
    fn link_between(&self, from: u32, to: u32) -> Option<usize> {
        let mut levels = self.levels.iter().peekable();
        while let Some(level) = levels.next() {
            let (a, b) = (level.group[from as usize], level.group[to as usize]);
            if a == b {
                return None;
            }
            let [parent, other] = match levels.peek() {
                Some(above) => [from, to].map(|rank| above.group[rank as usize]),
                None => [0, 0],
            };
            if parent == other {
                let (first, count) = level.siblings[parent as usize];
                let index = (a - first) as usize * count as usize + (b - first) as usize;
                return Some(level.first_links[parent as usize] + index);
            }
        }
        None
    }

    /// Starts a send. `scale` applies the sender's slowdown to a CPU time.
    pub(crate) fn send(
        &mut self,
        begin: Time,
        (from, to): (u32, u32),
        bytes: u64,
        scale: impl Fn(Time) -> Time,
    ) -> TransferTimes {
        let gap = from_micros(self.lan.gap.at(bytes as f64));
        let busy = gap.max(from_micros(self.lan.send_overhead.at(bytes as f64)));
        let free = begin + scale(busy);
        // A slow sender delays its bytes by as much.
        let gap = gap + scale(busy).saturating_sub(busy);
        let Some(link) = self.link_between(from, to) else {
            return TransferTimes { free, arrival: begin + self.latency + gap };
        };
        let link = &mut self.links[link];
        let carried = from_picos(bytes as f64 * link.per_byte);
        // The link starts with the first byte, and cannot finish before the last has arrived.
        let end = (link.free.max(begin + self.latency) + carried).max(begin + self.latency + gap);
        link.free = end;
        link.bytes += bytes;
        let released = if bytes <= self.window {
            end.saturating_sub(from_picos(self.window as f64 * link.per_byte))
        } else {
            end + 2 * link.latency
        };
        TransferTimes { free: free.max(released), arrival: end + link.latency + self.latency }
    }

    /// Whether a rank has queued sends.
    pub(crate) fn has_queued_sends(&self, rank: u32) -> bool {
        self.send_queues.get(&rank).is_some_and(|queue| !queue.is_empty())
    }

    /// Queues a send. Returns whether it is the only one.
    pub(crate) fn enqueue_send(&mut self, rank: u32, id: u32) -> bool {
        let queue = self.send_queues.entry(rank).or_default();
        queue.push_back(id);
        queue.len() == 1
    }

    /// Dequeues the oldest send of a rank. Returns it and whether others remain.
    pub(crate) fn dequeue_send(&mut self, rank: u32) -> (u32, bool) {
        let queue = self.send_queues.entry(rank).or_default();
        let id = queue.pop_front().expect("the rank has a queued send");
        (id, !queue.is_empty())
    }

    pub(crate) fn receive_overhead(&self, bytes: u64) -> Time {
        from_micros(self.lan.recv_overhead.at(bytes as f64))
    }

    pub(crate) fn admit(&mut self, to: u32, now: Time, bytes: u64) -> Time {
        self.receive_gap.admit(to, now, from_micros(self.lan.gap.at(bytes as f64)))
    }

    /// The WAN link that carried the most bytes, and its bytes.
    pub(crate) fn busiest(&self) -> Option<(u32, u64)> {
        let bytes = (0..).zip(&self.links).map(|(number, link)| (number, link.bytes));
        bytes.max_by_key(|&(number, bytes)| (bytes, std::cmp::Reverse(number))).filter(|(_, bytes)| *bytes > 0)
    }

    pub(crate) fn memory(&self) -> MemoryUsage {
        let groups: usize = self.levels.iter().map(|level| level.group.capacity() * 4).sum();
        let ranks = groups + self.receive_gap.memory();
        let in_flight = self.send_queues.values().map(|queue| queue.capacity() * 4).sum();
        MemoryUsage { ranks, links: self.links.capacity() * size_of::<WanLinkState>(), in_flight }
    }
}
