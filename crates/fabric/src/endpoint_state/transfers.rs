//! Rendezvous transfers into receives of this rank.

use super::{Action, EndpointState, envelope};
use crate::bins::MatchKey;
use crate::call_signature::CallSignature;
use crate::matching::Rts;
use crate::op::{OpState, RendezvousTransfer};
use crate::slab::OpId;

/// Maximum number of concurrent rendezvous transfers from one peer. Engines poll each active transfer; deferred ones
/// cost nothing.
const MAX_TRANSFERS_PER_PEER: u32 = 64;

impl EndpointState {
    /// Starts a rendezvous transfer into a receive; false, and the receive has failed, if the message does not fit.
    pub(crate) fn start_transfer(&mut self, op: OpId, key: MatchKey, call: CallSignature, rts: Rts) -> bool {
        if !self.make_room(op, key, call, rts.bytes) {
            return false;
        }
        let entry = self.ops.get_mut(op).expect("posted receives exist");
        let envelope = envelope(key, call, rts.bytes);
        entry.state =
            OpState::Transferring(Box::new(RendezvousTransfer { envelope, slot: rts.slot, got: 0, started: false }));
        self.actions.push(Action::StartTransfer { op, from: key.source, rts });
        true
    }

    /// Whether a transfer may start now. If not, it is deferred until earlier ones of that peer have completed.
    pub(crate) fn admit_transfer(&mut self, from: u32, op: OpId, rts: Rts) -> bool {
        let admitted = self.peers.get_mut(from).transfers < MAX_TRANSFERS_PER_PEER;
        if admitted {
            let Some(OpState::Transferring(transfer)) = self.ops.get_mut(op).map(|op| &mut op.state) else {
                return false;
            };
            transfer.started = true;
            self.peers.get_mut(from).transfers += 1;
        } else {
            self.deferred_transfers.entry(from).or_default().push_back((op, rts));
        }
        admitted
    }

    /// Releases a completed or failed transfer: a deferred one of that peer may start.
    pub(super) fn release_transfer(&mut self, from: u32) {
        self.peers.get_mut(from).transfers -= 1;
        let Some(deferred) = self.deferred_transfers.get_mut(&from) else { return };
        while let Some((op, rts)) = deferred.pop_front() {
            // The receive may have failed meanwhile.
            if self.ops.get(op).is_some_and(|op| matches!(op.state, OpState::Transferring(_))) {
                self.actions.push(Action::StartTransfer { op, from, rts });
                return;
            }
        }
        self.deferred_transfers.remove(&from);
    }
}
