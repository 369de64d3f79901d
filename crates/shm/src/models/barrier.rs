//! Models of barriers: one succeeds only if all ranks have arrived, whoever leaves meanwhile.

use loom::thread;

use super::bounded;
use crate::barrier_cell::{ArrivalCounters, BarrierCell};
use crate::primitive::{AtomicU32, Ordering};

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
