//! Transfers of long messages: in records, each metered as any other. The sender has its memory back when the link has
//! carried the last of them, not when the gateway has accepted it: with the paper's MPI, a blocking send of a long
//! message takes as long as the link does.

use std::collections::{HashMap, VecDeque};

use treepie_base::Span;
use treepie_fabric::{BulkDescriptor, BulkError};

use crate::gateway::Nanos;

/// Marks descriptors of this engine.
const MARK: u64 = 0x6761_7465_7761_7973;

/// The transfers of a rank.
#[derive(Default)]
pub(crate) struct BulkTransfers {
    next_id: u32,
    incoming: HashMap<u32, Incoming>,
    /// The transfers to each rank, the first being sent, in the order in which ranks have their turns.
    outgoing: VecDeque<(u32, VecDeque<Outgoing>)>,
    /// Sent, until the link has carried them: when that is, their slots and their memory.
    passing: Vec<(Nanos, u32, Span)>,
}

struct Incoming {
    from: u32,
    slot: u32,
    span: Span,
    received: usize,
}

/// A transfer to another rank.
pub(crate) struct Outgoing {
    pub(crate) to: u32,
    slot: u32,
    /// The receiver's number.
    pub(crate) id: u32,
    span: Span,
    sent: usize,
    /// When the link has carried what was sent.
    carried: Nanos,
}

impl Outgoing {
    /// The next part, of at most `max` bytes.
    pub(crate) fn next_part(&self, max: usize) -> &[u8] {
        let rest = &self.span.as_slice()[self.sent..];
        &rest[..rest.len().min(max)]
    }

    /// Notes that a part was sent, and when the link has carried it.
    pub(crate) fn advance(&mut self, bytes: usize, carried: Nanos) {
        self.sent += bytes;
        self.carried = carried;
    }

    fn is_sent(&self) -> bool {
        self.sent == self.span.len()
    }
}

/// A transfer that failed: its slot and its memory.
pub(crate) struct FailedTransfer {
    pub(crate) slot: u32,
    pub(crate) span: Span,
    pub(crate) sending: bool,
}

impl BulkTransfers {
    /// Begins to receive; the descriptor tells the sender.
    pub(crate) fn receive(&mut self, from: u32, slot: u32, span: Span) -> BulkDescriptor {
        // Numbers of running transfers are not used again; u32::MAX stands for none.
        while self.next_id == u32::MAX || self.incoming.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let (id, len) = (self.next_id, span.len() as u64);
        self.next_id = self.next_id.wrapping_add(1);
        self.incoming.insert(id, Incoming { from, slot, span, received: 0 });
        [MARK, id.into(), len, 0]
    }

    /// Begins to send what the receiver asked for.
    pub(crate) fn send(&mut self, to: u32, slot: u32, descriptor: BulkDescriptor, span: Span) -> Result<(), BulkError> {
        let [mark, id, len, _] = descriptor;
        match u32::try_from(id) {
            Ok(id) if mark == MARK && len == span.len() as u64 => {
                let transfer = Outgoing { to, slot, id, span, sent: 0, carried: 0 };
                match self.outgoing.iter_mut().find(|(rank, _)| *rank == to) {
                    Some((_, transfers)) => transfers.push_back(transfer),
                    None => self.outgoing.push_back((to, [transfer].into())),
                }
                Ok(())
            }
            _ => Err(BulkError::invalid(span, format!("rank {to} sent an invalid descriptor of a bulk transfer"))),
        }
    }

    /// Whether there is something to send.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Calls `send_part` for a transfer to each rank in turn, until it returns false for all of them: a port is shared by
    /// all links behind it, and one that idles until others are full never makes up for it. Transfers to one rank go one
    /// after the other.
    pub(crate) fn send_in_turn(&mut self, mut send_part: impl FnMut(&mut Outgoing) -> bool) {
        let mut refused = 0;
        while refused < self.outgoing.len() {
            let Some((to, mut transfers)) = self.outgoing.pop_front() else { return };
            let Some(mut first) = transfers.pop_front() else { continue };
            refused = if send_part(&mut first) { 0 } else { refused + 1 };
            if first.is_sent() {
                self.passing.push((first.carried, first.slot, first.span));
            } else {
                transfers.push_front(first);
            }
            if !transfers.is_empty() {
                self.outgoing.push_back((to, transfers));
            }
        }
    }

    /// Adds a part that arrived. Returns the slot and the memory of the transfer if it is complete.
    pub(crate) fn add_part(&mut self, id: u32, part: &[u8]) -> Option<(u32, Span)> {
        // One that has failed meanwhile is gone.
        let transfer = self.incoming.get_mut(&id)?;
        let end = (transfer.received + part.len()).min(transfer.span.len());
        let into = &mut transfer.span.as_mut_slice()[transfer.received..end];
        into.copy_from_slice(&part[..into.len()]);
        transfer.received = end;
        (end == transfer.span.len()).then(|| {
            let Incoming { slot, span, .. } = self.incoming.remove(&id).expect("it was found");
            (slot, span)
        })
    }

    /// When the next transfer has been carried.
    pub(crate) fn next_carried(&self) -> Option<Nanos> {
        self.passing.iter().map(|(carried, ..)| *carried).min()
    }

    /// A transfer that has been carried by now: its slot and its memory.
    pub(crate) fn take_carried(&mut self, now: Nanos) -> Option<(u32, Span)> {
        let at = self.passing.iter().position(|(carried, ..)| *carried <= now)?;
        let (_, slot, span) = self.passing.swap_remove(at);
        Some((slot, span))
    }

    /// Fails all transfers with ranks that are gone.
    pub(crate) fn fail(&mut self, is_gone: impl Fn(u32) -> bool) -> Vec<FailedTransfer> {
        let mut failed = Vec::new();
        let incoming = self.incoming.extract_if(|_, transfer| is_gone(transfer.from));
        failed.extend(incoming.map(|(_, Incoming { slot, span, .. })| FailedTransfer { slot, span, sending: false }));
        self.outgoing.retain_mut(|(to, transfers)| {
            if is_gone(*to) {
                let gone = transfers.drain(..);
                failed.extend(gone.map(|Outgoing { slot, span, .. }| FailedTransfer { slot, span, sending: true }));
            }
            !transfers.is_empty()
        });
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::span;

    #[test]
    fn a_transfer_is_complete_with_its_last_part() {
        let mut bulk = BulkTransfers::default();
        let [_, id, len, _] = bulk.receive(1, 7, span(&[0; 5]));
        let id = u32::try_from(id).unwrap();
        assert_eq!(len, 5);
        assert!(bulk.add_part(id, b"abc").is_none());
        let (slot, memory) = bulk.add_part(id, b"de").unwrap();
        assert_eq!((slot, memory.as_slice()), (7, &b"abcde"[..]));
        assert!(bulk.add_part(id, b"de").is_none(), "it is gone");
    }

    #[test]
    fn memory_returns_when_the_link_has_carried_the_last_part() {
        let mut sender = BulkTransfers::default();
        let descriptor = BulkTransfers::default().receive(0, 7, span(&[0; 5]));
        sender.send(1, 3, descriptor, span(b"abcde")).unwrap();
        let mut carried = 0;
        sender.send_in_turn(|transfer| {
            let bytes = transfer.next_part(3).len();
            carried += 10;
            transfer.advance(bytes, carried);
            true
        });
        assert!(!sender.has_outgoing());
        assert_eq!(sender.next_carried(), Some(20));
        assert!(sender.take_carried(19).is_none());
        assert_eq!(sender.take_carried(20).map(|(slot, _)| slot), Some(3));
    }

    #[test]
    fn transfers_with_a_lost_rank_fail_and_others_go_on() {
        let mut bulk = BulkTransfers::default();
        let descriptors = [1, 2].map(|from| bulk.receive(from, from, span(&[0; 5])));
        for to in [1, 2] {
            bulk.send(to, 10 + to, descriptors[0], span(&[0; 5])).unwrap();
        }
        let mut failed: Vec<_> = bulk.fail(|rank| rank == 1).iter().map(|one| (one.slot, one.sending)).collect();
        failed.sort_unstable();
        assert_eq!(failed, [(1, false), (11, true)]);
        assert!(bulk.add_part(descriptors[0][1] as u32, b"abcde").is_none());
        assert!(bulk.add_part(descriptors[1][1] as u32, b"abcde").is_some());
        let mut left = Vec::new();
        bulk.send_in_turn(|transfer| {
            left.push(transfer.to);
            false
        });
        assert_eq!(left, [2]);
    }

    #[test]
    fn ranks_have_turns_and_transfers_to_one_rank_an_order() {
        let mut bulk = BulkTransfers::default();
        for (slot, to) in [1, 1, 2, 3].into_iter().enumerate() {
            let descriptor = BulkTransfers::default().receive(0, 7, span(&[0; 2]));
            bulk.send(to, slot as u32, descriptor, span(&[0; 2])).unwrap();
        }
        let mut parts = Vec::new();
        let mut send = |room: usize, full: u32, parts: &mut Vec<(u32, u32)>| {
            let end = parts.len() + room;
            bulk.send_in_turn(|transfer| {
                let has_room = parts.len() < end && transfer.to != full;
                if has_room {
                    parts.push((transfer.to, transfer.slot));
                    transfer.advance(1, 0);
                }
                has_room
            });
        };
        send(2, 0, &mut parts);
        send(3, 0, &mut parts);
        // There is no room for more to rank 2, but for others.
        send(9, 2, &mut parts);
        assert_eq!(parts, [(1, 0), (2, 2), (3, 3), (1, 0), (2, 2), (3, 3), (1, 1), (1, 1)]);
    }

    #[test]
    fn invalid_descriptors_are_refused() {
        let mut bulk = BulkTransfers::default();
        let valid = bulk.receive(1, 0, span(&[0; 5]));
        for changed in 0..3 {
            let mut descriptor = valid;
            descriptor[changed] += 1 << 32;
            assert!(bulk.send(1, 0, descriptor, span(&[0; 5])).is_err(), "{changed}");
        }
    }
}
