//! Sparse exchanges, in which no rank knows who will send to it, with every protocol.
//!
//! The number of a round determines what each rank sends, so every rank can compute what it must receive: from whom, in
//! which order, and every element.

mod concurrent;
mod handled;
mod isolation;
mod networks;
mod patterns;
mod refused;
mod rounds;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{Comm, Error, Pod, Rank, Received, Result, SparseExchange};
use treepie_base::environment::EMULATE;

use crate::check::{Failure, Outcome, check, check_eq};
use crate::payload::{bytes, seed};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("exchanges/available-protocols", 1, available_protocols).of_world(),
    Case::new("exchanges/any-number-of-neighbors", 1, patterns::neighbors),
    Case::new("exchanges/any-number-of-neighbors-in-the-world", 1, patterns::neighbors).of_world(),
    Case::new("exchanges/several-messages-to-one-rank", 1, patterns::several),
    Case::new("exchanges/several-messages-to-one-rank-in-the-world", 1, patterns::several).of_world(),
    Case::new("exchanges/one-sends-or-receives-everything", 1, patterns::skewed),
    Case::new("exchanges/nothing-oneself-and-empty-messages", 1, patterns::nothing),
    Case::new("exchanges/very-large-messages-among-short-ones", 1, patterns::large).of_world(),
    Case::new("exchanges/along-the-network", 1, networks::barriers),
    Case::new("exchanges/along-the-network-in-the-world", 1, networks::barriers).of_world(),
    Case::new("exchanges/all-kinds-of-elements", 1, patterns::elements),
    Case::new("exchanges/a-thousand-back-to-back", 1, rounds::back_to_back),
    Case::new("exchanges/a-thousand-back-to-back-in-the-world", 1, rounds::back_to_back).of_world(),
    Case::new("exchanges/another-protocol-each-time", 1, rounds::another_each_time).of_world(),
    Case::new("exchanges/in-the-world-and-on-a-dup-by-turns", 1, rounds::world_and_dup).of_world(),
    Case::new("exchanges/two-communicators-at-once", 1, concurrent::two_communicators),
    Case::new("exchanges/many-at-once-waited-for-in-any-order", 1, concurrent::many),
    Case::new("exchanges/beside-collectives-and-other-exchanges", 1, concurrent::beside_others),
    Case::new("exchanges/beside-others-in-the-world", 1, concurrent::beside_others).of_world(),
    Case::new("exchanges/tested-until-complete", 1, concurrent::tested),
    Case::new("exchanges/isolated-from-messages", 1, isolation::from_messages),
    Case::new("exchanges/isolated-from-messages-in-the-world", 1, isolation::from_messages).of_world(),
    Case::new("exchanges/isolated-from-wildcard-receives", 1, isolation::from_wildcards),
    Case::new("exchanges/messages-handled-on-arrival", 1, handled::once_each).of_world(),
    Case::new("exchanges/handlers-may-communicate", 1, handled::handlers_communicate),
    Case::new("exchanges/a-handler-that-panics", 1, handled::panics),
    Case::new("exchanges/a-handler-that-panics-in-the-world", 1, handled::panics).of_world(),
    Case::new("exchanges/persistent-patterns", 1, handled::pattern),
    Case::new("exchanges/persistent-patterns-refuse-other-ranks", 1, handled::pattern_refuses),
    Case::new("exchanges/a-destination-that-does-not-exist", 1, refused::destination),
    Case::new("exchanges/a-destination-that-does-not-exist-in-the-world", 1, refused::destination).of_world(),
    Case::new("exchanges/a-destination-that-does-not-exist-nonblocking", 1, refused::destination_begun),
    Case::new("exchanges/refused-again-and-again-in-the-world", 1, refused::again_and_again).of_world(),
    Case::new("exchanges/refused-by-another-protocol-each-time-in-the-world", 1, refused::alternating_protocols)
        .of_world(),
    Case::new("exchanges/one-aborts-long-before-the-others", 2, refused::long_before).of_world(),
    Case::new("exchanges/different-protocols-are-an-error", 2, refused::different).of_world(),
    Case::new("exchanges/different-protocols-are-an-error-on-a-dup", 2, refused::different),
    Case::new("exchanges/elements-of-another-size", 1, refused::elements),
    Case::new("exchanges/elements-of-another-size-in-the-world", 1, refused::elements).of_world(),
    Case::new("exchanges/unknown-protocols", 1, refused::unknown_protocols),
];

const PROTOCOL_IDS: [&str; 8] = [
    "exchange/auto",
    "exchange/pex",
    "exchange/pcx",
    "exchange/rsx",
    "exchange/nbx",
    NEEDS_ENGINE_BARRIER,
    "exchange/nbx:condition=2",
    "exchange/crystal",
];

const AUTO: &str = "exchange/auto";

/// The protocol that needs an engine barrier and has no nonblocking form.
const NEEDS_ENGINE_BARRIER: &str = "exchange/nbx:condition=1";

/// Calls `body` for each protocol that this communicator supports, with a handle that uses it.
fn for_each_protocol(comm: &Comm, mut body: impl FnMut(&Comm) -> Outcome) -> Outcome {
    for (id, using) in handles(comm)? {
        body(&using).map_err(|failure| failure.context(id))?;
    }
    Ok(())
}

fn handles(comm: &Comm) -> Outcome<Vec<(&'static str, Comm)>> {
    let mut handles = Vec::new();
    for id in PROTOCOL_IDS {
        let using = comm.with_algorithm(id)?;
        match using.exchange(NOTHING) {
            Ok(received) => {
                check_eq!(received, Vec::new(), "messages of an empty exchange with {id}");
                handles.push((id, using));
            }
            Err(Error::Algorithm(text)) if id == NEEDS_ENGINE_BARRIER => {
                check!(text.contains(id) && text.contains("barrier"), "a refusal that does not say why: {text}");
            }
            Err(error) => return Err(Failure::from(error).context(id)),
        }
    }
    Ok(handles)
}

/// The same for the protocols with a nonblocking form.
fn for_each_nonblocking_protocol(comm: &Comm, mut body: impl FnMut(&Comm) -> Outcome) -> Outcome {
    for id in PROTOCOL_IDS.into_iter().filter(|id| *id != NEEDS_ENGINE_BARRIER) {
        body(&comm.with_algorithm(id)?).map_err(|failure| failure.context(id))?;
    }
    Ok(())
}

const NOTHING: [(Rank, Vec<u8>); 0] = [];

/// In the world, engines with shared memory support all protocols, and other engines all but one.
fn available_protocols(world: &Comm) -> Outcome {
    // The engine barrier is of all ranks of the world.
    let has_barrier = ["threads", "shm"].contains(&world.engine()) && world.rank_table_kind() == "all ranks";
    // Emulated links hide what ranks of one machine share.
    let has_barrier = has_barrier && std::env::var_os(EMULATE.name).is_none();
    let found: Vec<&str> = handles(world)?.into_iter().map(|(id, _)| id).collect();
    let want: Vec<&str> = PROTOCOL_IDS.into_iter().filter(|id| has_barrier || *id != NEEDS_ENGINE_BARRIER).collect();
    check_eq!(found, want, "protocols on {}", world.engine());
    Ok(())
}

/// The messages of a rank: destination and number of elements of each.
type Plan = Vec<(Rank, usize)>;

/// Random numbers of a sender and a round, which every rank can reproduce.
struct PlanRng(Xoshiro256PlusPlus);

impl PlanRng {
    fn new(sender: Rank, round: usize) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed(sender, round, 0xd5de)))
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit as u64) as usize
    }
}

/// A message to each of `count` distinct ranks in random order, perhaps including the sender.
fn subset(sender: Rank, round: usize, size: usize, count: usize) -> Plan {
    let mut rng = PlanRng::new(sender, round);
    let mut ranks: Vec<Rank> = (0..size).collect();
    for i in 0..count {
        let other = i + rng.below(size - i);
        ranks.swap(i, other);
    }
    ranks.truncate(count);
    ranks.into_iter().map(|to| (to, length(&mut rng))).collect()
}

/// Up to `max_messages` messages to random ranks.
fn random_plan(sender: Rank, round: usize, size: usize, max_messages: usize) -> Plan {
    let mut rng = PlanRng::new(sender, round);
    (0..rng.below(max_messages + 1)).map(|_| (rng.below(size), length(&mut rng))).collect()
}

/// Mostly short lengths; some are longer than a message that is sent in one piece.
fn length(rng: &mut PlanRng) -> usize {
    match rng.below(20) {
        0 => 0,
        1 => 1000 + rng.below(30_000),
        _ => rng.below(100),
    }
}

/// The messages that a rank sends in a round.
fn messages<T>(plan: &Plan, from: Rank, round: usize, make: fn(u64, usize) -> Vec<T>) -> Vec<(Rank, Vec<T>)> {
    let numbered = plan.iter().enumerate();
    numbered.map(|(number, (to, len))| (*to, make(seed(from, number, round), *len))).collect()
}

/// Checks that a rank received what all ranks sent to it, ordered by source and then by the order of sending.
fn check_received<T: Pod + PartialEq>(
    got: &Received<T>,
    me: Rank,
    round: usize,
    plan_of: &dyn Fn(Rank) -> Plan,
    size: usize,
    make: fn(u64, usize) -> Vec<T>,
) -> Outcome {
    let mut got = got.iter();
    for from in 0..size {
        for (number, (to, len)) in plan_of(from).into_iter().enumerate() {
            if to != me {
                continue;
            }
            let Some((source, data)) = got.next() else {
                return Err(Failure::new(format!("round {round}: message {number} of rank {from} is missing")));
            };
            check_eq!((*source, data.len()), (from, len), "source and length of message {number} of round {round}");
            let same = *data == make(seed(from, number, round), len);
            check!(same, "message {number} of rank {from} in round {round}, of {len} elements, has other data");
        }
    }
    check_eq!(
        got.map(|(from, data)| (*from, data.len())).collect::<Vec<_>>(),
        [],
        "more than was sent in round {round}"
    );
    Ok(())
}

/// Performs one exchange of bytes as planned and checks it.
fn exchange(comm: &Comm, round: usize, plan_of: &dyn Fn(Rank) -> Plan) -> Outcome {
    exchange_of(comm, round, plan_of, bytes)
}

fn exchange_of<T: Pod + PartialEq>(
    comm: &Comm,
    round: usize,
    plan_of: &dyn Fn(Rank) -> Plan,
    make: fn(u64, usize) -> Vec<T>,
) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let got = comm.exchange(messages(&plan_of(me), me, round, make))?;
    check_received(&got, me, round, plan_of, size, make)
}

/// A nonblocking exchange under way.
struct PendingExchange {
    request: treepie::Request<'static, Received<u8>>,
    round: usize,
}

impl PendingExchange {
    /// Starts an exchange in which each rank sends at most `max_messages` messages.
    fn new(comm: &Comm, round: usize, max_messages: usize) -> Result<Self> {
        let (me, size) = (comm.rank(), comm.size());
        let request = comm.iexchange(messages(&random_plan(me, round, size, max_messages), me, round, bytes))?;
        Ok(Self { request, round })
    }

    fn wait(self, comm: &Comm, max_messages: usize) -> Outcome {
        let (me, size, round) = (comm.rank(), comm.size(), self.round);
        let plan_of = |from| random_plan(from, round, size, max_messages);
        check_received(&self.request.wait()?, me, round, &plan_of, size, bytes)
    }
}

/// `count` rounds, or fewer where ranks share cores and messages are expensive; more in long runs.
fn rounds(comm: &Comm, count: usize) -> usize {
    let cost = if comm.engine() == "mpi" { 4 } else { 1 };
    let rounds = count * 8 / (comm.size() * cost).max(8);
    if std::env::var_os("TREEPIE_LONG").is_some() { count.max(8 * rounds) } else { rounds.max(count / 16).max(1) }
}

/// The first third where ranks share cores and messages are expensive; all in long runs.
fn first_few<T>(comm: &Comm, all: Vec<T>) -> Vec<T> {
    let is_expensive = comm.size() > 8 || comm.engine() == "mpi" && comm.size() > 3;
    let is_short = std::env::var_os("TREEPIE_LONG").is_none();
    let limit = if is_expensive && is_short { all.len().div_ceil(3) } else { all.len() };
    all.into_iter().take(limit).collect()
}

/// Checks that all ranks are in step, by exchanges with this and other protocols, and barriers of all kinds.
fn check_usable(comm: &Comm, round: usize) -> Outcome {
    let size = comm.size();
    let plan = |from| random_plan(from, round, size, 4);
    comm.barrier()?;
    for again in 0..3 {
        exchange(comm, round + again, &|from| random_plan(from, round + again, size, 4))?;
    }
    comm.ibarrier()?.wait()?;
    for id in ["exchange/nbx", "exchange/rsx"] {
        exchange(&comm.with_algorithm(id)?, round, &plan)
            .map_err(|failure| failure.context(format!("{id} afterwards")))?;
    }
    comm.barrier()?;
    exchange(comm, round, &plan)
}
