//! What a machine does from one time to the next.

use super::{Event, Happening, InFlight, Machine, Message, What};
use crate::network::Net;
use crate::network::links::{Injected, Waiting};
use crate::slab::NONE;
use crate::time::Time;

impl Machine {
    /// What happens next; nothing if nothing ever will.
    #[expect(clippy::should_implement_trait, reason = "a machine is talked to between two of its happenings")]
    pub fn next(&mut self) -> Option<Happening> {
        loop {
            if let Some(happening) = self.ready.pop_front() {
                return Some(happening);
            }
            let event = match self.queue.pop_now() {
                Some(event) => event,
                None => {
                    if let Net::Links(net) = &mut self.net
                        && net.flows.unsettled()
                    {
                        net.flows.settle(&mut self.queue, Event::Flow);
                    }
                    self.queue.pop()?.1
                }
            };
            self.totals.steps += 1;
            if let Some(happening) = self.step(event) {
                return Some(happening);
            }
        }
    }

    #[inline]
    fn step(&mut self, event: Event) -> Option<Happening> {
        let now = self.queue.now();
        match event {
            Event::Arrive(id) => {
                let Message { to, bytes, channel, .. } = self.flying[id].message;
                let to = match &mut self.folded {
                    None => to,
                    Some(interface) => {
                        interface.steps += 1;
                        interface.tied |= interface.inwards.ask(now, interface.steps, (channel, bytes));
                        0
                    }
                };
                let inside = match &mut self.net {
                    Net::LogGp(net) => net.admit(to, now, bytes),
                    Net::Clusters(net) => net.admit(to, now, bytes),
                    Net::Links(_) => now,
                };
                if inside > now {
                    self.queue.push(inside, Event::Deliver(id));
                    return None;
                }
                self.deliver(id)
            }
            Event::Deliver(id) => self.deliver(id),
            Event::Wake { rank, token } => {
                (!self.noise.is_dead(rank, now)).then_some(Happening { time: now, rank, what: What::Woken { token } })
            }
            Event::Inject(id) => {
                let Message { from, to, bytes, tie, channel, .. } = self.flying[id].message;
                if self.noise.is_dead(from, now) {
                    self.flying.remove(id);
                    return None;
                }
                let Net::Links(net) = &mut self.net else { unreachable!("only links are injected into") };
                let injected = net.inject(now, Waiting { id, from, to, bytes, tie });
                if let Some(interface) = &mut self.folded {
                    interface.steps += 1;
                    // Which of them waits for a port. Those that the CPU starts do not come at one instant.
                    let tied = interface.outwards.ask(now, interface.steps, (channel, bytes));
                    interface.tied |= tied && matches!(injected, Injected::Waits);
                }
                match injected {
                    Injected::Flows | Injected::Waits => {}
                    Injected::Through { hops } => self.flowed(id, hops),
                }
                None
            }
            Event::Flow(alarm) => {
                let Net::Links(net) = &mut self.net else { unreachable!("only links have flows") };
                if let Some((id, hops)) = net.flows.rung(alarm, &mut self.queue, Event::Flow) {
                    let from = self.flying[id].message.from;
                    if self.noise.is_dead(from, now) {
                        net.forget_line(from, |waiting| self.flying.remove(waiting));
                    }
                    net.release(now, from);
                    self.flowed(id, hops);
                }
                None
            }
            Event::Sent { rank, token } => {
                (!self.noise.is_dead(rank, now)).then_some(Happening { time: now, rank, what: What::Sent { token } })
            }
            Event::NextSend { rank } => {
                if !self.noise.is_dead(rank, now) {
                    self.next_send(rank);
                }
                None
            }
            Event::Die { rank } => Some(Happening { time: now, rank, what: What::Died }),
        }
    }

    /// The last byte of a message has flowed.
    fn flowed(&mut self, id: u32, hops: u32) {
        let now = self.queue.now();
        let Message { from, token, .. } = self.flying[id].message;
        if !self.noise.is_dead(from, now) {
            self.ready.push_back(Happening { time: now, rank: from, what: What::Sent { token } });
        }
        let Net::Links(net) = &self.net else { unreachable!("only links have flows") };
        let late = net.hops_time(hops) + self.noise.late();
        if late > 0 {
            self.queue.push(now + late, Event::Deliver(id));
        } else if let Some(happening) = self.deliver(id) {
            self.ready.push_back(happening);
        }
    }

    fn deliver(&mut self, id: u32) -> Option<Happening> {
        let InFlight { message: Message { from, to, channel, .. }, number } = self.flying[id];
        if number == NONE {
            return self.hand_over(id);
        }
        let mut due = std::mem::take(&mut self.due);
        self.channels.arrive((from, to, channel), number, id, |id| due.push(id));
        for id in due.drain(..) {
            let happening = self.hand_over(id);
            self.ready.extend(happening);
        }
        self.due = due;
        None
    }

    #[inline]
    fn hand_over(&mut self, id: u32) -> Option<Happening> {
        let Message { from, to, bytes, channel, token, .. } = self.flying[id].message;
        self.flying.remove(id);
        let time = self.queue.now();
        if let Some(trace) = &mut self.trace {
            trace.delivered(time, from, to, bytes);
        }
        let what = What::Delivered { from, bytes, channel, token };
        (!self.noise.is_dead(to, time)).then_some(Happening { time, rank: to, what })
    }

    /// A rank begins a send now that is priced by clusters. When it is over.
    pub(super) fn cross(&mut self, id: u32) -> Time {
        let begin = self.queue.now();
        let message = self.flying[id].message;
        let Net::Clusters(net) = &mut self.net else { unreachable!("only clusters are crossed") };
        let slowed = |busy| self.noise.on_cpu(message.from, busy);
        let crossing = net.send(begin, (message.from, message.to), message.bytes, slowed);
        let free = crossing.free;
        self.queue.push(crossing.arrival + self.noise.late(), Event::Arrive(id));
        self.cpu[message.from as usize] = free;
        if let Some(trace) = &mut self.trace {
            trace.sent(begin, free, &message);
        }
        free
    }

    /// The CPU of a rank whose sends wait may be free.
    fn next_send(&mut self, rank: u32) {
        let Net::Clusters(net) = &mut self.net else { unreachable!("only clusters have sends that wait") };
        let free = self.cpu[rank as usize];
        if free > self.queue.now() {
            self.queue.push(free, Event::NextSend { rank });
            return;
        }
        let (id, more) = net.next_waiting(rank);
        let token = self.flying[id].message.token;
        let over = self.cross(id);
        self.queue.push(over, Event::Sent { rank, token });
        if more {
            self.queue.push(over, Event::NextSend { rank });
        }
    }
}
