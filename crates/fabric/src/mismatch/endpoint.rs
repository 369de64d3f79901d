//! The checks of an endpoint for mismatched calls.

use treepie_base::{Error, Result};

use super::{Mismatch, SegmentOp};
use crate::call_signature::CallSignature;
use crate::endpoint::Endpoint;
use crate::endpoint_state::EndpointState;
use crate::matching::UnexpectedMessage;
use crate::op::OpState;
use crate::protocol_queues::operation_number;

/// Number of messages and operations that the first check of a wait may scan, on average; each further check may scan
/// twice as many. A long wait has the time for it, and the cost of a short one does not grow with queue lengths.
const SCAN_BUDGET: usize = 1024;

impl EndpointState {
    /// Finds messages of other calls under the numbers of pending operations. Returns whether there are new ones.
    fn find_mismatches(&mut self) -> bool {
        let EndpointState { unexpected, protocol_queues, ops, mismatches, aborts, .. } = self;
        let known = mismatches.found.len();
        let mut arrived = std::mem::take(&mut mismatches.arrived);
        let queued =
            unexpected.iter().map(|UnexpectedMessage { key, call, .. }| (key.context, key.tag, key.source, *call));
        let unopened =
            protocol_queues.unopened().map(|(instance, source, call)| (instance.context, instance.tag, source, call));
        for (context, tag, source, call) in queued.chain(unopened).filter(|(.., call)| call.is_collective()) {
            arrived.entry((context, operation_number(tag))).or_default().add(source, call);
        }
        let mut note = |context: u32, tag: u64, local: Option<CallSignature>| {
            let number = operation_number(tag);
            let other = arrived.get(&(context, number)).and_then(|arrived| arrived.other_than(local));
            let is_known = |found: &Mismatch| (found.context, found.number) == (context, number);
            let other = other.map(|(source, call)| (source, Some(call)));
            let other = other.or_else(|| aborts.mismatch_peer(context, tag).map(|source| (source, None)));
            if let Some((source, theirs)) = other
                && !mismatches.found.iter().any(is_known)
            {
                mismatches.found.push(Mismatch { context, number, source, theirs });
            }
        };
        if let Some((key, call)) = mismatches.awaited.take() {
            note(key.context, key.tag, Some(call));
        }
        // Operations in the shared segment of all ranks and protocols exchange no matched messages.
        if let Some(SegmentOp { context, tag, call, has_messages }) = mismatches.segment_op {
            note(context, tag, has_messages.then_some(call));
        }
        protocol_queues.open_instances().for_each(|instance| note(instance.context, instance.tag, None));
        let posted = ops.iter().filter(|(_, op)| matches!(op.state, OpState::Posted(_)) && op.call.is_collective());
        posted.for_each(|(_, op)| note(op.key.context, op.key.tag, Some(op.call)));
        arrived.clear();
        mismatches.arrived = arrived;
        mismatches.found.len() > known
    }
}

impl Endpoint {
    /// Checks for mismatched calls once the scan budget suffices; `checks` is the number of earlier checks of this
    /// wait, or none to check in any case. Returns whether there are new mismatches.
    pub(crate) fn detect_mismatches(&mut self, checks: Option<u32>) -> bool {
        let EndpointState { unexpected, protocol_queues, ops, mismatches, aborts, .. } = &mut self.state;
        let budget = checks.map_or(usize::MAX, |checks| SCAN_BUDGET << checks.min(24));
        mismatches.scan_budget = mismatches.scan_budget.saturating_add(budget);
        if mismatches.scan_budget < ops.scan_cost() + unexpected.scan_cost() + protocol_queues.num_instances() {
            return false;
        }
        mismatches.scan_budget = 0;
        if !unexpected.has_collective() && !aborts.has_mismatch() && protocol_queues.unopened().next().is_none() {
            return false;
        }
        let any = self.state.find_mismatches();
        if any {
            // Tasks check their operations themselves.
            self.state.ready_tasks.mark_all();
        }
        any
    }

    /// An error if a rank is in another call than `call` under the same operation number.
    #[inline]
    pub fn check_mismatch(&self, context: u32, tag: u64, call: CallSignature) -> Result<()> {
        if self.state.mismatches.found.is_empty() { Ok(()) } else { self.check_mismatch_slow(context, tag, call) }
    }

    #[cold]
    fn check_mismatch_slow(&self, context: u32, tag: u64, call: CallSignature) -> Result<()> {
        let is_same = |found: &&Mismatch| (found.context, found.number) == (context, operation_number(tag));
        let found = self.state.mismatches.found.iter().find(is_same);
        match found {
            None => Ok(()),
            Some(Mismatch { source, theirs: None, .. }) => Err(Error::Aborted { rank: *source as usize }),
            Some(Mismatch { source, theirs: Some(theirs), .. }) => {
                Err(call.mismatch_error(self.state.rank, *theirs, *source))
            }
        }
    }

    pub(crate) fn check_segment_mismatch(&self) -> Result<()> {
        match self.state.mismatches.segment_op {
            Some(SegmentOp { context, tag, call, .. }) => self.check_mismatch(context, tag, call),
            None => Ok(()),
        }
    }
}
