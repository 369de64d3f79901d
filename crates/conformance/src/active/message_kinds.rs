//! Messages of any size, parcels of any length, calls with replies, and closures.

use bytemuck::{Pod, bytes_of};
use treepie::am::{ActiveMessages, Call, Context, ContinuationId};
use treepie::{Comm, Rank};

use super::{Ledger, Tally, random, routings, scaled_count, selected_routings};
use crate::check::{Failure, Outcome, check, check_eq};
use crate::payload::{bytes, check_bytes, checksum, fill, seed};

pub(super) fn sizes(comm: &Comm) -> Outcome {
    for routing in selected_routings(comm) {
        let config = format!("routing={routing},coalescing=4096b");
        let during = |what: &'static str| move |failure: Failure| failure.context(what);
        of_size::<u8>(comm, &config).map_err(during("bytes"))?;
        of_size::<[u8; 3]>(comm, &config).map_err(during("three bytes"))?;
        of_size::<[u32; 3]>(comm, &config).map_err(during("three words"))?;
        of_size::<u128>(comm, &config).map_err(during("more aligned than buffers"))?;
        of_size::<[u64; 256]>(comm, &config).map_err(during("two in a buffer"))?;
        of_size::<[u64; 512]>(comm, &config).map_err(during("one in a buffer"))?;
        of_size::<[u64; 2048]>(comm, &config).map_err(during("longer than a buffer"))?;
    }
    Ok(())
}

/// Three message types: handled one by one, in batches, and with their source.
fn of_size<M: Pod>(comm: &Comm, config: &str) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let mut build = ActiveMessages::<[Tally; 3]>::builder(comm);
    let [one, batch, from] = ["one", "batch", "from"].map(|name| build.port::<M>(name));
    build.on(one, |got: &mut [Tally; 3], _, message| got[0].add(checksum(bytes_of(&message))));
    build.on_batch(batch, |got: &mut [Tally; 3], _, messages| {
        messages.iter().for_each(|message| got[1].add(checksum(bytes_of(message))));
    });
    build.on_from(from, |got: &mut [Tally; 3], _, source, message| {
        got[2].add(checksum(bytes_of(&message)) ^ source as u64);
    });
    build.configure_all(config.parse()?);
    let mut am = build.start()?;
    let mut got = [Tally::default(); 3];
    let mut ledgers = [(); 3].map(|()| Ledger::new(comm));
    let mut below = random(me, size_of::<M>());
    let count = (100_000 / ranks / size_of::<M>()).clamp(6, 300);
    am.epoch_for(&mut got, 0..count, |cx, _, i| {
        let to = below(ranks);
        let mut message = M::zeroed();
        fill(seed(me, to, i), bytemuck::bytes_of_mut(&mut message));
        let sum = checksum(bytes_of(&message));
        let origin = if i % 3 == 2 { me as u64 } else { 0 };
        ledgers[i % 3].record_sent(to, sum ^ origin);
        cx.send([one, batch, from][i % 3], to, message);
    })?;
    for (form, (ledger, got)) in ledgers.iter().zip(got).enumerate() {
        ledger.check(comm, got, ["messages", "messages in batches", "messages with their source"][form])?;
    }
    Ok(())
}

/// From empty over longer than a buffer to longer than the eager limit.
const LENGTHS: [usize; 6] = [0, 1, 100, 20_000, 3000, 1 << 20];

#[derive(Default)]
struct ParcelState {
    got: Tally,
    answers: Tally,
    wrong: Option<Failure>,
}

pub(super) fn parcels(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let every = routings(ranks);
    for (turn, coalescing) in ["adaptive", "1", "4096b"].into_iter().enumerate() {
        // Another routing for each number of ranks.
        let routing = &every[(turn * 2 + ranks) % every.len()];
        let config = format!("routing={routing},coalescing={coalescing},style={}", ["am", "bsp"][turn % 2]);
        let mut build = ActiveMessages::<ParcelState>::builder(comm);
        let data = build.parcel::<(u32, u32, Vec<u8>)>("data");
        let text = build.parcel::<(u32, String)>("text");
        build.on_parcel(data, move |state: &mut ParcelState, cx, (from, number, bytes): (u32, u32, Vec<u8>)| {
            let length = LENGTHS[number as usize % LENGTHS.len()];
            if let Err(failure) = check_bytes(&bytes, seed(from as Rank, cx.rank(), number as usize), length) {
                state.wrong.get_or_insert(failure);
            }
            state.got.add(bytes.len() as u64);
            cx.send_parcel(text, from as Rank, &(number, "é".repeat(number as usize)));
        });
        build.on_parcel(text, |state: &mut ParcelState, _, (number, answer): (u32, String)| {
            if answer.chars().count() != number as usize {
                state.wrong.get_or_insert(Failure::new(format!("`{answer}` is no answer to {number}")));
            }
            state.answers.add(number.into());
        });
        build.configure_all(config.parse()?);
        let mut am = build.start()?;
        let mut state = ParcelState::default();
        let mut ledger = Ledger::new(comm);
        let mut answers = Tally::default();
        // One of the longest, and more of the others; with many ranks only some send long ones.
        let is_sent = |number: &usize| match number % LENGTHS.len() {
            5 => *number == 5 && me < 4,
            3 => me < 8,
            _ => true,
        };
        let numbers = (0..20_usize).filter(is_sent);
        am.epoch_for(&mut state, numbers, |cx, _, number| {
            let (to, length) = ((me + number * 3 + turn) % ranks, LENGTHS[number % LENGTHS.len()]);
            ledger.record_sent(to, length as u64);
            answers.add(number as u64);
            cx.send_parcel(data, to, &(me as u32, number as u32, bytes(seed(me, to, number), length)));
        })?;
        state.wrong.map_or(Ok(()), Err).map_err(|failure| failure.context(&config))?;
        ledger.check(comm, state.got, "parcels and their bytes").map_err(|failure| failure.context(&config))?;
        check_eq!(state.answers, answers, "answers by {config}");
    }
    Ok(())
}

/// The answer of a rank to a question.
fn expected_answer(rank: Rank, question: u32) -> u64 {
    seed(rank, 17, question as usize)
}

#[derive(Default)]
struct CallState {
    table: Vec<u64>,
    answers: Vec<u64>,
    wide: Tally,
}

const WIDE: usize = 64;

pub(super) fn calls(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let every = routings(ranks);
    for turn in 0..4 {
        let coalescing = ["adaptive", "1", "7", "adaptive"][turn];
        let config = format!("routing={},coalescing={coalescing}", every[(turn + ranks) % every.len()]);
        let mut build = ActiveMessages::<CallState>::builder(comm);
        let get: Call<u32, u64, [u32; 2]> = build.call("get");
        let ahead: Call<u32, u64> = build.call("ahead");
        let wide: Call<[u64; WIDE], [u64; WIDE], u64> = build.call("wide");
        // The continuation data: the slot of the answer, and how many more ranks to ask.
        build.on_call(
            get,
            |state: &mut CallState, _, at| state.table[at as usize],
            move |state: &mut CallState, cx, [slot, more], answer| {
                state.answers[slot as usize] = state.answers[slot as usize].wrapping_add(answer);
                if more > 0 {
                    cx.call(get, (cx.rank() + more as usize) % ranks, [slot, more - 1], slot % 10);
                }
            },
        );
        build.on_call_prefetch(
            ahead,
            |state: &CallState, at: &u32| &state.table[*at as usize],
            |state: &mut CallState, _, at| state.table[at as usize],
            |state: &mut CallState, _, slot: u32, answer| state.answers[slot as usize] = answer,
        );
        build.on_call(
            wide,
            |_, _, question: [u64; WIDE]| question.map(|word| !word),
            |state: &mut CallState, _, note, answer| state.wide.add(note ^ checksum(bytes_of(&answer))),
        );
        build.configure_all(config.parse()?);
        let mut am = build.start()?;
        let count = scaled_count(comm, 3000);
        let table = (0..10).map(|question| expected_answer(me, question)).collect();
        let mut state = CallState { table, answers: vec![0; count], wide: Tally::default() };
        let mut wanted = vec![0_u64; count];
        let mut wide_wanted = Tally::default();
        let mut below = random(me, turn);
        am.epoch_for(&mut state, 0..count, |cx, _, slot| {
            let (to, question) = (below(ranks), below(10) as u32);
            wanted[slot] = expected_answer(to, question);
            if slot % 3 == 0 {
                for more in 1..=slot as u32 % 4 {
                    wanted[slot] =
                        wanted[slot].wrapping_add(expected_answer((me + more as usize) % ranks, slot as u32 % 10));
                }
                cx.call(get, to, [slot as u32, slot as u32 % 4], question);
            } else {
                cx.call(ahead, to, slot as u32, question);
            }
            if slot % 50 == 0 {
                let question: [u64; WIDE] = std::array::from_fn(|i| (i + slot) as u64);
                wide_wanted.add(slot as u64 ^ checksum(bytes_of(&question.map(|word| !word))));
                cx.call(wide, to, slot as u64, question);
            }
        })?;
        check_eq!(state.answers, wanted, "answers by {config}");
        check_eq!(state.wide, wide_wanted, "long answers by {config}");
    }
    Ok(())
}

pub(super) fn asks(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    for config in ["", "routing=hypercube", "style=bsp,coalescing=7"] {
        let mut build = ActiveMessages::<Vec<u64>>::builder(comm);
        let ask: Call<u32, u64, ContinuationId> = build.call("ask");
        build.on_call_then(ask, |_, cx, question| expected_answer(cx.rank(), question));
        build.configure_all(config.parse()?);
        let mut am = build.start()?;
        let count = scaled_count(comm, 2000);
        // Two epochs: continuations of the first no longer exist in the second.
        for round in 0..2 {
            let mut answers = vec![0; count];
            am.epoch_for(&mut answers, 0..count, |cx, _, slot| {
                let (to, next) = ((me + slot) % ranks, (me + slot * 5 + round) % ranks);
                // The captured box must be dropped; the first continuation asks the next question.
                let captured = Box::new(slot);
                cx.call_then(ask, to, slot as u32, move |answers: &mut Vec<u64>, cx, first| {
                    answers[*captured] = first;
                    let then = move |answers: &mut Vec<u64>, _: &mut Context<Vec<u64>>, second: u64| {
                        answers[*captured] ^= second;
                    };
                    cx.call_then(ask, next, 7, then);
                });
            })?;
            let want = |slot: usize| {
                expected_answer((me + slot) % ranks, slot as u32) ^ expected_answer((me + slot * 5 + round) % ranks, 7)
            };
            check_eq!(answers, (0..count).map(want).collect::<Vec<_>>(), "answers by `{config}`");
        }
    }
    Ok(())
}

/// A spawned function that spawns itself on another rank while hops are left.
fn spawned(tally: &mut Tally, cx: &mut Context<Tally>, [left, value]: [u64; 2]) {
    tally.add(value);
    cx.add_to_sum(1);
    if left > 0 {
        cx.spawn((cx.rank() + value as usize) % cx.ranks(), [left - 1, value], spawned);
    }
}

pub(super) fn spawns(comm: &Comm) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    for routing in selected_routings(comm) {
        let mut build = ActiveMessages::<Tally>::builder(comm);
        build.allow_spawn();
        build.configure_all(format!("routing={routing}").parse()?);
        let mut am = build.start()?;
        let mut tally = Tally::default();
        let mut ledger = Ledger::new(comm);
        let count = scaled_count(comm, 1000);
        let mut below = random(me, 5);
        let sum = am.epoch_for(&mut tally, 0..count, |cx, _, i| {
            let (to, value) = (below(ranks), below(100));
            if i % 2 == 0 {
                (0..=3).for_each(|hop| ledger.record_sent((to + hop * value) % ranks, value as u64));
                cx.spawn(to, [3, value as u64], spawned);
            } else {
                // Arguments of another type; the closure captures nothing.
                ledger.record_sent(to, 2 * value as u64);
                cx.spawn(to, value as u32, |tally: &mut Tally, _, value| tally.add(2 * u64::from(value)));
            }
        })?;
        ledger.check(comm, tally, "closures that ran")?;
        check_eq!(sum, (ranks * count.div_ceil(2) * 4) as u64, "closures that counted");
    }
    // Without `allow_spawn` it is refused.
    let mut am = ActiveMessages::<Tally>::builder(comm).start()?;
    let refused = am.epoch_for(&mut Tally::default(), 0..1, |cx, _, _| cx.spawn(0, [0, 0], spawned));
    let is_reported = matches!(&refused, Err(treepie::Error::Algorithm(why)) if why.contains("allow_spawn"));
    let is_reported = is_reported || ranks > 1 && matches!(refused, Err(treepie::Error::Aborted { .. }));
    check!(is_reported, "spawned where that is not allowed: {refused:?}");
    Ok(())
}
