//! More than receivers can take.

use treepie::Comm;
use treepie::am::{ActiveMessages, Detector};

use super::{Ledger, Tally, is_long, some_routings};
use crate::check::{Outcome, check, check_eq};

/// Everybody to one, which answers some of them, with little memory for what waits.
pub(super) fn one(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let count = if is_long() { 1_000_000 } else { 100_000_usize.div_ceil(ranks) };
    for (turn, routing) in some_routings(comm).into_iter().enumerate() {
        let mut build = ActiveMessages::<[Tally; 2]>::builder(comm);
        let flood = build.port::<[u64; 2]>("flood");
        let answer = build.port::<u64>("answer");
        build.on_from(flood, move |got: &mut [Tally; 2], cx, from, [number, _]| {
            got[0].add(number);
            if number % 8 == 0 {
                cx.send(answer, from, number);
            }
        });
        build.on(answer, |got: &mut [Tally; 2], _, number| got[1].add(number));
        build.memory(10_000);
        build.configure_all(format!("routing={routing}").parse()?);
        build.detector([Detector::Counting, Detector::NbxLike][turn % 2]);
        let mut am = build.start()?;
        let victim = turn * 3 % ranks;
        let mut got = [Tally::default(); 2];
        let (mut ledger, mut answers) = (Ledger::new(comm), Tally::default());
        am.epoch_for(&mut got, 0..count as u64, |cx, _, number| {
            ledger.sent(victim, number);
            cx.send(flood, victim, [number, me as u64]);
            if number % 8 == 0 {
                answers.add(number);
            }
        })?;
        ledger.check(comm, got[0], &format!("a flood by {routing}"))?;
        check_eq!(got[1], answers, "answers by {routing}");
    }
    Ok(())
}

/// A body that sends much more than may wait is made to wait, and what waited is told. Here each buffer waits until its
/// receiver has taken it, so that this does not depend on how fast anybody is.
pub(super) fn slowed(comm: &Comm) -> Outcome {
    // The engine's barrier is for all ranks; without it messages are synchronous.
    let is_in = comm.rank() + 1 < comm.size();
    let Some(part) = comm.split(is_in.then_some(0), 0)? else { return Ok(()) };
    let (me, cap, at_once, items) = (part.rank(), 50_000, 30_000, 5);
    let mut build = ActiveMessages::<Tally>::builder(&part);
    let flood = build.port::<u64>("flood");
    build.on(flood, |tally: &mut Tally, _, value| tally.add(value));
    build.memory(cap);
    build.detector(Detector::NbxLike);
    let mut am = build.start()?;
    let mut tally = Tally::default();
    let mut ledger = Ledger::new(&part);
    // One sends nothing, and takes from all.
    let items = if me == 0 { 0 } else { items };
    am.epoch_for(&mut tally, 0..items, |cx, _, item| {
        for number in 0..at_once {
            ledger.sent(0, number ^ item);
            cx.send(flood, 0, number ^ item);
        }
    })?;
    ledger.check(&part, tally, "a flood")?;
    let memory = am.memory();
    if me == 0 {
        check_eq!((memory.slowed, memory.deferred), (0, 0), "how often one that sends nothing was slowed down");
    } else {
        check!(memory.slowed > 0, "never slowed down, with {} bytes that waited", memory.deferred);
        let least = at_once as usize * 8 - cap;
        check!(memory.deferred > least, "{} bytes waited of {}", memory.deferred, at_once * 8);
    }
    Ok(())
}

/// Handlers cannot be slowed down: each message becomes a hundred, on all ranks at once, over buffers of few.
pub(super) fn handlers(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let each = (20_000 / ranks).max(1) as u64;
    for coalescing in ["adaptive", "16"] {
        let mut build = ActiveMessages::<Tally>::builder(comm);
        let many = build.port::<u64>("many");
        let drop = build.port::<[u64; 4]>("drop");
        build.on(many, move |_, cx, count| {
            for number in 0..count {
                cx.send(drop, (cx.rank() + number as usize) % ranks, [number, 0, 0, 0]);
            }
        });
        build.on(drop, |tally: &mut Tally, cx, [number, ..]| {
            tally.add(number);
            cx.add(1);
        });
        build.memory(4096);
        build.configure_all(format!("coalescing={coalescing}").parse()?);
        let mut am = build.start()?;
        let mut tally = Tally::default();
        let sum = am.epoch_for(&mut tally, 0..ranks, |cx, _, i| cx.send(many, (me + i) % ranks, each))?;
        check_eq!(sum, (ranks * ranks) as u64 * each, "drops");
        // From each rank as many floods as there are ranks.
        let from = |rank: usize| (0..each).filter(move |number| (rank + *number as usize) % ranks == me);
        let mut want = Tally::default();
        (0..ranks).flat_map(from).for_each(|number| (0..ranks).for_each(|_| want.add(number)));
        check_eq!(tally, want, "drops on this rank");
    }
    Ok(())
}
