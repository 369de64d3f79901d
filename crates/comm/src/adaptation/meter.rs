//! Measures links by the messages of collective operations.
//!
//! The sender measures, so that a slow link is not blamed on those behind it. Its pending sends show how long a link
//! takes: a long message from the time when its receiver has asked for it, since a late receiver is not a slow link; a
//! short one while others before it fill the link. What completes at once measures nothing. Buffers of engines and of
//! the system below them hide a part of what follows, too. So a link may be found to be as fast again as it was, but
//! never to be faster than the profile says.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use treepie_fabric::SendWait;
use treepie_model::Profile;
use treepie_schedule::{RoundList, Schedule, ScheduleOp};
use treepie_topology::{GroupLink, Network};

use super::drift::{BusyTime, DriftDetector, LinkMessage};

/// Links that were busy for less than this, in microseconds, show the machine's noise.
const MIN_EXPECTED: f64 = 500.0;

/// Of larger groups, whose ranks may share a link, nothing is measured.
const MAX_NEIGHBORS: usize = 64;

/// Schedules for which it is kept which links are shared.
const MAX_SCHEDULES: usize = 32;

/// The links from this rank to other groups.
pub(crate) struct LinkMeter {
    network: Network,
    base: Rc<Profile>,
    /// Longer messages are rendezvous.
    eager_limit: usize,
    /// By rank, the index of the link in `links`; none in the same cluster.
    link_to: Vec<Option<u32>>,
    links: Vec<MeasuredLink>,
    /// Other ranks that may send over the same links.
    neighbors: Vec<u32>,
    /// Which links other ranks send over, too, in a schedule.
    shared: VecDeque<SharedLinks>,
    /// Those of the call in progress, if it is measured.
    shared_now: Option<Rc<[bool]>>,
    /// The time that the port of this rank took for all that it has sent in this call.
    port: f64,
}

/// A schedule, and whether other ranks send over each link in it.
type SharedLinks = (Arc<dyn Schedule>, Rc<[bool]>);

struct MeasuredLink {
    link: GroupLink,
    /// The factor of the time of bytes, in this generation.
    factor: f64,
    /// That of the base.
    base_factor: f64,
    pending: u32,
    busy: BusyTime,
    drift: DriftDetector,
}

/// A send that is pending.
#[derive(Clone, Copy)]
pub(crate) struct PendingSend {
    link: Option<u32>,
    bytes: usize,
    issued: f64,
    port: f64,
}

/// As executors hold it.
pub(crate) type SharedMeter = Rc<RefCell<LinkMeter>>;

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl LinkMeter {
    /// For a rank of a network of clusters.
    pub(super) fn new(rank: u32, network: &Network, base: &Rc<Profile>, eager_limit: usize) -> Option<Self> {
        let clusters = network.as_clusters()?;
        let (node, top) = (network.node_of(rank), clusters.levels() - 1);
        let mut links: Vec<MeasuredLink> = Vec::new();
        let link_to = (0..network.ranks()).map(|to| {
            let link = clusters.link_between(node, network.node_of(to))?;
            let known = links.iter().position(|known| known.link.index == link.index);
            Some(known.unwrap_or_else(|| {
                let factor = base.level(link.level as usize).factors(link.from, link.to).1;
                let (busy, drift) = (BusyTime::default(), DriftDetector::default());
                links.push(MeasuredLink { link, factor, base_factor: factor, pending: 0, busy, drift });
                links.len() - 1
            }) as u32)
        });
        let link_to = link_to.collect();
        let group = |rank| clusters.group_of(top, network.node_of(rank));
        let neighbors = (0..network.ranks()).filter(|other| *other != rank && group(*other) == group(rank)).collect();
        Some(Self {
            network: network.clone(),
            base: base.clone(),
            eager_limit,
            link_to,
            links,
            neighbors,
            shared: VecDeque::new(),
            shared_now: None,
            port: 0.0,
        })
    }

    /// The predicted time of a message over a link, from when its receiver has asked for it.
    fn expected(&self, link: &MeasuredLink, bytes: usize) -> f64 {
        let level = &self.base.level(link.link.level as usize).link;
        let (gap, handshake) = (level.gap.at(bytes as f64), 2.0 * level.latency);
        let is_asked_for = bytes as f64 > self.base.synchronous.vanishes_at && gap > handshake;
        link.factor * if is_asked_for { gap - handshake } else { gap }
    }

    /// A call begins.
    pub(crate) fn begin_call(&mut self, schedule: &Arc<dyn Schedule>) {
        self.port = 0.0;
        self.shared_now = Some(self.shared_links(schedule));
        for link in &mut self.links {
            (link.pending, link.busy) = (0, BusyTime::default());
        }
    }

    /// Whether other ranks send over each link in a schedule, so that it cannot be told how much of its time is theirs.
    fn shared_links(&mut self, schedule: &Arc<dyn Schedule>) -> Rc<[bool]> {
        if self.neighbors.is_empty() || self.neighbors.len() >= MAX_NEIGHBORS {
            return vec![!self.neighbors.is_empty(); self.links.len()].into();
        }
        let known = self.shared.iter().find(|(known, _)| Arc::ptr_eq(known, schedule));
        if let Some((_, shared)) = known {
            return shared.clone();
        }
        let clusters = self.network.as_clusters().expect("checked when it was made");
        let mut shared = vec![false; self.links.len()];
        let mut list = RoundList::new();
        for &from in &self.neighbors {
            for phase in 0..schedule.phases() {
                for lane in 0..schedule.phase(phase).lanes {
                    list.clear();
                    schedule.emit(from, phase, lane, 0..schedule.rounds(from, phase, lane), &mut list);
                    for op in list.iter().flatten() {
                        let ScheduleOp::Send { to, .. } = *op else { continue };
                        let Some(own) = self.link_to[to as usize] else { continue };
                        let theirs = clusters.link_between(self.network.node_of(from), self.network.node_of(to));
                        let same = theirs.is_some_and(|link| link.index == self.links[own as usize].link.index);
                        shared[own as usize] |= same;
                    }
                }
            }
        }
        let shared: Rc<[bool]> = shared.into();
        if self.shared.len() == MAX_SCHEDULES {
            self.shared.pop_front();
        }
        self.shared.push_back((schedule.clone(), shared.clone()));
        shared
    }

    /// A send has completed at once.
    pub(crate) fn sent_at_once(&mut self, to: u32, bytes: usize) {
        self.port += self.base.link().gap.at(bytes as f64);
        let Some(at) = self.link_to[to as usize] else { return };
        let link = &self.links[at as usize];
        if link.pending > 0 {
            let expected = self.expected(link, bytes);
            self.links[at as usize].busy.add_expected(expected);
        }
    }

    /// A send is pending.
    pub(crate) fn issued(&mut self, to: u32, bytes: usize, now: Duration) -> PendingSend {
        let link = self.link_to[to as usize];
        if let Some(link) = link {
            self.links[link as usize].pending += 1;
        }
        PendingSend { link, bytes, issued: micros(now), port: self.port }
    }

    /// A pending send has completed.
    pub(crate) fn completed(&mut self, send: PendingSend, wait: SendWait, now: Duration) {
        let PendingSend { link, bytes, issued, port } = send;
        self.port += self.base.link().gap.at(bytes as f64);
        let Some(at) = link else { return };
        let expected = self.expected(&self.links[at as usize], bytes);
        let is_eager = bytes <= self.eager_limit;
        let link = &mut self.links[at as usize];
        link.pending = link.pending.saturating_sub(1);
        let message = LinkMessage { since: issued, until: micros(now), expected, port: (port, self.port) };
        match wait {
            SendWait::Transfer(since) => link.busy.add_transfer(LinkMessage { since: micros(since), ..message }),
            SendWait::Room if is_eager => link.busy.add_queued(message),
            SendWait::Room | SendWait::Records => {}
        }
    }

    /// A call has ended. Calls `report` with each link whose time has drifted, and the factor that fits.
    pub(super) fn end_call(&mut self, mut report: impl FnMut(u32, f64)) {
        let Some(shared) = self.shared_now.take() else { return };
        for (link, is_shared) in self.links.iter_mut().zip(shared.iter()) {
            let ratio = link.busy.take_ratio(MIN_EXPECTED).filter(|_| !is_shared);
            // Never faster than the profile says.
            let ratio = ratio.map(|ratio| ratio.max(link.base_factor / link.factor));
            if let Some(ratio) = ratio.and_then(|ratio| link.drift.add(ratio)) {
                report(link.link.index as u32, ratio * link.factor);
            }
        }
    }

    /// A call has failed: nothing of it counts.
    pub(super) fn discard_call(&mut self) {
        self.shared_now = None;
    }

    /// A new generation begins: the factors are others.
    pub(super) fn set_factors(&mut self, factor: impl Fn(&GroupLink) -> f64) {
        for link in &mut self.links {
            link.factor = factor(&link.link);
            link.drift.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use treepie_collectives::registry::{self, CollectiveSpec};
    use treepie_model::profile::LevelProfile;
    use treepie_schedule::Operation;

    use super::*;

    /// Two clusters of two ranks, with links of 10 bytes per microsecond and no latency.
    fn meter(rank: u32) -> LinkMeter {
        let network: Network = "clusters:2x2".parse().unwrap();
        let mut profile = Profile::network();
        let link = treepie_model::plogp::PLogP::from_latency_bandwidth(0.0, 10.0);
        profile.levels[0].groups = vec![2, 2];
        profile.levels.push(LevelProfile::new("wan", link));
        LinkMeter::new(rank, &network, &Rc::new(profile), 4 << 10).unwrap()
    }

    fn schedule(id: &str, operation: Operation) -> Arc<dyn Schedule> {
        let network: Network = "clusters:2x2".parse().unwrap();
        Arc::from(registry::build(id, &CollectiveSpec::new(operation, &network)).unwrap())
    }

    /// A call with one message of 100 kB, which takes so long; what it reports.
    fn call(meter: &mut LinkMeter, schedule: &Arc<dyn Schedule>, to: u32, micros: u64) -> Vec<(u32, f64)> {
        let time = Duration::from_micros;
        meter.begin_call(schedule);
        let send = meter.issued(to, 100_000, time(0));
        // The receiver is late.
        meter.completed(send, SendWait::Transfer(time(1_000_000)), time(1_000_000 + micros));
        let mut reports = Vec::new();
        meter.end_call(|link, factor| reports.push((link, factor)));
        reports
    }

    #[test]
    fn a_slow_link_is_reported_by_its_only_sender() {
        let mut meter = meter(0);
        let bcast = schedule("bcast/hierarchical", Operation::Bcast { root: 0 });
        assert!((0..20).all(|_| call(&mut meter, &bcast, 2, 10_000).is_empty()));
        let reports: Vec<_> = (0..3).flat_map(|_| call(&mut meter, &bcast, 2, 40_000)).collect();
        let [(link, factor)] = reports[..] else { panic!("{reports:?}") };
        assert_eq!((link, (factor * 100.0).round()), (1, 400.0));
        // In the next generation that is what is expected, and later it is faster again.
        meter.set_factors(|_| factor);
        assert!((0..20).all(|_| call(&mut meter, &bcast, 2, 40_000).is_empty()));
        let reports: Vec<_> = (0..3).flat_map(|_| call(&mut meter, &bcast, 2, 10_000)).collect();
        assert!(matches!(reports[..], [(1, factor)] if (factor - 1.0).abs() < 0.01), "{reports:?}");
        // It is never faster than the profile says: buffers look like that.
        meter.set_factors(|_| 1.0);
        assert!((0..20).all(|_| call(&mut meter, &bcast, 2, 2_000).is_empty()));
    }

    #[test]
    fn links_that_ranks_share_and_those_within_a_cluster_are_not_measured() {
        let mut meter = meter(0);
        let alltoall = schedule("alltoall/pairwise", Operation::Alltoall);
        let bcast = schedule("bcast/hierarchical", Operation::Bcast { root: 0 });
        for _ in 0..10 {
            assert_eq!(call(&mut meter, &alltoall, 2, 40_000), []);
            assert_eq!(call(&mut meter, &bcast, 1, 40_000), []);
        }
        assert_eq!(meter.shared.len(), 2);
        // A call that fails counts as none.
        meter.begin_call(&bcast);
        let send = meter.issued(2, 100_000, Duration::ZERO);
        meter.completed(send, SendWait::Transfer(Duration::ZERO), Duration::from_secs(1));
        meter.discard_call();
        meter.end_call(|link, factor| panic!("link {link}: {factor}"));
    }
}
