//! Choices that were made, for calls that are alike.

use std::collections::HashMap;

use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::Operation;

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
