//! Every interleaving of small cases, by loom: `RUSTFLAGS="--cfg loom" cargo test -p treepie-shm --release --lib`.
//!
//! A lost wake-up shows as a model that never ends, which loom reports; so does a writer that is never told of room.
//! The models at the end leave out one step each and must fail: they show that the others could.

use loom::thread;
use treepie_fabric::Head;

use crate::area::Area;
use crate::bell::Bell;
use crate::claim::Claim;
use crate::inbox::{Inbox, InboxHeader, Slot};
use crate::primitive::{AtomicU32, Fencing, Ordering, fence};
use crate::ring::{Reader, RingHeader, Writer};

fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn full_fence() {
    fence(Ordering::SeqCst);
}

fn leaked_bell() -> &'static Bell {
    Box::leak(Box::new(Bell::new()))
}

fn ring(granules: usize) -> (Writer, Reader) {
    let (header, area) = (RingHeader::leaked(), Area::leaked(granules * 32));
    (Writer::new(header, area), Reader::new(header, area))
}

fn head(tag: u32) -> Head {
    Head { kind: 1, context: 2, tag, slot: tag + 1 }
}

/// Takes the next record, yielding until there is one.
fn take(reader: &mut Reader, writer_bell: &Bell) -> (u32, Vec<u8>) {
    loop {
        if let Some((prefix, body)) = reader.next() {
            assert_eq!(prefix.head, head(prefix.head.tag));
            reader.free(writer_bell);
            return (prefix.head.tag, body);
        }
        thread::yield_now();
    }
}

#[test]
fn records_arrive_whole_and_in_order_around_the_ring() {
    bounded(3, || {
        let (mut writer, mut reader) = ring(4);
        let (writers_bell, readers_bell) = (leaked_bell(), leaked_bell());
        // One and two granules, so that a lap ends with a pad, and stale bodies lie where records begin.
        let lengths = [4, 36, 8, 36, 4];
        let sender = thread::spawn(move || {
            for (tag, len) in lengths.into_iter().enumerate() {
                while !writer.push(0, head(tag as u32), &vec![tag as u8 + 1; len], readers_bell, Fencing::Writer) {
                    thread::yield_now();
                }
            }
        });
        for (tag, len) in lengths.into_iter().enumerate() {
            assert_eq!(take(&mut reader, writers_bell), (tag as u32, vec![tag as u8 + 1; len]));
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_sleeping_reader_is_woken_by_a_record() {
    loom::model(|| {
        let (mut writer, mut reader) = ring(4);
        let (writers_bell, readers_bell) = (leaked_bell(), leaked_bell());
        let sender = thread::spawn(move || assert!(writer.push(0, head(7), &[1; 8], readers_bell, Fencing::Writer)));
        while !reader.ready() {
            readers_bell.sleep(std::time::Duration::MAX, full_fence, || reader.ready());
        }
        assert_eq!(take(&mut reader, writers_bell).0, 7);
        sender.join().unwrap();
    });
}

#[test]
fn a_writer_that_sleeps_for_room_is_woken_by_credit() {
    bounded(3, || {
        let (mut writer, mut reader) = ring(4);
        let (writers_bell, readers_bell) = (leaked_bell(), leaked_bell());
        // Three records fill the ring, as one granule stays free behind them.
        for tag in 0..3 {
            assert!(writer.push(0, head(tag), &[0; 8], readers_bell, Fencing::Writer));
        }
        let receiver = thread::spawn(move || {
            for tag in 0..4 {
                assert_eq!(take(&mut reader, writers_bell).0, tag);
            }
        });
        while !writer.push(0, head(3), &[0; 8], readers_bell, Fencing::Writer) {
            writers_bell.sleep(std::time::Duration::MAX, full_fence, || writer.has_room(8));
        }
        receiver.join().unwrap();
    });
}

#[test]
fn each_writer_of_an_inbox_keeps_its_order() {
    bounded(2, || {
        let (header, area) = (InboxHeader::leaked(), Area::leaked(4 * 32));
        let bell = leaked_bell();
        let writers: Vec<_> = [10, 20]
            .into_iter()
            .map(|from| {
                thread::spawn(move || {
                    let slot = Slot::new(header, area);
                    for tag in 0..2 {
                        while !slot.push(from, head(from + tag), &[tag as u8; 8], bell) {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut inbox = Inbox::new(header, area);
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
fn a_writer_that_sleeps_for_room_in_an_inbox_is_woken() {
    bounded(3, || {
        let (header, area) = (InboxHeader::leaked(), Area::leaked(2 * 32));
        let (writers_bell, readers_bell) = (leaked_bell(), leaked_bell());
        let slot = Slot::new(header, area);
        assert!(slot.push(0, head(0), &[0; 8], readers_bell) && slot.push(0, head(1), &[0; 8], readers_bell));
        let reader = thread::spawn(move || {
            let mut inbox = Inbox::new(header, area);
            for tag in 0..3 {
                while inbox.next().map(|(prefix, _)| assert_eq!(prefix.head.tag, tag)).is_none() {
                    thread::yield_now();
                }
                if inbox.free() {
                    writers_bell.ring();
                }
            }
        });
        while !slot.push(0, head(2), &[0; 8], readers_bell) {
            writers_bell.sleep(std::time::Duration::MAX, full_fence, || slot.has_room_or_block(8));
        }
        reader.join().unwrap();
    });
}

#[test]
fn each_chunk_is_copied_once_and_a_late_helper_takes_none() {
    loom::model(|| {
        let claim: &'static Claim = Box::leak(Box::new(Claim::new()));
        let copies: &'static [AtomicU32; 2] = Box::leak(Box::new([AtomicU32::new(0), AtomicU32::new(0)]));
        let old = claim.open();
        let generation = claim.open();
        let copy = move |generation| {
            while let Some(chunk) = claim.take(generation, 2) {
                copies[chunk as usize].store(copies[chunk as usize].load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                claim.finish_one();
            }
        };
        let helper = thread::spawn(move || {
            copy(old);
            copy(generation);
        });
        copy(generation);
        while claim.finished() < 2 {
            thread::yield_now();
        }
        // The receiver sees what the helper wrote, as it has seen it finish.
        assert!(copies.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        helper.join().unwrap();
    });
}

/// A record for a reader that sleeps, with a step left out: shows that the models above would see it missing.
fn record_for_a_sleeper(fencing: Fencing, sleep: fn(&Bell, &mut Reader)) {
    loom::model(move || {
        let (mut writer, mut reader) = ring(4);
        let readers_bell = leaked_bell();
        let sender = thread::spawn(move || assert!(writer.push(0, head(7), &[1; 8], readers_bell, fencing)));
        while !reader.ready() {
            sleep(readers_bell, &mut reader);
        }
        sender.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn without_the_sleepers_fence_a_wake_up_is_lost() {
    record_for_a_sleeper(Fencing::Writer, |bell, reader| {
        bell.sleep(std::time::Duration::MAX, || {}, || reader.ready());
    });
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn without_the_writers_fence_a_wake_up_is_lost() {
    // This fencing is right only if the sleeper fences the writer, too, which this one does not.
    record_for_a_sleeper(Fencing::Sleeper, |bell, reader| {
        bell.sleep(std::time::Duration::MAX, full_fence, || reader.ready());
    });
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn without_the_flag_a_wake_up_is_lost() {
    record_for_a_sleeper(Fencing::Writer, |bell, reader| bell.sleep_unflagged(full_fence, || reader.ready()));
}
