//! Barriers on the engine's counters, with ranks that finalize at any point and ranks that call many: a barrier
//! succeeds on a rank only if every rank has called it, and returns the OR of all bits.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use treepie_base::Error;
use treepie_fabric::{Endpoint, OpId};

use crate::net::{Net, NetCapabilities, Port, Rng};

const CELL: u32 = 3;

/// A rank that calls `planned` barriers and then finalizes.
struct Caller {
    endpoint: Option<Endpoint>,
    planned: usize,
    called: usize,
    pending: Option<OpId>,
    /// Whether it drops barrier requests, which still count, and calls the next barrier at once.
    drops: bool,
    outcomes: Vec<(usize, Result<u64, Error>)>,
}

impl Caller {
    /// Calls the next barrier, tests the pending one, or finalizes.
    fn step(&mut self, rank: usize, rng: &mut Rng) {
        let Some(endpoint) = &mut self.endpoint else { return };
        if let Some(id) = self.pending {
            if let Some(result) = endpoint.test(id) {
                self.outcomes.push((self.called, result.map(|completion| completion.envelope.bytes)));
                self.pending = None;
            }
        } else if self.called < self.planned {
            self.called += 1;
            let id = endpoint.ibarrier(CELL, 1 << rank | (self.called as u64) << 32).expect("the engine has barriers");
            if self.drops && rng.chance(30) {
                endpoint.abandon(id);
            } else {
                self.pending = Some(id);
            }
        } else {
            // Finalizes, in order or after a failure.
            if rng.chance(30) {
                endpoint.fabric().announce_failure(None);
            }
            self.endpoint = None;
        }
    }
}

fn barriers(seed: u64) {
    let mut rng = Rng(Xoshiro256PlusPlus::seed_from_u64(seed));
    let size = 2 + rng.below(4) as u32;
    let capabilities = NetCapabilities { ack_slots: 512, bulk: false, arrive: true, capacity: 4, may_miss: false };
    let net = Net::new(Rng(Xoshiro256PlusPlus::seed_from_u64(!seed)), size, capabilities);
    let drops = rng.chance(30);
    let mut ranks: Vec<Caller> = (0..size)
        .map(|rank| Caller {
            endpoint: Some(Endpoint::new(Box::new(Port::new(&net, rank)))),
            planned: rng.below(8) as usize,
            called: 0,
            pending: None,
            drops,
            outcomes: Vec::new(),
        })
        .collect();
    let mut steps = 0;
    while ranks.iter().any(|rank| rank.endpoint.is_some()) {
        steps += 1;
        assert!(steps < 1_000_000, "seed {seed}: a rank waits for ever");
        // One rank at a time, and sometimes many times in a row, so that some are far ahead.
        let rank = rng.below(size.into()) as usize;
        for _ in 0..1 + rng.below(20) * u64::from(rng.chance(30)) {
            let before = ranks[rank].outcomes.len();
            ranks[rank].step(rank, &mut rng);
            if let Some((barrier, Ok(bits))) = ranks[rank].outcomes.get(before).cloned() {
                let missing = ranks.iter().position(|other| other.called < barrier);
                assert_eq!(
                    missing, None,
                    "seed {seed}: rank {rank} has passed barrier {barrier}, which a rank never called"
                );
                assert_eq!(bits as u32, (1 << size) - 1, "seed {seed}: the bits of barrier {barrier} on rank {rank}");
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
            // Without dropped requests each rank waits for its barriers, so all arrive at those that all call.
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
fn barriers_succeed_only_if_all_ranks_arrive() {
    (0..crate::seeds()).for_each(barriers);
}
