//! Handlers that send, to any depth.

use treepie::am::{ActiveMessages, Detector};
use treepie::{Comm, Rank};

use super::{is_long, some, some_routings};
use crate::check::{Failure, Outcome, check_eq};

/// One message at a time, a million times: on one rank, then around the ranks. A leaf is sent elsewhere now and then.
pub(super) fn chains(comm: &Comm) -> Outcome {
    let ranks = comm.size();
    // To another rank it takes a thousand times as long where ranks wait for cores, and virtual time goes on for all.
    let (depth, stays) = match comm.engine() {
        "threads" | "shm" if is_long() && ranks <= 2 => (1_000_000, 10),
        "threads" | "shm" => (1_000_000, 2000),
        _ => (100_000, 1000),
    };
    // On one rank it is the same however many others there are.
    let locally = if ranks <= 3 || is_long() { &[true, false][..] } else { &[false] };
    for local in locally.iter().copied() {
        let mut build = ActiveMessages::<u64>::builder(comm);
        let hop = build.port::<u64>("hop");
        let leaf = build.port::<u64>("leaf");
        build.on(hop, move |handled: &mut u64, cx, left| {
            *handled += 1;
            cx.add(1);
            if left > 0 {
                let goes_on = !local && left % stays == 0;
                let to = (cx.rank() + usize::from(goes_on)) % ranks;
                cx.send(hop, to, left - 1);
                if left % 100 == 0 {
                    cx.send(leaf, left as usize / 100 % if local { 1 } else { ranks }, 1 << 32);
                }
            }
        });
        build.on(leaf, |_, cx, value| cx.add(value));
        let mut am = build.start()?;
        let mut handled = 0;
        let starts = (0..1).filter(|_| comm.rank() == 0);
        let sum = am.epoch_for(&mut handled, starts, |cx, _, _: i32| cx.send(hop, 0, depth))?;
        check_eq!(sum, depth + 1 + ((depth / 100) << 32), "handlers of a chain, and leaves");
        check_eq!(!local || handled == if comm.rank() == 0 { depth + 1 } else { 0 }, true, "handlers on this rank");
    }
    Ok(())
}

/// Two messages for each until nothing is left; 2^(depth + 1) - 1 of each root.
fn tree(comm: &Comm, config: &str, detector: Detector, depth: u32) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let mut build = ActiveMessages::<u64>::builder(comm);
    let node = build.port::<[u32; 2]>("node");
    build.on_from(node, move |handled, cx, from, [left, salt]| {
        *handled += 1;
        cx.add(1);
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
        // Not all begin one.
        let roots = 0..(me + round) % 3;
        let sum = am.epoch_for(&mut handled, roots, |cx, _, i| {
            cx.send(node, (me + i * 5 + round) % ranks, [depth, round as u32])
        })?;
        let begun: usize = (0..ranks).map(|rank: Rank| (rank + round) % 3).sum();
        let want = begun as u64 * ((2 << depth) - 1);
        let what = || format!("{config}, {detector:?}, epoch {round}");
        check_eq!(sum, want, "the sum of {}", what());
        let all = comm.all_reduce(&[handled], treepie::Sum)?[0];
        check_eq!(all, want, "messages handled when it was over, of {}", what());
    }
    Ok(())
}

const DETECTORS: [Detector; 2] = [Detector::Counting, Detector::NbxLike];

pub(super) fn trees(comm: &Comm) -> Outcome {
    let depth = if some(comm, 10) == 10 { 9 } else { 6 };
    for (turn, routing) in some_routings(comm).into_iter().enumerate() {
        for (other, detector) in DETECTORS.into_iter().enumerate() {
            let coalescing = ["adaptive", "1", "7"][(turn + other) % 3];
            tree(comm, &format!("routing={routing},coalescing={coalescing}"), detector, depth)?;
        }
    }
    Ok(())
}

/// The same where each step of a tree is a round of all ranks: some are in the next one while others do not know of it yet.
pub(super) fn rounds(comm: &Comm) -> Outcome {
    for (turn, routing) in some_routings(comm).into_iter().enumerate() {
        for (other, detector) in DETECTORS.into_iter().enumerate() {
            let coalescing = ["adaptive", "1", "7"][(turn + other) % 3];
            let config = format!("routing={routing},coalescing={coalescing},style=bsp");
            (0..some(comm, 2)).try_for_each(|_| tree(comm, &config, detector, 5))?;
        }
    }
    Ok(())
}

/// Messages that are handled at the end of a round, sent by handlers of others that are handled at once, and the other way
/// round: what is handled in a round was sent in the one before.
pub(super) fn mixed_styles(comm: &Comm) -> Outcome {
    #[derive(Default)]
    struct State {
        round: u32,
        late: Option<String>,
        handled: [u64; 2],
    }
    let (me, ranks) = (comm.rank(), comm.size());
    for routing in some_routings(comm) {
        for detector in DETECTORS {
            let mut build = ActiveMessages::<State>::builder(comm);
            let at_once = build.port::<[u32; 2]>("at once");
            let at_end = build.port::<[u32; 2]>("at end");
            build.on(at_once, move |state: &mut State, cx, [round, salt]| {
                state.handled[0] += 1;
                cx.add(1);
                if round < 6 {
                    cx.send(at_end, (cx.rank() + salt as usize) % ranks, [round + 1, salt + 1]);
                }
            });
            build.on(at_end, move |state: &mut State, cx, [round, salt]| {
                state.handled[1] += 1;
                cx.add(1 << 32);
                // All of one round come before any of the next.
                if round < state.round {
                    state.late = Some(format!("a message of round {round} in round {}", state.round));
                }
                state.round = round;
                cx.send(at_once, (cx.rank() * 3 + salt as usize) % ranks, [round, salt * 3]);
            });
            build.configure(at_once, format!("routing={routing},coalescing=7").parse()?);
            build.configure(at_end, format!("routing={routing},style=bsp").parse()?);
            build.detector(detector);
            let mut am = build.start()?;
            let what = format!("{routing}, {detector:?}");
            for epoch in 0..3 {
                let mut state = State::default();
                let items = 20;
                let sum = am.epoch_for(&mut state, 0..items, |cx, _, i| {
                    cx.send(at_once, (me + i as usize * 7) % ranks, [0, i])
                })?;
                let all = ranks as u64 * u64::from(items);
                check_eq!(sum, all * 7 + ((all * 6) << 32), "messages handled in epoch {epoch} of {what}");
                if let Some(late) = state.late {
                    return Err(Failure::new(late).during(what));
                }
            }
        }
    }
    Ok(())
}
