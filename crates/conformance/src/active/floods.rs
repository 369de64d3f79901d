//! More messages than receivers can handle in time.

use treepie::Comm;
use treepie::am::{ActiveMessages, Detector};

use super::{Ledger, Tally, is_long_run, selected_routings};
use crate::check::{Outcome, check, check_eq};

/// All ranks send to one, which answers some of the messages, with a small memory limit.
pub(super) fn all_to_one(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let count = if is_long_run() { 1_000_000 } else { 100_000_usize.div_ceil(ranks) };
    for (turn, routing) in selected_routings(comm).into_iter().enumerate() {
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
        build.memory_limit(10_000);
        build.configure_all(format!("routing={routing}").parse()?);
        build.detector([Detector::FourCounter, Detector::Consensus][turn % 2]);
        let mut am = build.start()?;
        let victim = turn * 3 % ranks;
        let mut got = [Tally::default(); 2];
        let (mut ledger, mut answers) = (Ledger::new(comm), Tally::default());
        am.epoch_for(&mut got, 0..count as u64, |cx, _, number| {
            ledger.record_sent(victim, number);
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

/// A body that sends much more than the memory limit is throttled, and the statistics show it. Each buffer here is
/// queued until its receiver has acknowledged it, so the result does not depend on timing.
pub(super) fn back_pressure(comm: &Comm) -> Outcome {
    // A part of the ranks has no engine barrier, so the consensus detector sends synchronous messages.
    let is_in = comm.rank() + 1 < comm.size();
    let Some(part) = comm.split(is_in.then_some(0), 0)? else { return Ok(()) };
    let (me, limit, per_item, items) = (part.rank(), 50_000, 30_000, 5);
    let mut build = ActiveMessages::<Tally>::builder(&part);
    let flood = build.port::<u64>("flood");
    build.on(flood, |tally: &mut Tally, _, value| tally.add(value));
    build.memory_limit(limit);
    build.detector(Detector::Consensus);
    let mut am = build.start()?;
    let mut tally = Tally::default();
    let mut ledger = Ledger::new(&part);
    // Rank 0 sends nothing and receives from all.
    let items = if me == 0 { 0 } else { items };
    am.epoch_for(&mut tally, 0..items, |cx, _, item| {
        for number in 0..per_item {
            ledger.record_sent(0, number ^ item);
            cx.send(flood, 0, number ^ item);
        }
    })?;
    ledger.check(&part, tally, "a flood")?;
    let memory = am.memory_statistics();
    if me == 0 {
        check_eq!(
            (memory.throttled, memory.peak_queued_bytes),
            (0, 0),
            "how often a rank that sends nothing was throttled"
        );
    } else {
        check!(memory.throttled > 0, "never throttled, with at most {} bytes queued", memory.peak_queued_bytes);
        let least = per_item as usize * 8 - limit;
        check!(
            memory.peak_queued_bytes > least,
            "at most {} bytes of {} were queued",
            memory.peak_queued_bytes,
            per_item * 8
        );
    }
    Ok(())
}

/// Handlers are never throttled: each message becomes thousands, on all ranks at once, in small buffers.
pub(super) fn flooding_handlers(comm: &Comm) -> Outcome {
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
            cx.add_to_sum(1);
        });
        build.memory_limit(4096);
        build.configure_all(format!("coalescing={coalescing}").parse()?);
        let mut am = build.start()?;
        let mut tally = Tally::default();
        let sum = am.epoch_for(&mut tally, 0..ranks, |cx, _, i| cx.send(many, (me + i) % ranks, each))?;
        check_eq!(sum, (ranks * ranks) as u64 * each, "drops");
        // Each rank starts one flood on every rank.
        let from = |rank: usize| (0..each).filter(move |number| (rank + *number as usize) % ranks == me);
        let mut want = Tally::default();
        (0..ranks).flat_map(from).for_each(|number| (0..ranks).for_each(|_| want.add(number)));
        check_eq!(tally, want, "drops on this rank");
    }
    Ok(())
}
