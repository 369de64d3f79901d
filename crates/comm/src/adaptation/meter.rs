//! Measures links by the messages of collective operations.
//!
//! The sender measures, so that a slow link is not blamed on those behind it. Its pending sends show how long a link
//! takes: a long message from the time when its receiver has asked for it, since a late receiver is not a slow link; a
//! short one while others before it fill the link. What completes at once measures nothing. Buffers of engines and of
//! the system below them hide a part of what follows, too. So a link may be found to be as fast again as it was, but
//! never to be faster than the profile says.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use treepie_fabric::SendWait;
use treepie_model::Profile;
use treepie_schedule::Schedule;
use treepie_topology::{GroupLink, Network};

use super::drift::{BusyTime, DriftDetector, LinkMessage};
use super::other_senders::OtherSenders;
use crate::collective::CollectiveCall;

/// Links that were busy for less than this, in microseconds, show the machine's noise.
const MIN_EXPECTED: f64 = 500.0;

/// The links from this rank to other groups.
pub(crate) struct LinkMeter {
    network: Network,
    base: Rc<Profile>,
    /// Longer messages are rendezvous.
    eager_limit: usize,
    /// By rank, the index of the link in `links`; none in the same cluster.
    link_to: Vec<Option<u32>>,
    links: Vec<MeasuredLink>,
    others: OtherSenders,
    /// What other ranks send over the links in the call in progress, if it is measured.
    others_now: Option<Rc<[f64]>>,
    /// The time that the port of this rank took for all that it has sent in this call.
    port: f64,
}

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
        let node = network.node_of(rank);
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
        Some(Self {
            network: network.clone(),
            base: base.clone(),
            eager_limit,
            link_to,
            links,
            others: OtherSenders::new(rank, network, clusters),
            others_now: None,
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
    pub(crate) fn begin_call(&mut self, call: &CollectiveCall<'_>, schedule: &dyn Schedule) {
        self.port = 0.0;
        let links = self.links.iter().map(|measured| &measured.link);
        self.others_now = Some(self.others.times(call, schedule, (&self.base, &self.network), links));
        for link in &mut self.links {
            (link.pending, link.busy) = (0, BusyTime::default());
        }
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
        let Some(others) = self.others_now.take() else { return };
        for (link, others) in self.links.iter_mut().zip(others.iter()) {
            let ratio = link.busy.take_ratio(MIN_EXPECTED, others * link.factor);
            // Never faster than the profile says.
            let ratio = ratio.map(|ratio| ratio.max(link.base_factor / link.factor));
            if let Some(ratio) = ratio.and_then(|ratio| link.drift.add(ratio)) {
                report(link.link.index as u32, ratio * link.factor);
            }
        }
    }

    /// A call has failed: nothing of it counts.
    pub(super) fn discard_call(&mut self) {
        self.others_now = None;
    }

    /// A new generation begins: the factors are others.
    pub(super) fn set_factors(&mut self, factor: impl Fn(&GroupLink) -> f64) {
        for link in &mut self.links {
            link.factor = factor(&link.link);
            link.drift.reset();
        }
        self.others.forget();
    }
}

#[cfg(test)]
mod tests {
    use treepie_collectives::registry::{self, CollectiveSpec};
    use treepie_model::profile::LevelProfile;
    use treepie_schedule::Operation;

    use super::*;
    use crate::collective::BlockCounts;

    /// Two clusters of two ranks, with links of 10 bytes per microsecond and no latency.
    fn meter(rank: u32) -> LinkMeter {
        let network: Network = "clusters:2x2".parse().unwrap();
        let mut profile = Profile::network();
        let link = treepie_model::plogp::PLogP::from_latency_bandwidth(0.0, 10.0);
        profile.levels[0].groups = vec![2, 2];
        profile.levels.push(LevelProfile::new("wan", link));
        LinkMeter::new(rank, &network, &Rc::new(profile), 4 << 10).unwrap()
    }

    /// A call of 100 kB, and its schedule.
    type Scheduled = (CollectiveCall<'static>, Box<dyn Schedule>);

    fn scheduled(id: &str, operation: Operation, counts: BlockCounts<'static>) -> Scheduled {
        let network: Network = "clusters:2x2".parse().unwrap();
        let call = CollectiveCall {
            operation,
            counts,
            element: 1,
            align: 1,
            commutative: true,
            predefined: None,
            in_place: false,
            user_in_place: false,
        };
        (call, registry::build(id, &CollectiveSpec::new(operation, &network)).unwrap())
    }

    fn bcast() -> Scheduled {
        scheduled("bcast/hierarchical", Operation::Bcast { root: 0 }, BlockCounts::Vector(100_000))
    }

    /// A call with one message of 100 kB, which takes so long; what it reports.
    fn call(meter: &mut LinkMeter, (call, schedule): &Scheduled, to: u32, micros: u64) -> Vec<(u32, f64)> {
        let time = Duration::from_micros;
        meter.begin_call(call, &**schedule);
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
        let bcast = bcast();
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
    fn a_link_that_ranks_share_is_slow_if_it_is_slow_for_all_of_them() {
        let mut meter = meter(0);
        // Each rank sends 50 kB to each rank of the other cluster: 10 ms for its own, and 10 ms for the other's.
        let alltoall = scheduled("alltoall/pairwise", Operation::Alltoall, BlockCounts::Uniform(50_000));
        // The last one has waited for all of them, or for its own only.
        assert!((0..20).all(|call_of| call(&mut meter, &alltoall, 2, [20_000, 10_000][call_of % 2]).is_empty()));
        let reports: Vec<_> = (0..3).flat_map(|_| call(&mut meter, &alltoall, 2, 80_000)).collect();
        assert!(matches!(reports[..], [(1, factor)] if (factor - 4.0).abs() < 0.01), "{reports:?}");
        // In the next generation a message that has not met the others is no sign of a faster link.
        meter.set_factors(|_| 4.0);
        assert!((0..20).all(|_| call(&mut meter, &alltoall, 2, 40_000).is_empty()));
        let reports: Vec<_> = (0..3).flat_map(|_| call(&mut meter, &alltoall, 2, 20_000)).collect();
        assert!(matches!(reports[..], [(1, factor)] if (factor - 2.0).abs() < 0.01), "{reports:?}");
    }

    #[test]
    fn links_within_a_cluster_and_those_with_unknown_messages_are_not_slow() {
        let mut meter = meter(0);
        let counts = BlockCounts::LocalOnly(&[50_000; 4], &[50_000; 4]);
        let alltoallv = scheduled("alltoall/pairwise", Operation::Alltoall, counts);
        for _ in 0..10 {
            assert_eq!(call(&mut meter, &alltoallv, 2, 400_000), []);
            assert_eq!(call(&mut meter, &bcast(), 1, 40_000), []);
        }
        // What others send is counted once for calls that are alike, also if their schedules are made anew.
        assert_eq!(meter.others.calls.len(), 2);
        // A call that fails counts as none.
        let (bcast, schedule) = bcast();
        meter.begin_call(&bcast, &*schedule);
        let send = meter.issued(2, 100_000, Duration::ZERO);
        meter.completed(send, SendWait::Transfer(Duration::ZERO), Duration::from_secs(1));
        meter.discard_call();
        meter.end_call(|link, factor| panic!("link {link}: {factor}"));
        meter.set_factors(|_| 1.0);
        assert!(meter.others.calls.is_empty(), "another generation has other algorithms");
    }
}
