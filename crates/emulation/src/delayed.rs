//! Records that have been sent and are not due yet.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use treepie_fabric::RecordHeader;

use crate::gateway::{Gateways, Nanos};

/// What follows the body of each record: when it is due, and the bulk transfer that it is a part of.
pub(crate) const TRAILER: usize = 16;

/// The transfer of records that are part of none.
const NO_TRANSFER: u32 = u32::MAX;

/// A record that this rank has not seen yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DelayedRecord {
    due: Nanos,
    /// Equal times in the order of arrival.
    number: u64,
    pub(crate) from: u32,
    pub(crate) head: RecordHeader,
    /// The bulk transfer.
    pub(crate) transfer: Option<u32>,
    pub(crate) body: Vec<u8>,
}

impl Ord for DelayedRecord {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl PartialOrd for DelayedRecord {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Appends the trailer.
pub(crate) fn append_trailer(body: &mut Vec<u8>, due: Nanos, transfer: Option<u32>) {
    body.extend_from_slice(&due.to_ne_bytes());
    body.extend_from_slice(&transfer.unwrap_or(NO_TRANSFER).to_ne_bytes());
    body.extend_from_slice(&[0; 4]);
}

/// The records in flight to this rank.
#[derive(Default)]
pub(crate) struct DelayedRecords {
    heap: BinaryHeap<Reverse<DelayedRecord>>,
    /// When the last record of each sender is due: its records arrive in order, also if one was lost on the way.
    last_due: Vec<Nanos>,
    count: u64,
    /// Memory of bodies, to use again.
    free: Vec<Vec<u8>>,
}

/// Bodies whose memory is kept.
const MAX_FREE: usize = 64;

impl DelayedRecords {
    pub(crate) fn new(ranks: u32) -> Self {
        Self { last_due: vec![0; ranks as usize], ..Self::default() }
    }

    /// Adds a record with its trailer.
    pub(crate) fn push(&mut self, from: u32, head: RecordHeader, with_trailer: &[u8]) {
        let (body, trailer) = with_trailer.split_at(with_trailer.len() - TRAILER);
        let sent_due = Nanos::from_ne_bytes(trailer[..8].try_into().expect("8 bytes"));
        let transfer = u32::from_ne_bytes(trailer[8..12].try_into().expect("4 bytes"));
        let due = sent_due.max(self.last_due[from as usize]);
        self.last_due[from as usize] = due;
        let mut memory = self.free.pop().unwrap_or_default();
        memory.clear();
        memory.extend_from_slice(body);
        self.count += 1;
        let transfer = (transfer != NO_TRANSFER).then_some(transfer);
        self.heap.push(Reverse(DelayedRecord { due, number: self.count, from, head, transfer, body: memory }));
    }

    /// When the port will have received the next record.
    pub(crate) fn next_at(&self, gateways: &Gateways) -> Option<Nanos> {
        let Reverse(first) = self.heap.peek()?;
        Some(gateways.received_at(first.due, first.body.len()))
    }

    /// Takes the next record if the port has received it by now.
    pub(crate) fn pop(&mut self, now: Nanos, gateways: &mut Gateways) -> Option<DelayedRecord> {
        let received = self.next_at(gateways).filter(|received| *received <= now)?;
        gateways.receive(received);
        self.heap.pop().map(|Reverse(record)| record)
    }

    /// Returns the memory of a body.
    pub(crate) fn recycle(&mut self, body: Vec<u8>) {
        if self.free.len() < MAX_FREE {
            self.free.push(body);
        }
    }

    /// How many records have been added. Those up to a count have been taken when [`has_taken`](Self::has_taken) says
    /// so.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Whether the records up to this count have been taken.
    pub(crate) fn has_taken(&self, count: u64) -> bool {
        self.heap.iter().all(|Reverse(record)| record.number > count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Words;

    fn gateways() -> Gateways {
        let emulation = "clusters:3x1,lan=0us/1GBps".parse().unwrap();
        Gateways::new(&emulation, 0, Words::zeroed(Gateways::shared_bytes(&emulation)))
    }

    fn push(records: &mut DelayedRecords, from: u32, body: &[u8], due: Nanos) {
        let mut with_trailer = body.to_vec();
        append_trailer(&mut with_trailer, due, None);
        records.push(from, RecordHeader::default(), &with_trailer);
    }

    #[test]
    fn records_of_a_sender_stay_in_order() {
        let (mut records, mut gateways) = (DelayedRecords::new(3), gateways());
        let start = treepie_base::monotonic_nanos() + 1_000_000_000;
        // The first of rank 1 was lost and sent again; what it sent later is due before.
        push(&mut records, 1, b"first", start + 3_000_000);
        push(&mut records, 1, b"second", start + 1_000_000);
        push(&mut records, 2, b"other", start + 2_000_000);
        assert_eq!(records.next_at(&gateways), Some(start + 2_000_000));
        assert_eq!(records.pop(start + 1_999_999, &mut gateways), None);
        assert!(records.has_taken(0) && !records.has_taken(1));
        let taken = |_| records.pop(start + 4_000_000, &mut gateways).map(|record| record.body);
        let bodies: Vec<_> = (0..4).map_while(taken).collect();
        assert_eq!(bodies, [&b"other"[..], b"first", b"second"]);
        assert!(records.has_taken(records.count()));
    }

    #[test]
    fn bodies_are_without_their_trailer_also_in_memory_of_others() {
        let (mut records, mut gateways) = (DelayedRecords::new(2), gateways());
        records.recycle(b"longer than the next".to_vec());
        let mut part = b"abc".to_vec();
        append_trailer(&mut part, 0, Some(9));
        records.push(1, RecordHeader::default(), &part);
        let record = records.pop(Nanos::MAX, &mut gateways).unwrap();
        assert_eq!((record.body.as_slice(), record.transfer), (&b"abc"[..], Some(9)));
    }
}
