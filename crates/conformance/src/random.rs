//! Random traffic, checked against a model of what must happen.
//!
//! What every rank sends follows from a seed, so a receiver knows, for each source, the list of messages still to come,
//! in the order they are sent. Whatever a receive asks for, what it gets must be the first in the list of its source
//! that it asks for. Receives that are posted together are checked in the order they were posted.
//!
//! So that nobody waits for what is never sent: traffic goes in rounds, a rank begins the sends of a round before it
//! waits for anything of that round, and it asks only for messages of rounds that have begun. A batch of posted
//! receives is made from as many different messages, the more specific before the less, so that no wildcard takes the
//! only message that an older receive was posted for.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{ANY_SOURCE, ANY_TAG, Comm, Rank, Source, Status, TagMatch, wait_all};

use crate::check::{Outcome, check, check_eq};
use crate::meeting::until;
use crate::payload::{check_bytes, checksum, fill};
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
    /// Of all ranks together.
    messages: usize,
    rounds: usize,
    tags: u32,
    len: fn(u64) -> usize,
    /// How many sends in 100 are synchronous.
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

/// A message as it was planned.
#[derive(Clone, Copy)]
struct Planned {
    to: Rank,
    tag: u32,
    len: usize,
    round: usize,
    synchronous: bool,
    /// Its number among all of its sender.
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

const HEAD: usize = 32;

/// The message: sender, number, length and checksum of the rest where there is room for them, and data from a seed.
fn compose(sender: Rank, planned: &Planned) -> Vec<u8> {
    let mut data = vec![0; planned.len];
    let seed = (sender as u64) << 40 | planned.number as u64;
    match data.split_at_mut_checked(HEAD) {
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
    let Some((head, rest)) = got.split_at_checked(HEAD) else { return check_bytes(got, seed, planned.len) };
    let word = |i: usize| u64::from_le_bytes(head[i * 8..i * 8 + 8].try_into().expect("8 bytes"));
    let want = (sender as u64, planned.number as u64, planned.len as u64);
    check_eq!((word(0), word(1), word(2)), want, "sender, number and length that a message carries");
    check_eq!(word(3), checksum(rest), "checksum that a message carries");
    check_bytes(rest, seed, planned.len - HEAD)
}

/// What is still to be received.
struct Model {
    /// By source, in order.
    lists: Vec<VecDeque<Planned>>,
    /// How many at the front of each list belong to rounds that have begun.
    begun: Vec<usize>,
}

impl Model {
    fn new(traffic: &Traffic, me: Rank, size: usize) -> Self {
        let to_me = |sender| plan(traffic, sender, size).filter(|planned| planned.to == me).collect();
        Self { lists: (0..size).map(to_me).collect(), begun: vec![0; size] }
    }

    fn begin_round(&mut self, round: usize) {
        for (list, begun) in self.lists.iter().zip(&mut self.begun) {
            *begun += list.iter().skip(*begun).take_while(|planned| planned.round <= round).count();
        }
    }

    fn available(&self) -> usize {
        self.begun.iter().sum()
    }

    /// The source and tag of the `nth` message that can be asked for.
    fn pick(&self, mut nth: usize) -> (Rank, u32) {
        for (source, &begun) in self.begun.iter().enumerate() {
            if nth < begun {
                return (source, self.lists[source][nth].tag);
            }
            nth -= begun;
        }
        unreachable!("the caller stays below the number that is available")
    }

    /// Takes out what a receive of this tag from that source must have got.
    fn expect(&mut self, source: Rank, tag: TagMatch) -> Outcome<Planned> {
        let list = &mut self.lists[source];
        let asked = |planned: &Planned| tag == ANY_TAG || tag == TagMatch::Tag(planned.tag);
        let place = list.iter().position(asked);
        let planned = place.and_then(|place| list.remove(place));
        let begun = &mut self.begun[source];
        *begun -= usize::from(place.is_some_and(|place| place < *begun));
        planned.ok_or_else(|| crate::Failure::new(format!("a message from {source} for {tag:?}, which is not due")))
    }

    fn check(&mut self, asked: (Source, TagMatch), got: &[u8], status: Status) -> Outcome {
        if let Source::Rank(source) = asked.0 {
            check_eq!(status.source, source, "source of a message that was asked of one rank");
        }
        let planned = self.expect(status.source, asked.1)?;
        check_eq!(
            (status.tag, status.bytes),
            (planned.tag, planned.len as u64),
            "tag and length from {}",
            status.source
        );
        check_message(got, status.source, &planned)
    }
}

/// Random choices of one rank, apart from those of the plan.
struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit as u64) as usize
    }
}

fn traffic(comm: &Comm, traffic: &Traffic) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut model = Model::new(traffic, me, size);
    let mut mine = plan(traffic, me, size).peekable();
    let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(traffic.seed ^ 0xd1ce << 20 ^ me as u64));
    let mut sends = Vec::new();
    for round in 0..traffic.rounds {
        model.begin_round(round);
        // Some of the round's messages find their receives posted.
        let batch = post(comm, &model, &mut dice, 60)?;
        while let Some(planned) = mine.next_if(|planned| planned.round == round) {
            let data = compose(me, &planned);
            sends.push(match planned.synchronous {
                true => comm.issend(data, planned.to, planned.tag)?,
                false => comm.isend(data, planned.to, planned.tag)?,
            });
        }
        complete(&mut model, batch)?;
        // The last round leaves nothing; the others leave something to wait for long.
        let rest = if round + 1 == traffic.rounds { 0 } else { model.available() / 4 };
        while model.available() > rest {
            if dice.below(4) == 0 {
                let batch = post(comm, &model, &mut dice, 20)?;
                complete(&mut model, batch)?;
            } else {
                receive_one(comm, &mut model, &mut dice)?;
            }
        }
    }
    check!(model.lists.iter().all(VecDeque::is_empty), "messages are left over");
    check!(mine.next().is_none(), "messages were not sent");
    wait_all(sends)?;
    Ok(())
}

type Posted = Vec<((Source, TagMatch), treepie::Request<'static, (Vec<u8>, Status)>)>;

/// Posts up to `most` receives for as many messages: specific ones, then half specific ones, then any.
fn post(comm: &Comm, model: &Model, dice: &mut Dice, most: usize) -> Outcome<Posted> {
    let available = model.available();
    let count = dice.below(most.min(available) + 1);
    // Different messages: every `stride`th from a random one on.
    let (first, stride) = (dice.below(available.max(1)), (available / count.max(1)).max(1));
    let any_source_in_the_middle = dice.below(2) == 0;
    let (middle, last) = (dice.below(count + 1), dice.below(count + 1));
    let (middle, last) = (middle.min(last), middle.max(last));
    let mut posted = Vec::new();
    for i in 0..count {
        let (source, tag) = model.pick((first + i * stride) % available);
        let specific = (Source::Rank(source), TagMatch::Tag(tag));
        let asked = match i {
            _ if i < middle => specific,
            _ if i >= last => (ANY_SOURCE, ANY_TAG),
            _ if any_source_in_the_middle => (ANY_SOURCE, specific.1),
            _ => (specific.0, ANY_TAG),
        };
        posted.push((asked, comm.irecv_vec::<u8>(asked.0, asked.1)?));
    }
    Ok(posted)
}

fn complete(model: &mut Model, posted: Posted) -> Outcome {
    let (asked, requests): (Vec<_>, Vec<_>) = posted.into_iter().unzip();
    for (asked, (got, status)) in asked.into_iter().zip(wait_all(requests)?) {
        model.check(asked, &got, status)?;
    }
    Ok(())
}

/// Receives one message in one of the ways there are.
fn receive_one(comm: &Comm, model: &mut Model, dice: &mut Dice) -> Outcome {
    let (source, tag) = model.pick(dice.below(model.available()));
    let source = if dice.below(2) == 0 { ANY_SOURCE } else { Source::Rank(source) };
    let tag = if dice.below(2) == 0 { ANY_TAG } else { TagMatch::Tag(tag) };
    let (got, status) = match dice.below(6) {
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
            until(comm, "a message that improbe finds", || {
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
            until(comm, "the end of a receive", || {
                result = request.test().transpose()?;
                Ok(result.is_some())
            })?;
            result.expect("it has ended")
        }
    };
    model.check((source, tag), &got, status)
}

/// Random reads, writes and additions, each rank on elements of its own at every rank.
fn random_window(comm: &Comm) -> Outcome {
    const EACH: usize = 16;
    let (me, size) = (comm.rank(), comm.size());
    let window = comm.window::<u64>(size * EACH)?;
    let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(me as u64));
    let mut known = vec![[0u64; EACH]; size];
    for _ in 0..6000 / size {
        let (rank, slot) = (dice.below(size), dice.below(EACH));
        let place = me * EACH + slot;
        match dice.below(3) {
            0 => {
                let count = 1 + dice.below(EACH - slot);
                let data: Vec<u64> = (0..count).map(|_| dice.0.next_u64()).collect();
                window.put(rank, place, &data)?;
                window.flush()?;
                known[rank][slot..slot + count].copy_from_slice(&data);
            }
            1 => {
                let value = dice.0.next_u64();
                let old = window.fetch_add(rank, place, value)?;
                check_eq!(old, known[rank][slot], "what fetch_add found at rank {rank}");
                known[rank][slot] = old.wrapping_add(value);
            }
            _ => {
                let mut got = vec![0; EACH - slot];
                window.get(rank, place, &mut got)?;
                check_eq!(got, known[rank][slot..], "what get found at rank {rank}");
            }
        }
    }
    window.fence()?;
    for (rank, known) in known.iter().enumerate() {
        let mut got = [0; EACH];
        window.get(rank, me * EACH, &mut got)?;
        check_eq!(got, *known, "what is at rank {rank} in the end");
    }
    Ok(window.free()?)
}
