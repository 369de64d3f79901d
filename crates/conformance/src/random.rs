//! Random traffic, checked against a model of what must happen.
//!
//! A seed determines what every rank sends, so a receiver knows for each source the list of messages still to come, in
//! the order they are sent. A receive must get the first message in the list of its source that it matches. Receives
//! that are posted together are checked in the order they were posted.
//!
//! So that no rank waits for a message that is never sent, traffic proceeds in rounds: a rank starts the sends of a
//! round before it waits for anything of that round, and receives only messages of rounds that have started. Each
//! posted receive of a batch is made from a different message, the specific ones before wildcards, so that no wildcard
//! matches the only message of a later receive.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{ANY_SOURCE, ANY_TAG, Comm, Rank, Source, Status, TagMatch, wait_all};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{check_bytes, checksum, fill};
use crate::signals::poll_until;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("random/a-hundred-thousand-messages", 1, |comm| traffic(comm, &HUNDRED_THOUSAND)),
    Case::new("random/few-tags-and-large-messages", 1, |comm| traffic(comm, &LARGE)),
    Case::new("random/many-tags-and-tiny-messages", 1, |comm| traffic(comm, &TINY)),
    Case::new("random/synchronous", 1, |comm| traffic(comm, &SYNCHRONOUS)),
    Case::new("random/windows", 1, random_window),
];

/// A kind of traffic.
struct Traffic {
    seed: u64,
    /// Messages of all ranks together.
    messages: usize,
    rounds: usize,
    tags: u32,
    len: fn(u64) -> usize,
    /// Synchronous sends, in percent.
    synchronous: u64,
}

const HUNDRED_THOUSAND: Traffic =
    Traffic { seed: 1, messages: 100_000, rounds: 40, tags: 6, len: mixed_len, synchronous: 5 };
const LARGE: Traffic = Traffic { seed: 2, messages: 600, rounds: 6, tags: 2, len: large_len, synchronous: 10 };
const TINY: Traffic = Traffic { seed: 3, messages: 20_000, rounds: 10, tags: 500, len: tiny_len, synchronous: 0 };
const SYNCHRONOUS: Traffic =
    Traffic { seed: 4, messages: 8_000, rounds: 10, tags: 4, len: mixed_len, synchronous: 100 };

fn mixed_len(random: u64) -> usize {
    let within = (random >> 32) as usize;
    match random % 1000 {
        0..600 => within % 65,
        600..900 => within % 1025,
        900..985 => within % 10_000,
        985..999 => within % 40_000,
        _ => within % 300_000,
    }
}

fn large_len(random: u64) -> usize {
    (random >> 32) as usize % 400_000
}

fn tiny_len(random: u64) -> usize {
    (random >> 32) as usize % 24
}

/// A planned message.
#[derive(Clone, Copy)]
struct Planned {
    to: Rank,
    tag: u32,
    len: usize,
    round: usize,
    synchronous: bool,
    /// Its number among the messages of its sender.
    number: usize,
}

/// All messages of a sender, in order.
fn plan(traffic: &Traffic, sender: Rank, size: usize) -> impl Iterator<Item = Planned> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(traffic.seed << 32 | sender as u64);
    let each = (traffic.messages / size).max(1);
    let (rounds, tags, len, synchronous) = (traffic.rounds, traffic.tags, traffic.len, traffic.synchronous);
    (0..each).map(move |number| Planned {
        to: (random.next_u64() % size as u64) as usize,
        tag: (random.next_u64() % u64::from(tags)) as u32,
        len: len(random.next_u64()),
        synchronous: random.next_u64() % 100 < synchronous,
        round: number * rounds / each,
        number,
    })
}

const HEADER_BYTES: usize = 32;

/// The message: a header of sender, number, length and checksum if it is long enough, and data from a seed.
fn compose(sender: Rank, planned: &Planned) -> Vec<u8> {
    let mut data = vec![0; planned.len];
    let seed = (sender as u64) << 40 | planned.number as u64;
    match data.split_at_mut_checked(HEADER_BYTES) {
        None => fill(seed, &mut data),
        Some((head, rest)) => {
            fill(seed, rest);
            let words = [sender as u64, planned.number as u64, planned.len as u64, checksum(rest)];
            head.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        }
    }
    data
}

fn check_message(got: &[u8], sender: Rank, planned: &Planned) -> Outcome {
    let seed = (sender as u64) << 40 | planned.number as u64;
    let Some((head, rest)) = got.split_at_checked(HEADER_BYTES) else { return check_bytes(got, seed, planned.len) };
    let word = |i: usize| u64::from_le_bytes(head[i * 8..i * 8 + 8].try_into().expect("8 bytes"));
    let want = (sender as u64, planned.number as u64, planned.len as u64);
    check_eq!((word(0), word(1), word(2)), want, "sender, number and length that a message carries");
    check_eq!(word(3), checksum(rest), "checksum that a message carries");
    check_bytes(rest, seed, planned.len - HEADER_BYTES)
}

/// The messages that are still to be received.
struct Model {
    /// By source, in order.
    lists: Vec<VecDeque<Planned>>,
    /// The number of messages in each list that belong to rounds that have started; they come first.
    started: Vec<usize>,
}

impl Model {
    fn new(traffic: &Traffic, me: Rank, size: usize) -> Self {
        let to_me = |sender| plan(traffic, sender, size).filter(|planned| planned.to == me).collect();
        Self { lists: (0..size).map(to_me).collect(), started: vec![0; size] }
    }

    fn start_round(&mut self, round: usize) {
        for (list, started) in self.lists.iter().zip(&mut self.started) {
            *started += list.iter().skip(*started).take_while(|planned| planned.round <= round).count();
        }
    }

    fn available(&self) -> usize {
        self.started.iter().sum()
    }

    /// The source and tag of the `nth` message that can be received.
    fn pick(&self, mut nth: usize) -> (Rank, u32) {
        for (source, &started) in self.started.iter().enumerate() {
            if nth < started {
                return (source, self.lists[source][nth].tag);
            }
            nth -= started;
        }
        unreachable!("the caller stays below the number that is available")
    }

    /// Removes the message that a receive with this source and tag must have matched.
    fn expect(&mut self, source: Rank, tag: TagMatch) -> Outcome<Planned> {
        let list = &mut self.lists[source];
        let matches = |planned: &Planned| tag == ANY_TAG || tag == TagMatch::Tag(planned.tag);
        let index = list.iter().position(matches);
        let planned = index.and_then(|index| list.remove(index));
        let started = &mut self.started[source];
        *started -= usize::from(index.is_some_and(|index| index < *started));
        planned.ok_or_else(|| crate::Failure::new(format!("a message from {source} for {tag:?}, which is not due")))
    }

    fn check(&mut self, pattern: (Source, TagMatch), got: &[u8], status: Status) -> Outcome {
        if let Source::Rank(source) = pattern.0 {
            check_eq!(status.source, source, "source of a receive from one rank");
        }
        let planned = self.expect(status.source, pattern.1)?;
        check_eq!(
            (status.tag, status.bytes),
            (planned.tag, planned.len as u64),
            "tag and length from {}",
            status.source
        );
        check_message(got, status.source, &planned)
    }
}

/// Random choices of one rank, independent of the plan.
struct RankRng(Xoshiro256PlusPlus);

impl RankRng {
    fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit as u64) as usize
    }
}

fn traffic(comm: &Comm, traffic: &Traffic) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut model = Model::new(traffic, me, size);
    let mut planned_sends = plan(traffic, me, size).peekable();
    let mut rng = RankRng(Xoshiro256PlusPlus::seed_from_u64(traffic.seed ^ 0xd1ce << 20 ^ me as u64));
    let mut sends = Vec::new();
    for round in 0..traffic.rounds {
        model.start_round(round);
        // Some of the round's messages find their receives posted.
        let batch = post(comm, &model, &mut rng, 60)?;
        while let Some(planned) = planned_sends.next_if(|planned| planned.round == round) {
            let data = compose(me, &planned);
            sends.push(match planned.synchronous {
                true => comm.issend(data, planned.to, planned.tag)?,
                false => comm.isend(data, planned.to, planned.tag)?,
            });
        }
        complete(&mut model, batch)?;
        // The last round leaves nothing; the others leave messages queued for long.
        let rest = if round + 1 == traffic.rounds { 0 } else { model.available() / 4 };
        while model.available() > rest {
            if rng.below(4) == 0 {
                let batch = post(comm, &model, &mut rng, 20)?;
                complete(&mut model, batch)?;
            } else {
                receive_one(comm, &mut model, &mut rng)?;
            }
        }
    }
    check!(model.lists.iter().all(VecDeque::is_empty), "messages are left over");
    check!(planned_sends.next().is_none(), "messages were not sent");
    wait_all(sends)?;
    Ok(())
}

type Posted = Vec<((Source, TagMatch), treepie::Request<'static, (Vec<u8>, Status)>)>;

/// Posts up to `limit` receives, each for a different message: specific ones, then half specific ones, then wildcards.
fn post(comm: &Comm, model: &Model, rng: &mut RankRng, limit: usize) -> Outcome<Posted> {
    let available = model.available();
    let count = rng.below(limit.min(available) + 1);
    // Different messages: every `stride`th from a random one on.
    let (first, stride) = (rng.below(available.max(1)), (available / count.max(1)).max(1));
    let any_source_in_the_middle = rng.below(2) == 0;
    let (middle, last) = (rng.below(count + 1), rng.below(count + 1));
    let (middle, last) = (middle.min(last), middle.max(last));
    let mut posted = Vec::new();
    for i in 0..count {
        let (source, tag) = model.pick((first + i * stride) % available);
        let specific = (Source::Rank(source), TagMatch::Tag(tag));
        let pattern = match i {
            _ if i < middle => specific,
            _ if i >= last => (ANY_SOURCE, ANY_TAG),
            _ if any_source_in_the_middle => (ANY_SOURCE, specific.1),
            _ => (specific.0, ANY_TAG),
        };
        posted.push((pattern, comm.irecv_vec::<u8>(pattern.0, pattern.1)?));
    }
    Ok(posted)
}

fn complete(model: &mut Model, posted: Posted) -> Outcome {
    let (pattern, requests): (Vec<_>, Vec<_>) = posted.into_iter().unzip();
    for (pattern, (got, status)) in pattern.into_iter().zip(wait_all(requests)?) {
        model.check(pattern, &got, status)?;
    }
    Ok(())
}

/// Receives one message by a random kind of receive or probe.
fn receive_one(comm: &Comm, model: &mut Model, rng: &mut RankRng) -> Outcome {
    let (source, tag) = model.pick(rng.below(model.available()));
    let source = if rng.below(2) == 0 { ANY_SOURCE } else { Source::Rank(source) };
    let tag = if rng.below(2) == 0 { ANY_TAG } else { TagMatch::Tag(tag) };
    let (got, status) = match rng.below(6) {
        0 => comm.recv_vec::<u8>(source, tag)?,
        1 => {
            let status = comm.probe(source, tag)?;
            let mut into = vec![0; status.bytes as usize];
            let received = comm.recv(&mut into, status.source, status.tag)?;
            check_eq!(received, status, "status of a receive after a probe");
            (into, status)
        }
        2 => {
            let message = comm.mprobe(source, tag)?;
            let status = message.status();
            (message.recv_vec()?, status)
        }
        3 => {
            let mut message = None;
            poll_until(comm, "a message that improbe finds", || {
                message = comm.improbe(source, tag)?;
                Ok(message.is_some())
            })?;
            let message = message.expect("it was found");
            let status = message.status();
            (message.recv_vec()?, status)
        }
        4 => {
            let mut into = vec![0; 400_000];
            let status = comm.recv(&mut into, source, tag)?;
            into.truncate(status.bytes as usize);
            (into, status)
        }
        _ => {
            let mut request = comm.irecv_vec::<u8>(source, tag)?;
            let mut result = None;
            poll_until(comm, "the end of a receive", || {
                result = request.test().transpose()?;
                Ok(result.is_some())
            })?;
            result.expect("it is complete")
        }
    };
    model.check((source, tag), &got, status)
}

/// Random gets, puts and atomic additions; each rank uses its own elements of every rank's window.
fn random_window(comm: &Comm) -> Outcome {
    const EACH: usize = 16;
    let (me, size) = (comm.rank(), comm.size());
    let window = comm.window::<u64>(size * EACH)?;
    let mut rng = RankRng(Xoshiro256PlusPlus::seed_from_u64(me as u64));
    let mut known = vec![[0u64; EACH]; size];
    for _ in 0..6000 / size {
        let (rank, slot) = (rng.below(size), rng.below(EACH));
        let offset = me * EACH + slot;
        match rng.below(3) {
            0 => {
                let count = 1 + rng.below(EACH - slot);
                let data: Vec<u64> = (0..count).map(|_| rng.0.next_u64()).collect();
                window.put(rank, offset, &data)?;
                window.flush()?;
                known[rank][slot..slot + count].copy_from_slice(&data);
            }
            1 => {
                let value = rng.0.next_u64();
                let old = window.fetch_add(rank, offset, value)?;
                check_eq!(old, known[rank][slot], "result of fetch_add at rank {rank}");
                known[rank][slot] = old.wrapping_add(value);
            }
            _ => {
                let mut got = vec![0; EACH - slot];
                window.get(rank, offset, &mut got)?;
                check_eq!(got, known[rank][slot..], "result of get at rank {rank}");
            }
        }
    }
    window.fence()?;
    for (rank, known) in known.iter().enumerate() {
        let mut got = [0; EACH];
        window.get(rank, me * EACH, &mut got)?;
        check_eq!(got, *known, "final elements at rank {rank}");
    }
    Ok(window.free()?)
}
