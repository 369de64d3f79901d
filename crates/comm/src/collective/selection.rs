//! Algorithm selection. In this order: the algorithm set on the handle, the one named by the environment, the one
//! returned by a selector, the cheapest by the cost model. All ranks select the same, as the selection depends only on
//! what all of them know.

use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use treepie_base::{Error, Result, environment};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::{Operation, Schedule};
use treepie_topology::{Network, NetworkKind};

use super::call::{BlockCounts, CollectiveCall};
use super::candidates::candidates;
use super::cost::{Candidate, SharedTransport, SlotCapacities, Transport, TransportCosts};
use super::on_network;
use super::selector::{AlgorithmSelector, SelectionQuery};
use crate::comm::Comm;
use crate::members::Members;
use crate::protocol;

/// Approximate size of a pipeline segment, in bytes.
const SEGMENT_BYTES: usize = 64 << 10;

/// The part of a communicator handle that guides the selection of algorithms.
#[derive(Clone, Default)]
pub(crate) struct AlgorithmChoice {
    /// Ids of algorithms to use for their operations.
    ids: Vec<String>,
    /// The network of the ranks, if one was set.
    network: Option<Rc<Network>>,
    /// Selector that replaces the cost model.
    selector: Option<Rc<dyn AlgorithmSelector>>,
    /// Whether ranks compare their calls.
    pub(crate) checked: bool,
}

impl AlgorithmChoice {
    /// The same for other ranks, whose network is unknown.
    pub(crate) fn without_network(&self) -> Self {
        Self { network: None, ..self.clone() }
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

/// The network named by `TREEPIE_NETWORK`, for this number of ranks; a flat one if the variable is not set.
fn network_from_environment(ranks: u32) -> Result<Network> {
    static TEXT: OnceLock<Result<Option<String>>> = OnceLock::new();
    let Some(text) = TEXT.get_or_init(|| environment::text(environment::NETWORK)).clone()? else {
        return Ok(Network::flat(ranks));
    };
    let network = Network::load(&text).and_then(|network| network.for_ranks(ranks));
    network.map_err(|error| environment::invalid_value(environment::NETWORK, &text, error.to_string()))
}

/// Refuses invalid environment variables of this crate and of the crates below it before a world of `ranks` ranks
/// starts, so that no run fails in the middle. The network is not checked where the number of ranks is unknown or the
/// environment's network does not apply.
pub fn check_environment(ranks: Option<u32>) -> Result<()> {
    environment::check()?;
    from_environment()?;
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

    /// A handle of the same communicator with a selector, which selects algorithms where neither
    /// [`with_algorithm`](Self::with_algorithm) nor the environment does. The selectors of all ranks of a call must
    /// return the same.
    pub fn with_selector(&self, selector: Rc<dyn AlgorithmSelector>) -> Comm {
        let mut choice = self.collectives.choice.clone();
        choice.selector = Some(selector);
        self.with_choice(choice)
    }

    /// The network of the ranks: the one set on the handle, or the one of `TREEPIE_NETWORK`, or a flat one.
    fn network(&self) -> Result<&Network> {
        if let Some(network) = &self.collectives.choice.network {
            return Ok(network);
        }
        let ranks = self.size() as u32;
        let network = self.collectives.network.get_or_init(|| match *self.inner.members {
            Members::All { .. } => network_from_environment(ranks),
            // The environment's network is that of all ranks of the world, and algorithms need one of these ranks
            // alone.
            _ => Ok(Network::flat(ranks)),
        });
        network.as_ref().map_err(Clone::clone)
    }

    /// The network set on the handle, or that of the world from the environment, and this rank's position in it.
    pub(crate) fn network_and_rank(&self) -> Result<(Network, u32)> {
        let rank = self.rank() as u32;
        if let Some(network) = &self.collectives.choice.network {
            return Ok((Network::clone(network), rank));
        }
        let ranks = self.endpoint().size();
        Ok((network_from_environment(ranks)?, self.endpoint().rank()))
    }

    /// The algorithms set for these operations, and the network unless it is flat, as text. Does not call the selector,
    /// which is called only once per call. Ignores errors, which the call reports.
    pub(crate) fn describe_choice(&self, operations: &[Operation]) -> String {
        let choice = &self.collectives.choice;
        let ids = operations.iter().filter_map(|operation| choice.id_for(*operation).ok().flatten());
        let ids: String = ids.map(|id| format!(" with {id}")).collect();
        let network = self.network().ok().filter(|network| !matches!(network.kind(), NetworkKind::Flat(_)));
        ids + &network.map(|network| format!(" on {network}")).unwrap_or_default()
    }

    /// The schedule of the selected algorithm for a call, and its transport; `slots` are those of the shared segment,
    /// if there is one.
    pub(crate) fn schedule_for(
        &self,
        call: &CollectiveCall<'_>,
        slots: Option<&SlotCapacities>,
    ) -> Result<(Arc<dyn Schedule>, Transport)> {
        let network = self.network()?;
        let mut request = CollectiveSpec::new(call.operation, network);
        request.commutative = call.commutative;
        request.uniform = !matches!(call.counts, BlockCounts::PerRank(_) | BlockCounts::LocalOnly(..));
        request.in_place = call.in_place;
        let bytes = call.counts.total(self.size() as u32).map(|elements| elements * call.element);
        request.parameters.segments = bytes.map_or(1, |bytes| (bytes / SEGMENT_BYTES).clamp(1, 1024) as u32);
        let choice = &self.collectives.choice;
        let selected = || {
            let CollectiveSpec { operation, ranks, commutative, uniform, .. } = request;
            let query = SelectionQuery { operation, ranks, bytes, commutative, uniform, network };
            choice.selector.as_ref()?.select(&query)
        };
        let id = choice.id_for(call.operation)?.map(str::to_owned).or_else(selected);
        let (id, transport) = match id {
            Some(id) => {
                let transport = self.transport_for(&id, call.operation, bytes, slots);
                (id, transport)
            }
            None => self.cheapest(&request, bytes, slots),
        };
        if protocol::log_choices() && self.rank() == 0 {
            let bytes = bytes.map_or("unknown".to_owned(), |bytes| bytes.to_string());
            eprintln!("treepie: {id} for {} ranks, {bytes} bytes, {transport}", self.size());
        }
        if transport != Transport::PointToPoint {
            // The shared segment has its own chunks.
            request.parameters.segments = 1;
        }
        let schedule = registry::build(&id, &request).map_err(|refusal| Error::Algorithm(refusal.to_string()))?;
        Ok((Arc::from(schedule), transport))
    }

    /// The id of the cheapest applicable algorithm, and its transport. If each rank knows only its part of the counts,
    /// the cost is that for 0 bytes.
    fn cheapest(
        &self,
        request: &CollectiveSpec<'_>,
        bytes: Option<usize>,
        slots: Option<&SlotCapacities>,
    ) -> (String, Transport) {
        let (costs, ranks) = (self.transport_costs(), self.size() as u32);
        let shares_links = !matches!(request.network.kind(), NetworkKind::Flat(_)) && self.endpoint().cores().is_none();
        if shares_links && let Some(id) = on_network::cheapest(request, bytes.unwrap_or(0), &costs.to_cost_params()) {
            return (id, Transport::PointToPoint);
        }
        let applies = |candidate: &&Candidate| {
            registry::find(candidate.id).is_ok_and(|found| found.check_applicable(request).is_ok())
        };
        let applicable = candidates(request.operation).iter().filter(applies);
        let with_costs =
            applicable.map(|candidate| (candidate, candidate.best_transport(&costs, ranks, bytes.unwrap_or(0), slots)));
        let cheapest = with_costs.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0));
        // Some algorithm of each operation is always applicable.
        cheapest.map_or_else(
            || {
                let first = registry::applicable(request).first().map(|algorithm| algorithm.id.clone());
                (first.unwrap_or_default(), Transport::PointToPoint)
            },
            |(candidate, (_, transport))| (candidate.id.to_owned(), transport),
        )
    }

    /// The transport for an algorithm that was set.
    fn transport_for(
        &self,
        id: &str,
        operation: Operation,
        bytes: Option<usize>,
        slots: Option<&SlotCapacities>,
    ) -> Transport {
        let (Some(slots), Some(bytes)) = (slots, bytes) else { return Transport::PointToPoint };
        if let Some(candidate) = candidates(operation).iter().find(|candidate| candidate.id == id) {
            return candidate.best_transport(&self.transport_costs(), self.size() as u32, bytes, Some(slots)).1;
        }
        // Its cost is unknown. If it can use the shared segment, that is faster for short data.
        if bytes <= slots.page {
            Transport::SharedSegment(SharedTransport::CopyInCopyOut)
        } else {
            Transport::PointToPoint
        }
    }

    pub(super) fn transport_costs(&self) -> TransportCosts {
        let eager_limit = self.endpoint().eager_limit();
        match self.ranks_per_core() {
            Some(sharing) => TransportCosts::shared_memory(sharing, eager_limit),
            None => TransportCosts::network(eager_limit),
        }
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
