//! The routes of an exchange's own messages, its barrier and its counts, where the network has a structure to follow.
//!
//! The barrier is the one that the communicator's own barriers would use over messages: over the coordinators of
//! clusters, along the dimensions of a torus, or the algorithm that was set. On a flat network it is a dissemination,
//! which needs no schedule.

use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use treepie_collectives::hierarchy::Forest;
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_collectives::trees::{Levels, TreeShape};
use treepie_comm::choice::{Candidate, ChoiceInput, Resources, Transport};
use treepie_comm::protocol::ReactorCapabilities;
use treepie_comm::{Comm, Network, Operation};
use treepie_model::Profile;
use treepie_model::predict::MessageCosts;
use treepie_schedule::Schedule;
use treepie_topology::NetworkKind;

/// Which ranks pass on the messages of a barrier and of counts. The default is for flat networks.
#[derive(Clone, Default)]
pub struct ExchangeRoutes {
    /// The schedule of the barrier; a dissemination if there is none.
    pub(crate) barrier: Option<Arc<dyn Schedule>>,
    /// The coordinators of clusters or hosts, which sum counts.
    pub(crate) coordinators: Option<Arc<Forest>>,
}

impl ExchangeRoutes {
    /// The routes on a network whose barrier is that of an id. A dissemination if this is not applicable.
    pub fn new(network: &Network, barrier: &str) -> Self {
        let spec = CollectiveSpec::new(Operation::Barrier, network);
        let schedule = if barrier == DISSEMINATION { None } else { registry::build(barrier, &spec).ok() };
        let has_lanes = |schedule: &dyn Schedule| (0..schedule.phases()).any(|phase| schedule.phase(phase).lanes > 1);
        let coordinators = || Forest::new(network, Levels::All, TreeShape::Flat, TreeShape::Binomial);
        let coordinators = if network.as_clusters().is_some() || network.has_hosts() { coordinators() } else { None };
        Self {
            barrier: schedule.filter(|schedule| !has_lanes(&**schedule)).map(Arc::from),
            coordinators: coordinators.filter(|forest| forest.groups() > 1).map(Arc::new),
        }
    }

    /// The coordinators, where counts go through them: the engine has neither counters nor a barrier.
    pub(crate) fn coordinators_for(&self, capabilities: ReactorCapabilities) -> Option<&Arc<Forest>> {
        self.coordinators.as_ref().filter(|_| !capabilities.counters && !capabilities.barrier)
    }
}

const DISSEMINATION: &str = "barrier/dissemination";
const HIERARCHICAL: &str = "barrier/hierarchical";

/// Predicted times over messages, in microseconds, where they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RouteTimes {
    /// The barrier.
    pub barrier: Option<f64>,
    /// A dissemination of empty messages.
    pub dissemination: Option<f64>,
    /// Counts over coordinators, if there are any.
    pub coordinators: Option<f64>,
    /// Messages over the busiest link for each message of a rank to random ranks; below 1 if each has a link of its own.
    pub link_share: f64,
}

/// The routes on a network, and their times.
#[derive(Clone, Default)]
pub struct NetworkRoutes {
    /// The routes.
    pub routes: ExchangeRoutes,
    /// Their predicted times.
    pub times: RouteTimes,
}

impl NetworkRoutes {
    /// Those that exchanges by a handle use, which are found once.
    pub fn of(comm: &Comm) -> Self {
        let cached = comm.handle_attribute::<OnceCell<Option<Rc<SharedRoutes>>>>();
        cached
            .get_or_init(|| SharedRoutes::of(comm))
            .as_ref()
            .map_or_else(Self::default, |shared| shared.routes.clone())
    }

    /// Those of a communicator on a network whose messages cost what a profile says.
    pub fn on_network(network: &Network, profile: &Profile) -> Self {
        let spec = CollectiveSpec::new(Operation::Barrier, network);
        let costs = MessageCosts::on_network(profile, network);
        let input = ChoiceInput { spec, bytes: 0, element: 1, costs, resources: Resources::default() };
        Self::among(&input.candidates(), network, None)
    }

    /// Those with the fastest barrier of these, or the one that was set.
    fn among(candidates: &[Candidate], network: &Network, set: Option<&str>) -> Self {
        let over_messages = || candidates.iter().filter(|candidate| candidate.transport == Transport::PointToPoint);
        let time = |id: &str| {
            let found = over_messages().find(|candidate| candidate.algorithm.id == id);
            found.map(|candidate| candidate.prediction.total())
        };
        let id = set.map(str::to_owned).or_else(|| Some(over_messages().next()?.id()));
        let id = id.as_deref().unwrap_or(DISSEMINATION);
        let mut routes = ExchangeRoutes::new(network, id);
        let barrier = if routes.barrier.is_some() { time(id.split(':').next().unwrap_or(id)) } else { None };
        // Among many groups an exchange of all coordinators may take long.
        let coordinators = routes.coordinators.as_ref().and_then(|_| time(HIERARCHICAL));
        routes.coordinators = routes.coordinators.filter(|_| coordinators.is_some());
        let dissemination = time(DISSEMINATION);
        let link_share = link_share(network);
        Self {
            times: RouteTimes { barrier: barrier.or(dissemination), dissemination, coordinators, link_share },
            routes,
        }
    }
}

/// All ranks of a cluster send over its link to another one, those of a host over its port.
fn link_share(network: &Network) -> f64 {
    let others = f64::from(network.ranks().max(2) - 1);
    if network.has_hosts() {
        let host = f64::from(network.nodes_per_host());
        return host * (others + 1.0 - host) / others;
    }
    let Some(clusters) = network.as_clusters() else { return 0.0 };
    let outermost = (0..clusters.levels()).rev().find(|level| clusters.groups(*level) > 1);
    let sizes = |level| (0..clusters.groups(level)).map(move |group| clusters.group_members(level, group).len());
    let largest = outermost.and_then(|level| sizes(level).max()).unwrap_or(0) as f64;
    largest * largest / others
}

/// Routes, and what they depend on.
struct SharedRoutes {
    network: Network,
    profile: Profile,
    /// The barrier that was set.
    set: Option<String>,
    routes: NetworkRoutes,
}

thread_local! {
    /// Routes in use. Schedules take memory for each rank, so the ranks of a simulation, which are fibres of one thread,
    /// share them.
    static IN_USE: RefCell<Vec<Weak<SharedRoutes>>> = const { RefCell::new(Vec::new()) };
}

/// Routes that ranks share at the same time: of as many communicators.
const MAX_SHARED: usize = 8;

impl SharedRoutes {
    /// None where a dissemination is as good: on a flat network, and on one machine, where the network does not determine
    /// the costs of messages. A barrier that was set is used anyway.
    fn of(comm: &Comm) -> Option<Rc<Self>> {
        let network = comm.network().ok()?;
        let set = comm.requested_protocol("barrier").ok().flatten();
        let is_plain = matches!(network.kind(), NetworkKind::Flat(_)) && network.nodes_per_host() == 1;
        if set.is_none() && (is_plain || comm.ranks_per_core().is_some()) {
            return None;
        }
        let is_same = |shared: &Rc<Self>| {
            shared.network == *network && shared.set.as_deref() == set && shared.profile == *comm.profile()
        };
        let found = IN_USE.with_borrow(|all| all.iter().filter_map(Weak::upgrade).find(is_same));
        Some(found.unwrap_or_else(|| {
            // A network that is refused is reported by operations that need one.
            let candidates = comm.candidates(Operation::Barrier, 0, 1).unwrap_or_default();
            let routes = NetworkRoutes::among(&candidates, network, set);
            let (network, profile, set) = (network.clone(), comm.profile().clone(), set.map(str::to_owned));
            let new = Rc::new(Self { network, profile, set, routes });
            IN_USE.with_borrow_mut(|all| {
                all.retain(|shared| shared.strong_count() > 0);
                all.drain(..(all.len() + 1).saturating_sub(MAX_SHARED));
                all.push(Rc::downgrade(&new));
            });
            new
        }))
    }
}
