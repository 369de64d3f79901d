//! Models of rings and inboxes: records arrive whole and in order, and wake who waits for them.

use loom::thread;
use treepie_fabric::RecordHeader;

use super::{bounded, full_fence, leaked_doorbell};
use crate::doorbell::Doorbell;
use crate::inbox::{Inbox, InboxHeader, InboxWriter};
use crate::primitive::FenceMode;
use crate::ring::{RingHeader, RingReader, RingWriter};
use crate::ring_memory::RingMemory;

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
