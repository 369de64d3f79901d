//! Detection of mismatched collective calls whose messages no receive matches.
//!
//! A receive that matches a message of another call fails by itself. But ranks in different operations also send
//! messages that no receive matches: of another phase, or of a protocol. So a rank that has waited for a while checks
//! for unexpected messages under the number of its operation that belong to another call, and for peers that have
//! aborted the operation because of mismatched calls and that it may not be waiting for.

mod endpoint;

use std::collections::HashMap;

use treepie_base::BuildNumberHasher;

use crate::bins::MatchKey;
use crate::call_signature::CallSignature;
use crate::protocol_queues::operation_number;

/// State of the detection.
pub(crate) struct MismatchDetector {
    /// What the blocking receive in progress waits for.
    awaited: Option<(MatchKey, CallSignature)>,
    /// The current operation in the shared segment.
    segment_op: Option<SegmentOp>,
    /// Number of entries that the next check may scan.
    scan_budget: usize,
    found: Vec<Mismatch>,
    /// Calls of unexpected messages by context and number. Reused, since each check after a sleep fills it.
    arrived: HashMap<(u32, u32), ArrivedCalls, BuildNumberHasher>,
}

/// An operation in the shared segment, or of the MPI library, which waits for all members by other means than messages.
#[derive(Clone, Copy)]
pub(crate) struct SegmentOp {
    pub(crate) context: u32,
    pub(crate) tag: u64,
    pub(crate) call: CallSignature,
    /// Whether it has messages, too: between leaders of hosts.
    pub(crate) has_messages: bool,
}

/// Calls of messages under one operation number, each with its lowest sender. Two are enough: one of them differs from
/// this rank's call, if any does.
#[derive(Default)]
struct ArrivedCalls([Option<(u32, CallSignature)>; 2]);

impl ArrivedCalls {
    fn add(&mut self, source: u32, call: CallSignature) {
        let same = self.0.iter_mut().find(|known| known.is_none_or(|(_, known)| known == call));
        if let Some(same) = same {
            *same = Some((same.map_or(source, |(known, _)| known.min(source)), call));
        }
    }

    /// A call that differs from the local one.
    fn other_than(&self, local: Option<CallSignature>) -> Option<(u32, CallSignature)> {
        self.0.iter().flatten().filter(|(_, call)| local != Some(*call)).min_by_key(|(source, _)| *source).copied()
    }
}

/// A rank that is in another call than this rank under the same operation number.
struct Mismatch {
    context: u32,
    number: u32,
    source: u32,
    /// Its call; none if that rank has only announced an abort because of mismatched calls.
    theirs: Option<CallSignature>,
}

impl Default for MismatchDetector {
    fn default() -> Self {
        let arrived = HashMap::with_capacity_and_hasher(16, BuildNumberHasher::default());
        Self { awaited: None, segment_op: None, scan_budget: 0, found: Vec::new(), arrived }
    }
}

impl MismatchDetector {
    /// Sets what a blocking receive is about to wait for.
    #[inline]
    pub(crate) fn set_awaited(&mut self, key: MatchKey, call: CallSignature) {
        if call.is_collective() {
            self.awaited = Some((key, call));
        }
    }

    /// Sets the current operation in the shared segment.
    #[inline]
    pub(crate) fn set_segment_op(&mut self, operation: SegmentOp) {
        self.segment_op = Some(operation);
    }

    pub(crate) fn clear_segment_op(&mut self) {
        self.segment_op = None;
    }

    /// Forgets mismatches of an operation that is over here.
    pub(crate) fn forget(&mut self, context: u32, tag: u64) {
        self.found.retain(|found| (found.context, found.number) != (context, operation_number(tag)));
    }
}
