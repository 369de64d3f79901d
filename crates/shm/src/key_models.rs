//! Models of keys: memory that is taken back is not read, and not written, by those who had a key to it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::claim::{Claim, Invitation};
use crate::registry::{Cell, Entry};

fn entry(number: u64) -> Entry {
    Entry { base: number, len: number + 1, peer: number as u32 + 2 }
}

/// Memory that loom watches: whoever touches it while another writes is found.
struct Memory(UnsafeCell<u32>);

// SAFETY: the models touch it as the protocols allow; loom tells when that is not enough.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Self {
        Self(UnsafeCell::new(7))
    }

    fn read(&self) -> u32 {
        // SAFETY: loom has the pointer valid, and finds a write at the same time.
        self.0.with(|word| unsafe { *word })
    }

    fn write(&self, value: u32) {
        // SAFETY: loom has the pointer valid, and finds anything at the same time.
        self.0.with_mut(|word| unsafe { *word = value });
    }
}

fn memory_is_taken_back(waits: bool) {
    loom::model(move || {
        let shared = Arc::new((Cell::new(), Memory::new()));
        let generation = shared.0.open(entry(1));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    if let Some(copying) = shared.0.begin_copy(generation) {
                        assert_eq!((copying.entry, shared.1.read()), (entry(1), 7));
                    }
                })
            })
            .collect();
        shared.0.close(waits, thread::yield_now);
        shared.1.write(8);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(shared.0.begin_copy(generation).is_none());
    });
}

#[test]
fn memory_is_taken_back_when_nobody_copies() {
    memory_is_taken_back(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_waiting_memory_is_taken_back_under_a_copy() {
    memory_is_taken_back(false);
}

#[test]
fn a_key_never_shows_the_entry_of_another() {
    loom::model(|| {
        let cell = Arc::new(Cell::new());
        let old = cell.open(entry(1));
        let reader = {
            let cell = cell.clone();
            thread::spawn(move || assert!(cell.look_up(old).is_none_or(|found| found == entry(1))))
        };
        cell.close(false, || unreachable!("nobody is waited for"));
        let new = cell.open(entry(5));
        assert!(cell.look_up(new) == Some(entry(5)) && old != new);
        reader.join().unwrap();
        assert_eq!(cell.look_up(old), None);
    });
}

#[test]
fn an_invite_never_shows_the_memory_of_another_transfer() {
    loom::model(|| {
        let claim = Arc::new(Claim::new());
        let old = claim.open(entry(1));
        let sender = {
            let claim = claim.clone();
            thread::spawn(move || match claim.invited(old) {
                Invitation::Unknown => panic!("it was made"),
                Invitation::Over => {}
                Invitation::Open(found) => assert_eq!(found, entry(1)),
            })
        };
        claim.close(1);
        let new = claim.open(entry(5));
        assert_eq!(claim.invited(new), Invitation::Open(entry(5)));
        assert_eq!(claim.invited(new + 1), Invitation::Unknown);
        sender.join().unwrap();
        assert_eq!(claim.invited(old), Invitation::Over);
    });
}

fn a_transfer_is_given_up(waits: bool) {
    loom::model(move || {
        let shared = Arc::new((Claim::new(), [Memory::new(), Memory::new()]));
        let generation = shared.0.open(entry(1));
        let helper = {
            let shared = shared.clone();
            thread::spawn(move || {
                while let Some(chunk) = shared.0.take(generation, 2) {
                    shared.1[chunk as usize].write(9);
                    shared.0.finish_one();
                }
            })
        };
        let taken = shared.0.close(2);
        while waits && shared.0.finished() < taken {
            thread::yield_now();
        }
        // The memory goes back to its owner.
        shared.1.iter().for_each(|chunk| chunk.write(8));
        helper.join().unwrap();
        assert!(shared.0.take(generation, 2).is_none());
    });
}

#[test]
fn memory_of_a_transfer_that_is_given_up_goes_back_when_no_chunk_is_written() {
    a_transfer_is_given_up(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_waiting_memory_goes_back_under_a_chunk() {
    a_transfer_is_given_up(false);
}
