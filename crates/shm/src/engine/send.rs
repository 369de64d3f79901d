//! Sends to peers: through their inboxes first, through rings when that pays off.

use std::sync::atomic::Ordering;

use treepie_fabric::{Fabric, RecordHeader};

use super::{PeerChannel, SWITCH_TO_RING, Shm};
use crate::inbox::InboxWriter;
use crate::ring::RingWriter;

impl Shm {
    fn inbox_writer(&self, rank: u32) -> InboxWriter {
        InboxWriter::new(&self.arena.control(rank).inbox, self.arena.inbox_memory(rank))
    }

    /// Sends to a peer that has no ring yet.
    #[cold]
    pub(super) fn send_via_inbox(&mut self, to: u32, head: RecordHeader, body: &[u8]) -> bool {
        if let PeerChannel::Inbox(0) = self.channels[to as usize] {
            self.channels[to as usize] = self.claim_ring(to);
        }
        let doorbell = &self.arena.control(to).doorbell;
        match self.channels[to as usize] {
            PeerChannel::Announcing { writer, ring } => {
                let announcement = RecordHeader { slot: ring, ..RecordHeader::default() };
                if self.inbox_writer(to).push(self.rank | SWITCH_TO_RING, announcement, &[], doorbell) {
                    self.channels[to as usize] = PeerChannel::Ring(writer);
                    return self.try_send(to, head, body);
                }
            }
            PeerChannel::Inbox(left) => {
                if self.inbox_writer(to).push(self.rank, head, body, doorbell) {
                    self.channels[to as usize] = PeerChannel::Inbox(left - 1);
                    return true;
                }
            }
            PeerChannel::Ring(_) => unreachable!("rings are served by try_send"),
        }
        self.record_blocked_send(to, body.len());
        false
    }

    fn claim_ring(&mut self, to: u32) -> PeerChannel {
        let rings = self.arena.layout().rings;
        let one_more = |claimed| (claimed < rings).then_some(claimed + 1);
        let claimed_rings = &self.arena.control(to).claimed_rings;
        let Ok(ring) = claimed_rings.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more) else {
            // Rings are never released: do not try again for a long time.
            return PeerChannel::Inbox(u32::MAX);
        };
        let (header, memory) = self.arena.ring(to, ring);
        self.writers.push((&self.arena.control(to).doorbell, RingWriter::new(header, memory)));
        PeerChannel::Announcing { writer: self.writers.len() as u32 - 1, ring }
    }

    pub(super) fn record_blocked_send(&mut self, to: u32, body: usize) {
        match self.blocked_sends.iter_mut().find(|(peer, _)| *peer == to) {
            Some((_, least)) => *least = body.min(*least),
            None => self.blocked_sends.push((to, body)),
        }
    }
}
