//! The predicted time of a collective operation: what the choice of an algorithm minimizes.
//!
//! The time of a schedule follows from its rounds and a [`Profile`]. It is evaluated in one of two ways, which agree:
//! by a closed form where the algorithm has one, which takes a microsecond or less, or else by walking over all its
//! messages ([`walk`](crate::walk)), with the load of the busiest link as a lower bound.

use std::ops::Add;

use treepie_topology::{GroupLink, Network, NetworkKind};

use crate::plogp::{GatewayLink, LARGE, PLogP, PLogPLink};
use crate::{CostTerms, LogGP, Profile};

/// The costs of messages among the ranks of a communicator: a profile, on a network, with several ranks per core.
#[derive(Clone, Copy, Debug)]
pub struct MessageCosts<'a> {
    profile: &'a Profile,
    network: &'a Network,
    /// Ranks per core, at least 1, if all ranks are on one machine: they do their work in turn.
    sharing: Option<f64>,
    /// Until a waiting rank is scheduled; 0 if no rank shares its core.
    delay: f64,
    /// Whether messages share the links on their routes through the network.
    routed: bool,
    /// The level of links where the network has none.
    flat_level: usize,
}

/// A message, in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// s(m): until its sender can send to another rank.
    pub(crate) send: f64,
    /// L.
    pub(crate) latency: f64,
    /// g(m): until another message can follow it over its link.
    pub(crate) gap: f64,
    /// Until another message can arrive at its receiver.
    pub(crate) receive: f64,
    /// The link, if it is not the receiver's, and how long it takes for what a sender may leave ahead of it.
    pub(crate) link: Option<(usize, f64)>,
    /// How long the link takes for what its gateway has accepted at most, before a record without data; 0 if that is
    /// not known.
    pub(crate) ahead: f64,
    /// The part of `gap` in which the receiver is asked for a long message, and answers.
    pub(crate) handshake: Option<f64>,
    /// Whether its sender can send to another rank before it has completed.
    pub(crate) overlaps: bool,
}

impl Transfer {
    /// A message over the link of its receiver that takes both ports for some time.
    fn plain(send: f64, receive: f64) -> Self {
        Self { send, latency: 0.0, gap: 0.0, receive, link: None, ahead: 0.0, handshake: None, overlaps: false }
    }
}

/// A predicted time in microseconds, and its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Latencies and start-ups of messages, or rounds over the shared segment.
    pub startups: f64,
    /// Bytes that are transferred.
    pub bytes: f64,
    /// Bytes that are combined.
    pub reductions: f64,
    /// What it takes longer because messages share links, or ranks share cores.
    pub congestion: f64,
}

/// What all ranks do together, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Messages.
    pub messages: f64,
    /// How often a rank waits for some of them.
    pub waits: f64,
    /// Bytes of all messages.
    pub bytes: f64,
    /// Bytes that are combined.
    pub combined: f64,
    /// Bytes that ranks copy within their memory.
    pub copied: f64,
}

impl Prediction {
    /// The sum of all parts.
    pub fn total(&self) -> f64 {
        self.startups + self.bytes + self.reductions + self.congestion
    }

    /// The same, raised to this time if it is less; the difference is congestion.
    #[must_use]
    pub fn at_least(self, time: f64) -> Self {
        Self { congestion: self.congestion + (time - self.total()).max(0.0), ..self }
    }
}

impl Add for Prediction {
    type Output = Self;

    /// One operation after the other.
    fn add(self, next: Self) -> Self {
        Self {
            startups: self.startups + next.startups,
            bytes: self.bytes + next.bytes,
            reductions: self.reductions + next.reductions,
            congestion: self.congestion + next.congestion,
        }
    }
}

impl<'a> MessageCosts<'a> {
    /// The costs of ranks that are nodes of a network.
    pub fn on_network(profile: &'a Profile, network: &'a Network) -> Self {
        let routed = matches!(network.kind(), NetworkKind::Torus(_) | NetworkKind::Clos(_));
        Self { profile, network, sharing: None, delay: 0.0, routed, flat_level: 0 }
    }

    /// The costs of ranks on one machine, of which some share cores if `ranks_per_core` is above 1.
    pub fn on_machine(profile: &'a Profile, network: &'a Network, ranks_per_core: f64) -> Self {
        let delay = if ranks_per_core > 1.0 { profile.scheduling * ranks_per_core } else { 0.0 };
        Self { profile, network, sharing: Some(ranks_per_core.max(1.0)), delay, routed: false, flat_level: 0 }
    }

    /// The same where it is not known how far ranks are from each other: as far as they can be.
    #[must_use]
    pub fn farthest(self) -> Self {
        Self { flat_level: usize::MAX, ..self }
    }

    /// The same on a flat network of the same ranks, for algorithms whose time on this one is not known.
    #[must_use]
    pub fn as_if_flat(self, flat: &'a Network) -> Self {
        Self { network: flat, routed: false, ..self }.farthest()
    }

    /// The profile.
    pub fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// The network.
    pub fn network(&self) -> &'a Network {
        self.network
    }

    /// Ranks that share a core, at least 1.
    pub fn ranks_per_core(&self) -> f64 {
        self.sharing.unwrap_or(1.0)
    }

    /// The cores of these ranks, if all of them are on one machine.
    pub fn cores(&self) -> Option<f64> {
        Some(f64::from(self.network.ranks()) / self.sharing?)
    }

    /// A time on the critical path, or that of the work of all ranks on their cores if that is longer. If the work is
    /// not known, all ranks do as much as those on the critical path.
    #[must_use]
    pub fn at_least_work(&self, prediction: Prediction, work: Option<&Work>) -> Prediction {
        let Some(sharing) = self.sharing else { return prediction };
        let Some(work) = work else {
            return prediction.at_least(prediction.startups + sharing * (prediction.bytes + prediction.reductions));
        };
        let (profile, link) = (self.profile, self.profile.link());
        let size = if work.messages > 0.0 { work.bytes / work.messages } else { 0.0 };
        let message = link.send_overhead.at(size) + link.recv_overhead.at(size);
        let switches = if self.delay > 0.0 { work.waits * profile.scheduling } else { 0.0 };
        let local = work.combined * profile.reduce_per_byte + work.copied * profile.copy_per_byte + switches;
        let latency = self.latency();
        let critical = (prediction.total() - latency).max(0.0);
        prediction.at_least(latency + self.on_cores(critical, work.messages * message + local))
    }

    /// The time of work, of which some is on the critical path, on the cores of one machine. If each rank has a core,
    /// all others work meanwhile. Otherwise they may be in the way: that is Brent's bound for ranks that are scheduled
    /// greedily.
    pub fn on_cores(&self, critical: f64, work: f64) -> f64 {
        let Some(cores) = self.cores() else { return critical };
        let in_the_way = if self.delay > 0.0 { critical * (1.0 - 1.0 / cores.max(1.0)) } else { 0.0 };
        critical.max(work / cores + in_the_way)
    }

    /// Until a waiting rank is scheduled.
    pub fn delay(&self) -> f64 {
        self.delay
    }

    /// L, and the time until a waiting rank is scheduled.
    pub fn latency(&self) -> f64 {
        self.flat_link().latency + self.delay
    }

    /// The link of cost terms, in which all links are alike: that between hosts, if there are several ranks on each.
    fn flat_link(&self) -> &'a PLogP {
        self.profile.link_at(self.flat_level.max(usize::from(self.has_hosts())))
    }

    /// L, and the time until all ranks that handle a message are scheduled: a rendezvous is one more.
    fn latency_of(&self, bytes: f64) -> f64 {
        let has_rendezvous = bytes > self.profile.synchronous.vanishes_at;
        self.latency() + if has_rendezvous { self.delay } else { 0.0 }
    }

    /// g(m).
    pub fn gap(&self, bytes: f64) -> f64 {
        self.flat_link().gap.at(bytes)
    }

    /// The link between the farthest ranks as LogGP, with the time until a waiting rank is scheduled.   [P-LogP paper,
    /// table 1]
    pub fn loggp(&self) -> LogGP {
        let link = self.profile.link_at(usize::MAX);
        let (send, receive, gap) = (link.send_overhead.at(1.0), link.recv_overhead.at(1.0), link.gap.at(1.0));
        let latency = (link.latency + gap - send - receive).max(0.0) + self.delay;
        let busy = link.send_overhead.at(LARGE) + link.recv_overhead.at(LARGE);
        // All ranks exchange at the same time.
        let per_byte = link.gap.at(LARGE).max(self.sharing.map_or(0.0, |ranks| ranks * busy)) / LARGE;
        LogGP { latency, overhead: (send + receive) / 2.0, gap, per_byte }
    }

    /// The time to combine received bytes. They are received into other memory first.
    pub fn reduction(&self, bytes: f64) -> f64 {
        bytes * (self.profile.reduce_per_byte + self.profile.copy_per_byte)
    }

    /// The time to copy bytes within a rank.
    pub fn copy(&self, bytes: f64) -> f64 {
        bytes * self.profile.copy_per_byte
    }

    /// The time of cost terms in which all messages take links of one class. The gap is that of a message of mean
    /// size.
    pub fn time(&self, terms: &CostTerms) -> Prediction {
        let messages = terms.alpha;
        let profile = self.profile;
        let is_saturated = profile.saturated_ports > 0 && terms.ports >= profile.saturated_ports;
        let bytes = if is_saturated { terms.delta / profile.port_efficiency } else { terms.delta };
        let size = if messages > 0.0 { bytes / messages } else { 0.0 };
        let startups = terms.steps * self.latency_of(size) + messages * self.gap(0.0);
        let mut bytes = messages * (self.gap(size) - self.gap(0.0));
        if self.routed && terms.steps < messages {
            // Several messages of a step: while one starts, the bytes of those before it are under way.
            let (start, transfer, in_step) = (self.gap(0.0), bytes / messages, messages / terms.steps.max(1.0));
            let step = (in_step * start).max(in_step * transfer) + start.min(transfer);
            bytes = terms.steps.max(1.0) * (step - in_step * start);
        }
        Prediction { startups, bytes, reductions: self.reduction(terms.gamma), congestion: 0.0 }
    }

    /// Whether messages share the links on their routes.
    pub(crate) fn routed(&self) -> bool {
        self.routed
    }

    /// Links that messages can share: those of the network, or those between each two clusters.
    pub(crate) fn num_links(&self) -> usize {
        match self.network.as_clusters() {
            Some(clusters) => clusters.num_group_links(),
            None if self.routed => self.network.links() as usize,
            None if self.has_hosts() => self.network.nodes().div_ceil(self.network.nodes_per_host()) as usize,
            None => 0,
        }
    }

    /// The time of bytes over a link of the network.
    pub(crate) fn link_time(&self, link: u32, bytes: f64) -> f64 {
        (self.gap(bytes) - self.gap(0.0)) / self.network.capacity(link)
    }

    /// A message from one rank to another.
    pub(crate) fn transfer(&self, from: u32, to: u32, bytes: f64) -> Transfer {
        let (gap, latency) = (self.gap(bytes), self.latency_of(bytes));
        if let Some(GroupLink { level, from, to, index }) = self.shared_link(from, to) {
            let (lan, level) = (self.profile.link(), self.profile.level(level as usize));
            let (wan, (latency, factor)) = (&level.link, level.factors(from, to));
            let gateway = GatewayLink { wan, lan };
            // Longer messages wait for flow control, which is a knee of the send overhead.
            let knee = wan.send_overhead.knees().next();
            let window = knee.map_or(f64::INFINITY, |bytes| wan.gap.at(bytes) * factor);
            // A sender of a longer message waits for the link.
            let waits = if knee.is_some_and(|knee| bytes > knee) { factor } else { 1.0 };
            let handshake = 2.0 * wan.latency * latency;
            let is_rendezvous = |bytes| self.is_rendezvous(bytes, wan.gap.at(bytes), handshake);
            // Without what a long message waits for before.
            let carried = |bytes| match is_rendezvous(bytes) {
                true => (wan.gap.at(bytes) - 2.0 * wan.latency) * factor,
                false => wan.gap.at(bytes) * factor,
            };
            let is_rendezvous = is_rendezvous(bytes);
            return Transfer {
                send: gateway.send_time(bytes) * waits,
                latency: wan.latency * latency,
                gap: carried(bytes) + if is_rendezvous { handshake } else { 0.0 },
                receive: lan.gap.at(bytes),
                link: Some((index, window)),
                ahead: level.window.map_or(0.0, carried),
                handshake: is_rendezvous.then_some(handshake),
                // The MPI of the P-LogP paper has blocking sends only; engines of today have an eager limit.
                overlaps: self.profile.synchronous.vanishes_at.is_finite(),
            };
        }
        if self.routed {
            // A node has several ports, so its next message need not wait for the bytes of this one.
            let start = self.gap(0.0);
            return Transfer { latency: latency + start, gap: gap - start, ..Transfer::plain(start, start) };
        }
        let (gap, latency) = if self.has_hosts() {
            let memory = self.profile.link();
            (memory.gap.at(bytes), memory.latency)
        } else {
            (gap, latency)
        };
        Transfer { latency, gap, ..Transfer::plain(gap, gap) }
    }

    /// Whether the measured gap of a message between groups includes a handshake of this time.
    fn is_rendezvous(&self, bytes: f64, gap: f64, handshake: f64) -> bool {
        bytes > self.profile.synchronous.vanishes_at && gap >= handshake
    }

    /// The least time in which a link of a level carries bytes, in messages of any sizes, without handshakes. A
    /// measured curve need not be convex: per byte, short messages may take less time than long ones.
    pub fn least_link_time(&self, level: usize, bytes: f64) -> f64 {
        let PLogP { latency, gap, .. } = self.profile.link_at(level);
        let handshake = 2.0 * latency;
        let per_byte = |&(size, gap): &(f64, f64)| match self.is_rendezvous(size, gap, handshake) {
            true => (gap - handshake) / size,
            false => gap / size,
        };
        // On a line it is least at one of the ends. The last line has no end: there it is the slope.
        let far = gap.points().last().map_or(LARGE, |(size, _)| size.max(LARGE));
        let slope = (gap.at(2.0 * far) - gap.at(far)) / far;
        let points = gap.points().iter().filter(|(size, _)| *size > 0.0);
        (bytes * points.map(per_byte).fold(slope, f64::min)).max(gap.at(0.0))
    }

    /// The level at which two ranks of different groups meet, and the link between their groups: of each ordered pair
    /// of groups, or the port of a host.
    fn shared_link(&self, from: u32, to: u32) -> Option<GroupLink> {
        let network = self.network;
        if self.has_hosts() {
            let host = network.host_of(from);
            let link = GroupLink { level: 1, from: host, to: network.host_of(to), index: host as usize };
            return (link.from != link.to).then_some(link);
        }
        network.as_clusters()?.link_between(network.node_of(from), network.node_of(to))
    }

    /// Whether several ranks share the port of a host.
    fn has_hosts(&self) -> bool {
        self.network.nodes_per_host() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_the_time_of_cores() {
        let (profile, flat) = (Profile::shared_memory(), Network::flat(8));
        let critical = Prediction { startups: 1.0, bytes: 2.0, ..Prediction::default() };
        let local = |micros: f64| Work { copied: micros / profile.copy_per_byte, ..Work::default() };
        // Each rank has a core: 8 times as much is done meanwhile.
        let own = MessageCosts::on_machine(&profile, &flat, 1.0);
        assert_eq!(own.at_least_work(critical, Some(&local(16.0))), critical);
        let longer = own.at_least_work(critical, Some(&local(80.0)));
        assert!((longer.total() - own.latency() - 10.0).abs() < 1e-9 && longer.bytes == 2.0, "{longer:?}");
        // Two cores: half of the work, and half of what waits for it.
        let shared = MessageCosts::on_machine(&profile, &flat, 4.0);
        assert_eq!((shared.cores(), shared.on_cores(3.0, 20.0), shared.on_cores(3.0, 0.0)), (Some(2.0), 11.5, 3.0));
        // Unknown work is that of all ranks.
        assert_eq!(shared.at_least_work(critical, None).total(), 9.0);
        // Messages cost the time of both sides, and end a wait.
        let messages = |costs: &MessageCosts<'_>| {
            let work = Work { messages: 1000.0, waits: 1000.0, bytes: 8000.0, ..Work::default() };
            costs.at_least_work(critical, Some(&work)).total()
        };
        assert!(messages(&shared) > 4.0 * messages(&own));
        let network = MessageCosts::on_network(&profile, &flat);
        assert_eq!(network.at_least_work(critical, Some(&local(1e6))), critical);
    }
}
