//! Adaptation: choices follow links that become slower or faster while a program runs.
//!
//! An adaptive handle ([`Comm::adaptive`]) measures the links between clusters by the messages of its blocking
//! collective operations ([`meter`]), and compares them with what the profile predicts ([`drift`]). A rank on whose
//! link they have drifted apart reports the link to rank 0. From time to time rank 0 announces what has changed, and
//! all ranks choose by the changed profile from the same operation on: that is a *generation* ([`agreement`]).
//!
//! ```text
//! operation   0                8                16               24
//!             |................|................|................|...
//! reports     ----+---+------->|                |
//! announced                    +===============>|                        a nonblocking broadcast, during the program's
//! applied                                       +-- next generation      own operations
//! ```
//!
//! Operations have the same numbers on all ranks, so all of them take the steps at the same operations: blocking ones,
//! also if a rank refuses its call. In checked mode they compare their calls first, so that no rank takes a step in a
//! call that is not blocking on another one. Rank 0
//! announces that nothing changes, too: a rank cannot tell otherwise whether an announcement is still in flight. It is
//! in flight while the ranks run eight operations of the program, so that it has usually arrived when it is needed. If
//! it has not, ranks wait for it before they begin the operation. No program that is correct deadlocks by that: a
//! collective operation may synchronize, so a rank that waits in one may wait for all others to call it, and each rank
//! that has called it has taken part in the announcement, which progresses whenever a rank is in the library.
//!
//! If a rank is lost, the broadcast fails as any other. Ranks that have its result and those that do not would choose
//! differently from then on, so the latter refuse all further operations of the handle, and tell the others so.

mod agreement;
mod drift;
mod meter;
mod other_senders;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use treepie_base::{ANY_SOURCE, Error, Result, Tag};
use treepie_fabric::AbortReason;
use treepie_model::Profile;
use treepie_model::profile::PairFactors;
use treepie_topology::{Clusters, GroupLink};

use crate::collective::{CallMode, CollectiveCall, Collectives};
use crate::comm::Comm;
use crate::protocol;
use crate::request::Request;
use agreement::{AgreementClock, Reports, Step, announcement_len, changes, encode};
use meter::LinkMeter;
pub(crate) use meter::{PendingSend, SharedMeter};
use other_senders::OtherSenders;

/// The tag of reports.
const REPORT: Tag = 1;

/// What an adaptive handle has.
pub(crate) struct Adaptation {
    /// The communicator of reports and announcements.
    control: Comm,
    /// The handle that was made adaptive.
    plain: Comm,
    base: Rc<Profile>,
    clusters: Clusters,
    meter: SharedMeter,
    /// The handle of this generation.
    current: RefCell<Comm>,
    generation: Cell<u32>,
    state: RefCell<AgreementState>,
}

struct AgreementState {
    clock: AgreementClock,
    /// Announcements that are in flight, the first one first.
    announcements: VecDeque<Request<'static, Vec<u64>>>,
    /// On rank 0.
    reports: Reports,
    /// Factors that differ from those of the base, by the index of the link.
    factors: BTreeMap<u32, f64>,
    /// Why ranks may no longer agree.
    failed: Option<Error>,
}

impl Comm {
    /// A handle of the same communicator whose choices follow links that become slower or faster. All ranks call it,
    /// in the same order, and use an adaptive handle in the same calls.
    ///
    /// Its blocking collective operations measure the links between clusters by their own messages. Where these take
    /// 1.5 times longer than predicted in three operations in a row, or are as fast again, the profile changes, on all
    /// ranks at the same operation, and with it the choice of algorithms. Nonblocking operations are chosen alike, but
    /// measure nothing; a persistent one keeps the algorithm with which it was made. On networks without clusters
    /// nothing is measured.
    ///
    /// Results do not depend on the choice, except that reductions of floating-point numbers may round differently.
    /// Handles and communicators that are made from this one, and [`profile`](Self::profile), do not adapt; see
    /// [`adapted`](Self::adapted). `TREEPIE_ADAPT=1` makes the world adaptive.
    ///
    /// ```
    /// # fn run(world: &treepie_comm::Comm) -> treepie_comm::Result<()> {
    /// let world = world.adaptive()?;
    /// let mut data = vec![0_u64; 1 << 17];
    /// for _ in 0..100 {
    ///     world.bcast(&mut data, 0)?;
    /// }
    /// println!("choices have changed {} times", world.generation());
    /// # Ok(())
    /// # }
    /// ```
    pub fn adaptive(&self) -> Result<Comm> {
        let plain = self.adapted();
        let control = plain.dup()?.unchecked();
        let network = plain.network()?;
        let levels = network.as_clusters().map_or(0, |clusters| clusters.levels() + 1);
        // Links of each level change by themselves.
        let base = Rc::new(plain.profile().with_levels(levels as usize));
        // On one machine the network that was set does not determine costs.
        let is_measured = self.ranks_per_core().is_none() && network.ranks() as usize == self.size();
        let meter = LinkMeter::new(self.rank() as u32, network, &base, self.eager_limit()).filter(|_| is_measured);
        // A single cluster has no link to another.
        let clusters = network.as_clusters().filter(|clusters| clusters.count() > 1).cloned();
        let (Some(clusters), Some(meter)) = (clusters, meter) else { return Ok(plain) };
        if OtherSenders::are_too_many(&clusters) {
            protocol::log_choice(&plain, "links of groups with more than 64 ranks are not found to be slower");
        }
        let meter = Rc::new(RefCell::new(meter));
        let state = AgreementState {
            clock: AgreementClock::new(self.inner.instances.get()),
            announcements: VecDeque::new(),
            reports: Reports::default(),
            factors: BTreeMap::new(),
            failed: None,
        };
        let current = RefCell::new(measuring(&plain, base.clone(), &meter));
        let (generation, state) = (Cell::new(0), RefCell::new(state));
        let choice = plain.collectives.choice.clone();
        let adaptation = Adaptation { control, plain, base, clusters, meter, current, generation, state };
        Ok(self.with_collectives(Collectives::new(choice).adapting(adaptation)))
    }

    /// How often the choices of an adaptive handle have changed: the same on all ranks between the same two blocking
    /// operations. 0 for other handles.
    pub fn generation(&self) -> u32 {
        self.collectives.adaptation.as_ref().map_or(0, |adaptation| adaptation.generation.get())
    }

    /// Whether the choices of this handle follow the links.
    pub fn is_adaptive(&self) -> bool {
        self.collectives.adaptation.is_some()
    }

    /// A handle of the same communicator that chooses as this one does now, and does not adapt: its
    /// [`profile`](Self::profile) is that of this generation.
    pub fn adapted(&self) -> Comm {
        self.chooser().map_or_else(|| self.clone(), |current| current.with_choice(current.collectives.choice.clone()))
    }

    /// The handle that chooses for this one, if that is another.
    pub(crate) fn chooser(&self) -> Option<Comm> {
        Some(self.collectives.adaptation.as_ref()?.current())
    }

    /// Runs a blocking call with the handle of the generation that is valid for it.
    pub(crate) fn run_adapted(
        &self,
        adaptation: &Adaptation,
        call: &CollectiveCall<'_>,
        run: impl FnOnce(&Comm) -> Result<()>,
    ) -> Result<()> {
        let before = adaptation.current();
        let _compared = before.compare_call(&[call.operation], || call.describe(CallMode::Blocking))?;
        self.step_adaptation(adaptation);
        if let Err(error) = adaptation.check() {
            return Err(self.refuse_call(error));
        }
        let result = run(&adaptation.current());
        match result {
            Ok(()) => adaptation.report_drifts(),
            Err(_) => adaptation.meter.borrow_mut().discard_call(),
        }
        result
    }

    /// Takes the steps of the agreement that are due before the next operation, a blocking one.
    fn step_adaptation(&self, adaptation: &Adaptation) {
        // If an operator of another operation panics while this rank waits, its call takes its number nevertheless.
        let interrupted = Interrupted { comm: self, adaptation };
        adaptation.step(self.inner.instances.get());
        std::mem::forget(interrupted);
    }

    /// The blocking call, unless its arguments are refused; then other ranks learn of it, and this rank takes the steps
    /// of the agreement on choices that they take.
    #[inline]
    pub(crate) fn accept_blocking<C>(&self, call: Result<C>) -> Result<C> {
        if call.is_err()
            && let Some(adaptation) = &self.collectives.adaptation
            && !self.needs_comparison()
        {
            self.step_adaptation(adaptation);
        }
        self.accept(call)
    }

    /// Takes the instance number of a blocking operation that does not take place on this rank, or on any.
    pub(crate) fn skip_blocking(&self) -> u32 {
        if let Some(adaptation) = &self.collectives.adaptation {
            self.step_adaptation(adaptation);
        }
        self.next_instance()
    }
}

/// The handle of a generation: it chooses by a profile, and measures links.
fn measuring(plain: &Comm, profile: Rc<Profile>, meter: &SharedMeter) -> Comm {
    let choice = plain.with_profile(profile).collectives.choice.clone();
    plain.with_collectives(Collectives::new(choice).measuring(meter))
}

/// An operation whose agreement is in progress.
struct Interrupted<'a> {
    comm: &'a Comm,
    adaptation: &'a Adaptation,
}

impl Drop for Interrupted<'_> {
    fn drop(&mut self) {
        let error = Error::Engine("a panic has interrupted the agreement of ranks on their choices".to_owned());
        self.adaptation.state.borrow_mut().failed = Some(error.clone());
        self.comm.refuse_call(error);
    }
}

impl Adaptation {
    /// The handle of this generation.
    pub(crate) fn current(&self) -> Comm {
        self.current.borrow().clone()
    }

    /// An error if this rank may choose differently from others.
    pub(crate) fn check(&self) -> Result<()> {
        self.state.borrow().failed.clone().map_or(Ok(()), Err)
    }

    /// Takes the steps that are due before the operation with this number.
    fn step(&self, instance: u32) {
        while self.check().is_ok() {
            let step = self.state.borrow_mut().clock.step(instance);
            let result = match step {
                None => return,
                Some(Step::Announce) => self.announce(),
                Some(Step::Apply) => self.apply(instance),
            };
            if let Err(error) = result {
                self.state.borrow_mut().failed = Some(error);
            }
        }
    }

    /// Starts an announcement.
    fn announce(&self) -> Result<()> {
        let len = announcement_len(self.clusters.num_group_links());
        let mut announcement = vec![0; len];
        if self.control.rank() == 0 {
            let mut unannounced = Unannounced { control: &self.control, why: AbortReason::Unspecified };
            let taken = self.take_reports();
            unannounced.why = taken.as_ref().err().map_or(unannounced.why, AbortReason::from_error);
            taken?;
            std::mem::forget(unannounced);
            let AgreementState { reports, factors, .. } = &mut *self.state.borrow_mut();
            announcement = reports.take_announcement(len, |link| self.factor(factors, link));
        }
        let request = self.control.ibcast(announcement, 0)?;
        self.state.borrow_mut().announcements.push_back(request);
        Ok(())
    }

    /// Takes what other ranks have reported so far.
    fn take_reports(&self) -> Result<()> {
        while let Some(message) = self.control.improbe(ANY_SOURCE, REPORT)? {
            let words = message.recv_vec::<u64>()?;
            words.into_iter().for_each(|word| self.state.borrow_mut().reports.add(word));
        }
        Ok(())
    }

    /// Waits for the announcement. If it changes something, a generation begins.
    fn apply(&self, instance: u32) -> Result<()> {
        let request = self.state.borrow_mut().announcements.pop_front();
        let announcement = request.expect("its announcement was the step before").wait()?;
        let mut state = self.state.borrow_mut();
        if changes(&announcement).next().is_none() {
            return Ok(());
        }
        state.factors.extend(changes(&announcement));
        let profile = self.profile(&state.factors);
        self.meter.borrow_mut().set_factors(|link| self.factor(&state.factors, link.index as u32));
        self.current.replace(measuring(&self.plain, Rc::new(profile), &self.meter));
        self.generation.set(self.generation.get() + 1);
        for (link, factor) in changes(&announcement) {
            let Some(GroupLink { level, from, to, .. }) = group_link(&self.clusters, link) else { continue };
            let generation = self.generation.get();
            protocol::log_choice(
                &self.plain,
                format_args!(
                    "generation {generation} from operation {instance} on: bytes from group {from} to {to} of level \
                     {level} take {factor:.2} times as long as the level's"
                ),
            );
        }
        Ok(())
    }

    /// The factor of a link in a generation.
    fn factor(&self, factors: &BTreeMap<u32, f64>, index: u32) -> f64 {
        factors.get(&index).copied().unwrap_or_else(|| {
            let link = group_link(&self.clusters, index);
            link.map_or(1.0, |GroupLink { level, from, to, .. }| self.base.level(level as usize).factors(from, to).1)
        })
    }

    /// The profile of a generation.
    fn profile(&self, factors: &BTreeMap<u32, f64>) -> Profile {
        let mut profile = Profile::clone(&self.base);
        for (&index, &bytes) in factors {
            let Some(GroupLink { level, from, to, .. }) = group_link(&self.clusters, index) else { continue };
            let pairs = &mut profile.levels[level as usize].pairs;
            match pairs.binary_search_by_key(&(from, to), |pair| (pair.from, pair.to)) {
                Ok(at) => pairs[at].bytes = bytes,
                Err(at) => pairs.insert(at, PairFactors { from, to, latency: 1.0, bytes }),
            }
        }
        profile
    }

    /// Tells rank 0 of links whose time has drifted. It never waits: a report that cannot be sent is repeated by later
    /// operations.
    fn report_drifts(&self) {
        let rank = self.control.rank();
        self.meter.borrow_mut().end_call(|link, factor| {
            let word = encode(link, factor);
            if rank == 0 {
                self.state.borrow_mut().reports.add(word);
            } else {
                // A request that is dropped completes by itself.
                drop(self.control.isend(vec![word], 0, REPORT));
            }
        });
    }
}

/// An announcement that rank 0 has not started: if an error or a panic prevents it, others must not wait for it.
struct Unannounced<'a> {
    control: &'a Comm,
    why: AbortReason,
}

impl Drop for Unannounced<'_> {
    fn drop(&mut self) {
        self.control.abort_operation(self.control.next_instance(), self.why);
    }
}

/// The link with an index.
fn group_link(clusters: &Clusters, index: u32) -> Option<GroupLink> {
    let mut below = 0;
    for level in 1..=clusters.levels() {
        let groups = clusters.groups(level - 1) as usize;
        let at = index as usize - below;
        if at < groups * groups {
            let (from, to) = ((at / groups) as u32, (at % groups) as u32);
            return Some(GroupLink { level, from, to, index: index as usize });
        }
        below += groups * groups;
    }
    None
}

#[cfg(test)]
mod tests {
    use treepie_topology::Network;

    use super::*;

    #[test]
    fn links_are_found_by_their_index() {
        for network in ["clusters:4x2", "clusters:2x3x2", "clusters:3+1+2"] {
            let network: Network = network.parse().unwrap();
            let clusters = network.as_clusters().unwrap();
            for from in 0..network.ranks() {
                for link in (0..network.ranks()).filter_map(|to| clusters.link_between(from, to)) {
                    assert_eq!(group_link(clusters, link.index as u32), Some(link));
                }
            }
            assert_eq!(group_link(clusters, clusters.num_group_links() as u32), None);
        }
    }
}
