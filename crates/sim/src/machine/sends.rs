//! Sends, and whether the order of simultaneous sends and receives matters.

use super::{InFlight, Machine, QueuedEvent, SendTiming, SimMessage};
use crate::network::NetworkModel;
use crate::slab::NIL;
use crate::time::Time;

impl Machine {
    /// Sends a message as soon as the CPU of its source is free from `at` on; `at` is not before now.
    #[inline]
    pub fn send(&mut self, at: Time, message: SimMessage) -> SendTiming {
        self.send_sequenced(at, message, self.keeps_order)
    }

    /// As [`send`](Self::send), for a message that stays in order with others of its channel sent this way.
    pub(crate) fn send_in_order(&mut self, at: Time, message: SimMessage) -> SendTiming {
        self.send_sequenced(at, message, true)
    }

    #[inline]
    fn send_sequenced(&mut self, at: Time, message: SimMessage, is_in_order: bool) -> SendTiming {
        let SimMessage { from, to, bytes, channel, .. } = message;
        if self.queue.is_exhausted() {
            // Nothing pops beyond the end of time; sums might overflow.
            return SendTiming { cpu_free: at, completion: Some(at) };
        }
        let begin = match &self.net {
            NetworkModel::LogGp(net) if net.overhead == 0 => at,
            NetworkModel::Links(net) if net.alpha == 0 => at,
            _ => at.max(self.cpu[from as usize]),
        };
        // A send that the CPU begins, or the interface injects, after a failure never happens.
        let injected = match &self.net {
            NetworkModel::LogGp(net) if !net.has_shared_ports() => net.injection_time(begin, from),
            _ => begin,
        };
        if self.noise.has_failed(from, injected) {
            return SendTiming { cpu_free: at, completion: None };
        }
        self.totals.messages += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(bytes);
        let sequence = if is_in_order { self.channels.assign_sequence((from, to, channel)) } else { NIL };
        let id = self.in_flight.insert(InFlight { message, sequence });
        self.totals.max_in_flight = self.totals.max_in_flight.max(self.in_flight.len() as u64);
        let timing = match &mut self.net {
            NetworkModel::LogGp(net) => {
                let overhead = self.noise.scale_cpu_time(from, net.overhead);
                if !net.has_shared_ports() {
                    let arrival = net.send(begin, from, bytes, overhead) + self.noise.sample_jitter();
                    self.queue.push(arrival, QueuedEvent::Arrive(id));
                } else if let Some(delivery) = net.write_to_memory(begin, (from, to), bytes, overhead) {
                    self.queue.push(delivery + self.noise.sample_jitter(), QueuedEvent::Deliver(id));
                } else {
                    self.queue.push(begin, QueuedEvent::Inject(id));
                }
                SendTiming { cpu_free: begin + overhead, completion: Some(begin + overhead) }
            }
            NetworkModel::Links(net) => {
                let free = begin + self.noise.scale_cpu_time(from, net.alpha);
                self.queue.push(free, QueuedEvent::Inject(id));
                SendTiming { cpu_free: free, completion: None }
            }
            NetworkModel::Clusters(net) => {
                // The gateway's state is known only when the send begins. Sends of a rank stay in order.
                if begin > self.queue.now() || net.has_queued_sends(from) {
                    if net.enqueue_send(from, id) {
                        self.queue.push(begin, QueuedEvent::NextSend { rank: from });
                    }
                    return SendTiming { cpu_free: begin, completion: None };
                }
                let free = self.start_cluster_send(id);
                return SendTiming { cpu_free: free, completion: Some(free) };
            }
        };
        if timing.cpu_free > begin {
            self.cpu[from as usize] = timing.cpu_free;
        }
        if let Some(trace) = &mut self.trace {
            trace.record_send(begin, timing.cpu_free, &message);
        }
        timing
    }

    /// Whether the order of simultaneous sends matters.
    #[inline]
    pub(crate) fn is_send_order_significant(&self) -> bool {
        !matches!(&self.net, NetworkModel::Links(net) if net.alpha == 0)
    }

    /// Whether the order of simultaneous receives matters.
    #[inline]
    pub(crate) fn is_recv_order_significant(&self) -> bool {
        match &self.net {
            NetworkModel::LogGp(net) => net.overhead > 0,
            NetworkModel::Links(net) => net.alpha > 0,
            NetworkModel::Clusters(_) => true,
        }
    }

    /// Whether simultaneous messages at the representative's interface might have come in another order.
    pub(crate) fn has_order_tie(&self) -> bool {
        self.representative.as_ref().is_some_and(|ties| ties.tied)
    }
}
