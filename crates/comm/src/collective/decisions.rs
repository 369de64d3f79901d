//! Choices that were made, for calls that are alike.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_model::Profile;
use treepie_schedule::Operation;
use treepie_topology::Network;

use crate::choice::{ChoiceInput, SlotCapacities, Transport, size_class};

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

/// What a call can use besides messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resources {
    /// The shared segment.
    pub(super) slots: Option<SlotCapacities>,
    /// Collective operations of the MPI library.
    pub(super) host_mpi: bool,
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
    slots: Option<SlotCapacities>,
    host_mpi: bool,
    /// The id that was set, if any.
    set: Option<String>,
}

/// A handle keeps at most this number of choices, and then begins anew.
const MAX_DECISIONS: usize = 1024;

/// Keeps a choice.
pub(super) fn insert(decisions: &mut Decisions, key: DecisionKey, decision: Decision) {
    if decisions.len() >= MAX_DECISIONS {
        decisions.clear();
    }
    decisions.insert(key, decision);
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
    decisions: Decisions,
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

/// The choice that another rank of this process has made, or a new one.
pub(super) fn decide_once(machine: MachineOf<'_>, key: &DecisionKey, input: &ChoiceInput<'_>) -> Decision {
    let lock = || OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = lock().iter().find(|made| machine.is(made)).and_then(|made| made.decisions.get(key)) {
        return made.clone();
    }
    // Not while others wait.
    let decision = decide(input);
    let mut all = lock();
    let index = all.iter().position(|made| machine.is(made)).unwrap_or_else(|| {
        if all.len() == MAX_MACHINES {
            all.remove(0);
        }
        let (profile, network) = (machine.profile.clone(), machine.network.clone());
        let MachineOf { ranks_per_core, is_placed, .. } = machine;
        all.push(OfMachine { profile, network, ranks_per_core, is_placed, decisions: Decisions::new() });
        all.len() - 1
    });
    insert(&mut all[index].decisions, key.clone(), decision.clone());
    decision
}

impl DecisionKey {
    pub(super) fn new(
        spec: &CollectiveSpec<'_>,
        bytes: Option<usize>,
        element: usize,
        Resources { slots, host_mpi }: Resources,
        set: Option<String>,
    ) -> Self {
        let CollectiveSpec { operation, commutative, uniform, in_place, .. } = *spec;
        let bytes = size_class(bytes.unwrap_or(0) as u64);
        Self { operation, bytes, element, commutative, uniform, in_place, slots, host_mpi, set }
    }
}

/// Chooses an algorithm.
fn decide(input: &ChoiceInput<'_>) -> Decision {
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
