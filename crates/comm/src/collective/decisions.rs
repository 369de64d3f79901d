//! Choices that were made, for calls that are alike.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_model::Profile;
use treepie_schedule::Operation;
use treepie_topology::{Network, NetworkKind};

use crate::choice::{ChoiceInput, Resources, Transport, size_class};

/// Choices by what they depend on. A handle with another profile, network or selector has others.
pub(crate) type Decisions = HashMap<DecisionKey, Decision>;

/// An algorithm that was chosen.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// Its id, with arguments.
    pub(super) id: String,
    /// The number of segments, if the id names none.
    pub(super) segments: u32,
    pub(super) transport: Transport,
}

/// What a choice depends on: the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecisionKey {
    operation: Operation,
    /// Bytes of all blocks or of the vector, rounded up to a size class.
    pub(super) bytes: u64,
    element: usize,
    commutative: bool,
    uniform: bool,
    in_place: bool,
    resources: Resources,
    /// The id that was set, if any.
    set: Option<String>,
}

/// A handle keeps at most this number of choices, and then begins anew.
const MAX_DECISIONS: usize = 1024;

/// Keeps a choice.
pub(super) fn insert(decisions: &mut Decisions, key: DecisionKey, decision: Decision) {
    make_room(decisions);
    decisions.insert(key, decision);
}

fn make_room<D>(decisions: &mut HashMap<DecisionKey, D>) {
    if decisions.len() >= MAX_DECISIONS {
        decisions.clear();
    }
}

/// Choices of all ranks of this process, for those on which they depend: simulated ranks and threads choose alike, and
/// over nested clusters a choice takes milliseconds.
static OF_PROCESS: Mutex<Vec<OfMachine>> = Mutex::new(Vec::new());

/// The choices are kept of this number of machines; the oldest goes.
const MAX_MACHINES: usize = 8;

/// Choices for ranks of one machine.
struct OfMachine {
    profile: Profile,
    network: Network,
    ranks_per_core: Option<f64>,
    is_placed: bool,
    /// Made, or being made by one of the ranks.
    decisions: HashMap<DecisionKey, Arc<OnceLock<Decision>>>,
}

/// What the choices of a communicator depend on.
#[derive(Clone, Copy)]
pub(super) struct MachineOf<'a> {
    pub(super) profile: &'a Profile,
    pub(super) network: &'a Network,
    pub(super) ranks_per_core: Option<f64>,
    /// Whether ranks are where the network has them.
    pub(super) is_placed: bool,
}

impl MachineOf<'_> {
    fn is(&self, made: &OfMachine) -> bool {
        self.ranks_per_core == made.ranks_per_core
            && self.is_placed == made.is_placed
            && *self.profile == made.profile
            && *self.network == made.network
    }
}

/// The choice that another rank of this process has made or is making, or else the one that `decide` makes. Ranks reach
/// a call together, and threads wait for the one that chooses. Simulated ranks that share a thread never do: `decide`
/// only computes, so none of them runs before it is done.
pub(super) fn decide_once(machine: MachineOf<'_>, key: &DecisionKey, decide: impl FnOnce() -> Decision) -> Decision {
    // Other choices do not wait for this one.
    let made = of_process(machine, key);
    made.get_or_init(decide).clone()
}

fn of_process(machine: MachineOf<'_>, key: &DecisionKey) -> Arc<OnceLock<Decision>> {
    let mut all = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let index = all.iter().position(|made| machine.is(made)).unwrap_or_else(|| {
        if all.len() == MAX_MACHINES {
            all.remove(0);
        }
        let (profile, network) = (machine.profile.clone(), machine.network.clone());
        let MachineOf { ranks_per_core, is_placed, .. } = machine;
        all.push(OfMachine { profile, network, ranks_per_core, is_placed, decisions: HashMap::new() });
        all.len() - 1
    });
    let decisions = &mut all[index].decisions;
    if let Some(made) = decisions.get(key) {
        return made.clone();
    }
    make_room(decisions);
    decisions.entry(key.clone()).or_default().clone()
}

impl DecisionKey {
    /// The operation for which it is chosen.
    pub(super) fn operation(&self) -> Operation {
        self.operation
    }

    pub(super) fn new(
        spec: &CollectiveSpec<'_>,
        bytes: Option<usize>,
        element: usize,
        resources: Resources,
        set: Option<String>,
    ) -> Self {
        let CollectiveSpec { commutative, uniform, in_place, .. } = *spec;
        let operation = with_representative_root(spec.operation, spec.network);
        let bytes = size_class(bytes.unwrap_or(0) as u64);
        Self { operation, bytes, element, commutative, uniform, in_place, resources, set }
    }
}

/// The operation with the first of the ranks that are as close to all others as its root: a program that takes each rank
/// as root chooses once for each cluster or host.
pub(super) fn with_representative_root(operation: Operation, network: &Network) -> Operation {
    let Some(root) = operation.root() else { return operation };
    // The nodes of the cluster or host.
    let nodes = match (network.kind(), network.node_of(root)) {
        (NetworkKind::Clusters(clusters), node) => clusters.members(clusters.cluster_of(node)),
        (NetworkKind::Flat(_), node) if network.has_hosts() => {
            let first = node - node % network.nodes_per_host();
            first..first + network.nodes_per_host()
        }
        (NetworkKind::Flat(_), _) => 0..network.nodes(),
        _ => return operation,
    };
    let first = match network.has_identity_placement() {
        true => nodes.start,
        false => (0..root).find(|rank| nodes.contains(&network.node_of(*rank))).unwrap_or(root),
    };
    Operation::from_name(operation.name(), first).expect("an operation has its name")
}

/// Chooses an algorithm.
pub(super) fn decide(input: &ChoiceInput<'_>) -> Decision {
    match input.best() {
        Some(candidate) => {
            Decision { id: candidate.id(), segments: candidate.arguments.segments, transport: candidate.transport }
        }
        // Some algorithm of each operation is always applicable.
        None => {
            let first = registry::applicable(&input.spec).first().map(|algorithm| algorithm.id.clone());
            Decision { id: first.unwrap_or_default(), segments: 1, transport: Transport::PointToPoint }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn roots_of_one_host_or_cluster_are_alike() {
        let representatives = |text: &str| {
            let network: Network = text.parse().unwrap();
            let of = |root| with_representative_root(Operation::Bcast { root }, &network).root().unwrap();
            (0..network.ranks()).map(of).collect::<Vec<_>>()
        };
        assert_eq!(representatives("flat:5"), [0; 5]);
        assert_eq!(representatives("flat:9,ppn=3@0+3+1+4+2+5+6"), [0, 1, 0, 1, 0, 1, 6]);
        assert_eq!(representatives("clusters:(1+2)+(2)"), [0, 1, 1, 3, 3]);
        assert_eq!(representatives("mesh:2x2"), [0, 1, 2, 3]);
        assert_eq!(with_representative_root(Operation::Allreduce, &Network::flat(3)), Operation::Allreduce);
    }

    #[test]
    fn threads_that_reach_a_call_together_choose_once() {
        const THREADS: usize = 4;
        // No other test has its profile.
        let profile = Profile { reduce_per_byte: 0.123_456, ..Profile::network() };
        let network = Network::flat(THREADS as u32);
        let spec = CollectiveSpec::new(Operation::Allgather, &network);
        let machine = MachineOf { profile: &profile, network: &network, ranks_per_core: None, is_placed: true };
        for bytes in (0..16).map(|log| 1 << log) {
            let key = DecisionKey::new(&spec, Some(bytes), 1, Resources::default(), None);
            let (choices, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
            let decide = || {
                let choice = choices.fetch_add(1, Ordering::Relaxed) as u32;
                (0..100).for_each(|_| std::thread::yield_now());
                Decision { id: "allgather/ring".to_owned(), segments: choice, transport: Transport::PointToPoint }
            };
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        start.wait();
                        assert_eq!(decide_once(machine, &key, decide).segments, 0);
                    });
                }
            });
            assert_eq!(choices.into_inner(), 1, "{bytes} bytes");
        }
    }
}
