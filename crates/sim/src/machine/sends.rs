//! Sends, and what depends on the order in which ranks send and receive at one instant.

use super::{Event, InFlight, Machine, Message, Sending};
use crate::network::Net;
use crate::slab::NONE;
use crate::time::Time;

impl Machine {
    /// A rank begins to send a message, as soon as its CPU is free from `at` on; `at` is not before now.
    #[inline]
    pub fn send(&mut self, at: Time, message: Message) -> Sending {
        self.send_numbered(at, message, self.keeps_order)
    }

    /// The same for a message that must not overtake others of its channel that are sent so, nor be overtaken by them.
    pub(crate) fn send_in_order(&mut self, at: Time, message: Message) -> Sending {
        self.send_numbered(at, message, true)
    }

    #[inline]
    fn send_numbered(&mut self, at: Time, message: Message, numbered: bool) -> Sending {
        let Message { from, to, bytes, channel, .. } = message;
        if self.queue.is_over() {
            // Time has ended, and nothing comes out any more; sums would not fit.
            return Sending { free: at, over: Some(at) };
        }
        let begin = match &self.net {
            Net::LogGp(net) if net.overhead == 0 => at,
            Net::Links(net) if net.alpha == 0 => at,
            _ => at.max(self.cpu[from as usize]),
        };
        // What the CPU begins with, or the interface takes over, after a death is never sent.
        let leaves = if let Net::LogGp(net) = &self.net { net.takes_over(begin, from) } else { begin };
        if self.noise.is_dead(from, leaves) {
            return Sending { free: at, over: None };
        }
        self.totals.messages += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(bytes);
        let number = if numbered { self.channels.send((from, to, channel)) } else { NONE };
        let id = self.flying.insert(InFlight { message, number });
        self.totals.most_in_flight = self.totals.most_in_flight.max(self.flying.len() as u64);
        let sending = match &mut self.net {
            Net::LogGp(net) => {
                let overhead = self.noise.on_cpu(from, net.overhead);
                let arrival = net.send(begin, from, bytes, overhead) + self.noise.late();
                self.queue.push(arrival, Event::Arrive(id));
                Sending { free: begin + overhead, over: Some(begin + overhead) }
            }
            Net::Links(net) => {
                let free = begin + self.noise.on_cpu(from, net.alpha);
                self.queue.push(free, Event::Inject(id));
                Sending { free, over: None }
            }
            Net::Clusters(net) => {
                // What the gateway does depends on when the send begins: it cannot be known before. Sends keep their order.
                if begin > self.queue.now() || net.has_waiting(from) {
                    if net.wait(from, id) {
                        self.queue.push(begin, Event::NextSend { rank: from });
                    }
                    return Sending { free: begin, over: None };
                }
                let free = self.cross(id);
                return Sending { free, over: Some(free) };
            }
        };
        if sending.free > begin {
            self.cpu[from as usize] = sending.free;
        }
        if let Some(trace) = &mut self.trace {
            trace.sent(begin, sending.free, &message);
        }
        sending
    }

    /// Whether it matters in which order sends of one instant come.
    #[inline]
    pub(crate) fn sends_take_turns(&self) -> bool {
        !matches!(&self.net, Net::Links(net) if net.alpha == 0)
    }

    /// Whether it matters in which order receives of one instant come.
    #[inline]
    pub(crate) fn receives_take_turns(&self) -> bool {
        match &self.net {
            Net::LogGp(net) => net.overhead > 0,
            Net::Links(net) => net.alpha > 0,
            Net::Clusters(_) => true,
        }
    }

    /// Whether messages of a folded machine came to an interface at one instant that might have come in another order.
    pub(crate) fn has_tied(&self) -> bool {
        self.folded.as_ref().is_some_and(|interface| interface.tied)
    }
}
