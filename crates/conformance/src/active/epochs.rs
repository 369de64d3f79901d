//! Sequences of epochs.

use treepie::am::{ActiveMessages, Detector};
use treepie::{Comm, Rank, SparseExchange, Sum};

use super::{Ledger, Tally, routings, scaled_count};
use crate::check::{Outcome, check_eq};

/// The number of messages that a rank sends in an epoch: often none, and sometimes only one rank sends.
fn count(rank: Rank, ranks: usize, epoch: usize) -> usize {
    match epoch % 5 {
        0 => 0,
        1 => usize::from(rank == epoch / 5 % ranks) * 3,
        _ => (rank + epoch) % 3,
    }
}

/// Thousands of small epochs, in which each message is forwarded once.
pub(super) fn back_to_back(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let every = routings(ranks);
    let configs = [
        (format!("routing={}", every[0]), Detector::Auto),
        (format!("routing={}", every[ranks % 5]), Detector::FourCounter),
        (format!("routing={}", every[(ranks + 2) % 5]), Detector::Consensus),
        (format!("routing={},style=bsp", every[(ranks + 1) % 5]), Detector::Auto),
    ];
    for (config, detector) in configs {
        let mut build = ActiveMessages::<u64>::builder(comm);
        let first = build.port::<u64>("first");
        let second = build.port::<u64>("second");
        build.on(first, move |_, cx, epoch| {
            cx.add_to_sum(epoch);
            cx.send(second, (cx.rank() + epoch as usize) % ranks, epoch);
        });
        build.on(second, |handled: &mut u64, cx, epoch| {
            *handled += 1;
            cx.add_to_sum(epoch << 32);
        });
        build.configure_all(config.parse()?);
        build.detector(detector);
        let mut am = build.start()?;
        let (mut handled, mut sent) = (0, 0);
        for epoch in 0..scaled_count(comm, 500) {
            let sum = am.epoch_for(&mut handled, 0..count(me, ranks, epoch), |cx, _, i| {
                cx.send(first, (me + i + epoch) % ranks, epoch as u64);
            })?;
            let messages: usize = (0..ranks).map(|rank| count(rank, ranks, epoch)).sum();
            let want = (messages * epoch) as u64;
            check_eq!(sum, want | want << 32, "the sum of epoch {epoch} of {messages} by {config}, {detector:?}");
            sent += messages as u64;
        }
        let all = comm.allreduce(&[handled], Sum)?[0];
        check_eq!(all, sent, "messages that were forwarded with {config}, {detector:?}");
    }
    Ok(())
}

/// Bodies that send everything in one call, with and without progress, and read the state in between.
pub(super) fn one_shot(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let mut build = ActiveMessages::<Tally>::builder(comm);
    let value = build.target("value", move |value: &u64| *value as usize % ranks);
    build.on(value, |tally: &mut Tally, cx, value: u64| {
        tally.add(value);
        cx.add_to_sum(1);
    });
    let mut am = build.start()?;
    for progresses in [0, 1, 10, 1000] {
        let mut tally = Tally::default();
        let mut ledger = Ledger::new(comm);
        let sum = am.named(format!("with {progresses}")).epoch(&mut tally, |epoch| {
            for number in 0..1000 {
                ledger.record_sent((number + me) % ranks, (number + me) as u64);
                epoch.context().send_to_owner(&value, (number + me) as u64);
                if progresses > 0 && number % (1000 / progresses) == 0 {
                    epoch.progress()?;
                }
            }
            let seen = epoch.state().count;
            let (state, cx) = epoch.parts();
            assert!(state.count == seen && cx.ranks() == ranks, "nothing is handled without progress");
            Ok(())
        })?;
        ledger.check(comm, tally, "messages")?;
        check_eq!(sum, 1000 * ranks as u64, "with {progresses} times progress");
    }
    Ok(())
}

/// Epochs between messages, collective operations and exchanges: none receives what belongs to another.
pub(super) fn between_others(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let right = (me + 1) % ranks;
    let mut build = ActiveMessages::<Tally>::builder(comm);
    let value = build.port::<u64>("value");
    build.on(value, |tally: &mut Tally, cx, value| {
        tally.add(value);
        cx.add_to_sum(value);
    });
    let mut am = build.start()?;
    let mut tally = Tally::default();
    for round in 0..scaled_count(comm, 100) as u64 {
        let sent = comm.isend(vec![round], right, 3)?;
        let request = comm.iallreduce(vec![round], Sum)?;
        let sum = am.epoch_for(&mut tally, 0..ranks, |cx, _, to| cx.send(value, to, round))?;
        check_eq!(sum, (ranks * ranks) as u64 * round, "the sum of an epoch");
        check_eq!(request.wait()?[0], round * ranks as u64, "an allreduce started before it");
        let got = comm.exchange([(right, vec![round])])?;
        check_eq!(got[0].1, [round], "an exchange after it");
        check_eq!(comm.recv_vec::<u64>((me + ranks - 1) % ranks, 3)?.0, [round], "a message");
        sent.wait()?;
        comm.barrier()?;
    }
    check_eq!(tally.count, (ranks * scaled_count(comm, 100)) as u64, "messages");
    Ok(())
}
