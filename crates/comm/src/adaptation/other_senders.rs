//! What other ranks send over the links of this one: several ranks of a cluster may share a link in a call.

use std::collections::HashMap;
use std::rc::Rc;

use treepie_model::Profile;
use treepie_schedule::{BufferMap, Operation, RoundList, Schedule, ScheduleOp};
use treepie_topology::{Clusters, GroupLink, Network};

use crate::collective::{BlockCounts, CollectiveCall};

/// Of larger groups it is not counted what their ranks send.
const MAX_GROUP: usize = 64;

/// The times are kept of this number of calls that differ; then they are counted anew.
const MAX_CALLS: usize = 256;

/// Other ranks of the outermost group of a rank, which may send over the same links.
pub(super) struct OtherSenders {
    ranks: Vec<u32>,
    pub(super) calls: HashMap<CallKey, Rc<[f64]>>,
}

/// What the messages of all ranks in a call follow from, in a generation.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct CallKey {
    operation: Operation,
    counts: (usize, Box<[usize]>, Box<[usize]>),
    element: usize,
    commutative: bool,
    in_place: bool,
}

impl CallKey {
    fn new(call: &CollectiveCall<'_>) -> Self {
        let CollectiveCall { operation, element, commutative, in_place, .. } = *call;
        let (elements, input, output) = call.counts.key();
        Self { operation, counts: (elements, input.into(), output.into()), element, commutative, in_place }
    }
}

impl OtherSenders {
    pub(super) fn new(rank: u32, network: &Network, clusters: &Clusters) -> Self {
        let top = clusters.levels() - 1;
        let group = |rank| clusters.group_of(top, network.node_of(rank));
        let ranks = (0..network.ranks()).filter(|other| *other != rank && group(*other) == group(rank)).collect();
        Self { ranks, calls: HashMap::new() }
    }

    /// Whether a rank of these clusters is in a group that is too large.
    pub(super) fn are_too_many(clusters: &Clusters) -> bool {
        let top = clusters.levels() - 1;
        (0..clusters.groups(top)).any(|group| clusters.group_members(top, group).len() > MAX_GROUP)
    }

    /// The time that each of the links is busy with messages of other ranks in a call, at most, as the profile has it
    /// for the level. Infinite where that is not known.
    pub(super) fn times<'a>(
        &mut self,
        call: &CollectiveCall<'_>,
        schedule: &dyn Schedule,
        (profile, network): (&Profile, &Network),
        links: impl ExactSizeIterator<Item = &'a GroupLink>,
    ) -> Rc<[f64]> {
        if self.ranks.is_empty() || self.ranks.len() >= MAX_GROUP {
            return vec![if self.ranks.is_empty() { 0.0 } else { f64::INFINITY }; links.len()].into();
        }
        let key = CallKey::new(call);
        if let Some(known) = self.calls.get(&key) {
            return known.clone();
        }
        let clusters = network.as_clusters().expect("only links of clusters are measured");
        let places: HashMap<usize, usize> = links.enumerate().map(|(place, link)| (link.index, place)).collect();
        let mut times = vec![0.0; places.len()];
        self.each_send(call, schedule, |from, to, bytes| {
            let link = clusters.link_between(network.node_of(from), network.node_of(to));
            let Some((link, place)) = link.and_then(|link| Some((link, *places.get(&link.index)?))) else { return };
            let time = |bytes| profile.level(link.level as usize).link.gap.at(bytes as f64);
            times[place] += bytes.map_or(f64::INFINITY, time);
        });
        let times: Rc<[f64]> = times.into();
        if self.calls.len() == MAX_CALLS {
            self.calls.clear();
        }
        self.calls.insert(key, times.clone());
        times
    }

    /// Visits what these ranks send in a call: sender, receiver, and the bytes if this rank knows them.
    fn each_send(
        &self,
        call: &CollectiveCall<'_>,
        schedule: &dyn Schedule,
        mut each: impl FnMut(u32, u32, Option<usize>),
    ) {
        let are_counts_known = !matches!(call.counts, BlockCounts::LocalOnly(..));
        let layouts = &call.counts.layouts(schedule.blocks());
        let mut list = RoundList::new();
        for &rank in &self.ranks {
            let map = BufferMap { schedule, layouts, rank };
            for phase in 0..schedule.phases() {
                for lane in 0..schedule.phase(phase).lanes {
                    list.clear();
                    schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut list);
                    for op in list.iter().flatten() {
                        let ScheduleOp::Send { to, part } = *op else { continue };
                        each(rank, to, are_counts_known.then(|| map.range_len(part) * call.element));
                    }
                }
            }
        }
    }

    /// A new generation begins: other algorithms are chosen.
    pub(super) fn forget(&mut self) {
        self.calls.clear();
    }
}
