//! Hosts of several ranks in LogGP: a network interface that they share, and memory.
//!
//! Each rank keeps its own interface, with the rules of [`super::loggp`]. In addition, for a message to another host:
//!
//! 1. The port of the host injects it when the rank's interface could, but not before g + (m' - 1) G after it injected
//!    the previous message of any of its ranks, of m' bytes. Messages that wait are injected in the order in which the
//!    CPUs have begun them.
//! 2. The port of the receiving host admits messages one after the other as they arrive, each at least g + (m - 1) G
//!    after the one before. A rank admits it only then.
//!
//! So bytes and message rate of a host are those of one interface. o is not counted at the port: it is the time of a
//! CPU, of which each rank has one. A rank whose neighbors are idle takes the same time as without them.
//!
//! A message within a host takes o + latency + (m - 1)/bandwidth of the memory, and then o at the receiver. The rank
//! writes it when its CPU begins, but not before it has written the previous one. It passes no port.

use treepie_topology::Network;

use super::receive_gap::ReceiveGap;
use crate::costs::SharedMemoryCosts;
use crate::time::{MICROSECOND, Time, from_micros};

#[derive(Debug)]
pub(super) struct HostPorts {
    /// The host of each rank.
    pub(super) host: Vec<u32>,
    /// Time between two messages at a port, beside their bytes.
    pub(super) gap: Time,
    /// When the port of each host can inject the next message.
    pub(super) next_send: Vec<Time>,
    pub(super) receive_gap: ReceiveGap,
    pub(super) memory_latency: Time,
    pub(super) memory_per_byte: f64,
    /// When each rank has written its last message to memory.
    pub(super) next_write: Vec<Time>,
}

impl HostPorts {
    /// None if every rank has its own host.
    pub(super) fn new(gap: f64, memory: SharedMemoryCosts, network: &Network) -> Option<Self> {
        if network.nodes_per_host() == 1 {
            return None;
        }
        let host: Vec<u32> = (0..network.ranks()).map(|rank| network.host_of(rank)).collect();
        let hosts = host.iter().max().map_or(0, |last| last + 1);
        Some(Self {
            gap: from_micros(gap),
            next_send: vec![0; hosts as usize],
            receive_gap: ReceiveGap::new(hosts),
            memory_latency: from_micros(memory.latency),
            memory_per_byte: MICROSECOND / memory.bandwidth,
            next_write: vec![0; host.len()],
            host,
        })
    }

    pub(super) fn memory(&self) -> usize {
        let times = self.next_send.capacity() + self.next_write.capacity();
        self.host.capacity() * 4 + times * size_of::<Time>() + self.receive_gap.memory()
    }
}
