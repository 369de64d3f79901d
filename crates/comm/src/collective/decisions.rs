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
        let operation = representative(spec);
        let bytes = size_class(bytes.unwrap_or(0) as u64);
        Self { operation, bytes, element, commutative, uniform, in_place, resources, set }
    }
}

/// On a flat network all roots are alike, and an operation is chosen for root 0: a program that takes each rank as root
/// chooses once. On other networks, trees over rank numbers fit better with some roots, and reductions in rank order
/// take a message more with others.
fn representative(spec: &CollectiveSpec<'_>) -> Operation {
    let are_alike =
        matches!(spec.network.kind(), NetworkKind::Flat(_)) && !spec.network.has_hosts() && spec.commutative;
    let root = spec.operation.root().filter(|_| !are_alike).unwrap_or(0);
    Operation::from_name(spec.operation.name(), root).expect("an operation has its name")
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
    fn roots_are_alike_on_flat_networks_only() {
        let representatives = |text: &str, operation: fn(u32) -> Operation, commutative| {
            let network: Network = text.parse().unwrap();
            let of = |root| {
                let spec = CollectiveSpec { commutative, ..CollectiveSpec::new(operation(root), &network) };
                representative(&spec).root().unwrap()
            };
            (0..network.ranks()).map(of).collect::<Vec<_>>()
        };
        let (bcast, reduce) = (|root| Operation::Bcast { root }, |root| Operation::Reduce { root });
        assert_eq!(representatives("flat:5", bcast, true), [0; 5]);
        assert_eq!(representatives("flat:3", reduce, false), [0, 1, 2]);
        for text in ["flat:4,ppn=2", "clusters:2x2", "mesh:2x2"] {
            assert_eq!(representatives(text, bcast, true), [0, 1, 2, 3], "{text}");
        }
        let flat = Network::flat(3);
        assert_eq!(representative(&CollectiveSpec::new(Operation::Allreduce, &flat)), Operation::Allreduce);
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
