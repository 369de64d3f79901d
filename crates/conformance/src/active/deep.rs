//! Handlers that send, to any depth.

use treepie::am::{ActiveMessages, Detector};
use treepie::{Comm, Rank};

use super::{is_long_run, scaled_count, selected_routings};
use crate::check::{Failure, Outcome, check_eq};

/// A chain of a million messages, first on one rank, then around the ranks, which now and then sends a leaf elsewhere.
pub(super) fn chains(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    // A hop to another rank takes a thousand times as long where ranks wait for cores or are simulated.
    let (depth, stays) = match comm.engine() {
        "threads" | "shm" if is_long_run() && ranks <= 2 => (1_000_000, 10),
        "threads" | "shm" => (1_000_000, 2000),
        _ => (100_000, 1000),
    };
    // A local chain does not depend on the number of ranks.
    let locally = if ranks <= 3 || is_long_run() { &[true, false][..] } else { &[false] };
    for local in locally.iter().copied() {
        let mut build = ActiveMessages::<u64>::builder(comm);
        let hop = build.port::<u64>("hop");
        let leaf = build.port::<u64>("leaf");
        build.on(hop, move |handled: &mut u64, cx, left| {
            *handled += 1;
            cx.add_to_sum(1);
            if left > 0 {
                let goes_on = !local && left % stays == 0;
                let to = (cx.rank() + usize::from(goes_on)) % ranks;
                cx.send(hop, to, left - 1);
                if left % 100 == 0 {
                    cx.send(leaf, left as usize / 100 % if local { 1 } else { ranks }, 1 << 32);
                }
            }
        });
        build.on(leaf, |_, cx, value| cx.add_to_sum(value));
        let mut am = build.start()?;
        let mut handled = 0;
        let starts = (0..1).filter(|_| comm.rank() == 0);
        let sum = am.epoch_for(&mut handled, starts, |cx, _, _: i32| cx.send(hop, 0, depth))?;
        check_eq!(sum, depth + 1 + ((depth / 100) << 32), "handlers of a chain, and leaves");
        check_eq!(!local || handled == if comm.rank() == 0 { depth + 1 } else { 0 }, true, "handlers on this rank");
    }
    Ok(())
}

/// Each message sends two until the depth is reached: 2^(depth + 1) - 1 messages per root.
fn tree(comm: &Comm, config: &str, detector: Detector, depth: u32) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let mut build = ActiveMessages::<u64>::builder(comm);
    let node = build.port::<[u32; 2]>("node");
    build.on_from(node, move |handled, cx, from, [left, salt]| {
        *handled += 1;
        cx.add_to_sum(1);
        if left > 0 {
            let to = cx.rank() * 7 + from * 3 + left as usize * 5 + salt as usize;
            cx.send(node, to % ranks, [left - 1, salt + 1]);
            cx.send(node, (to / 3 + 1) % ranks, [left - 1, salt * 3]);
        }
    });
    build.configure_all(config.parse()?);
    build.detector(detector);
    let mut am = build.start()?;
    for round in 0..3_usize {
        let mut handled = 0;
        // Not every rank starts a tree.
        let roots = 0..(me + round) % 3;
        let sum = am.epoch_for(&mut handled, roots, |cx, _, i| {
            cx.send(node, (me + i * 5 + round) % ranks, [depth, round as u32])
        })?;
        let started: usize = (0..ranks).map(|rank: Rank| (rank + round) % 3).sum();
        let want = started as u64 * ((2 << depth) - 1);
        let what = || format!("{config}, {detector:?}, epoch {round}");
        check_eq!(sum, want, "the sum of {}", what());
        let all = comm.allreduce(&[handled], treepie::Sum)?[0];
        check_eq!(all, want, "messages handled at the end of {}", what());
    }
    Ok(())
}

const DETECTORS: [Detector; 2] = [Detector::FourCounter, Detector::Consensus];

pub(super) fn trees(comm: &Comm) -> Outcome {
    let depth = if scaled_count(comm, 10) == 10 { 9 } else { 6 };
    for (turn, routing) in selected_routings(comm).into_iter().enumerate() {
        for (other, detector) in DETECTORS.into_iter().enumerate() {
            let coalescing = ["adaptive", "1", "7"][(turn + other) % 3];
            tree(comm, &format!("routing={routing},coalescing={coalescing}"), detector, depth)?;
        }
    }
    Ok(())
}

/// The same trees in BSP style, where each level is a round of all ranks and some ranks enter the next round early.
pub(super) fn rounds(comm: &Comm) -> Outcome {
    for (turn, routing) in selected_routings(comm).into_iter().enumerate() {
        for (other, detector) in DETECTORS.into_iter().enumerate() {
            let coalescing = ["adaptive", "1", "7"][(turn + other) % 3];
            let config = format!("routing={routing},coalescing={coalescing},style=bsp");
            (0..scaled_count(comm, 2)).try_for_each(|_| tree(comm, &config, detector, 5))?;
        }
    }
    Ok(())
}

/// Handlers of an asynchronous type send messages of a BSP type, and the other way round. BSP messages must be handled
/// in the round after the one they were sent in.
pub(super) fn mixed_styles(comm: &Comm) -> Outcome {
    #[derive(Default)]
    struct RoundState {
        round: u32,
        late: Option<String>,
        handled: [u64; 2],
    }
    let (me, ranks) = (comm.rank(), comm.size());
    for routing in selected_routings(comm) {
        for detector in DETECTORS {
            let mut build = ActiveMessages::<RoundState>::builder(comm);
            let immediate = build.port::<[u32; 2]>("immediate");
            let deferred = build.port::<[u32; 2]>("deferred");
            build.on(immediate, move |state: &mut RoundState, cx, [round, salt]| {
                state.handled[0] += 1;
                cx.add_to_sum(1);
                if round < 6 {
                    cx.send(deferred, (cx.rank() + salt as usize) % ranks, [round + 1, salt + 1]);
                }
            });
            build.on(deferred, move |state: &mut RoundState, cx, [round, salt]| {
                state.handled[1] += 1;
                cx.add_to_sum(1 << 32);
                // All messages of one round are handled before any of the next.
                if round < state.round {
                    state.late = Some(format!("a message of round {round} in round {}", state.round));
                }
                state.round = round;
                cx.send(immediate, (cx.rank() * 3 + salt as usize) % ranks, [round, salt * 3]);
            });
            build.configure(immediate, format!("routing={routing},coalescing=7").parse()?);
            build.configure(deferred, format!("routing={routing},style=bsp").parse()?);
            build.detector(detector);
            let mut am = build.start()?;
            let what = format!("{routing}, {detector:?}");
            for epoch in 0..3 {
                let mut state = RoundState::default();
                let items = 20;
                let sum = am.epoch_for(&mut state, 0..items, |cx, _, i| {
                    cx.send(immediate, (me + i as usize * 7) % ranks, [0, i])
                })?;
                let all = ranks as u64 * u64::from(items);
                check_eq!(sum, all * 7 + ((all * 6) << 32), "messages handled in epoch {epoch} of {what}");
                if let Some(late) = state.late {
                    return Err(Failure::new(late).context(what));
                }
            }
        }
    }
    Ok(())
}
