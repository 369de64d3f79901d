//! Models of the shared segment: a slot is read in its round, and written when all have read it.

use loom::thread;

use super::{bounded, full_fence, leaked_doorbell};
use crate::doorbell::ParkedCount;
use crate::primitive::{AtomicU64, FenceMode};
use crate::slot_rounds::{LARGE_SLOTS, SlotFlags, SlotRounds};

/// A segment whose slots are one cell each: loom reports concurrent accesses to a slot if one of them is a write.
struct SegmentModel {
    flags: Vec<AtomicU64>,
    slots: Vec<loom::cell::UnsafeCell<u64>>,
    ranks: u32,
    depth: u64,
}

// SAFETY: loom watches over the cells.
unsafe impl Sync for SegmentModel {}

impl SegmentModel {
    fn leaked(ranks: u32, depth: u64) -> &'static Self {
        let count = u64::from(ranks) * depth;
        let flags = (0..count).map(|_| AtomicU64::new(0)).collect();
        let slots = (0..count).map(|_| loom::cell::UnsafeCell::new(0)).collect();
        Box::leak(Box::new(Self { flags, slots, ranks, depth }))
    }

    fn index(&self, rank: u32, round: u64) -> usize {
        (round % self.depth) as usize * self.ranks as usize + rank as usize
    }

    /// Writes to the slot of the next round and publishes.
    fn publish(&self, rounds: &mut SlotRounds, rank: u32, value: u64) {
        while !rounds.can_publish(self, false) {
            thread::yield_now();
        }
        self.publish_in(rounds.last_round() + 1, rounds, rank, value);
    }

    /// Writes to a slot and publishes the next round.
    fn publish_in(&self, slot: u64, rounds: &mut SlotRounds, rank: u32, value: u64) {
        // SAFETY: loom watches over the cell.
        self.slots[self.index(rank, slot)].with_mut(|slot| unsafe { *slot = value });
        assert!(rounds.try_publish(self, false, value, FenceMode::Symmetric));
    }

    fn recv(&self, rounds: &mut SlotRounds, rank: u32, in_large_slot: bool) -> u64 {
        let tag = loop {
            match rounds.published_tag(self, rank) {
                Some(tag) => break tag,
                None => thread::yield_now(),
            }
        };
        let slot = if in_large_slot { rounds.last_round() % LARGE_SLOTS } else { rounds.last_round() };
        // SAFETY: loom watches over the cell.
        let value = self.slots[self.index(rank, slot)].with(|slot| unsafe { *slot });
        assert_eq!(value, tag, "a slot holds the data of its flag's round");
        value
    }
}

impl SlotFlags for SegmentModel {
    fn flag(&self, rank: u32, round: u64) -> &AtomicU64 {
        &self.flags[self.index(rank, round)]
    }
}

fn exchange_over_a_segment(depth: u64, num_rounds: u64) {
    bounded(3, move || {
        let segment = SegmentModel::leaked(2, depth);
        let exchange = move |rank: u32| {
            let mut rounds = SlotRounds::new(rank, 2, depth);
            for number in 1..=num_rounds {
                segment.publish(&mut rounds, rank, 10 * number + u64::from(rank));
                assert_eq!(segment.recv(&mut rounds, 1 - rank, false), 10 * number + u64::from(1 - rank));
            }
        };
        let other = thread::spawn(move || exchange(1));
        exchange(0);
        other.join().unwrap();
    });
}

#[test]
fn slots_are_read_in_their_round() {
    exchange_over_a_segment(2, 4);
}

/// One rank only writes large slots, the other reads them all.
fn stream_through_large_slots(waits_for_readers: bool) {
    bounded(3, move || {
        let segment = SegmentModel::leaked(2, 8);
        let writer = thread::spawn(move || {
            let mut rounds = SlotRounds::new(0, 2, 8);
            for number in 1..=LARGE_SLOTS + 1 {
                if waits_for_readers {
                    while !rounds.can_publish(segment, true) {
                        thread::yield_now();
                    }
                }
                segment.publish_in((rounds.last_round() + 1) % LARGE_SLOTS, &mut rounds, 0, number);
            }
        });
        let mut rounds = SlotRounds::new(1, 2, 8);
        for number in 1..=LARGE_SLOTS + 1 {
            segment.publish_in((rounds.last_round() + 1) % LARGE_SLOTS, &mut rounds, 1, 0);
            assert_eq!(segment.recv(&mut rounds, 0, true), number);
        }
        writer.join().unwrap();
    });
}

#[test]
fn large_slots_are_reused_when_all_have_read_them() {
    stream_through_large_slots(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_waiting_for_readers_a_large_slot_is_overwritten() {
    stream_through_large_slots(false);
}

#[test]
fn a_writer_is_at_most_depth_rounds_ahead() {
    bounded(3, || {
        let segment = SegmentModel::leaked(2, 2);
        let writer = thread::spawn(move || {
            let mut rounds = SlotRounds::new(0, 2, 2);
            (1..=4).for_each(|number| segment.publish(&mut rounds, 0, number));
        });
        let mut rounds = SlotRounds::new(1, 2, 2);
        for number in 1..=4 {
            segment.publish(&mut rounds, 1, 0);
            assert_eq!(segment.recv(&mut rounds, 0, false), number);
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_parked_reader_of_a_segment_is_notified() {
    loom::model(|| {
        let (segment, doorbell) = (SegmentModel::leaked(2, 2), leaked_doorbell());
        let parked: &'static ParkedCount = Box::leak(Box::new(ParkedCount::new()));
        let other = thread::spawn(move || {
            segment.publish(&mut SlotRounds::new(0, 2, 2), 0, 7);
            if parked.any() {
                doorbell.notify_after_publish();
            }
        });
        let mut rounds = SlotRounds::new(1, 2, 2);
        segment.publish(&mut rounds, 1, 0);
        while rounds.published_tag(segment, 0).is_none() {
            parked.while_parked(|| {
                doorbell.park(std::time::Duration::MAX, full_fence, || rounds.awaited_has_published(segment))
            });
        }
        other.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_waiting_for_readers_a_slot_is_overwritten() {
    bounded(3, || {
        let segment = SegmentModel::leaked(2, 2);
        let writer = thread::spawn(move || {
            // It assumes a larger depth than the segment has.
            let mut rounds = SlotRounds::new(0, 2, 4);
            (1..=3).for_each(|number| segment.publish(&mut rounds, 0, number));
        });
        let mut rounds = SlotRounds::new(1, 2, 2);
        segment.publish(&mut rounds, 1, 0);
        segment.recv(&mut rounds, 0, false);
        writer.join().unwrap();
    });
}
