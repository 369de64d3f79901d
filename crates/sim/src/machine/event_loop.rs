//! Event loop: processes queued events until one concerns a rank.

use super::{InFlight, Machine, QueuedEvent, SimEvent, SimEventKind, SimMessage};
use crate::network::NetworkModel;
use crate::network::links::{InjectOutcome, PendingMessage};
use crate::slab::NIL;
use crate::time::Time;

impl Machine {
    /// The next event of a rank; none if the simulation has come to rest.
    #[expect(clippy::should_implement_trait, reason = "a machine takes calls between two of its events")]
    pub fn next(&mut self) -> Option<SimEvent> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            let queued = match self.queue.pop_now() {
                Some(queued) => queued,
                None => {
                    if let NetworkModel::Links(net) = &mut self.net
                        && net.flows.has_stale_rates()
                    {
                        net.flows.recompute_rates(&mut self.queue, QueuedEvent::FlowTimer);
                    }
                    self.queue.pop()?.1
                }
            };
            self.totals.processed_events += 1;
            if let Some(event) = self.step(queued) {
                return Some(event);
            }
        }
    }

    #[inline]
    fn step(&mut self, queued: QueuedEvent) -> Option<SimEvent> {
        let now = self.queue.now();
        match queued {
            QueuedEvent::Arrive(id) => {
                let SimMessage { to, bytes, channel, .. } = self.in_flight[id].message;
                let to = match &mut self.representative {
                    None => to,
                    Some(ties) => {
                        ties.events += 1;
                        ties.tied |= ties.receives.request(now, ties.events, (channel, bytes));
                        0
                    }
                };
                let admitted = match &mut self.net {
                    NetworkModel::LogGp(net) => net.admit(to, now, bytes),
                    NetworkModel::Clusters(net) => net.admit(to, now, bytes),
                    NetworkModel::Links(_) => now,
                };
                if admitted > now {
                    self.queue.push(admitted, QueuedEvent::Deliver(id));
                    return None;
                }
                self.deliver(id)
            }
            QueuedEvent::Deliver(id) => self.deliver(id),
            QueuedEvent::Wakeup { rank, token } => (!self.noise.has_failed(rank, now)).then_some(SimEvent {
                time: now,
                rank,
                kind: SimEventKind::Wakeup { token },
            }),
            QueuedEvent::Inject(id) => {
                let SimMessage { from, to, bytes, tie, channel, .. } = self.in_flight[id].message;
                if self.noise.has_failed(from, now) {
                    self.in_flight.remove(id);
                    return None;
                }
                let net = match &mut self.net {
                    NetworkModel::Links(net) => net,
                    NetworkModel::LogGp(_) => {
                        self.inject_at_port(id);
                        return None;
                    }
                    NetworkModel::Clusters(_) => unreachable!("gateways take messages when their sends begin"),
                };
                let outcome = net.inject(now, PendingMessage { id, from, to, bytes, tie });
                if let Some(ties) = &mut self.representative {
                    ties.events += 1;
                    // A tie decides which message waits for a port. Messages started by one CPU never tie.
                    let tied = ties.sends.request(now, ties.events, (channel, bytes));
                    ties.tied |= tied && matches!(outcome, InjectOutcome::Queued);
                }
                match outcome {
                    InjectOutcome::Started | InjectOutcome::Queued => {}
                    InjectOutcome::Done { hops } => self.on_flow_complete(id, hops),
                    InjectOutcome::Written { time } => self.queue.push(now + time, QueuedEvent::Written(id)),
                }
                None
            }
            QueuedEvent::Written(id) => {
                self.on_flow_complete(id, 0);
                None
            }
            QueuedEvent::FlowTimer(timer) => {
                let NetworkModel::Links(net) = &mut self.net else { unreachable!("only links have flows") };
                if let Some((id, hops)) = net.flows.on_timer(timer, &mut self.queue, QueuedEvent::FlowTimer) {
                    let from = self.in_flight[id].message.from;
                    if self.noise.has_failed(from, now) {
                        net.drop_port_queue(from, |waiting| self.in_flight.remove(waiting));
                    }
                    net.release(now, from);
                    self.on_flow_complete(id, hops);
                }
                None
            }
            QueuedEvent::SendComplete { rank, token } => (!self.noise.has_failed(rank, now)).then_some(SimEvent {
                time: now,
                rank,
                kind: SimEventKind::SendComplete { token },
            }),
            QueuedEvent::NextSend { rank } => {
                if !self.noise.has_failed(rank, now) {
                    self.start_queued_send(rank);
                }
                None
            }
            QueuedEvent::Fail { rank } => Some(SimEvent { time: now, rank, kind: SimEventKind::Failed }),
        }
    }

    /// Injects a message at the port that the ranks of a host share.
    fn inject_at_port(&mut self, id: u32) {
        let begin = self.queue.now();
        let SimMessage { from, bytes, .. } = self.in_flight[id].message;
        let NetworkModel::LogGp(net) = &mut self.net else { unreachable!("only LogGP has shared ports") };
        if self.noise.has_failed(from, net.injection_time(begin, from)) {
            self.in_flight.remove(id);
            return;
        }
        let overhead = self.noise.scale_cpu_time(from, net.overhead);
        let arrival = net.send(begin, from, bytes, overhead) + self.noise.sample_jitter();
        self.queue.push(arrival, QueuedEvent::Arrive(id));
    }

    /// Completes the flow of a message: its last byte has left the links.
    fn on_flow_complete(&mut self, id: u32, hops: u32) {
        let now = self.queue.now();
        let SimMessage { from, token, .. } = self.in_flight[id].message;
        if !self.noise.has_failed(from, now) {
            self.ready.push_back(SimEvent { time: now, rank: from, kind: SimEventKind::SendComplete { token } });
        }
        let NetworkModel::Links(net) = &self.net else { unreachable!("only links have flows") };
        let late = net.hop_latency(hops) + self.noise.sample_jitter();
        if late > 0 {
            self.queue.push(now + late, QueuedEvent::Deliver(id));
        } else if let Some(event) = self.deliver(id) {
            self.ready.push_back(event);
        }
    }

    fn deliver(&mut self, id: u32) -> Option<SimEvent> {
        let InFlight { message: SimMessage { from, to, channel, .. }, sequence } = self.in_flight[id];
        if sequence == NIL {
            return self.deliver_now(id);
        }
        let mut deliverable = std::mem::take(&mut self.deliverable);
        self.channels.arrive((from, to, channel), sequence, id, |id| deliverable.push(id));
        for id in deliverable.drain(..) {
            let event = self.deliver_now(id);
            self.ready.extend(event);
        }
        self.deliverable = deliverable;
        None
    }

    #[inline]
    fn deliver_now(&mut self, id: u32) -> Option<SimEvent> {
        let SimMessage { from, to, bytes, channel, token, .. } = self.in_flight[id].message;
        self.in_flight.remove(id);
        let time = self.queue.now();
        if let Some(trace) = &mut self.trace {
            trace.record_delivery(time, from, to, bytes);
        }
        let kind = SimEventKind::Delivered { from, bytes, channel, token };
        (!self.noise.has_failed(to, time)).then_some(SimEvent { time, rank: to, kind })
    }

    /// Starts a send that is priced by clusters. Returns when it completes.
    pub(super) fn start_cluster_send(&mut self, id: u32) -> Time {
        let begin = self.queue.now();
        let message = self.in_flight[id].message;
        let NetworkModel::Clusters(net) = &mut self.net else { unreachable!("only clusters have WAN links") };
        let scale = |busy| self.noise.scale_cpu_time(message.from, busy);
        let times = net.send(begin, (message.from, message.to), message.bytes, scale);
        let free = times.free;
        self.queue.push(times.arrival + self.noise.sample_jitter(), QueuedEvent::Arrive(id));
        self.cpu[message.from as usize] = free;
        if let Some(trace) = &mut self.trace {
            trace.record_send(begin, free, &message);
        }
        free
    }

    /// Starts the next queued send of a rank if its CPU is free; otherwise retries then.
    fn start_queued_send(&mut self, rank: u32) {
        let NetworkModel::Clusters(net) = &mut self.net else { unreachable!("only clusters queue sends") };
        let free = self.cpu[rank as usize];
        if free > self.queue.now() {
            self.queue.push(free, QueuedEvent::NextSend { rank });
            return;
        }
        let (id, more) = net.dequeue_send(rank);
        let token = self.in_flight[id].message.token;
        let over = self.start_cluster_send(id);
        self.queue.push(over, QueuedEvent::SendComplete { rank, token });
        if more {
            self.queue.push(over, QueuedEvent::NextSend { rank });
        }
    }
}
