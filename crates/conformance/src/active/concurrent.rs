//! Several runtimes, on several communicators or on one.

use treepie::am::{ActiveMessages, Port};
use treepie::{Comm, Result};

use super::{Tally, is_long_run, scaled_count};
use crate::check::{Outcome, check, check_eq};

/// A runtime whose messages hop from rank to rank. Each runtime sends a value of its own, which shows in the sum.
struct HopRuntime {
    am: ActiveMessages<Tally>,
    hop: Port<[u64; 2]>,
    ranks: usize,
}

/// Hops of each message.
const HOPS: u64 = 5;

impl HopRuntime {
    fn new(comm: &Comm, config: &str) -> Outcome<Self> {
        let ranks = comm.size();
        let mut build = ActiveMessages::<Tally>::builder(comm);
        let hop = build.port::<[u64; 2]>("hop");
        build.on(hop, move |tally: &mut Tally, cx, [left, value]| {
            tally.add(value);
            cx.add_to_sum(value);
            if left > 1 {
                cx.send(hop, (cx.rank() + left as usize) % ranks, [left - 1, value]);
            }
        });
        build.configure_all(config.parse()?);
        Ok(Self { am: build.start()?, hop, ranks })
    }

    /// Runs an epoch in which each rank sends `count` messages of `value`, and returns its sum.
    fn epoch(&mut self, tally: &mut Tally, count: usize, value: u64) -> Result<u64> {
        let Self { am, hop, ranks } = self;
        am.epoch_for(tally, 0..count, |cx, _, i| cx.send(*hop, i % *ranks, [HOPS, value]))
    }

    /// The sum that such an epoch must return.
    fn expected_sum(&self, count: usize, value: u64) -> u64 {
        self.ranks as u64 * count as u64 * HOPS * value
    }
}

/// Each half runs its own epochs, a different number than the other half, between epochs of all ranks.
pub(super) fn halves(comm: &Comm) -> Outcome {
    let color = comm.rank() % 2;
    let part = comm.split(color as u32, -(comm.rank() as i32))?.expect("every rank has a color");
    let mut all = HopRuntime::new(comm, "")?;
    let mut half = HopRuntime::new(&part, if color == 0 { "routing=rook" } else { "coalescing=7" })?;
    let (mut of_all, mut of_half) = (Tally::default(), Tally::default());
    for round in 0..scaled_count(comm, 30) {
        for epoch in 0..1 + (round + color) % 4 {
            let (count, value) = (epoch * 10, 1 + 1000 * color as u64);
            let sum = half.epoch(&mut of_half, count, value)?;
            check_eq!(sum, half.expected_sum(count, value), "an epoch of half {color} in round {round}");
        }
        let sum = all.epoch(&mut of_all, round, 7)?;
        check_eq!(sum, all.expected_sum(round, 7), "an epoch of all in round {round}");
    }
    check!(of_half.sum.is_multiple_of(1 + 1000 * color as u64), "messages of the other half");
    check_eq!(of_all.sum, of_all.count * 7, "messages of all");
    Ok(())
}

/// Inside the body of an epoch, other runtimes run epochs on other communicators: a duplicate and the halves.
pub(super) fn nested(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let copy = comm.dup()?;
    let part = comm.split(me as u32 % 2, 0)?.expect("every rank has a color");
    for config in ["", "routing=hypercube,coalescing=7"] {
        let mut outer = HopRuntime::new(comm, config)?;
        let mut inner = HopRuntime::new(&copy, config)?;
        let mut half = HopRuntime::new(&part, config)?;
        let [mut of_outer, mut of_inner, mut of_half] = [Tally::default(); 3];
        for round in 0..scaled_count(comm, 20) {
            let hop = outer.hop;
            let mut sums = Vec::new();
            let sum = outer.am.epoch(&mut of_outer, |epoch| {
                // Many of these are still queued while the ranks run the inner epochs.
                (0..500).for_each(|i| epoch.context().send(hop, (i + me) % ranks, [HOPS, 3]));
                epoch.progress()?;
                sums.push((inner.epoch(&mut of_inner, 100, 5)?, inner.expected_sum(100, 5)));
                epoch.context().send(hop, 0, [HOPS, 3]);
                sums.push((half.epoch(&mut of_half, round, 7)?, half.expected_sum(round, 7)));
                epoch.progress()?;
                sums.push((inner.epoch(&mut of_inner, 0, 5)?, 0));
                Ok(())
            })?;
            check_eq!(sum, outer.expected_sum(501, 3), "the outer one of round {round}");
            for (at, (got, want)) in sums.into_iter().enumerate() {
                check_eq!(got, want, "the inner epoch {at} of round {round}");
            }
        }
        for (tally, value) in [(of_outer, 3), (of_inner, 5), (of_half, 7)] {
            check_eq!(tally.sum, tally.count * value, "messages of the runtime with {value}");
        }
    }
    Ok(())
}

/// Two runtimes alternate on one communicator; the first outlives several second ones.
pub(super) fn alternating(comm: &Comm) -> Outcome {
    let mut first = HopRuntime::new(comm, "")?;
    let mut tallies = [Tally::default(); 2];
    for outer in 0..3 {
        let mut second = HopRuntime::new(comm, "style=bsp,routing=rook")?;
        for round in 0..scaled_count(comm, 30) {
            check_eq!(
                first.epoch(&mut tallies[0], round, 3)?,
                first.expected_sum(round, 3),
                "the first, {outer}, {round}"
            );
            check_eq!(
                second.epoch(&mut tallies[1], 20, 5)?,
                second.expected_sum(20, 5),
                "the second, {outer}, {round}"
            );
        }
    }
    check_eq!(tallies.map(|tally| tally.sum), [tallies[0].count * 3, tallies[1].count * 5], "messages");
    Ok(())
}

/// Communicators whose rank tables are distributed, so that ranks have to be looked up.
pub(super) fn shared_tables(comm: &Comm) -> Outcome {
    const SPLIT_ALGORITHMS: [&str; 3] =
        ["split/distributed:sorters=2", "split/overlapped:sorters=3", "split/quick:sorters=4"];
    let one = SPLIT_ALGORITHMS[comm.size() % SPLIT_ALGORITHMS.len()];
    let all = comm.size() <= 8 || is_long_run();
    for algorithm in SPLIT_ALGORITHMS.into_iter().filter(|algorithm| all || *algorithm == one) {
        let is_out = comm.rank() == 0 && comm.size() >= 5;
        let handle = comm.with_algorithm(algorithm)?;
        let Some(part) = handle.split((!is_out).then_some(7), comm.rank() as i32 ^ 1)? else { continue };
        for config in ["", "routing=rook,coalescing=7", "routing=hypercube,style=bsp"] {
            let mut runtime = HopRuntime::new(&part, config)?;
            let mut tally = Tally::default();
            for round in 0..scaled_count(comm, 10) {
                let count = round * 20;
                check_eq!(
                    runtime.epoch(&mut tally, count, 3)?,
                    runtime.expected_sum(count, 3),
                    "{algorithm}, `{config}`, {round}"
                );
            }
            check_eq!(tally.sum, tally.count * 3, "messages, {algorithm}, `{config}`");
        }
        if algorithm == one {
            super::message_kinds::parcels(&part).map_err(|failure| failure.context(algorithm))?;
        }
        super::refused::destination(&part).map_err(|failure| failure.context(algorithm))?;
    }
    Ok(())
}
