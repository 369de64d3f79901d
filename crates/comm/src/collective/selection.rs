//! Algorithm selection. In this order: the algorithm set on the handle, the one named by the environment, or by its
//! rules, the one returned by a selector, the cheapest by the cost model. All ranks select the same, as the selection
//! depends only on what all of them know.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use treepie_base::{Error, Result, environment};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_model::Profile;
use treepie_model::predict::MessageCosts;
use treepie_schedule::{Operation, Schedule};
use treepie_topology::{Network, NetworkKind};

use super::call::{BlockCounts, CollectiveCall};
use super::decisions::{Decision, DecisionKey, MachineOf, decide, decide_once, insert};
use super::machine_profile;
use super::rules;
use super::selector::{AlgorithmSelector, SelectionQuery};
use crate::checked::name_profile;
use crate::choice::{Candidate, ChoiceInput, Resources, Transport, size_class};
use crate::comm::Comm;
use crate::members::Members;
use crate::protocol;

/// The part of a communicator handle that guides the selection of algorithms.
#[derive(Clone, Default)]
pub(crate) struct AlgorithmChoice {
    /// Ids of algorithms to use for their operations.
    ids: Vec<String>,
    /// The network of the ranks, if one was set.
    network: Option<Rc<Network>>,
    /// The network of a communicator from which this one was created, and its ranks.
    inherited: Option<(Rc<Network>, Rc<Members>)>,
    /// The profile of the machine, if one was set.
    pub(super) profile: Option<Rc<Profile>>,
    /// The transport to use where the algorithm can, if one was set.
    transport: Option<Transport>,
    /// Selector that replaces the cost model.
    selector: Option<Rc<dyn AlgorithmSelector>>,
    /// Whether ranks compare their calls.
    pub(crate) checked: bool,
}

impl AlgorithmChoice {
    /// The same for other ranks, whose network is unknown.
    pub(crate) fn without_network(&self) -> Self {
        Self { network: None, inherited: None, ..self.clone() }
    }

    /// The same for some of these ranks.
    pub(crate) fn inherited(&self, members: &Rc<Members>) -> Self {
        let inherited = self.network.as_ref().map(|network| (network.clone(), members.clone()));
        // Of a distributed table each rank knows another part, and ranks must not choose differently.
        let inherited = inherited.filter(|(_, members)| members.is_fully_known());
        let inherited = if self.network.is_some() { inherited } else { self.inherited.clone() };
        Self { network: None, inherited, ..self.clone() }
    }

    /// The id set for an operation, if any. An error if the environment names an algorithm that does not exist.
    pub(super) fn id_for(&self, operation: Operation) -> Result<Option<&str>> {
        self.id_for_family(operation.name())
    }

    /// The same for the family, the part of an id before the slash.
    pub(crate) fn id_for_family(&self, family: &str) -> Result<Option<&str>> {
        let is_for = |id: &&String| id.split('/').next() == Some(family);
        let on_handle = self.ids.iter().rev().find(is_for);
        let id = if on_handle.is_some() { on_handle } else { from_environment()?.iter().find(is_for) };
        Ok(id.map(String::as_str))
    }
}

/// The ids in `TREEPIE_ALGORITHM`.
fn from_environment() -> Result<&'static [String]> {
    static IDS: OnceLock<Result<Vec<String>>> = OnceLock::new();
    let ids = IDS.get_or_init(|| {
        let text = environment::text(environment::ALGORITHM)?.unwrap_or_default();
        let ids = parse_list(&text);
        match ids.iter().find_map(|id| check_id(id).err()) {
            Some(refusal) => Err(environment::invalid_value(environment::ALGORITHM, &text, refusal.to_string())),
            None => Ok(ids),
        }
    });
    ids.as_deref().map_err(Clone::clone)
}

/// The network named by `TREEPIE_NETWORK`, for this number of ranks, if the variable is set.
fn network_from_environment(ranks: u32) -> Result<Option<Network>> {
    /// The text, and the network or why it is none. A file is read once: it may change while ranks run.
    type Loaded = Option<(String, treepie_topology::Result<Network>)>;
    static LOADED: OnceLock<Result<Loaded>> = OnceLock::new();
    let load = || {
        let text = environment::text(environment::NETWORK)?;
        Ok(text.map(|text| {
            let network = Network::load(&text);
            (text, network)
        }))
    };
    let Some((text, network)) = LOADED.get_or_init(load).as_ref().map_err(Clone::clone)? else { return Ok(None) };
    let network = network.clone().and_then(|network| network.for_ranks(ranks));
    network.map(Some).map_err(|error| environment::invalid_value(environment::NETWORK, text, error.to_string()))
}

/// Refuses invalid environment variables of this crate and of the crates below it before a world of `ranks` ranks
/// starts, so that no run fails in the middle. The network is not checked where the number of ranks is unknown or the
/// environment's network does not apply.
pub fn check_environment(ranks: Option<u32>) -> Result<()> {
    environment::check()?;
    from_environment()?;
    machine_profile::from_environment()?;
    rules::from_environment()?;
    match (ranks, environment::text(environment::NETWORK)?) {
        (Some(ranks), Some(_)) => network_from_environment(ranks).map(drop),
        _ => Ok(()),
    }
}

/// Refuses the id of an unknown algorithm.
fn check_id(id: &str) -> Result<()> {
    protocol::check_name(id)
        .unwrap_or_else(|| registry::find(id).map(drop).map_err(|refusal| Error::Algorithm(refusal.to_string())))
}

/// A number that two profiles hardly ever share.
fn fingerprint(profile: &Profile) -> u64 {
    let mut hasher = DefaultHasher::new();
    profile.to_toml().hash(&mut hasher);
    hasher.finish()
}

fn parse_list(text: &str) -> Vec<String> {
    let ids = text.split([',', ' ']).filter(|id| !id.is_empty()).map(str::to_owned);
    // `bcast/chain:segments=4,window=8` contains commas.
    ids.fold(Vec::new(), |mut ids: Vec<String>, part| {
        match ids.last_mut() {
            Some(last) if !part.contains('/') => *last = format!("{last},{part}"),
            _ => ids.push(part),
        }
        ids
    })
}

impl Comm {
    /// A handle of the same communicator whose collective operations use this algorithm, for example `allgather/ring`,
    /// for its operation. `treepie algorithms` lists the ids. An unknown id is refused here, an algorithm that is not
    /// applicable is refused by the call. All ranks of a call must use the same algorithm.
    pub fn with_algorithm(&self, id: &str) -> Result<Comm> {
        check_id(id)?;
        let mut choice = self.collectives.choice.clone();
        choice.ids.push(id.to_owned());
        Ok(self.with_choice(choice))
    }

    /// The same with the transport of its data, to measure a candidate.
    #[doc(hidden)]
    pub fn with_candidate(&self, id: &str, transport: Transport) -> Result<Comm> {
        let mut choice = self.with_algorithm(id)?.collectives.choice.clone();
        choice.transport = Some(transport);
        Ok(self.with_choice(choice))
    }

    /// A handle of the same communicator whose collective operations assume this network: a short description, for
    /// example `torus:4x4`, or the path of a TOML file. All ranks of a call must use the same network.
    pub fn with_network(&self, network: &str) -> Result<Comm> {
        let network = Network::load(network).map_err(|error| Error::Algorithm(error.to_string()))?;
        self.on_network(Rc::new(network))
    }

    /// As [`with_network`](Self::with_network), for a network that is at hand and that ranks of one process share.
    #[doc(hidden)]
    pub fn on_network(&self, network: Rc<Network>) -> Result<Comm> {
        let ranks = self.size() as u32;
        let network = if network.ranks() == ranks {
            network
        } else {
            let sized = Rc::unwrap_or_clone(network).for_ranks(ranks);
            Rc::new(sized.map_err(|error| Error::Algorithm(error.to_string()))?)
        };
        let mut choice = self.collectives.choice.clone();
        choice.network = Some(network);
        Ok(self.with_choice(choice))
    }

    /// A handle of the same communicator whose algorithms are chosen by the costs of this profile. All ranks of a call
    /// must use the same profile.
    pub fn with_profile(&self, profile: Rc<Profile>) -> Comm {
        let mut choice = self.collectives.choice.clone();
        choice.profile = Some(profile);
        self.with_choice(choice)
    }

    /// A handle of the same communicator with a selector, which selects algorithms where neither
    /// [`with_algorithm`](Self::with_algorithm) nor the environment does. The selectors of all ranks of a call must
    /// return the same.
    pub fn with_selector(&self, selector: Rc<dyn AlgorithmSelector>) -> Comm {
        let mut choice = self.collectives.choice.clone();
        choice.selector = Some(selector);
        self.with_choice(choice)
    }

    /// The network of the ranks: the one set on the handle, or the one of `TREEPIE_NETWORK`, or a flat one.
    pub fn network(&self) -> Result<&Network> {
        if let Some(network) = &self.collectives.choice.network {
            return Ok(network);
        }
        let network = self.collectives.network.get_or_init(|| {
            let world = self.endpoint().size();
            let (of, base) = match &self.collectives.choice.inherited {
                Some((network, base)) => (Rc::clone(network), Rc::clone(base)),
                None => {
                    let network = match network_from_environment(world)? {
                        Some(network) => network,
                        None => machine_profile::network_of_world(self),
                    };
                    (Rc::new(network), Rc::new(Members::All { ranks: world }))
                }
            };
            Ok(self.part_of(&of, &base).unwrap_or_else(|| Network::flat(self.size() as u32)))
        });
        network.as_ref().map_err(Clone::clone)
    }

    /// Whether a flat network without hosts was set: on the handle, on the one from which its communicator was created,
    /// or by the environment.
    pub(super) fn is_set_flat(&self) -> bool {
        let is_flat = |network: &Network| matches!(network.kind(), NetworkKind::Flat(_)) && !network.has_hosts();
        let AlgorithmChoice { network, inherited, .. } = &self.collectives.choice;
        match network.as_ref().or(inherited.as_ref().map(|(network, _)| network)) {
            Some(network) => is_flat(network),
            None => network_from_environment(self.endpoint().size()).is_ok_and(|set| set.as_ref().is_some_and(is_flat)),
        }
    }

    /// The part of a network with the ranks `base` that has the ranks of this communicator. `None` where their table is
    /// distributed: no rank knows all of it.
    fn part_of(&self, network: &Network, base: &Members) -> Option<Network> {
        let members = &self.inner.members;
        let is_plain = matches!(network.kind(), NetworkKind::Flat(_)) && network.nodes_per_host() == 1;
        if is_plain || !members.is_fully_known() || !base.is_fully_known() {
            return None;
        }
        if let (Members::All { .. }, Members::All { .. }) = (&**members, base) {
            return Some(network.clone());
        }
        let ranks = (0..members.ranks()).map(|rank| base.known_rank(members.known_world_rank(rank)?)?);
        Some(network.subnetwork(&ranks.collect::<Option<Vec<u32>>>()?))
    }

    /// The network set on the handle, or that of the world from the environment, and this rank's position in it.
    pub(crate) fn network_and_rank(&self) -> Result<(Network, u32)> {
        let rank = self.rank() as u32;
        if let Some(network) = &self.collectives.choice.network {
            return Ok((Network::clone(network), rank));
        }
        if let Some((network, base)) = &self.collectives.choice.inherited {
            let known = base.known_rank(self.endpoint().rank()).flatten();
            return Ok((Network::clone(network), known.expect("a rank of this communicator is one of its parent's")));
        }
        let ranks = self.endpoint().size();
        let network = network_from_environment(ranks)?;
        let network = network.unwrap_or_else(|| machine_profile::network_of_world(self));
        Ok((network, self.endpoint().rank()))
    }

    /// The algorithms set for these operations, the network unless it is flat, and the profile if one was set, as text.
    /// Does not call the selector, which is called only once per call. Ignores errors, which the call reports.
    pub(crate) fn describe_choice(&self, operations: &[Operation]) -> String {
        let choice = &self.collectives.choice;
        let ids = operations.iter().filter_map(|operation| choice.id_for(*operation).ok().flatten());
        let ids: String = ids.map(|id| format!(" with {id}")).collect();
        let network = self.network().ok().filter(|network| !matches!(network.kind(), NetworkKind::Flat(_)));
        let network = network.map(|network| format!(" on {network}")).unwrap_or_default();
        let profile = choice.profile.as_ref().map(|profile| name_profile(fingerprint(profile)));
        ids + &network + &profile.unwrap_or_default()
    }

    /// The profile of the machine: the one set on the handle, or that of `TREEPIE_PROFILE`, or the engine's default.
    pub fn profile(&self) -> &Profile {
        if let Some(profile) = &self.collectives.choice.profile {
            return profile;
        }
        self.collectives.profile.get_or_init(|| machine_profile::of_ranks(self))
    }

    /// The costs of messages on a network of the ranks.
    pub fn message_costs<'a>(&'a self, network: &'a Network) -> MessageCosts<'a> {
        let costs = match self.ranks_per_core() {
            Some(sharing) => MessageCosts::on_machine(self.profile(), network, sharing),
            None => MessageCosts::on_network(self.profile(), network),
        };
        if self.is_placed() { costs } else { costs.farthest() }
    }

    /// Whether messages take the routes of the network. On one machine it is not that of the messages, and a distributed
    /// table has no network.
    fn is_placed(&self) -> bool {
        self.ranks_per_core().is_none() && self.inner.members.is_fully_known()
    }

    /// What choices depend on.
    fn machine<'a>(&'a self, network: &'a Network) -> MachineOf<'a> {
        let (profile, ranks_per_core) = (self.profile(), self.ranks_per_core());
        MachineOf { profile, network, ranks_per_core, is_placed: self.is_placed() }
    }

    /// The candidates for an operation of this communicator, the fastest first: what the choice compares. `bytes` are
    /// those of all blocks or of the vector, rounded up to their size class.
    pub fn candidates(&self, operation: Operation, bytes: u64, element: u64) -> Result<Vec<Candidate>> {
        if let Some(current) = self.chooser() {
            return current.candidates(operation, bytes, element);
        }
        let spec = CollectiveSpec::new(operation, self.network()?);
        let flat = Network::flat(spec.ranks);
        Ok(self.choice_input(&spec, size_class(bytes), element, self.resources(bytes as usize), &flat).candidates())
    }

    /// The algorithm that a call of this operation uses, set or chosen, with its arguments, and its predicted time over
    /// messages in microseconds, if that is known.
    pub fn prediction(&self, operation: Operation, bytes: u64, element: u64) -> Result<(String, Option<f64>)> {
        if let Some(current) = self.chooser() {
            return current.prediction(operation, bytes, element);
        }
        let spec = CollectiveSpec::new(operation, self.network()?);
        let flat = Network::flat(spec.ranks);
        let input = |bytes| self.choice_input(&spec, bytes, element, Resources::default(), &flat);
        // Calls of one class are chosen alike.
        let class = input(size_class(bytes));
        let id = match self.collectives.choice.id_for(operation)? {
            None => {
                let best = class.best().ok_or_else(|| Error::Algorithm(format!("no {} applies", operation.name())))?;
                best.id()
            }
            Some(id) => class.with_segments(id),
        };
        let time = input(bytes).predicted_over_messages(&id);
        Ok((id, time))
    }

    /// The predicted times over messages, in microseconds, of an allgather of two elements of each rank, by the
    /// algorithm that was set or the fastest one, and of one element by Bruck's. For elements of one size: they are
    /// predicted once. Where the network is refused, they are not known; a call reports why.
    pub(crate) fn allgathers_of_splits(&self, element: usize) -> [Option<f64>; 2] {
        *self.collectives.allgathers_of_splits.get_or_init(|| {
            let Ok(network) = self.network() else { return [None; 2] };
            let (spec, flat) = (CollectiveSpec::new(Operation::Allgather, network), Network::flat(network.ranks()));
            let all = |elements: usize| size_class((elements * element * self.size()) as u64);
            let input = |bytes| self.choice_input(&spec, bytes, element as u64, Resources::default(), &flat);
            let fastest = match self.collectives.choice.id_for(Operation::Allgather) {
                Ok(Some(id)) => input(all(2)).predicted_over_messages(id),
                _ => input(all(2)).best().map(|candidate| candidate.prediction.total()),
            };
            [fastest, input(all(1)).predicted_over_messages("allgather/bruck")]
        })
    }

    /// What a call of this number of bytes can use besides messages.
    fn resources(&self, bytes: usize) -> Resources {
        Resources {
            slots: self.slot_capacities(bytes),
            host_slots: self.host_slots(),
            host_mpi: self.has_host_collectives(),
        }
    }

    fn choice_input<'a>(
        &'a self,
        spec: &CollectiveSpec<'a>,
        bytes: u64,
        element: u64,
        resources: Resources,
        flat: &'a Network,
    ) -> ChoiceInput<'a> {
        // Where all ranks are on one machine, the network that was set does not determine costs.
        let costs = self.message_costs(if self.ranks_per_core().is_some() { flat } else { spec.network });
        ChoiceInput { spec: *spec, bytes, element, costs, resources }
    }

    /// The id of the algorithm that a call of this operation uses, with its arguments. `bytes` are those of all blocks
    /// or of the vector, in elements of `element` bytes, with a commutative operator that MPI has, too. Whether ranks
    /// of one machine can read each other's memory is known after the first long call, so the answer for long ones may
    /// change then.
    ///
    /// ```
    /// use treepie_comm::{Network, Operation};
    ///
    /// # fn choose(world: &treepie_comm::Comm) -> treepie_comm::Result<()> {
    /// let id = world.chosen_algorithm(Operation::Allreduce, 1 << 20, 8)?;
    /// assert!(id.starts_with("allreduce/"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn chosen_algorithm(&self, operation: Operation, bytes: usize, element: usize) -> Result<String> {
        if let Some(current) = self.chooser() {
            return current.chosen_algorithm(operation, bytes, element);
        }
        let request = CollectiveSpec::new(operation, self.network()?);
        Ok(self.decision(&request, Some(bytes), element, self.resources(bytes))?.id)
    }

    /// The schedule of the selected algorithm for a call, over messages.
    pub(crate) fn schedule_for(&self, call: &CollectiveCall<'_>) -> Result<Arc<dyn Schedule>> {
        let (schedule, _) = self.schedule_with(call, Resources::default())?;
        Ok(schedule.expect("without the MPI library there is a schedule"))
    }

    /// The schedule of the selected algorithm for a call, unless the MPI library runs it, and its transport.
    pub(crate) fn schedule_with(
        &self,
        call: &CollectiveCall<'_>,
        resources: Resources,
    ) -> Result<(Option<Arc<dyn Schedule>>, Transport)> {
        if let Some(adaptation) = &self.collectives.adaptation {
            adaptation.check()?;
            return adaptation.current().schedule_with(call, resources);
        }
        let mut request = CollectiveSpec::new(call.operation, self.network()?);
        request.commutative = call.commutative;
        request.uniform = !matches!(call.counts, BlockCounts::PerRank(_) | BlockCounts::LocalOnly(..));
        request.in_place = call.in_place;
        let bytes = call.counts.total(self.size() as u32).map(|elements| elements.saturating_mul(call.element));
        let Decision { id, segments, transport } = self.decision(&request, bytes, call.element, resources)?;
        if protocol::log_choices() && self.rank() == 0 {
            let bytes = bytes.map_or("unknown".to_owned(), |bytes| bytes.to_string());
            eprintln!("treepie: {id} for {} ranks, {bytes} bytes, {transport}", self.size());
        }
        if transport == Transport::HostMpi {
            return Ok((None, transport));
        }
        // The shared segment has its own chunks.
        request.parameters.segments = if let Transport::SharedSegment(_) = transport { 1 } else { segments };
        let schedule = registry::build(&id, &request).map_err(|refusal| Error::Algorithm(refusal.to_string()))?;
        Ok((Some(Arc::from(schedule)), transport))
    }

    /// The algorithm that was set or selected, or the fastest one. The same request is decided once.
    fn decision(
        &self,
        request: &CollectiveSpec<'_>,
        bytes: Option<usize>,
        element: usize,
        resources: Resources,
    ) -> Result<Decision> {
        let (choice, network) = (&self.collectives.choice, request.network);
        let rules = rules::from_environment()?;
        let selected = || {
            let CollectiveSpec { operation, ranks, commutative, uniform, .. } = *request;
            let query = SelectionQuery { operation, ranks, bytes, commutative, uniform, network };
            let by_rules = rules.and_then(|rules| rules.select(&query));
            by_rules.or_else(|| choice.selector.as_ref()?.select(&query))
        };
        let set = choice.id_for(request.operation)?.map(str::to_owned).or_else(selected);
        // In an MPI job the library runs what it can; without one, its algorithms do not apply.
        let set = set.filter(|id| resources.host_mpi || !registry::is_of_host_mpi(id) || !self.is_in_mpi_job());
        let key = DecisionKey::new(request, bytes, element, resources, set.clone());
        if let Some(decided) = self.collectives.decisions.borrow().get(&key) {
            return Ok(decided.clone());
        }
        let flat = Network::flat(request.ranks);
        // If each rank knows only its part of the counts, the cost is that for 0 bytes.
        let request = CollectiveSpec { operation: key.operation(), ..*request };
        let input = self.choice_input(&request, key.bytes, element as u64, resources, &flat);
        let decision = match set {
            Some(id) => {
                let (segments, transport) = input.complete(&id, choice.transport);
                Decision { id, segments, transport }
            }
            None => decide_once(self.machine(network), &key, || decide(&input)),
        };
        insert(&mut self.collectives.decisions.borrow_mut(), key, decision.clone());
        Ok(decision)
    }

    /// Whether the engine's counter is the barrier to use, if there is one.
    pub(crate) fn prefers_central_barrier(&self) -> bool {
        match self.collectives.choice.id_for(Operation::Barrier) {
            Ok(Some(id)) => id == CENTRAL,
            // Reported when the algorithm is looked up.
            Err(_) => false,
            // Nothing is faster: 0.34 us for 2 ranks on 2 cores, against 0.5 us by messages.
            Ok(None) => true,
        }
    }
}

const CENTRAL: &str = "barrier/central";
