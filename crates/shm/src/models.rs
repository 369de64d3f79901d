//! Every interleaving of small cases, by loom: `RUSTFLAGS="--cfg loom" cargo test -p treepie-shm --release --lib`.
//!
//! A lost wake-up is a model that never ends, which loom reports; so is a writer that never learns of freed space. The
//! models at the end leave out one step each and must fail: they show that the others can detect its absence.

use loom::thread;
use treepie_fabric::RecordHeader;

use crate::barrier_cell::{ArrivalCounters, BarrierCell};
use crate::claim::Claim;
use crate::doorbell::{Doorbell, ParkedCount};
use crate::inbox::{Inbox, InboxHeader, InboxWriter};
use crate::primitive::{AtomicU32, AtomicU64, FenceMode, Ordering, fence};
use crate::ring::{RingHeader, RingReader, RingWriter};
use crate::ring_memory::RingMemory;
use crate::slot_rounds::{LARGE_SLOTS, SlotFlags, SlotRounds};

fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn full_fence() {
    fence(Ordering::SeqCst);
}

fn leaked_doorbell() -> &'static Doorbell {
    Box::leak(Box::new(Doorbell::new()))
}

fn ring(granules: usize) -> (RingWriter, RingReader) {
    let (header, memory) = (RingHeader::leaked(), RingMemory::leaked(granules * 32));
    (RingWriter::new(header, memory), RingReader::new(header, memory))
}

fn head(tag: u32) -> RecordHeader {
    RecordHeader { kind: 1, context: 2, tag, slot: tag + 1 }
}

/// Takes the next record, yielding until there is one.
fn take(reader: &mut RingReader, writers_doorbell: &Doorbell) -> (u32, Vec<u8>) {
    loop {
        if let Some((prefix, body)) = reader.next() {
            assert_eq!(prefix.head, head(prefix.head.tag));
            reader.free(writers_doorbell);
            return (prefix.head.tag, body);
        }
        thread::yield_now();
    }
}

#[test]
fn records_arrive_whole_and_in_order_around_the_ring() {
    bounded(3, || {
        let (mut writer, mut reader) = ring(4);
        let (writers_doorbell, readers_doorbell) = (leaked_doorbell(), leaked_doorbell());
        // One and two granules, so that a lap ends with a pad, and stale bodies lie where records begin.
        let lengths = [4, 36, 8, 36, 4];
        let sender = thread::spawn(move || {
            for (tag, len) in lengths.into_iter().enumerate() {
                while !writer.push(
                    0,
                    head(tag as u32),
                    &vec![tag as u8 + 1; len],
                    readers_doorbell,
                    FenceMode::Symmetric,
                ) {
                    thread::yield_now();
                }
            }
        });
        for (tag, len) in lengths.into_iter().enumerate() {
            assert_eq!(take(&mut reader, writers_doorbell), (tag as u32, vec![tag as u8 + 1; len]));
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_record_notifies_a_parked_reader() {
    loom::model(|| {
        let (mut writer, mut reader) = ring(4);
        let (writers_doorbell, readers_doorbell) = (leaked_doorbell(), leaked_doorbell());
        let sender =
            thread::spawn(move || assert!(writer.push(0, head(7), &[1; 8], readers_doorbell, FenceMode::Symmetric)));
        while !reader.is_ready() {
            readers_doorbell.park(std::time::Duration::MAX, full_fence, || reader.is_ready());
        }
        assert_eq!(take(&mut reader, writers_doorbell).0, 7);
        sender.join().unwrap();
    });
}

#[test]
fn freed_space_notifies_a_parked_writer() {
    bounded(3, || {
        let (mut writer, mut reader) = ring(4);
        let (writers_doorbell, readers_doorbell) = (leaked_doorbell(), leaked_doorbell());
        // Three records fill the ring, as one granule stays free after them.
        for tag in 0..3 {
            assert!(writer.push(0, head(tag), &[0; 8], readers_doorbell, FenceMode::Symmetric));
        }
        let receiver = thread::spawn(move || {
            for tag in 0..4 {
                assert_eq!(take(&mut reader, writers_doorbell).0, tag);
            }
        });
        while !writer.push(0, head(3), &[0; 8], readers_doorbell, FenceMode::Symmetric) {
            writers_doorbell.park(std::time::Duration::MAX, full_fence, || writer.has_room(8));
        }
        receiver.join().unwrap();
    });
}

#[test]
fn each_writer_of_an_inbox_keeps_its_order() {
    bounded(2, || {
        let (header, memory) = (InboxHeader::leaked(), RingMemory::leaked(4 * 32));
        let doorbell = leaked_doorbell();
        let writers: Vec<_> = [10, 20]
            .into_iter()
            .map(|from| {
                thread::spawn(move || {
                    let writer = InboxWriter::new(header, memory);
                    for tag in 0..2 {
                        while !writer.push(from, head(from + tag), &[tag as u8; 8], doorbell) {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut inbox = Inbox::new(header, memory);
        let mut last = [None, None];
        for _ in 0..4 {
            let (from, tag) = loop {
                if let Some((prefix, body)) = inbox.next() {
                    assert_eq!(body, [(prefix.head.tag - prefix.from) as u8; 8]);
                    inbox.free();
                    break (prefix.from, prefix.head.tag - prefix.from);
                }
                thread::yield_now();
            };
            let last = &mut last[from as usize / 10 - 1];
            assert!(last.is_none_or(|last| last < tag));
            *last = Some(tag);
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

#[test]
fn freed_inbox_space_notifies_a_parked_writer() {
    bounded(3, || {
        let (header, memory) = (InboxHeader::leaked(), RingMemory::leaked(2 * 32));
        let (writers_doorbell, readers_doorbell) = (leaked_doorbell(), leaked_doorbell());
        let writer = InboxWriter::new(header, memory);
        assert!(
            writer.push(0, head(0), &[0; 8], readers_doorbell) && writer.push(0, head(1), &[0; 8], readers_doorbell)
        );
        let reader = thread::spawn(move || {
            let mut inbox = Inbox::new(header, memory);
            for tag in 0..3 {
                while inbox.next().map(|(prefix, _)| assert_eq!(prefix.head.tag, tag)).is_none() {
                    thread::yield_now();
                }
                if inbox.free() {
                    writers_doorbell.notify();
                }
            }
        });
        while !writer.push(0, head(2), &[0; 8], readers_doorbell) {
            writers_doorbell.park(std::time::Duration::MAX, full_fence, || writer.has_room_or_block(8));
        }
        reader.join().unwrap();
    });
}

#[test]
fn each_chunk_is_copied_once_and_a_late_sender_claims_none() {
    loom::model(|| {
        let claim: &'static Claim = Box::leak(Box::new(Claim::new()));
        let copies: &'static [AtomicU32; 2] = Box::leak(Box::new([AtomicU32::new(0), AtomicU32::new(0)]));
        let anything = crate::registry::MemoryRegion { base: 0, len: 0, peer: 0 };
        let old = claim.open(anything);
        let generation = claim.open(anything);
        let copy = move |generation| {
            while let Some(chunk) = claim.claim_next(generation, 2) {
                copies[chunk as usize].store(copies[chunk as usize].load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                claim.complete_chunk();
            }
        };
        let sender = thread::spawn(move || {
            copy(old);
            copy(generation);
        });
        copy(generation);
        while claim.completed_chunks() < 2 {
            thread::yield_now();
        }
        // The receiver sees what the sender wrote, as it has seen the completion.
        assert!(copies.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        sender.join().unwrap();
    });
}

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

/// A barrier cell of three ranks, and the arrivals and the loss of each rank.
struct BarrierModel {
    cell: BarrierCell,
    arrivals: [ArrivalCounters<1>; 3],
    lost: [AtomicU32; 3],
}

const RANKS: u32 = 3;

impl BarrierModel {
    fn leaked() -> &'static Self {
        let (arrivals, lost) =
            (std::array::from_fn(|_| ArrivalCounters::new()), std::array::from_fn(|_| AtomicU32::new(0)));
        Box::leak(Box::new(Self { cell: BarrierCell::new(), arrivals, lost }))
    }

    /// Arrives at a barrier with this rank's bit.
    fn arrive(&self, rank: usize, barrier: u64) {
        self.cell.arrive(barrier, 1 << rank);
        self.arrivals[rank].record(0, barrier);
    }

    fn leave(&self, rank: usize) {
        self.lost[rank].store(1, Ordering::Release);
    }

    /// Whether a rank is lost that has not arrived at a barrier, as an endpoint determines it.
    fn is_broken(&self, barrier: u64) -> bool {
        (0..RANKS as usize).any(|r| self.lost[r].load(Ordering::Acquire) == 1 && self.arrivals[r].last(0) < barrier)
    }

    /// Calls a barrier and tests once whether it is complete. A rank that finds the barrier broken does not arrive.
    fn call(&self, rank: usize, barrier: u64) -> bool {
        if self.is_broken(barrier) {
            return false;
        }
        self.arrive(rank, barrier);
        let complete = self.cell.is_complete(barrier, RANKS);
        if complete {
            assert_eq!(self.cell.traffic_summary(barrier), 0b111, "the bits of all, of barrier {barrier}");
        }
        complete
    }
}

#[test]
fn a_barrier_succeeds_only_if_all_have_arrived() {
    bounded(3, || {
        let model = BarrierModel::leaked();
        // Two ranks go on to the second barrier if they have passed the first; one leaves after the first.
        let others: Vec<_> = [0, 1]
            .map(|rank| {
                thread::spawn(move || {
                    if model.call(rank, 1) {
                        assert!(!model.call(rank, 2), "rank 2 never called the second barrier");
                    }
                })
            })
            .into();
        model.call(2, 1);
        model.leave(2);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(!model.is_broken(1) && model.cell.is_complete(1, RANKS), "all have called the first barrier");
        assert!(model.is_broken(2) && !model.cell.is_complete(2, RANKS), "rank 2 never called the second barrier");
    });
}

#[test]
fn a_barrier_that_a_rank_leaves_out_is_broken_for_all() {
    bounded(3, || {
        let model = BarrierModel::leaked();
        let other = thread::spawn(move || {
            // However often it calls, it does not arrive at a barrier that it has found broken.
            assert!(!model.call(0, 1));
            assert!(!model.is_broken(1) || !model.call(0, 2));
        });
        let leaver = thread::spawn(move || model.leave(2));
        assert!(!model.call(1, 1), "rank 2 never called it");
        other.join().unwrap();
        leaver.join().unwrap();
        assert!(model.is_broken(1) && !model.cell.is_complete(1, RANKS), "rank 2 never called it");
    });
}

#[test]
#[should_panic(expected = "rank 2 never called it")]
fn with_ranks_that_arrive_again_after_a_failure_a_barrier_succeeds_wrongly() {
    bounded(2, || {
        let model = BarrierModel::leaked();
        model.leave(2);
        let other = thread::spawn(move || {
            // It calls, fails, and calls again, and arrives each time.
            model.arrive(0, 1);
            model.arrive(0, 2);
        });
        model.arrive(1, 1);
        other.join().unwrap();
        assert!(!model.cell.is_complete(1, RANKS), "rank 2 never called it");
    });
}

/// A record for a reader that parks, with one step left out: shows that the models above would detect its absence.
fn record_for_a_parked_reader(fence_mode: FenceMode, park: fn(&Doorbell, &mut RingReader)) {
    loom::model(move || {
        let (mut writer, mut reader) = ring(4);
        let readers_doorbell = leaked_doorbell();
        let sender = thread::spawn(move || assert!(writer.push(0, head(7), &[1; 8], readers_doorbell, fence_mode)));
        while !reader.is_ready() {
            park(readers_doorbell, &mut reader);
        }
        sender.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn without_the_readers_fence_a_wake_up_is_lost() {
    record_for_a_parked_reader(FenceMode::Symmetric, |doorbell, reader| {
        doorbell.park(std::time::Duration::MAX, || {}, || reader.is_ready());
    });
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn without_the_writers_fence_a_wake_up_is_lost() {
    // This mode is correct only if the parking reader fences the writer, too, which this one does not.
    record_for_a_parked_reader(FenceMode::Asymmetric, |doorbell, reader| {
        doorbell.park(std::time::Duration::MAX, full_fence, || reader.is_ready());
    });
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn without_the_flag_a_wake_up_is_lost() {
    record_for_a_parked_reader(FenceMode::Symmetric, |doorbell, reader| {
        doorbell.park_unflagged(full_fence, || reader.is_ready())
    });
}
