//! Every interleaving of small cases, by loom: `RUSTFLAGS="--cfg loom" cargo test -p treepie-shm --release --lib`.
//!
//! A lost wake-up shows as a model that never ends, which loom reports; so does a writer that is never told of room.
//! The models at the end leave out one step each and must fail: they show that the others could.

use loom::thread;
use treepie_fabric::Head;

use crate::area::Area;
use crate::bell::{Bell, Sleepers};
use crate::cell::{Arrivals, BarrierCell};
use crate::claim::Claim;
use crate::inbox::{Inbox, InboxHeader, Slot};
use crate::meetings::{HALLS, Meetings, Words};
use crate::primitive::{AtomicU32, AtomicU64, Fencing, Ordering, fence};
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
        let anything = crate::registry::Entry { base: 0, len: 0, peer: 0 };
        let old = claim.open(anything);
        let generation = claim.open(anything);
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

/// A board of which a place is one cell: loom reports two that are at a place at once, if one of them writes.
struct Paper {
    words: Vec<AtomicU64>,
    places: Vec<loom::cell::UnsafeCell<u64>>,
    ranks: u32,
    depth: u64,
}

// SAFETY: loom watches over the cells.
unsafe impl Sync for Paper {}

impl Paper {
    fn leaked(ranks: u32, depth: u64) -> &'static Self {
        let count = u64::from(ranks) * depth;
        let words = (0..count).map(|_| AtomicU64::new(0)).collect();
        let places = (0..count).map(|_| loom::cell::UnsafeCell::new(0)).collect();
        Box::leak(Box::new(Self { words, places, ranks, depth }))
    }

    fn index(&self, rank: u32, meeting: u64) -> usize {
        (meeting % self.depth) as usize * self.ranks as usize + rank as usize
    }

    /// Writes and publishes for the next meeting.
    fn say(&self, meetings: &mut Meetings, rank: u32, value: u64) {
        while !meetings.is_free(self, false) {
            thread::yield_now();
        }
        self.say_in(meetings.last() + 1, meetings, rank, value);
    }

    /// Writes to a place and publishes.
    fn say_in(&self, place: u64, meetings: &mut Meetings, rank: u32, value: u64) {
        // SAFETY: loom watches over the cell.
        self.places[self.index(rank, place)].with_mut(|place| unsafe { *place = value });
        assert!(meetings.try_publish(self, false, value, Fencing::Writer));
    }

    fn hear(&self, meetings: &mut Meetings, rank: u32, in_hall: bool) -> u64 {
        let about = loop {
            match meetings.about(self, rank) {
                Some(about) => break about,
                None => thread::yield_now(),
            }
        };
        let place = if in_hall { meetings.last() % HALLS } else { meetings.last() };
        // SAFETY: loom watches over the cell.
        let value = self.places[self.index(rank, place)].with(|place| unsafe { *place });
        assert_eq!(value, about, "a place is that of its word");
        value
    }
}

impl Words for Paper {
    fn word(&self, rank: u32, meeting: u64) -> &AtomicU64 {
        &self.words[self.index(rank, meeting)]
    }
}

fn exchange_at_a_board(depth: u64, meetings: u64) {
    bounded(3, move || {
        let paper = Paper::leaked(2, depth);
        let exchange = move |rank: u32| {
            let mut mine = Meetings::new(rank, 2, depth);
            for number in 1..=meetings {
                paper.say(&mut mine, rank, 10 * number + u64::from(rank));
                assert_eq!(paper.hear(&mut mine, 1 - rank, false), 10 * number + u64::from(1 - rank));
            }
        };
        let other = thread::spawn(move || exchange(1));
        exchange(0);
        other.join().unwrap();
    });
}

#[test]
fn what_is_read_at_a_board_is_of_its_meeting() {
    exchange_at_a_board(2, 4);
}

/// One rank only writes in halls, the other reads all of it.
fn stream_through_halls(waits_for_readers: bool) {
    bounded(3, move || {
        let paper = Paper::leaked(2, 8);
        let writer = thread::spawn(move || {
            let mut mine = Meetings::new(0, 2, 8);
            for number in 1..=HALLS + 1 {
                if waits_for_readers {
                    while !mine.is_free(paper, true) {
                        thread::yield_now();
                    }
                }
                paper.say_in((mine.last() + 1) % HALLS, &mut mine, 0, number);
            }
        });
        let mut mine = Meetings::new(1, 2, 8);
        for number in 1..=HALLS + 1 {
            paper.say_in((mine.last() + 1) % HALLS, &mut mine, 1, 0);
            assert_eq!(paper.hear(&mut mine, 0, true), number);
        }
        writer.join().unwrap();
    });
}

#[test]
fn halls_of_a_board_are_written_again_when_all_have_read_them() {
    stream_through_halls(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_waiting_for_those_who_read_a_hall_is_written_too_early() {
    stream_through_halls(false);
}

#[test]
fn who_only_writes_at_a_board_is_at_most_its_depth_ahead() {
    bounded(3, || {
        let paper = Paper::leaked(2, 2);
        let writer = thread::spawn(move || {
            let mut mine = Meetings::new(0, 2, 2);
            (1..=4).for_each(|number| paper.say(&mut mine, 0, number));
        });
        let mut mine = Meetings::new(1, 2, 2);
        for number in 1..=4 {
            paper.say(&mut mine, 1, 0);
            assert_eq!(paper.hear(&mut mine, 0, false), number);
        }
        writer.join().unwrap();
    });
}

#[test]
fn who_sleeps_at_a_board_is_woken() {
    loom::model(|| {
        let (paper, bell) = (Paper::leaked(2, 2), leaked_bell());
        let sleepers: &'static Sleepers = Box::leak(Box::new(Sleepers::new()));
        let other = thread::spawn(move || {
            paper.say(&mut Meetings::new(0, 2, 2), 0, 7);
            if sleepers.any() {
                bell.ring_after_publish();
            }
        });
        let mut mine = Meetings::new(1, 2, 2);
        paper.say(&mut mine, 1, 0);
        while mine.about(paper, 0).is_none() {
            sleepers.during(|| bell.sleep(std::time::Duration::MAX, full_fence, || mine.has_news(paper)));
        }
        other.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_waiting_for_those_who_read_a_place_is_written_too_early() {
    bounded(3, || {
        let paper = Paper::leaked(2, 2);
        let writer = thread::spawn(move || {
            // It takes the board for deeper than it is.
            let mut mine = Meetings::new(0, 2, 4);
            (1..=3).for_each(|number| paper.say(&mut mine, 0, number));
        });
        let mut mine = Meetings::new(1, 2, 2);
        paper.say(&mut mine, 1, 0);
        paper.hear(&mut mine, 0, false);
        writer.join().unwrap();
    });
}

/// A barrier cell of three ranks, and what others know of each rank.
struct Hall {
    cell: BarrierCell,
    arrivals: [Arrivals<1>; 3],
    lost: [AtomicU32; 3],
}

const RANKS: u32 = 3;

impl Hall {
    fn leaked() -> &'static Self {
        let (arrivals, lost) = (std::array::from_fn(|_| Arrivals::new()), std::array::from_fn(|_| AtomicU32::new(0)));
        Box::leak(Box::new(Self { cell: BarrierCell::new(), arrivals, lost }))
    }

    /// Arrives at a barrier with a bit of its own.
    fn arrive(&self, rank: usize, barrier: u64) {
        self.cell.arrive(barrier, 1 << rank);
        self.arrivals[rank].note(0, barrier);
    }

    fn leave(&self, rank: usize) {
        self.lost[rank].store(1, Ordering::Release);
    }

    /// Whether a rank is lost without having arrived at a barrier, as an endpoint finds out.
    fn is_broken(&self, barrier: u64) -> bool {
        (0..RANKS as usize).any(|r| self.lost[r].load(Ordering::Acquire) == 1 && self.arrivals[r].last(0) < barrier)
    }

    /// Calls a barrier and looks once how far it is: true if it has succeeded. Whoever finds it broken does not arrive.
    fn call(&self, rank: usize, barrier: u64) -> bool {
        if self.is_broken(barrier) {
            return false;
        }
        self.arrive(rank, barrier);
        let complete = self.cell.is_complete(barrier, RANKS);
        if complete {
            assert_eq!(self.cell.census(barrier), 0b111, "the bits of all, of barrier {barrier}");
        }
        complete
    }
}

#[test]
fn a_barrier_succeeds_only_if_all_have_arrived() {
    bounded(3, || {
        let hall = Hall::leaked();
        // Two that go on to the second barrier if they have passed the first, and one that leaves after the first.
        let others: Vec<_> = [0, 1]
            .map(|rank| {
                thread::spawn(move || {
                    if hall.call(rank, 1) {
                        assert!(!hall.call(rank, 2), "rank 2 never called the second barrier");
                    }
                })
            })
            .into();
        hall.call(2, 1);
        hall.leave(2);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(!hall.is_broken(1) && hall.cell.is_complete(1, RANKS), "all have called the first barrier");
        assert!(hall.is_broken(2) && !hall.cell.is_complete(2, RANKS), "rank 2 never called the second barrier");
    });
}

#[test]
fn a_barrier_that_a_rank_leaves_out_is_broken_for_all() {
    bounded(3, || {
        let hall = Hall::leaked();
        let other = thread::spawn(move || {
            // However often it calls: what it has found broken it does not arrive at.
            assert!(!hall.call(0, 1));
            assert!(!hall.is_broken(1) || !hall.call(0, 2));
        });
        let leaver = thread::spawn(move || hall.leave(2));
        assert!(!hall.call(1, 1), "rank 2 never called it");
        other.join().unwrap();
        leaver.join().unwrap();
        assert!(hall.is_broken(1) && !hall.cell.is_complete(1, RANKS), "rank 2 never called it");
    });
}

#[test]
#[should_panic(expected = "rank 2 never called it")]
fn with_ranks_that_arrive_again_after_a_failure_a_barrier_succeeds_wrongly() {
    bounded(2, || {
        let hall = Hall::leaked();
        hall.leave(2);
        let other = thread::spawn(move || {
            // It calls, fails, and calls once more, and arrives each time.
            hall.arrive(0, 1);
            hall.arrive(0, 2);
        });
        hall.arrive(1, 1);
        other.join().unwrap();
        assert!(!hall.cell.is_complete(1, RANKS), "rank 2 never called it");
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
