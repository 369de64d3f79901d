//! Candidates over hosts: within each through the segment that its ranks share, among their leaders by messages.
//!
//! The predicted time is that of the leaders' algorithm on their network, and of a reduction, gather or broadcast of one
//! round within the largest host before and after it.

use treepie_collectives::hierarchy::Hosts;
use treepie_collectives::registry::{self, Algorithm, CollectiveSpec, Parameter};
use treepie_model::closed_form::Arguments;
use treepie_model::predict::{MessageCosts, Prediction};
use treepie_schedule::{BlockLayout, BlockLayouts, Operation};
use treepie_topology::Network;

use super::transport::predict_shared;
use super::{Candidate, ChoiceInput, HostSlots, Resources, Transport, variants};

/// Whether an algorithm has phases within hosts that can use their segments.
pub(super) fn is_over_hosts(algorithm: &Algorithm) -> bool {
    algorithm.parameters.contains(&Parameter::Inter)
}

impl ChoiceInput<'_> {
    /// The candidates of an algorithm over hosts, with each algorithm of their leaders, the fastest first.
    pub(super) fn candidates_over_hosts(&self, algorithm: &'static Algorithm) -> Vec<Candidate> {
        if !is_over_hosts(algorithm) || self.resources.host_slots.is_none() {
            return Vec::new();
        }
        self.over_hosts(algorithm).unwrap_or_default()
    }

    /// Calls a function with the hosts and what their leaders choose from.
    fn with_leaders<R>(&self, then: impl FnOnce(&Hosts, &ChoiceInput<'_>) -> Option<R>) -> Option<R> {
        let hosts = Hosts::new(self.spec.network, self.spec.operation.root())?;
        let network = self.spec.network.subnetwork(hosts.leaders());
        let leaders = ChoiceInput {
            spec: registry::spec_of_leaders(&self.spec, &hosts, &network),
            costs: match self.costs.cores() {
                Some(_) => self.costs_on_machine(&network),
                None => MessageCosts::on_network(self.costs.profile(), &network).farthest(),
            },
            resources: Resources::default(),
            ..*self
        };
        then(&hosts, &leaders)
    }

    /// The number of segments of the leaders' algorithm that is given, or the default one.
    pub(super) fn segments_of_leaders(&self, given: &Arguments<'_>) -> Option<u32> {
        let name = if given.inter.is_empty() { registry::default_inter(self.spec.operation)? } else { given.inter };
        let inter = registry::find(&format!("{}/{name}", self.spec.operation.name())).ok()?;
        self.with_leaders(|_, leaders| Some(leaders.segments_of(inter, given)))
    }

    /// The number of segments among leaders. Formulas know no ports of hosts, but each leader has one for itself.
    fn segments_of(&self, inter: &Algorithm, given: &Arguments<'_>) -> u32 {
        if !self.spec.network.has_hosts() {
            return variants::segments(self, inter, given);
        }
        let network = &Network::flat(self.spec.ranks);
        let costs = MessageCosts::on_network(self.costs.profile(), network).farthest();
        let costs = if self.costs.cores().is_some() { self.costs } else { costs };
        let on_flat = ChoiceInput { spec: CollectiveSpec { network, ..self.spec }, costs, ..*self };
        variants::segments(&on_flat, inter, given)
    }

    fn over_hosts(&self, algorithm: &'static Algorithm) -> Option<Vec<Candidate>> {
        self.with_leaders(|hosts, leaders| self.candidates_of_leaders(algorithm, hosts, leaders))
    }

    fn candidates_of_leaders(
        &self,
        algorithm: &'static Algorithm,
        hosts: &Hosts,
        leaders: &ChoiceInput<'_>,
    ) -> Option<Vec<Candidate>> {
        let within = self.time_within(hosts.sizes().max()?)?;
        let candidate = |inter: &'static Algorithm| {
            let base = Arguments::default();
            let arguments = Arguments { segments: leaders.segments_of(inter, &base), ..base };
            let among = leaders.predict_messages(inter, &arguments)?;
            let prediction = within + among;
            let arguments = Arguments { inter: inter.name(), ..arguments };
            Some(Candidate { algorithm, arguments, transport: Transport::Hosts, prediction })
        };
        let inter = registry::applicable(&leaders.spec).into_iter().filter(|inter| !is_over_hosts(inter));
        let mut all: Vec<Candidate> = inter.filter_map(candidate).collect();
        all.retain(|candidate| registry::build(&candidate.id(), &self.spec).is_ok());
        all.sort_by(|one, other| one.prediction.total().total_cmp(&other.prediction.total()));
        Some(all)
    }

    /// The time of the phases within a host of this number of ranks.
    fn time_within(&self, ranks: u32) -> Option<Prediction> {
        let of_host = self.bytes * u64::from(ranks) / u64::from(self.spec.ranks);
        let all = self.bytes;
        let phases: &[(&str, Operation, u64)] = match self.spec.operation {
            Operation::Bcast { .. } => &[("bcast/flat", Operation::Bcast { root: 0 }, all)],
            Operation::Reduce { .. } => &[("reduce/flat", Operation::Reduce { root: 0 }, all)],
            Operation::Allreduce => &[
                ("reduce/flat", Operation::Reduce { root: 0 }, all),
                ("bcast/flat", Operation::Bcast { root: 0 }, all),
            ],
            Operation::Allgather => &[
                ("gather/flat", Operation::Gather { root: 0 }, of_host),
                ("bcast/flat", Operation::Bcast { root: 0 }, all),
            ],
            _ => &[("bcast/flat", Operation::Bcast { root: 0 }, 0), ("bcast/flat", Operation::Bcast { root: 0 }, 0)],
        };
        phases.iter().try_fold(Prediction::default(), |sum, (id, operation, bytes)| {
            Some(sum + self.phase_within(id, *operation, *bytes, ranks)?)
        })
    }

    fn phase_within(&self, id: &str, operation: Operation, bytes: u64, ranks: u32) -> Option<Prediction> {
        let network = Network::flat(ranks);
        let schedule = registry::build(id, &CollectiveSpec::new(operation, &network)).ok()?;
        let elements = (bytes / self.element.max(1)) as usize;
        let layouts = BlockLayouts::symmetric(BlockLayout::Even { total: elements, blocks: schedule.blocks() });
        let costs = self.costs_on_machine(&network);
        let HostSlots { slots, .. } = self.resources.host_slots.as_ref()?;
        let transports = predict_shared(&*schedule, &layouts, (self.element as f64, false), &costs, slots)?;
        transports
            .into_iter()
            .map(|(prediction, _)| prediction)
            .min_by(|one, other| one.total().total_cmp(&other.total()))
    }

    /// The costs of some ranks of one machine.
    fn costs_on_machine<'a>(&'a self, network: &'a Network) -> MessageCosts<'a> {
        let of_hosts = self.resources.host_slots.map_or(1.0, |hosts| f64::from(hosts.ranks_per_core));
        MessageCosts::on_machine(self.costs.profile(), network, self.costs.ranks_per_core().max(of_hosts))
    }
}
