//! Records and completions that have arrived.

use treepie_fabric::FabricEvent;

use super::{HeldRecord, InboxItem, SWITCH_TO_RING, Shm};
use crate::ring::RingReader;

impl Shm {
    /// Frees the record that `poll` returned last.
    #[inline]
    pub(super) fn free_held_record(&mut self) {
        match std::mem::replace(&mut self.held_record, HeldRecord::Nothing) {
            HeldRecord::Nothing => {}
            HeldRecord::Ring(i) => {
                let (writer, reader) = &mut self.readers[i];
                reader.free(writer);
            }
            HeldRecord::Inbox => {
                if self.inbox.free() {
                    self.arena.notify_all();
                }
            }
        }
    }

    /// Index of a ring that has a record.
    #[inline]
    pub(super) fn ready_ring(&mut self) -> Option<usize> {
        // The ring that had a record last is likely to have more.
        if let Some((_, reader)) = self.readers.get_mut(self.last_ready_ring)
            && reader.is_ready()
        {
            return Some(self.last_ready_ring);
        }
        self.last_ready_ring = self.find_ready_ring()?;
        Some(self.last_ready_ring)
    }

    fn find_ready_ring(&mut self) -> Option<usize> {
        let n = self.readers.len();
        let after = (self.last_ready_ring + 1).min(n);
        (after..n).chain(0..after.min(n)).find(|i| self.readers[*i].1.is_ready())
    }

    /// Consumes the engine's announcements, up to the first record for the endpoint.
    #[inline]
    pub(super) fn peek_inbox(&mut self) -> InboxItem {
        if self.inbox.is_ready() { self.process_inbox_item() } else { InboxItem::Nothing }
    }

    #[cold]
    fn process_inbox_item(&mut self) -> InboxItem {
        let (prefix, _) = self.inbox.next().expect("it is ready");
        if prefix.from & SWITCH_TO_RING == 0 {
            self.inbox.put_back();
            return InboxItem::Record;
        }
        let (header, memory) = self.arena.ring(self.rank, prefix.head.slot);
        let doorbell = &self.arena.control(prefix.from & !SWITCH_TO_RING).doorbell;
        self.readers.push((doorbell, RingReader::new(header, memory)));
        self.held_record = HeldRecord::Inbox;
        self.free_held_record();
        InboxItem::NewRing
    }

    pub(super) fn recv_from_inbox(&mut self) -> Option<FabricEvent<'_>> {
        self.held_record = HeldRecord::Inbox;
        let (prefix, body) = self.inbox.next()?;
        Some(FabricEvent::Record { from: prefix.from, head: prefix.head, body })
    }

    /// Polls for events other than records: acknowledgements, barriers, large messages.
    pub(super) fn poll_completions(&mut self, all_read: bool) -> Option<FabricEvent<'static>> {
        if let Some(slot) = self.arena.control(self.rank).take_ack() {
            return Some(match self.single_copy.complete_push(slot) {
                Some(span) => FabricEvent::BulkSent { slot, span },
                None => FabricEvent::Acked { slot },
            });
        }
        let Self { pending_barriers, arena, inbox, .. } = self;
        if let Some(i) = pending_barriers.iter_mut().position(|barrier| barrier.is_drained(arena, inbox)) {
            let barrier = pending_barriers.swap_remove(i);
            return Some(FabricEvent::BarrierCompleted { cell: barrier.cell, bits: barrier.traffic_summary(arena) });
        }
        if self.single_copy.is_idle() { None } else { self.single_copy.progress(&self.arena, all_read) }
    }
}
