//! Which algorithm a call gets: the one that its handle was told to use, or else the one that the environment names, or
//! else the one that a chooser names, or else the cheapest by the model. All ranks come to the same answer, as it depends
//! on nothing that only some know.

use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use treepie_base::{Error, Result, environment};
use treepie_collectives::registry::{self, Request};
use treepie_schedule::{Operation, Schedule};
use treepie_topology::{Kind, Network};

use super::candidates::candidates;
use super::chooser::{Chooser, Question};
use super::cost::{Candidate, Prices, Rooms, Way};
use super::meetings::Manner;
use super::on_network;
use super::{Call, Lengths};
use crate::comm::Comm;
use crate::members::Members;
use crate::protocol;

/// Segments of a pipeline have about this many bytes.
const SEGMENT: usize = 64 << 10;

/// What a handle of a communicator says about the choice of algorithms.
#[derive(Clone, Default)]
pub(crate) struct Choice {
    /// Ids to use for their operations.
    ids: Vec<String>,
    /// Where the ranks are, if that was said.
    network: Option<Network>,
    /// Who is asked instead of the model.
    chooser: Option<Rc<dyn Chooser>>,
    /// Whether ranks compare what they call.
    pub(crate) checked: bool,
}

impl Choice {
    /// The same for other ranks, of whose network nothing is known.
    pub(crate) fn without_network(&self) -> Self {
        Self { network: None, ..self.clone() }
    }

    /// The id to use for an operation, if one was said. An error if the environment names one that does not exist.
    pub(super) fn id_for(&self, operation: Operation) -> Result<Option<&str>> {
        self.id_of(operation.name())
    }

    /// The same for what stands before the slash.
    pub(crate) fn id_of(&self, family: &str) -> Result<Option<&str>> {
        let is_for = |id: &&String| id.split('/').next() == Some(family);
        let here = self.ids.iter().rev().find(is_for);
        let id = if here.is_some() { here } else { from_environment()?.iter().find(is_for) };
        Ok(id.map(String::as_str))
    }
}

/// Ids that `TREEPIE_ALGORITHM` names.
fn from_environment() -> Result<&'static [String]> {
    static IDS: OnceLock<Result<Vec<String>>> = OnceLock::new();
    let ids = IDS.get_or_init(|| {
        let text = environment::text(environment::ALGORITHM)?.unwrap_or_default();
        let ids = listed(&text);
        match ids.iter().find_map(|id| check_id(id).err()) {
            Some(refusal) => Err(environment::refused(environment::ALGORITHM, &text, refusal.to_string())),
            None => Ok(ids),
        }
    });
    ids.as_deref().map_err(Clone::clone)
}

/// The network of so many ranks that `TREEPIE_NETWORK` names; one without structure if it names none.
fn network_from_environment(ranks: u32) -> Result<Network> {
    static TEXT: OnceLock<Result<Option<String>>> = OnceLock::new();
    let Some(text) = TEXT.get_or_init(|| environment::text(environment::NETWORK)).clone()? else {
        return Ok(Network::flat(ranks));
    };
    let network = Network::load(&text).and_then(|network| network.for_ranks(ranks));
    network.map_err(|error| environment::refused(environment::NETWORK, &text, error.to_string()))
}

/// Refuses environment variables of which this crate or those below cannot make anything: before a world of so many ranks
/// begins, so that nobody finds out in the middle of a run. Where the number of ranks is not known, or the environment's
/// network does not count, that is left out.
pub fn check_environment(ranks: Option<u32>) -> Result<()> {
    environment::check()?;
    from_environment()?;
    match (ranks, environment::text(environment::NETWORK)?) {
        (Some(ranks), Some(_)) => network_from_environment(ranks).map(drop),
        _ => Ok(()),
    }
}

/// Refuses the name of nothing.
fn check_id(id: &str) -> Result<()> {
    protocol::check_name(id)
        .unwrap_or_else(|| registry::find(id).map(drop).map_err(|refusal| Error::Algorithm(refusal.to_string())))
}

fn listed(text: &str) -> Vec<String> {
    let ids = text.split([',', ' ']).filter(|id| !id.is_empty()).map(str::to_owned);
    // `bcast/chain:segments=4,window=8` has commas of its own.
    ids.fold(Vec::new(), |mut ids: Vec<String>, part| {
        match ids.last_mut() {
            Some(last) if !part.contains('/') => *last = format!("{last},{part}"),
            _ => ids.push(part),
        }
        ids
    })
}

pub(crate) fn log_choices() -> bool {
    static LOG: OnceLock<bool> = OnceLock::new();
    *LOG.get_or_init(|| environment::log_choices().unwrap_or(false))
}

impl Comm {
    /// A handle of the same communicator whose collective operations use this algorithm, as `allgather/ring`, where it is
    /// for that operation. `treepie algorithms` lists them. One that does not exist is refused here, one that does not
    /// apply to a call is refused there. All ranks that take part in a call must use the same.
    pub fn using(&self, id: &str) -> Result<Comm> {
        check_id(id)?;
        let mut choice = self.collectives.choice.clone();
        choice.ids.push(id.to_owned());
        Ok(self.with_choice(choice))
    }

    /// A handle of the same communicator whose collective operations take its ranks to be on this network: a short text,
    /// as `torus:4x4`, or the path of a TOML file. All ranks that take part in a call must say the same.
    pub fn on(&self, network: &str) -> Result<Comm> {
        let network = Network::load(network).and_then(|network| network.for_ranks(self.size() as u32));
        let mut choice = self.collectives.choice.clone();
        choice.network = Some(network.map_err(|error| Error::Algorithm(error.to_string()))?);
        Ok(self.with_choice(choice))
    }

    /// A handle of the same communicator whose algorithms this one chooses, where neither [`using`](Self::using) nor the
    /// environment does. All ranks that take part in a call must have one that answers alike.
    pub fn choosing(&self, chooser: Rc<dyn Chooser>) -> Comm {
        let mut choice = self.collectives.choice.clone();
        choice.chooser = Some(chooser);
        self.with_choice(choice)
    }

    /// Where the ranks are: as was said, or as `TREEPIE_NETWORK` says, or all alike.
    fn network(&self) -> Result<&Network> {
        if let Some(network) = &self.collectives.choice.network {
            return Ok(network);
        }
        let ranks = self.size() as u32;
        let network = self.collectives.network.get_or_init(|| match *self.inner.members {
            Members::All { .. } => network_from_environment(ranks),
            // The environment speaks of all ranks in their order, and algorithms need a network of these ranks alone.
            _ => Ok(Network::flat(ranks)),
        });
        network.as_ref().map_err(Clone::clone)
    }

    /// The network that was named for these ranks, or by the environment for all of the world, and this rank there.
    pub(crate) fn network_and_rank(&self) -> Result<(Network, u32)> {
        let rank = self.rank() as u32;
        if let Some(network) = &self.collectives.choice.network {
            return Ok((network.clone(), rank));
        }
        let ranks = self.endpoint().size();
        Ok((network_from_environment(ranks)?, self.endpoint().rank()))
    }

    /// Which algorithms are asked for, and where the ranks are if that is not all alike, for people. A chooser is not asked, as
    /// it is asked once only; nor is said here what is wrong.
    pub(crate) fn choice_in_words(&self, operations: &[Operation]) -> String {
        let choice = &self.collectives.choice;
        let ids = operations.iter().filter_map(|operation| choice.id_for(*operation).ok().flatten());
        let ids: String = ids.map(|id| format!(" with {id}")).collect();
        let network = self.network().ok().filter(|network| !matches!(network.kind(), Kind::Flat(_)));
        ids + &network.map(|network| format!(" on {network}")).unwrap_or_default()
    }

    /// The schedule of the algorithm to be used for a call, and how it is carried out; `rooms` are those of a board, if
    /// there is one.
    pub(crate) fn schedule_for(&self, call: &Call<'_>, rooms: Option<&Rooms>) -> Result<(Arc<dyn Schedule>, Way)> {
        let network = self.network()?;
        let mut request = Request::new(call.operation, network);
        request.commutative = call.commutes;
        request.uniform = !matches!(call.lengths, Lengths::Listed(_) | Lengths::Private(..));
        request.in_place = call.in_place;
        let bytes = call.lengths.total(self.size() as u32).map(|elements| elements * call.element);
        request.parameters.segments = bytes.map_or(1, |bytes| (bytes / SEGMENT).clamp(1, 1024) as u32);
        let choice = &self.collectives.choice;
        let asked = || {
            let Request { operation, ranks, commutative, uniform, .. } = request;
            let question = Question { operation, ranks, bytes, commutative, uniform, network };
            choice.chooser.as_ref()?.choose(&question)
        };
        let id = choice.id_for(call.operation)?.map(str::to_owned).or_else(asked);
        let (id, way) = match id {
            Some(id) => {
                let way = self.way_of(&id, call.operation, bytes, rooms);
                (id, way)
            }
            None => self.cheapest(&request, bytes, rooms),
        };
        if log_choices() && self.rank() == 0 {
            let bytes = bytes.map_or("unknown".to_owned(), |bytes| bytes.to_string());
            eprintln!("treepie: {id} for {} ranks, {bytes} bytes, {way}", self.size());
        }
        if way != Way::Messages {
            // A board has pieces of its own.
            request.parameters.segments = 1;
        }
        let schedule = registry::build(&id, &request).map_err(|refusal| Error::Algorithm(refusal.to_string()))?;
        Ok((Arc::from(schedule), way))
    }

    /// The id of the cheapest algorithm that applies, and the way to carry it out; if only each rank's own part of the
    /// lengths is known, for no bytes.
    fn cheapest(&self, request: &Request<'_>, bytes: Option<usize>, rooms: Option<&Rooms>) -> (String, Way) {
        let (prices, ranks) = (self.prices(), self.size() as u32);
        let shares_links = !matches!(request.network.kind(), Kind::Flat(_)) && self.endpoint().cores().is_none();
        if shares_links && let Some(id) = on_network::cheapest(request, bytes.unwrap_or(0), &prices.of_links()) {
            return (id, Way::Messages);
        }
        let applies =
            |candidate: &&Candidate| registry::find(candidate.id).is_ok_and(|found| found.applies(request).is_ok());
        let applicable = candidates(request.operation).iter().filter(applies);
        let priced = applicable.map(|candidate| (candidate, candidate.best(&prices, ranks, bytes.unwrap_or(0), rooms)));
        let cheapest = priced.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0));
        // Some algorithm of each operation applies to everything.
        cheapest.map_or_else(
            || {
                let first = registry::applicable(request).first().map(|algorithm| algorithm.id.clone());
                (first.unwrap_or_default(), Way::Messages)
            },
            |(candidate, (_, way))| (candidate.id.to_owned(), way),
        )
    }

    /// The way to carry out an algorithm that was asked for.
    fn way_of(&self, id: &str, operation: Operation, bytes: Option<usize>, rooms: Option<&Rooms>) -> Way {
        let (Some(rooms), Some(bytes)) = (rooms, bytes) else { return Way::Messages };
        if let Some(candidate) = candidates(operation).iter().find(|candidate| candidate.id == id) {
            return candidate.best(&self.prices(), self.size() as u32, bytes, Some(rooms)).1;
        }
        // Nothing is known of it. If it can be carried out over a board, that is faster for what is short.
        if bytes <= rooms.page { Way::Board(Manner::Writing) } else { Way::Messages }
    }

    pub(super) fn prices(&self) -> Prices {
        let eager_limit = self.endpoint().eager_limit();
        match self.ranks_per_core() {
            Some(sharing) => Prices::shared_memory(sharing, eager_limit),
            None => Prices::network(eager_limit),
        }
    }

    /// Whether the engine's counter is the barrier to take, if there is one.
    pub(crate) fn prefers_central_barrier(&self) -> bool {
        match self.collectives.choice.id_for(Operation::Barrier) {
            Ok(Some(id)) => id == CENTRAL,
            // Said where the algorithm is looked up.
            Err(_) => false,
            // Where there is one nothing is faster: 0.34 us for 2 ranks on 2 cores, against 0.5 us by messages.
            Ok(None) => true,
        }
    }
}

const CENTRAL: &str = "barrier/central";
