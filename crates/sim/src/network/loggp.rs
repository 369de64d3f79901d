//! LogGP in time: the CPU and the network interface of each rank, no links.   [NBX 2.2]
//!
//! The rules, for a message of m bytes, with s(m) = max(o, g) + (m - 1) G:
//!
//! 1. A send occupies the CPU for o. The interface injects the message when the CPU begins, but not before s(m') after
//!    it injected the previous message, of m' bytes. The CPU does not wait for the interface; the send completes after
//!    o.
//! 2. The message arrives o + L + (m - 1) G after its injection; o is that of the sender, should it be slow.
//! 3. A rank's interface admits messages one after the other as they arrive, each at least s(m) after the one before.
//! 4. A receive is ready when its message is admitted and it has been posted. It occupies the CPU for o, and completes.
//! 5. Computation of duration t occupies the CPU for t.
//! 6. A rank's CPU serves sends, receives and computation in the order in which they become ready; those that become
//!    ready at the same time, in the order of their events.
//!
//! m = 0 counts as m = 1. Hosts of several ranks are in [`super::host_ports`].

use treepie_topology::Network;

use super::host_ports::HostPorts;
use super::receive_gap::ReceiveGap;
use crate::costs::{LogGP, SharedMemoryCosts};
use crate::time::{MICROSECOND, Time, from_micros, from_picos};

#[derive(Debug)]
pub(crate) struct LogGpNet {
    latency: Time,
    pub(crate) overhead: Time,
    message_interval: Time,
    per_byte: f64,
    /// When the interface of each rank can inject the next message.
    next_send: Vec<Time>,
    receive_gap: ReceiveGap,
    /// Where ranks share hosts.
    hosts: Option<Box<HostPorts>>,
}

impl LogGpNet {
    pub(crate) fn new(costs: &LogGP, ranks: u32) -> Self {
        let overhead = from_micros(costs.overhead);
        Self {
            latency: from_micros(costs.latency),
            overhead,
            message_interval: overhead.max(from_micros(costs.gap)),
            per_byte: costs.per_byte * MICROSECOND,
            next_send: vec![0; ranks as usize],
            receive_gap: ReceiveGap::new(ranks),
            hosts: None,
        }
    }

    /// With the hosts of a network, if they have several ranks.
    pub(crate) fn with_hosts(self, costs: &LogGP, memory: SharedMemoryCosts, network: &Network) -> Self {
        Self { hosts: HostPorts::new(costs.gap, memory, network).map(Box::new), ..self }
    }

    /// Whether ranks share ports. Then a message is injected when its CPU has begun it, as others may come first.
    #[inline]
    pub(crate) fn has_shared_ports(&self) -> bool {
        self.hosts.is_some()
    }

    /// When a message within a host is delivered whose send the CPU begins at `begin` and takes `overhead` for; none if
    /// it goes to another host.
    #[inline]
    pub(crate) fn write_to_memory(
        &mut self,
        begin: Time,
        (from, to): (u32, u32),
        bytes: u64,
        overhead: Time,
    ) -> Option<Time> {
        let hosts = self.hosts.as_mut().filter(|hosts| hosts.host[from as usize] == hosts.host[to as usize])?;
        let byte_time = from_picos(bytes.saturating_sub(1) as f64 * hosts.memory_per_byte);
        let next_write = &mut hosts.next_write[from as usize];
        let written = begin.max(*next_write) + byte_time;
        *next_write = written;
        Some(written + overhead + hosts.memory_latency)
    }

    #[inline]
    fn byte_time(&self, bytes: u64) -> Time {
        from_picos(bytes.saturating_sub(1) as f64 * self.per_byte)
    }

    /// When the interface injects a message whose send the CPU begins at `begin`.
    #[inline]
    pub(crate) fn injection_time(&self, begin: Time, from: u32) -> Time {
        let port = self.hosts.as_ref().map_or(0, |hosts| hosts.next_send[hosts.host[from as usize] as usize]);
        begin.max(self.next_send[from as usize]).max(port)
    }

    /// When a message arrives whose send the CPU begins at `begin` and takes `overhead` for.
    #[inline]
    pub(crate) fn send(&mut self, begin: Time, from: u32, bytes: u64, overhead: Time) -> Time {
        let byte_time = self.byte_time(bytes);
        let injected = self.injection_time(begin, from);
        self.next_send[from as usize] = injected + self.message_interval + byte_time;
        if let Some(hosts) = &mut self.hosts {
            hosts.next_send[hosts.host[from as usize] as usize] = injected + hosts.gap + byte_time;
        }
        injected + overhead + self.latency + byte_time
    }

    /// When a message that arrives now is admitted.
    #[inline]
    pub(crate) fn admit(&mut self, to: u32, now: Time, bytes: u64) -> Time {
        let byte_time = self.byte_time(bytes);
        let interval = self.message_interval + byte_time;
        let Some(hosts) = &mut self.hosts else { return self.receive_gap.admit(to, now, interval) };
        let host = hosts.host[to as usize];
        let at_port = hosts.receive_gap.earliest(host, now, hosts.gap + byte_time);
        let admitted = self.receive_gap.admit(to, at_port, interval);
        hosts.receive_gap.set_last(host, admitted);
        admitted
    }

    pub(crate) fn memory(&self) -> usize {
        let hosts = self.hosts.as_ref().map_or(0, |hosts| hosts.memory());
        self.next_send.capacity() * size_of::<Time>() + self.receive_gap.memory() + hosts
    }
}
