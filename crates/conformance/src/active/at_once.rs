//! Several runtimes, on several communicators or on one.

use treepie::am::{ActiveMessages, Port};
use treepie::{Comm, Result};

use super::{Tally, is_long, some};
use crate::check::{Outcome, check, check_eq};

/// A runtime whose messages are sent on until nothing is left, and the sum of their values; those of another have another one.
struct Hopping {
    am: ActiveMessages<Tally>,
    hop: Port<[u64; 2]>,
    ranks: usize,
}

/// Hops of each message.
const HOPS: u64 = 5;

impl Hopping {
    fn new(comm: &Comm, config: &str) -> Outcome<Self> {
        let ranks = comm.size();
        let mut build = ActiveMessages::<Tally>::builder(comm);
        let hop = build.port::<[u64; 2]>("hop");
        build.on(hop, move |tally: &mut Tally, cx, [left, value]| {
            tally.add(value);
            cx.add(value);
            if left > 1 {
                cx.send(hop, (cx.rank() + left as usize) % ranks, [left - 1, value]);
            }
        });
        build.configure_all(config.parse()?);
        Ok(Self { am: build.start()?, hop, ranks })
    }

    /// An epoch in which each rank sends so many of a value; its sum.
    fn epoch(&mut self, tally: &mut Tally, count: usize, value: u64) -> Result<u64> {
        let Self { am, hop, ranks } = self;
        am.epoch_for(tally, 0..count, |cx, _, i| cx.send(*hop, i % *ranks, [HOPS, value]))
    }

    /// What that sum must be.
    fn due(&self, count: usize, value: u64) -> u64 {
        self.ranks as u64 * count as u64 * HOPS * value
    }
}

/// Each half has epochs of its own, in other numbers than the other one, and now and then one with it.
pub(super) fn halves(comm: &Comm) -> Outcome {
    let colour = comm.rank() % 2;
    let part = comm.split(colour as u32, -(comm.rank() as i32))?.expect("every rank has a colour");
    let mut all = Hopping::new(comm, "")?;
    let mut half = Hopping::new(&part, if colour == 0 { "routing=rook" } else { "coalescing=7" })?;
    let (mut of_all, mut of_half) = (Tally::default(), Tally::default());
    for round in 0..some(comm, 30) {
        for epoch in 0..1 + (round + colour) % 4 {
            let (count, value) = (epoch * 10, 1 + 1000 * colour as u64);
            let sum = half.epoch(&mut of_half, count, value)?;
            check_eq!(sum, half.due(count, value), "an epoch of half {colour} in round {round}");
        }
        let sum = all.epoch(&mut of_all, round, 7)?;
        check_eq!(sum, all.due(round, 7), "an epoch of all in round {round}");
    }
    check!(of_half.sum.is_multiple_of(1 + 1000 * colour as u64), "messages of the other half");
    check_eq!(of_all.sum, of_all.count * 7, "messages of all");
    Ok(())
}

/// In the body of an epoch, another runtime has epochs on another communicator: of all, and of halves.
pub(super) fn nested(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let copy = comm.dup()?;
    let part = comm.split(me as u32 % 2, 0)?.expect("every rank has a colour");
    for config in ["", "routing=hypercube,coalescing=7"] {
        let mut outer = Hopping::new(comm, config)?;
        let mut inner = Hopping::new(&copy, config)?;
        let mut half = Hopping::new(&part, config)?;
        let [mut of_outer, mut of_inner, mut of_half] = [Tally::default(); 3];
        for round in 0..some(comm, 20) {
            let hop = outer.hop;
            let mut sums = Vec::new();
            let sum = outer.am.epoch(&mut of_outer, |epoch| {
                // Much of it waits while the ranks are in the others.
                (0..500).for_each(|i| epoch.context().send(hop, (i + me) % ranks, [HOPS, 3]));
                epoch.progress()?;
                sums.push((inner.epoch(&mut of_inner, 100, 5)?, inner.due(100, 5)));
                epoch.context().send(hop, 0, [HOPS, 3]);
                sums.push((half.epoch(&mut of_half, round, 7)?, half.due(round, 7)));
                epoch.progress()?;
                sums.push((inner.epoch(&mut of_inner, 0, 5)?, 0));
                Ok(())
            })?;
            check_eq!(sum, outer.due(501, 3), "the outer one of round {round}");
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

/// By turns on one communicator, and one of them for longer than the other.
pub(super) fn by_turns(comm: &Comm) -> Outcome {
    let mut first = Hopping::new(comm, "")?;
    let mut tallies = [Tally::default(); 2];
    for outer in 0..3 {
        let mut second = Hopping::new(comm, "style=bsp,routing=rook")?;
        for round in 0..some(comm, 30) {
            check_eq!(first.epoch(&mut tallies[0], round, 3)?, first.due(round, 3), "the first, {outer}, {round}");
            check_eq!(second.epoch(&mut tallies[1], 20, 5)?, second.due(20, 5), "the second, {outer}, {round}");
        }
    }
    check_eq!(tallies.map(|tally| tally.sum), [tallies[0].count * 3, tallies[1].count * 5], "messages");
    Ok(())
}

/// Where ranks must be asked for, and are no formula.
pub(super) fn shared_tables(comm: &Comm) -> Outcome {
    const WAYS: [&str; 3] = ["split/distributed:sorters=2", "split/overlapped:sorters=3", "split/quick:sorters=4"];
    let one = WAYS[comm.size() % WAYS.len()];
    let all = comm.size() <= 8 || is_long();
    for way in WAYS.into_iter().filter(|way| all || *way == one) {
        let is_out = comm.rank() == 0 && comm.size() >= 5;
        let handle = comm.using(way)?;
        let Some(part) = handle.split((!is_out).then_some(7), comm.rank() as i32 ^ 1)? else { continue };
        for config in ["", "routing=rook,coalescing=7", "routing=hypercube,style=bsp"] {
            let mut hopping = Hopping::new(&part, config)?;
            let mut tally = Tally::default();
            for round in 0..some(comm, 10) {
                let count = round * 20;
                check_eq!(hopping.epoch(&mut tally, count, 3)?, hopping.due(count, 3), "{way}, `{config}`, {round}");
            }
            check_eq!(tally.sum, tally.count * 3, "messages, {way}, `{config}`");
        }
        if way == one {
            super::forms::parcels(&part).map_err(|failure| failure.during(way))?;
        }
        super::refused::destination(&part).map_err(|failure| failure.during(way))?;
    }
    Ok(())
}
