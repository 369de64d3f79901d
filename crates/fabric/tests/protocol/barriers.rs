//! Barriers on the engine's counters, of ranks that leave at any point and of ranks that call again and again: one
//! succeeds on a rank only if every rank has called it, and it brings everybody's bits.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use treepie_base::Error;
use treepie_fabric::{Endpoint, Id};

use crate::net::{Net, Offers, Port, Rng};

const CELL: u32 = 3;

/// A rank that calls so many barriers and leaves then.
struct Caller {
    end: Option<Endpoint>,
    planned: usize,
    called: usize,
    waits: Option<Id>,
    /// Whether it drops requests of barriers, which count all the same, and calls the next at once.
    drops: bool,
    outcomes: Vec<(usize, Result<u64, Error>)>,
}

impl Caller {
    /// Calls the next barrier, looks how far the one before is, or leaves.
    fn step(&mut self, rank: usize, rng: &mut Rng) {
        let Some(end) = &mut self.end else { return };
        if let Some(id) = self.waits {
            if let Some(result) = end.test(id) {
                self.outcomes.push((self.called, result.map(|completion| completion.envelope.bytes)));
                self.waits = None;
            }
        } else if self.called < self.planned {
            self.called += 1;
            let id = end.gather(CELL, 1 << rank | (self.called as u64) << 32).expect("the engine has barriers");
            if self.drops && rng.chance(30) {
                end.abandon(id);
            } else {
                self.waits = Some(id);
            }
        } else {
            // Leaves, in order or as one that has failed.
            if rng.chance(30) {
                end.fabric().fail();
            }
            self.end = None;
        }
    }
}

fn barriers(seed: u64) {
    let mut rng = Rng(Xoshiro256PlusPlus::seed_from_u64(seed));
    let size = 2 + rng.below(4) as u32;
    let offers = Offers { ack_slots: 512, bulk: false, arrive: true, capacity: 4, overlooks: false };
    let net = Net::new(Rng(Xoshiro256PlusPlus::seed_from_u64(!seed)), size, offers);
    let drops = rng.chance(30);
    let mut ranks: Vec<Caller> = (0..size)
        .map(|rank| Caller {
            end: Some(Endpoint::new(Box::new(Port::new(&net, rank)))),
            planned: rng.below(8) as usize,
            called: 0,
            waits: None,
            drops,
            outcomes: Vec::new(),
        })
        .collect();
    let mut steps = 0;
    while ranks.iter().any(|rank| rank.end.is_some()) {
        steps += 1;
        assert!(steps < 1_000_000, "seed {seed}: somebody waits for ever");
        // One rank at a time, and sometimes many times in a row, so that some are far ahead.
        let rank = rng.below(size.into()) as usize;
        for _ in 0..1 + rng.below(20) * u64::from(rng.chance(30)) {
            let before = ranks[rank].outcomes.len();
            ranks[rank].step(rank, &mut rng);
            if let Some((barrier, Ok(census))) = ranks[rank].outcomes.get(before).cloned() {
                let missing = ranks.iter().position(|other| other.called < barrier);
                assert_eq!(
                    missing, None,
                    "seed {seed}: rank {rank} has passed barrier {barrier}, which a rank never called"
                );
                assert_eq!(census as u32, (1 << size) - 1, "seed {seed}: the bits of barrier {barrier} on rank {rank}");
            }
        }
    }
    let least = ranks.iter().map(|rank| rank.planned).min().expect("there are ranks");
    for (number, rank) in ranks.iter().enumerate() {
        let mut failed = false;
        for (barrier, outcome) in &rank.outcomes {
            assert!(
                !failed || outcome.is_err(),
                "seed {seed}: barrier {barrier} on rank {number} after one that failed"
            );
            failed |= outcome.is_err();
            // Where nothing is dropped, each waits for its own, so all come to those that all call.
            if !drops {
                assert_eq!(outcome.is_ok(), *barrier <= least, "seed {seed}: barrier {barrier} on rank {number}");
            }
            if let Err(error) = outcome {
                assert!(matches!(error, Error::PeerLost { .. }), "seed {seed}: {error:?}");
            }
        }
    }
}

#[test]
fn barriers_succeed_only_where_all_have_come() {
    (0..crate::seeds()).for_each(barriers);
}
