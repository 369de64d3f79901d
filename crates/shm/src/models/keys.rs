//! Models of keys and claims: deregistered memory is neither read nor written by ranks that hold its key, and each
//! chunk is copied once.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::claim::{Claim, CtsState};
use crate::primitive::{AtomicU32, Ordering};
use crate::registry::{MemoryRegion, RegistrationCell};

fn region(number: u64) -> MemoryRegion {
    MemoryRegion { base: number, len: number + 1, peer: number as u32 + 2 }
}

/// Memory whose accesses loom checks: an access concurrent with a write is reported.
struct Memory(UnsafeCell<u32>);

// SAFETY: the models access it as the protocols allow; loom reports when that is not enough.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Self {
        Self(UnsafeCell::new(7))
    }

    fn read(&self) -> u32 {
        // SAFETY: loom keeps the pointer valid and reports a concurrent write.
        self.0.with(|word| unsafe { *word })
    }

    fn write(&self, value: u32) {
        // SAFETY: loom keeps the pointer valid and reports any concurrent access.
        self.0.with_mut(|word| unsafe { *word = value });
    }
}

fn memory_is_deregistered(waits: bool) {
    loom::model(move || {
        let shared = Arc::new((RegistrationCell::new(), Memory::new()));
        let generation = shared.0.open(region(1));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    if let Some(copying) = shared.0.begin_copy(generation) {
                        assert_eq!((copying.entry, shared.1.read()), (region(1), 7));
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
fn deregistration_waits_for_copies() {
    memory_is_deregistered(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_waiting_memory_is_freed_under_a_copy() {
    memory_is_deregistered(false);
}

#[test]
fn a_key_never_shows_the_region_of_another() {
    loom::model(|| {
        let cell = Arc::new(RegistrationCell::new());
        let old = cell.open(region(1));
        let reader = {
            let cell = cell.clone();
            thread::spawn(move || assert!(cell.look_up(old).is_none_or(|found| found == region(1))))
        };
        cell.close(false, || unreachable!("nobody is waited for"));
        let new = cell.open(region(5));
        assert!(cell.look_up(new) == Some(region(5)) && old != new);
        reader.join().unwrap();
        assert_eq!(cell.look_up(old), None);
    });
}

#[test]
fn a_cts_never_shows_the_memory_of_another_transfer() {
    loom::model(|| {
        let claim = Arc::new(Claim::new());
        let old = claim.open(region(1));
        let sender = {
            let claim = claim.clone();
            thread::spawn(move || match claim.cts_state(old) {
                CtsState::Unknown => panic!("it was made"),
                CtsState::Finished => {}
                CtsState::Open(found) => assert_eq!(found, region(1)),
            })
        };
        claim.close(1);
        let new = claim.open(region(5));
        assert_eq!(claim.cts_state(new), CtsState::Open(region(5)));
        assert_eq!(claim.cts_state(new + 1), CtsState::Unknown);
        sender.join().unwrap();
        assert_eq!(claim.cts_state(old), CtsState::Finished);
    });
}

fn a_transfer_is_aborted(waits: bool) {
    loom::model(move || {
        let shared = Arc::new((Claim::new(), [Memory::new(), Memory::new()]));
        let generation = shared.0.open(region(1));
        let sender = {
            let shared = shared.clone();
            thread::spawn(move || {
                while let Some(chunk) = shared.0.claim_next(generation, 2) {
                    shared.1[chunk as usize].write(9);
                    shared.0.complete_chunk();
                }
            })
        };
        let claimed = shared.0.close(2);
        while waits && shared.0.completed_chunks() < claimed {
            thread::yield_now();
        }
        // The owner reuses the memory.
        shared.1.iter().for_each(|chunk| chunk.write(8));
        sender.join().unwrap();
        assert!(shared.0.claim_next(generation, 2).is_none());
    });
}

#[test]
fn memory_of_an_aborted_transfer_is_freed_when_no_chunk_is_written() {
    a_transfer_is_aborted(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_waiting_memory_is_freed_under_a_chunk() {
    a_transfer_is_aborted(false);
}

#[test]
fn each_chunk_is_copied_once_and_a_late_sender_claims_none() {
    loom::model(|| {
        let claim: &'static Claim = Box::leak(Box::new(Claim::new()));
        let copies: &'static [AtomicU32; 2] = Box::leak(Box::new([AtomicU32::new(0), AtomicU32::new(0)]));
        let anything = MemoryRegion { base: 0, len: 0, peer: 0 };
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
